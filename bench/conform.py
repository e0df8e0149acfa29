"""How long all scenarios take: ``python bench/conform.py [--jobs N]``, for one seed, in memory and over gRPC.

Budgets on two cores: 20 s in memory, 90 s over gRPC. Prints one line a transport; ends with 1 over budget.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BUDGET_SECONDS = {"memory": 20.0, "grpc": 90.0}


def main() -> int:
    """Measure the command as people call it, start-up of the processes included."""
    parser = argparse.ArgumentParser(description="All scenarios, one seed.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    path = os.pathsep.join([str(ROOT / "proto"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    over = False
    for transport, budget in BUDGET_SECONDS.items():
        words = ["conform", "--seeds", "1", "--transport", transport, "--jobs", str(options.jobs), "--quiet"]
        against = "both" if transport == "memory" else "expectations"
        begin, before = time.perf_counter(), os.times()
        done = subprocess.run(
            [sys.executable, "-m", "kubelet_emu", *words, "--against", against],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        seconds, after = time.perf_counter() - begin, os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        last = done.stdout.splitlines()[-1] if done.returncode == 0 else done.stdout + done.stderr
        print(
            f"{transport:7} {seconds:6.1f} s wall, {used:6.1f} s CPU (budget {budget:g} s): {last}",
            flush=True,
        )
        over = over or seconds > budget or done.returncode != 0
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
