"""What a sync does: known answers KA-C, KA-CR, KA-I, KA-SC, KA-E, KA-RA (RST section 3 and 4, RST-130)."""

import attrs
import pytest

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    Container,
    ContainerResizePolicy,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    ObjectMeta,
    Pod,
    PodSpec,
    Probe,
    ResourceRequirements,
)
from kubelet_emu.container.runtime import (
    ContainerState,
    RuntimeContainer,
    RuntimePodStatus,
    RuntimeSandbox,
    SandboxState,
)
from kubelet_emu.gates import Gates
from kubelet_emu.kuberuntime.actions import ActuatedView, compute_pod_actions, decide_sandbox
from kubelet_emu.kuberuntime.labels import container_hash
from kubelet_emu.seams import ProbeKind, ProbeOutcome

FAILURE, SUCCESS, UNKNOWN = ProbeOutcome.FAILURE, ProbeOutcome.SUCCESS, ProbeOutcome.UNKNOWN
LIVENESS, STARTUP = ProbeKind.LIVENESS, ProbeKind.STARTUP


class Results:
    """Probe results by kind and container id."""

    def __init__(self, results):
        self.results = results

    def result(self, kind, container_id):
        return self.results.get((kind, container_id))


SOURCE_RULE = ContainerRestartRule(
    action="RestartAllContainers",
    exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(1,)),
)


class World:
    """A pod and what the runtime shows of it; each case changes a few things and asks for the actions."""

    def __init__(self, *, regular=(), init=(), ephemeral=(), policy=None):
        self.regular = list(regular)
        self.init = list(init)
        self.ephemeral = list(ephemeral)
        self.policy = policy
        self.instances = []
        self.sandboxes = [RuntimeSandbox(id="sb", state=SandboxState.READY, attempt=0, ip="10.0.0.1")]
        self.probes = {}
        self.actuated = ActuatedView()
        self.gates = Gates()

    def spec(self, name):
        return next(c for c in (*self.regular, *self.init, *self.ephemeral) if c.name == name)

    def change(self, name, **changes):
        for group in (self.regular, self.init, self.ephemeral):
            group[:] = [attrs.evolve(c, **changes) if c.name == name else c for c in group]

    def show(self, name, state=ContainerState.RUNNING, code=0, *, reason="", suffix=""):
        self.instances.append(
            RuntimeContainer(
                id=f"id-{name}{suffix}",
                name=name,
                state=state,
                exit_code=code,
                reason=reason,
                hash=container_hash(self.spec(name)),
                sandbox_id="sb",
            )
        )

    def put(self, name, state, code=0, **changes):
        """Change the existing instance of that name, or show one."""
        if not any(i.name == name for i in self.instances):
            self.show(name, state, code)
        self.instances = [
            attrs.evolve(i, state=state, exit_code=code, **changes) if i.name == name else i
            for i in self.instances
        ]

    def only(self, *names):
        self.instances = [i for i in self.instances if i.name in names]

    def sandbox(self, **changes):
        self.sandboxes[0] = attrs.evolve(self.sandboxes[0], **changes)

    def dead_sandbox(self, attempt=0):
        self.sandbox(state=SandboxState.NOT_READY, attempt=attempt)

    def act(self, restart_all=False):
        pod = Pod(
            metadata=ObjectMeta(name="p", namespace="n", uid="u"),
            spec=PodSpec(
                containers=tuple(self.regular),
                init_containers=tuple(self.init),
                ephemeral_containers=tuple(self.ephemeral),
                restart_policy=self.policy,
            ),
        )
        status = RuntimePodStatus(uid="u", containers=tuple(self.instances), sandboxes=tuple(self.sandboxes))
        return compute_pod_actions(
            pod,
            status,
            Results(self.probes),
            restart_all_containers=restart_all,
            gates=self.gates,
            actuated=self.actuated,
        )


def shown(actions):
    """Actions in the notation of the tables."""
    parts = []
    if actions.kill_pod:
        parts.append("K")
    if actions.create_sandbox:
        parts.append("C")
    if actions.kill_pod and actions.attempt:
        parts.append(f"A={actions.attempt}")
    for letter, indices in (
        ("I", actions.init_to_start),
        ("R", actions.regular_to_start),
        ("E", actions.ephemeral_to_start),
    ):
        if indices:
            parts.append(f"{letter}=[{','.join(map(str, indices))}]")
    if actions.to_kill:
        parts.append("X={" + ",".join(sorted(kill.name for kill in actions.to_kill)) + "}")
    return " ".join(parts)


def busy(name, **more):
    return Container(name=name, image="busybox", **more)


def base(policy=None):
    """Base of A.3: foo1..3 running."""
    world = World(regular=[busy("foo1"), busy("foo2"), busy("foo3")], policy=policy)
    for name in ("foo1", "foo2", "foo3"):
        world.show(name)
    return world


def initialized(policy=None):
    """Base of A.4: init1..3 done, regular not started."""
    world = World(
        regular=[busy("foo1"), busy("foo2"), busy("foo3")],
        init=[busy("init1"), busy("init2"), busy("init3")],
        policy=policy,
    )
    for name in ("init1", "init2", "init3"):
        world.show(name, ContainerState.EXITED, 0)
    return world


def sidecars(policy=None):
    """Base of A.5: r1 without probes, r2 and r3 with, all running."""
    probes = {"liveness_probe": Probe(), "startup_probe": Probe()}
    world = World(
        regular=[busy("foo1"), busy("foo2"), busy("foo3")],
        init=[
            busy("r1", restart_policy="Always"),
            busy("r2", restart_policy="Always", **probes),
            busy("r3", restart_policy="Always", **probes),
        ],
        policy=policy,
    )
    for name in ("r1", "r2", "r3"):
        world.show(name)
    for name in ("r2", "r3"):
        world.probes[LIVENESS, f"id-{name}"] = SUCCESS
        world.probes[STARTUP, f"id-{name}"] = SUCCESS
    return world


def ephemeral(policy=None):
    """Base of A.6: foo1..3 and debug running, init1 done."""
    world = World(
        regular=[busy("foo1"), busy("foo2"), busy("foo3")],
        init=[busy("init1")],
        ephemeral=[EphemeralContainer(name="debug", image="busybox")],
        policy=policy,
    )
    world.show("init1", ContainerState.EXITED, 0)
    for name in ("foo1", "foo2", "foo3", "debug"):
        world.show(name)
    return world


EXITED, RUNNING = ContainerState.EXITED, ContainerState.RUNNING
CREATED, LOST = ContainerState.CREATED, ContainerState.UNKNOWN


def case(name, make, expected, *, policy=None, then=()):
    """A row: the base, the pod policy, changes as functions of the world, the actions."""
    return pytest.param(make, policy, then, expected, id=name)


def exits(name, code):
    return lambda world: world.put(name, EXITED, code)


def becomes(name, state):
    return lambda world: world.put(name, state)


def probe(kind, name, outcome):
    def change(world):
        if outcome is None:
            world.probes.pop((kind, f"id-{name}"), None)
        else:
            world.probes[kind, f"id-{name}"] = outcome

    return change


def nothing_left(world):
    world.instances = []


def only(*names):
    return lambda world: world.only(*names)


def dead(attempt=0):
    return lambda world: world.dead_sandbox(attempt)


def all_exit(code, *names):
    def change(world):
        for name in names:
            world.put(name, EXITED, code)

    return change


def sets(names, **changes):
    def change(world):
        for name in names:
            world.change(name, **changes)

    return change


def wrong_hash(name):
    return lambda world: world.put(name, RUNNING, hash=1)


def no_sandbox(world):
    world.sandboxes = []
    world.instances = []


MIXED = (exits("foo1", 0), exits("foo2", 111))
FOO = ("foo1", "foo2", "foo3")
CASES = [
    case("KA-C01", base, ""),
    case("KA-C02", base, "K C R=[0,1,2]", then=(no_sandbox,)),
    case("KA-C03", base, "R=[0,1]", policy="Always", then=MIXED),
    case("KA-C04", base, "R=[1]", policy="OnFailure", then=MIXED),
    case("KA-C05", base, "R=[1]", policy="OnFailure", then=(exits("foo1", 0), becomes("foo2", CREATED))),
    case("KA-C06", base, "", policy="Never", then=MIXED),
    case("KA-C07", base, "K C A=1 R=[0,1,2]", policy="Always", then=(dead(),)),
    case("KA-C08", base, "K C A=1 R=[0,2]", policy="OnFailure", then=(dead(), exits("foo2", 0))),
    case("KA-C09", base, "K C A=1 R=[0,1,2]", then=(lambda world: world.sandbox(ip=""),)),
    case("KA-C10", base, "R=[1] X={foo2}", policy="Always", then=(wrong_hash("foo2"),)),
    case("KA-C11", base, "R=[1] X={foo2}", policy="Always", then=(probe(LIVENESS, "foo2", FAILURE),)),
    case("KA-C12", base, "R=[1] X={foo2}", policy="Always", then=(probe(STARTUP, "foo2", FAILURE),)),
    case("KA-C13", base, "K A=2", policy="Never", then=(dead(1), all_exit(0, *FOO))),
    case("KA-C14", base, "K A=2", policy="OnFailure", then=(dead(1), all_exit(0, *FOO))),
    case("KA-C15", base, "K C A=3 R=[0,1,2]", policy="Never", then=(dead(2), nothing_left)),
    case("KA-C16", base, "R=[1] X={foo2}", policy="Never", then=(becomes("foo2", LOST),)),
    case("KA-C17", base, "R=[1]", policy="Never", then=(becomes("foo2", CREATED),)),
    case(
        "KA-CR1",
        base,
        "R=[0,1]",
        policy="Never",
        then=(sets(("foo1", "foo2"), restart_policy="Always"), *MIXED),
    ),
    case(
        "KA-CR2",
        base,
        "R=[1]",
        policy="Never",
        then=(sets(("foo1", "foo2"), restart_policy="OnFailure"), *MIXED),
    ),
    case(
        "KA-CR3",
        base,
        "R=[1]",
        policy="Never",
        then=(
            sets(("foo1", "foo2"), restart_policy="OnFailure"),
            exits("foo1", 0),
            becomes("foo2", CREATED),
        ),
    ),
    case("KA-CR4", base, "", policy="Always", then=(sets(("foo1", "foo2"), restart_policy="Never"), *MIXED)),
    case(
        "KA-CR5",
        base,
        "K C A=1 R=[0,2]",
        policy="Always",
        then=(sets(("foo2",), restart_policy="OnFailure"), exits("foo2", 0), dead()),
    ),
    case("KA-I01", initialized, "R=[0,1,2]"),
    case("KA-I02", initialized, "I=[0]", then=(nothing_left,)),
    case("KA-I03", initialized, "", policy="Always", then=(becomes("init3", RUNNING),)),
    case("KA-I04", initialized, "K C A=1 I=[0]", policy="Always", then=(dead(),)),
    case("KA-I05-always", initialized, "I=[2]", policy="Always", then=(exits("init3", 137),)),
    case("KA-I05-onfailure", initialized, "I=[2]", policy="OnFailure", then=(exits("init3", 137),)),
    case("KA-I06", initialized, "K", policy="Never", then=(exits("init3", 137),)),
    case("KA-I07-always", initialized, "I=[2] X={init3}", policy="Always", then=(becomes("init3", LOST),)),
    case(
        "KA-I07-onfailure", initialized, "I=[2] X={init3}", policy="OnFailure", then=(becomes("init3", LOST),)
    ),
    case("KA-I08", initialized, "K", policy="Never", then=(becomes("init3", LOST),)),
    case("KA-I09", initialized, "K A=1", policy="Never", then=(dead(),)),
    case("KA-I10", initialized, "K C A=1 I=[0]", policy="Never", then=(dead(), nothing_left)),
    case("KA-I11", initialized, "K C A=1 I=[0]", policy="OnFailure", then=(dead(), exits("init3", 137))),
    case("KA-I12", initialized, "", policy="Always", then=(only("init3"), becomes("init3", RUNNING))),
    case("KA-I13", initialized, "I=[2]", policy="Always", then=(becomes("init3", CREATED),)),
    case("KA-SC01", sidecars, "R=[0,1,2]"),
    case("KA-SC02", sidecars, "I=[0]", then=(nothing_left,)),
    case("KA-SC03", sidecars, "I=[2]", policy="Always", then=(becomes("r3", CREATED),)),
    case("KA-SC04", sidecars, "I=[1]", then=(only("r1"),)),
    case("KA-SC05-none", sidecars, "I=[2]", then=(only("r1", "r2"), probe(LIVENESS, "r2", None))),
    case("KA-SC05-unknown", sidecars, "I=[2]", then=(only("r1", "r2"), probe(LIVENESS, "r2", UNKNOWN))),
    case("KA-SC05-success", sidecars, "I=[2]", then=(only("r1", "r2"),)),
    case("KA-SC06", sidecars, "I=[2] R=[0,1,2] X={r3}", then=(probe(LIVENESS, "r3", FAILURE),)),
    case("KA-SC07-none", sidecars, "", then=(only("r1", "r2"), probe(STARTUP, "r2", None))),
    case("KA-SC07-unknown", sidecars, "", then=(only("r1", "r2"), probe(STARTUP, "r2", UNKNOWN))),
    case("KA-SC08", sidecars, "I=[2]", then=(only("r1", "r2"), probe(STARTUP, "r2", SUCCESS))),
    case("KA-SC09", sidecars, "I=[2] X={r3}", then=(probe(STARTUP, "r3", FAILURE),)),
    case("KA-SC10", sidecars, "I=[2] R=[0,1,2] X={r3}", then=(wrong_hash("r3"),)),
    case("KA-SC11", sidecars, "I=[0,2]", then=(exits("r1", 0), exits("r3", 0))),
    case("KA-SC12", sidecars, "I=[0] R=[0,1,2]", then=(exits("r1", 0),)),
    case("KA-SC13", sidecars, "K A=1", policy="Never", then=(dead(), exits("r3", 137))),
    case("KA-SC14", sidecars, "K C A=1 I=[0]", policy="Never", then=(dead(), nothing_left)),
    case("KA-SC15-onfailure", sidecars, "K C A=1 I=[0]", policy="OnFailure", then=(dead(), exits("r3", 137))),
    case("KA-SC15-always", sidecars, "K C A=1 I=[0]", policy="Always", then=(dead(), exits("r3", 137))),
    case("KA-SC16", sidecars, "I=[2]", policy="Never", then=(exits("r3", 137),)),
    case("KA-SC17", sidecars, "I=[2] X={r3}", policy="Never", then=(becomes("r3", LOST),)),
    case(
        "KA-SC18",
        sidecars,
        "I=[2]",
        policy="Never",
        then=(exits("r3", 137), *(becomes(name, RUNNING) for name in FOO)),
    ),
    case("KA-SC19", sidecars, "K", policy="Never", then=(all_exit(0, *FOO),)),
    case("KA-SC20", sidecars, "I=[0,1] R=[0,1,2]", policy="Always", then=(only("r3"),)),
    case("KA-E01-none", ephemeral, ""),
    case("KA-E01-unknown", ephemeral, "", policy="Never", then=(becomes("debug", LOST),)),
    case("KA-E01-exited", ephemeral, "", policy="Always", then=(exits("debug", 0),)),
    case("KA-E02", ephemeral, "E=[0]", then=(only("init1", *FOO),)),
    case(
        "KA-E03",
        ephemeral,
        "E=[1]",
        then=(lambda w: w.ephemeral.append(EphemeralContainer(name="debug2", image="busybox")),),
    ),
    case("KA-E04", ephemeral, "E=[0]", then=(only("init1"), becomes("init1", RUNNING))),
    case(
        "KA-E05",
        ephemeral,
        "K C A=1 I=[0]",
        policy="OnFailure",
        then=(dead(), only("init1", "debug"), exits("init1", 137)),
    ),
    case("KA-E06", ephemeral, "K C A=1 I=[0]", policy="Always", then=(dead(),)),
    case("KA-E07", ephemeral, "K", policy="Never", then=(all_exit(0, *FOO),)),
    # the walk decides on the last visible instance
    case("RST-052-successor", initialized, "I=[2]", policy="Always", then=(only("init2"),)),
    case(
        "RST-052-all-regular-exited",
        initialized,
        "I=[1]",
        policy="Never",
        then=(only("init1"), all_exit(0, *FOO)),
    ),
    # a CPOL Never init that fails fails the pod, whatever the pod's policy
    case(
        "RST-053-container-policy",
        initialized,
        "K",
        policy="Always",
        then=(sets(("init3",), restart_policy="Never"), exits("init3", 1)),
    ),
    # a liveness failure under Never kills for good; the last one kept nothing, so the pod goes
    case(
        "RST-060-liveness-never", base, "X={foo2}", policy="Never", then=(probe(LIVENESS, "foo2", FAILURE),)
    ),
    case(
        "RST-034-container-never-comes-back",
        base,
        "K C A=1 R=[0,1,2]",
        policy="Always",
        then=(sets(("foo2",), restart_policy="Never"), exits("foo2", 0), dead()),
    ),
]


@pytest.mark.parametrize(("make", "policy", "then", "expected"), CASES)
def test_actions(make, policy, then, expected):
    world = make(policy)
    for change in then:
        change(world)
    actions = world.act()
    assert shown(actions) == expected
    assert actions.sandbox_id == ("sb" if world.sandboxes else "")
    assert actions.why[0].rule == "RST-030"
    assert not actions.to_reset


def resources(cpu, memory):
    amounts = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}
    return ResourceRequirements(requests=amounts)


def test_ka_i14_a_resize_of_an_init_container_that_has_no_instance_just_starts_it():
    world = initialized()
    world.instances = []
    world.change("init1", resources=resources("800m", "800Mi"))
    world.actuated = ActuatedView(containers={"init1": resources("400m", "400Mi")})
    assert shown(world.act()) == "I=[0]"


@pytest.mark.parametrize("gate", [pytest.param(True, id="KA-I15"), pytest.param(False, id="KA-I15-gate-off")])
def test_running_init_resize(gate):
    world = initialized()
    world.only("init1")
    world.put("init1", RUNNING)
    world.change("init1", resources=resources("800m", "800Mi"))
    world.actuated = ActuatedView(containers={"init1": resources("400m", "400Mi")})
    world.gates = Gates({"InPlacePodVerticalScalingInitContainers": gate})
    actions = world.act()
    assert shown(actions) == ""
    updated = {name: [u.name for u in updates] for name, updates in actions.to_update.items()}
    assert updated == ({"cpu": ["init1"], "memory": ["init1"]} if gate else {})


def test_rst_065_resize_policy_restarts_a_regular_container():
    world = base("Never")
    policy = ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer")
    world.change("foo1", resources=resources("2", "1Mi"), resize_policy=(policy,))
    world.change("foo2", resources=resources("1", "1Mi"))
    world.change("foo3", resources=resources("3", "1Mi"))
    record = {name: resources("2", "1Mi") for name in FOO} | {"foo1": resources("1", "1Mi")}
    world.actuated = ActuatedView(containers=record)
    actions = world.act()
    assert shown(actions) == "R=[0] X={foo1}"
    assert actions.to_kill[0].message == "Container foo1 resize requires restart"
    assert actions.update_pod_resources
    # decreases come before increases
    assert [u.name for u in actions.to_update["cpu"]] == ["foo2", "foo3"]


def reset(actions):
    return " ".join(entry.container_id.removeprefix("id-") + "!" * entry.kill for entry in actions.to_reset)


def source(world, name):
    world.change(name, restart_policy_rules=(SOURCE_RULE,))
    world.put(name, EXITED, 1)


def ra05():
    world = World(
        regular=[busy("foo1")], init=[busy("init1"), busy("init2", restart_policy="Always"), busy("init3")]
    )
    world.put("init1", EXITED)
    world.put("init2", RUNNING)
    source(world, "init3")
    return world


def ra06():
    world = sidecars()
    source(world, "r3")
    world.put("foo1", RUNNING)
    return world


def ra07():
    world = sidecars()
    world.put("foo1", RUNNING)
    world.put("foo2", RUNNING)
    source(world, "foo3")
    return world


def ra08():
    world = World(regular=[busy("foo1"), busy("foo2"), busy("foo3", restart_policy_rules=(SOURCE_RULE,))])
    for name in FOO:
        state, code = (EXITED, 1) if name == "foo3" else (RUNNING, 0)
        world.show(name, state, code)
        world.show(name, EXITED, 99, suffix="-old")
    return world


RESETS = [
    pytest.param(base, "foo1! foo2! foo3!", id="KA-RA02"),
    pytest.param(initialized, "init1 init2 init3", id="KA-RA03"),
    pytest.param(sidecars, "r1! r2! r3!", id="KA-RA04"),
    pytest.param(ra05, "init1 init2! init3", id="KA-RA05"),
    pytest.param(ra06, "foo1! r1! r2! r3", id="KA-RA06"),
    pytest.param(ra07, "foo1! foo2! r1! r2! r3! foo3", id="KA-RA07"),
    pytest.param(ra08, "foo1! foo1-old foo2! foo2-old foo3-old foo3", id="KA-RA08"),
]


@pytest.mark.parametrize(("make", "expected"), RESETS)
def test_full_restart_lists(make, expected):
    actions = make().act(restart_all=True)
    assert reset(actions) == expected
    assert shown(actions) == ""


def test_ka_ra01_without_the_flag_nothing_is_reset():
    assert shown(base().act()) == ""
    assert not base().act().to_reset


def test_rst_040_the_flag_does_nothing_while_the_gate_is_off():
    world = base()
    world.gates = Gates({"RestartAllContainersOnContainerExits": False})
    assert not world.act(restart_all=True).to_reset


@pytest.mark.parametrize(
    ("make", "expected"),
    [pytest.param(initialized, "I=[0]", id="KA-RA09"), pytest.param(base, "R=[0,1,2]", id="KA-RA10")],
)
def test_second_phase_starts_everything(make, expected):
    world = make()
    world.instances = []
    assert shown(world.act()) == expected


def test_rst_137_reset_list_is_kept_beside_a_lost_sandbox():
    world = base("Never")
    world.dead_sandbox(1)
    actions = world.act(restart_all=True)
    assert shown(actions) == "K C A=2"
    assert reset(actions) == "foo1! foo2! foo3!"


def a_sandbox(name, attempt=0, **more):
    return RuntimeSandbox(id=name, state=more.pop("state", SandboxState.READY), attempt=attempt, **more)


SANDBOXES = [
    pytest.param((), False, (True, 0, ""), id="RST-030-1"),
    pytest.param(
        (a_sandbox("b", 3, ip="1"), a_sandbox("a", 2, ip="1")), False, (True, 4, "b"), id="RST-030-2"
    ),
    pytest.param((a_sandbox("a", 2, state=SandboxState.NOT_READY),), False, (True, 3, "a"), id="RST-030-3"),
    pytest.param((a_sandbox("a", 2, ip="1"),), True, (True, 3, ""), id="RST-030-4"),
    pytest.param((a_sandbox("a", 2, ip=""),), False, (True, 3, "a"), id="RST-030-5"),
    pytest.param((a_sandbox("a", 2, ip=None),), False, (False, 2, "a"), id="RST-030-no-network"),
    pytest.param((a_sandbox("a", 2, ip="", host_network=True),), True, (False, 2, "a"), id="RST-030-6"),
]


@pytest.mark.parametrize(("sandboxes", "host", "expected"), SANDBOXES)
def test_sandbox_table(sandboxes, host, expected):
    decision = decide_sandbox(Pod(spec=PodSpec(host_network=host)), sandboxes)
    assert (decision.changed, decision.attempt, decision.sandbox_id) == expected


MESSAGES = [
    pytest.param(
        LIVENESS, "Always", "Container foo2 failed liveness probe, will be restarted", id="liveness"
    ),
    pytest.param(LIVENESS, "Never", "Container foo2 failed liveness probe", id="liveness-never"),
    pytest.param(
        STARTUP, "OnFailure", "Container foo2 failed startup probe, will be restarted", id="startup"
    ),
]


@pytest.mark.parametrize(("kind", "policy", "expected"), MESSAGES)
def test_rst_062_probe_kill_messages(kind, policy, expected):
    world = base(policy)
    world.probes[kind, "id-foo2"] = FAILURE
    assert [kill.message for kill in world.act().to_kill] == [expected]


def test_rst_057_hash_comes_before_liveness_and_restarts_even_under_never():
    world = base("Never")
    world.put("foo2", RUNNING, hash=1)
    world.probes[LIVENESS, "id-foo2"] = FAILURE
    actions = world.act()
    assert actions.to_kill[0].message == "Container foo2 definition changed, will be restarted"
    assert shown(actions) == "R=[1] X={foo2}"


def test_rst_055_post_stop_runs_for_ended_regular_containers_only():
    world = base("Never")
    world.put("foo1", EXITED, 0)
    assert world.act().post_stop == ("foo1",)
