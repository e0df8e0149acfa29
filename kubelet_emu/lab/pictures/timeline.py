"""Timelines as SVG: one run, or several above each other on one scale of time (pure).

The picture is drawn from values only and rounded to tenths of a pixel, so that it is the same byte for byte.
What is too small to be seen is merged: an hour of crash loops does not draw what a reader cannot tell apart.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from kubelet_emu.lab.explain.reading import Instance, Reading
from kubelet_emu.lab.pictures.lanes import Bar, Dot, Lane, lanes_of
from kubelet_emu.lab.pictures.svg import Theme, element, number, style, text_width

__all__ = ["Window", "timeline_svg"]

WIDTH = 1200.0
LABELS = 200.0
"""Width of the column with the names of the lanes."""
MARGIN = 16.0
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
_TICKS_MAX = 12
_MERGE_PIXELS = 1.0
_MANY_CONTAINERS = 9
_CODES_MAX = 20
_FLAG_CHARACTERS_LEAST = 6
"""A shorter piece of what a flag stands for tells nothing."""


@frozen
class Window:
    """The part of the time that is drawn, in seconds."""

    start: float
    end: float

    def x(self, t: float) -> float:
        """Where a moment lies."""
        inside = min(max(t, self.start), self.end)
        return (
            LABELS + MARGIN + (inside - self.start) / (self.end - self.start) * (WIDTH - LABELS - 2 * MARGIN)
        )

    def sees(self, start: float, end: float) -> bool:
        """Whether something of that length is in it."""
        return end >= self.start and start <= self.end


def timeline_svg(
    readings: Sequence[Reading],
    *,
    start: float | None = None,
    end: float | None = None,
    theme: Theme = "auto",
) -> str:
    """One SVG document with all runs below each other. ``start`` and ``end`` cut the time, in seconds."""
    last = end if end is not None else max((reading.end for reading in readings), default=1.0)
    first = start if start is not None else 0.0
    window = Window(first, max(last, first + 0.1))
    parts: list[str] = []
    y = MARGIN
    for reading in readings:
        for pod in reading.pods.values():
            lanes = lanes_of(reading, pod)
            title = reading.title if len(reading.pods) == 1 else f"{reading.title}: {pod.name}"
            drawn, y = _panel(title, lanes, window, y)
            parts += drawn
    parts += _legend(y)
    height = y + 30.0
    names = "; ".join(reading.title for reading in readings)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(WIDTH)} {number(height)}" '
        f'width="{number(WIDTH)}" height="{number(height)}" role="img" aria-labelledby="t d">'
    )
    described = element("title", {"id": "t"}, text=f"Timeline of {names}")
    described += element("desc", {"id": "d"}, text=_description(readings))
    hatch = (
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="2" height="6" class="wait"/></pattern></defs>'
    )
    ground = element("rect", {"class": "bg", "width": WIDTH, "height": height})
    return "\n".join([head, described, style(theme), hatch, ground, *parts, "</svg>", ""])


def _description(readings: Sequence[Reading]) -> str:
    """The picture in words, for who cannot see it."""
    told: list[str] = []
    for reading in readings:
        for pod in reading.pods.values():
            phase = pod.phases[-1].text if pod.phases else "unknown"
            told.append(f"Pod {pod.name}, {reading.end:g} seconds, ends {phase}.")
            for name, kind in pod.kinds.items():
                ran = pod.of(name)
                codes = _codes(ran)
                told.append(
                    f"{kind} container {name}: {len(ran)} instance{'s' * (len(ran) != 1)}"
                    + (f", exit codes {codes}." if codes else ".")
                )
    return " ".join(told)


def _codes(instances: Sequence[Instance]) -> str:
    ended = ["?" if one.code is None else str(one.code) for one in instances if one.ended is not None]
    return ", ".join(ended[:_CODES_MAX]) + (" …" if len(ended) > _CODES_MAX else "")


# -- one run --


def _panel(title: str, lanes: Sequence[Lane], window: Window, y: float) -> tuple[list[str], float]:
    parts = [element("text", {"x": MARGIN, "y": y + 16.0, "class": "h"}, text=title)]
    top = y + 44.0
    crowded = sum(lane.kind == "container" for lane in lanes) >= _MANY_CONTAINERS
    bottom = top + sum(_height(lane, crowded=crowded) for lane in lanes)
    y = top
    for index, lane in enumerate(lanes):
        height = _height(lane, crowded=crowded)
        if index % 2 == 0:
            parts.append(element("rect", {"class": "band", "y": y, "width": WIDTH, "height": height}))
        y += height
    parts += _axis(window, top, bottom)
    y = top
    for lane in lanes:
        height = _height(lane, crowded=crowded)
        parts += _lane(lane, window, y, height)
        y += height
    return parts, bottom + 28.0


def _height(lane: Lane, *, crowded: bool) -> float:
    if lane.kind == "container":
        return 24.0 if crowded else 32.0
    return {"condition": 17.0, "writes": 17.0, "marks": 22.0}.get(lane.kind, 22.0)


def _axis(window: Window, top: float, bottom: float) -> Iterable[str]:
    length = window.end - window.start
    step = next((one for one in _STEPS if length / one <= _TICKS_MAX), length / _TICKS_MAX)
    count = int(window.start / step)
    while count * step <= window.end + 1e-9:
        t = count * step
        count += 1
        if t < window.start - 1e-9:
            continue
        x = window.x(t)
        yield element("line", {"class": "grid", "x1": x, "x2": x, "y1": top - 4, "y2": bottom})
        yield element(
            "text", {"x": x, "y": top - 9.0, "class": "n", "text_anchor": "middle"}, text=_clock(t, step)
        )


def _clock(t: float, step: float) -> str:
    if step >= 60:
        minutes = round(t / 60)
        return f"{minutes // 60}h{minutes % 60:02}" if minutes >= 60 else f"{minutes}m"
    return f"{t:.1f}s" if step < 1 else f"{round(t)}s"


def _lane(lane: Lane, window: Window, y: float, height: float) -> Iterable[str]:
    middle = y + height / 2
    yield element(
        "text",
        {"x": MARGIN, "y": middle + 4.0, "class": "n" if lane.kind in ("condition", "writes") else "l"},
        text=_cut(lane.name, 150 if lane.note else 190),
    )
    if lane.note:
        place = {"x": LABELS + 6.0, "y": middle + 4.0, "class": "n", "text_anchor": "end"}
        yield element("text", place, text=lane.note)
    thick = {"container": 14.0, "condition": 6.0}.get(lane.kind, 14.0)
    bar_y = middle - thick / 2 - (3.0 if lane.kind == "container" else 0.0)
    for bar in _merged(lane.bars, window):
        yield from _bar(bar, window, bar_y, thick)
    for bar in _merged(lane.thin, window):
        yield from _bar(bar, window, bar_y + thick + 1.5, 2.5)
    yield from _dots(lane, window, bar_y, thick)


def _cut(text: str, pixels: float) -> str:
    most = max(int(pixels / 6.6), 4)
    return text if len(text) <= most else text[: most - 1] + "…"


def _merged(bars: Sequence[Bar], window: Window) -> Iterable[Bar]:
    """Bars in sight; small neighbours that are too near to be told apart become one."""
    held: Bar | None = None
    more = 0
    for bar in bars:
        if not window.sees(bar.start, bar.end):
            continue
        if held is not None and _melts(held, bar, window, many=more > 0):
            look = bar.look if held.look == "made" else held.look
            held = Bar(held.start, max(held.end, bar.end), look, "", held.title)
            more += 1
            continue
        if held is not None:
            yield _told(held, more)
        held, more = bar, 0
    if held is not None:
        yield _told(held, more)


def _melts(held: Bar, bar: Bar, window: Window, *, many: bool) -> bool:
    near = window.x(bar.start) - window.x(held.end) < _MERGE_PIXELS
    small = window.x(bar.end) - window.x(bar.start) < _MERGE_PIXELS
    alike = bar.look == held.look or many or window.x(held.end) - window.x(held.start) < _MERGE_PIXELS
    return near and small and alike


def _told(bar: Bar, more: int) -> Bar:
    return Bar(bar.start, bar.end, bar.look, bar.text, f"{bar.title}, and {more} more") if more else bar


def _bar(bar: Bar, window: Window, y: float, height: float) -> Iterable[str]:
    x = window.x(bar.start)
    width = max(window.x(bar.end) - x, 1.0)
    shape: dict[str, object] = {"class": bar.look, "x": x, "y": y, "width": width, "height": height}
    if height > 8 and width > 6:
        shape["rx"] = 2
    yield element("rect", shape, title=bar.title)
    if bar.look == "hatch" and bar.text and text_width(bar.text) + 44 < width:
        place = {"x": x + width / 2, "y": y + height - 3.5, "class": "halo", "text_anchor": "middle"}
        yield element("text", place, text=bar.text)
    elif bar.look != "hatch" and bar.text and height > 8 and text_width(bar.text) + 8 < width:
        look = {"made": "ind", "off": "ind"}.get(bar.look, "in")
        yield element("text", {"x": x + 4.0, "y": y + height - 3.5, "class": look}, text=bar.text)


def _dots(lane: Lane, window: Window, y: float, height: float) -> Iterable[str]:
    seen: set[tuple[str, str, int]] = set()
    free = float("-inf")
    starts = sorted(window.x(bar.start) for bar in lane.bars if bar.end > bar.start and bar.look != "hatch")
    if lane.kind == "marks":
        starts = sorted(window.x(dot.t) for dot in lane.dots)
    for dot in sorted(lane.dots, key=lambda one: one.t):
        x = window.x(dot.t)
        key = (dot.shape, dot.look, round(x))
        if not window.sees(dot.t, dot.t) or key in seen:
            continue
        seen.add(key)
        near = x + 0.5 if lane.kind == "marks" else x - 0.5
        following = next((start for start in starts if start > near), WIDTH - 4)
        text = dot.text
        if dot.shape == "flag" and text and (following - x - 14) / 6.6 >= _FLAG_CHARACTERS_LEAST:
            text = _cut(text, following - x - 14)
        wide = text_width(text) + (14 if dot.shape == "flag" else 4)
        room = x >= free and x + wide <= following
        if dot.shape == "code" and not room and dot.look == "tbad":
            yield element(
                "line", {"class": "kill", "x1": x, "x2": x, "y1": y, "y2": y + height}, title=dot.title
            )
            continue
        if dot.shape in ("code", "flag") and dot.text and room:
            free = x + wide
        shown = text if room else ""
        yield from _dot(dot, x, y, height, text=shown, lane_kind=lane.kind)


def _dot(dot: Dot, x: float, y: float, height: float, *, text: str, lane_kind: str) -> Iterable[str]:
    match dot.shape:
        case "tick":
            yield element(
                "line",
                {"class": "tick", "x1": x, "x2": x, "y1": y + 3, "y2": y + height - 3},
                title=dot.title,
            )
        case "kill":
            yield element(
                "line",
                {"class": "kill", "x1": x, "x2": x, "y1": y - 3, "y2": y + height + 3},
                title=dot.title,
            )
        case "flag":
            points = f"{number(x)},{number(y)} {number(x + 8)},{number(y + 4)} {number(x)},{number(y + 8)}"
            yield element("polygon", {"class": dot.look, "points": points}, title=dot.title)
            yield element("line", {"class": "tick", "x1": x, "x2": x, "y1": y, "y2": y + height})
            if text:
                yield element("text", {"x": x + 11.0, "y": y + 10.0, "class": "n"}, text=text)
        case "code":
            if text:
                yield element(
                    "text",
                    {"x": x + 3.0, "y": y + height - 3.5, "class": dot.look},
                    text=text,
                    title=dot.title,
                )
        case _:
            below = y + height + 6.0 if lane_kind == "container" else y + height / 2
            size = 1.8 if lane_kind == "container" else 3.0
            yield element("circle", {"class": dot.look, "cx": x, "cy": below, "r": size}, title=dot.title)


_LEGEND = (
    ("made", "being made"),
    ("run", "runs"),
    ("init", "init, sidecar, kept"),
    ("ok", "ready, True"),
    ("hatch", "back-off"),
    ("reset", "hook, restart in place"),
    ("kill", "told to stop"),
    ("code", "exit code"),
    ("dot", "probe"),
)


def _legend(y: float) -> Iterable[str]:
    x = LABELS + MARGIN
    yield element("text", {"x": MARGIN, "y": y + 10.0, "class": "n"}, text="what it means")
    for look, text in _LEGEND:
        if look == "kill":
            yield element("line", {"class": "kill", "x1": x + 6, "x2": x + 6, "y1": y, "y2": y + 12})
        elif look == "code":
            yield element("text", {"x": x - 2.0, "y": y + 10.0, "class": "tbad"}, text="42")
        elif look == "dot":
            yield element("circle", {"class": "ok", "cx": x + 2.0, "cy": y + 6.0, "r": 1.8})
            yield element("circle", {"class": "bad", "cx": x + 9.0, "cy": y + 6.0, "r": 1.8})
        else:
            yield element("rect", {"class": look, "x": x, "y": y + 1.0, "width": 12, "height": 10, "rx": 2})
        yield element("text", {"x": x + 17.0, "y": y + 10.0, "class": "n"}, text=text)
        x += 17.0 + text_width(text) + 20.0
