"""Phase: STA-1201 to STA-1206 and the table KA-PH, as the specification gives them."""

import pytest

from kubelet_emu.gates import Gates
from kubelet_emu.status.phase import decide_phase

GATES = Gates()
NO_RULES = Gates({"RestartAllContainersOnContainerExits": False, "ContainerRestartRules": False})


def phase_of(pod, statuses, *, terminal=False, initialized=False, gates=GATES):
    decision = decide_phase(
        pod, statuses, pod_is_terminal=terminal, pod_has_initialized=initialized, gates=gates
    )
    assert decision.why
    return decision.phase


def notation(make, name, text):
    """R, T0, T-, W, WL0, WL-, RA, T42 … as a status; None for a missing one."""
    match text:
        case "-":
            return None
        case "R":
            return make.running(name)
        case "S":
            return make.running(name, started=True)
        case "W":
            return make.waiting(name)
        case "RA":
            return make.removed(name)
        case "T-":
            return make.terminated(name, -1)
        case "WL0" | "WL-":
            return make.waiting_last(name, 0 if text == "WL0" else -1)
        case _:
            return make.terminated(name, int(text[1:]))


def statuses_of(make, pairs):
    found = [notation(make, name, text) for name, text in pairs]
    return [status for status in found if status is not None]


PLAIN = [
    ("-", "-", False, "Pending", "Pending", "Pending"),
    ("R", "R", False, "Running", "Running", "Running"),
    ("T0", "T0", False, "Running", "Succeeded", "Succeeded"),
    ("T-", "T-", False, "Running", "Running", "Failed"),
    ("R", "T0", False, "Running", "Running", "Running"),
    ("R", "-", False, "Pending", "Pending", "Pending"),
    ("R", "W", False, "Pending", "Pending", "Pending"),
    ("R", "WL0", False, "Running", "Running", "Running"),
    ("T0", "T0", True, "Succeeded", "Succeeded", "Succeeded"),
    ("T0", "T-", True, "Failed", "Failed", "Failed"),
]


@pytest.mark.parametrize("gates", [GATES, NO_RULES], ids=["rules", "STA-205"])
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("row", PLAIN, ids=[f"STA-1201-{a}-{b}-{t}" for a, b, t, *_ in PLAIN])
def test_without_init_containers(make, row, policy, gates):
    a, b, terminal, *answers = row
    statuses = statuses_of(make, [("A", a), ("B", b)])
    expected = answers[["Always", "OnFailure", "Never"].index(policy)]
    assert phase_of(make.pod(policy), statuses, terminal=terminal, initialized=True, gates=gates) == expected


PLAIN_INIT = [
    ("-", "-", "Pending", "Pending"),
    ("R", "-", "Pending", "Pending"),
    ("W", "-", "Pending", "Pending"),
    ("T-", "-", "Pending", "Failed"),
    ("WL0", "-", "Pending", "Pending"),
    ("WL-", "-", "Pending", "Failed"),
    ("T0", "R", "Running", "Running"),
]


@pytest.mark.parametrize("policy", ["Always", "Never"])
@pytest.mark.parametrize("row", PLAIN_INIT, ids=[f"STA-1202-{x}-{mains}" for x, mains, *_ in PLAIN_INIT])
def test_one_plain_init_container(make, row, policy):
    x, mains, always, never = row
    statuses = statuses_of(make, [("X", x), ("A", mains), ("B", mains)])
    pod = make.pod(policy, init=["X"])
    assert phase_of(pod, statuses) == (always if policy == "Always" else never)


BOTH = ("Always", "Never")
SIDECAR = [
    *((x, "-", "-", False, False, BOTH, "Pending") for x in ("-", "R", "T0", "WL0", "WL-", "W")),
    ("S", "R", "-", True, False, BOTH, "Pending"),
    *((x, "R", "R", True, False, BOTH, "Running") for x in ("S", "R", "T0", "WL0")),
    ("R", "R", "R", False, False, BOTH, "Pending"),
    *((x, "T0", "T0", True, True, ("Always",), "Succeeded") for x in ("T-", "T0")),
    *((x, "T0", "T0", True, False, ("Never",), "Running") for x in ("S", "R")),
    *((x, "T0", "T0", True, False, ("Never",), "Succeeded") for x in ("T0", "T-", "WL0", "WL-")),
]


@pytest.mark.parametrize(
    "row", SIDECAR, ids=[f"STA-1203-{x}-{a}-{b}-{init}-{end}" for x, a, b, init, end, *_ in SIDECAR]
)
def test_one_sidecar(make, row):
    x, a, b, initialized, terminal, policies, expected = row
    statuses = statuses_of(make, [("X", x), ("A", a), ("B", b)])
    for policy in policies:
        pod = make.pod(policy, init=[make.sidecar("X")])
        assert phase_of(pod, statuses, terminal=terminal, initialized=initialized) == expected


@pytest.mark.parametrize(
    ("x", "y", "a", "initialized", "expected"),
    [
        ("R", "R", "R", False, "Pending"),
        ("R", "R", "T0", False, "Pending"),
        ("T0", "R", "T0", False, "Pending"),
        ("T0", "R", "T0", True, "Running"),
        ("T0", "R", "R", True, "Running"),
    ],
    ids=lambda value: f"STA-1204-{value}",
)
def test_plain_init_and_sidecar(make, x, y, a, initialized, expected):
    pod = make.pod("Always", ["A"], init=["X", make.sidecar("Y")])
    statuses = statuses_of(make, [("X", x), ("Y", y), ("A", a)])
    assert phase_of(pod, statuses, initialized=initialized) == expected


CONTAINER_POLICY = [
    ("KA-PH01", "Always", [("c", "Never", "T-")], "Failed"),
    ("KA-PH02", "Always", [("c", "OnFailure", "T-")], "Running"),
    ("KA-PH03", "Always", [("c", "Always", "T-")], "Running"),
    ("KA-PH04", "Never", [("a", "Always", "T0"), ("b", None, "T-")], "Running"),
    ("KA-PH05", "Always", [("a", "Never", "T-"), ("b", "OnFailure", "T0")], "Failed"),
    ("KA-PH06", "Always", [("a", "Never", "T0"), ("b", "OnFailure", "T0")], "Succeeded"),
]


@pytest.mark.parametrize("row", CONTAINER_POLICY, ids=[f"STA-1205-{row[0]}" for row in CONTAINER_POLICY])
def test_container_policies(make, row):
    _, policy, containers, expected = row
    pod = make.pod(policy, [make.container(name, own) for name, own, _ in containers])
    statuses = statuses_of(make, [(name, text) for name, _, text in containers])
    assert phase_of(pod, statuses, initialized=True) == expected


@pytest.mark.parametrize(
    ("policy", "own", "expected"),
    [("Always", "Never", "Failed"), ("Never", "OnFailure", "Pending"), ("Never", "Always", "Pending")],
    ids=["KA-PH07", "KA-PH08", "KA-PH09"],
)
def test_failed_init_container_with_own_policy(make, policy, own, expected):
    pod = make.pod(policy, ["a"], init=[make.container("i", own)])
    assert phase_of(pod, statuses_of(make, [("i", "T-")]), initialized=True) == expected


def restart_all_pod(make, init, regular):
    trigger = make.rule("RestartAllContainers", 42)
    kinds = {
        "N42": lambda name: make.container(name, "Never", trigger),
        "S42": lambda name: make.sidecar(name, trigger),
        "plain": lambda name: make.container(name),
    }
    inits = [(kinds[kind](f"i{n}"), f"i{n}", text) for n, (kind, text) in enumerate(init)]
    mains = [(kinds[kind](f"m{n}"), f"m{n}", text) for n, (kind, text) in enumerate(regular)]
    pod = make.pod("Never", [entry[0] for entry in mains], init=[entry[0] for entry in inits])
    return pod, statuses_of(make, [(name, text) for _, name, text in (*inits, *mains)])


RESTART_ALL = [
    ("KA-PH10", [], [("N42", "T42")], "Running"),
    ("KA-PH11", [("N42", "T42")], [("plain", "-")], "Pending"),
    ("KA-PH12", [("S42", "T42")], [("plain", "W")], "Pending"),
    ("KA-PH12b", [("S42", "T42"), ("plain", "W")], [("plain", "W")], "Pending"),
    ("KA-PH13", [], [("N42", "RA")], "Running"),
    ("KA-PH14", [("N42", "RA")], [], "Pending"),
    ("KA-PH15", [("S42", "RA")], [("plain", "W")], "Pending"),
    ("KA-PH16", [("plain", "T0")], [("N42", "RA")], "Running"),
    ("KA-PH17", [("N42", "T0")], [("plain", "W")], "Pending"),
    ("KA-PH18", [("plain", "T-")], [("N42", "RA")], "Failed"),
    ("KA-PH19", [("S42", "RA")], [("plain", "RA")], "Running"),
    ("KA-PH20", [("S42", "R")], [("plain", "RA")], "Running"),
    ("KA-PH21", [("S42", "R"), ("plain", "-")], [("plain", "W")], "Pending"),
    ("STA-1206-plain-42", [("N42", "T42")], [("plain", "W")], "Pending"),
    ("STA-1206-plain-RA", [("N42", "RA")], [("plain", "W")], "Pending"),
]


@pytest.mark.parametrize("row", RESTART_ALL, ids=[row[0] for row in RESTART_ALL])
def test_restart_of_all_containers(make, row):
    _, init, regular, expected = row
    pod, statuses = restart_all_pod(make, init, regular)
    assert phase_of(pod, statuses, initialized=True) == expected


def test_sta_207_static_pod_is_not_forced_terminal(make):
    annotations = {"kubernetes.io/config.source": "file"}
    pod = make.pod("Always", ["A"], meta={"annotations": annotations})
    assert phase_of(pod, statuses_of(make, [("A", "T0")]), terminal=True, initialized=True) == "Running"


def test_sta_208_sidecar_without_record_makes_the_pod_pending(make):
    pod = make.pod("Always", ["A"], init=[make.sidecar("X")])
    statuses = [make.waiting("X", "PodInitializing"), make.running("A")]
    assert phase_of(pod, statuses, initialized=True) == "Pending"
