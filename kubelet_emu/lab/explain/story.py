"""The story of a run as text: moments chosen, told line by line (pure)."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.explain import phrases
from kubelet_emu.lab.explain.inferred import infer_decisions
from kubelet_emu.lab.explain.kubectl import row_text
from kubelet_emu.lab.explain.moments import Moment, moments
from kubelet_emu.lab.explain.reading import Instance, PodReading, Reading
from kubelet_emu.lab.explain.surprises import find_surprises
from kubelet_emu.rules import RULES, sentence
from kubelet_emu.trace.schema import Record

__all__ = ["Story", "as_json", "at_lines", "rule_lines", "story_lines", "tell", "why_lines"]

_INDENT = 12
_LABEL = 9


@frozen
class Story:
    """A reading and its moments."""

    reading: Reading
    moments: tuple[Moment, ...]

    @property
    def surprises(self) -> int:
        """How many surprises are in it."""
        return sum(len(moment.surprises) for moment in self.moments)


def story_records(reading: Reading) -> Sequence[Record]:
    """The records in the order in which a story tells them, with inferred decisions where there are none."""
    if reading.recorded:
        return infer_decisions(reading)
    first = min((r["seq"] for r in reading.records), default=0)
    return [record for record in reading.trace.records if record["seq"] >= first]


def tell(reading: Reading) -> Story:
    """The whole story of a run."""
    return Story(reading, moments(reading, story_records(reading), judge=find_surprises))


# -- text --


def story_lines(
    story: Story, *, everything: bool = False, width: int = 100, chosen: Sequence[Moment] | None = None
) -> Iterable[str]:
    """The story, line by line; with ``everything`` also the moments in which nothing changed."""
    yield from _header(story)
    told: set[str] = set()
    several = len(story.reading.pods) > 1
    for moment in story.moments if chosen is None else chosen:
        if moment.quiet and not everything and chosen is None:
            continue
        yield ""
        yield from _moment_lines(moment, told, width, several=several)
    if story.surprises and chosen is None:
        yield ""
        yield f"{story.surprises} surprise{'s' * (story.surprises != 1)} on the way, marked with !"


def _header(story: Story) -> Iterable[str]:
    reading = story.reading
    yield f"{reading.title}: {reading.end:g} s"
    if reading.recorded:
        yield "The recording holds no decisions: those marked ~ are inferred from what the kubelet then did."


def _moment_lines(moment: Moment, told: set[str], width: int, *, several: bool) -> Iterable[str]:
    mark = "~" if moment.inferred else " "
    where = f"[{moment.pod}] " if several and moment.pod else ""
    yield f"{moment.t:9.3f} s{mark}{where}{moment.title}"
    yield from _part("saw", moment.saw, width)
    for fired in moment.rules:
        text = str(fired.rule) + (f" ({fired.about})" if fired.about else "")
        if fired.rule not in told:
            told.add(fired.rule)
            text += f"  {fired.sentence}" if fired.sentence else ""
        yield from _wrapped("rule", text, width)
    yield from _part("did", moment.did, width)
    if moment.kept:
        yield from _wrapped("kept", phrases.join(moment.kept), width)
    yield from _part("shows", moment.shows, width)
    if moment.person and (moment.shows or moment.kind == "action"):
        yield from _wrapped("kubectl", moment.person, width)
    for surprise in moment.surprises:
        yield from _wrapped("!", f"{surprise.text} ({surprise.rule})", width)


def _part(label: str, texts: Sequence[str], width: int) -> Iterable[str]:
    if texts:
        yield from _wrapped(label, "; ".join(texts), width)


def _wrapped(label: str, text: str, width: int) -> Iterable[str]:
    first = " " * _INDENT + f"{label:<{_LABEL}}"
    return textwrap.wrap(
        text,
        width=width,
        initial_indent=first,
        subsequent_indent=" " * (_INDENT + _LABEL),
        break_long_words=False,
    )


# -- choices --


def _find(story: Story, name: str) -> tuple[PodReading, Instance]:
    """The instance that ``main#2`` or ``POD/main#2`` names; the latest one for a bare container name."""
    pod_name, slash, label = name.rpartition("/")
    for pod in story.reading.pods.values():
        if slash and pod.name != pod_name:
            continue
        found = pod.instance(label) if "#" in label else next(iter(reversed(pod.of(label))), None)
        if found is not None:
            return pod, found
    known = [one.label for pod in story.reading.pods.values() for one in pod.instances]
    hint = f"known: {', '.join(dict.fromkeys(known))}" if known else "no container was ever created in it"
    raise CallerError([Problem(f"no container instance {name!r} in this run", path="--why", hint=hint)])


def why_lines(story: Story, name: str, *, width: int = 100) -> Iterable[str]:
    """Why one instance was started: what became of the one before it, and every decision in between.

    Raises ``CallerError`` for an instance that is not in the run.
    """
    pod, instance = _find(story, name)
    siblings = [one for one in pod.of(instance.container) if one.created < instance.created]
    before = siblings[-1] if siblings else None
    begun = before.ended if before is not None and before.ended is not None else pod.created
    reset = _reset_before(story, pod, before, instance)
    begun = min(begun, reset.t) if reset is not None else begun
    until = instance.started if instance.started is not None else instance.created
    yield _why_summary(pod, instance, before, reset)
    chosen = [
        moment
        for moment in story.moments
        if moment.pod == pod.name
        and begun - 1e-3 <= moment.t <= until + 1e-3
        and not moment.quiet
        and (
            moment.kind in ("action", "reset", "worker")
            or moment.about & {instance.container, instance.label}
        )
    ]
    if reset is not None:
        trigger = [m for m in story.moments if m.kind == "exit" and m.pod == pod.name and m.t <= reset.t][-1:]
        chosen = sorted({m.number: m for m in (*trigger, *chosen)}.values(), key=lambda m: m.number)
    yield from list(story_lines(story, width=width, chosen=chosen))[1:]


def _reset_before(
    story: Story, pod: PodReading, before: Instance | None, instance: Instance
) -> Moment | None:
    if before is None or before.removed is None:
        return None
    for moment in reversed(story.moments):
        if moment.kind == "reset" and moment.pod == pod.name and moment.t <= instance.created:
            return moment if moment.t <= before.removed else None
    return None


def _why_summary(pod: PodReading, instance: Instance, before: Instance | None, reset: Moment | None) -> str:
    at = instance.started if instance.started is not None else instance.created
    text = f"{instance.label} of pod {pod.name} started at {at:.3f} s"
    if before is None:
        return f"{text}: it is the first instance of {instance.container}."
    if reset is not None:
        return f"{text}, because {reset.title}"
    how = f"exited with {before.code}" if before.code is not None else "was gone"
    waits = [w for w in pod.backoffs.get(instance.container, []) if w.end is not None and w.end <= at + 1e-3]
    waited = bool(waits) and before.ended is not None and abs(waits[-1].start - before.ended) < 1.0
    delay = f", {at - (before.ended or at):.1f} s after it, back-off included" if waited else ""
    return f"{text}, because {before.label} {how}{delay}."


def rule_lines(story: Story, rule: str, *, width: int = 100) -> Iterable[str]:
    """What a rule says, and each moment in which it fired. Raises ``CallerError`` for an unknown rule."""
    wanted = rule.upper()
    chosen = [m for m in story.moments if any(fired.rule == wanted for fired in m.rules)]
    chosen += [m for m in story.moments if any(s.rule == wanted for s in m.surprises) and m not in chosen]
    if wanted not in RULES and not chosen:
        raise CallerError([Problem(f"unknown rule {rule!r}", path="--rule", hint="rules look like RST-121")])
    yield f"{wanted}: {sentence(wanted)}"
    if not chosen:
        yield "It did not fire in this run."
        return
    yield from story_lines(story, width=width, chosen=sorted(chosen, key=lambda m: m.number))


def at_lines(story: Story, t: float, *, width: int = 100) -> Iterable[str]:
    """The state of everything at one moment, and the last decision before it."""
    yield from _header(story)
    for pod in story.reading.pods.values():
        yield ""
        yield from _state_lines(pod, t)
        before = [m for m in story.moments if m.pod == pod.name and m.t <= t + 1e-9 and not m.quiet]
        if before:
            yield ""
            yield "  the last thing that happened:"
            yield from _moment_lines(before[-1], set(), width, several=False)
        following = [m for m in story.moments if m.pod == pod.name and m.t > t + 1e-9 and not m.quiet]
        if following:
            yield f"  next: {following[0].t:.3f} s, {following[0].title}"


def _state_lines(pod: PodReading, t: float) -> Iterable[str]:
    snapshot = pod.snapshot_at(t)
    row = row_text(snapshot, pod.spec) if snapshot is not None else "not created yet"
    yield f"{pod.name} at {t:g} s: {row}"
    for sandbox in pod.sandboxes:
        if sandbox.asked <= t:
            ended = sandbox.ended is not None and sandbox.ended <= t
            ready = sandbox.ready is not None and sandbox.ready <= t
            state = "stopped" if ended else "ready" if ready else "being made"
            yield f"  {phrases.short(sandbox.label):<16} {state}{' ' + sandbox.ip if sandbox.ip else ''}"
    for name in pod.kinds:
        there = [one for one in pod.of(name) if one.created <= t and (one.removed is None or one.removed > t)]
        state = _instance_state(there[-1], t) if there else "no instance"
        wait = next(
            (w for w in pod.backoffs.get(name, []) if w.start <= t and (w.end is None or w.end > t)), None
        )
        more = f", back-off {wait.text}" if wait is not None else ""
        label = there[-1].label if there else name
        yield f"  {label:<16} {state}{more}"


def _instance_state(one: Instance, t: float) -> str:
    if one.ended is not None and one.ended <= t:
        return f"exited with {one.code}" if one.code is not None else "exited"
    if one.stop_asked is not None and one.stop_asked <= t:
        return f"is being stopped (grace {one.stop_grace} s)"
    return "runs" if one.started is not None and one.started <= t else "created"


def as_json(story: Story) -> dict[str, Any]:
    """The story as plain JSON values."""
    reading = story.reading
    return {
        "title": reading.title,
        "recorded": reading.recorded,
        "seconds": reading.end,
        "moments": [_moment_json(moment) for moment in story.moments],
    }


def _moment_json(moment: Moment) -> dict[str, Any]:
    rules = [{"rule": one.rule, "about": one.about, "sentence": one.sentence} for one in moment.rules]
    shown: dict[str, Any] = {
        "number": moment.number,
        "t": round(moment.t, 4),
        "pod": moment.pod,
        "kind": moment.kind,
        "title": moment.title,
        "saw": list(moment.saw),
        "rules": rules,
        "did": list(moment.did),
        "kept": list(moment.kept),
        "shows": list(moment.shows),
        "kubectl": moment.person,
        "surprises": [{"rule": one.rule, "text": one.text} for one in moment.surprises],
        "about": sorted(moment.about),
        "seqs": list(moment.seqs),
        "inferred": moment.inferred,
        "quiet": moment.quiet,
    }
    return {key: value for key, value in shown.items() if value not in ([], "", False)} | {"t": shown["t"]}
