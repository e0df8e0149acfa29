"""``kubelet-emu diagram``: the state machines as pictures, drawn from what the code runs on."""

import click

from kubelet_emu.cli import completion
from kubelet_emu.errors import CallerError, Problem

__all__ = ["command"]

_EPILOG = """\b
Examples:
  kubelet-emu diagram                          the names of all machines
  kubelet-emu diagram full-restart             one of them in words
  kubelet-emu diagram container -o container.svg
"""


@click.command("diagram", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.argument("name", required=False, shell_complete=completion.machines)
@click.option("--output", "-o", metavar="FILE", help="Write an SVG picture; - for standard output.")
def command(name: str | None, output: str | None) -> None:
    """Show a state machine: sandbox, container, pod worker, full restart, probe worker, plugin, back-off."""
    from kubelet_emu.cli.timeline import write_output
    from kubelet_emu.lab.pictures.diagram import diagram_svg, diagram_text
    from kubelet_emu.lab.pictures.machines import MACHINES, machine

    if name is None:
        for one in MACHINES:
            click.echo(f"{one:<16} {machine(one).title}")
        return
    if name not in MACHINES:
        raise CallerError([Problem(f"no machine {name!r}", hint=f"known: {', '.join(MACHINES)}")])
    found = machine(name)
    if output is None:
        for line in diagram_text(found):
            click.echo(line)
    else:
        write_output(output, diagram_svg(found))
