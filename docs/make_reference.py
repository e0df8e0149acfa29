"""Writes the parts of the reference that are made from the code: ``python docs/make_reference.py FOLDER``."""

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "proto"), str(ROOT)]


def cli() -> Iterable[str]:
    """The help of every verb."""
    import importlib

    import click

    from kubelet_emu.cli.verbs import VERBS

    for verb, (module, text) in VERBS.items():
        command = importlib.import_module(module).command
        name = f"kubelet-emu {verb}"
        context = click.Context(command, info_name=name, terminal_width=90, max_content_width=90)
        yield f"## {verb}\n\n{text}\n\n```text\n{command.get_help(context)}\n```\n"


def rules() -> Iterable[str]:
    """One table for each sort of rule."""
    from kubelet_emu.rules import AREAS, RULES

    for letters, name in AREAS.items():
        yield f"## {letters}: {name}\n\n| rule | what it says |\n| --- | --- |"
        mine = (rule for rule in sorted(RULES) if rule.startswith(letters))
        yield from (f"| {rule} | {RULES[rule]} |" for rule in mine)
        yield ""


def lint() -> Iterable[str]:
    """A table of checks."""
    from kubelet_emu.lab.lint import CHECKS

    yield "| check | what it looks for |\n| --- | --- |"
    yield from (f"| `{name}` | {text} |" for name, text in CHECKS.items())


def machines(folder: Path) -> Iterable[str]:
    """A picture of each machine."""
    from kubelet_emu.lab.pictures.diagram import diagram_svg
    from kubelet_emu.lab.pictures.machines import MACHINES, machine

    for name in MACHINES:
        found = machine(name)
        (folder / f"_{name}.svg").write_text(diagram_svg(found), encoding="utf-8")
        yield f"## {found.title}\n\n![{found.title}](_{name}.svg)\n"


def main(folder: Path) -> None:
    """Write all of it."""
    parts = {"_cli.md": cli(), "_rules.md": rules(), "_lint.md": lint(), "_machines.md": machines(folder)}
    for name, lines in parts.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
