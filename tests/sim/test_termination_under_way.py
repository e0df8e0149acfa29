# pyright: basic
"""A pod that is deleted while a sync of it is under way."""

import yaml

from kubelet_emu.sim import case_from_json, run_case

CASE = """\
kubelet-emu-case: 1
seed: 0
duration: 20.0
plan:
- '@0.25s kill-sandbox p'
- '@1.25s delete pod p'
documents:
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec:
    containers:
    - {name: a, image: 'busybox:1.36', command: [sh, -c, sleep 600]}
"""


def test_pod_516_a_sync_under_way_still_makes_the_new_sandbox_and_starts_what_belongs_into_it():
    """The kill takes the whole grace period, the deletion comes meanwhile; the next sync stops it all."""
    outcome = run_case(case_from_json(yaml.safe_load(CASE)))
    assert outcome.ok, "\n".join(map(str, outcome.violations))
    calls = [record["m"] for record in outcome.records if record["k"] == "cri" and not record.get("poll")]
    assert calls.count("RunPodSandbox") == 2
    last_start = len(calls) - 1 - calls[::-1].index("StartContainer")
    assert calls[last_start + 1] == "StopContainer"
