# pyright: basic
"""What is owed to pods, case by case, and that debts fall due."""

from kubelet_emu.sim.liveness import SLACK_SECONDS, Debt, Debts, InstanceView, PodView, owed

RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


def container(name, **more):
    return {"name": name, "image": "busybox", **more}


def told(name, state, *, ready=True, started=True, id=""):
    return {
        "name": name,
        "state": state,
        "ready": ready,
        "started": started,
        "containerID": f"containerd://{id or name}",
    }


def view(*containers, inits=(), statuses=(), phase="Running", policy="Always", instances=None, **more):
    obj = {
        "metadata": {"name": "a", "uid": "u", **more.pop("metadata", {})},
        "spec": {"containers": list(containers), "initContainers": list(inits), "restartPolicy": policy},
        "status": {"phase": phase, "containerStatuses": list(statuses)},
    }
    return PodView(name="a", obj=obj, instances=instances or {}, **{"ready_sandboxes": 1, **more})


def running(name, id="", **more):
    return InstanceView(id=id or name, state="RUNNING", **more)


def exited(name, code=0, **more):
    return InstanceView(id=name, state="EXITED", exit_code=code, finished_seconds=100.0, **more)


def whats(given, now=101.0, **more):
    return [debt.what for debt in owed(given, now_seconds=now, **more)]


RUNS = {"running": {}}


def test_nothing_is_owed_to_a_pod_that_runs_and_is_told_to():
    assert whats(view(container("m"), statuses=[told("m", RUNS)], instances={"m": running("m")})) == []


def test_sta_602_a_container_that_runs_again_after_it_ended_for_good_is_not_told_of():
    ended = told("m", {"terminated": {"exitCode": 0}}, ready=False, id="old")
    again = {"m": running("m", id="new"), "n": running("n")}
    two = [container("m"), container("n")]

    stale = (ended, told("n", {"waiting": {}}))

    def rules(policy, *containers, statuses=stale):
        given = view(*containers, statuses=statuses, policy=policy, instances=again)
        return [(debt.what, debt.rule) for debt in owed(given, now_seconds=101.0)]

    assert rules("OnFailure", *two) == [("status of m", "STA-602"), ("status of n", "STA-602")]
    assert rules("Always", *two) == [("status of m", ""), ("status of n", "")]
    assert rules("OnFailure", container("m", restartPolicyRules=RULES), container("n"))[0][1] == ""
    failed = told("m", {"terminated": {"exitCode": 1}}, ready=False, id="old")
    assert rules("OnFailure", *two, statuses=(failed, told("n", RUNS))) == [("status of m", "")]


def test_a_container_has_to_be_created_started_and_told_of():
    assert whats(view(container("m"))) == ["start of m"]
    assert whats(view(container("m"), instances={"m": InstanceView(id="m", state="CREATED")})) == [
        "start of m"
    ]
    assert whats(view(container("m"), instances={"m": running("m")})) == ["status of m"]
    other = view(container("m"), statuses=[told("m", RUNS, id="old")], instances={"m": running("m")})
    assert whats(other) == ["status of m"]
    late = view(container("m"), statuses=[told("m", RUNS, ready=False)], instances={"m": running("m")})
    assert whats(late) == ["readiness of m"]
    new = view(container("m"), statuses=[told("m", RUNS, started=False)], instances={"m": running("m")})
    assert whats(new) == ["start-up of m"]


def test_what_cannot_be_started_is_not_owed():
    assert whats(view(container("m")), excused=("m",)) == []
    waiting = {"waiting": {"reason": "CreateContainerConfigError"}}
    assert whats(view(container("m"), statuses=[told("m", waiting)])) == []


def test_a_readiness_probe_may_judge_for_ever():
    given = view(
        container("m", readinessProbe={"exec": {"command": ["false"]}}),
        statuses=[told("m", RUNS, ready=False)],
        instances={"m": running("m")},
    )
    assert whats(given) == []


def test_an_exit_is_followed_by_a_start_or_by_the_end():
    assert whats(view(container("m"), instances={"m": exited("m", 1)})) == ["start of m"]
    assert whats(view(container("m"), policy="Never", instances={"m": exited("m", 1)})) == ["phase"]
    ended = view(container("m"), policy="Never", phase="Failed", instances={"m": exited("m", 1)})
    assert whats(ended) == []


def test_a_long_back_off_is_not_waited_for_but_ends():
    late = view(container("m"), instances={"m": exited("m", 1, attempt=4)})
    assert whats(late, now=200.0) == []
    assert whats(late, now=400.0) == ["start of m"]


def test_init_containers_come_one_after_the_other():
    inits = [container("i"), container("s", restartPolicy="Always")]
    assert whats(view(container("m"), inits=inits)) == ["start of i"]
    assert whats(view(container("m"), inits=inits, instances={"i": running("i")})) == ["status of i"]
    assert whats(view(container("m"), inits=inits, instances={"i": exited("i")})) == ["start of s"]
    done = {"i": exited("i"), "s": running("s")}
    assert whats(view(container("m"), inits=inits, instances=done)) == ["status of s"]
    shown = [told("s", RUNS)]
    assert whats(view(container("m"), inits=inits, instances=done, statuses=shown)) == ["start of m"]
    failed = view(container("m"), inits=inits, policy="Never", instances={"i": exited("i", 1)})
    assert whats(failed) == ["phase"]


def test_a_restart_of_all_is_owed_once_its_rule_matches():
    given = view(
        container("m", restartPolicy="Never", restartPolicyRules=RULES),
        container("n"),
        instances={"m": exited("m", 42), "n": running("n")},
    )
    assert whats(given) == ["restart of all"]
    assert "restart of all" not in whats(given, restart_all=False)


def test_what_ran_once_with_success_is_not_run_in_a_new_sandbox():
    given = view(
        container("m"), container("n"), policy="OnFailure", earlier={"m": exited("m"), "n": exited("n", 1)}
    )
    assert whats(given) == ["status of m", "start of n"]


def test_pods_that_end_or_are_gone_leave_nothing_running():
    going = view(container("m"), metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30})
    assert [debt.bound_seconds for debt in owed(going, now_seconds=0.0)] == [SLACK_SECONDS + 30.0]
    ended = view(container("m"), phase="Succeeded", instances={"m": running("m")})
    assert whats(ended) == ["end of m"]
    gone = PodView(name="a", obj=None, ready_sandboxes=1, running_elsewhere=("m",))
    assert whats(gone) == ["end of m", "sandbox"]


def test_a_pod_has_one_sandbox_and_no_instance_of_old():
    assert whats(view(container("m"), ready_sandboxes=2)) == ["sandbox"]
    two = view(
        container("m"),
        statuses=[told("m", RUNS)],
        instances={"m": running("m")},
        running_elsewhere=("m",),
    )
    assert whats(two) == ["end of m"]


def test_debts_fall_due_and_are_told_once():
    debts = Debts()
    one = Debt(pod="a", what="phase", text="…", bound_seconds=10.0)
    assert debts.take([one], now_seconds=0.0)
    assert debts.take([one], now_seconds=9.0)
    assert not debts.take([one], now_seconds=10.0)
    debts.take([one], now_seconds=20.0)
    assert debts.overdue == [one]


def test_a_debt_that_was_paid_begins_anew():
    debts = Debts()
    one = Debt(pod="a", what="phase", text="…", bound_seconds=10.0)
    assert debts.take([one], now_seconds=0.0)
    assert not debts.take([], now_seconds=5.0)
    assert debts.take([one], now_seconds=12.0)
    assert debts.overdue == []
