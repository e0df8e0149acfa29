"""The web servers of the images that manifests use most: nginx and Apache httpd."""

from __future__ import annotations

from datetime import UTC, datetime

import trio

from cri_fake.process import signals
from cri_fake.process.kernel import ExecError
from cri_fake.process.proc import Proc
from cri_fake.process.servers.web import App, WebRequest, WebResponse, file_response, serve_http

__all__ = ["docker_entrypoint", "httpd_foreground", "nginx"]

NGINX_VERSION = "1.27.3"
HTTPD_VERSION = "2.4.62"
NGINX_ROOT, HTTPD_ROOT = "/usr/share/nginx/html", "/usr/local/apache2/htdocs"
_NGINX_404 = (
    "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>"
    f"\r\n<hr><center>nginx/{NGINX_VERSION}</center>\r\n</body>\r\n</html>\r\n"
)
_HTTPD_404 = (
    '<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>\n<title>404 Not Found</title>\n</head>'
    "<body>\n<h1>Not Found</h1>\n<p>The requested URL was not found on this server.</p>\n</body></html>\n"
)


def _now(proc: Proc) -> datetime:
    return datetime.fromtimestamp(proc.clock.now_ns() / 1e9, UTC)


async def docker_entrypoint(proc: Proc) -> int:
    """What images use as entrypoint: become the command that is given."""
    if not proc.args:
        return 0
    try:
        found = proc.kernel.resolve(proc.args, proc.env.get("PATH"), proc.cwd)
    except ExecError as problem:
        await proc.complain(f"exec: {problem.command}: not found")
        return problem.exit_code
    return await proc.execute(found.program, found.argv, proc.env)


async def nginx(proc: Proc) -> int:
    """``nginx``: serves /usr/share/nginx/html on port 80, in the foreground whatever it is told.

    ``NGINX_PORT`` chooses another port. TERM, INT and QUIT end it with 0.
    """
    if "-v" in proc.args or "-V" in proc.args:
        await proc.write(f"nginx version: nginx/{NGINX_VERSION}\n", fd=2)
        return 0
    if "-t" in proc.args:
        await proc.write("nginx: configuration file /etc/nginx/nginx.conf test is successful\n", fd=2)
        return 0

    async def app(request: WebRequest) -> WebResponse:
        response = file_response(proc.fs, NGINX_ROOT, request.path, missing=_NGINX_404)
        await _access_log(proc, request, response)
        return response

    port = _port(proc, "NGINX_PORT")
    stamp = _now(proc).strftime("%Y/%m/%d %H:%M:%S")
    notice = f"{stamp} [notice] {proc.pid}#{proc.pid}:"
    await proc.write(
        f'{notice} using the "epoll" event method\n{notice} nginx/{NGINX_VERSION}\n'
        f"{notice} start worker processes\n",
        fd=2,
    )
    code = await _until_stopped(proc, port, app, f"nginx/{NGINX_VERSION}", (signals.QUIT,))
    await proc.write(f"{notice} exit\n", fd=2)
    return code


async def httpd_foreground(proc: Proc) -> int:
    """``httpd-foreground``: serves /usr/local/apache2/htdocs on port 80. TERM and WINCH end it with 0."""

    async def app(request: WebRequest) -> WebResponse:
        response = file_response(proc.fs, HTTPD_ROOT, request.path, missing=_HTTPD_404)
        await _access_log(proc, request, response)
        return response

    stamp = _now(proc).strftime("%a %b %d %H:%M:%S.%f %Y")
    head = f"[{stamp}] [mpm_event:notice] [pid {proc.pid}:tid 1]"
    await proc.write(
        f"AH00558: httpd: Could not reliably determine the server's fully qualified domain name, using "
        f"{proc.pod_ip}. Set the 'ServerName' directive globally to suppress this message\n"
        f"{head} AH00489: Apache/{HTTPD_VERSION} (Unix) configured -- resuming normal operations\n"
        f"[{stamp}] [core:notice] [pid {proc.pid}:tid 1] AH00094: Command line: 'httpd -D FOREGROUND'\n",
        fd=2,
    )
    server = f"Apache/{HTTPD_VERSION} (Unix)"
    code = await _until_stopped(proc, _port(proc, "HTTPD_PORT"), app, server, (signals.WINCH,))
    await proc.write(f"{head} AH00491: caught SIGTERM, shutting down\n", fd=2)
    return code


def _port(proc: Proc, variable: str) -> int:
    """80, or what a variable of the emulated program says."""
    told = proc.env.get(variable, "")
    return int(told) if told.isdigit() and 0 < int(told) < 65536 else 80


async def _access_log(proc: Proc, request: WebRequest, response: WebResponse) -> None:
    stamp = _now(proc).strftime("%d/%b/%Y:%H:%M:%S +0000")
    agent = request.headers.get("user-agent", "-")
    peer = request.peer.rpartition(":")[0].strip("[]")
    await proc.write(
        f'{peer} - - [{stamp}] "{request.method} {request.target} HTTP/1.1" {response.status} '
        f'{len(response.body)} "-" "{agent}"\n'
    )


async def _until_stopped(proc: Proc, port: int, app: App, server: str, graceful: tuple[int, ...]) -> int:
    """Serve until a signal asks for the end."""
    stopped = trio.Event()
    for number in (signals.TERM, signals.INT, *graceful):
        proc.on_signal(number, lambda _: stopped.set())
    listening = await serve_http(proc, port, app, server=server)
    try:
        proc.pace.rested()
        await stopped.wait()
    finally:
        listening.close()
    return 0
