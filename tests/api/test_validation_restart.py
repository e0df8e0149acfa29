"""Restart policies and rules: known answers K1 to K23 of API-220 ff. and KA-V01 to KA-V07."""

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.api.defaults import default_pod_spec
from kubelet_emu.api.restart_rules import (
    all_containers_could_restart,
    container_should_restart,
    is_container_restartable,
    matching_rule,
)
from kubelet_emu.api.strategy import drop_disabled_fields
from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    EphemeralContainer,
    Pod,
    PodSpec,
    PodStatus,
)
from kubelet_emu.api.validation import Options, validate_pod_create, validate_pod_status_update
from kubelet_emu.api.validation.containers import Surroundings, validate_containers
from kubelet_emu.gates import Gates

R_ONLY = Options(restart_rules=True, restart_all=False)
R_AND_A = Options(restart_rules=True, restart_all=True)
NEITHER = Options(restart_rules=False, restart_all=False)
GATES_OFF = Gates({"ContainerRestartRules": False, "RestartAllContainersOnContainerExits": False})


def rule(action="Restart", operator="In", values=(42,)):
    codes = ContainerRestartRuleOnExitCodes(operator=operator, values=tuple(values))
    return ContainerRestartRule(action=action, exit_codes=codes)


RESTART_42 = rule()
ALL_42 = rule("RestartAllContainers")
ALL_1 = rule("RestartAllContainers", values=(1,))


def found(kind, policy, rules, options):
    """Errors of one container of that kind as (path below the container, kind)."""
    spec = PodSpec(containers=(Container(name="main", image="a:1"),))
    fields = {"name": "c", "image": "a:1", "restart_policy": policy, "restart_policy_rules": tuple(rules)}
    if kind == "regular":
        spec = evolve(spec, containers=(Container(**fields),))
    elif kind == "init":
        spec = evolve(spec, init_containers=(Container(**fields),))
    else:
        spec = evolve(spec, ephemeral_containers=(EphemeralContainer(**fields),))
    spec = default_pod_spec(spec)
    errors = validate_containers(Surroundings(spec, {}, (), options))
    return [(error.path.partition("].")[2], error.kind.name) for error in errors]


ACTION = "restartPolicyRules[0].action"
OPERATOR = "restartPolicyRules[0].exitCodes.operator"
NO_CODES = ContainerRestartRule(action="Restart")


@pytest.mark.parametrize(
    ("kind", "options", "policy", "rules", "expected"),
    [
        pytest.param("regular", R_ONLY, None, [], [], id="K1"),
        pytest.param("regular", R_ONLY, "Always", [], [], id="K2-Always"),
        pytest.param("regular", R_ONLY, "Never", [], [], id="K2-Never"),
        pytest.param("regular", R_ONLY, "OnFailure", [], [], id="K2-OnFailure"),
        pytest.param("regular", R_ONLY, "Never", [RESTART_42], [], id="K3"),
        pytest.param("regular", R_AND_A, "Never", [ALL_42], [], id="K4-KA-V01"),
        pytest.param("regular", R_ONLY, "Never", [ALL_42], [(ACTION, "NOT_SUPPORTED")], id="K5"),
        pytest.param("regular", R_ONLY, "invalid", [], [("restartPolicy", "NOT_SUPPORTED")], id="K6-KA-V02"),
        pytest.param("regular", R_ONLY, "", [], [("restartPolicy", "NOT_SUPPORTED")], id="K7"),
        pytest.param("regular", R_ONLY, None, [RESTART_42], [("restartPolicy", "REQUIRED")], id="K8-KA-V03"),
        pytest.param(
            "regular", R_ONLY, "Never", [rule("invalid")], [(ACTION, "NOT_SUPPORTED")], id="K9-invalid"
        ),
        pytest.param("regular", R_ONLY, "Never", [rule("")], [(ACTION, "NOT_SUPPORTED")], id="K9-empty"),
        pytest.param(
            "regular",
            R_ONLY,
            "Never",
            [NO_CODES],
            [("restartPolicyRules[0].exitCodes", "REQUIRED")],
            id="K10",
        ),
        pytest.param(
            "regular",
            R_ONLY,
            "Never",
            [rule(operator="invalid")],
            [(OPERATOR, "NOT_SUPPORTED")],
            id="K11-invalid",
        ),
        pytest.param(
            "regular", R_ONLY, "Never", [rule(operator="")], [(OPERATOR, "NOT_SUPPORTED")], id="K11-empty"
        ),
        pytest.param(
            "regular",
            R_ONLY,
            "Never",
            [rule(values=[0] * 256)],
            [("restartPolicyRules[0].exitCodes.values", "TOO_MANY")],
            id="K12-KA-V04",
        ),
        pytest.param(
            "regular",
            R_ONLY,
            "Never",
            [RESTART_42] * 21,
            [("restartPolicyRules", "TOO_MANY")],
            id="K13-KA-V04",
        ),
        pytest.param("init", R_ONLY, "Always", [], [], id="K14"),
        pytest.param("init", R_AND_A, "Always", [ALL_1], [], id="K15-KA-V05"),
        pytest.param(
            "init", R_ONLY, "Always", [ALL_1], [("restartPolicyRules", "FORBIDDEN")], id="K16-KA-V05"
        ),
        pytest.param("init", R_AND_A, None, [ALL_1], [("restartPolicy", "REQUIRED")], id="K17"),
        *[
            pytest.param(
                "init",
                NEITHER,
                policy,
                [],
                [("restartPolicy", "NOT_SUPPORTED")],
                id=f"K18-{policy or 'empty'}",
            )
            for policy in ("OnFailure", "Never", "", "foo")
        ],
        pytest.param("init", R_ONLY, "OnFailure", [], [], id="K19-OnFailure"),
        pytest.param("init", R_ONLY, "Never", [RESTART_42], [], id="K19-Never"),
        pytest.param("ephemeral", R_AND_A, "Always", [], [("restartPolicy", "FORBIDDEN")], id="K20"),
        pytest.param(
            "ephemeral", R_AND_A, None, [RESTART_42], [("restartPolicyRules", "FORBIDDEN")], id="K21"
        ),
        pytest.param(
            "regular",
            R_AND_A,
            "OnFailure",
            [rule(values=()), rule(operator="NotIn", values=())],
            [],
            id="K22",
        ),
        pytest.param("regular", R_AND_A, "Never", [rule("RestartAllContainers", values=(0,))], [], id="K23"),
        pytest.param(
            "regular", NEITHER, "Never", [rule("x")], [("restartPolicy", "FORBIDDEN")], id="API-100-off"
        ),
        pytest.param("regular", NEITHER, None, [rule("x")], [], id="API-100-off-nil"),
        pytest.param("init", NEITHER, "Always", [rule("x")], [], id="API-100-init-off"),
        pytest.param(
            "init",
            R_AND_A,
            "foo",
            [rule("x")],
            [("restartPolicy", "NOT_SUPPORTED"), (ACTION, "NOT_SUPPORTED")],
            id="API-100-init-other",
        ),
        pytest.param(
            "regular",
            R_AND_A,
            None,
            [rule("x")],
            [("restartPolicy", "REQUIRED"), (ACTION, "NOT_SUPPORTED")],
            id="API-100-rules-still-checked",
        ),
    ],
)
def test_policy_and_rules(kind, options, policy, rules, expected):
    assert found(kind, policy, rules, options) == expected


def test_texts_api_100_101(a_container, texts):
    pod = a_container(restartPolicyRules=[{"action": "x", "exitCodes": {"operator": "", "values": [1]}}] * 21)
    place = "spec.containers[0].restartPolicyRules"
    assert texts(validate_pod_create(pod))[:4] == [
        "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart "
        "rules are used",
        f"{place}: Too many: 21: must have at most 20 items",
        f'{place}[0].action: Unsupported value: "x": supported values: "Restart", "RestartAllContainers"',
        f'{place}[0].exitCodes.operator: Unsupported value: "": supported values: "In", "NotIn"',
    ]
    pod = a_container(restartPolicy="x")
    assert texts(validate_pod_create(pod)) == [
        'spec.containers[0].restartPolicy: Unsupported value: "x": supported values: "Always", "Never", '
        '"OnFailure"'
    ]


@pytest.mark.parametrize(
    ("kind", "policy", "rules", "expected"),
    [
        pytest.param("regular", "Never", [RESTART_42], (None, 0), id="API-220-regular"),
        pytest.param("init", "Always", [RESTART_42], ("Always", 0), id="API-220-sidecar"),
        pytest.param("init", "OnFailure", [], (None, 0), id="API-220-init"),
        pytest.param("ephemeral", "Never", [RESTART_42], (None, 0), id="API-220-ephemeral"),
    ],
)
def test_fields_are_dropped_with_the_gate_off(kind, policy, rules, expected):
    fields = {"name": "c", "restart_policy": policy, "restart_policy_rules": tuple(rules)}
    spec = PodSpec(
        containers=(Container(**fields),) if kind == "regular" else (),
        init_containers=(Container(**fields),) if kind == "init" else (),
        ephemeral_containers=(EphemeralContainer(**fields),) if kind == "ephemeral" else (),
    )
    kept = drop_disabled_fields(spec, GATES_OFF)
    container = (*kept.containers, *kept.init_containers, *kept.ephemeral_containers)[0]
    assert (container.restart_policy, len(container.restart_policy_rules)) == expected
    assert drop_disabled_fields(spec, Gates()) == spec


def test_nothing_is_dropped_when_the_stored_pod_uses_it_api_220():
    spec = PodSpec(
        containers=(Container(name="c", restart_policy="Never", restart_policy_rules=(RESTART_42,)),)
    )
    assert drop_disabled_fields(spec, GATES_OFF, spec) == spec


def decide(policy, rules, code, *, pod_policy="Never", restart_all=True):
    container = Container(name="c", restart_policy=policy, restart_policy_rules=tuple(rules))
    return container_should_restart(container, pod_policy, code, restart_all=restart_all)


@pytest.mark.parametrize(
    ("policy", "rules", "code", "pod_policy", "restart_all", "expected"),
    [
        pytest.param(None, [RESTART_42], 42, "Never", True, False, id="API-222-nil-Never"),
        pytest.param(None, [], 0, "Always", True, True, id="API-222-nil-Always"),
        pytest.param(None, [], 0, "OnFailure", True, False, id="API-222-nil-OnFailure-0"),
        pytest.param(None, [], 1, "OnFailure", True, True, id="API-222-nil-OnFailure-1"),
        pytest.param(None, [], 0, "foo", True, True, id="API-105-unknown-pod-policy"),
        pytest.param("Always", [], 0, "Never", True, True, id="API-222-Always"),
        pytest.param("OnFailure", [], 0, "Always", True, False, id="API-222-OnFailure-0"),
        pytest.param("OnFailure", [], 3, "Never", True, True, id="API-222-OnFailure-3"),
        pytest.param("Never", [], 3, "Always", True, False, id="API-222-Never"),
        pytest.param("Never", [rule(values=(0,))], 0, "Never", True, True, id="API-222-Restart-0"),
        pytest.param("Never", [ALL_42], 42, "Never", True, True, id="API-222-all"),
        pytest.param("Never", [ALL_42, RESTART_42], 42, "Never", False, False, id="API-222-all-off"),
        pytest.param(
            "Never",
            [rule(values=(1,)), rule("RestartAllContainers", "NotIn", (1,))],
            1,
            "Never",
            True,
            True,
            id="API-222-order",
        ),
        pytest.param("Never", [rule(operator="x")], 42, "Never", True, False, id="API-105-unknown-operator"),
        pytest.param("Never", [rule(values=())], 42, "Never", True, False, id="K22-In-nothing"),
        pytest.param(
            "Never", [rule(operator="NotIn", values=())], 42, "Never", True, True, id="K22-NotIn-nothing"
        ),
    ],
)
def test_decision(policy, rules, code, pod_policy, restart_all, expected):
    assert decide(policy, rules, code, pod_policy=pod_policy, restart_all=restart_all) is expected


def test_first_rule_with_exit_codes_matches_api_105():
    container = Container(restart_policy="Never", restart_policy_rules=(NO_CODES, ALL_42, RESTART_42))
    assert matching_rule(container, 42) is ALL_42
    assert matching_rule(container, 1) is None
    assert matching_rule(evolve(container, restart_policy=None), 42) is None


def test_could_restart_api_106():
    assert is_container_restartable(
        Container(restart_policy="Never", restart_policy_rules=(RESTART_42,)), "Never"
    )
    assert not is_container_restartable(
        Container(restart_policy="Never", restart_policy_rules=(ALL_42,)), "Always"
    )
    assert is_container_restartable(Container(), "OnFailure")
    assert not is_container_restartable(Container(), "Never")
    ruled = Container(restart_policy="Never", restart_policy_rules=(ALL_42,))
    assert all_containers_could_restart(PodSpec(init_containers=(ruled,)))
    assert not all_containers_could_restart(PodSpec(containers=(Container(),)))


def transition(pod_policy, containers, code, options, *, kind="container_statuses", name="c1"):
    spec = PodSpec(restart_policy=pod_policy, containers=tuple(containers))

    def status(state):
        return PodStatus(**{kind: (ContainerStatus(name=name, state=state),)})

    old_state = ContainerState(terminated=ContainerStateTerminated(exit_code=code))
    if code is None:
        old_state = ContainerState(running=ContainerStateRunning())
    old = Pod(spec=spec, status=status(old_state))
    new = evolve(old, status=status(ContainerState(running=ContainerStateRunning())))
    errors = validate_pod_status_update(new, old, options=options)
    return [error.text for error in errors if "resourceVersion" not in error.path]


REFUSED = ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"]


def c1(policy=None, *rules):
    return Container(name="c1", restart_policy=policy, restart_policy_rules=rules)


RULED = Container(name="c2", restart_policy="Never", restart_policy_rules=(ALL_42,))


@pytest.mark.parametrize(
    ("pod_policy", "containers", "code", "options", "expected"),
    [
        pytest.param("Never", [c1("Never")], None, R_AND_A, [], id="API-221-running"),
        pytest.param("Always", [c1()], 0, R_AND_A, [], id="API-221-Always-KA-V06"),
        pytest.param("OnFailure", [c1()], 1, R_AND_A, [], id="API-221-OnFailure-1-KA-V06"),
        pytest.param("OnFailure", [c1()], 0, R_AND_A, REFUSED, id="API-221-OnFailure-0-KA-V07"),
        pytest.param("Never", [c1()], 0, R_AND_A, REFUSED, id="API-221-Never-KA-V07"),
        pytest.param("Never", [c1("Always")], 0, R_AND_A, [], id="API-221-own-Always-KA-V06"),
        pytest.param("Always", [c1("Never")], 0, R_AND_A, REFUSED, id="API-221-own-Never-KA-V07"),
        pytest.param("Never", [c1("Never", RESTART_42)], 42, R_AND_A, [], id="API-221-rule-42-KA-V06"),
        pytest.param("Never", [c1("Never", RESTART_42)], 1, R_AND_A, REFUSED, id="API-221-rule-1-KA-V07"),
        pytest.param("Never", [c1("Never", ALL_42)], 1, R_AND_A, [], id="API-221-all-1-KA-V06"),
        pytest.param("Never", [c1("Never"), RULED], 1, R_AND_A, [], id="API-221-other-container"),
        pytest.param("Never", [c1("Never", ALL_42)], 42, R_ONLY, REFUSED, id="API-221-all-off"),
        pytest.param("Always", [], 0, R_AND_A, REFUSED, id="API-165-missing-container"),
        pytest.param("Never", [c1("Always")], 1, NEITHER, REFUSED, id="API-165-gate-off"),
        pytest.param("OnFailure", [c1()], 1, NEITHER, [], id="API-165-gate-off-OnFailure"),
    ],
)
def test_transition(pod_policy, containers, code, options, expected):
    assert transition(pod_policy, containers, code, options) == expected


def test_ephemeral_containers_never_restart_api_165():
    errors = transition("Always", [RULED], 1, R_AND_A, kind="ephemeral_container_statuses")
    assert errors == [
        "status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to "
        "non-terminated state"
    ]


def test_sidecar_may_restart_with_gates_off_api_165():
    sidecar = Container(name="c1", restart_policy="Always")
    spec = PodSpec(restart_policy="Never", init_containers=(sidecar,))
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=0))
    old = Pod(spec=spec, status=PodStatus(init_container_statuses=(ContainerStatus(name="c1", state=ended),)))
    new = evolve(old, status=PodStatus(init_container_statuses=(ContainerStatus(name="c1"),)))
    assert [e.path for e in validate_pod_status_update(new, old, options=NEITHER)] == [
        "metadata.resourceVersion"
    ]


policies = st.sampled_from([None, "Always", "OnFailure", "Never"])
rules = st.lists(
    st.builds(
        rule,
        st.sampled_from(["Restart", "RestartAllContainers"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.integers(0, 3), max_size=2),
    ),
    max_size=3,
)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(["Always", "OnFailure", "Never"]), policies, rules, st.integers(0, 3), st.booleans())
def test_a_kubelet_that_follows_the_rule_is_never_refused_api_253(
    pod_policy, policy, own_rules, code, restart_all
):
    options = R_AND_A if restart_all else R_ONLY
    container = c1(policy, *(own_rules if policy else ()))
    restarts = container_should_restart(container, pod_policy, code, restart_all=restart_all)
    errors = transition(pod_policy, [container], code, options)
    anything_goes = restart_all and any(
        r.action == "RestartAllContainers" for r in container.restart_policy_rules
    )
    assert errors == ([] if restarts or anything_goes else REFUSED)
