"""Probe workers in virtual time: ticks, stops, manual runs, exec, and who is added again (RST-161)."""

import random

import pytest
import trio
from attrs import evolve, frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    ExecAction,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Probe,
)
from kubelet_emu.gates import Gates
from kubelet_emu.prober.manager import ProberManager
from kubelet_emu.prober.runner import ProbeRunner
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from node_host.clock import NodeClock
from node_host.loop import run
from node_host.net import MemoryNet
from trio_grpc.codes import Code, StatusError


class Exec:
    """A runtime that answers ExecSync from a list, the last entry for ever."""

    def __init__(self, clock, *answers, takes_seconds=0.0):
        self.clock = clock
        self.answers = list(answers) or [0]
        self.takes_seconds = takes_seconds
        self.calls = []

    async def ExecSync(self, request, *, timeout_seconds=None):
        self.calls.append((round(self.clock.elapsed_seconds(), 3), request.container_id, tuple(request.cmd)))
        assert timeout_seconds == request.timeout + 120
        await trio.sleep(self.takes_seconds)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return cri.ExecSyncResponse(stdout=b"out ", stderr=b"err", exit_code=answer)

    @property
    def times(self):
        return [call[0] for call in self.calls]


class Events:
    def __init__(self):
        self.seen = []

    def event(self, pod, event_type, reason, message, *, field_path=""):
        assert event_type == "Warning"
        self.seen.append((reason, message, field_path))


class Statuses(dict):
    def get_pod_status(self, uid):
        return self.get(uid)


class Silent:
    def decision(self, *args, **kwargs):
        pass

    def fact(self, *args, **kwargs):
        pass


@frozen
class World:
    clock: NodeClock
    exec: Exec
    events: Events
    statuses: Statuses
    updates: list
    manager: ProberManager


def probe(**more):
    more.setdefault("period_seconds", 2)
    return Probe(exec=ExecAction(command=("check",)), **more)


def a_pod(*containers, init=(), policy="Always"):
    meta = ObjectMeta(name="pod", namespace="ns", uid="uid")
    return Pod(
        metadata=meta, spec=PodSpec(restart_policy=policy, containers=containers, init_containers=init)
    )


def running(clock, name="c", cid="x://1", *, started=True):
    begun = clock.now_ns() // 10**9 * 10**9
    state = ContainerState(running=ContainerStateRunning(started_at=begun))
    return ContainerStatus(name=name, state=state, container_id=cid, started=started)


def a_status(*entries, phase="Running"):
    return PodStatus(phase=phase, container_statuses=entries)


def in_world(body, *answers, kubelet_age=100.0, takes_seconds=0.0):
    """Run ``body(world)`` on a kubelet of that age; workers are cancelled at its end."""

    async def main():
        clock = NodeClock()
        async with trio.open_nursery() as nursery:
            runtime, events, statuses, updates = (
                Exec(clock, *answers, takes_seconds=takes_seconds),
                Events(),
                Statuses(),
                [],
            )
            manager = ProberManager(
                clock=clock,
                rng=random.Random(1),
                nursery=nursery,
                statuses=statuses,
                runner=ProbeRunner(exec_client=runtime, net=MemoryNet(nursery), events=events),
                on_update=updates.append,
                recorder=Silent(),
                gates=Gates(),
            )
            await clock.sleep(kubelet_age)
            await body(World(clock, runtime, events, statuses, updates, manager))
            nursery.cancel_scope.cancel()

    run(main, seed=1)


def outcomes(world):
    return [(update.kind, update.outcome) for update in world.updates]


def test_prb_05_period_and_results():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        world.manager.add_pod(a_pod(Container(name="c", readiness_probe=probe())))
        await world.clock.sleep(5)
        assert world.exec.times == [100, 102, 104]
        assert world.exec.calls[0][1:] == ("1", ("check",))
        kind = ProbeKind.READINESS
        assert outcomes(world) == [(kind, ProbeOutcome.FAILURE), (kind, ProbeOutcome.SUCCESS)]
        (series,) = world.manager.totals
        assert (series.probe_type, series.result) == ("Readiness", "successful")
        assert world.manager.totals[series] == 3

    in_world(body)


def test_prb_05_jitter_after_kubelet_start():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        world.manager.add_pod(a_pod(Container(name="c", readiness_probe=probe(period_seconds=10))))
        await world.clock.sleep(0.001)
        assert world.exec.times == []
        await world.clock.sleep(10)
        assert len(world.exec.times) == 1

    in_world(body, kubelet_age=1.0)


def test_prb_05_long_probe_is_followed_at_once():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        world.manager.add_pod(a_pod(Container(name="c", readiness_probe=probe())))
        await world.clock.sleep(9)
        assert world.exec.times == [100, 103, 106]

    in_world(body, takes_seconds=3.0)


def test_prb_06_manual_run_starts_a_new_row_of_ticks():
    async def body(world):
        status = a_status(running(world.clock))
        world.statuses["uid"] = status
        pod = a_pod(Container(name="c", readiness_probe=probe(period_seconds=10)))
        world.manager.add_pod(pod)
        await world.clock.sleep(3)
        world.manager.update_pod_status(pod, status)
        await world.clock.sleep(0.001)
        assert world.exec.times == [100, 103]
        await world.clock.sleep(12)
        assert world.exec.times == [100, 103, 113]

    in_world(body, 1)


def test_prb_19_events_also_below_the_threshold():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        world.manager.add_pod(a_pod(Container(name="c", liveness_probe=probe())))
        await world.clock.sleep(5)
        unhealthy = ("Unhealthy", "Liveness probe failed: out err", "spec.containers{c}")
        assert world.events.seen == [unhealthy] * 3
        assert outcomes(world)[-1] == (ProbeKind.LIVENESS, ProbeOutcome.FAILURE)
        await world.clock.sleep(10)
        # PRB-14: on hold until a new container.
        assert len(world.exec.calls) == 3
        world.statuses["uid"] = a_status(running(world.clock, cid="x://2"))
        await world.clock.sleep(2)
        assert world.exec.calls[-1][1] == "2"
        assert world.manager.result(ProbeKind.LIVENESS, "1") is None
        assert world.manager.result(ProbeKind.LIVENESS, "2") is ProbeOutcome.SUCCESS

    in_world(body, 1)


def test_prb_18_errors_are_retried_and_discarded():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        world.manager.add_pod(a_pod(Container(name="c", readiness_probe=probe())))
        await world.clock.sleep(1)
        assert world.exec.times == [100, 100, 100]
        text = "Readiness probe errored and resulted in unknown state: rpc error: code = NotFound desc = gone"
        assert world.events.seen == [("Unhealthy", text, "spec.containers{c}")]
        assert dict(world.manager.totals) == {}
        await world.clock.sleep(2)
        assert world.manager.result(ProbeKind.READINESS, "1") is ProbeOutcome.SUCCESS

    in_world(body, *[StatusError(Code.NOT_FOUND, "gone")] * 3, 0)


def test_prb_26_timeout_is_a_failure():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        world.manager.add_pod(a_pod(Container(name="c", readiness_probe=probe(failure_threshold=1))))
        await world.clock.sleep(1)
        text = 'Readiness probe failed: command timed out: "check" timed out after 1s'
        assert world.events.seen == [("Unhealthy", text, "spec.containers{c}")]

    in_world(body, StatusError(Code.DEADLINE_EXCEEDED, "x"))


def test_prb_08_stops():
    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock), running(world.clock, "s", "x://2"))
        every = {
            "liveness_probe": probe(),
            "readiness_probe": probe(),
            "startup_probe": probe(),
        }
        pod = a_pod(
            Container(name="c", **every), init=(Container(name="s", restart_policy="Always", **every),)
        )
        world.manager.add_pod(pod)
        await world.clock.sleep(1)
        order = (ProbeKind.STARTUP, ProbeKind.READINESS, ProbeKind.LIVENESS)
        assert world.manager.workers("uid") == tuple((name, kind) for name in "cs" for kind in order)
        world.manager.stop_liveness_and_startup(pod)
        await world.clock.sleep(0.1)
        left = (("c", ProbeKind.READINESS), *(("s", kind) for kind in order))
        assert world.manager.workers("uid") == left
        world.manager.clean_up_pods(["uid"])
        await world.clock.sleep(0.1)
        assert world.manager.workers("uid") == left
        world.manager.remove_pod(pod)
        await world.clock.sleep(0.1)
        assert world.manager.workers("uid") == ()
        # PRB-07: nothing is left of them.
        assert world.manager.result(ProbeKind.READINESS, "1") is None
        assert dict(world.manager.totals) == {}

    in_world(body)


@pytest.mark.parametrize(
    ("order", "probed_again"),
    [(("a", "b"), False), (("b", "a"), True)],
    ids=["RST-161-running-first", "RST-161-finished-first"],
)
def test_ended_worker_is_added_again_only_if_reached(order, probed_again):
    async def body(world):
        pod = a_pod(*(Container(name=name, readiness_probe=probe()) for name in order), policy="Never")
        a, b = running(world.clock, "a", "x://a"), running(world.clock, "b", "x://b")
        world.statuses["uid"] = a_status(a, b)
        world.manager.add_pod(pod)
        await world.clock.sleep(1)
        done = evolve(b, state=ContainerState(terminated=ContainerStateTerminated(exit_code=0)))
        world.statuses["uid"] = a_status(a, done)
        await world.clock.sleep(2)
        assert world.manager.workers("uid") == (("a", ProbeKind.READINESS),)
        again = running(world.clock, "b", "x://b2", started=None)
        world.statuses["uid"] = a_status(a, evolve(again, started=True))
        world.manager.add_pod(pod)
        filled = world.manager.update_pod_status(pod, a_status(a, again))
        assert filled.container_statuses[1].ready is not probed_again
        assert (("b", ProbeKind.READINESS) in world.manager.workers("uid")) is probed_again

    in_world(body)


def test_same_seed_same_run():
    seen = []

    async def body(world):
        world.statuses["uid"] = a_status(running(world.clock))
        probed = [Container(name=name, readiness_probe=probe(period_seconds=10)) for name in "abc"]
        world.statuses["uid"] = a_status(*(running(world.clock, c.name, f"x://{c.name}") for c in probed))
        world.manager.add_pod(a_pod(*probed))
        await world.clock.sleep(30)
        seen.append(world.exec.calls)

    in_world(body, kubelet_age=0.0)
    in_world(body, kubelet_age=0.0)
    assert seen[0] == seen[1]
    assert len(seen[0]) == 9
