"""Streams from the server, the same over both transports."""

import pytest
import trio

from k8s_proto import deviceplugin_v1beta1_pb2 as plugin
from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import Code, StatusError
from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginClient


def device(name):
    return plugin.ListAndWatchResponse(devices=[plugin.Device(ID=name)])


async def names(items):
    return [item.devices[0].ID async for item in items]


def test_items_then_end(lab):
    async def make():
        for number in range(100):
            yield device(str(number))

    async def body(lab):
        async with lab.plugin(make) as client, client.ListAndWatch(plugin.Empty()) as items:
            assert await names(items) == [str(number) for number in range(100)]
            assert await names(items) == []

    lab.run(body)


def test_no_items(lab):
    async def make():
        for _ in ():
            yield

    async def body(lab):
        async with lab.plugin(make) as client, client.ListAndWatch(plugin.Empty()) as items:
            assert await names(items) == []

    lab.run(body)


def test_items_then_error(lab):
    async def make():
        yield device("a")
        raise StatusError(Code.ABORTED, "half way")

    async def body(lab):
        async with lab.plugin(make) as client, client.ListAndWatch(plugin.Empty()) as items:
            assert (await anext(items)).devices[0].ID == "a"
            with pytest.raises(StatusError) as caught:
                await anext(items)
            assert (caught.value.code, caught.value.details) == (Code.ABORTED, "half way")
            with pytest.raises(StopAsyncIteration):
                await anext(items)

    lab.run(body)


def test_virtual_time_between_items(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            async with client.GetContainerEvents(cri.GetEventsRequest()) as events:
                seen = []
                async for event in events:
                    seen.append((event.container_id, trio.current_time()))
                    if len(seen) == 2:
                        break
                assert seen == [("first", 0.0), ("second", 5.0)]
            await trio.sleep(1)
            assert runtime.log == [("stream over", 5.0)]

    lab.run(body)


def test_the_call_starts_on_entering(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            async with client.GetContainerEvents(cri.GetEventsRequest()):
                await trio.sleep(1)
            await trio.sleep(1)
            assert runtime.log == [("stream over", 1.0)]

    lab.run(body)


def test_deadline_covers_the_whole_stream(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            async with client.GetContainerEvents(cri.GetEventsRequest(), timeout_seconds=8.0) as events:
                assert (await anext(events)).container_id == "first"
                assert (await anext(events)).container_id == "second"
                with pytest.raises(StatusError) as caught:
                    await anext(events)
                assert caught.value.code is Code.DEADLINE_EXCEEDED
                assert trio.current_time() == 8.0
            await trio.sleep(1)
            assert runtime.log == [("stream over", 8.0)]

    lab.run(body)


def test_reader_is_cancelled(lab):
    async def body(lab):
        async with lab.runtime() as (client, runtime):
            with trio.move_on_after(2):
                async with client.GetContainerEvents(cri.GetEventsRequest()) as events:
                    async for _ in events:
                        pass
            await trio.sleep(1)
            assert runtime.log == [("stream over", 2.0)]
            assert trio.current_time() == 3.0

    lab.run(body)


def test_back_pressure(lab):
    """The handler gets no further ahead of a sleeping reader than buffers reach; then all items arrive."""
    total, size = 400, 64 * 1024
    made = []

    async def make():
        for number in range(total):
            made.append(number)
            yield plugin.ListAndWatchResponse(devices=[plugin.Device(ID=str(number), health="h" * size)])

    async def body(lab):
        async with lab.plugin(make) as client, client.ListAndWatch(plugin.Empty()) as items:
            assert (await anext(items)).devices[0].ID == "0"
            await trio.sleep(60)
            ahead = len(made)
            assert ahead < 200
            assert await names(items) == [str(number) for number in range(1, total)]
            assert trio.current_time() == 60.0

    lab.run(body)


def test_slow_reader_in_virtual_time(lab):
    """A reader that sleeps between items must not stop time although items wait for it."""

    async def make():
        for number in range(50):
            yield device(str(number))

    async def body(lab):
        async with lab.plugin(make) as client, client.ListAndWatch(plugin.Empty()) as items:
            count = 0
            async for _ in items:
                count += 1
                await trio.sleep(10)
            assert (count, trio.current_time()) == (50, 500.0)

    lab.run(body)


def test_peer_goes_during_a_stream(lab, make_plugin):
    async def make():
        yield device("a")
        await trio.sleep_forever()

    async def body(lab):
        async with (
            lab.server(make_plugin(make)) as server,
            lab.channel() as channel,
            DevicePluginClient(channel).ListAndWatch(plugin.Empty()) as items,
        ):
            assert (await anext(items)).devices[0].ID == "a"
            server.close()
            with pytest.raises(StatusError) as caught:
                await anext(items)
            assert caught.value.code is Code.UNAVAILABLE

    lab.run(body)


def test_nobody_listens(lab):
    async def body(lab):
        async with (
            lab.channel() as channel,
            DevicePluginClient(channel).ListAndWatch(plugin.Empty()) as items,
        ):
            with pytest.raises(StatusError) as caught:
                await anext(items)
            assert caught.value.code is Code.UNAVAILABLE

    lab.run(body)


def test_streams_over_the_limit_are_refused_and_unary_calls_go_on(lab):
    async def make():
        yield device("a")
        await trio.sleep_forever()

    async def body(lab):
        from contextlib import AsyncExitStack

        async with lab.plugin(make, max_streams=5) as client, AsyncExitStack() as stack:
            for _ in range(5):
                items = await stack.enter_async_context(client.ListAndWatch(plugin.Empty()))
                assert (await anext(items)).devices[0].ID == "a"
            async with client.ListAndWatch(plugin.Empty()) as refused:
                with pytest.raises(StatusError) as caught:
                    await anext(refused)
                assert caught.value.code is Code.RESOURCE_EXHAUSTED
                assert caught.value.details == "the server carries 5 streams already"
            for _ in range(20):
                with pytest.raises(StatusError) as caught:
                    await client.Allocate(plugin.AllocateRequest())
                assert caught.value.code is Code.UNIMPLEMENTED

    lab.run(body)


def test_unimplemented_stream(lab):
    from trio_grpc.services.deviceplugin_v1beta1 import DevicePluginHandler

    async def body(lab):
        async with (
            lab.server(DevicePluginHandler()),
            lab.channel() as channel,
            DevicePluginClient(channel).ListAndWatch(plugin.Empty()) as items,
        ):
            with pytest.raises(StatusError) as caught:
                await anext(items)
            assert caught.value.code is Code.UNIMPLEMENTED

    lab.run(body)


def test_item_over_the_size_limit(lab):
    async def make():
        yield device("a" * 10)
        yield device("a" * 1000)

    async def body(lab):
        async with (
            lab.plugin(make),
            lab.channel(max_receive_bytes=500) as channel,
            DevicePluginClient(channel).ListAndWatch(plugin.Empty()) as items,
        ):
            assert len((await anext(items)).devices[0].ID) == 10
            with pytest.raises(StatusError) as caught:
                await anext(items)
            assert caught.value.code is Code.RESOURCE_EXHAUSTED
            assert "larger than max" in caught.value.details

    lab.run(body)


def test_a_stream_is_entered_once(lab):
    async def make():
        yield device("a")

    async def body(lab):
        async with lab.plugin(make) as client:
            stream = client.ListAndWatch(plugin.Empty())
            async with stream:
                with pytest.raises(RuntimeError):
                    await stream.__aenter__()

    lab.run(body)
