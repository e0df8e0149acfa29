"""Validation of changes: main resource, ephemeral containers, resize. (pure)

API-055, API-160 to API-168.
"""

from collections.abc import Sequence
from typing import Any, cast

from attrs import evolve, fields

from kubelet_emu.api.field_errors import FieldError, forbidden, go_quote, invalid, required
from kubelet_emu.api.names import range_problem
from kubelet_emu.api.qos import qos_of_spec
from kubelet_emu.api.schema import json_name
from kubelet_emu.api.types import (
    ApiObject,
    Container,
    EphemeralContainer,
    Pod,
    PodSchedulingGate,
    PodSpec,
    Toleration,
)
from kubelet_emu.api.validation.create import validate_metadata_and_spec
from kubelet_emu.api.validation.meta import (
    is_mirror,
    validate_meta_update,
    validate_mirror_annotation_update,
)
from kubelet_emu.api.validation.options import Options, options_for
from kubelet_emu.api.validation.scheduling import validate_tolerations
from kubelet_emu.api.validation.spec import MAX_ACTIVE_DEADLINE_SECONDS
from kubelet_emu.gates import Gates

__all__ = [
    "changed_fields",
    "validate_ephemeral_containers_update",
    "validate_pod_resize",
    "validate_pod_update",
]

_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)


def changed_fields(new: Any, old: Any, path: str = "") -> list[str]:
    """Paths at which two values of one class differ, for messages."""
    if new == old:
        return []
    if isinstance(new, ApiObject) and type(new) is type(old):
        found: list[str] = []
        for field in fields(type(new)):
            name = json_name(type(new).__name__, field.name)
            place = f"{path}.{name}" if path else name
            found += changed_fields(getattr(new, field.name), getattr(old, field.name), place)
        return found
    if isinstance(new, tuple) and isinstance(old, tuple):
        items_new, items_old = cast("tuple[Any, ...]", new), cast("tuple[Any, ...]", old)
        if len(items_new) == len(items_old):
            pairs = enumerate(zip(items_new, items_old, strict=True))
            return [p for index, (a, b) in pairs for p in changed_fields(a, b, f"{path}[{index}]")]
    return [path]


def _difference(new: Any, old: Any, path: str = "") -> str:
    """Stands where the server prints a Go diff."""
    return "".join(f"  changed: {place}\n" for place in changed_fields(new, old, path))


def _images(new: Sequence[Container], old: Sequence[Container], path: str) -> tuple[list[FieldError], bool]:
    """Errors of the images, and whether validation stops because containers came or went (API-161)."""
    if len(new) != len(old):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    return [
        required(f"{path}[{index}].image")
        for index, container in enumerate(new)
        if not container.image.strip()
    ], False


def _deadline(new: int | None, old: int | None) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is None:
            return []
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 0 <= new <= MAX_ACTIVE_DEADLINE_SECONDS:
        return [invalid(path, new, range_problem(0, MAX_ACTIVE_DEADLINE_SECONDS))]
    if old is not None and new > old:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _tolerations(new: Sequence[Toleration], old: Sequence[Toleration], options: Options) -> list[FieldError]:
    path = "spec.tolerations"
    kept = {evolve(toleration, toleration_seconds=None) for toleration in new}
    if any(evolve(toleration, toleration_seconds=None) not in kept for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden(path, text)]
    return validate_tolerations(new, path, options)


def _scheduling_gates(new: Sequence[PodSchedulingGate], old: Sequence[PodSchedulingGate]) -> list[FieldError]:
    before = {gate.name for gate in old}
    return [
        forbidden(
            f"spec.schedulingGates[{index}]",
            f"only deletion is allowed, but found new scheduling gate '{gate.name}'",
        )
        for index, gate in enumerate(new)
        if gate.name not in before
    ]


def _with_images(new: Sequence[Container], old: Sequence[Container]) -> tuple[Container, ...]:
    return tuple(evolve(a, image=b.image) for a, b in zip(new, old, strict=True))


def _munged(new: PodSpec, old: PodSpec) -> PodSpec:
    """The new spec with everything that may change put back (API-160)."""
    grace, old_grace = new.termination_grace_period_seconds, old.termination_grace_period_seconds
    relaxed = old_grace is not None and old_grace < 0 and grace == 1
    selector = new.node_selector
    if old.scheduling_gates and all(selector.get(k) == v for k, v in old.node_selector.items()):
        selector = old.node_selector
    return evolve(
        new,
        containers=_with_images(new.containers, old.containers),
        init_containers=_with_images(new.init_containers, old.init_containers),
        active_deadline_seconds=old.active_deadline_seconds,
        tolerations=old.tolerations,
        scheduling_gates=old.scheduling_gates,
        termination_grace_period_seconds=old_grace if relaxed else grace,
        node_selector=selector,
    )


def validate_pod_update(
    new: Pod, old: Pod, *, gates: Gates | None = None, options: Options | None = None
) -> tuple[FieldError, ...]:
    """Every error of an update of the main resource (API-160 to API-163, RST-007). Both are defaulted."""
    chosen = options or options_for(gates, old.spec)
    errors = validate_meta_update(new.metadata, old.metadata)
    errors += validate_metadata_and_spec(new, chosen)
    errors += validate_mirror_annotation_update(new, old)
    for name, after, before in (
        ("containers", new.spec.containers, old.spec.containers),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        image_errors, stop = _images(after, before, f"spec.{name}")
        errors += image_errors
        if stop:
            return tuple(errors)
    deadline = _deadline(new.spec.active_deadline_seconds, old.spec.active_deadline_seconds)
    errors += deadline
    if deadline and new.spec.active_deadline_seconds is not None:
        return _unique(errors)
    errors += _tolerations(new.spec.tolerations, old.spec.tolerations, chosen)
    errors += _scheduling_gates(new.spec.scheduling_gates, old.spec.scheduling_gates)
    munged = _munged(new.spec, old.spec)
    if munged != old.spec:
        difference = _difference(munged, old.spec, "spec")
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{difference}"
        errors.append(forbidden("spec", text))
    return _unique(errors)


def _unique(errors: Sequence[FieldError]) -> tuple[FieldError, ...]:
    """Some checks run twice, once for the whole spec and once for what may change."""
    return tuple(dict.fromkeys(errors))


def validate_ephemeral_containers_update(
    new: Pod, old: Pod, *, gates: Gates | None = None, options: Options | None = None
) -> tuple[FieldError, ...]:
    """Every error of a write to the ``ephemeralcontainers`` subresource: append only (API-090 to API-092)."""
    errors = validate_meta_update(new.metadata, old.metadata)
    errors += validate_metadata_and_spec(new, options or options_for(gates, old.spec))
    errors += validate_mirror_annotation_update(new, old)
    if is_mirror(old):
        errors.append(forbidden("", "static pods do not support ephemeral containers"))
        return _unique(errors)
    path = "spec.ephemeralContainers"
    given: dict[str, EphemeralContainer] = {c.name: c for c in new.spec.ephemeral_containers}
    for container in old.spec.ephemeral_containers:
        known = given.get(container.name)
        name = go_quote(container.name)
        if known is None:
            errors.append(forbidden(path, f"existing ephemeral containers {name} may not be removed\n"))
        elif known != container:
            difference = _difference(known, container)
            text = f"existing ephemeral containers {name} may not be changed\n{difference}"
            errors.append(forbidden(path, text))
    return _unique(errors)


def _removed(new: Sequence[Container], old: Sequence[Container], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, (after, before) in enumerate(zip(new, old, strict=True)):
        place = f"{path}[{index}].resources"
        if before.resources.limits.keys() - after.resources.limits.keys():
            errors.append(forbidden(f"{place}.limits", "resource limits cannot be removed"))
        if before.resources.requests.keys() - after.resources.requests.keys():
            errors.append(forbidden(f"{place}.requests", "resource requests cannot be removed"))
    return errors


def _mutable_only(new: Sequence[Container], old: Sequence[Container]) -> tuple[Container, ...]:
    """The new containers with cpu and memory as before; claims are lost on the way, as in the server."""
    made: list[Container] = []
    for after, before in zip(new, old, strict=True):
        limits, requests = dict(after.resources.limits), dict(after.resources.requests)
        for name in ("cpu", "memory"):
            for now, then in ((limits, before.resources.limits), (requests, before.resources.requests)):
                now.pop(name, None)
                if name in then:
                    now[name] = then[name]
        resources = evolve(after.resources, limits=limits, requests=requests, claims=())
        made.append(evolve(after, resources=resources))
    return tuple(made)


def _same_names(new: PodSpec, old: PodSpec) -> bool:
    return [c.name for c in new.containers] == [c.name for c in old.containers] and [
        c.name for c in new.init_containers
    ] == [c.name for c in old.init_containers]


def _resized_restarting_init(new: PodSpec, old: PodSpec) -> bool:
    """Whether a plain init container that would have to restart for it is resized."""
    return any(
        before.restart_policy != "Always"
        and after.resources != before.resources
        and any(entry.restart_policy == "RestartContainer" for entry in before.resize_policy)
        for after, before in zip(new.init_containers, old.init_containers, strict=True)
    )


def validate_pod_resize(
    new: Pod, old: Pod, *, gates: Gates | None = None, options: Options | None = None
) -> tuple[FieldError, ...]:
    """Every error of a write to the ``resize`` subresource, after its silent reverts (API-168)."""
    errors = validate_meta_update(new.metadata, old.metadata)
    errors += validate_metadata_and_spec(new, options or options_for(gates, old.spec))
    if is_mirror(old):
        errors.append(forbidden("", "static pods cannot be resized"))
        return _unique(errors)
    running = next((s for s in old.status.container_statuses if s.state.running is not None), None)
    if running is not None and running.resources is None:
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if not _same_names(new.spec, old.spec):
        errors.append(forbidden("spec", "containers may not be renamed or reordered on resize"))
        return _unique(errors)
    if _resized_restarting_init(new.spec, old.spec):
        text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors.append(forbidden("spec", text))
    if qos_of_spec(new.spec) != (old.status.qos_class or qos_of_spec(old.spec)):
        text = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", qos_of_spec(new.spec), text))
    errors += _removed(new.spec.containers, old.spec.containers, "spec.containers")
    errors += _removed(new.spec.init_containers, old.spec.init_containers, "spec.initContainers")
    munged = evolve(
        new.spec,
        containers=_mutable_only(new.spec.containers, old.spec.containers),
        init_containers=_mutable_only(new.spec.init_containers, old.spec.init_containers),
        resources=old.spec.resources,
    )
    if munged != old.spec:
        difference = _difference(munged, old.spec, "spec")
        errors.append(forbidden("spec", f"only cpu and memory resources are mutable\n{difference}"))
    return _unique(errors)
