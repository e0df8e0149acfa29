"""Events between two lists (POD-905, POD-906, POD-911)."""

import pytest

from kubelet_emu.container.runtime import (
    ContainerState,
    RunningContainer,
    RunningPod,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.pleg.diff import PlegState, diff_states, keep_ips, states_of_pod, states_of_status

RUNNING, EXITED, UNKNOWN = PlegState.RUNNING, PlegState.EXITED, PlegState.UNKNOWN


@pytest.mark.parametrize(
    ("old", "new", "types"),
    [
        (None, RUNNING, ["ContainerStarted"]),
        (None, EXITED, ["ContainerDied"]),
        (None, UNKNOWN, ["ContainerChanged"]),
        (RUNNING, RUNNING, []),
        (RUNNING, EXITED, ["ContainerDied"]),
        (RUNNING, UNKNOWN, ["ContainerChanged"]),
        (UNKNOWN, RUNNING, ["ContainerStarted"]),
        (EXITED, RUNNING, ["ContainerStarted"]),
        (EXITED, None, ["ContainerRemoved"]),
        (RUNNING, None, ["ContainerDied", "ContainerRemoved"]),
        (UNKNOWN, None, ["ContainerDied", "ContainerRemoved"]),
    ],
    ids=lambda value: f"POD-906-{value}",
)
def test_events(old, new, types):
    events = diff_states("u", {"c": old} if old else {}, {"c": new} if new else {})
    assert [str(event.type) for event in events] == types
    assert all((event.pod_uid, event.container_id) == ("u", "c") for event in events)


def test_lists_and_statuses_map_to_the_same_states_POD_905():
    states = list(ContainerState)
    pod = RunningPod(
        "u",
        "a",
        "ns",
        containers=tuple(RunningContainer(str(s), "c", s) for s in states),
        sandboxes=(
            RunningContainer("s1", "", ContainerState.RUNNING),
            RunningContainer("s0", "", ContainerState.EXITED),
        ),
    )
    status = RuntimePodStatus(
        "u",
        containers=tuple(RuntimeContainer(str(s), "c", s) for s in states),
        sandboxes=(RuntimeSandbox("s1", SandboxState.READY), RuntimeSandbox("s0", SandboxState.NOT_READY)),
    )
    expected = {
        "created": UNKNOWN,
        "running": RUNNING,
        "exited": EXITED,
        "unknown": UNKNOWN,
        "s1": RUNNING,
        "s0": EXITED,
    }
    assert states_of_pod(pod) == expected
    assert states_of_status(status) == expected
    assert states_of_pod(None) == {}


def test_ips_are_kept_while_no_sandbox_is_ready_POD_911():
    ready = RuntimePodStatus("u", sandboxes=(RuntimeSandbox("s", SandboxState.READY),))
    stopped = RuntimePodStatus("u", sandboxes=(RuntimeSandbox("s", SandboxState.NOT_READY),))
    assert keep_ips(("10.0.0.1",), stopped).ips == ("10.0.0.1",)
    assert keep_ips(("10.0.0.1",), ready).ips == ()
    assert keep_ips((), stopped) is stopped
    known = RuntimePodStatus("u", ips=("10.0.0.2",))
    assert keep_ips(("10.0.0.1",), known) is known
