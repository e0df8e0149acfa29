# pyright: basic, reportOptionalMemberAccess=false
"""What commands do to a runtime, and faults on every method of both services."""

import pytest
import trio

from cri_fake.control.commands import CommandProblem, parse_command, parse_script
from cri_fake.control.desk import Desk
from cri_fake.control.server import play
from k8s_proto import runtime_v1_pb2 as cri
from node_host.faults import FaultPlan
from trio_grpc import StatusError
from trio_grpc.services.runtime_v1 import ImageServiceHandler, RuntimeServiceHandler

METHODS = [
    *RuntimeServiceHandler.SERVICE.methods,
    *ImageServiceHandler.SERVICE.methods,
]


def run_with_desk(drive, body, **options):
    async def inner(rig):
        desk = Desk(rig.runtime, lambda: 0.5)

        async def tell(line):
            return await desk.do(parse_command(line))

        return await body(rig, tell)

    return drive(inner, faults=FaultPlan(), **options)


async def call(rig, method, request=None, timeout=5.0):
    """Call any method of both services; a stream gives its items until it ends or is silent."""
    channel = rig.cri._channel
    request = request if request is not None else method.request_type()
    if not method.streaming:
        return await channel.unary(method, request, timeout_seconds=timeout)
    items = []
    with trio.move_on_after(timeout):
        async with channel.stream(method, request) as stream:
            items = [item async for item in stream]
    return items


async def outcome(rig, method, timeout=5.0):
    try:
        await call(rig, method, timeout=timeout)
    except StatusError as error:
        return error.code.name, error.details
    return "OK", ""


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_faults_on_every_method(drive, method):
    async def body(rig, tell):
        name = method.name
        plain = await outcome(rig, method)
        await tell(f'{name}: 1*off -> 1*error(ABORTED, "told so") -> 1*delay(3) -> 1*lost(INTERNAL)')
        assert await outcome(rig, method) == plain
        assert await outcome(rig, method) == ("ABORTED", "told so")
        start = rig.clock.elapsed_seconds()
        assert await outcome(rig, method, timeout=60) == plain
        assert rig.clock.elapsed_seconds() - start >= 3
        if plain[0] == "OK" and not method.streaming:
            assert await outcome(rig, method) == ("INTERNAL", "")
        await tell("faults clear")
        await tell(f"{name}: 1*hang")
        if not method.streaming:
            assert (await outcome(rig, method))[0] == "DEADLINE_EXCEEDED"
        await tell("faults clear")
        await tell(f"{name}: 1*crash")
        assert (await outcome(rig, method))[0] in ("UNAVAILABLE", "OK" if method.streaming else "")
        await rig.clock.sleep(2)
        assert rig.runtime.daemon_up
        assert await outcome(rig, method) == plain

    run_with_desk(drive, body)


def test_lost_replies_are_done_CRI_191(drive):
    async def body(rig, tell):
        await tell("lose-reply RunPodSandbox DEADLINE_EXCEEDED")
        assert await rig.refused(rig.run_pod()) == ("DEADLINE_EXCEEDED", "")
        assert len(await rig.pods()) == 1
        code, text = await rig.refused(rig.run_pod())
        assert code == "UNKNOWN"
        assert "is reserved for" in text

    run_with_desk(drive, body)


def test_events_arrive_twice_if_told(drive):
    async def body(rig, tell):
        await tell("GetContainerEvents: duplicate")
        seen = []
        async with rig.cri.GetContainerEvents(cri.GetEventsRequest()) as events:
            await rig.run_pod()
            async for event in events:
                seen.append(event)
                if len(seen) == 4:
                    break
        assert [each.container_event_type for each in seen] == [0, 0, 1, 1]
        assert seen[0] == seen[1]

    run_with_desk(drive, body)


def test_a_full_disk_makes_nothing_and_stops_logs_but_no_container(drive):
    async def body(rig, tell):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox, script="while true; do echo tick; sleep 1; done")
        await rig.clock.sleep(3.5)
        assert (await tell("disk full"))["disk"] == "full"
        before = len(rig.log(await rig.status(container)))
        await rig.clock.sleep(5)
        assert len(rig.log(await rig.status(container))) == before
        for refused in (
            rig.create(sandbox, "other"),
            rig.run_pod("other"),
            rig.pull("alpine:3"),
        ):
            code, text = await rig.refused(refused)
            assert code == "UNKNOWN"
            assert text.endswith("no space left on device")
        assert len(await rig.pods()) == 1
        await tell("disk ok")
        await rig.clock.sleep(2.5)
        assert len(rig.log(await rig.status(container))) > before
        await rig.run_pod("other")

    run_with_desk(drive, body)


def test_registry_and_network(drive):
    async def body(rig, tell):
        await tell("registry down")
        code, text = await rig.refused(rig.pull("alpine:3"))
        assert code == "UNKNOWN"
        assert text.startswith("failed to pull and unpack image")
        await tell("registry up")
        assert await rig.pull("alpine:3")
        assert (await tell("network not-ready"))["network"] == "not-ready"
        assert (await rig.refused(rig.run_pod()))[0] == "UNKNOWN"
        await tell("network ready")
        await rig.run_pod()

    run_with_desk(drive, body)


def test_kill_oom_and_sandboxes(drive):
    async def body(rig, tell):
        sandbox = await rig.run_pod()
        first = await rig.run(sandbox, "first")
        second = await rig.run(sandbox, "second", script="trap 'exit 7' USR1; while true; do sleep 0.1; done")
        await rig.clock.sleep(1)
        await tell("oom web/first")
        status = await rig.exited(first)
        assert (status.exit_code, status.reason) == (137, "OOMKilled")
        await tell("signal web/second 10")
        assert (await rig.exited(second)).exit_code == 7
        with pytest.raises(CommandProblem, match="not found"):
            await tell("signal web/second 9")
        with pytest.raises(CommandProblem, match="not found"):
            await tell("oom other/first")
        await tell("kill-sandbox web")
        assert (await rig.pod_status(sandbox)).state == cri.SANDBOX_NOTREADY
        again = await rig.run_pod(attempt=1)
        assert (await tell("stop-sandbox web"))["sandboxes"] == {"ready": 0, "notready": 2}
        assert (await rig.pod_status(again)).network.ip == ""

    run_with_desk(drive, body)


def test_three_ways_to_go_down(drive):
    async def body(rig, tell):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        start = rig.clock.elapsed_seconds()
        await tell("crash runtime down 5s")
        assert rig.clock.elapsed_seconds() - start >= 5
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
        await tell("reboot node down 1s")
        status = await rig.status(container)
        assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 255)
        assert (await tell("crash runtime lose-state"))["sandboxes"] == {"ready": 0, "notready": 0}
        assert await rig.containers() == []

    run_with_desk(drive, body)


def test_told_latencies(drive):
    async def body(rig, tell):
        async def took():
            start = rig.clock.elapsed_seconds()
            await rig.images.ImageFsInfo(cri.ImageFsInfoRequest())
            return rig.clock.elapsed_seconds() - start

        own = await took()
        assert (await tell("latency ImageFsInfo 1..3"))["latency"] == {"ImageFsInfo": "1..3"}
        assert await took() == pytest.approx(2.0)
        await tell("latency ImageFsInfo 0.25")
        assert await took() == pytest.approx(0.25)
        assert (await tell("latency ImageFsInfo default"))["latency"] == {}
        assert await took() == own
        with pytest.raises(CommandProblem, match="no method of CRI"):
            await tell("latency NoSuchMethod 1")
        with pytest.raises(CommandProblem, match="no method of CRI"):
            await tell("hang NoSuchMethod")

    run_with_desk(drive, body)


def test_what_lasts_is_over_on_return(drive):
    async def body(rig, tell):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tell, "registry down 10s")
            nursery.start_soon(tell, "slow processes x4 10s")
            await rig.clock.sleep(5)
            assert (await rig.refused(rig.pull("alpine:3")))[0] == "UNKNOWN"
        assert rig.clock.elapsed_seconds() == pytest.approx(10, abs=0.1)
        await rig.pull("alpine:3")

    run_with_desk(drive, body)


def test_rules_are_shown_and_added(drive):
    async def body(rig, tell):
        await tell("Status: 1*hang")
        shown = await tell("Version: 1*off -> 1*lost")
        assert shown == {"faults": "Status: 1*hang; Version: 1*off -> 1*lost"} == await tell("faults")
        assert await tell("faults clear") == {"faults": ""}

    run_with_desk(drive, body)


def test_a_file_of_commands_is_played_at_its_times(drive):
    async def body(rig, tell):
        said = []
        desk = Desk(rig.runtime, lambda: 0.5)
        script = parse_script("@3s network not-ready\n@1s oom no/such\n")
        await play(script, desk, rig.clock.sleep_until, said.append)
        assert rig.clock.elapsed_seconds() == pytest.approx(3.0)
        assert not rig.runtime.world.network_ready
        assert len(said) == 1
        assert said[0].startswith("line 2: running container")

    run_with_desk(drive, body)
