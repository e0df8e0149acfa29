"""Restart rules: known answers KA-R, KA-S, KA-F, KA-X (RST-020 to RST-029, RST-121 to RST-124)."""

import pytest

from kubelet_emu.api.types import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from kubelet_emu.container.runtime import ContainerState as RuntimeState
from kubelet_emu.container.runtime import RuntimeContainer, RuntimePodStatus
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime import restart_rules as rules

GATES = Gates()
NO_FULL = Gates({"RestartAllContainersOnContainerExits": False})
NO_RULES = Gates({"RestartAllContainersOnContainerExits": False, "ContainerRestartRules": False})


def rule(operator, *values, action="Restart"):
    return ContainerRestartRule(
        action=action, exit_codes=ContainerRestartRuleOnExitCodes(operator=operator, values=values)
    )


def full(operator, *values):
    return rule(operator, *values, action="RestartAllContainers")


def container(policy=None, *given, name="c"):
    return Container(name=name, image="busybox", restart_policy=policy, restart_policy_rules=given)


MATCHES = [
    pytest.param([rule("In", 42, 50, 60)], 42, 0, id="KA-R01"),
    pytest.param([rule("NotIn", 0, 1, 2)], 99, 0, id="KA-R02"),
    pytest.param([rule("In", 42, 50, 60), rule("In", 42)], 42, 0, id="KA-R03"),
    pytest.param([rule("In", 42, 50, 60)], 100, None, id="KA-R04-no-match"),
    pytest.param([], 0, None, id="KA-R04-no-rules"),
    pytest.param([rule("In")], 0, None, id="RST-020-in-empty"),
    pytest.param([rule("NotIn")], 0, 0, id="RST-020-notin-empty"),
    pytest.param([rule("Exactly", 1), rule("In", 1)], 1, 1, id="RST-020-unknown-operator"),
    pytest.param([ContainerRestartRule(action="Restart"), rule("In", 1)], 1, 1, id="RST-020-no-codes"),
]


@pytest.mark.parametrize(("given", "code", "index"), MATCHES)
def test_first_matching_rule(given, code, index):
    found = rules.find_matching_rule(given, code)
    assert found is (None if index is None else given[index])


RESTARTS = [
    pytest.param(container("Never", rule("In", 42, 50, 60)), "Never", 42, True, id="KA-R05"),
    pytest.param(container("Never", rule("NotIn", 0, 1, 2)), "Never", 99, True, id="KA-R06"),
    pytest.param(container("Never", full("In", 42, 50, 60)), "Never", 42, True, id="KA-R07"),
    pytest.param(container("Never", rule("In", 10, 20)), "Never", 30, False, id="KA-R08"),
    pytest.param(container("Never", rule("NotIn", 10, 20)), "Never", 10, False, id="KA-R09"),
    pytest.param(container("Always"), "Never", 0, True, id="KA-R10"),
    pytest.param(container("OnFailure"), "Never", 0, False, id="KA-R11-zero"),
    pytest.param(container("OnFailure"), "Never", 1, True, id="KA-R11-one"),
    pytest.param(container("Never"), "Always", 1, False, id="KA-R12"),
    pytest.param(container(), "Always", 0, True, id="KA-R13-always"),
    pytest.param(container(), "OnFailure", 1, True, id="KA-R13-onfailure"),
    pytest.param(container(), "Never", 1, False, id="KA-R13-never"),
    pytest.param(container(), None, 0, True, id="KA-R13-unset"),
]


@pytest.mark.parametrize(("subject", "pod_policy", "code", "expected"), RESTARTS)
def test_should_restart(subject, pod_policy, code, expected):
    verdict = rules.should_restart(subject, PodSpec(restart_policy=pod_policy), code, GATES)
    assert verdict.yes is expected
    assert verdict.why


def test_rst_022_full_rule_with_its_gate_off_falls_to_the_container_policy():
    subject = container("Never", full("In", 42), rule("In", 42))
    spec = PodSpec(restart_policy="Always")
    assert not rules.should_restart(subject, spec, 42, NO_FULL)
    assert rules.should_restart(subject, spec, 42, NO_RULES)


COULD = [
    pytest.param(container("Never", rule("In", 1)), "Never", True, id="KA-R14"),
    pytest.param(container("Always"), "Never", True, id="KA-R15-always"),
    pytest.param(container("OnFailure"), "Never", True, id="KA-R15-onfailure"),
    pytest.param(container("Never"), "Always", False, id="KA-R15-never"),
    pytest.param(container("Never", full("In", 1)), "Never", False, id="RST-025-full-rule-ignored"),
    pytest.param(container(), "Always", True, id="KA-R16-always"),
    pytest.param(container(), "OnFailure", True, id="KA-R16-onfailure"),
    pytest.param(container(), "Never", False, id="KA-R16-never"),
    pytest.param(container(), None, True, id="KA-R16-unset"),
]


@pytest.mark.parametrize(("subject", "pod_policy", "expected"), COULD)
def test_could_restart(subject, pod_policy, expected):
    assert rules.could_restart(subject, PodSpec(restart_policy=pod_policy), GATES).yes is expected


FULLY = [
    pytest.param(PodSpec(init_containers=(container("Never", full("In", 1)),)), True, id="KA-R17-init"),
    pytest.param(PodSpec(init_containers=(container("Always", full("In", 1)),)), True, id="KA-R17-sidecar"),
    pytest.param(PodSpec(containers=(container("Never", full("In", 1)),)), True, id="KA-R17-regular"),
    pytest.param(PodSpec(containers=(container("Never", rule("In", 1)),)), False, id="KA-R17-nowhere"),
]


@pytest.mark.parametrize(("spec", "expected"), FULLY)
def test_all_containers_could_restart(spec, expected):
    assert rules.all_containers_could_restart(spec) is expected


def instance(name, state, code=0, reason=""):
    return RuntimeContainer(id=f"{name}-{code}", name=name, state=state, exit_code=code, reason=reason)


LATEST = RuntimePodStatus(
    uid="u",
    containers=(
        instance("alive", RuntimeState.RUNNING),
        instance("succeed", RuntimeState.EXITED, 0),
        instance("failed", RuntimeState.EXITED, 1),
        instance("alive", RuntimeState.EXITED, 2),
        instance("unknown", RuntimeState.UNKNOWN),
        instance("failed", RuntimeState.EXITED, 3),
    ),
)
STARTS = [
    ("KA-S01", "no-instance", (True, True, True, False)),
    ("KA-S02", "alive", (False, False, False, False)),
    ("KA-S03", "succeed", (False, False, True, False)),
    ("KA-S04", "failed", (False, True, True, False)),
    ("KA-S05", "unknown", (True, True, True, False)),
]


@pytest.mark.parametrize(("name", "expected"), [pytest.param(*row[1:], id=row[0]) for row in STARTS])
def test_start_decision(name, expected):
    answers = [
        rules.should_container_be_restarted(
            Container(name=name), Pod(spec=PodSpec(restart_policy=policy)), LATEST, GATES
        ).yes
        for policy in ("Never", "OnFailure", "Always")
    ]
    deleted = Pod(metadata=ObjectMeta(deletion_timestamp=1), spec=PodSpec(restart_policy="Always"))
    answers.append(rules.should_container_be_restarted(Container(name=name), deleted, LATEST, GATES).yes)
    assert tuple(answers) == expected


def exited(name, code):
    return RuntimePodStatus(uid="u", containers=(instance(name, RuntimeState.EXITED, code),))


def api_terminated(name, code):
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code))
    return PodStatus(container_statuses=(ContainerStatus(name=name, state=state),))


RESTARTING = PodStatus(conditions=(PodCondition(type="AllContainersRestarting", status="True"),))
RUNNING = RuntimePodStatus(uid="u", containers=(instance("c", RuntimeState.RUNNING),))
N42 = container("Never", full("In", 42))
FULL_RESTARTS = [
    pytest.param(PodSpec(containers=(container(),)), RUNNING, RESTARTING, True, id="KA-F01"),
    pytest.param(PodSpec(containers=(N42,)), exited("c", 42), None, True, id="KA-F02"),
    pytest.param(PodSpec(init_containers=(N42,)), exited("c", 42), None, True, id="KA-F03"),
    pytest.param(
        PodSpec(init_containers=(container("Always", full("In", 42)),)),
        exited("c", 42),
        None,
        True,
        id="KA-F04",
    ),
    pytest.param(PodSpec(containers=(container(),)), exited("c", 1), None, False, id="KA-F05"),
    pytest.param(PodSpec(containers=(N42,)), RUNNING, api_terminated("c", 42), False, id="RST-122-running"),
    pytest.param(PodSpec(containers=(N42,)), exited("c", 0), api_terminated("c", 42), True, id="RST-121-api"),
    pytest.param(PodSpec(containers=(N42,)), None, api_terminated("c", 42), True, id="RST-122-prober"),
    pytest.param(PodSpec(containers=(N42,)), None, None, False, id="RST-121-nothing"),
    pytest.param(
        PodSpec(containers=(container("Never", rule("In", 42), full("In", 42)),)),
        exited("c", 42),
        None,
        False,
        id="RST-123-shadowed",
    ),
]


@pytest.mark.parametrize(("spec", "status", "old", "expected"), FULL_RESTARTS)
def test_should_all_containers_restart(spec, status, old, expected):
    assert rules.should_all_containers_restart(Pod(spec=spec), status, old).yes is expected


def test_rst_124_cleaned_up_looks_at_init_and_regular_only():
    pod = Pod(spec=PodSpec(containers=(container(),), init_containers=(container(name="i"),)))
    assert rules.all_containers_cleaned_up(pod, exited("debug", 0))
    assert not rules.all_containers_cleaned_up(pod, exited("i", 0))


INIT_FAILURES = [
    pytest.param(RuntimeState.EXITED, 1, "", True, id="KA-X01-code"),
    pytest.param(RuntimeState.UNKNOWN, 0, "", True, id="KA-X01-unknown"),
    pytest.param(RuntimeState.EXITED, 0, "OOMKilled", True, id="KA-X01-oom"),
    pytest.param(RuntimeState.EXITED, 0, "", False, id="KA-X02-ok"),
    pytest.param(RuntimeState.RUNNING, 0, "", False, id="KA-X02-running"),
    pytest.param(RuntimeState.CREATED, 0, "", False, id="KA-X02-created"),
]


@pytest.mark.parametrize(("state", "code", "reason", "expected"), INIT_FAILURES)
def test_init_failed(state, code, reason, expected):
    assert rules.init_failed(state, code, reason) is expected
