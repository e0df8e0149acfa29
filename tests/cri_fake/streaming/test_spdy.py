# pyright: basic
"""Exec, attach and port-forward over SPDY/3.1, asked by a client of the tests' own, in virtual time."""

import hashlib
import importlib.util
import json
import struct
from pathlib import Path

import pytest
import trio

from k8s_proto import runtime_v1_pb2 as cri
from k8s_streams.spdy_frames import DICTIONARY

_PATH = Path(__file__).with_name("spdy_client.py")
_SPEC = importlib.util.spec_from_file_location("spdy_client", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
spdy_client = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(spdy_client)
SpdyClient, http_answer = spdy_client.SpdyClient, spdy_client.http_answer


class Exec:
    """A command in a container, over SPDY."""

    def __init__(self, client, ids) -> None:
        self.client = client
        self.ids = ids

    @classmethod
    async def start(cls, rig, url: str, streams, protocols=("v5.channel.k8s.io", "v4.channel.k8s.io")):
        client = await SpdyClient.connect(rig.runtime.world.net, url, protocols)
        ids = {name: await client.open(streamType=name) for name in ("error", *streams)}
        await client.until(lambda: len(client.replies) == len(ids))
        return cls(client, ids)

    def out(self, name: str) -> bytes:
        return self.client.data.get(self.ids[name], b"")

    async def end(self) -> dict:
        await self.client.to_end()
        return json.loads(self.out("error"))


async def exec_url(rig, container: str, *cmd: str, **fields) -> str:
    request = cri.ExecRequest(container_id=container, cmd=cmd, **{"stdout": True, **fields})
    return (await rig.cri.Exec(request)).url


async def attach_url(rig, container: str, **fields) -> str:
    request = cri.AttachRequest(container_id=container, **{"stdout": True, **fields})
    return (await rig.cri.Attach(request)).url


def test_the_dictionary_is_the_published_one():
    digest = "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02"
    assert hashlib.sha256(DICTIONARY).hexdigest() == digest


def test_output_errors_and_exit_code_CRI_116_CRI_117_CRI_118(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        url = await exec_url(rig, container, "sh", "-c", "echo out; echo err >&2; exit 7", stderr=True)
        assert url.startswith("http://127.0.0.1:")
        session = await Exec.start(rig, url, ("stdout", "stderr"))
        assert session.client.protocol == "v4.channel.k8s.io"
        status = await session.end()
        assert (session.out("stdout"), session.out("stderr")) == (b"out\n", b"err\n")
        assert status["status"] == "Failure"
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        assert session.client.ended >= set(session.ids.values())
        assert session.client.goaway

    drive(body)


def test_success_is_told_and_stdin_ends_with_the_client_CRI_118(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        url = await exec_url(rig, container, "sh", "-c", "wc -c; echo done", stdin=True)
        session = await Exec.start(rig, url, ("stdin", "stdout"))
        await session.client.send(session.ids["stdin"], b"x" * 300_000)
        await session.client.send(session.ids["stdin"], b"", fin=True)
        assert await session.end() == {"metadata": {}, "status": "Success"}
        assert session.out("stdout") == b"300000\ndone\n"
        assert session.client.windows[0] > 200_000

    drive(body)


@pytest.mark.parametrize("keeps_windows", [False, True])
def test_much_output_reaches_clients_with_and_without_windows(drive, keeps_windows):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        url = await exec_url(rig, container, "sh", "-c", "yes | head -c 1000000")
        session = await Exec.start(rig, url, ("stdout",))
        session.client.keeps_windows = keeps_windows
        assert (await session.end())["status"] == "Success"
        assert len(session.out("stdout")) == 1_000_000
        assert bool(session.client.pings) is not keeps_windows

    drive(body)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ("v3.channel.k8s.io", b"command terminated with non-zero exit code: exit status 3"),
        ("v2.channel.k8s.io", b"command terminated with non-zero exit code: exit status 3"),
        ("channel.k8s.io", b"command terminated with non-zero exit code: exit status 3"),
    ],
)
def test_older_protocols_tell_the_end_in_words_CRI_118(drive, protocol, said):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        url = await exec_url(rig, container, "sh", "-c", "exit 3")
        session = await Exec.start(rig, url, ("stdout",), (protocol,))
        await session.client.to_end()
        assert session.client.protocol == protocol
        assert session.out("error") == said
        quiet = await Exec.start(rig, await exec_url(rig, container, "true"), ("stdout",), (protocol,))
        await quiet.client.to_end()
        assert quiet.out("error") == b""

    drive(body)


def test_a_terminal_echoes_takes_sizes_and_ctrl_c_CRI_117(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        script = "trap 'stty size' WINCH; trap 'echo int; exit 5' INT; while :; do sleep 0.1; done"
        url = await exec_url(rig, container, "sh", "-c", script, stdin=True, tty=True)
        session = await Exec.start(rig, url, ("stdin", "stdout", "resize"))
        client = session.client
        await client.send(session.ids["resize"], b'{"Width":120,"Hei')
        await client.send(session.ids["resize"], b'ght":40}{"Width":0,"Height":1}\n')
        await client.until(lambda: b"40 120\r\n" in session.out("stdout"))
        await client.send(session.ids["stdin"], b"\x03")
        status = await session.end()
        assert session.out("stdout").endswith(b"^C\r\nint\r\n")
        assert status["details"]["causes"][0]["message"] == "5"

    drive(body)


def test_a_command_that_cannot_start_is_told_on_the_error_stream_CRI_118(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        session = await Exec.start(rig, await exec_url(rig, container, "nowhere"), ("stdout",))
        status = await session.end()
        assert (status["reason"], status["code"]) == ("InternalError", 500)
        assert 'failed to start exec "' in status["message"]

    drive(body)


def test_tokens_are_good_once_and_for_a_minute_CRI_114(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        net = rig.runtime.world.net
        url = await exec_url(rig, container, "true")
        token = url.rpartition("/")[2]
        assert len(token) == 8
        assert (await http_answer(net, url))[0] == 400
        assert (await http_answer(net, url))[0] == 404
        other = await exec_url(rig, container, "true")
        assert (await http_answer(net, other.replace("/exec/", "/attach/")))[0] == 404
        assert (await http_answer(net, await exec_url(rig, container, "true"), method="PUT"))[0] == 405
        late = await exec_url(rig, container, "true")
        await rig.clock.sleep(61)
        assert (await http_answer(net, late))[0] == 404

    drive(body)


def test_at_most_a_thousand_urls_are_pending_CRI_114(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        urls = {await exec_url(rig, container, "true") for _ in range(1000)}
        assert len(urls) == 1000
        code, text = await rig.refused(rig.cri.Exec(cri.ExecRequest(container_id=container, stdout=True)))
        assert (code, text) == ("RESOURCE_EXHAUSTED", "maximum number of in-flight requests exceeded")
        await rig.clock.sleep(61)
        assert await exec_url(rig, container, "true")

    drive(body)


def test_nothing_in_common_is_refused_CRI_116(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        net = rig.runtime.world.net
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("Content-Length", "0")]
        status, _, text = await http_answer(net, await exec_url(rig, container, "true"), upgrade, "POST")
        assert (status, "X-Stream-Protocol-Version" in text) == (400, True)
        headers = [*upgrade, ("X-Stream-Protocol-Version", "v9.channel.k8s.io")]
        status, answered, _ = await http_answer(net, await exec_url(rig, container, "true"), headers, "POST")
        accepted = [value for name, value in answered if name == "x-accepted-stream-protocol-versions"]
        assert (status, accepted[0], len(accepted)) == (403, "v4.channel.k8s.io", 4)

    drive(body)


def test_attach_shows_what_comes_and_ends_with_the_container_CRI_122(drive):
    async def body(rig):
        script = "echo before; sleep 5; echo now; echo err >&2; sleep 5"
        container = await rig.run(await rig.run_pod(), script=script)
        await rig.clock.sleep(1)
        clients = [
            await Exec.start(rig, await attach_url(rig, container, stderr=True), ("stdout", "stderr"))
            for _ in range(2)
        ]
        for session in clients:
            assert (await session.end())["status"] == "Success"
            assert (session.out("stdout"), session.out("stderr")) == (b"now\n", b"err\n")
        assert rig.log(await rig.exited(container)) == [
            "stdout F before", "stdout F now", "stderr F err"
        ]  # fmt: skip

    drive(body)


def test_attach_types_to_the_main_process_once_CRI_057(drive):
    async def body(rig):
        config = rig.container_config(script=None, stdin=True, stdin_once=True)
        config.command[:] = ["/bin/sh"]
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        session = await Exec.start(rig, await attach_url(rig, container, stdin=True), ("stdin", "stdout"))
        await session.client.send(session.ids["stdin"], b"echo -n hello\n", fin=True)
        assert (await session.end())["status"] == "Success"
        assert session.out("stdout") == b"hello"
        assert (await rig.exited(container)).exit_code == 0

    drive(body)


def test_without_stdin_once_a_session_ends_and_the_next_goes_on(drive):
    async def body(rig):
        config = rig.container_config(script=None, stdin=True)
        config.command[:] = ["/bin/sh"]
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        for text in (b"one", b"two"):
            session = await Exec.start(rig, await attach_url(rig, container, stdin=True), ("stdin", "stdout"))
            await session.client.send(session.ids["stdin"], b"echo " + text + b"\n")
            await session.client.until(lambda s=session, t=text: s.out("stdout") == t + b"\n")
            await session.client.send(session.ids["stdin"], b"", fin=True)
            await session.client.to_end()
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING

    drive(body)


def test_a_client_that_vanishes_leaves_nothing_behind(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        before = trio.lowlevel.current_statistics().tasks_living
        session = await Exec.start(rig, await exec_url(rig, container, "yes"), ("stdout",))
        await session.client.until(lambda: len(session.out("stdout")) > 100_000)
        await session.client.stream.aclose()
        silent = await Exec.start(rig, await exec_url(rig, container, "cat", stdin=True), ("stdin", "stdout"))
        await silent.client.stream.aclose()
        await rig.clock.sleep(5)
        found = await rig.exec(container, "sh", "-c", "pgrep yes || pgrep cat || echo none")
        assert found.stdout == b"none\n"
        assert trio.lowlevel.current_statistics().tasks_living <= before + 1

    drive(body)


def test_two_hundred_streams_beside_unary_calls(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        sessions = [
            await Exec.start(rig, await exec_url(rig, container, "cat", stdin=True), ("stdin", "stdout"))
            for _ in range(200)
        ]
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
        for number, session in enumerate(sessions):
            await session.client.send(session.ids["stdin"], b"%d" % number, fin=True)
        for number, session in enumerate(sessions):
            await session.end()
            assert session.out("stdout") == b"%d" % number

    drive(body)


def test_a_daemon_that_crashes_takes_its_streams_along(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        unused = await exec_url(rig, container, "true")
        session = await Exec.start(rig, await exec_url(rig, container, "sleep", "100"), ("stdout",))
        await rig.runtime.crash()
        await session.client.to_end()
        await rig.runtime.restart()
        with pytest.raises(OSError, match="refused"):
            await rig.runtime.world.net.connect(*spdy_client.address_of(unused))
        again = await Exec.start(rig, await exec_url(rig, container, "echo", "back"), ("stdout",))
        await again.end()
        assert again.out("stdout") == b"back\n"

    drive(body)


async def forward_url(rig, sandbox: str, *ports: int) -> str:
    request = cri.PortForwardRequest(pod_sandbox_id=sandbox, port=ports)
    return (await rig.cri.PortForward(request)).url


@pytest.mark.parametrize("host_network", [False, True])
def test_port_forward_reaches_servers_in_the_pod_CRI_120_CRI_121(drive, host_network):
    async def body(rig):
        config = rig.host_network_config() if host_network else rig.pod_config()
        sandbox = await rig.run_pod(config=config)
        await rig.run(sandbox, script="nc -l -k -p 8080 -e sh -c 'read -r x; echo \"got $x\"'")
        await rig.clock.sleep(1)
        client = await SpdyClient.connect(
            rig.runtime.world.net, await forward_url(rig, sandbox), ("portforward.k8s.io",)
        )
        for number in range(3):
            headers = {"port": "8080", "requestID": str(number)}
            error = await client.open(fin=True, streamType="error", **headers)
            data = await client.open(streamType="data", **headers)
            await client.send(data, b"ping%d\n" % number)
            await client.until(lambda d=data, e=error: {d, e} <= client.ended)
            assert client.data[data] == b"got ping%d\n" % number
            assert not client.data.get(error)
            await client.send(data, b"", fin=True)
        error = await client.open(fin=True, streamType="error", port="9", requestID="9")
        data = await client.open(streamType="data", port="9", requestID="9")
        await client.until(lambda: error in client.ended)
        assert b"error forwarding port 9 to pod" in client.data[error]
        assert b"refused" in client.data[error]
        await client.stream.aclose()

    drive(body)


def test_ping_and_unknown_things_are_answered(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        url = await exec_url(rig, container, "cat", stdin=True)
        session = await Exec.start(rig, url, ("stdin", "stdout"))
        client = session.client
        await client.control(99, b"whatever")
        await client.control(6, struct.pack(">I", 41))
        await client.until(lambda: 41 in client.pings)
        extra = await client.open(streamType="stdin")
        await client.send(extra, b"lost")
        await client.send(session.ids["stdin"], b"kept", fin=True)
        await session.end()
        assert session.out("stdout") == b"kept"

    drive(body)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 5,
        struct.pack(">HHI", 0x8002, 1, 4) + b"abcd",
        struct.pack(">HHI", 0x8003, 1, 0xFFFFFF),
        struct.pack(">HHIIIBB", 0x8003, 1, 14, 1, 0, 0, 0) + b"junk",
        struct.pack(">HHI", 0x8003, 6, 1) + b"x",
    ],
)
def test_garbage_ends_the_connection_and_nothing_else(drive, garbage):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        client = await SpdyClient.connect(rig.runtime.world.net, await exec_url(rig, container, "true"))
        await client.stream.send_all(garbage)
        await client.to_end()
        assert await exec_url(rig, container, "true")

    drive(body)
