"""One runtime sync of a pod, step by step (RST section 5).

Mirrors ``SyncPod`` of ``pkg/kubelet/kuberuntime/kuberuntime_manager.go``: decide, kill or reset, prune,
sandbox, sandbox ready, image volumes, ephemeral, init, resize, regular. One ``PodSyncer`` serves one call;
it collects the outcomes.
"""

from contextlib import suppress

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Container, Pod
from kubelet_emu.bugs import COUNTS_RESET, KILLED_WITH_ZERO, OLD_INIT_COUNTS, SANDBOX_RECREATED
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimePodStatus,
    StartError,
    SyncAction,
    SyncPodResult,
    SyncResult,
)
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import backoff
from kubelet_emu.kuberuntime.action_types import PodActions
from kubelet_emu.kuberuntime.actions import compute_pod_actions
from kubelet_emu.kuberuntime.backoff import BackOffTable
from kubelet_emu.kuberuntime.calls import CriCalls, image_spec
from kubelet_emu.kuberuntime.configs import sandbox_config
from kubelet_emu.kuberuntime.gotext import format_pod
from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.kuberuntime.images_manager import ImageManager, ImageRequest
from kubelet_emu.kuberuntime.kill import Killer, KillRequest
from kubelet_emu.kuberuntime.podnet import dns_limit_texts, missing_cluster_dns_text
from kubelet_emu.kuberuntime.podrefs import field_path
from kubelet_emu.kuberuntime.reading import running_pod_of, sandbox_ips
from kubelet_emu.kuberuntime.removal import Remover
from kubelet_emu.kuberuntime.resizing import Resizer
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.kuberuntime.seams import (
    ActuatedResources,
    DynamicResources,
    InternalLifecycle,
    NodeFacts,
    OnSandboxReady,
    PodStates,
    RuntimeClasses,
)
from kubelet_emu.kuberuntime.start import ImageVolumes, Starter, SyncContext
from kubelet_emu.seams import EventRecorder, ProbeView, Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError

__all__ = ["PodSyncer", "SyncParts"]

_SECOND_NS = 1_000_000_000
KILLED_MAX = 10_000
PROBE_KILLS = (KillReason.LIVENESS_PROBE, KillReason.STARTUP_PROBE)


@frozen(kw_only=True)
class SyncParts:
    """What every sync of a node works with."""

    calls: CriCalls
    clock: NodeClock
    files: Files
    events: EventRecorder
    recorder: Recorder
    probes: ProbeView
    settings: KubeletSettings
    node: NodeFacts
    killer: Killer
    remover: Remover
    starter: Starter
    resizer: Resizer
    images: ImageManager
    backoff: BackOffTable
    lifecycle: InternalLifecycle
    actuated: ActuatedResources
    pods: PodStates
    dynamic: DynamicResources
    classes: RuntimeClasses
    on_sandbox_ready: OnSandboxReady
    killed_by_probe: set[str]
    """Instances whose end counts as a failure whatever their exit code; only where that is a fix."""


class _Stop(Exception):
    """Ends a sync early; what it left behind is in the results already."""


def _works_in_sandbox(pod: Pod, actions: PodActions) -> bool:
    """Whether the rest of the sync calls the runtime at all; most syncs of a quiet pod do not."""
    starts = (actions.ephemeral_to_start, actions.init_to_start, actions.regular_to_start)
    resizes = actions.to_update or actions.update_pod_resources or actions.update_pod_level_resources
    return any(starts) or bool(resizes) or any(volume.image is not None for volume in pod.spec.volumes)


class PodSyncer:
    """One pass over one pod."""

    def __init__(
        self, parts: SyncParts, pod: Pod, status: RuntimePodStatus, *, userns_host_id: int | None = None
    ) -> None:
        self._parts = parts
        self._pod = pod
        self._status = status
        self._userns_host_id = userns_host_id
        self._results: list[SyncResult] = []
        self._sync_error = ""

    async def run(self, *, restart_all_containers: bool) -> SyncPodResult:
        """Decide and act; failures are in the result (RST-080 to RST-089, RST-094)."""
        parts, pod = self._parts, self._pod
        actions = compute_pod_actions(
            pod,
            self._status,
            parts.probes,
            restart_all_containers=restart_all_containers,
            gates=parts.settings.gates,
            actuated=parts.actuated.view(pod.metadata.uid),
            deviations=parts.settings.deviations,
        )
        self._record(actions, restart_all_containers)
        for name in actions.post_stop:
            latest = self._status.latest(name)
            if latest is not None:
                parts.lifecycle.post_stop(latest.id)
        with suppress(_Stop):
            await self._steps(actions)
        return SyncPodResult(tuple(self._results), self._sync_error)

    def _record(self, actions: PodActions, restart_all_containers: bool) -> None:
        latest = {c.name: c for c in reversed(self._status.containers)}
        shown = {
            name: f"exited:{c.exit_code}" if c.state is ContainerState.EXITED else c.state.value
            for name, c in sorted(latest.items())
        }
        self._parts.recorder.decision(
            "kuberuntime.actions",
            self._pod.metadata.name,
            tuple(dict.fromkeys(actions.why)),
            inputs={
                "containers": shown,
                "sandboxes": [f"{s.attempt}:{s.state.value}" for s in self._status.sandboxes],
                "restartAll": restart_all_containers,
            },
            outcome=actions.summary(),
        )

    async def _steps(self, actions: PodActions) -> None:
        parts, pod = self._parts, self._pod
        if actions.create_sandbox and actions.sandbox_id:
            text = "Pod sandbox changed, it will be killed and re-created."
            parts.events.event(pod, "Normal", "SandboxChanged", text)
        if actions.kill_pod:
            await self._kill_pod(actions)
        else:
            await self._kill_some(actions)
            await self._reset(actions)
        await parts.remover.prune_init(pod, self._status)
        sandbox_id, pod_ips = actions.sandbox_id, self._status.ips
        if actions.create_sandbox:
            sandbox_id, pod_ips = await self._create_sandbox(actions, pod_ips)
        self._results.append(SyncResult(SyncAction.CONFIG_POD_SANDBOX, sandbox_id))
        self._tell_missing_dns()
        if _works_in_sandbox(pod, actions):
            await self._starts(actions, await self._context(actions, sandbox_id, pod_ips))

    def _tell_missing_dns(self) -> None:
        text = missing_cluster_dns_text(self._pod, self._parts.settings)
        if text:
            self._parts.events.event(self._pod, "Warning", "MissingClusterDNS", text)
        for text in dns_limit_texts(self._pod, self._parts.settings, self._parts.node.host_dns):
            self._parts.events.event(self._pod, "Warning", "DNSConfigForming", text)

    async def _context(self, actions: PodActions, sandbox_id: str, pod_ips: tuple[str, ...]) -> SyncContext:
        """Rebuild the sandbox config and ensure image volumes: what every start needs (RST-087)."""
        parts, pod = self._parts, self._pod
        config = sandbox_config(
            pod, actions.attempt, parts.settings, parts.node, userns_host_id=self._userns_host_id
        )
        handler = self._handler(SyncAction.CONFIG_POD_SANDBOX, "ConfigPodSandboxError")
        return SyncContext(
            pod=pod,
            status=self._status,
            sandbox_id=sandbox_id,
            sandbox_config=config,
            pod_ips=pod_ips,
            handler=handler,
            image_volumes=await self._image_volumes(config, handler),
            userns_host_id=self._userns_host_id,
        )

    # -- killing --

    async def _kill_pod(self, actions: PodActions) -> None:
        parts, pod = self._parts, self._pod
        results = await parts.killer.pod(pod, running_pod_of(self._status), None)
        self._results.extend(results)
        if any(result.error for result in results):
            raise _Stop
        if actions.create_sandbox and not parts.settings.deviations.has(OLD_INIT_COUNTS):
            await parts.remover.purge_init(pod, self._status)

    async def _kill_some(self, actions: PodActions) -> None:
        """One after the other; the kubelet takes them in map order, here it is that of the decision
        (RST-082).
        """
        parts = self._parts
        for kill in actions.to_kill:
            request = KillRequest(
                container_id=kill.container_id, name=kill.name, message=kill.message, reason=kill.reason
            )
            await self._kill_one(request)
            if kill.reason in PROBE_KILLS and parts.settings.deviations.fixed(KILLED_WITH_ZERO):
                if len(parts.killed_by_probe) >= KILLED_MAX:
                    parts.killed_by_probe.clear()
                parts.killed_by_probe.add(kill.container_id)

    async def _kill_one(self, request: KillRequest) -> None:
        try:
            await self._parts.killer.container(self._pod, request)
        except (StatusError, PeerError) as error:
            self._fail(SyncAction.KILL_CONTAINER, request.name, "KillContainerError", str(error))
            raise _Stop from error
        self._results.append(SyncResult(SyncAction.KILL_CONTAINER, request.name))

    async def _reset(self, actions: PodActions) -> None:
        """Remove all instances of a restart in place, strictly one by one, logs kept (RST-131, RST-134,
        RST-138, RST-164).
        """
        parts = self._parts
        keep_logs = not parts.settings.deviations.has(COUNTS_RESET)
        for entry in actions.to_reset:
            if entry.kill:
                await self._kill_one(
                    KillRequest(
                        container_id=entry.container_id,
                        name=entry.name,
                        message="killing",
                        reason=KillReason.RESTART_ALL_CONTAINERS,
                        override_seconds=0,
                    )
                )
            try:
                await parts.remover.container(entry.container_id, keep_logs=keep_logs)
            except (StatusError, PeerError) as error:
                self._fail(SyncAction.REMOVE_CONTAINER, entry.name, "RemoveContainerError", str(error))
                raise _Stop from error
            self._results.append(SyncResult(SyncAction.REMOVE_CONTAINER, entry.name))
        if actions.to_reset:
            parts.lifecycle.reset(self._pod)
            if parts.settings.deviations.has(SANDBOX_RECREATED):
                with suppress(StatusError):
                    await parts.calls.stop_pod_sandbox(actions.sandbox_id)

    # -- sandbox --

    def _handler(self, action: SyncAction, error_name: str) -> str:
        try:
            return self._parts.classes.handler(self._pod.spec.runtime_class_name)
        except PeerError as error:
            self._fail(action, format_pod(self._pod), error_name, str(error))
            raise _Stop from error

    async def _create_sandbox(
        self, actions: PodActions, known_ips: tuple[str, ...]
    ) -> tuple[str, tuple[str, ...]]:
        """Make the sandbox and read it back; returns its id and the pod's addresses (RST-085, RST-086)."""
        parts, pod = self._parts, self._pod
        try:
            await parts.dynamic.prepare(pod)
        except PeerError as error:
            text = f"Failed to prepare dynamic resources: {error}"
            parts.events.event(pod, "Warning", "FailedPrepareDynamicResources", text)
            raise _Stop from error
        sandbox_id = await self._run_sandbox(actions)
        try:
            status = await parts.calls.pod_sandbox_status(sandbox_id)
        except (StatusError, PeerError) as error:
            text = f"Unable to get pod sandbox status: {error}"
            parts.events.event(pod, "Warning", "FailedPodSandBoxStatus", text)
            self._sync_error = str(error)
            raise _Stop from error
        if status is None:
            self._sync_error = "pod sandbox status is nil"
            raise _Stop
        await self._sandbox_ready()
        return sandbox_id, known_ips if pod.spec.host_network else sandbox_ips(status)

    async def _run_sandbox(self, actions: PodActions) -> str:
        parts, pod = self._parts, self._pod
        named = format_pod(pod)
        config = sandbox_config(
            pod, actions.attempt, parts.settings, parts.node, userns_host_id=self._userns_host_id
        )
        what = "Failed to create log directory for pod"
        try:
            parts.files.make_dirs(config.log_directory, mode=0o755)
            what = "Failed to create sandbox for pod"
            handler = parts.classes.handler(pod.spec.runtime_class_name)
            sandbox_id = await parts.calls.run_pod_sandbox(config, handler)
        except (StatusError, PeerError, OSError) as error:
            if parts.pods.is_termination_requested(pod.metadata.uid):
                raise _Stop from error
            text = f'{what} "{named}": {error}'
            self._fail(SyncAction.CREATE_POD_SANDBOX, named, "CreatePodSandboxError", text)
            parts.events.event(
                pod, "Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}"
            )
            raise _Stop from error
        self._results.append(SyncResult(SyncAction.CREATE_POD_SANDBOX, named))
        return sandbox_id

    async def _sandbox_ready(self) -> None:
        try:
            await self._parts.on_sandbox_ready(self._pod)
        except PeerError as error:
            self._parts.recorder.fact("sandbox-ready", pod=self._pod.metadata.name, error=str(error))

    async def _image_volumes(self, config: cri.PodSandboxConfig, handler: str) -> ImageVolumes:
        """Every image volume is ensured in every sync, mounted or not (RST-087, IMG-31)."""
        found: dict[str, cri.ImageSpec] = {}
        failures: dict[str, StartError] = {}
        for volume in self._pod.spec.volumes:
            source = volume.image
            if source is None:
                continue
            reference = source.reference or ""
            request = ImageRequest(
                pod=self._pod,
                image=reference,
                policy=source.pull_policy or "IfNotPresent",
                field_path="",
                handler=handler,
                sandbox_config=config,
            )
            try:
                image_id = await self._parts.images.ensure(request)
            except StartError as error:
                failures[volume.name] = error
                continue
            spec = image_spec(image_id, self._pod.metadata.annotations, handler)
            spec.user_specified_image = reference
            found[volume.name] = spec
        return ImageVolumes(images=found, failures=failures)

    # -- starting --

    async def _starts(self, actions: PodActions, context: SyncContext) -> None:
        spec = self._pod.spec
        for index in actions.ephemeral_to_start:
            await self._start(context, spec.ephemeral_containers[index])
        for index in actions.init_to_start:
            container = spec.init_containers[index]
            if not await self._start(context, container) and not is_sidecar(container):
                return
        await self._resize(actions, context)
        for index in actions.regular_to_start:
            await self._start(context, spec.containers[index])

    async def _resize(self, actions: PodActions, context: SyncContext) -> None:
        if not (actions.to_update or actions.update_pod_resources or actions.update_pod_level_resources):
            return
        named = format_pod(self._pod)
        try:
            await self._parts.resizer.resize(self._pod, context.sandbox_id, actions)
        except (StatusError, PeerError) as error:
            self._fail(SyncAction.RESIZE_POD_IN_PLACE, named, "ResizePodInPlaceError", str(error))
            return
        self._results.append(SyncResult(SyncAction.RESIZE_POD_IN_PLACE, named))

    async def _start(self, context: SyncContext, container: Container) -> bool:
        """One start with its back-off check; False if it failed."""
        try:
            self._check_backoff(container)
            await self._parts.starter.start(context, container)
        except StartError as error:
            self._results.append(
                SyncResult(
                    SyncAction.START_CONTAINER,
                    container.name,
                    error.name,
                    error.message,
                    error.backoff_until_seconds,
                )
            )
            return False
        self._results.append(SyncResult(SyncAction.START_CONTAINER, container.name))
        return True

    def _check_backoff(self, container: Container) -> None:
        """Raises ``StartError`` while the container has to wait (RST-111, RST-115, RST-117, RST-142)."""
        parts, pod = self._parts, self._pod
        instances = self._status.instances(container.name)
        exited = next((item for item in instances if item.state is ContainerState.EXITED), None)
        if exited is None:
            return
        now_ns = parts.clock.now_ns()
        key = backoff.backoff_key(pod, container)
        decision = parts.backoff.check_start(key, exited.finished_at_ns, now_ns, container.name)
        delay_ns = decision.entry.delay_ns if decision.entry is not None else 0
        parts.recorder.decision(
            "kuberuntime.backoff",
            pod.metadata.name,
            decision.why,
            inputs={
                "container": container.name,
                "sinceExitMs": (now_ns - exited.finished_at_ns) // 1_000_000,
            },
            outcome={"wait": decision.in_backoff, "delaySeconds": delay_ns / _SECOND_NS},
        )
        if not decision.in_backoff or decision.until_ns is None:
            return
        parts.events.event(
            pod,
            "Warning",
            "BackOff",
            backoff.backoff_event_text(pod, container.name),
            field_path=field_path(pod, container.name),
        )
        until = parts.clock.elapsed_seconds() + (decision.until_ns - now_ns) / _SECOND_NS
        message = backoff.backoff_status_text(delay_ns, pod, container.name)
        raise StartError("CrashLoopBackOff", message, backoff_until_seconds=until)

    def _fail(self, action: SyncAction, target: str, error_name: str, message: str) -> None:
        self._results.append(SyncResult(action, target, error_name, message))
