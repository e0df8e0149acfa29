# pyright: basic
"""The pytest plugin, in pytest runs of its own."""

import os
import sys

import pytest

pytest_plugins = ["pytester"]

POD = '''
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: a
    image: busybox
    command: [sh, -c, "sleep 5; exit 3"]
"""
'''


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a test file in a pytest of its own process: within this one, modules would be loaded twice."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))

    def run(source, *arguments):
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess(
            "-p", "kubelet_emu.pytest_plugin", "-p", "no:cacheprovider", *arguments
        )

    return run


def test_a_manifest_is_tested_in_ten_lines(run):
    result = run(
        POD
        + """
import pytest

@pytest.mark.emulated(seeds=3)
def test_it_comes_back(emulated_node):
    emulated_node.apply(POD)
    emulated_node.advance("12s")
    assert emulated_node.check("final a.restartCount = 1").ok

def test_without_a_marker(emulated_node, emulated_seed):
    assert emulated_seed == 0
    assert emulated_node.pods() == ()
"""
    )
    result.assert_outcomes(passed=4)


def test_a_failure_shows_the_timeline_and_how_to_repeat_it(run):
    source = (
        POD
        + """
import pytest

@pytest.mark.emulated(2)
def test_it_stays(emulated_node):
    emulated_node.apply(POD)
    emulated_node.advance("12s")
    assert emulated_node.check("final a.restartCount = 0").ok
"""
    )
    result = run(source)
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    assert "- emulated node -" in text
    assert "✗3" in text
    assert "--emulated-seed 1" in text
    run(source, "--emulated-seed", "1").assert_outcomes(failed=1)


def test_devices_and_gates(run):
    result = run("""
import pytest

@pytest.mark.emulated(devices="sample", gates={"ContainerStopSignals": True})
def test_it_has_devices(emulated_node):
    emulated_node.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [
            {"name": "a", "image": "busybox", "command": ["sleep", "600"],
             "resources": {"limits": {"example.com/resource": "2"}}}]},
    })
    emulated_node.advance(until="Ready")
""")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "marker", ["colour='red'", "seeds=0", "devices='nothing'", "gates={'Nothing': True}"]
)
def test_a_wrong_marker_is_told(run, marker):
    result = run(f"""
import pytest

@pytest.mark.emulated({marker})
def test_it(emulated_node):
    pass
""")
    assert result.ret != 0
    assert "@pytest.mark.emulated" in result.stdout.str() + result.stderr.str()
