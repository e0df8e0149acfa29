"""Calls per second: in memory, over a unix socket, and plain grpcio beside it, one at a time and 32 at once.

    python bench/rpc.py [--calls 2000] [--rounds 5] [--across]

Prints the best of the rounds and the CPU time a call took, and the ratio to plain grpcio's blocking
calls with a thread-pool server, measured in the same process between the rounds. Budgets: in memory over
25,000/s; over the socket at most 30 % below plain grpcio in sequence and 50 % at 32 at once.

With ``--across`` the client is a process of its own with plain grpcio and blocking calls. It calls the fake
runtime served by trio_grpc, then a plain grpcio server with a trivial handler, in turns; the same budgets.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "proto"))

import trio

from k8s_proto import runtime_v1_pb2 as cri
from node_host.loop import Pace, run
from trio_grpc import CallRecord, Channel, MemoryTransport, Transport, UnixTransport
from trio_grpc.services.runtime_v1 import RuntimeServiceClient, RuntimeServiceHandler

AT_ONCE = 32
Rates = dict[str, tuple[float, float]]


class Trivial(RuntimeServiceHandler):
    """Answers at once."""

    async def Version(self, request: cri.VersionRequest, call: object) -> cri.VersionResponse:
        return cri.VersionResponse(version=request.version, runtime_name="bench", runtime_api_version="v1")


class Counter:
    """A hook that does what a trace needs least: it sees each call."""

    def __init__(self) -> None:
        self.calls = 0

    def started(self, record: CallRecord) -> None:
        self.calls += 1

    def item(self, record: CallRecord, message: object) -> None:
        """No streams here."""

    def finished(self, record: CallRecord) -> None:
        assert record.reply is not None


def better(rates: Rates, name: str, calls: int, wall_seconds: float, cpu_seconds: float) -> None:
    """Keep the best rate and the least CPU time a call."""
    rate, cpu = rates.get(name, (0.0, 1.0))
    rates[name] = (max(rate, calls / wall_seconds), min(cpu, cpu_seconds / calls))


async def measure(channel: Channel, name: str, calls: int, rates: Rates) -> None:
    """One round of both patterns over a channel."""
    client = RuntimeServiceClient(channel)

    async def some(count: int) -> None:
        for _ in range(count):
            await client.Version(cri.VersionRequest(version="v1"), timeout_seconds=120.0)

    await some(20)
    wall, cpu = time.perf_counter(), time.process_time()
    await some(calls)
    better(rates, f"{name}, in sequence", calls, time.perf_counter() - wall, time.process_time() - cpu)
    wall, cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(some, calls // AT_ONCE)
    took = (time.perf_counter() - wall, time.process_time() - cpu)
    better(rates, f"{name}, {AT_ONCE} at once", calls // AT_ONCE * AT_ONCE, *took)


async def ours(transport: Transport, path: str, name: str, calls: int, rates: Rates, *, traced: bool) -> None:
    server = transport.server(path)
    server.add(Trivial())
    async with server, transport.channel(path, hooks=(Counter(),) if traced else ()) as channel:
        await measure(channel, name, calls, rates)


def plain_server(path: str) -> Any:
    """A started grpcio server with a thread pool and a trivial handler."""
    import grpc

    def version(request: Any, context: object) -> Any:
        return cri.VersionResponse(version=request.version, runtime_name="bench", runtime_api_version="v1")

    handler = grpc.unary_unary_rpc_method_handler(
        version, cri.VersionRequest.FromString, cri.VersionResponse.SerializeToString
    )
    server = grpc.server(ThreadPoolExecutor(AT_ONCE))
    service = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {"Version": handler})
    server.add_generic_rpc_handlers((service,))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    return server


def plain_client(path: str, calls: int, name: str, rates: Rates) -> None:
    """Blocking calls of grpcio, from 32 threads for 32 at once."""
    import grpc

    with grpc.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(
            "/runtime.v1.RuntimeService/Version",
            cri.VersionRequest.SerializeToString,
            cri.VersionResponse.FromString,
        )

        def some(count: int) -> None:
            for _ in range(count):
                call(cri.VersionRequest(version="v1"), timeout=120.0)

        some(20)
        wall, cpu = time.perf_counter(), time.process_time()
        some(calls)
        took = (time.perf_counter() - wall, time.process_time() - cpu)
        better(rates, f"{name}, in sequence", calls, *took)
        threads = [threading.Thread(target=some, args=(calls // AT_ONCE,)) for _ in range(AT_ONCE)]
        wall, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = (time.perf_counter() - wall, time.process_time() - cpu)
        better(rates, f"{name}, {AT_ONCE} at once", calls // AT_ONCE * AT_ONCE, *took)


def plain(path: str, calls: int, rates: Rates) -> None:
    """grpcio alone, both ends in this process."""
    server = plain_server(path)
    plain_client(path, calls, "plain grpcio", rates)
    server.stop(None).wait()


def client_command(path: str, calls: int, name: str) -> list[str]:
    return [sys.executable, __file__, "--client", path, "--name", name, "--calls", str(calls)]


def take(rates: Rates, said: bytes) -> None:
    """Keep the best of what a client process measured."""
    for name, (rate, cpu) in json.loads(said).items():
        known = rates.get(name, (0.0, 1.0))
        rates[name] = (max(known[0], rate), min(known[1], cpu))


async def fake_runtime(path: str, calls: int, rates: Rates) -> None:
    """The fake runtime, served by trio_grpc for one run of the client."""
    from cri_fake.runtime import FakeRuntime
    from node_host.clock import NodeClock
    from node_host.files import MemoryFiles
    from node_host.net import MemoryNet
    from node_host.randoms import Randoms

    clock = NodeClock()
    files = MemoryFiles(now_ns=clock.now_ns)
    async with trio.open_nursery() as nursery:
        runtime = FakeRuntime(clock=clock, randoms=Randoms(1), files=files, net=MemoryNet(nursery))
        async with runtime:
            server = UnixTransport().server(path)
            for handler in runtime.handlers:
                server.add(handler)
            async with server:
                done = await trio.run_process(client_command(path, calls, "cri_fake"), capture_stdout=True)
        nursery.cancel_scope.cancel()
    take(rates, done.stdout)


def across(path: str, calls: int, rates: Rates) -> None:
    """One round with the client in another process."""
    run(fake_runtime, f"{path}f", calls, rates, seed=1, pace=Pace.REAL)
    server = plain_server(f"{path}p")
    done = subprocess.run(
        client_command(f"{path}p", calls, "plain grpcio"), check=True, stdout=subprocess.PIPE
    )
    server.stop(None).wait()
    take(rates, done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="Calls per second of each transport.")
    parser.add_argument("--calls", type=int, default=2000, help="calls of one round over the socket")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--across", action="store_true", help="the client is another process")
    parser.add_argument("--client", metavar="SOCKET", help="be that client once; prints JSON")
    parser.add_argument("--name", default="client", help="what the client calls its figures")
    arguments = parser.parse_args()
    calls: int = arguments.calls
    rates: Rates = {}
    if arguments.client:
        plain_client(arguments.client, calls, arguments.name, rates)
        print(json.dumps(rates))
        return
    with tempfile.TemporaryDirectory(prefix="ke-") as folder:
        for number in range(arguments.rounds):
            path = os.path.join(folder, f"{number}")
            if arguments.across:
                across(path, calls, rates)
            else:
                here(path, calls, rates)
    print(f"{'':34} {'calls/s':>9} {'CPU us/call':>12} {'of plain':>9}")
    for name, (rate, cpu) in rates.items():
        reference = rates["plain grpcio," + name.rpartition(",")[2]][0]
        print(f"{name:34} {rate:9,.0f} {cpu * 1e6:12.0f} {rate / reference:9.0%}")


def here(path: str, calls: int, rates: Rates) -> None:
    """One round with all ends in this process."""
    for traced, name in ((False, "in memory"), (True, "in memory, traced")):
        started(ours, MemoryTransport(), path, name, calls * 5, rates, traced=traced, pace=Pace.VIRTUAL)
    for pace, name in ((Pace.REAL, "unix, real time"), (Pace.VIRTUAL, "unix, virtual time")):
        started(ours, UnixTransport(), path, name, calls, rates, traced=False, pace=pace)
    plain(path, calls, rates)


def started(body: Callable[..., Any], *arguments: object, traced: bool, pace: Pace) -> None:
    """Run one measurement in a loop of its own."""

    async def outer() -> None:
        await body(*arguments, traced=traced)

    run(outer, seed=1, pace=pace)


if __name__ == "__main__":
    main()
