# pyright: basic
"""One case is one trace: again, in another process, under another hash seed, elsewhere."""

import hashlib
import os
import subprocess
import sys
import tempfile

import pytest

from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.sim.determinism import first_difference

SCENARIOS = builtin_scenarios()

_OTHER = """
import hashlib, json, sys
from attrs import evolve
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios
found = {}
for scenario in builtin_scenarios():
    digest = hashlib.sha256()
    options = NodeOptions(seed=7, transport="memory", sink=lambda line: digest.update(line.encode()))
    run_scenario(scenario, options)
    found[scenario.id] = digest.hexdigest()
print(json.dumps(found))
"""


def trace_digest(scenario):
    digest = hashlib.sha256()
    options = NodeOptions(seed=7, transport="memory", sink=lambda line: digest.update(line.encode()))
    run_scenario(scenario, options)
    return digest.hexdigest()


@pytest.mark.slow
def test_every_scenario_is_the_same_in_another_process():
    """Two passes over all scenarios: with another process, hash seed, folder, temporary folder."""
    import json

    here = {scenario.id: trace_digest(scenario) for scenario in SCENARIOS}
    with tempfile.TemporaryDirectory(prefix="ke-") as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path))),
            "PYTHONHASHSEED": "4242",
            "TMPDIR": folder,
            "HOME": folder,
        }
        done = subprocess.run(
            [sys.executable, "-c", _OTHER],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
    there = json.loads(done.stdout)
    assert there == here


@pytest.mark.parametrize("scenario", SCENARIOS[::12], ids=lambda one: one.id)
def test_a_scenario_twice_is_the_same_trace(scenario):
    def run(sink):
        run_scenario(scenario, NodeOptions(seed=3, transport="memory", sink=sink))

    assert first_difference(run) is None


def test_the_first_difference_is_told():
    runs = iter((["{}", '{"k": 1}', '{"k": 2}'], ["{}", '{"k": 1}', '{"k": 3}']))

    def run(sink):
        for line in next(runs):
            sink(line)

    difference = first_difference(run)
    assert difference is not None
    assert (difference.index, difference.first, difference.second) == (1, {"k": 2}, {"k": 3})
    assert difference.keys == ("k",)


def test_a_trace_that_ends_early_differs():
    runs = iter((["{}", '{"k": 1}'], ["{}"]))

    def run(sink):
        for line in next(runs):
            sink(line)

    difference = first_difference(run)
    assert difference is not None
    assert difference.second is None
