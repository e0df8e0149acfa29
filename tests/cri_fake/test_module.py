"""The commands can be started as modules too, where pip's scripts are not on the PATH."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("module", "command"), [("cri_fake", "cri-fake"), ("devices", "fake-devices")])
def test_a_module_is_the_command(module: str, command: str):
    folders = [folder for folder in sys.path if folder]
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(folders)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {command} ")
