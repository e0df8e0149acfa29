"""How soon the fuzzer finds each known bug, and how small it makes what it finds.

python bench/fuzz_bugs.py [--jobs 2] [--seed 0] [--faults light] [--shrink-seconds 90] [--write] [BUG ...]

Prints the table; ``--write`` also puts its rows into docs/fuzzing.md, those of the bugs asked for.
"""

import argparse
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "proto"), str(ROOT)]

from attrs import evolve  # noqa: E402

from kubelet_emu.bugs import BUGS, Bug, find_bug  # noqa: E402
from kubelet_emu.fuzz.campaign import Campaign  # noqa: E402
from kubelet_emu.fuzz.engine import SHRINK_SECONDS, judge, shrink  # noqa: E402
from kubelet_emu.fuzz.hunt import Limits, hunt  # noqa: E402
from kubelet_emu.sim import Case  # noqa: E402

PAGE = ROOT / "docs" / "fuzzing.md"
HEAD = (
    "| bug | examples | seconds | containers | faults | breaks | shrinking |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def containers_of(case: Case) -> int:
    """How many containers a case has."""
    kinds = ("initContainers", "containers")
    return sum(len(pod["spec"].get(kind, ())) for pod in case.pods for kind in kinds)


def row(bug: Bug, asked: argparse.Namespace) -> str:
    """One line of the table."""
    campaign = Campaign(seed=asked.seed, faults=asked.faults, bugs=(bug.id,))
    state = hunt(campaign, Limits(examples=asked.examples), jobs=asked.jobs)
    if state.found is None:
        return f"| `{bug.id}` | not in {state.tally.examples} | {state.seconds:.0f} | | | | |"
    found = shrink(campaign, state.found, seconds_max=asked.shrink_seconds)
    case, example = found.case, (found.example or 0) + 1
    _, broken = judge(evolve(case, bugs=()))
    also = " (without the bug too)" if found.invariant in broken else ""
    return (
        f"| `{bug.id}` | {example} | {state.seconds:.0f} | {containers_of(case)} | {len(case.plan)} "
        f"| `{found.invariant}`{also} | {found.runs} runs, {found.seconds:.0f} s |"
    )


def write(rows: dict[str, str]) -> None:
    """Put the rows into the page, in the order of the bugs."""
    text = PAGE.read_text(encoding="utf-8")
    known = {
        match[1]: match[0] for match in re.finditer(r"^\| `([\w-]+)` \| (?:\d+|not in \d+) \|.*$", text, re.M)
    }
    known |= rows
    begin = text.index(HEAD[0])
    end = text.index("\n\n", begin)
    lines = [*HEAD, *(known[bug.id] for bug in BUGS if bug.id in known)]
    PAGE.write_text(text[:begin] + "\n".join(lines) + text[end:], encoding="utf-8")


def main() -> None:
    """Print the table, and write it down if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bugs", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", default="light")
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--shrink-seconds", type=float, default=SHRINK_SECONDS)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    wanted = {find_bug(name).id for name in asked.bugs} or {bug.id for bug in BUGS}
    begun = time.monotonic()
    print(*HEAD, sep="\n")
    for bug in BUGS:
        if bug.id in wanted:
            line = row(bug, asked)
            print(line, flush=True)
            if asked.write:
                write({bug.id: line})
    print(f"\n{time.monotonic() - begun:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
