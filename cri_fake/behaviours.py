"""What containers do, told from outside: values, the ``--exit`` option, and look-up (pure).

A behaviour is given for a container by name, for one of a pod, or for one instance of it; instances count
from 0 in the order of creation within their pod. All that fit are merged, field by field; the more exact
one wins: ``POD/NAME#N``, then ``NAME#N``, then ``POD/NAME``, then ``NAME``.

A told end overrides the command's own: the command is started and its output and files are real, but the
container exits when it is told to and with the code it is told, be the command still running or long done.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, fields, frozen

__all__ = [
    "Behaviour",
    "BehaviourProblem",
    "Behaviours",
    "LogLine",
    "PullBehaviour",
    "ReadinessStep",
    "Target",
    "parse_duration",
    "parse_exit",
    "parse_target",
]


class BehaviourProblem(Exception):
    """Raised for behaviours that cannot be read; ``problems`` are all ``(place, message)`` pairs."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{place}: {text}" if place else text for place, text in problems))


@frozen(order=True)
class Target:
    """Whom a behaviour is for; an empty ``pod`` is any pod, ``instance`` None is any instance."""

    name: str
    pod: str = ""
    instance: int | None = None

    def __str__(self) -> str:
        text = f"{self.pod}/{self.name}" if self.pod else self.name
        return text if self.instance is None else f"{text}#{self.instance}"


@frozen
class LogLine:
    """A line that the container is told to print, ``at_seconds`` after its start."""

    text: str
    at_seconds: float = 0.0
    stream: str = "stdout"


@frozen
class ReadinessStep:
    """From ``at_seconds`` after the start on, exec probes of the container succeed or fail."""

    at_seconds: float
    ready: bool


@frozen(kw_only=True)
class PullBehaviour:
    """What becomes of a pull. ``failure`` and ``code`` are the error of the first ``times`` pulls.

    ``times`` None means every pull; ``duration_seconds`` None leaves the time to size and seed.
    """

    failure: str | None = None
    code: str = "UNKNOWN"
    duration_seconds: float | None = None
    times: int | None = None


@frozen(kw_only=True)
class Behaviour:
    """What one instance does; None in a field leaves that to the container's own command.

    ``run_for_seconds`` counts from the start of the process. ``program`` replaces the command by a Python
    coroutine function that gets the process and returns its exit code.
    """

    run_for_seconds: float | None = None
    exit_code: int | None = None
    oom_kill: bool | None = None
    ignore_sigterm: bool | None = None
    log_lines: tuple[LogLine, ...] | None = None
    readiness: tuple[ReadinessStep, ...] | None = None
    start_failure: str | None = None
    pull: PullBehaviour | None = None
    program: Callable[[Any], Awaitable[int]] | None = None

    def over(self, weaker: "Behaviour") -> "Behaviour":
        """This behaviour, with the fields it leaves open taken from a weaker one."""
        unset = {
            each.name: getattr(weaker, each.name)
            for each in fields(Behaviour)
            if getattr(self, each.name) is None
        }
        return evolve(self, **unset)

    def ready_at(self, seconds_since_start: float) -> bool | None:
        """What an exec probe finds at that time; None if nothing was told for it."""
        if self.readiness is None:
            return None
        verdict: bool | None = None
        for step in self.readiness:
            if step.at_seconds <= seconds_since_start:
                verdict = step.ready
        return verdict

    @property
    def told_end(self) -> bool:
        """True if the end of the process is told, not its own."""
        return self.run_for_seconds is not None


_NOTHING = Behaviour()


@frozen
class Behaviours:
    """All behaviours of a run. ``images`` are pulls by reference, as written or in normal form.

    ``decide`` is asked for each instance, ``(pod, name, instance)``; what it returns wins over everything
    else. ``container_images`` tells which image a container of a pod uses, for pull behaviours given by
    container.
    """

    by_target: Mapping[Target, Behaviour] = field(factory=dict[Target, Behaviour])
    images: Mapping[str, PullBehaviour] = field(factory=dict[str, PullBehaviour])
    decide: Callable[[str, str, int], Behaviour | None] | None = None

    def for_instance(self, pod: str, name: str, instance: int) -> Behaviour:
        """What that instance does, all that fits merged."""
        merged = _NOTHING
        if self.decide is not None:
            merged = self.decide(pod, name, instance) or _NOTHING
        for target in (
            Target(name, pod, instance),
            Target(name, "", instance),
            Target(name, pod),
            Target(name),
        ):
            weaker = self.by_target.get(target)
            if weaker is not None:
                merged = merged.over(weaker)
        return merged

    def for_pull(
        self, pod: str, references: Sequence[str], containers: Sequence[str]
    ) -> PullBehaviour | None:
        """What a pull for that pod does: by one of the names of the image, else by one of its containers."""
        for reference in references:
            if reference in self.images:
                return self.images[reference]
        for name in containers:
            for target in (Target(name, pod), Target(name)):
                found = self.by_target.get(target)
                if found is not None and found.pull is not None:
                    return found.pull
        return None

    def merged_with(self, other: "Behaviours") -> "Behaviours":
        """Both sets; where both tell the same field of the same target, ``other`` wins."""
        by_target = dict(self.by_target)
        for target, behaviour in other.by_target.items():
            known = by_target.get(target)
            by_target[target] = behaviour if known is None else behaviour.over(known)
        return Behaviours(by_target, {**self.images, **other.images}, other.decide or self.decide)


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(h|m(?!s)|s|ms))")
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TARGET = re.compile(
    r"(?:(?P<pod>[a-z0-9][a-z0-9.-]*)/)?(?P<name>[a-z0-9][a-z0-9-]*)(?:#(?P<instance>\d{1,9}))?"
)


def parse_duration(value: object) -> float:
    """Seconds from ``90``, ``1.5``, ``"35s"``, ``"1m30s"``, ``"250ms"``, ``"1h"``.

    Raises:
        ValueError: it is not a duration; the text says how to write one.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{value!r} is not a duration: write seconds or such as 35s, 1m30s, 250ms")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def parse_target(text: str) -> Target:
    """Read ``[POD/]NAME[#N]``.

    Raises:
        ValueError: it is not of that form.
    """
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a container: write [POD/]NAME[#N], such as trainer, job/trainer or trainer#0"
        )
    instance = match["instance"]
    return Target(match["name"], match["pod"] or "", None if instance is None else int(instance))


def parse_exit(text: str) -> tuple[Target, Behaviour]:
    """Read one ``[POD/]NAME[#N]=CODE@TIME`` of ``--exit``.

    Raises:
        BehaviourProblem: it is not of that form; says which part is wrong.
    """
    left, equals, right = text.partition("=")
    code_text, at, time_text = right.partition("@")
    if not equals or not at:
        raise BehaviourProblem([("", f"{text!r}: write [POD/]NAME[#N]=CODE@TIME, such as trainer#0=1@30s")])
    try:
        target = parse_target(left)
        run_for = parse_duration(time_text)
    except ValueError as error:
        raise BehaviourProblem([("", f"{text!r}: {error}")]) from None
    if not re.fullmatch(r"\d{1,3}", code_text) or int(code_text) > 255:
        raise BehaviourProblem([("", f"{text!r}: exit code {code_text!r} is not a number from 0 to 255")])
    return target, Behaviour(run_for_seconds=run_for, exit_code=int(code_text))
