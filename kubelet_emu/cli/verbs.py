"""The verbs of ``kubelet-emu``; each one's module is imported when the verb is used."""

import importlib
from collections.abc import Mapping

import click

__all__ = ["VERBS", "cli"]

VERBS: Mapping[str, tuple[str, str]] = {
    "run": ("kubelet_emu.cli.run", "Run Pod manifests on an emulated node and show what happened, and why."),
    "conform": (
        "kubelet_emu.cli.conform",
        "Judge restart scenarios by expectations and by recordings of a real node.",
    ),
    "explain": (
        "kubelet_emu.cli.explain",
        "Tell the story of a run, one decision at a time.",
    ),
    "fuzz": (
        "kubelet_emu.cli.fuzz",
        "Search for pods and faults that break an invariant, and make them small.",
    ),
    "replay": (
        "kubelet_emu.cli.replay",
        "Run a case again from a file, a trace or a seed, at once or step by step.",
    ),
    "serve": ("kubelet_emu.cli.serve", "Serve a node in real time until stopped."),
    "timeline": ("kubelet_emu.cli.timeline", "Draw a run as an SVG picture, or several above each other."),
    "view": ("kubelet_emu.cli.view", "Write a page to step through a run in the browser."),
    "lint": ("kubelet_emu.cli.lint", "Say what restarts of a manifest will be like, and what will surprise."),
    "diagram": ("kubelet_emu.cli.diagram", "Show the state machines, drawn from what the code runs on."),
    "version": ("kubelet_emu.cli.version", "Print the version and the Kubernetes release that is emulated."),
}
"""Verb to the module that holds its command, and its one-line help (so that --help loads nothing else)."""


class _LazyGroup(click.Group):
    """A group that imports a verb's module when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return importlib.import_module(VERBS[cmd_name][0]).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            hint = "a manifest? kubelet-emu run " + args[0] if "." in args[0] or "/" in args[0] else ""
            known = ", ".join(VERBS)
            ctx.fail(f"there is no command {args[0]!r}: {hint or f'there are {known}'}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_KUBELET_EMU_COMPLETE=bash_source kubelet-emu)" '
    "(or zsh_source, fish_source).",
)
def cli() -> None:
    """One Kubernetes node in pure Python: a kubelet, a CRI runtime and the wire between them.

    \b
    Examples:
      kubelet-emu run pod.yaml                     what happens to this pod, in virtual time
      kubelet-emu run pod.yaml --until 35s         stop after 35 simulated seconds
      kubelet-emu run pod.yaml --exit main=1@5s    let a container fail
      kubelet-emu conform                          compare with recordings of a real kubelet
    """
