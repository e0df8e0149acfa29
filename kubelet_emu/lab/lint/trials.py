"""Checks that run a pod: what it does in some minutes of virtual time, and its init containers run twice.

What a program does is known only where it is emulated; a container whose program is not is left out.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubelet_emu.errors import KubeletEmuError
from kubelet_emu.gates import Gates
from kubelet_emu.lab.explain.reading import read_trace
from kubelet_emu.lab.explain.story import Story, tell
from kubelet_emu.lab.lint.checks import Given, containers_of
from kubelet_emu.lab.lint.finding import Finding, Severity
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.run import RunOptions, opaque_processes, run
from kubelet_emu.lab.until import UntilDuration
from kubelet_emu.settings import KubeletSettings

__all__ = ["trial_findings"]

Object = Mapping[str, Any]
TRIAL_SECONDS = 300.0
TWICE_SECONDS = 180.0
LOOP_LEAST = 3
"""Restarts in place within the trial that make a loop."""
_AGAIN = "-again"
_PAUSE = {"name": "lint-pause", "image": "registry.k8s.io/pause:3.10"}


def trial_findings(pod: Object, objects: Sequence[Object], gates: Gates) -> list[Finding]:
    """What a run of the pod shows. A pod that cannot be run here has no findings of this sort."""
    found: list[Finding] = []
    story = _run(pod, objects, gates, TRIAL_SECONDS)
    if story is not None:
        found += _loops(pod, story)
        found += _probe_kills(pod, story)
        found += _success_backoff(pod, story)
    found += _twice(pod, objects, gates)
    return found


def _run(pod: Object, objects: Sequence[Object], gates: Gates, seconds: float) -> Story | None:
    node = NodeOptions(seed=1, transport="memory", settings=KubeletSettings(gates=gates))
    options = RunOptions(node=node, until=UntilDuration(seconds))
    try:
        return tell(read_trace(run([pod], options, objects=objects).trace))
    except KubeletEmuError:
        return None


def _given(pod: Object, name: str) -> Given | None:
    return next((one for one in containers_of(pod) if one.name == name), None)


def _loops(pod: Object, story: Story) -> Iterable[Finding]:
    resets = [moment for moment in story.moments if moment.kind == "reset"]
    if len(resets) < LOOP_LEAST:
        return
    name = resets[-1].title.partition(" ")[0]
    given = _given(pod, name)
    if given is None:
        return
    yield Finding(
        check="loops-without-back-off",
        rule="RST-142",
        severity=Severity.WARNING,
        path=f"{given.path}.restartPolicyRules",
        text=f"{name}: in {TRIAL_SECONDS:g} seconds the whole pod restarted in place {len(resets)} times, "
        "without back-off",
        fix="let the container remember on a volume that it has asked once, or exit with another code then",
    )


_KILLED_BY = {"LivenessProbe": "liveness", "StartupProbe": "startup"}
"""Reasons of kills, with the probe that asked for them."""

_PROBE_FIXES = {
    "liveness": "give it a startupProbe that allows for the time it needs, or correct what the probe asks",
    "startup": "raise timeoutSeconds, or failureThreshold times periodSeconds, to the time that the start "
    "needs, or correct what the probe asks",
}


def _probe_kills(pod: Object, story: Story) -> Iterable[Finding]:
    killed: dict[tuple[str, str], int] = {}
    failed: dict[str, str] = {}
    for record in story.reading.trace.records:
        if record["k"] != "decision":
            continue
        inputs: Mapping[str, Any] = record.get("inputs", {})
        if (
            record["machine"] == "prober.worker"
            and record["outcome"].get("onHold")
            and inputs.get("probe") in _PROBE_FIXES
        ):
            failed[str(inputs.get("container"))] = str(inputs.get("probe"))
        # A probe also counts as failed once its container has ended by itself: only kills count here. If
        # nothing else runs, the pod is killed, which gives no reason; then the failure before it is.
        if record["machine"] == "kuberuntime.kill":
            probe = _KILLED_BY.get(str(inputs.get("reason"))) or failed.get(str(inputs["container"]))
            failed.pop(str(inputs["container"]), None)
            if probe is not None:
                key = (str(inputs["container"]), probe)
                killed[key] = killed.get(key, 0) + 1
    for (name, probe), count in killed.items():
        given = _given(pod, name)
        if count < LOOP_LEAST or given is None:
            continue
        yield Finding(
            check="probe-kills-again",
            rule="RST-057",
            severity=Severity.WARNING,
            path=f"{given.path}.{probe}Probe",
            text=f"{name}: its {probe} probe killed it {count} times in {TRIAL_SECONDS:g} seconds",
            fix=_PROBE_FIXES[probe],
        )


def _success_backoff(pod: Object, story: Story) -> Iterable[Finding]:
    for moment in story.moments:
        for surprise in moment.surprises:
            if surprise.rule == "RST-111" and "exited with 0" in surprise.text:
                given = _given(pod, surprise.text.partition(" ")[0])
                if given is not None:
                    yield Finding(
                        check="backs-off-after-success",
                        rule="RST-111",
                        severity=Severity.NOTE,
                        path=given.path,
                        text=f"{given.name}: it exits with 0 and is started again, later and later each time",
                        fix="set restartPolicy: OnFailure, use a Job, or let it run on",
                    )


# -- init containers, twice --


def _twice(pod: Object, objects: Sequence[Object], gates: Gates) -> Iterable[Finding]:
    inits = [given for given in containers_of(pod) if given.kind == "init"]
    if not inits or not pod["spec"].get("volumes"):
        return  # without volumes nothing of the first run is left for the second
    story = _run(_doubled(pod), objects, gates, TWICE_SECONDS)
    if story is None:
        return
    opaque = {name for _, name in opaque_processes(story.reading.trace.records)}
    codes = {
        name: one.code for p in story.reading.pods.values() for name in p.kinds for one in p.of(name)[:1]
    }
    for given in inits:
        first, second = codes.get(given.name), codes.get(given.name + _AGAIN)
        if first == 0 and second not in (0, None) and given.name not in opaque:
            yield Finding(
                check="init-not-reentrant",
                rule="RST-036",
                severity=Severity.WARNING,
                path=given.path,
                text=f"{given.name}: run a second time on the same volumes it exits with {second}; init "
                "containers "
                "run again when the pod loses its sandbox or restarts in place",
                fix="make it succeed when its work is done already (mkdir -p, ln -sfn, test before writing)",
            )


def _doubled(pod: Object) -> Object:
    """The pod with each init container twice, one round after the other, and nothing else in it."""
    twin: dict[str, Any] = copy.deepcopy(dict(pod))
    spec = twin["spec"]
    plain = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") != "Always"]
    first = [
        {k: v for k, v in one.items() if k not in ("restartPolicy", "restartPolicyRules")} for one in plain
    ]
    second = [{**one, "name": one["name"] + _AGAIN} for one in first]
    spec["initContainers"] = [*first, *second]
    spec["containers"] = [_PAUSE]
    spec["restartPolicy"] = "Never"
    spec.pop("ephemeralContainers", None)
    return twin
