"""The same seed gives the same trace, byte for byte: again, in another process, under another hash seed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.trace.ndjson import write_lines

SCENARIOS = builtin_scenarios()
ROOT = Path(__file__).parents[2]

IN_ANOTHER_PROCESS = """
import hashlib, sys
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.trace.ndjson import write_lines
for scenario in reversed(builtin_scenarios()):
    trace = run_scenario(scenario, NodeOptions(seed=5, transport="memory"))
    print(scenario.id, hashlib.sha256("".join(write_lines(trace)).encode()).hexdigest())
"""


def text_of(scenario, seed):
    return "".join(write_lines(run_scenario(scenario, NodeOptions(seed=seed, transport="memory"))))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Digests of all traces from a process with another hash seed, folder, time zone and order."""
    path = os.pathsep.join([str(ROOT / "proto"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "4711",
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_one_seed_is_one_trace(scenario, elsewhere):
    first = text_of(scenario, 5)
    second = text_of(scenario, 5)
    for number, (a, b) in enumerate(zip(first.splitlines(), second.splitlines(), strict=False), start=1):
        assert a == b, f"line {number}"
    assert first == second
    assert hashlib.sha256(first.encode()).hexdigest() == elsewhere[scenario.id]


def test_another_seed_is_another_interleaving():
    scenario = next(one for one in SCENARIOS if one.id == "restart-all-regular-exit")
    assert len({text_of(scenario, seed) for seed in range(4)}) == 4
