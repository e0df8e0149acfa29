"""``kubelet-emu conform``: judge scenarios by their expectations and by recordings of a real node."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kubelet_emu.cli import completion
from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from kubelet_emu.lab.conform import Against, ScenarioReport
    from kubelet_emu.lab.conform_run import Bench, Judging
    from kubelet_emu.lab.node import Transport
    from kubelet_emu.lab.scenarios import Scenario

__all__ = ["command", "parse_seeds"]

Output = Literal["table", "json", "junit"]
SEED_MAX = 2**63 - 1
SEEDS_MAX = 1000
JOBS_MAX = 256
RATE_MAX = 1000.0
PODS_AT_ONCE = 16
"""Scenarios beside each other on a runtime in real time; more starts at once make a small machine late."""

_EXAMPLES = """\b
Examples:
  kubelet-emu conform                              all scenarios that ship, against all recordings
  kubelet-emu conform restart-all sidecar          two areas
  kubelet-emu conform --rule RST-121               the scenarios in which a rule fires
  kubelet-emu conform mine/ --recordings rec/      your own scenarios and recordings
  kubelet-emu conform --explain restart-all-sidecar-exit
  kubelet-emu conform restart --cri-endpoint unix:///run/containerd/containerd.sock
"""


@click.command(
    "conform",
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument(
    "words", nargs=-1, metavar="[PATH|AREA|ID|RULE]...", shell_complete=completion.scenarios_or_files
)
@click.option("--area", "areas", multiple=True, metavar="AREA", help="Scenarios of an area. Repeatable.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="One scenario. Repeatable.")
@click.option(
    "--rule", "rules", multiple=True, metavar="RULE", help="Scenarios in which a rule fires. Repeatable."
)
@click.option(
    "--against",
    type=click.Choice(["recordings", "expectations", "both"]),
    help="What to judge by. Default: both; with --cri-endpoint, expectations.",
)
@click.option(
    "--recordings",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of your own recordings (ID.jsonl, ID.RUN.jsonl). Default: those that ship.",
)
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    metavar="DIR",
    help="Keep the trace of each run there, as ID.SEED.jsonl: to read, or as recordings.",
)
@click.option(
    "--seeds",
    metavar="SEEDS",
    help="Run exactly these: 7, 1-5 or 1,4,9. Default: 1, then up to 20 until a recording matches.",
)
@click.option("--all-seeds", is_flag=True, help="Run all 20 seeds; the expectations must hold with each.")
@click.option(
    "--transport",
    type=click.Choice(["memory", "grpc"]),
    default="memory",
    show_default=True,
    help="How kubelet and runtime talk. Only memory gives the same run for the same seed.",
)
@click.option(
    "--latency",
    default="measured",
    metavar="MODEL",
    show_default=True,
    help="measured, zero, or a factor (x0.5).",
)
@click.option(
    "--cri-endpoint",
    default="",
    metavar="unix://PATH",
    help="Judge the CRI runtime that listens there, in real time, with our kubelet.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.0, RATE_MAX, min_open=True),
    metavar="N",
    help="Real time, N times as fast as the wall clock. Default: virtual time; 1 with --cri-endpoint.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1, JOBS_MAX),
    metavar="N",
    help="Scenarios at once: processes; with --cri-endpoint pods beside each other. Default: CPUs.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "junit"]),
    default="table",
    show_default=True,
    help="Form of the report on standard output.",
)
@click.option(
    "--quiet", "-q", is_flag=True, help="No line a scenario, no progress: only the table and what is wrong."
)
@click.option("--list", "list_only", is_flag=True, help="List the chosen scenarios and end.")
@click.option(
    "--explain",
    metavar="ID",
    help="Run one scenario; say what it pins down, what came out, and which rules fired.",
)
def command(
    words: tuple[str, ...],
    areas: tuple[str, ...],
    ids: tuple[str, ...],
    rules: tuple[str, ...],
    against: Literal["recordings", "expectations", "both"] | None,
    recordings: Path | None,
    traces: Path | None,
    seeds: str | None,
    all_seeds: bool,
    transport: Literal["memory", "grpc"],
    latency: str,
    cri_endpoint: str,
    rate: float | None,
    jobs: int | None,
    output: Output,
    quiet: bool,
    list_only: bool,
    explain: str | None,
) -> int:
    """Run scenarios and judge the node by what must be true, and by what a real node did.

    Says of each scenario whether its expectations were met, and whether one of the seeds did what a real
    kubelet was recorded doing. Where they part, both are shown side by side with the rules in play.

    Exit code: 0 all in order, 1 something is not, 2 misuse, 130 after Ctrl-C.
    """
    # Imported here, so that --help answers at once.
    from kubelet_emu.lab.conform_report import as_json, as_junit, as_table, listing
    from kubelet_emu.lab.conform_run import conform_on
    from kubelet_emu.lab.conform_run import explain as explained

    if explain and (words or areas or ids or rules):
        raise CallerError("--explain takes one scenario by itself: leave the others away")
    scenarios = _chosen([explain] if explain else words, areas, ids, rules)
    if explain and len(scenarios) != 1:
        raise CallerError(f"--explain takes one scenario, {explain} names {len(scenarios)}")
    if list_only:
        click.echo(listing(scenarios), nl=False)
        return 0
    judging = _judging(against, recordings, seeds, all_seeds, foreign=bool(cri_endpoint))
    bench = _bench(transport, latency, cri_endpoint, rate, traces)
    if explain:
        text, fine = explained(bench, judging, scenarios[0])
        click.echo(text, nl=False)
        return 0 if fine else 1
    progress = _Progress(len(scenarios), lines=output == "table" and not quiet, quiet=quiet)
    with progress:
        conformance = conform_on(
            bench, scenarios, judging, jobs=jobs or _jobs(bench), begun=progress.begun, done=progress.done
        )
    render = {"table": as_table, "json": as_json, "junit": as_junit}[output]
    click.echo(render(conformance), nl=False)
    return 0 if conformance.ok else 1


def _chosen(
    words: Sequence[str], areas: Sequence[str], ids: Sequence[str], rules: Sequence[str]
) -> "tuple[Scenario, ...]":
    from kubelet_emu.lab.conform import select
    from kubelet_emu.lab.rules import RULE, fired_in
    from kubelet_emu.lab.scenarios import AREAS

    problems = [
        Problem(f"--area: there is no area {area}", hint=f"areas are {', '.join(AREAS)}")
        for area in areas
        if area not in AREAS
    ]
    problems += [
        Problem(f"--rule: {rule} is no rule id", hint="for example RST-121")
        for rule in rules
        if not RULE.match(rule)
    ]
    if problems:
        raise CallerError(problems)
    return select([*words, *areas, *ids, *rules], rules=fired_in())


def _bench(
    transport: "Transport", latency: str, cri_endpoint: str, rate: float | None, traces: Path | None
) -> "Bench":
    from cri_fake.latency import make_latency
    from kubelet_emu.lab.conform_run import Bench, probed
    from node_host.randoms import Randoms

    try:
        make_latency(latency, Randoms(0).stream)
    except ValueError as error:
        raise CallerError(f"--latency: {error}") from None
    if cri_endpoint and "://" in cri_endpoint and not cri_endpoint.startswith("unix://"):
        hint = "write unix:// and the path of the runtime's socket"
        raise CallerError([Problem(f"--cri-endpoint: {cri_endpoint} is no unix socket", hint=hint)])
    bench = Bench(
        transport="grpc" if cri_endpoint else transport,
        latency=latency,
        cri_endpoint=cri_endpoint.removeprefix("unix://"),
        rate=rate or 0.0,
        traces=traces,
    )
    return probed(bench) if cri_endpoint else bench


def _judging(
    against: "Against | None", recordings: Path | None, seeds: str | None, all_seeds: bool, *, foreign: bool
) -> "Judging":
    from kubelet_emu.lab.conform_run import SEEDS, Judging

    if seeds and all_seeds:
        raise CallerError("--seeds and --all-seeds exclude each other")
    first, search = SEEDS[:1], SEEDS[1:]
    if all_seeds:
        first, search = SEEDS, ()
    elif seeds:
        first, search = parse_seeds(seeds), ()
    elif foreign:
        search = ()  # every further seed would take the scenario's whole time again
    return Judging(
        seeds=first,
        search=search,
        against=against or ("expectations" if foreign else "both"),
        recordings=recordings,
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds of ``7``, ``1-5`` or ``1,4,9``, in that order, each once. Raises ``CallerError``."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise CallerError([Problem(f"--seeds: {text!r} names no seeds", hint="write 7, 1-5 or 1,4,9")])
        first, last = int(low), int(high or low)
        if last > SEED_MAX or first > last:
            raise CallerError(f"--seeds: {part} is no range of seeds from 0 to {SEED_MAX}")
        if last - first >= SEEDS_MAX:
            raise CallerError(f"--seeds: {part} are more than {SEEDS_MAX}")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)


def _jobs(bench: "Bench") -> int:
    if bench.cri_endpoint:
        return PODS_AT_ONCE
    return os.cpu_count() or 1


class _Progress:
    """A line a scenario on standard output; on a terminal also how far things are, on standard error."""

    def __init__(self, total: int, *, lines: bool, quiet: bool) -> None:
        self._total = total
        self._lines = lines
        self._live = not quiet and sys.stderr.isatty()
        self._number = 0
        self._shown = 0

    def __enter__(self) -> None:
        self._show(f"0/{self._total}")

    def __exit__(self, *exc_info: object) -> None:
        self._clear()
        if self._lines and self._number:
            click.echo()

    def begun(self, text: str) -> None:
        """Something that takes its time has begun."""
        self._show(f"{self._number}/{self._total} {text}")

    def done(self, report: "ScenarioReport") -> None:
        """One scenario is judged."""
        from kubelet_emu.lab.conform_report import headline

        self._number += 1
        self._clear()
        if self._lines:
            click.echo(headline(report))
        self._show(f"{self._number}/{self._total}")

    def _show(self, text: str) -> None:
        if self._live:
            self._clear()
            text = text[:78]
            sys.stderr.write(text)
            sys.stderr.flush()
            self._shown = len(text)

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0
