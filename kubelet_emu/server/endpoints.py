"""The kubelet's read-only HTTP endpoints: which path answers what (NOD section 8).

Mirrors ``pkg/kubelet/server/server.go``, InstallDefaultHandlers and the parts of InstallDebuggingHandlers
that only read. What acts on containers (exec, attach, port-forward, run) is not served here and answers as a
real kubelet does with its debugging handlers switched off (NOD-83).
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from kubelet_emu.errors import PeerError
from kubelet_emu.server.http import Request, Response, text
from kubelet_emu.server.log_request import LogOptions, LogRefused, parse_options
from kubelet_emu.server.log_stream import read_log
from kubelet_emu.server.metrics import CONTENT_TYPE, NodeMetrics
from kubelet_emu.server.tallies import Tallies
from kubelet_emu.server.view import InstanceLog
from node_host.clock import NodeClock
from node_host.files import Files

__all__ = ["Endpoints", "NodeView"]

_JSON = "application/json"
_DISABLED = ("run", "exec", "attach", "portForward", "logs", "debug", "checkpoint")
_LOGS = re.compile(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)")

Handler = Callable[[Request], Awaitable[Response]]


class NodeView(Protocol):
    """What endpoints ask of a kubelet; see ``view.KubeletView``."""

    def pods(self) -> bytes: ...

    async def running_pods(self) -> bytes: ...

    def problems(self) -> Mapping[str, str]: ...

    def log_of(self, namespace: str, name: str, container: str, *, previous: bool) -> InstanceLog: ...


class Endpoints:
    """The app of the server. ``config`` gives the document of ``/configz``."""

    def __init__(
        self,
        view: NodeView,
        *,
        metrics: NodeMetrics,
        tallies: Tallies,
        config: Callable[[], Mapping[str, Any]],
        files: Files,
        clock: NodeClock,
    ) -> None:
        self._view = view
        self._metrics = metrics
        self._tallies = tallies
        self._config = config
        self._files = files
        self._clock = clock
        self._routes: Mapping[str, Handler] = {
            "/": self._index,
            "/healthz": self._healthz,
            "/pods": self._pods,
            "/pods/": self._pods,
            "/runningpods": self._running_pods,
            "/runningpods/": self._running_pods,
            "/metrics": self._metrics_text,
            "/metrics/probes": self._probes_text,
            "/configz": self._configz,
        }

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        path = request.path
        handler = self._routes.get(path)
        logs = _LOGS.fullmatch(path)
        first = path.lstrip("/").partition("/")[0]
        label = path.strip("/") if handler is not None else first if logs or first == "healthz" else "other"
        long_running = "true" if logs else "false"
        labels = long_running, request.method, label, "readonly"
        self._tallies.http_requests.add(*labels)
        self._tallies.http_in_flight.add(*labels)
        try:
            return await self._answer(request, handler, logs, first)
        finally:
            self._tallies.http_in_flight.add(*labels, by=-1.0)

    async def _answer(
        self, request: Request, handler: "Handler | None", logs: "re.Match[str] | None", first: str
    ) -> Response:
        path = request.path
        if first in _DISABLED:
            return text("Debug endpoints are disabled.\n", 405)
        if request.method not in ("GET", "HEAD"):
            return Response(status=405, body=b"405: Method Not Allowed", headers={"Allow": "GET, HEAD"})
        if handler is not None:
            return await handler(request)
        if logs:
            return self._logs(request, *logs.groups())
        if first == "healthz":
            return self._one_check(path.removeprefix("/healthz/"))
        return text("404 page not found\n", 404)

    async def _index(self, request: Request) -> Response:
        paths = [path for path in self._routes if path != "/" and not path.endswith("/")]
        known = [*paths, "/healthz/syncloop", "/containerLogs/NAMESPACE/POD/CONTAINER"]
        return text("read-only endpoints:\n" + "".join(f"  {path}\n" for path in sorted(known)))

    # -- health --

    async def _healthz(self, request: Request) -> Response:
        problems = self._view.problems()
        lines = [f"[{'-' if bad else '+'}]{name} {_verdict(bad)}\n" for name, bad in problems.items()]
        if any(problems.values()):
            return text("".join(lines) + "healthz check failed\n", 500)
        if "verbose" in request.query:
            return text("".join(lines) + "healthz check passed\n")
        return text("ok")

    def _one_check(self, name: str) -> Response:
        problems = self._view.problems()
        if name not in problems:
            return text("404 page not found\n", 404)
        if problems[name]:
            return text(f"internal server error: {problems[name]}\n", 500)
        return text("ok")

    # -- pods --

    async def _pods(self, request: Request) -> Response:
        return Response(body=self._view.pods(), content_type=_JSON)

    async def _running_pods(self, request: Request) -> Response:
        try:
            return Response(body=await self._view.running_pods(), content_type=_JSON)
        except PeerError as error:
            return text(f"{error}\n", 500)

    # -- configuration and metrics --

    async def _configz(self, request: Request) -> Response:
        body = json.dumps(self._config(), separators=(",", ":")).encode()
        return Response(body=body, content_type=_JSON)

    async def _metrics_text(self, request: Request) -> Response:
        return Response(body=self._metrics.text(), content_type=CONTENT_TYPE)

    async def _probes_text(self, request: Request) -> Response:
        return Response(body=self._metrics.probes_text(), content_type=CONTENT_TYPE)

    # -- logs (LOG-08 to LOG-11) --

    def _logs(self, request: Request, namespace: str, pod: str, container: str) -> Response:
        try:
            options = parse_options(request.query, now_ns=self._clock.now_ns())
            found = self._view.log_of(namespace, pod, container, previous=options.previous)
        except LogRefused as refused:
            return text(str(refused), refused.status)
        return Response(chunks=self._read(found, options))

    def _read(self, found: InstanceLog, options: LogOptions) -> Any:
        return read_log(self._files, self._clock, found.path, options, running=found.running)


def _verdict(problem: str) -> str:
    return "failed: reason withheld" if problem else "ok"
