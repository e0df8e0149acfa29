"""Container statuses from runtime records (pure).

Mirrors ``convertToAPIContainerStatuses`` of ``pkg/kubelet/kubelet_pods.go``.
Four steps for each list of containers, each a function below:

A. a default for every container of the spec, fed from its old status (STA-302);
B. containers without any runtime record: what their old status allows to conclude (STA-303, RST-145);
C. runtime records, newest first, two at most for each name: state and last state (STA-305 to STA-310);
D. containers that the next sync will start: the cached reason of the last failed start (STA-311, STA-312).

The old status is the status manager's cached one, so what a step invents (a restart count, a last state)
lives on in the next generation. That is the whole memory of a restart of all containers once its records
are gone.
"""

from collections.abc import Callable, Sequence

from attrs import frozen

from kubelet_emu.api.types import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    VolumeMountStatus,
)
from kubelet_emu.bugs import AS_RELEASED, COUNTS_RESET, Deviations
from kubelet_emu.container.runtime import ContainerState as Runtime
from kubelet_emu.container.runtime import RuntimeContainer, RuntimePodStatus
from kubelet_emu.evolving import evolve
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.restart_rules import is_sidecar, should_container_be_restarted
from kubelet_emu.status import constants as k
from kubelet_emu.status.pods import by_name, unknown_state
from kubelet_emu.status.resources import container_user, with_resources
from kubelet_emu.why import Why

__all__ = ["ContainerKind", "ConvertInput", "Converted", "ReasonCache", "convert_container_statuses"]

ReasonCache = Callable[[str, str], "tuple[str, str] | None"]
"""Reason and message of a container's last failed start, by pod uid and container name (STA-313)."""

ContainerKind = str
"""``regular``, ``init`` or ``ephemeral``."""


@frozen(kw_only=True)
class ConvertInput:
    """What the conversion of one list of containers looks at besides the old statuses."""

    pod: Pod
    runtime: RuntimePodStatus
    reason_cache: ReasonCache
    gates: Gates
    runtime_name: str
    restarting_all: bool
    """Whether a restart of all containers is in progress (STA-304, RST-121)."""
    deviations: Deviations = AS_RELEASED


@frozen
class Converted:
    """The statuses in their documented order (STA-301) and the rules that did more than copy the runtime."""

    statuses: tuple[ContainerStatus, ...]
    why: tuple[Why, ...] = ()


def convert_container_statuses(
    given: ConvertInput,
    containers: Sequence[Container],
    old_statuses: Sequence[ContainerStatus],
    *,
    kind: ContainerKind,
) -> Converted:
    """Statuses of one list of the spec; init ones in its order, others sorted by name (STA-301, RST-180)."""
    old = by_name(old_statuses)
    why: list[Why] = []
    statuses: dict[str, ContainerStatus] = {}
    for container in containers:
        name = container.name
        records = given.runtime.instances(name)
        status = _default(given.pod, container, old.get(name))
        if records:
            status = _from_records(given, records, old.get(name), why)
        elif name in old:
            status = _without_record(given, status, old[name], why)
        status = _before_start(given, container, status, kind, why)
        statuses[name] = status
    names = statuses if kind == "init" else sorted(statuses)
    return Converted(tuple(statuses[name] for name in names), tuple(why))


def default_waiting_reason(pod: Pod) -> str:
    """PodInitializing for every container of a pod with init containers, else ContainerCreating (STA-302)."""
    return k.POD_INITIALIZING if pod.spec.init_containers else k.CONTAINER_CREATING


def _default(pod: Pod, container: Container, old: ContainerStatus | None) -> ContainerStatus:
    """Step A: the seed; an old terminated status is taken whole (STA-302, STA-318, RST-175)."""
    if old is not None and old.state.terminated is not None:
        return old
    seed = ContainerStatus(
        name=container.name,
        image=container.image or "",
        state=ContainerState(waiting=ContainerStateWaiting(reason=default_waiting_reason(pod))),
        volume_mounts=_volume_mounts(container),
    )
    if old is None:
        return seed
    return evolve(seed, restart_count=old.restart_count, last_state=old.last_state)


def _volume_mounts(container: Container) -> tuple[VolumeMountStatus, ...]:
    """STA-317: computed once, for the default status."""
    return tuple(
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only or None,
            recursive_read_only=_recursive_read_only(mount.recursive_read_only) if mount.read_only else None,
        )
        for mount in container.volume_mounts
    )


def _recursive_read_only(asked: str | None) -> str:
    """What came of the wish; this node's runtime handlers do not offer recursive read-only mounts."""
    return "Enabled" if asked == "Enabled" else "Disabled"


def _without_record(
    given: ConvertInput, status: ContainerStatus, old: ContainerStatus, why: list[Why]
) -> ContainerStatus:
    """Step B, first row of STA-303 (RST-145 to RST-150) that fits; ``status`` is the seed."""
    if given.restarting_all and old.state.waiting is None:
        why.append(Why("RST-145", old.name))
        return evolve(
            status,
            state=ContainerState(
                waiting=ContainerStateWaiting(reason=k.RESTARTING_ALL_CONTAINERS, message=k.REMOVED_MESSAGE)
            ),
            last_state=unknown_state(k.REMOVED_MESSAGE, reason=k.RESTARTING_ALL_CONTAINERS),
            restart_count=0 if given.deviations.has(COUNTS_RESET) else old.restart_count + 1,
        )
    if old.state.terminated is not None or old.state.running is None:
        return status
    if status.last_state.terminated is not None:
        why.append(Why("STA-303", old.name))
        return status
    why.append(Why("RST-176", old.name))
    deleted = given.pod.metadata.deletion_timestamp is not None
    return evolve(
        status,
        last_state=unknown_state(k.GONE_DELETED_MESSAGE),
        restart_count=status.restart_count + (0 if deleted else 1),
    )


def _from_records(
    given: ConvertInput,
    records: Sequence[RuntimeContainer],
    old: ContainerStatus | None,
    why: list[Why],
) -> ContainerStatus:
    """Step C: the newest record is the status, the state of the second one its last state (STA-305)."""
    status = _convert_record(given, records[0], old, why)
    # With the gate on, only a result of this kubelet counts (STA-402).
    carry = not given.gates.enabled("ChangeContainerStatusOnKubeletRestart")
    if carry and status.state.running is not None and old is not None and old.started is not None:
        status = evolve(status, started=old.started)
    if len(records) > 1:
        second = _convert_record(given, records[1], old, [])
        status = evolve(status, last_state=second.state)
    return status


def _convert_record(
    given: ConvertInput, record: RuntimeContainer, old: ContainerStatus | None, why: list[Why]
) -> ContainerStatus:
    """One record on its own (STA-306 to STA-308, STA-310)."""
    status = ContainerStatus(
        name=record.name,
        restart_count=record.restart_count,
        image=record.image,
        image_id=record.image_ref,
        container_id=f"{given.runtime_name}://{record.id}",
        user=container_user(record),
        stop_signal=_stop_signal(given, record),
    )
    if old is not None:
        status = evolve(status, volume_mounts=old.volume_mounts)
        if given.gates.restart_all:
            status = _carry_over(status, old)
    status = _with_state(given, status, record, old, why)
    return with_resources(given.pod, status, record, old)


def _stop_signal(given: ConvertInput, record: RuntimeContainer) -> str | None:
    """The signal as the runtime reports it, where the gate is on (HOK-19, STA-1006)."""
    return record.stop_signal or None if given.gates.enabled("ContainerStopSignals") else None


def _carry_over(status: ContainerStatus, old: ContainerStatus) -> ContainerStatus:
    """What a record does not know after a restart of all containers (STA-308, STA-310, RST-151, RST-178)."""
    count = max(status.restart_count, old.restart_count)
    if old.container_id != status.container_id and old.state.terminated is not None:
        return evolve(status, restart_count=count, last_state=ContainerState(terminated=old.state.terminated))
    if old.last_state.terminated is not None:
        return evolve(
            status, restart_count=count, last_state=ContainerState(terminated=old.last_state.terminated)
        )
    return evolve(status, restart_count=count)


def _with_state(
    given: ConvertInput,
    status: ContainerStatus,
    record: RuntimeContainer,
    old: ContainerStatus | None,
    why: list[Why],
) -> ContainerStatus:
    """The API state of a record (STA-306, STA-316) and the count of an unseen restart (STA-308)."""
    if record.state is Runtime.RUNNING:
        state = ContainerState(running=ContainerStateRunning(started_at=record.started_at_ns or None))
        if (
            given.gates.restart_all
            and old is not None
            and old.state.terminated is not None
            and old.restart_count >= record.restart_count
        ):
            why.append(Why("STA-308", record.name))
            return evolve(status, state=state, restart_count=old.restart_count + 1)
        return evolve(status, state=state)
    if record.state is Runtime.EXITED:
        return evolve(status, state=_terminated(record, status.container_id))
    if record.state is Runtime.UNKNOWN and old is not None and old.state.running is not None:
        reason = k.RESTARTING_ALL_CONTAINERS if given.restarting_all else k.STATUS_UNKNOWN
        why.append(Why("RST-177", record.name))
        return evolve(
            status,
            state=unknown_state(k.GONE_TERMINATED_MESSAGE, reason=reason),
            restart_count=old.restart_count + 1,
        )
    # Created, or unknown without a past: waiting to run, and nobody can say why.
    return evolve(status, state=ContainerState(waiting=ContainerStateWaiting()))


def _terminated(record: RuntimeContainer, container_id: str | None) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=record.exit_code,
            reason=record.reason or None,
            message=record.message or None,
            started_at=record.started_at_ns or None,
            finished_at=record.finished_at_ns or None,
            container_id=container_id,
        )
    )


def _before_start(
    given: ConvertInput, container: Container, status: ContainerStatus, kind: ContainerKind, why: list[Why]
) -> ContainerStatus:
    """Step D: STA-311, first number that fits."""
    latest = given.runtime.latest(container.name)
    if kind == "init":
        if latest is not None and latest.state is Runtime.EXITED and latest.exit_code == 0:
            return status
        if (
            latest is None
            and not is_sidecar(container)
            and status.state.waiting is not None
            and _any_regular_container_created(given.pod, given.runtime)
        ):
            why.append(Why("STA-311", container.name))
            done = ContainerStateTerminated(reason=k.COMPLETED, message=k.INIT_LOST_MESSAGE, exit_code=0)
            return evolve(status, state=ContainerState(terminated=done))
    if not should_container_be_restarted(container, given.pod, given.runtime, given.gates):
        return status
    cached = given.reason_cache(given.pod.metadata.uid or "", container.name)
    if cached is None:
        return status
    why.append(Why("RST-179", container.name))
    reason, message = cached
    last = status.state if status.state.terminated is not None else status.last_state
    waiting = ContainerStateWaiting(reason=reason or None, message=message or None)
    return evolve(status, state=ContainerState(waiting=waiting), last_state=last)


def _any_regular_container_created(pod: Pod, runtime: RuntimePodStatus) -> bool:
    """Whether the latest instance of some regular container is created, running or exited (STA-311)."""
    latest = (runtime.latest(container.name) for container in pod.spec.containers)
    return any(record is not None and record.state is not Runtime.UNKNOWN for record in latest)
