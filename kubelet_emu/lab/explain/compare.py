"""Two runs told beside each other: where their stories part (pure)."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from kubelet_emu.lab.explain.moments import Moment
from kubelet_emu.lab.explain.story import Story

__all__ = ["diff_lines"]


def diff_lines(first: Story, second: Story) -> Iterable[str]:
    """What the two runs tell differently; times are shown, but differences of time alone are none."""
    recorded = first.reading.recorded or second.reading.recorded
    left, right = _told(first, recorded=recorded), _told(second, recorded=recorded)
    names = [set(story.reading.pods) for story in (first, second)]
    several = any(len(one) > 1 for one in names)
    keys = [[_key(moment, several=several) for moment in side] for side in (left, right)]
    matcher = SequenceMatcher(a=keys[0], b=keys[1], autojunk=False)
    yield f"- {first.reading.title}: {first.reading.end:g} s, {len(left)} moments"
    yield f"+ {second.reading.title}: {second.reading.end:g} s, {len(right)} moments"
    same = True
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            until = f"up to {left[a2 - 1].t:.3f} s and {right[b2 - 1].t:.3f} s"
            yield f"  … {a2 - a1} moment{'s' * (a2 - a1 != 1)} alike, {until}"
            continue
        if same:
            yield "  here the stories part:"
            same = False
        yield from (_line("-", moment) for moment in left[a1:a2])
        yield from (_line("+", moment) for moment in right[b1:b2])
    if same:
        yield "Both runs tell the same story."


def _told(story: Story, *, recorded: bool) -> list[Moment]:
    kinds = ("sync", "reset", "exit", "action", "invariant", "fault")
    told = [moment for moment in story.moments if moment.kind in kinds]
    told = [moment for moment in told if moment.did or moment.kind != "sync" or "back-off" in moment.title]
    # What a recording cannot show, such as the end of a killed container, is no difference.
    if recorded:
        told = [moment for moment in told if not moment.title.endswith("asked to.")]
    return told


def _key(moment: Moment, *, several: bool) -> tuple[str, ...]:
    # Old instances are removed in the background, which may fall into one sync or the next.
    noise = ("warned: ",) if moment.kind == "reset" else ("removed ", "warned: ")
    did = sorted(_did(text) for text in moment.did if not text.startswith(noise))
    return (moment.pod if several else "", moment.kind, moment.title, *did)


def _did(text: str) -> str:
    """A thing done without how long it took."""
    return text.partition(" (")[0]


def _line(sign: str, moment: Moment) -> str:
    did: Sequence[str] = moment.did
    rules = ", ".join(dict.fromkeys(fired.rule for fired in moment.rules))
    more = f" [{'; '.join(map(_did, did))}]" if did else ""
    return f"{sign} {moment.t:9.3f} s  {moment.title}{more}{'  ' + rules if rules else ''}"
