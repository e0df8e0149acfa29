"""The HTTP server over the network in memory: framing, limits, clients that misbehave."""

import json

import pytest
import trio

from kubelet_emu.server.http import HttpServer, Response, text
from node_host.clock import NodeClock
from node_host.loop import run
from node_host.net import MemoryNet


async def fetch(net, request, *, close=True):
    """Send raw bytes, read to the end: status, headers, body."""
    stream = await net.connect("127.0.0.1", 80)
    await stream.send_all(request)
    if close:
        await stream.send_eof()
    data = b""
    while chunk := await stream.receive_some():
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), body


def get(path, *more):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1:80", *more, "", ""]).encode()


@pytest.fixture
def serve():
    def tell(app, story):
        async def main():
            async with trio.open_nursery() as nursery:
                net = MemoryNet(nursery)
                failures = []
                server = HttpServer(app, clock=NodeClock(), on_failure=lambda *what: failures.append(what))
                listening = server.listen(net, "127.0.0.1", 80)
                await story(net, failures)
                listening.close()
                nursery.cancel_scope.cancel()

        run(main, seed=1)

    return tell


async def echo(request):
    shown = {"method": request.method, "path": request.path, "query": dict(request.query)}
    return Response(body=json.dumps(shown).encode(), content_type="application/json")


def test_a_whole_answer(serve):
    async def story(net, _):
        status, headers, body = await fetch(net, get("/a%20b?x=1&x=2&y="))
        assert status == 200
        assert json.loads(body) == {"method": "GET", "path": "/a b", "query": {"x": "2", "y": ""}}
        assert headers["content-type"] == "application/json"
        assert headers["date"] == "thu, 01 jan 2026 00:00:00 gmt"

    serve(echo, story)


def test_head_has_no_body(serve):
    async def story(net, _):
        status, headers, body = await fetch(net, get("/").replace(b"GET", b"HEAD"))
        assert (status, body) == (200, b"")
        assert int(headers["content-length"]) > 0

    serve(echo, story)


def test_two_requests_on_one_connection(serve):
    async def story(net, _):
        data = get("/one") + get("/two", "Connection: close")
        _, _, body = await fetch(net, data, close=False)
        assert body.count(b"HTTP/1.1 200") == 1
        assert b"/two" in body

    serve(echo, story)


def test_chunks_as_they_are_made(serve):
    async def app(request):
        async def chunks():
            for number in range(3):
                await trio.sleep(1)
                yield f"{number};".encode()
                yield b""

        return Response(chunks=chunks())

    async def story(net, _):
        _, headers, body = await fetch(net, get("/", "Connection: close"), close=False)
        assert headers["transfer-encoding"] == "chunked"
        assert body == b"2\r\n0;\r\n2\r\n1;\r\n2\r\n2;\r\n0\r\n\r\n"
        assert trio.current_time() == 3

    serve(app, story)


def test_a_client_that_goes_away_ends_the_making(serve):
    ended = []

    async def app(request):
        async def chunks():
            try:
                yield b"first"
                await trio.sleep_forever()
            finally:
                ended.append(trio.current_time())

        return Response(chunks=chunks())

    async def story(net, _):
        stream = await net.connect("127.0.0.1", 80)
        await stream.send_all(get("/"))
        await trio.sleep(5)
        await stream.aclose()
        await trio.sleep(1)
        assert ended == [5.0]

    serve(app, story)


def test_a_fault_of_the_app_is_one_500(serve):
    async def app(request):
        raise LookupError("on purpose")

    async def story(net, failures):
        status, _, body = await fetch(net, get("/x"))
        assert (status, body) == (500, b"internal error")
        assert [(path, str(error)) for path, error in failures] == [("/x", "on purpose")]

    serve(app, story)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200),
        (b"GET http://127.0.0.1/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 200),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 200),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 1100000, 413),
    ],
    ids=["nonsense", "no-host", "huge-head", "rebinding", "name", "ipv6", "absolute", "body", "huge-body"],
)
def test_what_clients_send(serve, data, status):
    async def story(net, failures):
        found, _, _ = await fetch(net, data)
        assert found == status
        assert not failures

    serve(echo, story)


def test_an_idle_connection_is_closed(serve):
    async def story(net, _):
        stream = await net.connect("127.0.0.1", 80)
        assert await stream.receive_some() == b""
        assert trio.current_time() == 90

    serve(echo, story)


def test_too_many_connections(serve):
    async def story(net, _):
        streams = [await net.connect("127.0.0.1", 80) for _ in range(256)]
        await trio.sleep(1)
        assert (await fetch(net, b"", close=False))[0] == 503
        await streams[0].aclose()
        await trio.sleep(1)
        assert (await fetch(net, get("/")))[0] == 200

    serve(echo, story)


def test_text():
    assert text("é", 404) == Response(status=404, body="é".encode())
