"""Checks that a run is to satisfy: read before it starts, judged on its trace. (pure)

A check is about one pod. With several pods it is judged for each one that has the containers it names, unless
a pod's name stands before it: ``worker-0: final phase = Running``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.checks import CheckResult, evaluate
from kubelet_emu.lab.checks_grammar import parse_check
from kubelet_emu.lab.checks_timeline import Timeline
from kubelet_emu.lab.checks_values import Base, Instance, Keep, Path, Series
from kubelet_emu.trace.schema import Trace

__all__ = ["Expectation", "PodCheck", "containers_in", "containers_of", "judge", "read_expectations"]

_PREFIX = re.compile(r"\s*([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)\s*:\s*(.*)", re.DOTALL)


@frozen
class Expectation:
    """A check as written and the pods it is for."""

    check: str
    pods: tuple[str, ...]


@frozen
class PodCheck:
    """The verdict on one check for one pod."""

    pod: str
    result: CheckResult


def containers_in(check: object) -> frozenset[str]:
    """The names of all containers that a parsed check speaks of."""
    found: set[str] = set()
    pending: list[object] = [check]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending += value
        elif attrs.has(type(value)):
            if isinstance(value, Path):
                found.add(value.of if value.scope == "container" else "")
            elif isinstance(value, Instance | Base | Series | Keep):
                found.add(value.container)
            pending += [getattr(value, each.name) for each in attrs.fields(type(value))]
    return frozenset(found - {""})


def containers_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a pod object's containers, of all kinds."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return tuple(container["name"] for kind in kinds for container in spec.get(kind) or ())


def read_expectations(
    texts: Sequence[str], containers: Mapping[str, Sequence[str]]
) -> tuple[Expectation, ...]:
    """Read checks for pods given as name → names of their containers.

    Raises ``CallerError`` with every check that cannot be read or names a container that no pod has.
    """
    found: list[Expectation] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            found.append(_read(text, containers))
        except CallerError as error:
            problems += error.problems
    if problems:
        raise CallerError(problems)
    return tuple(found)


def _read(text: str, containers: Mapping[str, Sequence[str]]) -> Expectation:
    check, pods = text, tuple(containers)
    match = _PREFIX.fullmatch(text)
    if match is not None:
        if match[1] not in containers:
            names = ", ".join(containers)
            problem = Problem(
                f"there is no pod {match[1]!r}", path=f"--expect {text!r}", hint=f"pods: {names}"
            )
            raise CallerError([problem])
        check, pods = match[2], (match[1],)
    named = containers_in(parse_check(check))
    fitting = tuple(pod for pod in pods if named <= set(containers[pod]))
    if not fitting:
        known = sorted({name for pod in pods for name in containers[pod]})
        missing = sorted(named - set(known))
        what = f"there is no container {missing[0]!r}" if missing else "no pod has all of these containers"
        raise CallerError([Problem(what, path=f"--expect {text!r}", hint=f"containers: {', '.join(known)}")])
    return Expectation(check, fitting)


def judge(expectations: Iterable[Expectation], trace: Trace) -> tuple[PodCheck, ...]:
    """Judge all expectations on a trace, in the order in which they were given."""
    lines: dict[str, Timeline] = {}
    results: list[PodCheck] = []
    for expectation in expectations:
        for pod in expectation.pods:
            if pod not in lines:
                lines[pod] = Timeline.of(trace, pod)
            results.append(PodCheck(pod, evaluate(expectation.check, lines[pod])))
    return tuple(results)
