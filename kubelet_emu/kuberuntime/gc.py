"""Which dead containers, sandboxes and log directories a collection removes (pure).

Mirrors ``pkg/kubelet/kuberuntime/kuberuntime_gc.go`` and ``pkg/kubelet/pod_container_deletor.go`` (POD-1005
to POD-1009, RST-096, RST-199). Everything returned is in removal order.
"""

from collections.abc import Callable, Sequence

from attrs import frozen

from kubelet_emu.container.runtime import ContainerState, RuntimePodStatus

__all__ = [
    "ContainerToCollect",
    "GCPolicy",
    "ListedContainer",
    "ListedSandbox",
    "containers_to_collect",
    "dead_beyond",
    "sandboxes_to_collect",
]


@frozen(kw_only=True)
class GCPolicy:
    """Limits of one collection; a negative number is no limit (POD-1005)."""

    min_age_ns: int = 0
    max_per_container: int = 1
    max_containers: int = -1


@frozen(kw_only=True)
class ListedContainer:
    """A container as ListContainers shows it, with the names from its labels."""

    id: str
    pod_uid: str
    name: str
    sandbox_id: str
    state: ContainerState
    created_at_ns: int


@frozen(kw_only=True)
class ListedSandbox:
    """A sandbox as ListPodSandbox shows it."""

    id: str
    pod_uid: str
    ready: bool
    created_at_ns: int


@frozen(kw_only=True)
class ContainerToCollect:
    """A container to remove; one in an unknown state is killed first."""

    id: str
    name: str
    kill_first: bool


@frozen
class _Unit:
    """The dead containers of one name of one pod, newest first."""

    pod_uid: str
    containers: tuple[ListedContainer, ...]


def _units(containers: Sequence[ListedContainer], oldest_allowed_ns: int) -> list[_Unit]:
    groups: dict[tuple[str, str], list[ListedContainer]] = {}
    for container in containers:
        if container.state is not ContainerState.RUNNING and container.created_at_ns <= oldest_allowed_ns:
            groups.setdefault((container.pod_uid, container.name), []).append(container)
    return [
        _Unit(uid, tuple(sorted(group, key=lambda item: item.created_at_ns, reverse=True)))
        for (uid, _), group in sorted(groups.items())
    ]


def _cut(units: list[_Unit], keep: int, gone: list[ListedContainer]) -> list[_Unit]:
    """Keep the newest of each group; what goes is appended oldest first."""
    left: list[_Unit] = []
    for unit in units:
        gone.extend(reversed(unit.containers[keep:]))
        if unit.containers[:keep]:
            left.append(_Unit(unit.pod_uid, unit.containers[:keep]))
    return left


def containers_to_collect(
    containers: Sequence[ListedContainer],
    policy: GCPolicy,
    *,
    now_ns: int,
    sources_ready: bool,
    content_removable: Callable[[str], bool],
) -> tuple[ContainerToCollect, ...]:
    """The containers one pass removes (POD-1005). ``content_removable`` answers for a pod uid."""
    units = _units(containers, now_ns - policy.min_age_ns)
    gone: list[ListedContainer] = []
    if sources_ready:
        for unit in units:
            if content_removable(unit.pod_uid):
                gone.extend(reversed(unit.containers))
        units = [unit for unit in units if not content_removable(unit.pod_uid)]
    if policy.max_per_container >= 0:
        units = _cut(units, policy.max_per_container, gone)
    total = sum(len(unit.containers) for unit in units)
    if 0 <= policy.max_containers < total:
        units = _cut(units, max(1, policy.max_containers // len(units)), gone)
        flat = [container for unit in units for container in unit.containers]
        flat.sort(key=lambda item: item.created_at_ns, reverse=True)
        gone.extend(reversed(flat[policy.max_containers :]))
    return tuple(
        ContainerToCollect(
            id=container.id,
            name=container.name,
            kill_first=container.state is ContainerState.UNKNOWN,
        )
        for container in gone
    )


def sandboxes_to_collect(
    sandboxes: Sequence[ListedSandbox],
    containers: Sequence[ListedContainer],
    *,
    content_removable: Callable[[str], bool],
) -> tuple[str, ...]:
    """The sandboxes one pass removes: dead, empty, and not the newest of a pod that is kept (POD-1006)."""
    occupied = {container.sandbox_id for container in containers}
    pods: dict[str, list[ListedSandbox]] = {}
    for sandbox in sandboxes:
        pods.setdefault(sandbox.pod_uid, []).append(sandbox)
    gone: list[str] = []
    for uid, group in sorted(pods.items()):
        newest_first = sorted(group, key=lambda item: item.created_at_ns, reverse=True)
        candidates = newest_first if content_removable(uid) else newest_first[1:]
        gone.extend(
            sandbox.id for sandbox in reversed(candidates) if not sandbox.ready and sandbox.id not in occupied
        )
    return tuple(gone)


def dead_beyond(status: RuntimePodStatus, keep: int, *, died_id: str = "") -> tuple[str, ...]:
    """Exited instances beyond the newest ``keep``, newest first (POD-1007, RST-096).

    With ``died_id`` only instances of that one's name count; an id that the status does not know gives none.
    """
    matched = next((container for container in status.containers if container.id == died_id), None)
    if died_id and matched is None:
        return ()
    exited = [
        container
        for container in status.containers
        if container.state is ContainerState.EXITED and (matched is None or container.name == matched.name)
    ]
    exited.sort(key=lambda container: container.created_at_ns, reverse=True)
    return tuple(container.id for container in exited[max(keep, 0) :])
