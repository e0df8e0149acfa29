# pyright: basic
"""Transitions of the declared tables, counted from traces."""

from itertools import pairwise

from kubelet_emu.sim import Case, run_case, steps
from kubelet_emu.sim.transitions import declared, transitions_of


def shell(name, script, **more):
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


def a_pod(*containers, **spec):
    return {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": list(containers), **spec}}


def taken(*documents, plan=(), **more):
    outcome = run_case(Case(documents=documents, plan=steps(plan), seed=1, **more))
    assert outcome.verdict == "ok", (outcome.findings, outcome.failure)
    assert set(outcome.transitions) <= set(declared())
    return {key for key in outcome.transitions if outcome.transitions[key]}


def test_the_life_of_a_pod():
    found = taken(a_pod(shell("m", "sleep 1000")), plan=["@5s delete pod a grace 1"])
    assert {
        ("container", "created", "starting"),
        ("container", "starting", "running"),
        ("container", "running", "exited"),
        ("sandbox", "ready", "dead"),
        ("sandbox", "dead", "stopped"),
        ("sandbox", "stopped", "gone"),
        ("pod-worker", "unknown", "syncing"),
        ("pod-worker", "syncing", "terminating"),
        ("pod-worker", "terminating", "terminated"),
        ("pod-worker", "terminated", "finished"),
        ("pod-worker", "finished", "unknown"),
    } <= found


def test_processes_that_are_lost():
    found = taken(a_pod(shell("m", "sleep 1000")), plan=["@5s crash runtime lose-processes"])
    assert ("container", "running", "unknown") in found
    assert ("container", "unknown", "exited") in found


def test_a_restart_of_all_in_place():
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    trigger = shell("m", "sleep 3; exit 42", restartPolicy="Never", restartPolicyRules=rules)
    found = taken(a_pod(trigger, shell("n", "sleep 1000")))
    states = ("running", "triggered", "resetting", "all removed", "running")
    assert {("full-restart", *pair) for pair in pairwise(states)} <= found


def test_probes_and_back_off():
    fails = {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 2}
    found = taken(a_pod(shell("m", "sleep 1000", livenessProbe=fails), terminationGracePeriodSeconds=1))
    assert {
        ("probe-worker", "new container", "1 of 2 failures"),
        ("probe-worker", "1 of 2 failures", "on hold"),
        ("probe-worker", "on hold", "new container"),
        ("back-off", "no delay", "10 s"),
        ("back-off", "10 s", "10 s"),
    } <= found


def test_plugins_come_and_go():
    pod = a_pod(shell("m", "sleep 1000", resources={"limits": {"nvidia.com/gpu": "1"}}))
    plan = ["@5s device #1 unhealthy", "@10s restart plugin nvidia.com/gpu", "@30s crash kubelet"]
    found = taken(pod, plan=plan, devices="a100x8")
    assert {
        ("plugin-endpoint", "unknown", "registered"),
        ("plugin-endpoint", "registered", "healthy"),
        ("plugin-endpoint", "healthy", "healthy"),
        ("plugin-endpoint", "healthy", "gone"),
        ("plugin-endpoint", "gone", "unhealthy"),
        ("plugin-endpoint", "unhealthy", "healthy"),
    } <= found


def test_a_trace_by_itself_tells_the_same():
    outcome = run_case(Case(documents=(a_pod(shell("m", "sleep 2; exit 1")),), seed=1))
    whole = transitions_of(outcome.records)
    assert {key: whole[key] for key in outcome.transitions} == dict(outcome.transitions)
