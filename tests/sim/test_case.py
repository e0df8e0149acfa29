# pyright: basic
"""Cases: their file, and what is refused."""

import pytest
import yaml

from kubelet_emu.errors import CallerError
from kubelet_emu.sim import Case, Step, case_from_json, case_to_json, case_to_yaml, steps

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}


def test_a_case_is_read_as_it_was_written():
    case = Case(
        documents=(POD,),
        behaviours={"containers": {"m": {"exitCode": 1, "runFor": "3s"}}},
        gates={"EventedPLEG": True},
        devices="h100x8",
        plan=steps(["@5s crash kubelet", "@0s after 3 CreateContainer calls crash runtime"]),
        seed=9,
        schedule="priority:3",
        duration_seconds=90.0,
        bugs=("B1",),
        fixes=("F1",),
    )
    assert case_from_json(case_to_json(case)) == case
    assert case_from_json(yaml.safe_load(case_to_yaml(case))) == case
    assert case_to_json(Case(documents=(POD,))) == {
        "kubelet-emu-case": 1,
        "seed": 0,
        "schedule": "uniform",
        "duration": 60.0,
        "documents": [POD],
    }


def test_a_step_is_kept_in_its_normal_form():
    step = Step(at_seconds=5, text="crash   runtime keep-state")
    assert str(step) == "@5s crash runtime"
    assert Step.parse(str(step)) == step
    assert Step.parse("@5s reboot node").ends_seconds == 15.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kubelet-emu-case": 2}, "format 2 is not known"),
        ({"seed": -1}, "seed: must be from 0"),
        ({"seed": True}, "seed: True does not fit"),
        ({"schedule": "random"}, "schedule: 'random' is no schedule"),
        ({"duration": 0}, "duration: must be over 0"),
        ({"plan": ["@5s explode", 3]}, "plan: '@5s explode'"),
        ({"plan": "@5s crash kubelet"}, "plan: '@5s crash kubelet' does not fit"),
        ({"documents": [{"kind": "Pod"}]}, "documents: [{'kind': 'Pod'}] does not fit"),
        ({"documents": []}, "there is no Pod"),
        ({"more": 1}, "there is no field 'more' (known are"),
    ],
)
def test_what_is_wrong_is_said(change, words):
    with pytest.raises(CallerError) as caught:
        case_from_json({"kubelet-emu-case": 1, "documents": [POD], **change}, file="x.yaml")
    if words.startswith("plan: '@5s explode'"):
        words = "'explode' is nothing that can happen"
    assert words in str(caught.value)
