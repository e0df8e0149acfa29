# pyright: basic
"""Invariants: each is broken by a trace written for it, and that breaks no other; all hold on recordings."""

from pathlib import Path

import pytest

from kubelet_emu.bugs import list_bugs
from kubelet_emu.lab.invariants import INVARIANTS, Monitor, check_trace
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.trace import Trace

SCENARIOS = builtin_scenarios()


class Story:
    """Writes a trace record by record; ``begin`` gives a call a beginning before other records."""

    def __init__(self, *, policy="Always", init=(), regular=("main",), ephemeral=(), pod="p"):
        self.records = []
        self.seq = 0
        self.pod = pod
        self.states = {}
        self.spec = {
            "restartPolicy": policy,
            "initContainers": [self._container(one) for one in init],
            "containers": [self._container(one) for one in regular],
            "ephemeralContainers": [self._container(one) for one in ephemeral],
        }
        self.add("action", do="create", object={"kind": "Pod", "metadata": {"name": pod}, "spec": self.spec})

    @staticmethod
    def _container(one):
        return {"name": one, "image": "busybox"} if isinstance(one, str) else {"image": "busybox", **one}

    def begin(self):
        self.seq += 1
        return self.seq

    def add(self, kind, **fields):
        self.seq += 1
        record = {"t": self.seq / 10, "k": kind, "seq": self.seq, "pod": self.pod, **fields}
        if kind == "cri":
            record = {"dt": 0.0, "end": self.seq, **record}
        self.records.append(record)
        return self

    def cri(self, method, **fields):
        return self.add("cri", m=method, **fields)

    def sandbox(self, number=0):
        self.label = f"{self.pod}/sandbox#{number}"
        return self.cri("RunPodSandbox", sandbox=self.label)

    def stop_sandbox(self, number=0, **fields):
        return self.cri("StopPodSandbox", sandbox=f"{self.pod}/sandbox#{number}", **fields)

    def create(self, name, number=0, **fields):
        label = f"{name}#{number}"
        return self.cri(
            "CreateContainer", container=label, name=name, attempt=number, sandbox=self.label, **fields
        )

    def start(self, name, number=0):
        return self.create(name, number).cri("StartContainer", container=f"{name}#{number}")

    def exits(self, name, code, number=0):
        return self.add("process", do="exit", container=f"{name}#{number}", code=code)

    def stop(self, name, number=0, **fields):
        return self.cri("StopContainer", container=f"{name}#{number}", timeout="2", **fields)

    def remove(self, name, number=0):
        return self.cri("RemoveContainer", container=f"{name}#{number}")

    def snapshot(self, phase="Running", *, counts=None, devices=None, **fields):
        containers = {
            name: {
                "kind": "regular",
                "state": "running",
                "restartCount": count,
                "ready": True,
                "started": True,
            }
            for name, count in (counts or {}).items()
        }
        for name, ids in (devices or {}).items():
            shown = containers.setdefault(name, {"kind": "regular", "state": "running", "restartCount": 0})
            resources = [{"resourceID": one, "health": "Healthy"} for one in ids]
            shown["allocatedResourcesStatus"] = [{"name": "gpu", "resources": resources}]
        return self.add("pod", **{"phase": phase, "conditions": {}, "containers": containers, **fields})

    def allocated(self, name, *ids, **inputs):
        given = {"container": name, "resource": "gpu", "limit": len(ids), **inputs}
        return self.add(
            "decision", machine="devicemanager", rules=[], inputs=given, outcome={"devices": list(ids)}
        )

    def plugin(self, do, **fields):
        return self.add("plugin", resource="gpu", do=do, **fields)

    def device_call(self, method, name, *ids):
        return self.add("device", method=method, resource="gpu", container=name, ids=list(ids))

    def of(self, pod):
        self.pod = pod
        return self

    def broken(self):
        monitor = Monitor(lifted=[bug.id for bug in list_bugs()])
        for record in self.records:
            monitor.feed(record)
        return {violation.invariant: violation for violation in monitor.violations}


RESTART_ALL = {
    "name": "main",
    "restartPolicy": "Never",
    "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    ],
}


def ready(story, number, ip, **fields):
    sandbox = f"{story.pod}/sandbox#{number}"
    return story.cri("PodSandboxStatus", sandbox=sandbox, state="ready", ip=ip, poll=True, **fields)


BREAKING = {
    "one-ready-sandbox": lambda: Story().sandbox().sandbox(1),
    "sandbox-kept": lambda: Story().sandbox().start("main").stop_sandbox(),
    "identity-kept": lambda: Story().sandbox().snapshot(ip="ip-1", uid="u").snapshot(ip="ip-2", uid="u"),
    "addresses-unique": lambda: ready(ready(Story().sandbox(), 0, "ip-1").of("q").sandbox(), 0, "ip-1"),
    "volumes-kept": lambda: (
        Story()
        .sandbox()
        .create("main", mounts={"/work": "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/a"})
        .create("main", 1, mounts={"/work": "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/b"})
    ),
    "devices-kept": lambda: Story().snapshot(devices={"main": ["0"]}).snapshot(devices={"main": ["1"]}),
    "devices-exclusive": lambda: (
        Story().snapshot(devices={"main": ["0"]}).of("q").snapshot(devices={"main": ["0"]})
    ),
    "devices-disjoint": lambda: (
        Story(regular=("main", "other")).allocated("main", "0").allocated("other", "0")
    ),
    "devices-counted": lambda: Story(
        regular=({"name": "main", "resources": {"limits": {"gpu": "2"}}},)
    ).allocated("main", "0"),
    "allocate-once": lambda: (
        Story().device_call("Allocate", "main", ["0"]).device_call("Allocate", "main", ["0"])
    ),
    "pre-start-at-create": lambda: (
        Story().plugin("registered", preStart=True).allocated("main", "0").sandbox().create("main")
    ),
    "device-books": lambda: (
        Story()
        .plugin("listed", healthy=1, unhealthy=0)
        .add("node", name="n", capacity={"gpu": "1"}, allocatable={"gpu": "2"})
    ),
    "one-running-instance": lambda: Story().sandbox().start("main").start("main", 1),
    "init-in-order": lambda: Story(init=("first", "second")).sandbox().start("second"),
    "regular-after-init": lambda: (
        Story(init=("first",)).sandbox().start("first").exits("first", 1).start("main")
    ),
    "no-start-after-termination": lambda: (
        Story()
        .sandbox()
        .snapshot(deleting=5)
        .add("decision", machine="podworkers", rules=[], outcome={"startedTerminating": True})
        .create("main")
    ),
    "counts-never-fall": lambda: Story().snapshot(counts={"main": 2}).snapshot(counts={"main": 1}),
    "terminal-is-final": lambda: Story().snapshot("Failed").snapshot("Running"),
    "restart-by-rule": lambda: (
        Story(policy="Never").sandbox().start("main").exits("main", 1).start("main", 1)
    ),
    "reset-by-trigger": lambda: (
        Story(policy="Never", regular=(RESTART_ALL,)).sandbox().start("main").exits("main", 3).remove("main")
    ),
    "reset-complete": lambda: (
        Story(regular=({**RESTART_ALL}, "other"))
        .sandbox()
        .start("main")
        .start("other")
        .exits("main", 42)
        .remove("main")
        .start("main", 1)
    ),
    "restarts-counted": lambda: seen(
        seen(Story().sandbox().start("main"), 0).exits("main", 1).start("main", 1), 1
    ),
    "removed-stays-ended": lambda: removed_by_somebody(
        Story(policy="Never", regular=("main", "other")).sandbox().start("main").exits("main", 0)
    ).start("main", 1),
    "running-stays-admitted": lambda: refused(Story().sandbox().start("main")),
    "success-is-its-own": lambda: (
        Story(policy="OnFailure").sandbox().start("main").stop("main").exits("main", 0).snapshot("Succeeded")
    ),
}


def seen(story, number):
    shown = {"kind": "regular", "state": "running", "restartCount": 0, "id": f"main#{number}"}
    return story.snapshot(containers={"main": shown})


def removed_by_somebody(story):
    return story.add("action", do="remove-container", container="main#0")


def refused(story):
    return story.add(
        "decision",
        machine="admission",
        rules=[],
        inputs={},
        outcome={"refused": "UnexpectedAdmissionError"},
    )


def test_every_invariant_has_a_trace_that_breaks_it():
    assert set(BREAKING) == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize("name", BREAKING)
def test_a_trace_that_breaks_it(name):
    broken = BREAKING[name]().broken()
    assert set(broken) == {name}
    assert broken[name].message
    assert str(broken[name]).startswith(f"{name} (")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_all_hold_on_the_recordings_of_a_real_node(scenario):
    for recording in load_recordings(scenario.id):
        monitor = check_trace(recording, objects={scenario.pod_name: scenario.pod})
        assert monitor.violations == []


def test_each_is_judged_somewhere_in_the_recordings():
    judged = dict.fromkeys((invariant.name for invariant in INVARIANTS), 0)
    for scenario in SCENARIOS:
        monitor = check_trace(load_recordings(scenario.id)[0], objects={scenario.pod_name: scenario.pod})
        for verdict in monitor.verdicts():
            judged[verdict.name] += verdict.judged
    for name in IN_OUR_TRACES_ONLY:
        del judged[name]
    assert min(judged.values()) > 30


IN_OUR_TRACES_ONLY = ("allocate-once", "device-books", "running-stays-admitted")
"""A recording does not say for which container a plugin was called, what a node offered, whom it let in."""


def test_a_removal_that_failed_may_have_been_done():
    story = (
        Story(regular=(RESTART_ALL, "other"))
        .sandbox()
        .start("main")
        .start("other")
        .exits("other", 1)
        .exits("main", 42)
    )
    lost = {"container": "other#0", "code": "UNAVAILABLE"}
    story.cri("RemoveContainer", **lost).remove("main").start("other", 1).start("main", 1)
    assert story.broken() == {}


OLD_SANDBOX = (
    ("RST-045", lambda: Story(init=("first",)).sandbox().start("first").exits("first", 0).create("main")),
    (
        "RST-081",
        lambda: (
            Story(init=("first", "second"))
            .sandbox()
            .start("first")
            .exits("first", 0)
            .start("second")
            .exits("second", 0)
        ),
    ),
)


@pytest.mark.parametrize(("rule", "begun"), OLD_SANDBOX)
def test_what_an_earlier_sandbox_left_behind_is_exempt_by_its_rule(rule, begun):
    story = begun().stop_sandbox().sandbox(1).start("first", 1).start("main", 1)
    monitor = Monitor()
    for record in story.records:
        monitor.feed(record)
    assert monitor.violations == []
    assert {(one.invariant, one.exempt) for one in monitor.exempted} == {("regular-after-init", rule)}


@pytest.mark.parametrize(
    ("limits", "blind", "rule"),
    [
        ({"vendor.com/gpu": "1"}, False, "DEV-112"),
        ({"cpu": "1"}, True, "DEV-113"),
    ],
)
def test_a_refusal_of_a_running_pod_is_exempt_where_its_devices_or_the_runtime_were_away(limits, blind, rule):
    init = {"name": "setup", "resources": {"limits": limits}}
    story = Story(init=(init,)).sandbox().start("setup").exits("setup", 0).start("main")
    if blind:
        story.cri("ListContainers", code="UNAVAILABLE")
    refused(story.add("checkpoint", do="read"))
    monitor = Monitor()
    for record in story.records:
        monitor.feed(record)
    assert monitor.violations == []
    assert [one.exempt for one in monitor.exempted] == [rule]


def test_dev_202_what_is_marked_must_be_accounted_for():
    fine = Story().allocated("main", "0", inUse=3, held=2, stray=1)
    assert fine.broken() == {}
    assert set(fine.allocated("main", "1", inUse=4, held=2, stray=1).broken()) == {"device-books"}


@pytest.mark.parametrize("count", [2, 0], ids=["other", "none"])
def test_dev_202_capacity_is_what_was_listed(count):
    story = Story().plugin("listed", healthy=1, unhealthy=2)
    assert story.add("node", capacity={"gpu": "3"}, allocatable={"gpu": "1"}).broken() == {}
    wrong = story.add("node", capacity={"gpu": str(count)}, allocatable={"gpu": "0"})
    assert set(wrong.broken()) == {"device-books"}


def test_dev_202_a_lost_checkpoint_excuses_another_allocation():
    story = Story().device_call("Allocate", "main", ["0"]).snapshot(devices={"main": ["0"]})
    story.add("checkpoint", do="missing")
    story.device_call("Allocate", "main", ["1"]).snapshot(devices={"main": ["1"]})
    assert story.of("q").snapshot(devices={"main": ["0"]}).broken() == {}


def test_dev_102_one_call_before_each_creation_is_enough():
    story = Story().plugin("registered", preStart=True).allocated("main", "0").sandbox()
    story.device_call("PreStartContainer", "main", "0").create("main")
    assert story.broken() == {}
    assert set(story.create("main", 1).broken()) == {"pre-start-at-create"}


def test_dev_202_h_one_call_for_each_attempt_and_no_more():
    def told(story):
        return story.device_call("PreStartContainer", "main", "0")

    story = told(Story().plugin("registered", preStart=True).allocated("main", "0").sandbox())
    story.add("requeue", about="error", rule="POD-514", seconds=1.0)  # no ConfigMap: nothing was created
    assert told(story).create("main").broken() == {}
    assert set(told(told(story)).create("main", 1).broken()) == {"pre-start-at-create"}


def test_dev_202_i_limits_are_quantities():
    story = Story(regular=({"name": "main", "resources": {"limits": {"gpu": "1k"}}},))
    assert story.allocated("main", *map(str, range(1000))).broken() == {}


def test_dev_104_a_plugin_that_is_gone_is_not_called():
    story = Story().plugin("registered", preStart=True).allocated("main", "0").sandbox()
    assert story.plugin("lost").create("main").broken() == {}


SIDECAR = {"name": "side", "restartPolicy": "Always"}
ON_FAILURE = {"name": "main", "restartPolicy": "OnFailure"}
RULE = {
    "name": "main",
    "restartPolicy": "Never",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [3]}}],
}


def again(code, *, reason="", **story):
    """A container that exits with a code and is started again in the same sandbox."""
    return (
        Story(**story)
        .sandbox()
        .start("main")
        .add("process", do="exit", container="main#0", code=code, reason=reason)
        .start("main", 1)
    )


@pytest.mark.parametrize(
    ("make", "ok"),
    [
        pytest.param(lambda: again(0, policy="Always"), True, id="RST-022-always"),
        pytest.param(lambda: again(0, policy="OnFailure"), False, id="RST-022-onfailure-succeeded"),
        pytest.param(lambda: again(1, policy="OnFailure"), True, id="RST-022-onfailure-failed"),
        pytest.param(lambda: again(1, policy="Never", regular=(ON_FAILURE,)), True, id="RST-022-own-policy"),
        pytest.param(lambda: again(4, policy="Never", regular=(RULE,)), True, id="RST-022-rule"),
        pytest.param(lambda: again(3, policy="Always", regular=(RULE,)), False, id="RST-022-no-rule"),
        pytest.param(
            lambda: (
                Story(policy="Never").sandbox().start("main").exits("main", 1).remove("main").start("main", 1)
            ),
            True,
            id="RST-024-no-instance",
        ),
        pytest.param(
            lambda: (
                Story(policy="Never")
                .sandbox()
                .start("main")
                .exits("main", 1)
                .stop_sandbox()
                .sandbox(1)
                .start("main", 1)
            ),
            True,
            id="RST-034-new-sandbox",
        ),
        pytest.param(
            lambda: (
                Story(policy="OnFailure", regular=("main", "other"))
                .sandbox()
                .start("main")
                .exits("main", 0)
                .stop_sandbox()
                .sandbox(1)
                .start("main", 1)
            ),
            False,
            id="RST-034-run-once",
        ),
        pytest.param(
            lambda: (
                Story(policy="OnFailure")
                .sandbox()
                .start("main")
                .stop("main")
                .exits("main", 0)
                .start("main", 1)
            ),
            True,
            id="RST-058-killed-by-probe",
        ),
        pytest.param(
            lambda: (
                Story(policy="Never").sandbox().start("main").stop("main").exits("main", 137).start("main", 1)
            ),
            False,
            id="RST-058-never",
        ),
        pytest.param(
            lambda: (
                Story(policy="Never", init=(SIDECAR,))
                .sandbox()
                .start("side")
                .exits("side", 0)
                .start("side", 1)
            ),
            True,
            id="RST-027-sidecar",
        ),
        pytest.param(
            lambda: (
                Story(init=({"name": "first"},)).sandbox().start("first").exits("first", 0).start("first", 1)
            ),
            False,
            id="RST-028-init-succeeded",
        ),
        pytest.param(
            lambda: (
                Story(policy="Always", ephemeral=("debug",))
                .sandbox()
                .start("debug")
                .exits("debug", 1)
                .start("debug", 1)
            ),
            False,
            id="RST-041-ephemeral",
        ),
    ],
)
def test_restarts_that_rules_allow_and_forbid(make, ok):
    assert ("restart-by-rule" not in make().broken()) is ok


def test_a_changed_image_restarts_a_container_whatever_its_policy():
    story = Story(policy="Never").sandbox().start("main").stop("main").exits("main", 0)
    changed = {**story.spec, "containers": [{"name": "main", "image": "busybox:2"}]}
    assert story.snapshot(spec=changed).start("main", 1).broken() == {}


def test_a_restart_of_all_containers_begins_initialisation_again():
    def reset():
        return (
            Story(policy="Never", init=("first",), regular=(RESTART_ALL,))
            .sandbox()
            .start("first")
            .exits("first", 0)
            .start("main")
            .exits("main", 42)
            .remove("first")
            .remove("main")
        )

    assert reset().start("first", 1).exits("first", 0, 1).start("main", 1).broken() == {}
    assert set(reset().start("main", 1).broken()) == {"regular-after-init"}
    assert set(reset().stop_sandbox().broken()) == {"sandbox-kept"}


def test_a_restart_of_a_regular_container_needs_no_new_initialisation():
    story = (
        Story(init=("first", SIDECAR)).sandbox().start("first").exits("first", 0).start("side").start("main")
    )
    assert story.exits("main", 1).remove("first").start("main", 1).broken() == {}


def test_an_init_container_beside_a_regular_one():
    story = Story(init=("first",)).sandbox().start("first").exits("first", 0).start("main").remove("first")
    assert set(story.start("first", 1).broken()) == {"init-in-order", "removed-stays-ended"}


def test_a_start_in_flight_when_termination_is_acknowledged_is_no_violation():
    story = Story().sandbox().create("main")
    begun = story.begin()
    outcome = {"startedTerminating": True}
    story.add("decision", machine="podworkers", rules=[], outcome=outcome)
    story.cri("StartContainer", container="main#0", seq=begun)
    assert story.broken() == {}
    assert set(story.create("other").broken()) == {"no-start-after-termination"}


def test_a_pod_deleted_with_grace_0_may_still_be_started_by_the_sync_under_way():
    story = Story().snapshot("Pending", uid="u1").snapshot("Pending", uid="u1", deleted=True).sandbox()
    assert story.start("main").broken() == {}
    story.add("decision", machine="podworkers", rules=[], outcome={"startedTerminating": True})
    assert set(story.create("other").broken()) == {"no-start-after-termination"}


def test_rst_034_what_ran_when_its_sandbox_was_given_up_starts_again_in_the_new_one():
    story = Story(policy="OnFailure").sandbox().start("main").stop("main").exits("main", 0)
    assert story.stop_sandbox().sandbox(1).start("main", 1).broken() == {}


def test_rst_024_a_runtime_that_loses_its_state_lets_everything_run_again():
    story = Story(policy="Never").sandbox().start("main").exits("main", 0)
    story.add("action", do="fault", text="crash runtime lose-state")
    assert story.sandbox(1).start("main").broken() == {}


def test_a_pod_of_the_same_name_starts_afresh():
    story = Story().sandbox().start("main").snapshot("Failed", uid="u1", counts={"main": 3}, ip="ip-1")
    story.stop("main").stop_sandbox().snapshot("Failed", uid="u1", deleted=True)
    story.snapshot("Pending", uid="u2", counts={"main": 0}).sandbox().start("main")
    assert story.snapshot("Running", uid="u2", ip="ip-2").broken() == {}


def test_late_news_of_a_finished_pod_do_not_end_its_successor():
    story = Story().sandbox().start("main").snapshot("Failed", uid="u1")
    story.stop("main").stop_sandbox().snapshot("Failed", uid="u1", deleted=True)
    story.snapshot("Pending", uid="u2")
    finished = {"state": "finished", "startedTerminating": True}
    story.add("decision", machine="podworkers", rules=[], inputs={"update": "kill"}, outcome=finished)
    assert story.sandbox().start("main").broken() == {}
    story.add("decision", machine="podworkers", rules=[], inputs={"ran": "terminated"}, outcome=finished)
    assert set(story.create("main", 1).broken()) == {"no-start-after-termination"}


def test_another_uid_while_the_pod_is_there():
    story = Story().snapshot(uid="u1").snapshot(uid="u2")
    assert set(story.broken()) == {"identity-kept"}


def test_addresses_are_free_again_once_their_sandbox_is_stopped():
    story = ready(Story().sandbox(), 0, "ip-1").stop_sandbox().of("q").sandbox()
    assert ready(story, 0, "ip-1").broken() == {}
    on_host = ready(
        ready(Story().sandbox(), 0, "h", hostNetwork=True).of("q").sandbox(), 0, "h", hostNetwork=True
    )
    assert on_host.broken() == {}


def test_a_device_is_free_again_once_its_pod_has_ended():
    story = Story().snapshot(devices={"main": ["0"]}).snapshot("Succeeded", devices={"main": ["0"]})
    assert story.of("q").snapshot(devices={"main": ["0"]}).broken() == {}


def test_a_new_sandbox_after_the_old_one_died_is_no_violation():
    story = Story().sandbox().start("main").exits("main", 137)
    story.cri("PodSandboxStatus", sandbox="p/sandbox#0", state="notready", poll=True)
    assert story.stop_sandbox().sandbox(1).start("main", 1).broken() == {}


def test_a_whole_trace_is_judged_with_calls_at_their_end():
    story = Story().sandbox()
    begun = story.begin()
    story.exits("main", 1)
    story.create("main", seq=begun)
    assert check_trace(Trace({"k": "header", "format": 1}, tuple(story.records))).violations == []


def test_the_documentation_lists_every_invariant():
    text = (Path(__file__).parents[2] / "docs" / "invariants.md").read_text(encoding="utf-8")
    for invariant in INVARIANTS:
        assert f"| `{invariant.name}` | {', '.join(invariant.rules)} | {invariant.text} |" in text


def test_a_broken_run_does_not_pile_up_violations():
    monitor = Monitor()
    story = Story()
    for number in range(3_000):
        story.snapshot(counts={"main": number % 2})
    for record in story.records:
        monitor.feed(record)
    assert len(monitor.violations) == 1_000
    (verdict,) = [one for one in monitor.verdicts() if not one.holds]
    assert verdict.name == "counts-never-fall"


def books_after_a_restart(*capacities):
    """What the books of a node say that lists 2 devices, starts a new kubelet and then writes its object."""
    monitor = Monitor()
    records = [
        {"k": "plugin", "resource": "r", "do": "listed", "healthy": 1, "unhealthy": 1},
        {"k": "node", "name": "n", "capacity": {"r": "2"}, "allocatable": {"r": "1"}},
        {"k": "checkpoint", "do": "read"},
    ]
    for capacity in capacities:
        offered = {"r": str(capacity)}
        records.append({"k": "node", "name": "n", "capacity": offered, "allocatable": offered})
    return [
        violation.invariant
        for seq, record in enumerate(records)
        for violation in monitor.feed({"t": 0.0, "seq": seq, **record})
    ]


def test_the_capacity_of_the_kubelet_before_stays_until_a_plugin_has_listed():
    assert books_after_a_restart(2, 2, 0) == []
    assert books_after_a_restart(3) == ["device-books"]


def test_devices_of_a_pod_that_admission_refused_are_free():
    def allocated(pod):
        return {
            "k": "decision",
            "machine": "devicemanager",
            "pod": pod,
            "inputs": {"container": "c", "resource": "r"},
            "outcome": {"devices": ["d"]},
        }

    refusal = {"k": "decision", "machine": "admission", "pod": "a", "outcome": {"refused": "x"}}
    for records, found in (
        ([allocated("a"), refusal, allocated("b")], []),
        ([allocated("a"), allocated("b")], ["devices-exclusive"]),
    ):
        monitor = Monitor()
        told = [
            violation.invariant
            for seq, record in enumerate(records)
            for violation in monitor.feed({"t": 0.0, "seq": seq, **record})
        ]
        assert told == found


def test_an_instance_whose_creation_seemed_to_fail_may_be_the_last_one():
    story = Story().sandbox().start("main").exits("main", 1)
    story.cri("CreateContainer", container="main#1", name="main", code="UNAVAILABLE")
    assert story.remove("main").broken() == {}
