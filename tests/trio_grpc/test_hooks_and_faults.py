"""What hooks see, and what injected faults do, the same over both transports."""

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from node_host.clock import NodeClock
from node_host.faults import FaultPlan
from trio_grpc import Code, StatusError


class Log:
    """A hook that writes down what it saw."""

    def __init__(self):
        self.lines = []

    def started(self, record):
        self.lines.append(f"{record.number} {record.method.name} starts {record.start_seconds:g}")

    def item(self, record, message):
        self.lines.append(f"{record.number} item {record.items} {message.container_id}")

    def finished(self, record):
        result = record.error.code.name if record.error else type(record.reply).__name__
        self.lines.append(f"{record.number} {record.method.name} ends {record.end_seconds:g} {result}")


async def status_of(call):
    with pytest.raises(StatusError) as caught:
        await call
    return caught.value.code, caught.value.details


def test_unary_calls_are_seen(lab):
    log = Log()

    async def body(lab):
        async with lab.runtime(hooks=[log]) as (client, _):
            await client.Version(cri.VersionRequest())
            await client.StopContainer(cri.StopContainerRequest(timeout=10))
            await status_of(client.StartContainer(cri.StartContainerRequest()))
            await status_of(client.StopContainer(cri.StopContainerRequest(timeout=10), timeout_seconds=2.0))
            with trio.move_on_after(1):
                await client.StopContainer(cri.StopContainerRequest(timeout=10))
            await status_of(client.Version(cri.VersionRequest(), timeout_seconds=0.0))

    lab.run(body)
    assert log.lines == [
        "1 Version starts 0",
        "1 Version ends 0 VersionResponse",
        "2 StopContainer starts 0",
        "2 StopContainer ends 10 StopContainerResponse",
        "3 StartContainer starts 10",
        "3 StartContainer ends 10 NOT_FOUND",
        "4 StopContainer starts 10",
        "4 StopContainer ends 12 DEADLINE_EXCEEDED",
        "5 StopContainer starts 12",
        "5 StopContainer ends 13 CANCELLED",
        "6 Version starts 13",
        "6 Version ends 13 DEADLINE_EXCEEDED",
    ]


def test_streams_are_seen_and_times_are_the_clocks(lab):
    log = Log()

    async def body(lab):
        await trio.sleep(100)
        async with (
            lab.runtime(hooks=[log], clock=NodeClock()) as (client, _),
            client.GetContainerEvents(cri.GetEventsRequest()) as events,
        ):
            await anext(events)
            await anext(events)

    lab.run(body)
    assert log.lines == [
        "1 GetContainerEvents starts 0",
        "1 item 1 first",
        "1 item 2 second",
        "1 GetContainerEvents ends 5 CANCELLED",
    ]


def test_a_stream_that_ends_well_has_no_error(lab):
    records = []

    class Keep(Log):
        def finished(self, record):
            records.append(record)

    async def body(lab):
        async with lab.runtime(hooks=[Keep()]) as (client, _):
            with pytest.raises(StatusError):
                async with client.StreamPodSandboxes(cri.StreamPodSandboxesRequest()) as items:
                    await anext(items)

    lab.run(body)
    assert records[0].error.code is Code.UNIMPLEMENTED
    assert records[0].reply is None


def with_faults(lab, plan, body, **options):
    async def outer(lab):
        log = Log()
        async with lab.runtime(hooks=[log], faults=FaultPlan.parse(plan), **options) as (client, runtime):
            await body(client, runtime)

    lab.run(outer)


def version(text=""):
    return cri.VersionRequest(version=text)


def test_error_after_some_calls(lab):
    async def body(client, runtime):
        await client.Status(cri.StatusRequest())
        await client.Status(cri.StatusRequest())
        assert await status_of(client.Status(cri.StatusRequest())) == (Code.UNAVAILABLE, "gone away")
        await client.Status(cri.StatusRequest())
        assert len(runtime.log) == 3

    with_faults(lab, 'Status: 2*off -> 1*error(UNAVAILABLE, "gone away")', body)


def test_delay_and_deadline(lab):
    async def body(client, runtime):
        await client.Status(cri.StatusRequest())
        assert trio.current_time() == 5.0
        found = await status_of(client.Status(cri.StatusRequest(), timeout_seconds=2.0))
        assert found[0] is Code.DEADLINE_EXCEEDED
        assert trio.current_time() == 7.0
        assert len(runtime.log) == 1

    with_faults(lab, "*: delay(5)", body)


def test_hang(lab):
    async def body(client, runtime):
        found = await status_of(client.Status(cri.StatusRequest(), timeout_seconds=120.0))
        assert found[0] is Code.DEADLINE_EXCEEDED
        assert (trio.current_time(), runtime.log) == (120.0, [])

    with_faults(lab, "Status: hang", body)


def test_lost_reply(lab):
    async def body(client, runtime):
        found = await status_of(client.Status(cri.StatusRequest(), timeout_seconds=9.0))
        assert (found[0], trio.current_time()) == (Code.DEADLINE_EXCEEDED, 9.0)
        assert await status_of(client.Status(cri.StatusRequest())) == (Code.INTERNAL, "")
        assert [what for what, _ in runtime.log] == ["remaining", "remaining"]

    with_faults(lab, "Status: 1*lost -> lost(INTERNAL)", body)


def test_duplicate(lab):
    async def body(client, runtime):
        await client.Status(cri.StatusRequest())
        assert len(runtime.log) == 2
        assert (await status_of(client.StartContainer(cri.StartContainerRequest())))[0] is Code.NOT_FOUND

    with_faults(lab, "*: duplicate", body)


@pytest.mark.parametrize(("action", "done"), [("crash", 0), ("crash(after)", 1)])
def test_crash(lab, action, done):
    crashes = []

    async def body(client, runtime):
        assert (await status_of(client.Status(cri.StatusRequest())))[0] is Code.UNAVAILABLE
        assert (crashes, len(runtime.log)) == (["crash"], done)

    with_faults(lab, f"Status: 1*{action}", body, on_crash=lambda: crashes.append("crash"))


def test_a_crash_may_close_the_server(lab):
    async def body(lab):
        runtime = None
        options = {"faults": FaultPlan.parse("Version: 1*crash")}
        async with lab.server() as server, lab.channel(on_crash=server.close, **options) as channel:
            from trio_grpc.services.runtime_v1 import RuntimeServiceClient

            client = RuntimeServiceClient(channel)
            for _ in range(2):
                assert (await status_of(client.Version(version())))[0] is Code.UNAVAILABLE
            assert not server.listening
        assert runtime is None

    lab.run(body)


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ("GetContainerEvents: error(ABORTED)", Code.ABORTED),
        ("GetContainerEvents: lost(DATA_LOSS)", Code.DATA_LOSS),
        ("GetContainerEvents: lost", Code.DEADLINE_EXCEEDED),
        ("GetContainerEvents: hang", Code.DEADLINE_EXCEEDED),
        ("GetContainerEvents: crash", Code.UNAVAILABLE),
        ("GetContainerEvents: crash(after)", Code.UNAVAILABLE),
    ],
)
def test_streams_suffer_too(lab, plan, code):
    async def body(client, runtime):
        async with client.GetContainerEvents(cri.GetEventsRequest(), timeout_seconds=50.0) as events:
            assert (await status_of(anext(events)))[0] is code

    with_faults(lab, plan, body)


def test_a_delayed_stream(lab):
    async def body(client, runtime):
        async with client.GetContainerEvents(cri.GetEventsRequest()) as events:
            assert (await anext(events)).container_id == "first"
            assert trio.current_time() == 3.0

    with_faults(lab, "GetContainerEvents: delay(3)", body)


def test_records_name_their_fault(lab):
    faults = []

    class Keep(Log):
        def finished(self, record):
            faults.append(str(record.fault))

    async def body(lab):
        plan = FaultPlan.parse("Version: 1*error(ABORTED); GetContainerEvents: 1*delay(1)")
        async with lab.runtime(hooks=[Keep()], faults=plan) as (client, _):
            await status_of(client.Version(version()))
            await client.Version(version())
            async with client.GetContainerEvents(cri.GetEventsRequest()) as events:
                await anext(events)

    lab.run(body)
    assert faults == ["error(ABORTED)", "None", "delay(1)"]
