# pyright: basic
"""What a scenario's actions do to a node, and what becomes of those that the API refuses."""

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.lab.actions import perform
from kubelet_emu.lab.node import Node
from kubelet_emu.lab.scenarios import Action
from node_host.loop import run


def pod(*extra):
    container = {
        "name": "a",
        "image": "docker.io/library/busybox:1.36",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"],
    }
    return {"metadata": {"name": "p"}, "spec": {"containers": [container, *extra]}}


def after(*actions, seconds=6.0):
    """The node's pods, records and commands seen after these actions on a pod that runs."""

    async def main():
        async with Node(transport="memory", latency="zero") as node:
            node.apply(pod())
            await node.advance(3)
            for action in actions:
                await perform(node, action, namespace="default", pod="p")
            await node.advance(seconds)
            return node.pods(), list(node.recorder.records)

    return run(main, seed=0)


def do(what, **fields):
    return Action(at_seconds=0.0, do=what, **fields)


def noted(records, what):
    return [record for record in records if record["k"] == "action" and record["do"] == what]


def test_delete():
    pods, records = after(do("delete", grace_period_seconds=5))
    assert pods == ()
    assert noted(records, "delete")[0]["gracePeriod"] == 5


def test_add_ephemeral_container():
    container = {"name": "dbg", "image": "docker.io/library/busybox:1.36", "command": ["sleep", "99"]}
    (found,), records = after(do("add-ephemeral-container", ephemeral_container=container))
    assert found.status.ephemeral_container_statuses[0].state.running is not None
    assert len(noted(records, "add-ephemeral-container")) == 1


def test_update_image():
    (found,), _ = after(do("update-image", container="a", image="docker.io/library/busybox:1.35"))
    assert found.status.container_statuses[0].restart_count == 1
    assert found.spec.containers[0].image == "docker.io/library/busybox:1.35"


def test_patch():
    (found,), _ = after(do("patch", patch={"metadata": {"labels": {"x": "y"}}}))
    assert found.metadata.labels["x"] == "y"


def test_exec_and_stop_sandbox():
    _, records = after(do("exec", container="a", command=("true",)), do("stop-sandbox"))
    assert noted(records, "exec")[0]["command"] == ["true"]
    made = [r for r in records if r["k"] == "cri" and r["m"] == "RunPodSandbox"]
    assert len(made) == 2


def test_restarts_of_both_daemons():
    (found,), records = after(do("restart-kubelet", down_seconds=2.0), do("restart-runtime"))
    assert found.status.container_statuses[0].restart_count == 0
    assert noted(records, "restart-kubelet")[0]["down"] == 2.0
    assert [r["up"] for r in records if r["k"] == "runtime"] == [False, True]


@pytest.mark.parametrize("forget", [False, True])
def test_a_reboot(forget):
    (found,), records = after(do("reboot-node", down_seconds=4.0, forget=forget))
    assert found.status.phase == "Running"
    assert found.status.container_statuses[0].restart_count == 1
    assert noted(records, "reboot-node")[0]["forget"] is forget
    assert [r["up"] for r in records if r["k"] == "runtime"] == [False, True]


@pytest.mark.parametrize(
    "action",
    [
        do("patch", patch={"spec": {"hostNetwork": True}}),
        do("update-image", container="none", image="x:1"),
        do("add-ephemeral-container", ephemeral_container={"name": "a", "image": "x:1"}),
    ],
    ids=["forbidden-field", "unknown-container", "name-in-use"],
)
def test_what_the_api_refuses_is_noted_and_changes_nothing(action):
    (found,), records = after(action)
    notes = [record for record in records if record["k"] == "note" and record["about"] == action.do]
    assert notes[0]["text"].startswith("refused by the API: ")
    assert found.status.container_statuses[0].restart_count == 0


def test_an_action_nobody_knows():
    with pytest.raises(BaseExceptionGroup) as caught:
        after(do("explode"))
    assert caught.group_contains(CallerError, match="'explode' cannot be carried out")
