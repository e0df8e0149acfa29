"""Lifecycle hooks (HOK-05 to HOK-10)."""

import pytest
import trio

from kubelet_emu.api.types import (
    Container,
    ContainerPort,
    ExecAction,
    HTTPGetAction,
    HTTPHeader,
    LifecycleHandler,
    ObjectMeta,
    Pod,
    SleepAction,
    TCPSocketAction,
)
from kubelet_emu.errors import PeerError
from kubelet_emu.lifecycle.handlers import CommandFailed, HookError, HookRunner
from node_host.clock import NodeClock
from node_host.loop import run
from node_host.net import MemoryNet

POD = Pod(metadata=ObjectMeta(name="p", namespace="n", uid="u"))
CONTAINER = Container(name="c", ports=(ContainerPort(name="quux", container_port=8080),))
ADDRESS = "233.252.0.1"


class World:
    """A hook runner, a web server that notes what it is asked, and what was said."""

    def __init__(self, net, clock):
        self.net = net
        self.clock = clock
        self.requests = []
        self.events = []
        self.ran = []
        self.command_error = None
        self.address = ADDRESS
        self.runner = HookRunner(
            run_command=self.command, pod_address=self.pod_address, net=net, clock=clock, events=self
        )

    def event(self, pod, event_type, reason, message, *, field_path=""):
        self.events.append((event_type, reason, message, field_path))

    async def command(self, container_id, command):
        self.ran.append((container_id, tuple(command)))
        if self.command_error is not None:
            raise self.command_error
        return b""

    async def pod_address(self, pod):
        if isinstance(self.address, Exception):
            raise self.address
        return self.address

    def serve(self, host, port, status=200):
        async def handle(stream):
            data = b""
            while b"\r\n\r\n" not in data:
                more = await stream.receive_some()
                if not more:
                    return
                data += more
                if not data[:1].isalpha():
                    break
            self.requests.append(data.decode(errors="replace").split("\r\n"))
            await stream.send_all(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % status)

        self.net.listen(host, port, handle)

    async def run(self, **handler):
        await self.runner.run("id", POD, CONTAINER, LifecycleHandler(**handler))

    async def fails(self, **handler):
        with pytest.raises(HookError) as error:
            await self.run(**handler)
        return str(error.value)


@pytest.fixture
def in_world():
    def go(body):
        async def main():
            async with trio.open_nursery() as nursery:
                await body(World(MemoryNet(nursery), NodeClock()))
                nursery.cancel_scope.cancel()

        run(main, seed=1)

    return go


def test_exec_runs_the_command_as_written(in_world):
    async def body(world):
        await world.run(exec=ExecAction(command=("sh", "-c", "$(X)")))
        assert world.ran == [("id", ("sh", "-c", "$(X)"))]

    in_world(body)


def test_hok_05_exec_failure(in_world):
    async def body(world):
        world.command_error = CommandFailed("command 'ls -a' exited with 1: bad", b'say "hi"\n')
        assert await world.fails(exec=ExecAction(command=("ls", "-a"))) == (
            'Exec lifecycle hook ([ls -a]) for Container "c" in Pod "p_n(u)" failed - '
            'error: command \'ls -a\' exited with 1: bad, message: "say \\"hi\\"\\n"'
        )

    in_world(body)


def test_sleep_takes_its_time(in_world):
    async def body(world):
        await world.run(sleep=SleepAction(seconds=7))
        assert world.clock.elapsed_seconds() == 7

    in_world(body)


def test_hok_05_other_handlers_cannot_be_run(in_world):
    async def body(world):
        assert (await world.fails(tcp_socket=TCPSocketAction(port=1))).startswith("Cannot run handler: ")
        assert (await world.fails()).startswith("Cannot run handler: invalid handler: ")

    in_world(body)


REQUESTS = [
    pytest.param({"host": "example.test", "path": "foo", "port": "42"}, "example.test", 42, "/foo"),
    pytest.param({"path": "/foo", "port": 42}, ADDRESS, 42, "/foo"),
    pytest.param({"path": "foo", "port": "quux"}, ADDRESS, 8080, "/foo"),
    pytest.param({"path": "foo?k=v", "port": 80}, ADDRESS, 80, "/foo?k=v"),
]


@pytest.mark.parametrize(("action", "host", "port", "path"), REQUESTS)
def test_hok_10_requests(in_world, action, host, port, path):
    async def body(world):
        world.serve(host, port)
        await world.run(http_get=HTTPGetAction(**action))
        (request,) = world.requests
        assert request[0] == f"GET {path} HTTP/1.1"
        assert "User-Agent: kube-lifecycle/1.36" in request
        assert "Accept: */*" in request

    in_world(body)


def test_hok_10_headers_of_the_user(in_world):
    async def body(world):
        world.serve(ADDRESS, 80)
        headers = (HTTPHeader(name="Foo", value="bar"), HTTPHeader(name="Host", value="from.header"))
        await world.run(http_get=HTTPGetAction(port=80, http_headers=headers))
        assert {"Foo: bar", "Host: from.header"} <= set(world.requests[0])

    in_world(body)


@pytest.mark.parametrize("status", [404, 500])
def test_hok_05_any_answer_is_success(in_world, status):
    async def body(world):
        world.serve(ADDRESS, 80, status)
        await world.run(http_get=HTTPGetAction(port=80))

    in_world(body)


BAD_PORTS = ["", "no-such", 0, 70000]


@pytest.mark.parametrize("port", BAD_PORTS)
def test_hok_10_bad_ports(in_world, port):
    async def body(world):
        text = await world.fails(http_get=HTTPGetAction(port=port, path="/x"))
        assert text.startswith('HTTP lifecycle hook (/x) for Container "c" in Pod "p_n(u)" failed - error: ')

    in_world(body)


def test_hok_05_nobody_answers(in_world):
    async def body(world):
        assert await world.fails(http_get=HTTPGetAction(port=80, path="/x")) == (
            'HTTP lifecycle hook (/x) for Container "c" in Pod "p_n(u)" failed - error: '
            f'Get "http://{ADDRESS}:80/x": dial tcp {ADDRESS}:80: connect: connection refused'
        )

    in_world(body)


@pytest.mark.parametrize("address", ["", PeerError("rpc error: code = Unavailable desc = down")])
def test_hok_07_a_pod_without_address(in_world, address):
    async def body(world):
        world.address = address
        assert "failed - error: " in await world.fails(http_get=HTTPGetAction(port=80))

    in_world(body)


def test_hok_08_https_answered_in_plain_http_is_repeated_without_authorization(in_world):
    async def body(world):
        world.serve(ADDRESS, 443)
        headers = (HTTPHeader(name="Authorization", value="secret"),)
        await world.run(http_get=HTTPGetAction(port=443, scheme="HTTPS", http_headers=headers))
        assert not any(line.startswith("Authorization") for line in world.requests[-1])
        assert world.events == [
            (
                "Warning",
                "LifecycleHTTPFallback",
                f"request to HTTPS lifecycle hook {ADDRESS}:443 got HTTP response, retry with HTTP succeeded",
                "",
            )
        ]

    in_world(body)


def test_hok_08_the_first_error_counts_if_plain_http_fails_too(in_world):
    async def body(world):
        answered = []

        async def once(stream):
            await stream.receive_some()
            if not answered:
                answered.append(1)
                await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        world.net.listen(ADDRESS, 443, once)
        text = await world.fails(http_get=HTTPGetAction(port=443, scheme="HTTPS"))
        assert "server gave HTTP response to HTTPS client" in text
        assert world.events == []

    in_world(body)
