"""Both networks, one suite; the memory network runs in virtual time, loopback in real time."""

import errno

import pytest
import trio

from node_host.loop import Pace, run
from node_host.net import LoopbackNet, MemoryNet, memory_stream_pair


@pytest.fixture(params=["memory", "loopback"])
def on_net(request):
    """Runs a test body with a net, bounded in time, and ends the servers after it."""

    def runner(body):
        async def main():
            with trio.fail_after(10):
                async with trio.open_nursery() as nursery:
                    net = MemoryNet(nursery) if request.param == "memory" else LoopbackNet(nursery)
                    await body(net)
                    nursery.cancel_scope.cancel()

        run(main, seed=1, pace=Pace.VIRTUAL if request.param == "memory" else Pace.REAL)

    return runner


async def echo(stream):
    async for chunk in stream:
        await stream.send_all(chunk)
    await stream.send_all(b".")


async def read_all(stream):
    return b"".join([chunk async for chunk in stream])


def test_connect_talk_half_close(on_net):
    async def body(net):
        listening = net.listen("127.0.0.1", 0, echo)
        assert listening.host == "127.0.0.1"
        async with await net.connect("localhost", listening.port) as stream:
            await stream.send_all(b"hello")
            await stream.send_eof()
            assert await read_all(stream) == b"hello."

    on_net(body)


def test_refused_before_and_after(on_net):
    async def body(net):
        listening = net.listen("127.0.0.5", 0, echo)
        async with await net.connect("127.0.0.5", listening.port):
            pass
        listening.close()
        listening.close()
        await trio.sleep(0.05)
        with pytest.raises(ConnectionRefusedError):
            await net.connect("127.0.0.5", listening.port)
        again = net.listen("127.0.0.5", listening.port, echo)
        async with await net.connect("127.0.0.5", again.port):
            pass

    on_net(body)


def test_port_taken(on_net):
    async def body(net):
        listening = net.listen("127.0.0.1", 0, echo)
        with pytest.raises(OSError, match="in use") as caught:
            net.listen("127.0.0.1", listening.port, echo)
        assert caught.value.errno == errno.EADDRINUSE

    on_net(body)


def test_close_ends_connections(on_net):
    async def body(net):
        ended = trio.Event()

        async def stuck(stream):
            try:
                await trio.sleep_forever()
            finally:
                ended.set()

        listening = net.listen("127.0.0.1", 0, stuck)
        async with await net.connect("127.0.0.1", listening.port) as stream:
            await trio.sleep(0.05)
            listening.close()
            assert await stream.receive_some() == b""
            await ended.wait()

    on_net(body)


def test_broken_handlers_end_only_their_connection(on_net):
    async def body(net):
        async def failing(stream):
            raise OSError(errno.EIO, "on purpose")

        listening = net.listen("", 0, failing)
        for _ in range(2):
            async with await net.connect("127.0.0.1", listening.port) as stream:
                assert await stream.receive_some() == b""

    on_net(body)


def test_back_pressure(on_net):
    async def body(net):
        go = trio.Event()
        got = []

        async def slow(stream):
            await go.wait()
            got.append(len(await read_all(stream)))
            await stream.send_all(b"done")

        listening = net.listen("127.0.0.1", 0, slow)
        async with await net.connect("127.0.0.1", listening.port) as stream:
            with trio.move_on_after(0.2) as scope:
                await stream.send_all(bytes(100_000_000))
            assert scope.cancelled_caught
            go.set()
            await stream.send_eof()
            assert await read_all(stream) == b"done"
        assert 65536 <= got[0] < 100_000_000

    on_net(body)


@pytest.mark.parametrize("host", ["10.0.0.1", "example.invalid", "::1", "0.0.0.0"])
def test_loopback_goes_nowhere_else(host):
    async def main():
        async with trio.open_nursery() as nursery:
            net = LoopbackNet(nursery)
            with pytest.raises(OSError, match="unreachable") as caught:
                await net.connect(host, 80)
            assert caught.value.errno == errno.ENETUNREACH
            if host != "0.0.0.0":
                with pytest.raises(OSError, match="assign"):
                    net.listen(host, 0, echo)

    run(main, seed=0, pace=Pace.REAL)


def test_memory_reachability_and_wildcard():
    async def main():
        async with trio.open_nursery() as nursery:
            net = MemoryNet(nursery)
            net.listen("0.0.0.0", 80, echo)
            async with await net.connect("10.88.0.5", 80) as stream:
                await stream.send_eof()
                assert await stream.receive_some() == b"."
            net.set_reachability("10.88.0.5", "unreachable")
            with pytest.raises(OSError, match="No route to host"):
                await net.connect("10.88.0.5", 80)
            net.set_reachability("10.88.0.5", "silent")
            with trio.move_on_after(3600) as scope:
                await net.connect("10.88.0.5", 80)
            assert scope.cancelled_caught
            net.set_reachability("10.88.0.5", "up")
            async with await net.connect("10.88.0.5", 80):
                pass
            with pytest.raises(OSError, match="assign"):
                net.listen("10.0.0.1", 70000, echo)
            nursery.cancel_scope.cancel()

    run(main, seed=0)


def test_memory_stream_might_not_block():
    async def main():
        left, right = memory_stream_pair()
        await left.wait_send_all_might_not_block()
        await left.send_all(bytes(65536))
        with trio.move_on_after(1) as scope:
            await left.wait_send_all_might_not_block()
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.wait_send_all_might_not_block)
            assert len(await right.receive_some(10)) == 10
        async with trio.open_nursery() as nursery:
            nursery.start_soon(left.send_all, bytes(100))
            await trio.sleep(1)
            with pytest.raises(trio.BusyResourceError):
                await left.send_all(b"x")
            assert len(await right.receive_some()) == 65536
        with pytest.raises(ValueError, match="at least 1"):
            await right.receive_some(0)

    run(main, seed=0)


def test_memory_stream_ends():
    async def main():
        left, right = memory_stream_pair()
        await left.send_all(b"ab")
        assert await right.receive_some(1) == b"a"
        await left.aclose()
        assert await right.receive_some() == b"b"
        assert await right.receive_some() == b""
        with pytest.raises(trio.BrokenResourceError):
            await right.send_all(b"x")
        for call in (left.receive_some, left.send_eof):
            with pytest.raises(trio.ClosedResourceError):
                await call()
        with pytest.raises(trio.ClosedResourceError):
            await left.send_all(b"x")

    run(main, seed=0)
