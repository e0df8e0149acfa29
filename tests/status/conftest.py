"""Builders for status tests: short notations of containers, statuses and runtime records."""

from types import SimpleNamespace

import pytest
from attrs import evolve

from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
)
from kubelet_emu.container.runtime import (
    ContainerState as Runtime,
)
from kubelet_emu.container.runtime import (
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)

RESTARTING = ContainerStateTerminated(
    reason="RestartingAllContainers",
    message="The container is removed because RestartAllContainers in place",
    exit_code=137,
)


def rule(action, *codes, operator="In"):
    return ContainerRestartRule(
        action=action, exit_codes=ContainerRestartRuleOnExitCodes(operator=operator, values=codes)
    )


def container(name, policy=None, *rules, **more):
    return Container(
        name=name, image=f"{name}-image", restart_policy=policy, restart_policy_rules=rules, **more
    )


def sidecar(name, *rules, **more):
    return container(name, "Always", *rules, **more)


def pod(policy="Always", containers=("A", "B"), init=(), *, status=None, deleted=False, meta=None, **spec):
    def made(entries):
        return tuple(container(entry) if isinstance(entry, str) else entry for entry in entries)

    metadata = ObjectMeta(
        name="pod",
        namespace="ns",
        uid="uid-1",
        generation=1,
        deletion_timestamp=1_800_000_000_000_000_000 if deleted else None,
    )
    return Pod(
        metadata=evolve(metadata, **(meta or {})),
        spec=PodSpec(restart_policy=policy, containers=made(containers), init_containers=made(init), **spec),
        status=status or PodStatus(phase="Pending"),
    )


def waiting(name, reason=None, message=None, *, last=None, **more):
    return ContainerStatus(
        name=name,
        state=ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message)),
        last_state=ContainerState(terminated=last),
        **more,
    )


def end(code, **more):
    return ContainerStateTerminated(exit_code=code, **more)


def waiting_last(name, code, **more):
    return waiting(name, last=end(code), **more)


def removed(name, **more):
    return waiting(name, RESTARTING.reason, RESTARTING.message, last=RESTARTING, **more)


def running(name, **more):
    return ContainerStatus(name=name, state=ContainerState(running=ContainerStateRunning()), **more)


def terminated(name, code, *, reason=None, **more):
    return ContainerStatus(
        name=name,
        state=ContainerState(terminated=ContainerStateTerminated(exit_code=code, reason=reason)),
        **more,
    )


def record(name, state="running", code=0, *, count=0, at=1, sandbox="sb-0", **more):
    return RuntimeContainer(
        id=more.pop("id", f"{name}-{at}"),
        name=name,
        state=Runtime(state),
        exit_code=code,
        restart_count=count,
        created_at_ns=at,
        sandbox_id=sandbox,
        **more,
    )


def runtime(*records, sandboxes=None, ips=()):
    if sandboxes is None:
        sandboxes = (RuntimeSandbox(id="sb-0", state=SandboxState.READY, ip="10.0.0.1"),)
    return RuntimePodStatus(uid="uid-1", containers=records, sandboxes=tuple(sandboxes), ips=ips)


@pytest.fixture
def make():
    """All builders of this file by their names."""
    return SimpleNamespace(
        container=container,
        end=end,
        pod=pod,
        record=record,
        removed=removed,
        restarting=RESTARTING,
        rule=rule,
        running=running,
        runtime=runtime,
        sidecar=sidecar,
        terminated=terminated,
        waiting=waiting,
        waiting_last=waiting_last,
    )
