"""Generators of plans: what goes wrong during a run and what users do, in the lines of ``node_host.plan``."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.sim.case import Step
from kubelet_emu.strategies.draws import Draw, chance, one_of, quarter_seconds, weighted
from kubelet_emu.strategies.focus import FAULT_LEVELS, focus_named
from kubelet_emu.strategies.pods import RESOURCE

__all__ = ["KINDS", "STEPS_MAX", "Kind", "plans"]

STEPS_MAX: Mapping[str, int] = {"none": 1, "light": 2, "heavy": 4}
"""Most steps of a plan, by level of faults."""
LAST_SECONDS = 32
"""Steps come at most so long after the start."""
TOGETHER_SECONDS = 3
"""What goes wrong together does so within that time."""
BUSY_SECONDS = 8
"""Half of the steps come in the first seconds, which are the busiest ones."""

_METHODS = weighted(
    {
        "StartContainer": 4,
        "CreateContainer": 4,
        "StopContainer": 3,
        "RemoveContainer": 3,
        "RunPodSandbox": 2,
        "StopPodSandbox": 2,
        "RemovePodSandbox": 1,
        "ExecSync": 1,
        "PodSandboxStatus": 1,
        "ContainerStatus": 1,
        "ListContainers": 1,
        "ListPodSandbox": 1,
        "PullImage": 1,
        "ImageStatus": 1,
        "Status": 1,
    }
)
_DEVICE_METHODS = one_of(("Allocate", "PreStartContainer", "GetPreferredAllocation", "Register"))
_TRIGGER_METHODS = one_of(("StartContainer ", "CreateContainer ", "StopContainer ", "RunPodSandbox ", ""))
# Not NOT_FOUND: it says that something is gone, and a peer that lies about that is no fault to be survived.
_CODES = one_of(("UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED"))
_TIMES = weighted({"": 6, " x2": 2, " x3": 1, " x10": 1})
_DELAYS = one_of(("1s", "500ms", "3s", "10s"))
_AWAY = one_of(("2s", "5s", "15s"))
_DOWN = weighted({"": 3, " down 3s": 2, " down 10s": 1})
_PLUGIN_DOWN = weighted({"": 2, " down 10s": 3, " down 30s": 2})
"""Plugins are pods: they come back later than the kubelet does."""
_LOSE = weighted({"": 4, " lose-state": 1})
_GRACES = one_of(("", " grace 1", " grace 0", " grace 5"))
_SIGNALS = weighted({"9": 2, "15": 1})
_DEVICES = one_of((f"{RESOURCE}#0", f"{RESOURCE}#1"))
_HEALTH = one_of(("unhealthy", "healthy"))
_JUMPS = one_of(("+30s", "-30s", "+1h"))
_FACTORS = one_of(("4", "20"))
_LOST = one_of((" 2s", " UNAVAILABLE", ""))
_COUNT = st.integers(1, 4)


@frozen
class _Things:
    """What a step may be about: generators of a pod's name and of ``POD/CONTAINER``."""

    pods: "st.SearchStrategy[str]"
    containers: "st.SearchStrategy[str]"


@frozen
class Kind:
    """A kind of step: its weight at the levels none, light and heavy, and what makes its text.

    ``between`` is worth placing between two calls; ``devices`` needs a plugin.
    """

    weights: tuple[int, int, int]
    make: Callable[[Draw, _Things], str]
    between: bool = False
    devices: bool = False


def _calls(draw: Draw, what: str, methods: "st.SearchStrategy[str]" = _METHODS) -> str:
    return f"{what} {draw(methods)}"


KINDS: Mapping[str, Kind] = {
    "crash kubelet": Kind((0, 10, 10), lambda draw, of: f"crash kubelet{draw(_DOWN)}", between=True),
    "error": Kind((0, 6, 8), lambda draw, of: f"{_calls(draw, 'error')} {draw(_CODES)}{draw(_TIMES)}"),
    "delete": Kind((4, 3, 3), lambda draw, of: f"delete pod {draw(of.pods)}{draw(_GRACES)}", between=True),
    "signal": Kind((2, 2, 2), lambda draw, of: f"signal {draw(of.containers)} {draw(_SIGNALS)}"),
    "image": Kind((2, 1, 1), lambda draw, of: f"image {draw(of.containers)} busybox:1.37"),
    "ephemeral": Kind((1, 1, 1), lambda draw, of: f"ephemeral {draw(of.pods)} debug"),
    "resize": Kind((1, 1, 1), lambda draw, of: f"resize {draw(of.containers)} cpu=200m"),
    "remove": Kind((0, 3, 3), lambda draw, of: f"remove {draw(of.containers)}"),
    "oom": Kind((0, 1, 1), lambda draw, of: f"oom {draw(of.containers)}"),
    "reboot": Kind((0, 3, 4), lambda draw, of: f"reboot node{draw(_LOSE)}", between=True),
    "crash runtime": Kind(
        (0, 2, 3), lambda draw, of: f"crash runtime{draw(_LOSE)}{draw(_DOWN)}", between=True
    ),
    "crash plugin": Kind(
        (0, 8, 8), lambda draw, of: f"crash plugin {RESOURCE}{draw(_PLUGIN_DOWN)}", between=True, devices=True
    ),
    "device": Kind((0, 1, 2), lambda draw, of: f"device {draw(_DEVICES)} {draw(_HEALTH)}", devices=True),
    "error plugin": Kind(
        (0, 1, 2),
        lambda draw, of: f"{_calls(draw, 'error', _DEVICE_METHODS)} {draw(_CODES)}{draw(_TIMES)}",
        devices=True,
    ),
    "delay": Kind((0, 2, 3), lambda draw, of: f"{_calls(draw, 'delay')} {draw(_DELAYS)}{draw(_TIMES)}"),
    "lose-reply": Kind((0, 2, 4), lambda draw, of: f"{_calls(draw, 'lose-reply')}{draw(_LOST)}"),
    "hang": Kind((0, 0, 2), lambda draw, of: f"{_calls(draw, 'hang')} {draw(_DELAYS)}"),
    "duplicate": Kind((0, 0, 2), lambda draw, of: _calls(draw, "duplicate")),
    "kill-sandbox": Kind((0, 2, 3), lambda draw, of: f"kill-sandbox {draw(of.pods)}", between=True),
    "stop-sandbox": Kind((0, 1, 2), lambda draw, of: f"stop-sandbox {draw(of.pods)}", between=True),
    "miss-pleg": Kind((0, 1, 2), lambda draw, of: f"miss-pleg{draw(_TIMES)}"),
    "late-pleg": Kind((0, 1, 2), lambda draw, of: f"late-pleg {draw(_DELAYS)}{draw(_TIMES)}"),
    "api away": Kind((0, 1, 2), lambda draw, of: f"api away {draw(_AWAY)}"),
    "api stale": Kind((0, 0, 2), lambda draw, of: f"api stale {draw(_AWAY)}"),
    "api conflict": Kind((0, 1, 1), lambda draw, of: f"api conflict{draw(_TIMES)}"),
    "registry": Kind((0, 1, 1), lambda draw, of: f"registry down {draw(_AWAY)}"),
    "clock": Kind((0, 0, 1), lambda draw, of: f"clock {draw(_JUMPS)}"),
    "slow": Kind((0, 1, 2), lambda draw, of: f"slow processes x{draw(_FACTORS)} {draw(_AWAY)}"),
}
"""All kinds of steps, the plainest first."""


@cache
def _kinds(level: str, focus: str, devices: bool) -> "st.SearchStrategy[str]":
    column, chosen = FAULT_LEVELS.index(level), focus_named(focus)
    return weighted(
        {
            name: kind.weights[column] * chosen.plan.get(name, 1)
            for name, kind in KINDS.items()
            if devices or not kind.devices
        }
    )


@cache
def _counts(level: str) -> "st.SearchStrategy[int]":
    most = STEPS_MAX[level]
    return weighted({0: 1, **{count: 3 if count < 3 else 2 for count in range(1, most + 1)}})


@cache
def _plans(
    pods: tuple[str, ...], inside: tuple[str, ...], level: str, focus: str, devices: bool
) -> "st.SearchStrategy[tuple[Step, ...]]":
    kinds, counts = _kinds(level, focus, devices), _counts(level)
    things = _Things(one_of(pods), one_of(inside))

    @st.composite
    def step(draw: Draw) -> Step:
        kind = KINDS[draw(kinds)]
        text = kind.make(draw, things)
        at_seconds = quarter_seconds(draw, 0, LAST_SECONDS if chance(draw, 50) else BUSY_SECONDS)
        if kind.between and chance(draw, 45):
            text = f"after {draw(_COUNT)} {draw(_TRIGGER_METHODS)}calls {text}"
        return Step(at_seconds=at_seconds, text=text)

    one = step()

    @st.composite
    def plan(draw: Draw) -> tuple[Step, ...]:
        found = [draw(one) for _ in range(draw(counts))]
        plugins = [step for step in found if step.text.startswith("crash plugin")]
        if plugins and len(found) < STEPS_MAX[level] and chance(draw, 80):
            # What takes a plugin down takes the kubelet down often, and the plugin comes back last.
            soon = plugins[0].at_seconds + quarter_seconds(draw, 0, TOGETHER_SECONDS)
            found.append(Step(at_seconds=soon, text="crash kubelet"))
        return tuple(sorted(found, key=lambda step: step.at_seconds))

    return plan()


def plans(
    documents: Sequence[Mapping[str, Any]],
    *,
    faults: str = "light",
    focus: str = "all",
    devices: bool = False,
) -> "st.SearchStrategy[tuple[Step, ...]]":
    """Plans that fit these manifests, by time. ``devices`` has plugins and devices go wrong too.

    Raises ``CallerError`` for no pod, for an unknown level of faults and for an unknown focus.
    """
    if faults not in FAULT_LEVELS:
        known = ", ".join(FAULT_LEVELS)
        raise CallerError([Problem(f"there is no level {faults!r} of faults", hint=f"known: {known}")])
    focus_named(focus)
    manifests = [one for one in documents if one.get("kind", "Pod") == "Pod"]
    if not manifests:
        raise CallerError([Problem("there is no Pod", path="documents", hint="give at least one Pod")])
    pods = tuple(str(one["metadata"]["name"]) for one in manifests)
    inside = tuple(
        f"{one['metadata']['name']}/{container['name']}"
        for one in manifests
        for container in (*one["spec"]["containers"], *one["spec"].get("initContainers", ()))
    )
    return _plans(pods, inside, faults, focus, devices)
