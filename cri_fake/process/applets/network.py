"""Applets that talk over the pod's network: nc, wget, httpd, nslookup, ping."""

from __future__ import annotations

import errno

import trio

from cri_fake.process.applets.common import applet, fail, options_of, reason
from cri_fake.process.applets.options import UsageError
from cri_fake.process.applets.simple import parse_duration
from cri_fake.process.files import ContainerFiles
from cri_fake.process.proc import Proc, decode
from cri_fake.process.streams import SocketFile

_CHUNK_BYTES = 65536
MAX_HEAD_BYTES = 65536
MAX_CONNECTIONS = 256


def host_of(proc: Proc, name: str) -> str:
    """The address of a host: the pod itself for localhost, /etc/hosts, or a literal. Raises OSError."""
    if name in ("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]", proc.hostname) or name.startswith(
        "127."
    ):
        return proc.pod_ip
    if name.replace(".", "").isdigit() or ":" in name:
        return name
    try:
        for line in decode(proc.fs.read("/etc/hosts")).splitlines():
            entries = line.split("#")[0].split()
            if name in entries[1:]:
                return entries[0]
    except OSError:
        pass
    raise OSError(errno.ENOENT, "bad address")


def port_of(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise UsageError(f"bad port '{text}'")
    return int(text)


@applet
async def nc(proc: Proc) -> int:
    command: list[str] = []
    if "-e" in proc.args:  # all that follows is the command
        at = proc.args.index("-e")
        command = proc.args[at + 1 :]
        if not command:
            raise UsageError("option requires an argument -- 'e'")
        del proc.argv[1 + at :]
    options = options_of(proc, "lkp:w:nuvzs:i:", in_order=False)
    if "u" in options:
        raise UsageError("UDP is not emulated")
    if "l" in options:
        port = port_of(options.value("p") or (options.operands[-1] if options.operands else ""))
        return await _serve(proc, port, forever="k" in options, command=command)
    if len(options.operands) != 2:
        raise UsageError("usage: nc [OPTIONS] HOST PORT")
    host, port = options.operands[0], port_of(options.operands[1])
    limit = parse_duration(options.value("w")) if "w" in options else float("inf")
    stream: trio.abc.HalfCloseableStream | None = None
    with trio.move_on_after(limit):
        try:
            stream = await proc.kernel.net.connect(host_of(proc, host), port)
        except OSError as problem:
            raise await fail(proc, f"can't connect to remote host ({host}): {reason(problem)}") from None
    if stream is None:
        raise await fail(proc, f"can't connect to remote host ({host}): Connection timed out")
    if "z" in options:
        await stream.aclose()
        return 0
    await _exchange(proc, stream)
    return 0


async def _exchange(proc: Proc, stream: trio.abc.HalfCloseableStream) -> None:
    """Standard input to the peer, the peer to standard output, until the peer has finished."""

    async def send() -> None:
        try:
            while chunk := await proc.read(_CHUNK_BYTES):
                await stream.send_all(chunk)
            await stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            return

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            try:
                while chunk := bytes(await stream.receive_some()):
                    await proc.write(chunk)
            except (trio.BrokenResourceError, trio.ClosedResourceError, BrokenPipeError):
                pass
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


async def _serve(proc: Proc, port: int, *, forever: bool, command: list[str]) -> int:
    """Accept connections: one, or with -k one after the other; -e runs a command on each."""
    waiting: list[tuple[trio.abc.HalfCloseableStream, trio.Event]] = []
    arrived = trio.Event()

    async def accept(stream: trio.abc.HalfCloseableStream) -> None:
        if len(waiting) >= MAX_CONNECTIONS:
            return
        done = trio.Event()
        waiting.append((stream, done))
        arrived.set()
        await done.wait()

    try:
        listening = proc.kernel.net.listen(proc.pod_ip, port, accept)
    except OSError as problem:
        raise await fail(proc, f"bind: {reason(problem)}") from None
    try:
        while True:
            while not waiting:
                arrived = trio.Event()
                proc.pace.rested()
                await arrived.wait()
            stream, done = waiting.pop(0)
            try:
                if command:
                    socket = SocketFile(stream)
                    fds = {0: socket, 1: socket.hold(), 2: proc.fds[2].hold()}
                    await proc.run(command, fds=fds)
                    await stream.send_eof()
                else:
                    await _exchange(proc, stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                done.set()
            if not forever:
                return 0
    finally:
        listening.close()


@applet
async def wget(proc: Proc) -> int:
    options = options_of(
        proc,
        "qO:T:ScP:U:Y:",
        long={
            "spider": "S",
            "timeout": "T",
            "quiet": "q",
            "output-document": "O",
            "header": "H:",
            "post-data": "D:",
            "no-check-certificate": "Y:",
            "tries": "t:",
        },
    )
    if len(options.operands) != 1:
        raise UsageError("usage: wget [-qO FILE] [-T SEC] URL")
    url = options.operands[0]
    scheme, found, rest = url.partition("://")
    if not found:
        scheme, rest = "http", url
    if scheme != "http":
        raise UsageError(f"{scheme}: only http is emulated")
    authority, slash, path = rest.partition("/")
    host, colon, port_text = authority.partition(":")
    port = port_of(port_text) if colon else 80
    with trio.move_on_after(parse_duration(options.value("T", "900"))):
        status, body = await _get(proc, host, port, slash + path or "/", authority)
        if not 200 <= status < 300:
            raise await fail(proc, f"server returned error: HTTP/1.1 {status}")
        if "S" in options:
            return 0
        target = options.value("O") or path.rsplit("/", 1)[-1] or "index.html"
        if target == "-":
            await proc.write(body)
        else:
            proc.fs.write(proc.path(target), body)
        return 0
    raise await fail(proc, "download timed out")


async def _get(proc: Proc, host: str, port: int, path: str, authority: str) -> tuple[int, bytes]:
    """Status and body of one GET; the connection is closed by the server."""
    try:
        address = host_of(proc, host)
    except OSError:
        raise await fail(proc, f"bad address '{authority}'") from None
    try:
        stream = await proc.kernel.net.connect(address, port)
    except OSError as problem:
        raise await fail(proc, f"can't connect to remote host ({address}): {reason(problem)}") from None
    data = bytearray()
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: Wget\r\nConnection: close\r\n\r\n"
        await stream.send_all(head.encode())
        while len(data) < 64 << 20:
            chunk = bytes(await stream.receive_some())
            if not chunk:
                break
            data += chunk
            if _complete(data):
                break
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    finally:
        await trio.aclose_forcefully(stream)
    head_bytes, _, body = bytes(data).partition(b"\r\n\r\n")
    words = head_bytes.split(b"\r\n")[0].split()
    if len(words) < 2 or not words[1].isdigit():
        raise await fail(proc, "error getting response")
    return int(words[1]), body


def _complete(data: bytearray) -> bool:
    head, found, body = bytes(data).partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False


@applet
async def httpd(proc: Proc) -> int:
    """``httpd -f -p PORT -h HOME``: serves files; without -f it goes on in the background."""
    options = options_of(proc, "fp:h:vc:r:u:i")
    port = port_of((options.value("p") or "80").rsplit(":", 1)[-1])
    home = proc.path(options.value("h") or proc.cwd)

    async def serve(child: Proc) -> int:
        async def answer(stream: trio.abc.HalfCloseableStream) -> None:
            await _answer(proc.fs, home, stream)

        try:
            listening = child.kernel.net.listen(child.pod_ip, port, answer)
        except OSError as problem:
            raise await fail(child, f"bind: {reason(problem)}") from None
        try:
            await child.sleep(float("inf"))
        finally:
            listening.close()
        return 0

    if "f" in options:
        return await serve(proc)
    proc.fork(serve)
    return 0


async def _answer(fs: ContainerFiles, home: str, stream: trio.abc.HalfCloseableStream) -> None:
    data = bytearray()
    while b"\r\n\r\n" not in data and len(data) < MAX_HEAD_BYTES:
        chunk = bytes(await stream.receive_some())
        if not chunk:
            return
        data += chunk
    words = decode(bytes(data)).split("\r\n")[0].split()
    status, body = "400 Bad Request", b""
    if len(words) == 3 and words[0] in ("GET", "HEAD"):
        names = [name for name in words[1].split("?")[0].split("/") if name and name != "."]
        path = f"{home.rstrip('/')}/{'/'.join(names)}"
        if fs.is_dir(path):
            path += "/index.html"
        try:
            if ".." in names:
                raise FileNotFoundError
            status, body = "200 OK", fs.read(path)
        except OSError:
            status, body = "404 Not Found", b"<HTML><BODY><H1>404 Not Found</H1></BODY></HTML>\n"
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    await stream.send_all(head.encode() + (b"" if words[:1] == ["HEAD"] else body))


@applet
async def nslookup(proc: Proc) -> int:
    """Resolves from /etc/hosts and what the pod knows of itself; there is no name server."""
    if not proc.args:
        raise UsageError("usage: nslookup HOST")
    name = proc.args[0]
    try:
        address = host_of(proc, name)
    except OSError:
        await proc.write(f"** server can't find {name}: NXDOMAIN\n\n")
        return 1
    await proc.write(f"Name:\t{name}\nAddress: {address}\n\n")
    return 0


@applet
async def ping(proc: Proc) -> int:
    """Answers for the pod itself; nothing else can be pinged."""
    options = options_of(proc, "c:i:W:w:q4")
    if not options.operands:
        raise UsageError("missing host")
    try:
        address = host_of(proc, options.operands[0])
    except OSError:
        raise await fail(proc, f"bad address '{options.operands[0]}'") from None
    count = int(options.value("c", "0")) or None
    name = options.operands[0]
    await proc.write(f"PING {name} ({address}): 56 data bytes\n")
    sent = 0
    while count is None or sent < count:
        if sent:
            await proc.sleep(parse_duration(options.value("i", "1")))
        if address == proc.pod_ip:
            await proc.write(f"64 bytes from {address}: seq={sent} ttl=64 time=0.050 ms\n")
        sent += 1
    received = sent if address == proc.pod_ip else 0
    loss = 0 if received else 100
    await proc.write(
        f"\n--- {name} ping statistics ---\n{sent} packets transmitted, {received} packets received, "
        f"{loss}% packet loss\n"
    )
    return 0 if received else 1
