"""``kubelet-emu lint``: what the restarts of a manifest will be like, and what will surprise."""

import json
from typing import TYPE_CHECKING

import click

from kubelet_emu.cli import completion

if TYPE_CHECKING:
    from kubelet_emu.lab.lint import Behaviour, Finding

__all__ = ["command"]

EXIT_FOUND = 1
_EPILOG = """\b
Examples:
  kubelet-emu lint pod.yaml
  kubelet-emu lint deploy/ --fail-on error
  kubelet-emu lint pod.yaml -o sarif > lint.sarif
  kubelet-emu lint pod.yaml --gate RestartAllContainersOnContainerExits=false

\b
Exit codes:
  0  nothing as bad as --fail-on was found
  1  something was
  2  misuse, or a manifest that is not valid
"""


@click.command("lint", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completion.files)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "sarif"]),
    default="table",
    show_default=True,
    help="Form of the report on standard output.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="warning",
    show_default=True,
    help="The least bad finding that makes the exit code 1.",
)
@click.option("--no-trial", is_flag=True, help="Only read the manifests; do not run them.")
@click.option(
    "--gate", multiple=True, metavar="NAME=true|false", help="A feature gate of the node. Repeatable."
)
def command(paths: tuple[str, ...], output: str, fail_on: str, no_trial: bool, gate: tuple[str, ...]) -> int:
    """Say what the restarts of Pod manifests will be like, and what of it will surprise.

    PATH is a YAML or JSON file, a folder of them, or - for standard input. Each pod is read, and then run for
    some minutes of virtual time, its init containers twice.
    """
    from kubelet_emu.lab.lint.report import as_json, as_sarif, table_lines

    told, found = _lint(paths, gate, trial=not no_trial)
    if output == "json":
        click.echo(json.dumps(as_json(told, found), indent=2))
    elif output == "sarif":
        from kubelet_emu.cli.version import KUBERNETES

        click.echo(json.dumps(as_sarif(found, version=KUBERNETES), indent=2))
    else:
        for line in table_lines(told, found):
            click.echo(line)
    bad = {"error": ("error",), "warning": ("error", "warning"), "note": ("error", "warning", "note")}
    return EXIT_FOUND if any(str(one.severity) in bad.get(fail_on, ()) for one in found) else 0


def _lint(
    paths: tuple[str, ...], gate: tuple[str, ...], *, trial: bool
) -> "tuple[list[Behaviour], list[Finding]]":
    import sys

    from attrs import evolve

    from kubelet_emu.api.check import check_input
    from kubelet_emu.api.manifests import load
    from kubelet_emu.cli.given import read_gates
    from kubelet_emu.errors import CallerError, Problem
    from kubelet_emu.gates import Gates
    from kubelet_emu.lab.lint import behaviours, lint_pod
    from kubelet_emu.settings import KubeletSettings

    gates = read_gates(KubeletSettings(), gate)
    loaded = load(paths, stdin=sys.stdin.buffer)
    # A pod is judged as a cluster that has every gate would take it; what the node lacks is a finding.
    problems = list(check_input(loaded, gates=Gates()).problems)
    pods = [item for item in loaded.objects if item.kind == "Pod"]
    if not pods and not problems:
        problems.append(Problem("there is no Pod among the objects", hint="give at least one Pod manifest"))
    if problems:
        raise CallerError(problems)
    others = [item.json for item in loaded.objects if item.kind in ("ConfigMap", "Secret")]
    told: list[Behaviour] = []
    found: list[Finding] = []
    for item in pods:
        told += behaviours(item.json)
        name = str(item.json.get("metadata", {}).get("name", ""))
        for one in lint_pod(item.json, gates=gates, objects=others, trial=trial):
            place = item.source.place(Problem("", path=one.path))
            found.append(evolve(one, file=place.file, line=place.line, pod=name))
    return told, found
