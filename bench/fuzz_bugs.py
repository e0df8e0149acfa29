"""How soon the fuzzer finds each known bug, and how small it makes what it finds: a table for the docs.

python bench/fuzz_bugs.py [--jobs 2] [--seed 0] [--faults light] [BUG ...]
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "proto"), str(ROOT)]

from kubelet_emu.bugs import BUGS  # noqa: E402
from kubelet_emu.fuzz.campaign import Campaign  # noqa: E402
from kubelet_emu.fuzz.engine import shrink  # noqa: E402
from kubelet_emu.fuzz.hunt import Limits, hunt  # noqa: E402


def row(bug: str, title: str, asked: argparse.Namespace) -> str:
    """One line of the table."""
    campaign = Campaign(seed=asked.seed, faults=asked.faults, bugs=(bug,))
    state = hunt(campaign, Limits(examples=asked.examples), jobs=asked.jobs)
    if state.found is None:
        return f"| `{bug}` | {title} | not in {state.tally.examples} | {state.seconds:.0f} | | | |"
    found = shrink(campaign, state.found)
    case = found.case
    containers = sum(
        len(pod["spec"].get(kind, ())) for pod in case.pods for kind in ("initContainers", "containers")
    )
    example = (found.example or 0) + 1
    return (
        f"| `{bug}` | {title} | {example} | {state.seconds:.0f} | {containers} containers, "
        f"{len(case.plan)} steps | {found.invariant} | {found.runs} runs, {found.seconds:.0f} s |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bugs", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", default="light")
    parser.add_argument("--examples", type=int, default=2_000)
    asked = parser.parse_args()
    begun = time.monotonic()
    print("| bug | what it is | found by example | after s | shrunk to | breaks | shrinking |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for bug in BUGS:
        if not asked.bugs or bug.id in asked.bugs:
            print(row(bug.id, bug.title, asked), flush=True)
    print(f"\n{time.monotonic() - begun:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
