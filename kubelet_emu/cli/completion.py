"""What a shell offers for arguments: files, scenarios, state machines.

Arguments here are plain text, so that a wrong one is reported with all other mistakes; without these
functions a shell would then offer nothing at all for them.
"""

import click
from click.shell_completion import CompletionItem

__all__ = ["files", "machines", "scenarios_or_files", "sources"]


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders: the shell lists them itself."""
    return [CompletionItem(incomplete, type="file")]


def scenarios_or_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Areas and ids of the scenarios that ship; files where none fits."""
    from kubelet_emu.lab.scenarios import AREAS, builtin_scenarios

    return _beginning([*AREAS, *(one.id for one in builtin_scenarios())], incomplete) or files(
        context, parameter, incomplete
    )


def sources(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Scenarios and their recordings; files where none fits, or where nothing is written yet."""
    from kubelet_emu.lab.scenarios import builtin_scenarios

    ids = [one.id for one in builtin_scenarios()] if incomplete else []
    found = _beginning([*ids, *(f"recording:{name}" for name in ids)], incomplete)
    return found or files(context, parameter, incomplete)


def machines(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the state machines."""
    from kubelet_emu.lab.pictures.machines import MACHINES

    return _beginning(list(MACHINES), incomplete)


def _beginning(words: list[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in sorted(set(words)) if word.startswith(incomplete)]
