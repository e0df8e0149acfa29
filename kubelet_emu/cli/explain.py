"""``kubelet-emu explain``: the story of a run in plain sentences, one decision at a time."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kubelet_emu.cli import completion
from kubelet_emu.cli.source import SOURCE_HELP, load_reading, source_options

if TYPE_CHECKING:
    from kubelet_emu.lab.explain.story import Story

__all__ = ["command"]

_EPILOG = f"""{SOURCE_HELP}

\b
Examples:
  kubelet-emu explain pod.yaml --exit main=1@5s        run it, and tell what happened and why
  kubelet-emu explain run.jsonl --why main#2           why was main started the second time again
  kubelet-emu explain run.jsonl --rule RST-121         where a rule fired
  kubelet-emu explain restart-all-regular-exit --at 10s
  kubelet-emu explain --diff run.jsonl recording:restart-all-regular-exit
"""


@click.command("explain", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completion.sources)
@click.option("--why", metavar="[POD/]NAME[#N]", help="Why one instance of a container was started.")
@click.option("--rule", metavar="RULE", help="What a rule says, and the moments in which it fired.")
@click.option("--at", metavar="TIME", help="The state of everything at one moment (12.5s, 2m).")
@click.option("--diff", "differ", is_flag=True, help="Where the stories of two sources part.")
@click.option("--all", "everything", is_flag=True, help="Tell also of syncs in which nothing changed.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form."
)
@source_options
def command(
    sources: tuple[str, ...],
    why: str | None,
    rule: str | None,
    at: str | None,
    differ: bool,
    everything: bool,
    output: str,
    seed: int | None,
    exits: tuple[str, ...],
    until: str,
) -> None:
    """Tell the story of a run: what the kubelet saw, which rule fired, what it did, what it kept."""
    from kubelet_emu.lab.explain.story import as_json, tell

    if len(sources) != (2 if differ else 1):
        wanted = "two SOURCEs to compare" if differ else "one SOURCE; --diff compares two"
        raise click.UsageError(f"give {wanted}")
    if sum(option is not None for option in (why, rule, at)) + differ > 1:
        raise click.UsageError("give only one of --why, --rule, --at and --diff")
    stories = [tell(load_reading(source, seed=seed, exits=exits, until=until)) for source in sources]
    if output == "json":
        click.echo(json.dumps([as_json(story) for story in stories] if differ else as_json(stories[0])))
        return
    for line in _lines(stories, why, rule, at, everything=everything):
        click.echo(line)


def _lines(
    stories: "list[Story]", why: str | None, rule: str | None, at: str | None, *, everything: bool
) -> Iterable[str]:
    from kubelet_emu.lab.explain import story as told

    width = max(60, min(_columns(), 120)) if sys.stdout.isatty() else 100
    if len(stories) == 2:
        from kubelet_emu.lab.explain.compare import diff_lines

        return diff_lines(*stories)
    only = stories[0]
    if why is not None:
        return told.why_lines(only, why, width=width)
    if rule is not None:
        return told.rule_lines(only, rule, width=width)
    if at is not None:
        from kubelet_emu.cli.given import read_duration

        return told.at_lines(only, read_duration("--at", at), width=width)
    return told.story_lines(only, everything=everything, width=width)


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((100, 24)).columns
