"""The subcommands of the e2e image ``agnhost`` that tests of Kubernetes and of runtimes use.

Each subcommand is a program over the pod's network, files and clock. UDP and SCTP are not emulated, so
servers that also speak them serve TCP only. An unknown subcommand ends with 1 and says which are known.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import trio

from cri_fake.process import signals
from cri_fake.process.applets.common import reason
from cri_fake.process.applets.network import host_of
from cri_fake.process.applets.options import UsageError
from cri_fake.process.proc import Exit, Proc, decode
from cri_fake.process.servers.health import serve_health
from cri_fake.process.servers.web import (
    WebRequest,
    WebResponse,
    file_response,
    listen_or_fail,
    serve_http,
    text,
)
from k8s_proto import health_v1_pb2 as health
from node_host.net import Listening

__all__ = ["agnhost"]

_LIVENESS_SECONDS = 10.0
_MAX_LINES = 1_000_000


def _options(proc: Proc, defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """``--name=value``, ``--name value`` and ``--flag`` after the subcommand, and what is left.

    Options that take no value are those whose default is ``false``.
    """
    found, rest = dict(defaults), list[str]()
    words = iter(proc.argv[2:])
    for word in words:
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if name not in found:
            raise UsageError(f"unknown flag: --{name}")
        if not equals:
            value = "true" if found[name] in ("false", "true") else next(words, "")
        found[name] = value
    return found, rest


def _number(options: Mapping[str, str], name: str) -> int:
    value = options[name]
    if not value.lstrip("-").isdigit():
        raise UsageError(f'invalid argument "{value}" for "--{name}" flag: parse error')
    return int(value)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(value: str) -> float:
    """Seconds of ``1m30s``, ``500ms``, ``10`` (seconds)."""
    total, number = 0.0, ""
    at = 0
    while at < len(value):
        if value[at].isdigit() or value[at] == ".":
            number += value[at]
            at += 1
            continue
        unit = value[at : at + 2] if value[at : at + 2] == "ms" else value[at]
        if unit not in _UNITS or not number:
            raise UsageError(f'time: invalid duration "{value}"')
        total += float(number) * _UNITS[unit]
        number, at = "", at + len(unit)
    return total + (float(number) if number else 0.0)


async def _forever(proc: Proc, *, graceful: bool = True) -> int:
    """Wait for the end: TERM and INT end with 0, or as signals where the program does not catch them."""
    if not graceful:
        return await proc.until_told()
    stopped = trio.Event()
    for number in (signals.TERM, signals.INT):
        proc.on_signal(number, lambda _: stopped.set())
    proc.pace.rested()
    await stopped.wait()
    return 0


async def agnhost(proc: Proc) -> int:
    """``agnhost SUBCOMMAND``; without one it pauses, as the image does."""
    name = proc.args[0] if proc.args else "pause"
    if name in ("-h", "--help", "help"):
        await proc.write("Usage:\n  app [command]\n\nAvailable Commands:\n")
        await proc.write("".join(f"  {each}\n" for each in sorted(_COMMANDS)))
        return 0
    command = _COMMANDS.get(name)
    if command is None:
        known = ", ".join(sorted(_COMMANDS))
        await proc.write(f'Error: unknown command "{name}" for "app"; emulated are: {known}\n', fd=2)
        return 1
    try:
        return await command(proc)
    except UsageError as problem:
        await proc.write(f"Error: {problem}\n", fd=2)
        return 1


async def _pause(proc: Proc) -> int:
    await proc.write("Paused\n")
    return await _forever(proc)


async def _entrypoint_tester(proc: Proc) -> int:
    await proc.write(f"[{' '.join(proc.argv)}]\n")
    return 0


# -- netexec ------------------------------------------------------------------------------------------------


async def _netexec(proc: Proc) -> int:
    """HTTP server that runs commands, echoes, exits: what most network tests talk to."""
    defaults = {
        "http-port": "8080", "udp-port": "8081", "sctp-port": "-1", "delay-shutdown": "0",
        "tls-cert-file": "", "tls-private-key-file": "", "udp-listen-addresses": "",
        "http-override": "", "http-listen-addresses": "",
    }  # fmt: skip
    options, _ = _options(proc, defaults)
    port = _number(options, "http-port")
    netexec = _Netexec(proc, options["http-override"])
    listening = await serve_http(proc, port, netexec.answer)
    await proc.write(f"Started HTTP server on port {port}\n")
    try:
        told = trio.Event()

        def stop(_: int) -> None:
            netexec.exit_code = netexec.exit_code or 0
            told.set()

        netexec.told = told
        proc.on_signal(signals.TERM, stop)
        proc.on_signal(signals.INT, stop)
        proc.pace.rested()
        await told.wait()
        delay = _number(options, "delay-shutdown")
        if delay and netexec.exit_code == 0:
            netexec.terminating = True
            await proc.sleep(delay)
    finally:
        listening.close()
    return netexec.exit_code or 0


class _Netexec:
    def __init__(self, proc: Proc, override: str) -> None:
        self._proc = proc
        self._override = override
        self.exit_code: int | None = None
        self.terminating = False
        self.told = trio.Event()

    async def answer(self, request: WebRequest) -> WebResponse:
        path = self._override or request.path
        answers: dict[str, Callable[[WebRequest], Awaitable[WebResponse]]] = {
            "/": self._now,
            "/clientip": self._client,
            "/dial": self._dial,
            "/echo": self._echo,
            "/exit": self._exit,
            "/header": self._header,
            "/healthz": self._healthz,
            "/hostname": self._hostname,
            "/redirect": self._redirect,
            "/shell": self._shell,
            "/shutdown": self._shutdown,
            "/upload": self._upload,
        }
        answer = answers.get(path.lower())
        return await answer(request) if answer is not None else text("404 page not found\n", 404)

    async def _now(self, request: WebRequest) -> WebResponse:
        stamp = datetime.fromtimestamp(self._proc.clock.now_ns() / 1e9, UTC)
        return text(f"NOW: {stamp:%Y-%m-%d %H:%M:%S.%f} +0000 UTC")

    async def _client(self, request: WebRequest) -> WebResponse:
        return text(request.peer)

    async def _echo(self, request: WebRequest) -> WebResponse:
        code = request.query.get("code", "200")
        status = int(code) if code.isdigit() and 100 <= int(code) < 600 else 200
        return text(request.query.get("msg", ""), status)

    async def _exit(self, request: WebRequest) -> WebResponse:
        code = request.query.get("code", "0")
        wait = _duration(request.query.get("wait", "0"))
        if wait:
            await self._proc.sleep(wait)
        self.exit_code = int(code) & 0xFF if code.isdigit() else 0
        self.told.set()
        return text("")

    async def _shutdown(self, request: WebRequest) -> WebResponse:
        self.exit_code = 0
        self.told.set()
        return text("")

    async def _header(self, request: WebRequest) -> WebResponse:
        return text(request.headers.get(request.query.get("key", "").lower(), ""))

    async def _healthz(self, request: WebRequest) -> WebResponse:
        return text("" if not self.terminating else "shutting down", 503 if self.terminating else 200)

    async def _hostname(self, request: WebRequest) -> WebResponse:
        return text(self._proc.hostname)

    async def _redirect(self, request: WebRequest) -> WebResponse:
        code = request.query.get("code", "302")
        status = int(code) if code.isdigit() and 300 <= int(code) < 400 else 302
        return WebResponse(status=status, headers=(("Location", request.query.get("location", "/")),))

    async def _upload(self, request: WebRequest) -> WebResponse:
        self._proc.fs.write("/tmp/uploaded", request.body)
        return text(json.dumps({"output": "/tmp/uploaded"}))

    async def _shell(self, request: WebRequest) -> WebResponse:
        command = request.query.get("cmd") or request.query.get("shellCommand", "")
        code, output = await _output_of(self._proc, ["sh", "-c", command])
        answer = {"output": output}
        if code:
            answer["error"] = f"exit status {code}"
        return text(json.dumps(answer))

    async def _dial(self, request: WebRequest) -> WebResponse:
        query = request.query
        tries = query.get("tries", "1")
        if query.get("protocol", "http") != "http":
            return text("unsupported protocol: only http is emulated", 400)
        responses, errors = list[str](), list[str]()
        for _ in range(min(int(tries) if tries.isdigit() else 1, 1000)):
            try:
                port = int(query.get("port", ""))
                responses.append(
                    await _get(self._proc, query.get("host", ""), port, query.get("request", ""))
                )
            except (OSError, ValueError) as problem:
                errors.append(str(problem))
        answer: dict[str, list[str]] = {}
        if responses:
            answer["responses"] = responses
        if errors:
            answer["errors"] = errors
        return text(json.dumps(answer))


async def _output_of(proc: Proc, argv: list[str]) -> tuple[int, str]:
    """Exit code and output of a command of the container."""
    pipe = proc.pipe()
    found = proc.kernel.resolve(argv, proc.env.get("PATH"), proc.cwd)
    fds = {0: proc.open("/dev/null"), 1: pipe.writer, 2: pipe.writer.hold()}
    child = proc.fork(found.program, argv=found.argv, fds=fds)
    output = bytearray()
    try:
        while chunk := await pipe.reader.read(65536):
            output += chunk[: max(0, (1 << 20) - len(output))]
    finally:
        pipe.reader.release()
    return await proc.wait_for(child), decode(bytes(output))


async def _get(proc: Proc, host: str, port: int, path: str) -> str:
    """The body of one GET."""
    stream = await proc.kernel.net.connect(host_of(proc, host), port)
    data = bytearray()
    try:
        request = f"GET /{path.lstrip('/')} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        await stream.send_all(request.encode())
        while len(data) < 1 << 20 and (chunk := bytes(await stream.receive_some())):
            data += chunk
    finally:
        await trio.aclose_forcefully(stream)
    return decode(bytes(data).partition(b"\r\n\r\n")[2])


# -- servers ------------------------------------------------------------------------------------------------


async def _liveness(proc: Proc) -> int:
    """Healthy for ten seconds, then not: the example of the documentation of probes."""
    begin = proc.clock.elapsed_seconds()

    async def app(request: WebRequest) -> WebResponse:
        seconds = proc.clock.elapsed_seconds() - begin
        if request.path == "/started":
            return text(f"{seconds}")
        if request.path == "/redirect":
            location = request.query.get("loc", "/")
            return WebResponse(status=302, headers=(("Location", location),))
        if request.path == "/healthz":
            if seconds > _LIVENESS_SECONDS:
                return text(f"error: {seconds}", 500)
            return text("ok")
        return text("404 page not found\n", 404)

    listening = await serve_http(proc, 8080, app)
    try:
        return await _forever(proc, graceful=False)
    finally:
        listening.close()


async def _test_webserver(proc: Proc) -> int:
    """Serves the files of the container."""
    options, _ = _options(proc, {"port": "80"})

    async def app(request: WebRequest) -> WebResponse:
        return file_response(proc.fs, "/", request.path, missing="404 page not found\n")

    listening = await serve_http(proc, _number(options, "port"), app)
    try:
        return await _forever(proc, graceful=False)
    finally:
        listening.close()


async def _serve_hostname(proc: Proc) -> int:
    """Tells the host's name over HTTP, or to whoever connects with ``--tcp``."""
    options, _ = _options(
        proc, {"http": "true", "tcp": "false", "udp": "false", "port": "9376", "close": "false"}
    )
    port = _number(options, "port")

    async def app(request: WebRequest) -> WebResponse:
        return text(proc.hostname)

    async def say(stream: trio.abc.HalfCloseableStream) -> None:
        await stream.send_all(proc.hostname.encode())

    serve = listen_or_fail(proc, port, say) if options["tcp"] == "true" else serve_http(proc, port, app)
    listening = await serve
    try:
        return await _forever(proc)
    finally:
        listening.close()


async def _porter(proc: Proc) -> int:
    """Serves each variable ``SERVE_PORT_<port>`` at its port."""
    listenings: list[Listening] = []
    try:
        for name, said in sorted(proc.env.items()):
            port = name.removeprefix("SERVE_PORT_")
            if port == name or not port.isdigit():
                continue

            async def app(request: WebRequest, said: str = said) -> WebResponse:
                return text(said)

            listenings.append(await serve_http(proc, int(port), app))
        return await _forever(proc, graceful=False)
    finally:
        for listening in listenings:
            listening.close()


async def _grpc_health(proc: Proc) -> int:
    """gRPC health on --port; HTTP on --http-port makes it serving or not."""
    options, _ = _options(
        proc, {"port": "5000", "http-port": "8080", "delay-unhealthy-sec": "-1", "service": "",
               "tls-cert-file": "", "tls-private-key-file": ""}
    )  # fmt: skip
    state = [int(health.HealthCheckResponse.SERVING)]
    until = _number(options, "delay-unhealthy-sec")
    begin = proc.clock.elapsed_seconds()

    def state_of(service: str) -> int | None:
        if service not in ("", options["service"]):
            return None
        if until >= 0 and proc.clock.elapsed_seconds() - begin >= until:
            return int(health.HealthCheckResponse.NOT_SERVING)
        return state[0]

    async def app(request: WebRequest) -> WebResponse:
        if request.path == "/make-serving":
            state[0] = int(health.HealthCheckResponse.SERVING)
        elif request.path == "/make-not-serving":
            state[0] = int(health.HealthCheckResponse.NOT_SERVING)
        else:
            return text("404 page not found\n", 404)
        return text("ok")

    answering = await listen_or_fail(
        proc, _number(options, "port"), lambda stream: serve_health(stream, state_of)
    )
    web = await serve_http(proc, _number(options, "http-port"), app)
    try:
        return await _forever(proc)
    finally:
        answering.close()
        web.close()


# -- clients and others -------------------------------------------------------------------------------------


async def _connect(proc: Proc) -> int:
    """``connect HOST:PORT``: whether a port can be reached; says TIMEOUT, REFUSED, DNS or OTHER."""
    options, rest = _options(proc, {"timeout": "0", "protocol": "tcp"})
    host, _, port = (rest or [""])[0].rpartition(":")
    if not host or not port.isdigit():
        raise UsageError("usage: connect HOST:PORT")
    limit = _duration(options["timeout"]) or float("inf")
    said = "TIMEOUT"
    with trio.move_on_after(limit):
        try:
            address = host_of(proc, host.strip("[]"))
            await trio.aclose_forcefully(await proc.kernel.net.connect(address, int(port)))
        except ConnectionRefusedError:
            said = "REFUSED"
        except FileNotFoundError:
            said = "DNS"
        except OSError as problem:
            said = "REFUSED" if problem.errno == 111 else f"OTHER: {reason(problem)}"
        else:
            return 0
    await proc.write(f"{said}\n", fd=2)
    return 1


async def _logs_generator(proc: Proc) -> int:
    """``logs-generator``: so many lines in so much time, in the form of klog."""
    options, _ = _options(proc, {"log-lines-total": "0", "run-duration": "0s"})
    total = _number(options, "log-lines-total")
    seconds = _duration(options["run-duration"])
    if not 0 < total <= _MAX_LINES:
        raise UsageError("Invalid total number of lines: use --log-lines-total with 1 or more")
    if seconds <= 0:
        raise UsageError("Invalid duration: use --run-duration")
    for line in range(total):
        stamp = datetime.fromtimestamp(proc.clock.now_ns() / 1e9, UTC)
        verb = ("GET", "POST", "PUT")[proc.rng.randrange(3)]
        pod = "".join(proc.rng.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(4))
        space = ("default", "kube-system", "ns")[proc.rng.randrange(3)]
        status = 200 + proc.rng.randrange(400)
        head = f"I{stamp:%m%d %H:%M:%S.%f} {proc.pid:7} logs_generator.go:76]"
        await proc.write(f"{head} {line} {verb} /api/v1/namespaces/{space}/pods/{pod} {status}\n", fd=2)
        await proc.sleep(seconds / total)
    return 0


async def _lines_of(proc: Proc, word: str) -> list[list[str]]:
    """The words after ``word`` of each line of /etc/resolv.conf that starts with it."""
    lines = decode(proc.fs.read("/etc/resolv.conf")).splitlines()
    return [line.split()[1:] for line in lines if line.split()[:1] == [word]]


async def _dns_suffix(proc: Proc) -> int:
    await proc.write(",".join(name for words in await _lines_of(proc, "search") for name in words) + "\n")
    return 0


async def _dns_servers(proc: Proc) -> int:
    await proc.write(",".join(words[0] for words in await _lines_of(proc, "nameserver") if words) + "\n")
    return 0


async def _etc_hosts(proc: Proc) -> int:
    await proc.write(decode(proc.fs.read("/etc/hosts")))
    return 0


async def _mounttest(proc: Proc) -> int:
    """Looks at files and makes them: content, mode, permissions, owner."""
    names = ("file_content", "file_mode", "file_perm", "file_owner", "fs_type", "new_file_0644",
             "new_file_0660", "new_file_0666", "new_file_0777", "file_content_in_loop")  # fmt: skip
    options, _ = _options(
        proc, {**dict.fromkeys(names, ""), "retry_time": "180", "break_on_expected_content": "true"}
    )
    for name in names:
        path = options[name]
        if not path:
            continue
        try:
            await _look(proc, name, proc.path(path))
        except OSError as problem:
            await proc.write(f"error: {path}: {reason(problem)}\n")
            raise Exit(1) from None
    return 0


async def _look(proc: Proc, name: str, path: str) -> None:
    fs = proc.fs
    if name.startswith("new_file_"):
        fs.write(path, b"mount-tester new file\n")
        fs.chmod(path, int(name[-4:], 8))
        return
    if name.startswith("file_content"):
        await proc.write(f'content of file "{path}": {decode(fs.read(path))}\n')
        return
    info = fs.stat(path)
    kind = "d" if info.kind == "dir" else "-"
    bits = "".join(letter if info.mode >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    if name == "file_mode":
        await proc.write(f'mode of file "{path}": {kind}{bits}\n')
    elif name == "file_perm":
        await proc.write(f'perms of file "{path}": -{bits}\n')
    elif name == "file_owner":
        uid, gid = proc.kernel.user
        await proc.write(f'owner UID of "{path}": {uid}\nowner GID of "{path}": {gid}\n')
    else:
        await proc.write(f'mount type of "{path}": ext4\n')


_COMMANDS: Mapping[str, Callable[[Proc], Awaitable[int]]] = {
    "connect": _connect,
    "dns-server-list": _dns_servers,
    "dns-suffix": _dns_suffix,
    "entrypoint-tester": _entrypoint_tester,
    "etc-hosts": _etc_hosts,
    "grpc-health-checking": _grpc_health,
    "liveness": _liveness,
    "logs-generator": _logs_generator,
    "mounttest": _mounttest,
    "netexec": _netexec,
    "pause": _pause,
    "porter": _porter,
    "serve-hostname": _serve_hostname,
    "test-webserver": _test_webserver,
}
