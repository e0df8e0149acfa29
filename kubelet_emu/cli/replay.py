"""``kubelet-emu replay``: run a case again, from a file, a trace or a seed, at once or record by record."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from attrs import evolve, frozen

from kubelet_emu.cli import completion
from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from kubelet_emu.cli.output import Output
    from kubelet_emu.sim import Case, Outcome
    from kubelet_emu.trace.schema import Record

__all__ = ["command", "load_case"]

_SEED = re.compile(r"[0-9]{1,18}(?:/[0-9]{1,9})?")
_BYTES_MAX = 256 * 1024 * 1024
_SHOWN_DIGITS = 20
_EPILOG = """WHAT is a case file, as `fuzz` keeps them; a trace that a replay wrote; or SEED/N, example N of
`fuzz --seed SEED` (give --focus, --faults and --gate as there).

\b
Examples:
  kubelet-emu replay fuzz-failures/x.yaml                 run it again; what broke is marked
  kubelet-emu replay x.yaml --step                        record by record: Enter, a number, c, q
  kubelet-emu replay x.yaml --until-record 120            up to a record
  kubelet-emu replay x.yaml --reseed-from 80 --seed 3     another order of things from there on
  kubelet-emu replay 7/132 --faults heavy                 example 132 of fuzz --seed 7 --faults heavy
  kubelet-emu replay x.yaml --trace x.jsonl               keep the trace, for explain, timeline, view

\b
Exit codes:
  0   nothing was violated
  1   something was, or the two runs of --check-determinism differ
  2   misuse, or no such case
"""


@frozen(kw_only=True)
class _Asked:
    """The options, as given."""

    what: str
    step: bool
    until_record: int | None
    reseed_from: int | None
    seed: int | None
    check_determinism: bool
    trace: str | None
    everything: bool
    focus: str
    faults: str
    gate: tuple[str, ...]
    bug: tuple[str, ...]
    fix: tuple[str, ...]
    output: str


@click.command("replay", epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.argument("what", metavar="WHAT", shell_complete=completion.files)
@click.option("--step", is_flag=True, help="Stop at each record until Enter is pressed.")
@click.option("--until-record", type=click.IntRange(0), metavar="N", help="Stop at record N (its seq).")
@click.option(
    "--reseed-from", type=click.IntRange(0), metavar="N", help="From record N on, take chance from --seed."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="S", help="The other seed, for --reseed-from."
)
@click.option("--check-determinism", is_flag=True, help="Run it twice and show where the traces part.")
@click.option("--trace", metavar="FILE", help="Write everything that happened, one JSON record a line.")
@click.option(
    "--all", "everything", is_flag=True, help="Show every record, not only those that tell something."
)
@click.option("--focus", default="all", show_default=True, metavar="NAME", help="For SEED/N.")
@click.option(
    "--faults",
    type=click.Choice(["none", "light", "heavy"]),
    default="light",
    show_default=True,
    help="For SEED/N.",
)
@click.option("--gate", multiple=True, metavar="NAME=true|false", help="For SEED/N. Repeatable.")
@click.option("--bug", multiple=True, metavar="ID", help="Switch a bug on. Repeatable.")
@click.option("--fix", multiple=True, metavar="ID", help="Switch a fix on. Repeatable.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form."
)
def command(**given: Any) -> int:
    """Run one simulated case again, the same in every byte, and mark what was violated."""
    from kubelet_emu.cli.output import stdout

    return _Replay(_Asked(**given), stdout()).run()


class _Replay:
    """One call of the command."""

    def __init__(self, asked: _Asked, out: "Output") -> None:
        self._asked, self._out = asked, out
        self._pausing = asked.step
        self._free_until = -1
        self._text = asked.output == "text"

    def run(self) -> int:
        """Do it; gives back the exit code."""
        asked = self._asked
        if (asked.reseed_from is None) != (asked.seed is None):
            raise click.UsageError("--reseed-from and --seed go together")
        if asked.step and asked.output == "json":
            raise click.UsageError("--step is for people: leave -o json away")
        case = load_case(asked.what, focus=asked.focus, faults=asked.faults, gates=asked.gate)
        case = evolve(case, bugs=(*case.bugs, *asked.bug), fixes=(*case.fixes, *asked.fix))
        if asked.check_determinism:
            return self._twice(case)
        if self._text:
            for line in _heading(case):
                self._out.write(line)
        outcome = self._run(case)
        self._show(outcome)
        return 0 if outcome.ok and not outcome.violations else 1

    def _run(self, case: "Case") -> "Outcome":
        from kubelet_emu.sim import Reseed, run_case

        asked = self._asked
        reseed = None
        if asked.reseed_from is not None and asked.seed is not None:
            reseed = Reseed(asked.reseed_from, asked.seed)
        given: dict[str, Any] = {"stop_at_record": asked.until_record, "reseed": reseed}
        if asked.step:
            given["listener"] = self._pause
        if asked.trace is None:
            return run_case(case, **given)
        from kubelet_emu.cli.tracefile import trace_file

        with trace_file(asked.trace) as sink:
            return run_case(case, sink=sink, **given)

    def _twice(self, case: "Case") -> int:
        from kubelet_emu.sim.determinism import check_determinism

        difference = check_determinism(case)
        self._out.write("both runs gave the same trace" if difference is None else str(difference))
        return 0 if difference is None else 1

    # -- step by step --

    def _pause(self, record: "Record") -> bool:
        """Show a record and wait for an order: Enter, a number (go on up to that record), c or q.

        Returns whether a person has seen enough.
        """
        from kubelet_emu.fuzz.report import record_line

        text = record_line(record, always=self._asked.everything)
        if not text:
            return False
        self._out.write(f"{'►' if record['k'] == 'invariant' else ' '}{record['seq']:>6} {text}")
        if not self._pausing or record["seq"] < self._free_until:
            return False
        order = self._order()
        if order == "c":
            self._pausing = False
        elif order.isascii() and order.isdigit() and len(order) < _SHOWN_DIGITS:
            self._free_until = int(order)
        return order == "q"

    def _order(self) -> str:
        line = sys.stdin.readline()
        return line.strip() if line else "c"

    # -- the end --

    def _show(self, outcome: "Outcome") -> None:
        from kubelet_emu.fuzz.report import record_line

        if not self._text:
            self._out.write(json.dumps(_document(outcome), indent=2))
            return
        marked = {one.record for one in outcome.violations}
        if not self._asked.step:
            for record in outcome.records:
                mark = record["seq"] in marked
                text = record_line(record, always=mark or self._asked.everything)
                if text:
                    self._out.write(f"{'►' if mark else ' '}{record['seq']:>6} {text}")
        for line in _verdict(outcome):
            self._out.write(line)


def _heading(case: "Case") -> list[str]:
    from kubelet_emu.fuzz.simpler import describe

    lines = [f"{describe(case)}; seed {case.seed}, schedule {case.schedule}, {case.duration_seconds:g} s"]
    return [*lines, *(f"  {step}" for step in case.plan)]


def _verdict(outcome: "Outcome") -> list[str]:
    lines = [""]
    for pod in outcome.pods:
        lines.append(f"pod {pod['metadata']['name']}: {pod.get('status', {}).get('phase', '')}")
    lines += [f"exempt: {one}" for one in outcome.findings if one.exempt]
    lines += [f"VIOLATED at record {one.record}: {one}" for one in outcome.violations]
    if outcome.failure:
        lines += outcome.failure.rstrip().splitlines()
    spent = (
        f"{outcome.simulated_seconds:g} s simulated, {outcome.calls} calls, {len(outcome.records)} records"
    )
    if outcome.verdict == "stopped":
        lines.append(f"stopped where asked after {spent}")
    elif not outcome.violations:
        lines.append(f"nothing is violated: {spent}")
    else:
        lines.append(spent)
    return lines


def _document(outcome: "Outcome") -> Mapping[str, Any]:
    return {
        "verdict": outcome.verdict,
        "simulatedSeconds": outcome.simulated_seconds,
        "calls": outcome.calls,
        "records": len(outcome.records),
        "findings": [
            {
                "invariant": one.invariant,
                "rules": list(one.rules),
                "pod": one.pod,
                "record": one.record,
                "text": one.text,
                "exempt": one.exempt,
            }
            for one in outcome.findings
        ],
        "pods": list(outcome.pods),
    }


# -- where a case comes from --


def load_case(what: str, *, focus: str = "all", faults: str = "light", gates: tuple[str, ...] = ()) -> "Case":
    """The case of a file, of a trace's header, or of ``SEED/N``. Raises ``CallerError``."""
    path = Path(what)
    if not path.exists():
        if _SEED.fullmatch(what):
            seed, _, number = what.partition("/")
            return _generated(int(seed), int(number or "0"), focus, faults, gates)
        hint = "name a case file or a trace, or give SEED/N such as 7/132"
        raise CallerError([Problem(f"there is no file {what!r}", hint=hint)])
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_BYTES_MAX)
    except OSError as error:
        raise CallerError([Problem(f"cannot be read: {error.strerror}", file=what)]) from None
    except UnicodeDecodeError as error:
        raise CallerError([Problem(f"is not UTF-8: byte {error.start}", file=what)]) from None
    return _from_text(text, what)


def _from_text(text: str, file: str) -> "Case":
    from kubelet_emu.sim import case_from_json

    first, _, _ = text.partition("\n")
    header = _header(first)
    if header is not None:
        if "case" not in header:
            hint = "only traces of `replay --trace` hold their case; `explain` and `view` show any trace"
            raise CallerError([Problem("this trace does not say how it was made", file=file, hint=hint)])
        return case_from_json(header["case"], file=file)
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content: object = cast("Any", yaml).load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 0 if mark is None else int(mark.line) + 1
        message = getattr(error, "problem", None) or "cannot be parsed"
        raise CallerError([Problem(f"not valid YAML: {message}", file=file, line=line)]) from None
    except RecursionError:
        raise CallerError([Problem("not valid YAML: nested too deeply", file=file)]) from None
    return case_from_json(content, file=file)


def _header(line: str) -> Mapping[str, Any] | None:
    """The header of a trace; None for a line that is none."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    header = cast("dict[str, Any]", found)
    return header if header.get("k") == "header" else None


def _generated(seed: int, number: int, focus: str, faults: str, gates: tuple[str, ...]) -> "Case":
    from kubelet_emu.cli.given import read_gates
    from kubelet_emu.settings import KubeletSettings

    overrides = read_gates(KubeletSettings(), gates).overrides
    try:
        from kubelet_emu.fuzz.campaign import Campaign
        from kubelet_emu.fuzz.engine import draw_cases
    except ImportError as error:
        if error.name != "hypothesis":
            raise
        hint = "install it: pip install 'kubelet-emu[fuzz]'"
        raise CallerError([Problem("drawing a case needs Hypothesis", hint=hint)]) from None
    campaign = Campaign(seed=seed, focus=focus, faults=faults, gates=dict(overrides))
    drawn = draw_cases(campaign, number, 1)
    if not drawn:
        raise CallerError([Problem(f"example {number} of seed {seed} is no case")])
    return drawn[0]
