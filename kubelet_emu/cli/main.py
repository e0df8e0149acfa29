"""Entry point of ``kubelet-emu``: finds the verb, loads its module, turns errors into messages and exit codes.

Exit codes: 0 fine, 1 a check or invariant failed, 2 misuse or invalid input, 130 after Ctrl-C.
"""

import importlib
import sys
from collections.abc import Mapping

import click

from kubelet_emu.errors import CallerError

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_MISUSE", "EXIT_OK", "cli", "main"]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_MISUSE = 2
EXIT_INTERRUPTED = 130

VERBS: Mapping[str, tuple[str, str]] = {
    "run": ("kubelet_emu.cli.run", "Run Pod manifests on an emulated node and show what happened, and why."),
    "conform": (
        "kubelet_emu.cli.conform",
        "Judge restart scenarios by expectations and by recordings of a real node.",
    ),
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


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_KUBELET_EMU_COMPLETE=bash_source kubelet-emu)" (or zsh_source, fish_source).',
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


def main() -> None:
    """Run the command line; never ends in a traceback for bad input or a broken pipe."""
    try:
        code = cli.main(prog_name="kubelet-emu", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_MISUSE)
    except CallerError as error:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        sys.exit(EXIT_MISUSE)
    except BrokenPipeError:
        # Whoever read our output has gone; that is no failure of ours, and nothing more can be said.
        sys.stderr.close()
        sys.exit(EXIT_OK)
    sys.exit(code if isinstance(code, int) else EXIT_OK)
