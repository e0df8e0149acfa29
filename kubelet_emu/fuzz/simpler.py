"""Makes a failing case simpler by taking things out of it, one after the other (pure).

What is left is what the failure needs: each step, container, field and number that could go has gone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from kubelet_emu.sim.case import Case, Step
from node_host.plan import seconds_text

__all__ = ["describe", "simpler_cases", "simplified"]

ROUNDS_MAX = 200
"""Most times that a case is made simpler."""
_KEPT_POD = frozenset({"containers", "volumes"})
_KEPT_CONTAINER = frozenset({"name", "image"})
_PLAIN = ["sh", "-c", "sleep 600"]
_ENDS = ["sh", "-c", "exit 0"]

Manifest = Mapping[str, Any]


def simplified(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case that fails too and of which nothing more can be taken out. ``fails`` may say no for any case."""
    for _ in range(ROUNDS_MAX):
        smaller = next((each for each in simpler_cases(case) if fails(each)), None)
        if smaller is None:
            return case
        case = smaller
    return case


def simpler_cases(case: Case) -> Iterable[Case]:
    """Cases that are one thing simpler, the big things first. Some may be invalid."""
    yield from _without_steps(case)
    yield from _without_documents(case)
    for number, document in enumerate(case.documents):
        if document.get("kind", "Pod") == "Pod":
            for simpler in _simpler_pods(document):
                yield evolve(case, documents=_with(case.documents, number, simpler))
    if case.devices is not None:
        yield evolve(case, devices=None)
    if case.schedule != "uniform":
        yield evolve(case, schedule="uniform")
    if case.seed:
        yield evolve(case, seed=0)
        yield evolve(case, seed=1)
    for shorter in (20.0, 30.0):
        if shorter < case.duration_seconds:
            yield evolve(case, duration_seconds=shorter)


def _with(items: Sequence[Any], number: int, *instead: Any) -> tuple[Any, ...]:
    return (*items[:number], *instead, *items[number + 1 :])


def _without_steps(case: Case) -> Iterable[Case]:
    for number, step in enumerate(case.plan):
        yield evolve(case, plan=_with(case.plan, number))
        for simpler in _simpler_steps(step):
            yield evolve(case, plan=_with(case.plan, number, simpler))


def _simpler_steps(step: Step) -> Iterable[Step]:
    if step.trigger is not None:
        yield Step(at_seconds=step.at_seconds, text=str(step.deed))
        if step.at_seconds:
            yield Step(at_seconds=0, text=step.text)
    elif step.at_seconds != int(step.at_seconds):
        yield Step(at_seconds=int(step.at_seconds), text=step.text)
    text, _, last = step.text.rpartition(" ")
    if last[:1] == "x" and last[1:].isdigit():
        yield Step(at_seconds=step.at_seconds, text=text)


def _without_documents(case: Case) -> Iterable[Case]:
    for number, document in enumerate(case.documents):
        is_pod = document.get("kind", "Pod") == "Pod"
        if not is_pod or len(case.pods) > 1:
            yield evolve(case, documents=_with(case.documents, number))


def _simpler_pods(pod: Manifest) -> Iterable[Manifest]:
    spec = pod["spec"]
    for simpler in _simpler_specs(spec):
        yield {**pod, "spec": simpler}


def _simpler_specs(spec: Manifest) -> Iterable[Manifest]:
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind, ())
        for number in range(len(containers)):
            fewer = list(_with(containers, number))
            if fewer:
                yield {**spec, kind: fewer}
            elif kind == "initContainers":
                yield _without(spec, kind)
    for key in spec:
        if key not in _KEPT_POD and key != "initContainers":
            yield _without(spec, key)
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind, ())
        for number, container in enumerate(containers):
            for simpler in _simpler_containers(container, kind):
                yield {**spec, kind: list(_with(containers, number, simpler))}
    mounted = any(
        "volumeMounts" in one for kind in ("initContainers", "containers") for one in spec.get(kind, ())
    )
    if "volumes" in spec and not mounted:
        yield _without(spec, "volumes")


def _without(of: Manifest, key: str) -> Manifest:
    return {name: value for name, value in of.items() if name != key}


def _simpler_containers(container: Manifest, kind: str) -> Iterable[Manifest]:
    for key, value in container.items():
        if key in _KEPT_CONTAINER:
            continue
        if key == "command":
            yield from _simpler_commands(container, kind)
            continue
        yield _without(container, key)
        if key.endswith("Probe") or key == "lifecycle":
            for inner in value:
                if inner not in ("exec", "httpGet", "tcpSocket"):
                    yield {**container, key: _without(value, inner)}
        elif key == "restartPolicyRules" and len(value) > 1:
            for number in range(len(value)):
                yield {**container, key: list(_with(value, number))}


def _simpler_commands(container: Manifest, kind: str) -> Iterable[Manifest]:
    command = list(container["command"])
    sidecar = kind == "initContainers" and container.get("restartPolicy") == "Always"
    for simpler in (_PLAIN, _ENDS) if sidecar or kind == "containers" else (_ENDS,):
        if len(simpler[-1]) < len(command[-1]) and command != _PLAIN:
            yield {**container, "command": simpler}
    parts = str(command[-1]).split("; ")
    if command[:2] == ["sh", "-c"] and len(parts) > 1 and "{" not in command[-1]:
        for number in range(len(parts) - 1):
            yield {**container, "command": ["sh", "-c", "; ".join(_with(parts, number))]}


def describe(case: Case) -> str:
    """How big a case is, in a few words."""
    containers = sum(
        len(pod["spec"].get(kind, ())) for pod in case.pods for kind in ("initContainers", "containers")
    )
    steps = len(case.plan)
    return (
        f"{containers} container{'s' * (containers != 1)}, {steps} step{'s' * (steps != 1)}, "
        f"{seconds_text(case.duration_seconds)}"
    )
