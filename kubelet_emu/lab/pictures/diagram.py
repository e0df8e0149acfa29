"""State diagrams as SVG: states in a row, ways on above them, ways back below (pure)."""

from collections.abc import Iterable, Mapping, Sequence

from kubelet_emu.lab.pictures.machines import Machine
from kubelet_emu.lab.pictures.svg import Theme, element, number, style

__all__ = ["diagram_svg", "diagram_text"]

BOX = 176.0
GAP = 140.0
MARGIN = 24.0
LINE = 13.0
ARC = 34.0
"""How much higher an arc rises for each state that it passes."""


def diagram_text(machine: Machine) -> Iterable[str]:
    """The machine in words: one line an edge."""
    yield f"{machine.title} ({machine.name})"
    wide = max(len(edge.source) for edge in machine.edges)
    long = max(len(edge.label) for edge in machine.edges)
    for edge in machine.edges:
        target = "stays" if edge.source == edge.target else f"→ {edge.target}"
        yield f"  {edge.source:<{wide}}  {edge.label:<{long}}  {target}"


def diagram_svg(machine: Machine, *, theme: Theme = "auto") -> str:
    """The machine as a picture that stays the same byte for byte."""
    place = {state: index for index, state in enumerate(machine.states)}
    ways: dict[tuple[str, str], list[str]] = {}
    loops: dict[str, list[str]] = {state: [] for state in machine.states}
    for edge in machine.edges:
        if edge.source == edge.target:
            loops[edge.source].append(edge.label)
        else:
            ways.setdefault((edge.source, edge.target), []).append(edge.label)
    top = _room(ways, place, forward=True)
    bottom = _room(ways, place, forward=False)
    tall = 32.0 + LINE * max(len(labels) for labels in loops.values())
    row = MARGIN + 34.0 + top
    width = 2 * MARGIN + len(machine.states) * BOX + (len(machine.states) - 1) * GAP
    height = row + tall + bottom + MARGIN
    parts: list[str] = []
    for (source, target), labels in ways.items():
        parts += _way(place[source], place[target], labels, row, tall)
    for state in machine.states:
        parts += _box(state, place[state], loops[state], row, tall)
    size = f"{number(width)} {number(height)}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{number(width)}" '
        f'height="{number(height)}" role="img" aria-labelledby="t d">'
    )
    arrow = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" class="arrow"/></marker></defs>'
    )
    return "\n".join(
        [
            head,
            element("title", {"id": "t"}, text=machine.title),
            element("desc", {"id": "d"}, text=". ".join(line.strip() for line in diagram_text(machine))),
            style(theme),
            arrow,
            element("rect", {"class": "bg", "width": width, "height": height}),
            element("text", {"x": MARGIN, "y": MARGIN + 8.0, "class": "h"}, text=machine.title),
            *parts,
            "</svg>",
            "",
        ]
    )


def _room(ways: Mapping[tuple[str, str], Sequence[str]], place: Mapping[str, int], *, forward: bool) -> float:
    """Height that the arcs above (or below) the states need, their words included."""
    most = 0.0
    for (source, target), labels in ways.items():
        step = place[target] - place[source]
        if (step > 0) == forward and (abs(step) > 1 or not forward):
            most = max(most, abs(step) * ARC + LINE * len(labels) + 8)
        elif step == 1 and forward:
            most = max(most, LINE * len(labels))
    return most


def _left(index: int) -> float:
    return MARGIN + index * (BOX + GAP)


def _way(source: int, target: int, labels: Sequence[str], row: float, tall: float) -> Iterable[str]:
    step = target - source
    if step == 1:
        y = row + 16.0
        yield element(
            "path", _line(f"M{number(_left(source) + BOX)} {number(y)}H{number(_left(target) - 2)}")
        )
        middle = _left(source) + BOX + GAP / 2
        yield from _words(labels, middle, y - 6.0 - LINE * (len(labels) - 1))
        return
    up = step > 0
    rise = abs(step) * ARC
    edge = row if up else row + tall
    shift = 14.0 * (1 if up else -1)
    begin, end = _left(source) + BOX / 2 + shift, _left(target) + BOX / 2 - shift
    peak = edge - rise if up else edge + rise
    path = (
        f"M{number(begin)} {number(edge)}C{number(begin)} {number(peak)} "
        f"{number(end)} {number(peak)} {number(end)} {number(edge - 2 if up else edge + 2)}"
    )
    yield element("path", _line(path))
    # The curve reaches three quarters of the way to its control points.
    y = edge - rise * 0.75 - 5.0 - LINE * (len(labels) - 1) if up else edge + rise * 0.75 + 14.0
    yield from _words(labels, (begin + end) / 2, y)


def _line(path: str) -> dict[str, object]:
    return {"class": "line", "d": path, "marker-end": "url(#a)"}


def _words(labels: Sequence[str], x: float, y: float) -> Iterable[str]:
    for index, label in enumerate(labels):
        place: dict[str, object] = {"x": x, "y": y + index * LINE, "class": "halo", "text_anchor": "middle"}
        yield element("text", place, text=label)


def _box(state: str, index: int, loops: Sequence[str], row: float, tall: float) -> Iterable[str]:
    x = _left(index)
    yield element("rect", {"class": "box", "x": x, "y": row, "width": BOX, "height": tall, "rx": 8})
    yield element("text", {"x": x + BOX / 2, "y": row + 20.0, "text_anchor": "middle"}, text=state)
    for line, label in enumerate(loops):
        text = label.partition(" (")[0]
        place: dict[str, object] = {"x": x + 8.0, "y": row + 36.0 + line * LINE, "class": "n"}
        yield element("text", place, text=f"↻ {text}", title=label)
