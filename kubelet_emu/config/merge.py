"""What has changed in the full list of a source (pure).

Mirrors ``pkg/kubelet/config/config.go`` (POD-201, POD-202, POD-215 to POD-218, POD-1320).
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from attrs import field, frozen

from kubelet_emu.api.times import format_nano9
from kubelet_emu.api.types import Pod
from kubelet_emu.evolving import evolve
from kubelet_emu.pod_update import (
    CONFIG_MIRROR_ANNOTATION,
    CONFIG_SEEN_ANNOTATION,
    CONFIG_SOURCE_ANNOTATION,
    full_name,
    uid_of,
)
from kubelet_emu.why import Why

__all__ = ["ConfigUpdate", "Merged", "Op", "SourceState", "duplicate_message", "merge"]

_LOCAL_ANNOTATIONS = (CONFIG_SOURCE_ANNOTATION, CONFIG_MIRROR_ANNOTATION, CONFIG_SEEN_ANNOTATION)


class Op(StrEnum):
    """What a group of pods means to the sync loop (POD-216)."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    """A deletion has begun; the pod is still in the source."""
    REMOVE = "REMOVE"
    RECONCILE = "RECONCILE"


@frozen
class ConfigUpdate:
    """One group of changes from one source. An ADD without pods only says that the source is there."""

    op: Op
    source: str
    pods: tuple[Pod, ...]


@frozen
class _Held:
    pod: Pod
    given: Pod
    """The object as the source gave it last; the very same object means that nothing has changed."""


@frozen
class SourceState:
    """What is known of one source: its pods by UID, and whether it has ever sent a list."""

    held: Mapping[str, _Held] = field(factory=dict[str, _Held])
    seen: bool = False


@frozen
class Merged:
    """The new state, the groups in the order of delivery, and pods that were left out (POD-215)."""

    state: SourceState
    updates: tuple[ConfigUpdate, ...]
    duplicates: tuple[Pod, ...]
    why: tuple[Why, ...]


def merge(state: SourceState, source: str, pods: Sequence[Pod], *, now_ns: int) -> Merged:
    """Replace the list of ``source`` by ``pods`` and tell what that changes (POD-216 to POD-218)."""
    groups: dict[Op, list[Pod]] = {op: [] for op in Op}
    held: dict[str, _Held] = {}
    duplicates: list[Pod] = []
    names: set[str] = set()
    for given in pods:
        name = full_name(given)
        if name in names:
            duplicates.append(given)
            continue
        names.add(name)
        uid = uid_of(given)
        old = state.held.get(uid)
        if old is not None:
            pod, op = _classify(old, given)
        else:
            pod, op = _annotated(given, source, format_nano9(now_ns)), Op.ADD
        held[uid] = _Held(pod, given)
        if op is not None:
            groups[op].append(pod)
    groups[Op.REMOVE] = [old.pod for uid, old in state.held.items() if uid not in held]
    updates = _in_order(groups, source, first=not state.seen)
    why = (Why("POD-218"), *(Why("POD-216", str(update.op)) for update in updates))
    return Merged(SourceState(held, True), updates, tuple(duplicates), why)


def _in_order(groups: Mapping[Op, list[Pod]], source: str, *, first: bool) -> tuple[ConfigUpdate, ...]:
    order = (Op.REMOVE, Op.ADD, Op.UPDATE, Op.DELETE)
    updates = [ConfigUpdate(op, source, tuple(groups[op])) for op in order if groups[op]]
    if first and not any(groups[op] for op in order[1:]):
        updates.append(ConfigUpdate(Op.ADD, source, ()))
    if groups[Op.RECONCILE]:
        updates.append(ConfigUpdate(Op.RECONCILE, source, tuple(groups[Op.RECONCILE])))
    return tuple(updates)


def _classify(old: _Held, given: Pod) -> tuple[Pod, Op | None]:
    """The pod to hold from now on, and the group it goes to."""
    if given is old.given:
        return old.pod, None
    pod, own = old.pod, old.pod.metadata.annotations
    if not _differ(pod, given):
        if pod.status == given.status:
            return pod, None
        return evolve(pod, status=given.status), Op.RECONCILE
    meta = evolve(
        pod.metadata,
        labels=given.metadata.labels,
        annotations={
            **_public(given.metadata.annotations),
            **{key: own[key] for key in _LOCAL_ANNOTATIONS if key in own},
        },
        deletion_timestamp=given.metadata.deletion_timestamp,
        deletion_grace_period_seconds=given.metadata.deletion_grace_period_seconds,
        generation=given.metadata.generation,
    )
    changed = evolve(pod, metadata=meta, spec=given.spec, status=given.status)
    return changed, Op.UPDATE if given.metadata.deletion_timestamp is None else Op.DELETE


def _differ(held: Pod, given: Pod) -> bool:
    """Whether anything changed that the kubelet acts on; bookkeeping annotations do not count (POD-216)."""
    a, b = held.metadata, given.metadata
    return (
        held.spec != given.spec
        or a.labels != b.labels
        or a.deletion_timestamp != b.deletion_timestamp
        or a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        or _public(a.annotations) != _public(b.annotations)
    )


def _public(annotations: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in annotations.items() if key not in _LOCAL_ANNOTATIONS}


def _annotated(pod: Pod, source: str, seen: str) -> Pod:
    own = {CONFIG_SOURCE_ANNOTATION: source, CONFIG_SEEN_ANNOTATION: seen}
    annotations = {**pod.metadata.annotations, **own}
    return evolve(pod, metadata=evolve(pod.metadata, annotations=annotations))


def duplicate_message(pod: Pod, source: str) -> str:
    """Text of the event ``FailedValidation`` for a pod that was left out (POD-215)."""
    meta = pod.metadata
    shown = f"{meta.name}_{meta.namespace}({meta.uid})"
    return f'Error validating pod {shown} from {source} due to duplicate pod name "{meta.name}", ignoring'
