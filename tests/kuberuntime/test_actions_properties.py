"""What holds for the actions of any pod in any state (RST-033, RST-045 to RST-060, RST-130).

Pods and runtime states are drawn at random, so states that no known answer names are reached as well.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    ObjectMeta,
    Pod,
    PodSpec,
    Probe,
)
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.actions import compute_pod_actions
from kubelet_emu.kuberuntime.labels import container_hash
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.seams import ProbeKind, ProbeOutcome

POLICIES = st.sampled_from([None, "Always", "OnFailure", "Never"])
CODES = st.sampled_from([0, 1, 42, 137])
GATES = Gates()


class Drawn:
    def __init__(self, results):
        self.results = results

    def result(self, kind, container_id):
        return self.results.get((kind, container_id))


@st.composite
def containers(draw, prefix, least):
    made = []
    for number in range(draw(st.integers(least, 3))):
        policy = draw(POLICIES)
        rules = ()
        if policy is not None and draw(st.booleans()):
            codes = ContainerRestartRuleOnExitCodes(
                operator=draw(st.sampled_from(["In", "NotIn"])), values=(draw(CODES),)
            )
            action = draw(st.sampled_from(["Restart", "RestartAllContainers"]))
            rules = (ContainerRestartRule(action=action, exit_codes=codes),)
        probes = {}
        if draw(st.booleans()):
            probes = {"startup_probe": Probe(), "liveness_probe": Probe()}
        made.append(
            Container(
                name=f"{prefix}{number}",
                image="i",
                restart_policy=policy,
                restart_policy_rules=rules,
                **probes,
            )
        )
    return tuple(made)


@st.composite
def worlds(draw):
    """A pod, its runtime status and its probe results."""
    init, regular = draw(containers("init", 0)), draw(containers("main", 1))
    extra = (EphemeralContainer(name="debug", image="i"),) if draw(st.booleans()) else ()
    pod = Pod(
        metadata=ObjectMeta(
            name="p", namespace="n", uid="u", deletion_timestamp=draw(st.sampled_from([None, None, 1]))
        ),
        spec=PodSpec(
            init_containers=init,
            containers=regular,
            ephemeral_containers=extra,
            restart_policy=draw(POLICIES),
        ),
    )
    instances, results = [], {}
    for container in (*init, *regular, *extra):
        for number in range(draw(st.integers(0, 2))):
            ended = ContainerState.EXITED
            state = draw(st.sampled_from(list(ContainerState))) if number == 0 else ended
            container_id = f"{container.name}-{number}"
            instances.append(
                RuntimeContainer(
                    id=container_id,
                    name=container.name,
                    state=state,
                    exit_code=draw(CODES) if state is ended else 0,
                    hash=draw(st.sampled_from([container_hash(container), 1])),
                )
            )
            for kind in (ProbeKind.STARTUP, ProbeKind.LIVENESS):
                outcome = draw(st.sampled_from([None, *ProbeOutcome]))
                if outcome is not None:
                    results[kind, container_id] = outcome
    sandboxes = tuple(
        RuntimeSandbox(id=f"sb{n}", state=draw(st.sampled_from(list(SandboxState))), attempt=3 - n, ip="1")
        for n in range(draw(st.integers(0, 2)))
    )
    status = RuntimePodStatus(uid="u", containers=tuple(instances), sandboxes=sandboxes)
    return pod, status, Drawn(results)


def act(world, restart_all=False):
    pod, status, probes = world
    return compute_pod_actions(pod, status, probes, restart_all_containers=restart_all, gates=GATES)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_starts_and_kills_make_sense(world):
    pod, status, _ = world
    actions = act(world)
    init, regular = pod.spec.init_containers, pod.spec.containers
    plain = [i for i in actions.init_to_start if not is_sidecar(init[i])]
    assert len(plain) <= 1, "RST-050: plain init containers run one at a time"
    assert not (plain and actions.regular_to_start), "RST-050: no regular start beside a plain init start"
    for indices in (actions.init_to_start, actions.regular_to_start, actions.ephemeral_to_start):
        assert len(set(indices)) == len(indices), "nothing starts twice"
    assert list(actions.init_to_start) == sorted(actions.init_to_start), "RST-051: spec order"
    killed = [kill.container_id for kill in actions.to_kill]
    assert len(set(killed)) == len(killed), "nothing is killed twice"
    ended = {c.id for c in status.containers if c.state is ContainerState.EXITED}
    assert not ended & set(killed), "what has exited is not killed"
    dying = {kill.name for kill in actions.to_kill}
    for index in actions.regular_to_start:
        latest = status.latest(regular[index].name)
        alive = latest is not None and latest.state is ContainerState.RUNNING
        assert actions.create_sandbox or not alive or regular[index].name in dying, "no second instance"
    if actions.create_sandbox:
        assert actions.kill_pod, "a new sandbox means that the old one is killed"
    if actions.kill_pod and not actions.create_sandbox:
        started = (*actions.init_to_start, *actions.regular_to_start)
        assert started == (), "RST-060: nothing starts beside the kill"


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_a_restart_in_place_removes_everything_but_ephemerals_sources_last(world):
    pod, status, _ = world
    actions = act(world, restart_all=True)
    kept = {container.name for container in pod.spec.ephemeral_containers}
    listed = [entry.container_id for entry in actions.to_reset]
    assert sorted(listed) == sorted(c.id for c in status.containers if c.name not in kept)
    by_id = {c.id: c for c in status.containers}
    assert all(
        entry.kill == (by_id[entry.container_id].state is not ContainerState.EXITED)
        for entry in actions.to_reset
    )
    assert (*actions.init_to_start, *actions.regular_to_start, *actions.ephemeral_to_start) == ()
    assert actions.to_kill == ()


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_the_decision_depends_on_its_inputs_alone(world):
    assert act(world) == act(world)
    assert act(world).why[0].rule == "RST-030"


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_ephemeral_containers_never_change_what_happens_to_the_others(world):
    pod, status, probes = world
    plain = Pod(
        metadata=pod.metadata,
        spec=PodSpec(
            init_containers=pod.spec.init_containers,
            containers=pod.spec.containers,
            restart_policy=pod.spec.restart_policy,
        ),
    )
    ours, theirs = act(world), act((plain, status, probes))
    assert (ours.init_to_start, ours.regular_to_start, ours.to_kill, ours.kill_pod) == (
        theirs.init_to_start,
        theirs.regular_to_start,
        theirs.to_kill,
        theirs.kill_pod,
    )
