"""The picture of a pod's life: one lane each for the pod, its sandboxes, devices and containers. (pure)

Time runs from left to right, not to scale: where much happens there is more room. Lanes that do not fit the
width go on in a further band below.
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, frozen

from kubelet_emu.lab.report.axis import Band, Stretch, bands
from kubelet_emu.lab.report.lanes import Mark, PodLanes, Segment, What, pod_lanes
from kubelet_emu.lab.report.text import Line, Span, Style, line, seconds_text, shorten, wrapped
from kubelet_emu.trace.schema import Trace

__all__ = ["ASCII", "UNICODE", "Glyphs", "draw", "timeline"]

WIDTH_MIN = 60
WIDTH_MAX = 220
NAME_MAX = 24
BANDS_FIRST = 4
BANDS_LAST = 2
"""A picture of more bands than these two together leaves out the ones between."""


@frozen(kw_only=True)
class Glyphs:
    """The characters of a picture."""

    fill: Mapping[What, str]
    good: str
    bad: str
    goes_on: str
    restart: str
    action: str
    ellipsis: str
    tick: str


UNICODE = Glyphs(
    fill={
        "phase": "─",
        "phase-ready": "━",
        "sandbox": "═",
        "ready": "━",
        "running": "─",
        "stopping": "▒",
        "backoff": "╌",
        "waiting": "·",
        "pulling": "░",
        "failed": "╳",
        "devices": "≡",
        "devices-unhealthy": "≢",
    },
    good="✓",
    bad="✗",
    goes_on="▶",
    restart="↻",
    action="▼",
    ellipsis="…",
    tick="╵",
)
ASCII = Glyphs(
    fill={
        "phase": "-",
        "phase-ready": "=",
        "sandbox": "=",
        "ready": "=",
        "running": "-",
        "stopping": "~",
        "backoff": "_",
        "waiting": ".",
        "pulling": ":",
        "failed": "!",
        "devices": "#",
        "devices-unhealthy": "%",
    },
    good="+",
    bad="x",
    goes_on=">",
    restart="R",
    action="V",
    ellipsis="..",
    tick="'",
)

_STYLES: Mapping[What, Style] = {
    "phase": "",
    "phase-ready": "good",
    "sandbox": "dim",
    "ready": "run",
    "running": "run",
    "stopping": "warn",
    "backoff": "wait",
    "waiting": "dim",
    "pulling": "wait",
    "failed": "bad",
    "devices": "good",
    "devices-unhealthy": "bad",
}
_MEANINGS: Mapping[What, str] = {
    "ready": "running and ready",
    "running": "running",
    "stopping": "being stopped",
    "backoff": "back-off",
    "waiting": "waiting",
    "pulling": "pulling its image",
    "failed": "failed to start",
    "devices": "holds so many devices",
    "devices-unhealthy": "holds devices of which so many are unhealthy",
}
_KINDS = {"init": "init", "sidecar": "sidecar", "regular": "", "ephemeral": "ephemeral", "": ""}


def timeline(trace: Trace, pod: str, *, width: int = 100, glyphs: Glyphs = UNICODE) -> list[Line]:
    """The picture of one pod of a trace, at most ``width`` columns wide (but at least ``WIDTH_MIN``)."""
    return draw(pod_lanes(trace, pod), width=width, glyphs=glyphs)


def draw(lanes: PodLanes, *, width: int = 100, glyphs: Glyphs = UNICODE) -> list[Line]:
    """Draw lanes that have been read already."""
    width = min(max(width, WIDTH_MIN), WIDTH_MAX)
    names = max([len(lane.name) for lane in lanes.lanes] or [0])
    kinds = max([len(_KINDS[lane.kind]) for lane in lanes.lanes] or [0])
    names = min(names, NAME_MAX)
    margin = names + 2 + (kinds + 2 if kinds else 0)
    ends = [lanes.start, lanes.end, *(mark.at for mark in lanes.marks)]
    axis = bands(ends, list(_stretches(lanes, glyphs)), max(width - margin, 20))
    left_out = len(axis) - BANDS_FIRST - BANDS_LAST
    lines: list[Line] = []
    for number, band in enumerate(axis):
        if left_out > 0 and BANDS_FIRST <= number < BANDS_FIRST + left_out:
            if number == BANDS_FIRST:
                until = axis[BANDS_FIRST + left_out].start
                text = f"{seconds_text(band.start)} to {seconds_text(until)} left out: more of the same"
                lines += [line(""), line((" " * margin + text, "dim"))]
            continue
        if lines:
            lines.append(line(""))
        last = number == len(axis) - 1
        lines += _draw_band(lanes, band, names, kinds, margin, glyphs, last=last)
    return [*lines, *_legend(lanes, margin, width, glyphs)]


def _end_label(segment: Segment, glyphs: Glyphs) -> str:
    if segment.code is None:
        return segment.ends
    return (glyphs.good if segment.code == 0 else glyphs.bad) + segment.ends


def _stretches(lanes: PodLanes, glyphs: Glyphs) -> Iterable[Stretch]:
    for lane in lanes.lanes:
        for segment in lane.segments:
            texts = [segment.begins, segment.middle, _end_label(segment, glyphs)]
            needed = sum(len(text) for text in texts) + 1
            instance = segment.code is not None or bool(segment.begins)
            if segment.middle:
                needed += 1
            yield Stretch(segment.start, min(segment.end, lanes.end), needed, apart=instance)


@define
class _Row:
    """The cells of one lane in one band."""

    characters: list[str]
    styles: list[Style]

    @classmethod
    def of(cls, width: int) -> "_Row":
        return cls([" "] * width, [""] * width)

    def put(self, column: int, text: str, style: Style) -> None:
        for offset, character in enumerate(text):
            if 0 <= column + offset < len(self.characters):
                self.characters[column + offset] = character
                self.styles[column + offset] = style

    def spans(self) -> list[Span]:
        result: list[Span] = []
        for character, style in zip(self.characters, self.styles, strict=True):
            if result and result[-1].style == style:
                result[-1] = Span(result[-1].text + character, style)
            else:
                result.append(Span(character, style))
        return result


def _draw_band(
    lanes: PodLanes, band: Band, names: int, kinds: int, margin: int, glyphs: Glyphs, *, last: bool
) -> list[Line]:
    lines: list[Line] = [(Span(" " * margin), *_times(band).spans())]
    ticks = _ticks(band, lanes.marks, glyphs)
    if ticks is not None:
        lines.append((Span(" " * margin), *ticks.spans()))
    for lane in lanes.lanes:
        name = shorten(lane.name, names, ellipsis=glyphs.ellipsis).ljust(names)
        head = [Span(f"{name}  ", "head" if not lane.kind else "")]
        if kinds:
            head.append(Span(f"{_KINDS[lane.kind]:{kinds}}  ", "dim"))
        row = _Row.of(band.width)
        for segment in lane.segments:
            _paint(row, segment, band, lanes.end, glyphs, last=last)
        lines.append((*head, *row.spans()))
    return lines


def _times(band: Band) -> _Row:
    """The times at the borders, as many as fit; the two ends come first."""
    row = _Row.of(band.width)
    free = [True] * band.width

    def place(column: int, text: str) -> None:
        if column < 0 or column + len(text) > band.width or not all(free[column : column + len(text)]):
            return
        row.put(column, text, "dim")
        for taken in range(max(column - 1, 0), min(column + len(text) + 1, band.width)):
            free[taken] = False

    place(0, seconds_text(band.start))
    final = seconds_text(band.end)
    place(band.width - len(final), final)
    shown = {seconds_text(band.start), final}
    for time, column in zip(band.borders[1:-1], band.columns[1:-1], strict=True):
        text = seconds_text(time)
        if text not in shown:
            place(column, text)
            shown.add(text)
    return row


def _ticks(band: Band, marks: Sequence[Mark], glyphs: Glyphs) -> _Row | None:
    """The line of marks below the times; None where there are none."""
    row = _Row.of(band.width)
    found = False
    for mark in marks:
        if band.shows(mark.at):
            found = True
            restart = mark.what == "restart-all"
            text = glyphs.restart if restart else f"{glyphs.action}{mark.text}"
            row.put(band.column(mark.at), text, "warn")
    return row if found else None


def _paint(row: _Row, segment: Segment, band: Band, end: float, glyphs: Glyphs, *, last: bool) -> None:
    begin, until = band.column(segment.start), band.column(min(segment.end, end))
    if until <= begin:
        return
    style = _STYLES[segment.what]
    row.put(begin, glyphs.fill[segment.what] * (until - begin), style)
    starts_here = band.shows(segment.start)
    ends_here = band.shows(segment.end) or (last and segment.end >= band.end) or until < band.width
    room = until - begin
    if segment.begins and starts_here and len(segment.begins) <= room:
        row.put(begin, segment.begins, "" if segment.what.startswith("phase") else style)
        begin += len(segment.begins)
        room = until - begin
    label = _end_label(segment, glyphs)
    if label and ends_here and len(label) <= room:
        mood: Style = style if segment.code is None else "good" if segment.code == 0 else "bad"
        row.put(until - len(label), label, mood)
        room -= len(label)
    if segment.middle and len(segment.middle) < room:
        row.put(begin + (room - len(segment.middle)) // 2, segment.middle, style)
    if segment.open and last and until == band.width and segment.what != "sandbox":
        row.put(until - 1, glyphs.goes_on, style)


def _legend(lanes: PodLanes, margin: int, width: int, glyphs: Glyphs) -> list[Line]:
    """What the characters mean: those that occur."""
    used = {segment.what for lane in lanes.lanes for segment in lane.segments}
    words: list[list[Span]] = [
        [Span(glyphs.fill[what] * 2, _STYLES[what]), Span(f" {meaning}", "dim")]
        for what, meaning in _MEANINGS.items()
        if what in used
    ]
    codes = [s.code for lane in lanes.lanes for s in lane.segments if s.code is not None]
    if 0 in codes:
        words.append([Span(f"{glyphs.good}0", "good"), Span(" ended well", "dim")])
    failed = sorted({code for code in codes if code})
    if failed:
        words.append([Span(f"{glyphs.bad}{failed[0]}", "bad"), Span(" ended with that exit code", "dim")])
    if any(mark.what == "restart-all" for mark in lanes.marks):
        words.append([Span(glyphs.restart, "warn"), Span(" all containers restarted in place", "dim")])
    if any(segment.open and segment.what != "sandbox" for lane in lanes.lanes for segment in lane.segments):
        words.append([Span(glyphs.goes_on, "run"), Span(" runs on", "dim")])
    return wrapped(words, width, indent=margin, gap=3)
