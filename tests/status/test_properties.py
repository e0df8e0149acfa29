"""What no sequence of observations may break: STA-611, STA-301, and the way through JSON and back."""

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.codec import status_from_json, status_to_json
from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ObjectMeta,
    Pod,
    PodCondition,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
)
from kubelet_emu.apiserver.patch import strategic_merge_patch
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.gates import Gates
from kubelet_emu.prober.readiness import ProbeInput, fill_started_and_ready
from kubelet_emu.prober.results import Results
from kubelet_emu.status.generate import StatusInput, generate_status
from kubelet_emu.status.normalize import equal_by_kubelet
from kubelet_emu.status.patch import status_patch
from kubelet_emu.status.update import accept_update

SECOND = 1_000_000_000
RULE = ContainerRestartRule(
    action="RestartAllContainers", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
)
NAMES = ("init", "side", "a", "b")
GATES = Gates()


def a_pod(policy, with_rule):
    source = Container(name="b", image="i", restart_policy="Never", restart_policy_rules=(RULE,))
    return Pod(
        metadata=ObjectMeta(name="p", namespace="n", uid="u", generation=1),
        spec=PodSpec(
            restart_policy=policy,
            init_containers=(
                Container(name="init", image="i"),
                Container(name="side", image="i", restart_policy="Always"),
            ),
            containers=(
                source if with_rule else Container(name="b", image="i"),
                Container(name="a", image="i"),
            ),
        ),
    )


records = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(list(ContainerState)),
        st.sampled_from([0, 1, 42, 137]),
        st.integers(0, 3),
    ),
    max_size=6,
)
observations = st.lists(
    st.tuples(records, st.sampled_from([SandboxState.READY, SandboxState.NOT_READY, None])),
    min_size=1,
    max_size=6,
)


def observed(step, seen):
    entries, sandbox = seen
    containers = tuple(
        RuntimeContainer(
            id=f"{name}-{step}-{place}",
            name=name,
            state=state,
            exit_code=code,
            restart_count=count,
            created_at_ns=len(entries) - place,
            started_at_ns=SECOND,
            sandbox_id="s",
        )
        for place, (name, state, code, count) in enumerate(entries)
    )
    sandboxes = () if sandbox is None else (RuntimeSandbox(id="s", state=sandbox, ip="10.0.0.1"),)
    return RuntimePodStatus(uid="u", containers=containers, sandboxes=sandboxes, ips=("10.0.0.1",))


def fill(pod, status):
    view = ProbeInput(
        results=Results(lambda _update: None), has_worker=lambda *_: False, kubelet_start_ns=0, gates=GATES
    )
    return fill_started_and_ready(view, pod, status).status


def counts(status):
    return {s.name: s.restart_count for s in (*status.init_container_statuses, *status.container_statuses)}


def is_true(status, name):
    return any(c.type == name and c.status == "True" for c in status.conditions)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["Always", "OnFailure", "Never"]), st.booleans(), observations)
def test_sta_611_what_never_goes_back(policy, with_rule, seen):
    pod = a_pod(policy, with_rule)
    cached, api = None, status_to_json(PodStatus())
    for step, one in enumerate(seen):
        before = cached.status if cached is not None else PodStatus()
        generated = generate_status(
            StatusInput(
                pod=pod,
                runtime=observed(step, one),
                gates=GATES,
                old=cached.status if cached is not None else None,
                fill_probes=fill,
            )
        )
        status = generated.status
        assert [s.name for s in status.container_statuses] == ["a", "b"]
        assert [s.name for s in status.init_container_statuses] == ["init", "side"]
        assert all(counts(status)[name] >= count for name, count in counts(before).items())
        assert is_true(status, "Initialized") or not is_true(before, "Initialized")
        if before.phase in ("Failed", "Succeeded"):
            assert status.phase in ("Failed", "Succeeded")
        if generated.restart_all_containers:
            assert with_rule
        update = accept_update(
            pod,
            status,
            cached=cached,
            mirror=None,
            forced=False,
            finished=False,
            now_ns=step * SECOND,
            gates=GATES,
        )
        assert update.why
        if update.stored is None:
            continue
        cached = update.stored
        assert status_from_json(status_to_json(cached.status)) == cached.status
        assert equal_by_kubelet(cached.status, status_from_json(status_to_json(cached.status)))
        wanted = status_to_json(cached.status)
        patch = status_patch("u", api, wanted)
        api = strategic_merge_patch({"status": api}, {"status": patch.get("status", {})})["status"]
        assert status_from_json(api) == cached.status


def test_sta_604_what_is_compared():
    ready = PodCondition(type="Ready", status="True", reason="r", last_transition_time=1)
    foreign = PodCondition(type="example.com/x", status="True")
    status = PodStatus(phase="Running", conditions=(ready, foreign))
    same = (evolve(ready, last_transition_time=2, observed_generation=9), evolve(foreign, status="False"))
    claims = (PodResourceClaimStatus(name="c"),)
    assert equal_by_kubelet(status, evolve(status, conditions=same, resource_claim_statuses=claims))
    for change in ({"status": "False"}, {"reason": "q"}, {"message": "m"}, {"type": "Initialized"}):
        assert not equal_by_kubelet(status, evolve(status, conditions=(evolve(ready, **change),)))
    assert not equal_by_kubelet(status, evolve(status, phase="Pending"))
