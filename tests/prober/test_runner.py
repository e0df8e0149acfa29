"""HTTP, TCP and gRPC probes over a network in memory: PRB-21 to PRB-28."""

import pytest
import trio
from attrs import evolve

from kubelet_emu.api.types import (
    Container,
    ContainerPort,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    ObjectMeta,
    Pod,
    PodSpec,
    Probe,
    TCPSocketAction,
)
from kubelet_emu.prober.runner import HandlerResult, ProbeRunner, event_for, outcome_of
from kubelet_emu.prober.worker import WorkerSpec
from kubelet_emu.seams import ProbeKind, ProbeOutcome
from node_host.loop import run
from node_host.net import MemoryNet

POD_IP = "10.88.0.5"


class Events:
    def __init__(self):
        self.seen = []

    def event(self, pod, event_type, reason, message, *, field_path=""):
        self.seen.append((reason, message))


class NoExec:
    async def ExecSync(self, request, *, timeout_seconds=None):
        raise AssertionError("no exec probe here")


class NoNet:
    async def connect(self, host, port):
        raise AssertionError("no network here")

    def listen(self, host, port, handler):
        raise AssertionError("no network here")


class Server:
    """Answers raw text by path, and keeps what it was asked."""

    def __init__(self, answers, *, silent=False):
        self.answers = answers
        self.requests = []
        self.silent = silent

    async def __call__(self, stream):
        asked = b""
        while b"\r\n\r\n" not in asked:
            got = await stream.receive_some(4096)
            if not got:
                return
            asked += got
        self.requests.append(asked.decode())
        if self.silent:
            await trio.sleep(60)
        path = asked.split(b" ")[1].decode()
        answer = self.answers(path) if callable(self.answers) else self.answers
        await stream.send_all(answer.encode())


def reply(status, body="", **headers):
    lines = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines) + "\r\n\r\n" + body


def probe_once(probe, server=None, *, port=8080, kind=ProbeKind.READINESS, grpc=None):
    container = Container(name="c", ports=(ContainerPort(name="web", container_port=8080),))
    pod = Pod(
        metadata=ObjectMeta(name="pod", namespace="ns", uid="uid"), spec=PodSpec(containers=(container,))
    )
    events = Events()

    async def main():
        async with trio.open_nursery() as nursery:
            net = MemoryNet(nursery)
            runner = ProbeRunner(exec_client=NoExec(), net=net, events=events, grpc_health=grpc)
            spec = WorkerSpec(pod=pod, container=container, kind=kind, probe=probe)
            if server is not None:
                net.listen(POD_IP, port, server)
            outcome = await runner.run(spec, container_id="x://1", pod_ip=POD_IP)
            nursery.cancel_scope.cancel()
        return outcome

    outcome = run(main, seed=1)
    return outcome, events.seen


def http(**more):
    action = {"path": "/healthz", "port": "web", **more}
    return Probe(http_get=HTTPGetAction(**action))


SUCCESS, FAILURE = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE


@pytest.mark.parametrize("status", [200, 204, 302, 399], ids=lambda status: f"PRB-23-{status}")
def test_http_good(status):
    outcome, events = probe_once(http(), Server(reply(status)))
    assert outcome is SUCCESS
    if status >= 300:
        assert events == [
            ("ProbeWarning", "Readiness probe warning: Probe terminated redirects, Response body: ")
        ]
    else:
        assert events == []


@pytest.mark.parametrize("status", [400, 404, 500, 503], ids=lambda status: f"PRB-23-{status}")
def test_http_bad(status):
    outcome, events = probe_once(http(), Server(reply(status)))
    assert outcome is FAILURE
    text = f"Readiness probe failed: HTTP probe failed with statuscode: {status}"
    assert events == [("Unhealthy", text)]


def test_prb_22_request():
    server = Server(reply(200))
    probe_once(http(http_headers=(HTTPHeader(name="X-A", value="1"),)), server)
    assert server.requests[0].splitlines()[:6] == [
        "GET /healthz HTTP/1.1",
        "Host: 10.88.0.5:8080",
        "User-Agent: kube-probe/1.36",
        "Accept: */*",
        "X-A: 1",
        "Connection: close",
    ]


def test_prb_23_refused():
    outcome, events = probe_once(http(), Server(reply(200)), port=9999)
    assert outcome is FAILURE
    text = 'Readiness probe failed: Get "http://10.88.0.5:8080/healthz": dial tcp 10.88.0.5:8080: connect: '
    assert events == [("Unhealthy", text + "connection refused")]


def test_prb_23_timeout():
    outcome, events = probe_once(http(), Server("", silent=True))
    assert outcome is FAILURE
    text = (
        'Readiness probe failed: Get "http://10.88.0.5:8080/healthz": '
        "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )
    assert events == [("Unhealthy", text)]


def test_prb_23_empty_answer():
    outcome, events = probe_once(http(), Server(""))
    assert (outcome, events) == (
        FAILURE,
        [("Unhealthy", 'Readiness probe failed: Get "http://10.88.0.5:8080/healthz": EOF')],
    )


def test_prb_23_broken_body_is_a_probe_error():
    server = Server("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    outcome, events = probe_once(http(), server)
    assert outcome is None
    assert len(server.requests) == 3
    assert events == [
        ("Unhealthy", "Readiness probe errored and resulted in failure state: unexpected EOF"),
    ]


def test_prb_23_body_is_cut():
    body = "x" * 20000
    outcome, events = probe_once(http(), Server(reply(303, body)))
    assert outcome is SUCCESS
    assert events[0][1].count("x") == 10 * 1024


class TestRedirects:
    @pytest.mark.parametrize("code", [301, 302, 307, 308], ids=lambda code: f"PRB-24-{code}")
    @pytest.mark.parametrize(("final", "outcome"), [(200, SUCCESS), (500, FAILURE)])
    def test_local(self, code, final, outcome):
        server = Server(lambda path: reply(final) if path == "/new" else reply(code, Location="/new"))
        assert probe_once(http(), server)[0] is outcome
        assert len(server.requests) == 2

    def test_prb_24_another_host(self):
        server = Server(reply(302, "gone", Location="http://other.test/x"))
        outcome, events = probe_once(http(), server)
        assert outcome is SUCCESS
        text = "Readiness probe warning: Probe terminated redirects, Response body: gone"
        assert events == [("ProbeWarning", text)]

    def test_prb_24_loop(self):
        server = Server(reply(302, Location="/healthz"))
        outcome, events = probe_once(http(), server)
        assert outcome is FAILURE
        assert events[0][1].endswith("stopped after 10 redirects")
        assert len(server.requests) == 10


@pytest.mark.parametrize(
    ("state", "text"),
    [("unreachable", "connect: no route to host"), ("silent", "i/o timeout")],
    ids=["PRB-27-unreachable", "PRB-27-silent"],
)
def test_tcp_without_a_host(state, text):
    events = Events()

    async def main():
        async with trio.open_nursery() as nursery:
            net = MemoryNet(nursery)
            net.set_reachability(POD_IP, state)
            runner = ProbeRunner(exec_client=NoExec(), net=net, events=events)
            probe = Probe(tcp_socket=TCPSocketAction(port=1))
            container = Container(name="c")
            spec = WorkerSpec(pod=Pod(), container=container, kind=ProbeKind.LIVENESS, probe=probe)
            assert await runner.run(spec, container_id="x", pod_ip=POD_IP) is FAILURE

    run(main, seed=1)
    assert events.seen == [("Unhealthy", f"Liveness probe failed: dial tcp 10.88.0.5:1: {text}")]


class TestTcp:
    probe = Probe(tcp_socket=TCPSocketAction(port=8080))

    def test_prb_27_open(self):
        assert probe_once(self.probe, Server("")) == (SUCCESS, [])

    def test_prb_27_refused(self):
        outcome, events = probe_once(self.probe, Server(""), port=9999)
        text = "Readiness probe failed: dial tcp 10.88.0.5:8080: connect: connection refused"
        assert (outcome, events) == (FAILURE, [("Unhealthy", text)])

    def test_prb_27_bad_port_is_an_error(self):
        probe = Probe(tcp_socket=TCPSocketAction(port="nope"))
        outcome, events = probe_once(probe)
        text = "Readiness probe errored and resulted in unknown state: "
        text += 'strconv.Atoi: parsing "nope": invalid syntax'
        assert (outcome, events) == (None, [("Unhealthy", text)])


class Health:
    async def check(self, net, host, port, service, *, timeout_seconds):
        assert (host, port, service, timeout_seconds) == (POD_IP, 50051, "svc", 1)
        return HandlerResult("failure", 'service unhealthy (responded with "NOT_SERVING")')


def test_prb_28_grpc_seam():
    probe = Probe(grpc=GRPCAction(port=50051, service="svc"))
    outcome, events = probe_once(probe, grpc=Health())
    text = 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")'
    assert (outcome, events) == (FAILURE, [("Unhealthy", text)])


def test_prb_19_missing_handler():
    outcome, events = probe_once(Probe())
    text = "Readiness probe errored and resulted in unknown state: missing probe handler for pod_ns(uid):c"
    assert (outcome, events) == (None, [("Unhealthy", text)])


def test_prb_19_unknown_without_error_is_a_silent_failure():
    result = HandlerResult("unknown")
    assert outcome_of(result) is FAILURE
    assert event_for("liveness", result) is None


def test_prb_19_sidecar_field_path():
    class Paths(Events):
        def event(self, pod, event_type, reason, message, *, field_path=""):
            self.seen.append(field_path)

    async def main():
        events = Paths()
        runner = ProbeRunner(exec_client=NoExec(), net=NoNet(), events=events)
        container = Container(name="s", restart_policy="Always")
        spec = WorkerSpec(
            pod=Pod(metadata=ObjectMeta(name="p")),
            container=container,
            kind=ProbeKind.STARTUP,
            probe=Probe(),
            sidecar=True,
        )
        await runner.run(evolve(spec), container_id="x", pod_ip="")
        assert events.seen == ["spec.initContainers{s}"]

    run(main, seed=1)
