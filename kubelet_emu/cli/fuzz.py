"""``kubelet-emu fuzz``: search for a case that breaks an invariant."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from kubelet_emu.cli.output import Output
    from kubelet_emu.fuzz.campaign import Campaign, Found
    from kubelet_emu.fuzz.hunt import Hunt
    from kubelet_emu.sim import Outcome

__all__ = ["command"]

_FOCUS_NAMES = "all, restart-all, restart-rules, devices, termination, init, probes, kubelet-restart, volumes"
_LINE_SECONDS = 10.0
"""How often a line of progress is written where no person looks at a terminal."""
_EPILOG = """\b
Examples:
  kubelet-emu fuzz                                       2,000 examples, light faults
  kubelet-emu fuzz --faults heavy --jobs 2 --time 10m    ten minutes in two processes
  kubelet-emu fuzz --focus restart-all --bug init-not-run
  kubelet-emu fuzz --check-determinism --examples 200    every example twice
  kubelet-emu fuzz --scheduler tcp://10.0.0.5:8786 --jobs 64

Exit code 1 on a violation. It is kept in the corpus, which is tried first the next time.
"""


@frozen(kw_only=True)
class _Asked:
    """The options, as given."""

    seed: int
    examples: int | None
    time: str | None
    jobs: int
    gate: tuple[str, ...]
    bug: tuple[str, ...]
    fix: tuple[str, ...]
    focus: str
    faults: str
    scheduler: str
    corpus: str
    check_determinism: bool
    shrink: bool
    output: str
    coverage: bool


@click.command("fuzz", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="What is drawn."
)
@click.option(
    "--examples", type=int, metavar="N", help="Most examples (2000; with --time as many as it takes)."
)
@click.option("--time", "duration", metavar="TIME", help="Most wall time (90s, 10m).")
@click.option("--jobs", type=int, default=1, show_default=True, metavar="N", help="Processes.")
@click.option(
    "--focus", default="all", show_default=True, metavar="NAME", help=f"What it is about: {_FOCUS_NAMES}."
)
@click.option(
    "--faults",
    type=click.Choice(["none", "light", "heavy"]),
    default="light",
    show_default=True,
    help="How much.",
)
@click.option("--gate", multiple=True, metavar="NAME=true|false", help="Set a feature gate. Repeatable.")
@click.option("--bug", multiple=True, metavar="ID", help="Switch a known bug on. Repeatable.")
@click.option("--fix", multiple=True, metavar="ID", help="Mend a bug that 1.36.2 still has. Repeatable.")
@click.option("--list-bugs", is_flag=True, help="List the bugs, one a line, id first.")
@click.option(
    "--scheduler", default="", metavar="ADDRESS", help="Run on a Dask cluster (extra kubelet-emu[dask])."
)
@click.option(
    "--check-determinism", is_flag=True, help="Run each example twice; the traces must be the same."
)
@click.option(
    "--corpus",
    default="fuzz-failures",
    show_default=True,
    metavar="FOLDER",
    help="Where failures are kept; empty for nowhere.",
)
@click.option("--shrink/--no-shrink", default=True, help="Make what is found small.  [default: shrink]")
@click.option("--coverage", is_flag=True, help="List all transitions, also those that were reached.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form."
)
def command(*, list_bugs: bool, duration: str | None, **given: Any) -> int:
    """Search for a pod, faults and an order of tasks that break an invariant, and make them small."""
    from kubelet_emu.cli import output as outputs

    if list_bugs:
        from kubelet_emu.bugs import BUGS

        for bug in BUGS:
            click.echo(str(bug))
        return 0
    asked = _Asked(time=duration, **given)
    return _Fuzz(asked, outputs.stdout(), outputs.stderr()).run()


class _Fuzz:
    """One call of the command."""

    def __init__(self, asked: _Asked, out: "Output", progress: "Output") -> None:
        self._asked, self._out, self._progress = asked, out, progress
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._corpus = None
        if asked.corpus:
            from kubelet_emu.fuzz.corpus import Corpus

            self._corpus = Corpus(Path(asked.corpus))

    def run(self) -> int:
        """Do it; gives back the exit code."""
        campaign = self._campaign()
        from kubelet_emu.fuzz.hunt import Hunt, hunt

        found = self._from_corpus(campaign)
        state = Hunt()
        if found is None:
            state = hunt(
                campaign,
                self._limits(),
                jobs=self._asked.jobs,
                scheduler=self._asked.scheduler,
                tell=self._tell,
            )
            found = state.found
            if found is not None and self._asked.shrink:
                self._say(f"example {found.example} breaks {found.invariant}; shrinking it")
                found = self._shrunk(campaign, found)
        self._progress.status("")
        return self._report(state, found)

    def _campaign(self) -> "Campaign":
        from kubelet_emu.bugs import known_bugs, known_fixes
        from kubelet_emu.cli.given import read_gates
        from kubelet_emu.settings import KubeletSettings

        asked = self._asked
        gates = read_gates(KubeletSettings(), asked.gate)
        try:
            from kubelet_emu.fuzz.campaign import Campaign
            from kubelet_emu.strategies import cases
        except ImportError as error:
            if error.name != "hypothesis":
                raise
            hint = "install it: pip install 'kubelet-emu[fuzz]'"
            raise CallerError([Problem("fuzzing needs Hypothesis", hint=hint)]) from None
        cases(focus=asked.focus, faults=asked.faults)
        return Campaign(
            seed=asked.seed,
            focus=asked.focus,
            faults=asked.faults,
            gates=dict(gates.overrides),
            bugs=tuple(sorted(known_bugs(asked.bug))),
            fixes=tuple(sorted(known_fixes(asked.fix))),
            twice=asked.check_determinism,
        )

    def _limits(self) -> Any:
        from kubelet_emu.cli.given import read_duration
        from kubelet_emu.fuzz.campaign import EXAMPLES_MAX
        from kubelet_emu.fuzz.hunt import Limits

        seconds = None if self._asked.time is None else read_duration("--time", self._asked.time)
        examples = self._asked.examples
        if examples is None:
            examples = Limits().examples if seconds is None else EXAMPLES_MAX
        return Limits(examples=examples, seconds=seconds)

    # -- finding --

    def _from_corpus(self, campaign: "Campaign") -> "Found | None":
        """The first case of the corpus that still breaks what it is kept for, or anything else."""
        if self._corpus is None:
            return None
        from attrs import evolve

        from kubelet_emu.fuzz.campaign import Found
        from kubelet_emu.fuzz.engine import judge

        tried = 0
        for kept in self._corpus:
            case = evolve(kept.case, bugs=campaign.bugs, fixes=campaign.fixes)
            tried += 1
            _, broken = judge(case, twice=campaign.twice)
            for invariant, (text, rules) in broken.items():
                return Found(invariant=invariant, text=text, rules=rules, case=case)
        if tried:
            self._say(f"{tried} kept failure{'s' * (tried != 1)} tried first: none fails")
        return None

    def _shrunk(self, campaign: "Campaign", found: "Found") -> "Found":
        from kubelet_emu.fuzz.engine import shrink
        from kubelet_emu.fuzz.simpler import describe

        def tell(runs: int, case: Any) -> None:
            self._progress.status(f"shrinking: {describe(case)} after {runs} runs")

        return shrink(campaign, found, tell=tell)

    # -- telling --

    def _say(self, text: str) -> None:
        self._progress.write(text)

    def _tell(self, state: "Hunt") -> None:
        text = _progress_text(state)
        self._progress.status(text)
        if not self._progress.terminal and time.monotonic() >= self._next_line and not state.over:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._progress.write(text)

    def _report(self, state: "Hunt", found: "Found | None") -> int:
        file, outcome = "", None
        if found is not None:
            from kubelet_emu.sim import run_case

            outcome = run_case(found.case)
            if self._corpus is not None:
                file = str(self._corpus.keep(found))
        if self._asked.output == "json":
            self._out.write(json.dumps(self._document(state, found, outcome, file), indent=2))
        else:
            for text in self._lines(state, found, outcome, file):
                self._out.write(text)
        return 0 if found is None else 1

    def _lines(
        self, state: "Hunt", found: "Found | None", outcome: "Outcome | None", file: str
    ) -> Sequence[str]:
        from kubelet_emu.fuzz.coverage import coverage_lines
        from kubelet_emu.fuzz.report import failure_lines

        lines: list[str] = []
        if found is not None and outcome is not None:
            lines += [*failure_lines(found, outcome.records, _offending(found, outcome), file), ""]
        if state.tally.examples:
            lines.append(_progress_text(state))
            lines += [
                f"  exempt by {rule}: {count} finding{'s' * (count != 1)}"
                for rule, count in sorted(state.tally.exempt.items())
            ]
            lines += coverage_lines(state.tally.transitions, everything=self._asked.coverage)
        if found is None:
            lines.append("nothing is violated")
        return lines

    def _document(
        self, state: "Hunt", found: "Found | None", outcome: "Outcome | None", file: str
    ) -> Mapping[str, Any]:
        from kubelet_emu.fuzz.coverage import coverage_json
        from kubelet_emu.fuzz.hunt import as_json
        from kubelet_emu.fuzz.report import failure_json

        asked = self._asked
        failure = None
        if found is not None and outcome is not None:
            failure = failure_json(found, _offending(found, outcome), file)
        return {
            "seed": asked.seed,
            "focus": asked.focus,
            "faults": asked.faults,
            "bugs": list(asked.bug),
            "fixes": list(asked.fix),
            "seconds": round(state.seconds, 3),
            **as_json(state.tally),
            "coverage": coverage_json(state.tally.transitions),
            "violation": failure,
        }


def _offending(found: "Found", outcome: "Outcome") -> tuple[int, ...]:
    """The records that prove the violation, and those that tell of it."""
    seqs = [one.record for one in outcome.violations if one.invariant == found.invariant and one.record >= 0]
    return tuple(dict.fromkeys(seqs))


def _progress_text(state: "Hunt") -> str:
    tally, seconds = state.tally, max(state.seconds, 1e-9)
    return (
        f"{tally.examples} examples ({tally.examples / seconds:.0f}/s)   "
        f"{tally.simulated_seconds:.0f} s simulated ({tally.simulated_seconds / seconds:.0f}x real time)   "
        f"{len(tally.states)} states, {len(tally.transitions)} transitions   "
        f"{tally.judged} checks of invariants"
    )
