"""What the API server does to a pod around validation: gated fields, status, generation, warnings. (pure)

Mirrors ``pkg/registry/core/pod/strategy.go`` and ``pkg/api/pod/warnings.go``. API-030 to API-036, API-220.
"""

from collections.abc import Sequence

from attrs import evolve

from kubelet_emu.api.names import label_problems
from kubelet_emu.api.qos import qos_of_spec
from kubelet_emu.api.types import Container, Pod, PodCondition, PodSpec, PodStatus
from kubelet_emu.api.validation.options import restart_rules_in_use
from kubelet_emu.gates import Gates

__all__ = [
    "drop_disabled_fields",
    "prepare_for_create",
    "prepare_for_status_update",
    "prepare_for_update",
    "warnings_of",
]


def _without_rules(container: Container, *, keep_policy: bool) -> Container:
    policy = container.restart_policy if keep_policy else None
    if not container.restart_policy_rules and policy == container.restart_policy:
        return container
    return evolve(container, restart_policy=policy, restart_policy_rules=())


def _drop_restart_rules(spec: PodSpec) -> PodSpec:
    """API-033: only the policy Always of a sidecar survives."""
    return evolve(
        spec,
        containers=tuple(_without_rules(c, keep_policy=False) for c in spec.containers),
        init_containers=tuple(
            _without_rules(c, keep_policy=c.restart_policy == "Always") for c in spec.init_containers
        ),
        ephemeral_containers=tuple(
            evolve(c, restart_policy=None, restart_policy_rules=()) for c in spec.ephemeral_containers
        ),
    )


def _uses_stop_signal(spec: PodSpec) -> bool:
    return any(
        c.lifecycle is not None and c.lifecycle.stop_signal is not None
        for c in (*spec.containers, *spec.init_containers)
    )


def _without_stop_signal(containers: Sequence[Container]) -> tuple[Container, ...]:
    return tuple(
        evolve(c, lifecycle=evolve(c.lifecycle, stop_signal=None)) if c.lifecycle is not None else c
        for c in containers
    )


def drop_disabled_fields(spec: PodSpec, gates: Gates, stored: PodSpec | None = None) -> PodSpec:
    """The spec without fields whose gate is off and that the stored spec does not use (API-033, API-035)."""
    if not gates.restart_rules and not (stored is not None and restart_rules_in_use(stored)):
        spec = _drop_restart_rules(spec)
    stop_signal_stored = stored is not None and _uses_stop_signal(stored)
    if _uses_stop_signal(spec) and not gates.enabled("ContainerStopSignals") and not stop_signal_stored:
        spec = evolve(
            spec,
            containers=_without_stop_signal(spec.containers),
            init_containers=_without_stop_signal(spec.init_containers),
        )
    if spec.scheduling_group is not None and (stored is None or stored.scheduling_group is None):
        spec = evolve(spec, scheduling_group=None)
    return spec


def prepare_for_create(pod: Pod, gates: Gates) -> Pod:
    """A defaulted pod as it is validated and stored: fresh status, generation 1 (API-030)."""
    conditions: tuple[PodCondition, ...] = ()
    if pod.spec.scheduling_gates:
        conditions = (
            PodCondition(
                type="PodScheduled",
                status="False",
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            ),
        )
    spec = drop_disabled_fields(pod.spec, gates)
    status = PodStatus(phase="Pending", qos_class=qos_of_spec(spec), conditions=conditions)
    return evolve(pod, spec=spec, status=status, metadata=evolve(pod.metadata, generation=1))


def prepare_for_update(new: Pod, old: Pod, gates: Gates) -> Pod:
    """For the main resource, ``ephemeralcontainers`` and ``resize``: stored status, generation (API-031)."""
    spec = drop_disabled_fields(new.spec, gates, old.spec)
    generation = old.metadata.generation or 0
    if spec != old.spec:
        generation += 1
    metadata = evolve(new.metadata, generation=generation or None)
    return evolve(new, spec=spec, status=old.status, metadata=metadata)


def prepare_for_status_update(new: Pod, old: Pod) -> Pod:
    """For the ``status`` subresource: everything but the status is the stored one (API-032)."""
    status = new.status
    if not status.qos_class:
        status = evolve(status, qos_class=old.status.qos_class)
    if not status.observed_generation:
        status = evolve(status, observed_generation=old.status.observed_generation)
    metadata = evolve(
        new.metadata,
        owner_references=old.metadata.owner_references,
        deletion_timestamp=old.metadata.deletion_timestamp,
        generation=old.metadata.generation,
    )
    return evolve(new, spec=old.spec, status=status, metadata=metadata)


def _env_warnings(container: Container, path: str) -> list[str]:
    seen: set[str] = set()
    warnings: list[str] = []
    for index, variable in enumerate(container.env):
        if variable.name in seen:
            text = f'hides previous definition of "{variable.name}", which may be dropped when using apply'
            warnings.append(f"{path}.env[{index}]: {text}")
        seen.add(variable.name)
    return warnings


def _port_warnings(container: Container, path: str) -> list[str]:
    seen: dict[tuple[str, int], int] = {}
    warnings: list[str] = []
    for index, port in enumerate(container.ports):
        key = (port.protocol or "TCP", port.container_port)
        if key in seen and not port.host_port:
            first = f"{path}.ports[{seen[key]}]"
            warnings.append(f"{path}.ports[{index}]: duplicate port definition with {first}")
        seen.setdefault(key, index)
    return warnings


def warnings_of(pod: Pod, *, negative_grace_period: bool = False) -> tuple[str, ...]:
    """What is legal but looks like a mistake; sent on create (API-036).

    ``negative_grace_period`` tells that the posted object had one: decoding has replaced it (API-006).
    """
    warnings: list[str] = []
    problems = label_problems(pod.metadata.name)
    if pod.metadata.name and problems:
        shown = " ".join(problems)
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{shown}]"
        )
    if negative_grace_period:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"spec.terminationGracePeriodSeconds: {text}")
    for kind, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for index, container in enumerate(containers):
            path = f"spec.{kind}[{index}]"
            warnings += _env_warnings(container, path)
            warnings += _port_warnings(container, path)
    return tuple(warnings)
