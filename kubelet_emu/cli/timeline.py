"""``kubelet-emu timeline``: a run as a picture, or several runs above each other."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubelet_emu.cli import completion
from kubelet_emu.cli.source import SOURCE_HELP, load_reading, source_options
from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from kubelet_emu.lab.pictures.svg import Theme

__all__ = ["command", "write_output"]

SOURCES_MAX = 8
_EPILOG = f"""{SOURCE_HELP}

\b
Examples:
  kubelet-emu timeline run.jsonl -o run.svg
  kubelet-emu timeline pod.yaml --exit main=42@5s -o run.svg
  kubelet-emu timeline restart-all-regular-exit recording:restart-all-regular-exit -o both.svg
  kubelet-emu timeline run.jsonl --from 5s --to 15s -o part.svg
"""


@click.command("timeline", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completion.sources)
@click.option(
    "--output",
    "-o",
    required=True,
    metavar="FILE",
    help="Where to: FILE.svg, FILE.png (needs the extra kubelet-emu[png]), or - for standard output.",
)
@click.option("--from", "start", metavar="TIME", help="Begin of the part that is drawn (5s, 2m).")
@click.option("--to", "end", metavar="TIME", help="End of the part that is drawn.")
@click.option(
    "--theme",
    type=click.Choice(["auto", "light", "dark"]),
    default="auto",
    show_default=True,
    help="auto follows the reader's setting; a PNG is light unless you say dark.",
)
@source_options
def command(
    sources: tuple[str, ...],
    output: str,
    start: str | None,
    end: str | None,
    theme: "Theme",
    seed: int | None,
    exits: tuple[str, ...],
    until: str,
) -> None:
    """Draw runs as timelines: sandbox, volumes, devices, containers, conditions, phase, faults."""
    from kubelet_emu.cli.given import read_duration
    from kubelet_emu.lab.pictures.timeline import timeline_svg

    if len(sources) > SOURCES_MAX:
        raise click.UsageError(f"at most {SOURCES_MAX} SOURCEs fit above each other")
    first = read_duration("--from", start) if start is not None else None
    last = read_duration("--to", end) if end is not None else None
    if last is not None and last <= (first or 0.0):
        raise click.UsageError("--to must be later than --from")
    readings = [load_reading(source, seed=seed, exits=exits, until=until) for source in sources]
    png = output.endswith(".png")
    if png and theme == "auto":
        theme = "light"
    text = timeline_svg(readings, start=first, end=last, theme=theme)
    write_output(output, _png(text) if png else text)


def _png(text: str) -> bytes:
    try:
        from resvg_py import svg_to_bytes  # pyright: ignore
    except ImportError:
        hint = "pip install 'kubelet-emu[png]', or write an .svg"
        raise CallerError([Problem("a PNG needs the package resvg-py", path="--output", hint=hint)]) from None
    return bytes(svg_to_bytes(svg_string=text, zoom=2))  # pyright: ignore


def write_output(name: str, content: str | bytes) -> None:
    """Write a result to a file or, for ``-``, to standard output. Raises ``CallerError`` if that fails."""
    if name == "-":
        click.echo(content, nl=False)
        return
    data = content.encode() if isinstance(content, str) else content
    try:
        Path(name).write_bytes(data)
    except OSError as error:
        raise CallerError([Problem(f"{name} cannot be written: {error.strerror}", path="--output")]) from None
