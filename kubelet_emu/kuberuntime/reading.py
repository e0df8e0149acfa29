"""Reading what the runtime has: lists of pods, and everything about one pod.

Mirrors ``GetPods`` and ``GetPodStatus`` of ``pkg/kubelet/kuberuntime/kuberuntime_manager.go`` and
``getPodContainerStatuses`` of ``kuberuntime_container.go`` (POD-917, POD-918, RST-196, RST-197).
"""

import ipaddress
from collections.abc import Container, Mapping, Sequence

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.container.runtime import (
    ContainerState,
    RunningContainer,
    RunningPod,
    RuntimeContainer,
    RuntimeMount,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.errors import PeerError
from kubelet_emu.evolving import evolve
from kubelet_emu.kuberuntime import labels, termination
from kubelet_emu.kuberuntime.calls import CriCalls, is_not_found
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError

__all__ = [
    "STATES",
    "Reader",
    "running_pod_of",
    "sandbox_ips",
    "to_runtime_container",
    "to_runtime_sandbox",
]

STATES: Mapping[int, ContainerState] = {
    cri.CONTAINER_CREATED: ContainerState.CREATED,
    cri.CONTAINER_RUNNING: ContainerState.RUNNING,
    cri.CONTAINER_EXITED: ContainerState.EXITED,
    cri.CONTAINER_UNKNOWN: ContainerState.UNKNOWN,
}
KILLED_EXIT_CODE = 137
_LOG_READ_BYTES = 1 << 20
"""How much of a log's end is looked at for a termination message; 80 lines of 16 KiB fit."""


def _valid_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def sandbox_ips(status: cri.PodSandboxStatus) -> tuple[str, ...]:
    """The pod's addresses; one that cannot be parsed drops them all (CRI-033)."""
    if not status.HasField("network"):
        return ()
    network = status.network
    found = ((network.ip,) if network.ip else ()) + tuple(entry.ip for entry in network.additional_ips)
    return found if all(_valid_ip(ip) for ip in found) else ()


def to_runtime_sandbox(status: cri.PodSandboxStatus) -> RuntimeSandbox:
    """A sandbox status as the kubelet keeps it."""
    ready = status.state == cri.SANDBOX_READY
    return RuntimeSandbox(
        id=status.id,
        state=SandboxState.READY if ready else SandboxState.NOT_READY,
        attempt=status.metadata.attempt,
        created_at_ns=status.created_at,
        host_network=status.linux.namespaces.options.network == cri.NODE,
        ip=status.network.ip if status.HasField("network") else None,
        additional_ips=tuple(entry.ip for entry in status.network.additional_ips),
    )


def _resources(status: cri.ContainerStatus) -> Mapping[str, int] | None:
    if not status.HasField("resources") or not status.resources.HasField("linux"):
        return None
    linux = status.resources.linux
    values = {
        "cpu_period": linux.cpu_period,
        "cpu_quota": linux.cpu_quota,
        "cpu_shares": linux.cpu_shares,
        "memory_limit_in_bytes": linux.memory_limit_in_bytes,
    }
    return {name: value for name, value in values.items() if value}


def _user(status: cri.ContainerStatus) -> Mapping[str, object] | None:
    if not status.HasField("user") or not status.user.HasField("linux"):
        return None
    linux = status.user.linux
    return {"uid": linux.uid, "gid": linux.gid, "supplementalGroups": list(linux.supplemental_groups)}


def _stop_signal(status: cri.ContainerStatus) -> str:
    if status.stop_signal == cri.SIGNAL_RUNTIME_DEFAULT:
        return ""
    return cri.Signal.Name(status.stop_signal).removeprefix("SIGNAL_")


def to_runtime_container(status: cri.ContainerStatus, sandbox_id: str) -> RuntimeContainer:
    """A container status as the kubelet keeps it, without its termination message.

    Only what the kubelet reads in that state is taken over (CRI-043, CRI-046).
    """
    state = STATES.get(status.state, ContainerState.UNKNOWN)
    notes = labels.parse_container_annotations(status.annotations)
    ended = state is ContainerState.EXITED
    ran = state is not ContainerState.CREATED
    return RuntimeContainer(
        id=status.id,
        name=status.labels.get(labels.CONTAINER_NAME, status.metadata.name),
        state=state,
        created_at_ns=status.created_at,
        started_at_ns=status.started_at if ran else 0,
        finished_at_ns=status.finished_at if ended else 0,
        exit_code=status.exit_code if ended else 0,
        reason=status.reason if ended else "",
        message=status.message if ended else "",
        restart_count=notes.restart_count,
        hash=notes.hash,
        image=status.image.image,
        image_id=status.image_id,
        image_ref=status.image_ref,
        sandbox_id=sandbox_id,
        log_path=status.log_path,
        mounts=tuple(
            RuntimeMount(mount.container_path, mount.host_path, mount.readonly) for mount in status.mounts
        ),
        annotations=dict(sorted(status.annotations.items())),
        resources=_resources(status),
        user=_user(status),
        stop_signal=_stop_signal(status),
    )


def running_pod_of(status: RuntimePodStatus) -> RunningPod:
    """What a pod kill works on: the running containers and all sandboxes (RST-083, POD-702)."""
    return RunningPod(
        uid=status.uid,
        name=status.name,
        namespace=status.namespace,
        containers=tuple(
            RunningContainer(
                id=container.id,
                name=container.name,
                state=container.state,
                sandbox_id=container.sandbox_id,
                created_at_ns=container.created_at_ns,
                image=container.image,
                hash=container.hash,
            )
            for container in status.containers
            if container.state is ContainerState.RUNNING
        ),
        sandboxes=tuple(
            RunningContainer(
                id=sandbox.id,
                name=status.name,
                state=_as_container(sandbox.state is SandboxState.READY),
                created_at_ns=sandbox.created_at_ns,
            )
            for sandbox in status.sandboxes
        ),
    )


def _as_container(ready: bool) -> ContainerState:
    return ContainerState.RUNNING if ready else ContainerState.EXITED


class _PodDraft:
    """A pod of a list while its parts are being collected."""

    def __init__(self, uid: str, name: str, namespace: str) -> None:
        self.uid = uid
        self.name = name
        self.namespace = namespace
        self.created_at_ns = 0
        self.containers: list[RunningContainer] = []
        self.sandboxes: list[RunningContainer] = []

    def done(self) -> RunningPod:
        def newest_first(items: list[RunningContainer]) -> tuple[RunningContainer, ...]:
            return tuple(sorted(items, key=lambda item: (-item.created_at_ns, item.id)))

        return RunningPod(
            uid=self.uid,
            name=self.name,
            namespace=self.namespace,
            containers=newest_first(self.containers),
            sandboxes=newest_first(self.sandboxes),
            created_at_ns=self.created_at_ns,
        )


@frozen
class _Listed:
    """The two lists of one reading and what was made of them."""

    sandboxes: Sequence[cri.PodSandbox]
    containers: Sequence[cri.Container]
    pods: tuple[RunningPod, ...]


class Reader:
    """Reads pods from one runtime; termination messages come from ``files``.

    Instances in ``failed`` count as failed even where they exited with 0.
    """

    def __init__(
        self, calls: CriCalls, clock: NodeClock, files: Files, *, failed: Container[str] = ()
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._files = files
        self._failed = failed
        self._last: dict[bool, _Listed] = {}

    async def pods(self, *, include_exited: bool) -> tuple[RunningPod, ...]:
        """All pods, or those with a READY sandbox or a running container (POD-904, POD-919)."""
        sandboxes = await self._calls.list_pod_sandboxes(ready_only=not include_exited)
        containers = await self._calls.list_containers(running_only=not include_exited)
        last = self._last.get(include_exited)
        if last is not None and last.sandboxes == sandboxes and last.containers == containers:
            # Nearly every relist finds what the last one found; the very same value lets PLEG see it at once.
            return last.pods
        pods = self._collect(sandboxes, containers)
        self._last[include_exited] = _Listed(sandboxes, containers, pods)
        return pods

    @staticmethod
    def _collect(
        sandboxes: Sequence[cri.PodSandbox], containers: Sequence[cri.Container]
    ) -> tuple[RunningPod, ...]:
        drafts: dict[str, _PodDraft] = {}
        for sandbox in sandboxes:
            meta = sandbox.metadata
            draft = drafts.setdefault(meta.uid, _PodDraft(meta.uid, meta.name, meta.namespace))
            draft.sandboxes.append(
                RunningContainer(
                    id=sandbox.id,
                    name=meta.name,
                    state=_as_container(sandbox.state == cri.SANDBOX_READY),
                    created_at_ns=sandbox.created_at,
                )
            )
            draft.created_at_ns = max(draft.created_at_ns, sandbox.created_at)
        for container in containers:
            if not container.id or not container.HasField("image"):
                continue
            notes = container.labels
            uid = notes.get(labels.POD_UID, "")
            fresh = _PodDraft(uid, notes.get(labels.POD_NAME, ""), notes.get(labels.POD_NAMESPACE, ""))
            drafts.setdefault(uid, fresh).containers.append(_listed(container))
        return tuple(drafts[uid].done() for uid in sorted(drafts))

    async def pod_status(self, uid: str, name: str, namespace: str) -> RuntimePodStatus:
        """Everything about one pod; what vanishes while it is read is left out (POD-917).

        Raises ``PeerError`` if the runtime cannot be asked.
        """
        observed = self._clock.elapsed_seconds()
        try:
            sandboxes = await self._sandboxes(uid)
            containers = await self._containers(uid)
        except StatusError as error:
            raise PeerError(str(error)) from error
        return _status_of(uid, name, namespace, sandboxes, containers, observed)

    def status_of_event(self, event: cri.ContainerEventResponse) -> RuntimePodStatus | None:
        """A pod's status from the snapshot that an event carries; None if it carries no sandbox (POD-915)."""
        meta = event.pod_sandbox_status.metadata
        if not event.pod_sandbox_status.HasField("metadata"):
            return None
        sandbox_id = event.pod_sandbox_status.id
        containers = [
            self._with_message(to_runtime_container(status, sandbox_id))
            for status in event.containers_statuses
        ]
        sandboxes = [event.pod_sandbox_status]
        observed = self._clock.elapsed_seconds()
        return _status_of(meta.uid, meta.name, meta.namespace, sandboxes, containers, observed)

    async def _sandboxes(self, uid: str) -> list[cri.PodSandboxStatus]:
        listed = sorted(
            await self._calls.list_pod_sandboxes(pod_uid=uid), key=lambda item: (-item.created_at, item.id)
        )
        found: list[cri.PodSandboxStatus] = []
        for item in listed:
            try:
                status = await self._calls.pod_sandbox_status(item.id)
            except StatusError as error:
                if is_not_found(error):
                    continue
                raise
            if status is not None:
                found.append(status)
        return found

    async def _containers(self, uid: str) -> list[RuntimeContainer]:
        found: list[RuntimeContainer] = []
        for item in await self._calls.list_containers(pod_uid=uid):
            try:
                status = await self._calls.container_status(item.id)
            except StatusError as error:
                if is_not_found(error):
                    continue
                raise
            container = to_runtime_container(status, item.pod_sandbox_id)
            if container.id in self._failed and container.exit_code == 0:
                container = evolve(container, exit_code=KILLED_EXIT_CODE, reason="Error")
            found.append(self._with_message(container))
        return found

    def _with_message(self, container: RuntimeContainer) -> RuntimeContainer:
        notes = labels.parse_container_annotations(container.annotations)
        sources = termination.message_sources(
            state=container.state,
            exit_code=container.exit_code,
            reason=container.reason,
            path=notes.termination_message_path,
            policy=notes.termination_message_policy,
            mounts=container.mounts,
        )
        if sources is None:
            return container
        text = self._file_text(sources.file) if sources.file else ""
        if not text and sources.log:
            text = self._log_text(container.log_path)
        return evolve(container, message=termination.compose_message(container.message, text))

    def _end_of(self, path: str, limit_bytes: int) -> bytes:
        size = self._files.stat(path).size
        return self._files.read(path, offset=max(0, size - limit_bytes), limit=limit_bytes)

    def _file_text(self, path: str) -> str:
        try:
            return termination.tail_of_file(self._end_of(path, termination.MESSAGE_BYTES))
        except FileNotFoundError:
            return ""
        except OSError as error:
            return termination.file_error_text(path, str(error))

    def _log_text(self, path: str) -> str:
        if not path:
            return ""
        try:
            data = self._end_of(path, _LOG_READ_BYTES)
            if len(data) == _LOG_READ_BYTES:
                data = data.partition(b"\n")[2]
            return termination.tail_of_log(data)
        except (OSError, ValueError) as error:
            return termination.log_error_text(str(error))


def _status_of(
    uid: str,
    name: str,
    namespace: str,
    sandboxes: list[cri.PodSandboxStatus],
    containers: Sequence[RuntimeContainer],
    observed_seconds: float,
) -> RuntimePodStatus:
    """Newest first; addresses are those of the newest sandbox, if it is READY (POD-917)."""
    sandboxes.sort(key=lambda status: (-status.metadata.attempt, -status.created_at, status.id))
    ips: tuple[str, ...] = ()
    if sandboxes and sandboxes[0].state == cri.SANDBOX_READY:
        ips = sandbox_ips(sandboxes[0])
    return RuntimePodStatus(
        uid=uid,
        name=name,
        namespace=namespace,
        ips=ips,
        containers=tuple(sorted(containers, key=lambda c: (-c.created_at_ns, c.id))),
        sandboxes=tuple(to_runtime_sandbox(status) for status in sandboxes),
        observed_at_seconds=observed_seconds,
    )


def _listed(container: cri.Container) -> RunningContainer:
    return RunningContainer(
        id=container.id,
        name=container.labels.get(labels.CONTAINER_NAME, container.metadata.name),
        state=STATES.get(container.state, ContainerState.UNKNOWN),
        sandbox_id=container.pod_sandbox_id,
        created_at_ns=container.created_at,
        image=container.image.image,
        hash=labels.hash_of(container.annotations),
    )
