"""``kubelet-emu view``: a page to step through a run."""

from typing import TYPE_CHECKING

import click

from kubelet_emu.cli import completion
from kubelet_emu.cli.source import SOURCE_HELP, load_reading, source_options

if TYPE_CHECKING:
    from kubelet_emu.trace.schema import Trace

__all__ = ["command", "show_page"]

_EPILOG = f"""{SOURCE_HELP}

\b
Examples:
  kubelet-emu view run.jsonl -o run.html
  kubelet-emu view pod.yaml --exit main=42@5s -o run.html --open
  kubelet-emu view recording:restart-all-regular-exit -o real.html
"""


@click.command("view", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.argument("source", metavar="SOURCE", shell_complete=completion.sources)
@click.option("--output", "-o", required=True, metavar="FILE", help="Where to; - for standard output.")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
@source_options
def command(
    source: str, output: str, show: bool, seed: int | None, exits: tuple[str, ...], until: str
) -> None:
    """Write one HTML file, without network: the run to play, step and search, with every part's state."""
    from kubelet_emu.cli.timeline import write_output
    from kubelet_emu.lab.explain.story import tell
    from kubelet_emu.lab.pictures.page import page_html

    write_output(output, page_html(tell(load_reading(source, seed=seed, exits=exits, until=until))))
    if show and output != "-":
        import webbrowser
        from pathlib import Path

        webbrowser.open(Path(output).resolve().as_uri())


def show_page(trace: "Trace") -> str:
    """Write the page of a run to a temporary file and open it; returns the file's name."""
    import tempfile
    import webbrowser
    from pathlib import Path

    from kubelet_emu.lab.explain.reading import read_trace
    from kubelet_emu.lab.explain.story import tell
    from kubelet_emu.lab.pictures.page import page_html

    with tempfile.NamedTemporaryFile("wb", prefix="kubelet-emu-", suffix=".html", delete=False) as file:
        file.write(page_html(tell(read_trace(trace))).encode())
    webbrowser.open(Path(file.name).as_uri())
    return file.name
