"""Running one probe: exec, HTTP, TCP or gRPC; mirrors pkg/kubelet/prober/prober.go and pkg/probe.

A handler gives a verdict and a text. A verdict is stored by the worker; an *error* is thrown away after up to
three attempts (PRB-18, PRB-19). Every failing attempt leaves an event, below the threshold too.
"""

from typing import Final, Protocol

import trio
from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.kuberuntime.gotext import format_pod, go_duration, go_quote
from kubelet_emu.prober import targets
from kubelet_emu.prober.dial import DialError, dial
from kubelet_emu.prober.http_client import HttpBodyError, HttpError, http_get
from kubelet_emu.prober.results import bare_id
from kubelet_emu.prober.worker import WorkerSpec
from kubelet_emu.seams import EventRecorder, ProbeOutcome
from node_host.net import Net
from trio_grpc.codes import Code, StatusError

__all__ = ["ExecClient", "GrpcHealth", "HandlerResult", "ProbeRunner", "event_for", "outcome_of"]

ATTEMPTS: Final = 3
"""Attempts of one probe; repeated on errors only (PRB-18)."""
OUTPUT_LIMIT_BYTES: Final = 10 * 1024
"""How much output of an exec probe is kept (PRB-25)."""
EXEC_EXTRA_SECONDS: Final = 120.0
"""How much longer than the probe's timeout the client waits for ExecSync (PRB-25)."""
USER_AGENT: Final = "kube-probe/1.36"
NS_PER_SECOND: Final = 1_000_000_000


@frozen
class HandlerResult:
    """What a handler found: ``success``, ``warning``, ``failure`` or ``unknown`` with its text; or an error.

    With ``error`` set the attempt failed as such and its verdict only names the state in the event.
    """

    verdict: str
    output: str = ""
    error: str = ""


class ExecClient(Protocol):
    """As much of the CRI runtime client as a probe needs."""

    async def ExecSync(
        self, request: cri.ExecSyncRequest, *, timeout_seconds: float | None = None
    ) -> cri.ExecSyncResponse: ...


class GrpcHealth(Protocol):
    """The gRPC health check of one address: the verdict with Kubernetes' text (PRB-28). Never raises."""

    async def check(
        self, net: Net, host: str, port: int, service: str, *, timeout_seconds: float
    ) -> HandlerResult: ...


def outcome_of(result: HandlerResult) -> ProbeOutcome | None:
    """What the worker stores; None if the attempt is thrown away (PRB-19)."""
    if result.error:
        return None
    return ProbeOutcome.SUCCESS if result.verdict in ("success", "warning") else ProbeOutcome.FAILURE


def event_for(kind: str, result: HandlerResult) -> tuple[str, str] | None:
    """Reason and text of the event a result leaves, None for none (PRB-19). All are warnings."""
    name = kind.capitalize()
    if result.error:
        return "Unhealthy", f"{name} probe errored and resulted in {result.verdict} state: {result.error}"
    if result.verdict == "warning":
        return "ProbeWarning", f"{name} probe warning: {result.output}"
    if result.verdict == "failure":
        return "Unhealthy", f"{name} probe failed: {result.output}"
    return None


class ProbeRunner:
    """Runs probes for all workers of a node. ``grpc_health`` None takes the one over ``net``."""

    def __init__(
        self,
        *,
        exec_client: ExecClient,
        net: Net,
        events: EventRecorder,
        grpc_health: GrpcHealth | None = None,
        user_agent: str = USER_AGENT,
    ) -> None:
        self._exec_client = exec_client
        self._net = net
        self._events = events
        self._grpc_health = grpc_health
        self._user_agent = user_agent

    async def run(self, spec: WorkerSpec, *, container_id: str, pod_ip: str) -> ProbeOutcome | None:
        """The outcome for the worker, None for a probe error. ``pod_ip`` is read afresh for each probe."""
        result = HandlerResult("unknown")
        for _ in range(ATTEMPTS):
            result = await self._attempt(spec, container_id, pod_ip)
            if not result.error:
                break
        event = event_for(spec.kind, result)
        if event is not None:
            where = "initContainers" if spec.sidecar else "containers"
            self._events.event(
                spec.pod, "Warning", *event, field_path=f"spec.{where}{{{spec.container.name}}}"
            )
        return outcome_of(result)

    async def _attempt(self, spec: WorkerSpec, container_id: str, pod_ip: str) -> HandlerResult:
        probe = spec.probe
        try:
            if probe.exec is not None:
                return await self._exec(spec, container_id)
            if probe.http_get is not None:
                return await self._http(spec, pod_ip)
            if probe.tcp_socket is not None:
                return await self._tcp(spec, pod_ip)
            if probe.grpc is not None:
                return await self._grpc(spec, pod_ip)
        except targets.TargetError as error:
            return HandlerResult("unknown", error=str(error))
        missing = f"missing probe handler for {format_pod(spec.pod)}:{spec.container.name}"
        return HandlerResult("unknown", error=missing)

    async def _exec(self, spec: WorkerSpec, container_id: str) -> HandlerResult:
        action = spec.probe.exec
        assert action is not None
        command = targets.expand_command(action.command, spec.container.env)
        timeout = spec.timeout_seconds
        request = cri.ExecSyncRequest(container_id=bare_id(container_id), cmd=command, timeout=timeout)
        try:
            reply = await self._exec_client.ExecSync(request, timeout_seconds=timeout + EXEC_EXTRA_SECONDS)
        except StatusError as error:
            if error.code is Code.DEADLINE_EXCEEDED:
                duration = go_duration(timeout * NS_PER_SECOND)
                text = f"command timed out: {go_quote(' '.join(command))} timed out after {duration}"
                return HandlerResult("failure", text)
            return HandlerResult("unknown", error=str(error))
        output = (reply.stdout + reply.stderr)[:OUTPUT_LIMIT_BYTES].decode(errors="replace")
        return HandlerResult("success" if reply.exit_code == 0 else "failure", output)

    async def _http(self, spec: WorkerSpec, pod_ip: str) -> HandlerResult:
        action = spec.probe.http_get
        assert action is not None
        target = targets.http_target(action, spec.container, pod_ip)
        headers = targets.request_headers(action.http_headers, target, self._user_agent)
        try:
            answer = await http_get(self._net, target, headers, timeout_seconds=spec.timeout_seconds)
        except HttpError as error:
            return HandlerResult("failure", str(error))
        except HttpBodyError as error:
            return HandlerResult("failure", error=str(error))
        if not 200 <= answer.status < 400:
            return HandlerResult("failure", f"HTTP probe failed with statuscode: {answer.status}")
        if answer.status >= 300:
            return HandlerResult("warning", f"Probe terminated redirects, Response body: {answer.body}")
        return HandlerResult("success", answer.body)

    async def _tcp(self, spec: WorkerSpec, pod_ip: str) -> HandlerResult:
        action = spec.probe.tcp_socket
        assert action is not None
        port = targets.resolve_port(action.port, spec.container)
        host = action.host or pod_ip
        try:
            with trio.fail_after(spec.timeout_seconds):
                stream = await dial(self._net, host, port)
        except DialError as error:
            return HandlerResult("failure", str(error))
        except trio.TooSlowError:
            return HandlerResult("failure", f"dial tcp {targets.join_host_port(host, port)}: i/o timeout")
        await trio.aclose_forcefully(stream)
        return HandlerResult("success")

    async def _grpc(self, spec: WorkerSpec, pod_ip: str) -> HandlerResult:
        action = spec.probe.grpc
        assert action is not None
        if self._grpc_health is None:
            from kubelet_emu.prober.grpc_health import NetGrpcHealth

            self._grpc_health = NetGrpcHealth(user_agent=self._user_agent)
        return await self._grpc_health.check(
            self._net, pod_ip, action.port, action.service or "", timeout_seconds=spec.timeout_seconds
        )
