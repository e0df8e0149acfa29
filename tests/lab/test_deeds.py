# pyright: basic
"""``--do``: what is done to the node while pods run on it."""

import pytest

from kubelet_emu.errors import CallerError
from kubelet_emu.lab.deeds import DEEDS_MAX, parse_deeds
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.run import RunOptions, run
from kubelet_emu.lab.session import Session

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team"},
    "spec": {
        "containers": [
            {"name": "a", "image": "docker.io/library/busybox:1.36", "command": ["sh", "-c", "sleep 900"]}
        ]
    },
}


def done(*texts, until=None):
    options = RunOptions(
        node=NodeOptions(transport="memory", latency="zero"),
        deeds=parse_deeds(texts, ["p"]),
        **({"until": until} if until else {}),
    )
    return run([POD], options)


def actions(result):
    return [(round(r["t"], 3), r["do"]) for r in result.trace.records if r["k"] == "action"]


def test_deeds_come_at_their_times_in_order():
    result = done("reboot-node@60s+5s", "restart-kubelet@10s+2s", "restart-runtime@30s", "stop-sandbox@90s")
    assert actions(result) == [
        (0.0, "create"),
        (12.1, "restart-kubelet"),
        (30.0, "restart-runtime"),
        (60.0, "reboot-node"),
        (90.0, "stop-sandbox"),
        (round(result.trace.records[-1]["t"], 3), "end"),
    ]
    (status,) = result.pods[0]["status"]["containerStatuses"]
    assert status["restartCount"] == 2
    assert result.ok


def test_a_run_that_waits_for_quiet_waits_for_its_deeds():
    result = done("delete@20m")
    assert result.pods == ()
    assert result.ending.kind == "settled"
    assert result.trace.records[-1]["t"] > 1200


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("explode@3s", "unknown action 'explode'"),
        ("delete", "write ACTION@TIME"),
        ("other/delete@3s", "there is no pod 'other'"),
        ("p/reboot-node@3s", "concerns the whole node"),
        ("delete@3s+2s", "takes no time to be away"),
        ("delete@never", "is not a duration"),
    ],
)
def test_what_cannot_be_done_is_told(text, told):
    with pytest.raises(CallerError, match=told):
        parse_deeds([text], ["p"])


def test_what_the_node_does_not_offer_is_told():
    with pytest.raises(CallerError, match="needs an API server"):
        parse_deeds(["delete@3s"], ["p"], static=True)
    with pytest.raises(CallerError, match="needs the built-in runtime"):
        parse_deeds(["reboot-node@3s"], ["p"], foreign=True)
    with pytest.raises(CallerError, match="which pod"):
        parse_deeds(["delete@3s"], ["p", "q"])
    with pytest.raises(CallerError, match="more than"):
        parse_deeds(["delete@3s"] * (DEEDS_MAX + 1), ["p"])


def test_a_session_can_lose_its_power():
    with Session(transport="memory", latency="zero") as node:
        node.apply(POD)
        node.advance(5)
        node.reboot(down=7)
        node.advance(20)
        status = node.pod("p", namespace="team").status
    assert status.phase == "Running"
    assert status.container_statuses[0].restart_count == 1
    (container,) = status.container_statuses
    assert container.last_state.terminated is not None
    assert container.last_state.terminated.exit_code == 255
