"""Stopping containers and pods: grace, Killing event, preStop, stop order, StopContainer (RST section 6).

Mirrors ``killContainer``, ``executePreStopHook`` of ``pkg/kubelet/kuberuntime/kuberuntime_container.go``,
``killPodWithSyncResult`` of ``kuberuntime_manager.go`` and ``kuberuntime_termination_order.go`` (POD-711 to
POD-720).
"""

from collections.abc import Mapping

import trio
from attrs import frozen

from kubelet_emu.api.types import Container, LifecycleHandler, Pod
from kubelet_emu.container.runtime import ContainerState, RunningContainer, RunningPod, SyncAction, SyncResult
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime.calls import CriCalls, is_not_found
from kubelet_emu.kuberuntime.gotext import format_pod, go_quote
from kubelet_emu.kuberuntime.grace import (
    MINIMUM_GRACE_SECONDS,
    KillReason,
    base_grace,
    remaining_grace,
    stopping_text,
    termination_prerequisites,
)
from kubelet_emu.kuberuntime.podrefs import container_of, field_path, pod_of_running, restored
from kubelet_emu.lifecycle.handlers import HookError, HookRunner
from kubelet_emu.seams import EventRecorder, Recorder
from node_host.clock import NodeClock
from trio_grpc import StatusError

__all__ = ["KillOrder", "KillRequest", "Killer"]


class KillOrder:
    """Who waits for whom while a pod is being killed; made for one kill (RST-104)."""

    def __init__(self, clock: NodeClock, waits: Mapping[str, tuple[str, ...]]) -> None:
        self._clock = clock
        self._waits = waits
        awaited = (name for names in waits.values() for name in names)
        self._ended = {name: trio.Event() for name in awaited}

    async def wait_for_turn(self, name: str, grace_seconds: int) -> float:
        """Wait until all this one waits for have ended, at most the grace; returns the seconds spent."""
        began = self._clock.elapsed_seconds()
        with trio.move_on_after(grace_seconds):
            for other in self._waits.get(name, ()):
                await self._ended[other].wait()
        return self._clock.elapsed_seconds() - began

    def ended(self, name: str) -> None:
        """A container has been stopped; a failed stop is never reported (POD-719)."""
        if name in self._ended:
            self._ended[name].set()


@frozen(kw_only=True)
class KillRequest:
    """One container to stop. Without a message the event says ``Stopping container <name>`` (RST-101)."""

    container_id: str
    name: str
    message: str = ""
    reason: KillReason = KillReason.UNKNOWN
    override_seconds: int | None = None


def _no_spec_text(pod: Pod, request: KillRequest) -> str:
    name, container_id = go_quote(request.name), go_quote(request.container_id)
    return (
        f"failed to get containerSpec {name} (id={container_id}) in pod {go_quote(format_pod(pod))} "
        f"when killing container for reason {go_quote(request.message)}"
    )


class Killer:
    """Stops containers through one runtime. Hooks that outlive their grace go on in ``nursery`` (HOK-12)."""

    def __init__(
        self,
        calls: CriCalls,
        *,
        clock: NodeClock,
        events: EventRecorder,
        recorder: Recorder,
        hooks: HookRunner,
        nursery: trio.Nursery,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._events = events
        self._recorder = recorder
        self._hooks = hooks
        self._nursery = nursery

    async def container(self, pod: Pod | None, request: KillRequest, order: KillOrder | None = None) -> None:
        """Stop one container (RST-101). ``pod`` None: what is needed is read from the instance itself.

        Raises ``StatusError`` or ``PeerError`` if it could not be stopped; NotFound counts as stopped.
        """
        if pod is None:
            known = await self._calls.container_status(request.container_id)
            pod, container = restored(known.labels, known.annotations)
        else:
            found = container_of(pod, request.name)
            if found is None:
                raise PeerError(_no_spec_text(pod, request))
            container = found
        chosen = base_grace(pod, container, request.reason)
        text = request.message or stopping_text(container.name)
        self._say(pod, container, "Normal", "Killing", text.replace(request.container_id, container.name))
        grace = chosen.seconds if request.override_seconds is None else request.override_seconds
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is not None and grace > 0:
            spent = await self._pre_stop(pod, container, request.container_id, hook, grace)
            grace = remaining_grace(grace, spent)
        if order is not None and grace > 0:
            grace = remaining_grace(grace, await order.wait_for_turn(container.name, grace))
        grace = max(grace, MINIMUM_GRACE_SECONDS)
        self._recorder.decision(
            "kuberuntime.kill",
            pod.metadata.name,
            chosen.why,
            inputs={"container": container.name, "reason": request.reason.value, "text": text},
            outcome={"graceSeconds": grace},
        )
        try:
            await self._calls.stop_container(request.container_id, grace)
        except StatusError as error:
            if not is_not_found(error):
                raise
        if order is not None:
            order.ended(container.name)

    async def pod(
        self, pod: Pod | None, running: RunningPod, override_seconds: int | None
    ) -> tuple[SyncResult, ...]:
        """Stop all running containers at once, then all sandboxes, newest first (RST-083, POD-711)."""
        subject = pod_of_running(running) if pod is None else pod
        containers = [item for item in running.containers if item.state is ContainerState.RUNNING]
        waits = termination_prerequisites(subject, {item.name for item in containers})
        order = KillOrder(self._clock, waits) if waits else None
        results: list[SyncResult] = []
        async with trio.open_nursery() as nursery:
            for item in containers:
                nursery.start_soon(  # pyright: ignore[reportUnknownMemberType]
                    self._one, subject, item, override_seconds, order, results
                )
        results.append(await self._sandboxes(running))
        return tuple(results)

    async def _one(
        self,
        pod: Pod,
        item: RunningContainer,
        override_seconds: int | None,
        order: KillOrder | None,
        results: list[SyncResult],
    ) -> None:
        request = KillRequest(container_id=item.id, name=item.name, override_seconds=override_seconds)
        try:
            await self.container(pod, request, order)
        except (StatusError, PeerError) as error:
            results.append(SyncResult(SyncAction.KILL_CONTAINER, item.name, "KillContainerError", str(error)))
        else:
            results.append(SyncResult(SyncAction.KILL_CONTAINER, item.name))

    async def _sandboxes(self, running: RunningPod) -> SyncResult:
        failure = ""
        for sandbox in running.sandboxes:
            try:
                await self._calls.stop_pod_sandbox(sandbox.id)
            except StatusError as error:
                if not is_not_found(error):
                    failure = str(error)
        error_name = "KillPodSandboxError" if failure else ""
        return SyncResult(SyncAction.KILL_POD_SANDBOX, running.uid, error_name, failure)

    async def _pre_stop(
        self, pod: Pod, container: Container, container_id: str, hook: LifecycleHandler, grace_seconds: int
    ) -> float:
        """Run the hook beside a timer of the whole grace; returns the seconds that passed (HOK-12)."""
        finished = trio.Event()

        async def run() -> None:
            try:
                await self._hooks.run(container_id, pod, container, hook)
            except HookError as error:
                self._say(pod, container, "Warning", "FailedPreStopHook", "PreStopHook failed")
                self._recorder.fact(
                    "hook", pod=pod.metadata.name, container=container.name, hook="preStop", error=str(error)
                )
            finally:
                finished.set()

        began = self._clock.elapsed_seconds()
        self._nursery.start_soon(run)  # pyright: ignore[reportUnknownMemberType]
        with trio.move_on_after(grace_seconds):
            await finished.wait()
        return self._clock.elapsed_seconds() - began

    def _say(self, pod: Pod, container: Container, event_type: str, reason: str, text: str) -> None:
        self._events.event(
            pod,
            "Warning" if event_type == "Warning" else "Normal",
            reason,
            text,
            field_path=field_path(pod, container.name),
        )
