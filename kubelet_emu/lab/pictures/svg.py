"""SVG elements as text, byte for byte the same for the same values (pure)."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Literal, TypeAlias

__all__ = ["COLOURS", "Theme", "element", "number", "style", "text_width"]

COLOURS: Mapping[str, tuple[str, str]] = {
    "bg": ("#ffffff", "#0f141a"),
    "band": ("#f5f7f9", "#161c24"),
    "text": ("#1c2128", "#e4e9ef"),
    "ink": ("#ffffff", "#0b0f14"),
    "soft": ("#57606a", "#9aa5b1"),
    "grid": ("#d9dee3", "#2b333d"),
    "run": ("#3b7dd8", "#4f8fe6"),
    "init": ("#5b8c9e", "#6fa6ba"),
    "made": ("#b9cde8", "#2f4a6d"),
    "ok": ("#2f8f5b", "#4bb07a"),
    "bad": ("#c9372c", "#f0776c"),
    "wait": ("#b7791f", "#dba544"),
    "reset": ("#7d4fc4", "#a98be6"),
    "off": ("#c3cad2", "#3b4652"),
}
"""Colours by their use: on light ground, on dark ground."""

_STYLE = """\
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:var(--text)}
.h{font-size:16px;font-weight:600}.s{fill:var(--soft)}.n{font-size:11px;fill:var(--soft)}
.in{font-size:11px;fill:var(--ink)}.ind{font-size:11px;fill:var(--text)}
.bg{fill:var(--bg)}.band{fill:var(--band)}.grid{stroke:var(--grid)}.cursor{stroke:var(--bad)}
.run{fill:var(--run)}.init{fill:var(--init)}.made{fill:var(--made)}.ok{fill:var(--ok)}.bad{fill:var(--bad)}
.wait{fill:var(--wait)}.reset{fill:var(--reset)}.off{fill:var(--off)}.hatch{fill:url(#hatch);stroke:var(--wait);stroke-width:.6}
.tbad{font-size:11px;fill:var(--bad);font-weight:600}.tok{font-size:11px;fill:var(--ok)}
.tbad,.tok{paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}
.halo{font-size:11px;paint-order:stroke;stroke:var(--bg);stroke-width:5px;stroke-linejoin:round}.kill{stroke:var(--bad);stroke-width:2}.tick{stroke:var(--soft)}
.line{stroke:var(--soft);fill:none}.arrow{fill:var(--soft)}.box{fill:var(--band);stroke:var(--soft)}"""


Theme: TypeAlias = Literal["auto", "light", "dark"]


def style(theme: Theme = "auto") -> str:
    """The style sheet of every picture: it follows the reader's choice of light or dark, or is one."""
    if theme != "auto":
        place = 0 if theme == "light" else 1
        text = _STYLE
        for name, pair in COLOURS.items():
            text = text.replace(f"var(--{name})", pair[place])
        return f"<style>{text}</style>"
    light = ";".join(f"--{name}:{pair[0]}" for name, pair in COLOURS.items())
    dark = ";".join(f"--{name}:{pair[1]}" for name, pair in COLOURS.items())
    return f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}\n{_STYLE}</style>"


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def element(
    name: str,
    attributes: Mapping[str, object],
    *,
    text: str = "",
    title: str = "",
    inside: Iterable[str] = (),
) -> str:
    """One element. ``title`` is what a reader hears, or sees when pointing at it."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        shown = number(value) if isinstance(value, float) else str(value)
        parts.append(f' {key.replace("_", "-")}="{escape(shown)}"')
    body = "".join(inside) + (f"<title>{escape(title)}</title>" if title else "") + escape(text, quote=False)
    parts.append(f">{body}</{name}>" if body else "/>")
    return "".join(parts)


def text_width(text: str, size: float = 11.0) -> float:
    """About how wide a text is, in pixels; wide enough for common fonts."""
    return len(text) * size * 0.58
