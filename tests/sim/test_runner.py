# pyright: basic
"""Runs of cases: plans are carried out, and one case is one trace."""

from kubelet_emu.sim import Case, Reseed, run_case, steps


def shell(name, script, **more):
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {
        "initContainers": [shell("i", "sleep 1")],
        "containers": [
            shell("m", "sleep 7; exit 1"),
            shell("n", "trap 'exit 0' TERM; sleep 1000 & wait"),
        ],
    },
}
PLAN = [
    "@0s error StartContainer UNAVAILABLE",
    "@0s after 3 CreateContainer calls crash runtime",
    "@5s crash kubelet",
    "@6s late-pleg 4s x2",
    "@7s api away 10s",
    "@20s reboot node",
    "@50s delete pod a grace 1",
]


def done(outcome):
    return [r["text"] for r in outcome.records if r["k"] == "action" and r["do"] == "fault"]


def test_a_plan_is_carried_out():
    outcome = run_case(Case(documents=(POD,), plan=steps(PLAN), seed=3))
    assert outcome.verdict == "ok", outcome.findings
    assert sorted(done(outcome)) == sorted(str(step.deed) for step in outcome.case.plan)
    assert outcome.simulated_seconds >= 60.0
    assert outcome.pods == ()
    assert outcome.judged > 50


def test_one_case_is_one_trace():
    for schedule in ("uniform", "priority:3"):
        case = Case(documents=(POD,), plan=steps(PLAN), seed=4, schedule=schedule)
        lines: list[list[str]] = [[], []]
        for sink in lines:
            run_case(case, sink=sink.append)
        assert lines[0] == lines[1]


def test_other_seeds_and_schedules_are_other_runs():
    cases = [
        Case(documents=(POD,), seed=seed, schedule=schedule)
        for seed, schedule in ((1, "uniform"), (2, "uniform"), (1, "priority:3"))
    ]
    traces = [run_case(case).records for case in cases]
    assert traces[0] != traces[1]
    assert traces[0] != traces[2]


def test_a_run_stops_at_a_record():
    case = Case(documents=(POD,), seed=5)
    whole = run_case(case)
    part = run_case(case, stop_at_record=80)
    assert part.verdict == "stopped"
    assert len(part.records) < len(whole.records)
    assert part.simulated_seconds < whole.simulated_seconds


def test_chance_may_change_at_a_record():
    case = Case(documents=(POD,), seed=5)
    whole = run_case(case)
    other = run_case(case, reseed=Reseed(80, 99))
    assert other.records != whole.records
    before = [record for record in whole.records if record.get("end", record["seq"]) < 80]
    assert [record for record in other.records if record.get("end", record["seq"]) < 80] == before


def test_a_pod_that_restarts_for_ever_does_not_keep_a_run_going():
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]
    container = {
        "name": "a",
        "image": "busybox",
        "restartPolicy": "Never",
        "restartPolicyRules": rules,
        "command": ["sh", "-c", "sleep 1; exit 88"],
    }
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    outcome = run_case(Case(documents=({"apiVersion": "v1", "kind": "Pod", **pod},), duration_seconds=5))
    assert outcome.ok
    assert outcome.simulated_seconds < 20


def test_a_count_from_the_sandbox_before_is_overtaken_and_not_fallen_behind():
    init = shell("i", "sleep 1; exit 1")
    spec = {"initContainers": [init], "containers": [shell("m", "sleep 100")]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    case = Case(documents=(pod,), plan=steps(["@3.25s kill-sandbox a"]), seed=1, duration_seconds=30.0)
    assert run_case(case).verdict == "ok"
