"""Running a lifecycle hook: exec, httpGet or sleep (mirrors ``pkg/kubelet/lifecycle/handlers.go``).

A hook that fails raises ``HookError`` whose text is the kubelet's: it becomes the waiting message of a
postStart failure and is only noted for preStop (HOK-05 to HOK-10). Hooks have no time limit of their own;
who runs one bounds it.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kubelet_emu.api.types import Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.gotext import format_pod, go_list, go_quote
from kubelet_emu.prober.http_client import HttpBodyError, HttpError, http_get
from kubelet_emu.prober.targets import HttpTarget, TargetError, http_target, make_target, request_headers
from kubelet_emu.seams import EventRecorder
from node_host.clock import NodeClock
from node_host.net import Net

__all__ = ["CommandFailed", "CommandRunner", "HookError", "HookRunner"]

_USER_AGENT = "kube-lifecycle/1.36"
_PLAIN_ANSWER = "server gave HTTP response to HTTPS client"


class HookError(PeerError):
    """Raised when a hook failed."""


class CommandFailed(PeerError):
    """Raised by a command runner: the error's text, and what the command wrote (stdout, then stderr)."""

    def __init__(self, message: str, output: bytes = b"") -> None:
        self.output = output
        super().__init__(message)


class CommandRunner(Protocol):
    """Runs a command in a container to its end."""

    async def __call__(self, container_id: str, command: Sequence[str]) -> bytes:
        """Returns the output. Raises ``CommandFailed`` for a code other than 0 and for a failed call."""
        ...


PodAddress = Callable[[Pod], Awaitable[str]]
"""The first address of a pod from the runtime, empty without one; raises ``PeerError``."""


class HookRunner:
    """Runs the hooks of one node's containers."""

    def __init__(
        self,
        *,
        run_command: CommandRunner,
        pod_address: PodAddress,
        net: Net,
        clock: NodeClock,
        events: EventRecorder,
    ) -> None:
        self._run_command = run_command
        self._pod_address = pod_address
        self._net = net
        self._clock = clock
        self._events = events

    async def run(self, container_id: str, pod: Pod, container: Container, handler: LifecycleHandler) -> None:
        """Run one hook to its end; raises ``HookError`` if it failed (HOK-05)."""
        if handler.exec is not None:
            await self._exec(container_id, pod, container, handler.exec)
        elif handler.http_get is not None:
            await self._http(pod, container, handler.http_get)
        elif handler.sleep is not None:
            await self._clock.sleep(handler.sleep.seconds)
        else:
            raise HookError(f"Cannot run handler: invalid handler: {handler}")

    async def _exec(self, container_id: str, pod: Pod, container: Container, action: ExecAction) -> None:
        try:
            await self._run_command(container_id, action.command)
        except CommandFailed as error:
            output = go_quote(error.output.decode(errors="replace"))
            raise HookError(
                f"Exec lifecycle hook ({go_list(action.command)}) for {_where(pod, container)} failed - "
                f"error: {error}, message: {output}"
            ) from error

    async def _http(self, pod: Pod, container: Container, action: HTTPGetAction) -> None:
        try:
            host = action.host or await self._pod_address(pod)
            if not host:
                raise HookError(f"failed to find networking container: {pod.metadata.name}")
            await self._request(pod, action, http_target(action, container, host))
        except (PeerError, TargetError, HttpError) as error:
            raise HookError(
                f"HTTP lifecycle hook ({action.path or ''}) for {_where(pod, container)} failed - "
                f"error: {error}"
            ) from error

    async def _request(self, pod: Pod, action: HTTPGetAction, target: HttpTarget) -> None:
        """Any answer is success; an HTTPS request answered in plain HTTP is repeated in plain HTTP
        (HOK-08).
        """
        try:
            await self._get(action, target)
        except HttpError as error:
            if target.scheme != "https" or _PLAIN_ANSWER not in str(error):
                raise
            plain = make_target("http", target.host, target.port, action.path or "/")
            if not await self._answers_plainly(action, plain):
                raise
            self._events.event(
                pod,
                "Warning",
                "LifecycleHTTPFallback",
                f"request to HTTPS lifecycle hook {target.authority} got HTTP response, "
                "retry with HTTP succeeded",
            )

    async def _answers_plainly(self, action: HTTPGetAction, plain: HttpTarget) -> bool:
        try:
            await self._get(action, plain, drop="authorization")
        except HttpError:
            return False
        return True

    async def _get(self, action: HTTPGetAction, target: HttpTarget, *, drop: str = "") -> None:
        kept = [header for header in action.http_headers if header.name.lower() != drop]
        headers = request_headers(kept, target, _USER_AGENT)
        try:
            await http_get(self._net, target, headers, timeout_seconds=math.inf)
        except HttpBodyError:
            return


def _where(pod: Pod, container: Container) -> str:
    return f"Container {go_quote(container.name)} in Pod {go_quote(format_pod(pod))}"
