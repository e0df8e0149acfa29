# pyright: basic, reportOptionalOperand=false, reportOperatorIssue=false
"""``run --against-recreate``: both ways are measured, shown side by side, and shown so in the README.

Goal: the figures that the README claims are those that the command prints, and they follow from what is
given.
Method: the command itself with a fixed seed, against a stored text (UPDATE_SNAPSHOTS=1 writes it anew), and
variations of which the effect on the figures is known.
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path

import pytest

from kubelet_emu.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "ml-worker.yaml")
STORED = Path(__file__).parent / "data" / "against-recreate.txt"
COMMAND = "kubelet-emu run examples/ml-worker.yaml --against-recreate"


def run(*args):
    """Exit code, output and errors of the command line."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before = sys.argv
    sys.argv = ["kubelet-emu", "run", *args, "--against-recreate"]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main()
    finally:
        sys.argv = before
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return ended.value.code, *texts


def compared(text):
    """The part of the output that holds the comparison."""
    return text[text.index("\nBack after") + 1 :]


def times(text, row):
    """The times of a row in seconds, in place first; None for a dash."""
    (line,) = (line for line in compared(text).splitlines() if line.startswith(f"  {row}  "))
    cells = line.removeprefix(f"  {row}  ").split()
    return [None if cell == "-" else float(cell.removesuffix("s")) for cell in cells]


@pytest.mark.parametrize("transport", ["memory", "grpc"])
def test_the_example_looks_so(transport):
    code, out, err = run(EXAMPLE, "--transport", transport)
    assert (code, err) == (0, "")
    found = compared(out)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        STORED.write_text(found, encoding="utf-8")
    assert found == STORED.read_text(encoding="utf-8")


def test_the_readme_shows_what_the_command_prints():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^\$ {re.escape(COMMAND)}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert match is not None, "the README has no block that begins with the command"
    stored = STORED.read_text(encoding="utf-8")
    words = " ".join(stored.split())
    shown = [" ".join(part.split()) for part in match[1].split("…")]
    place = 0
    for part in filter(None, shown):
        place = words.find(part, place)
        assert place >= 0, f"the command does not print {part!r} there"
        place += len(part)
    assert "GPU-" in match[1]
    assert "Assumed: " in match[1]


def test_the_readmes_first_picture_is_what_the_example_prints():
    """Line by line in this order; lines may be left out, and parts of a line at its …"""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("## What you see") :].split("```")[1]
    assert "nvidia.com/gpu" in block
    _, out, _ = run(EXAMPLE, "--transport", "memory")
    printed = iter([" ".join(line.split()) for line in out.splitlines()])
    for line in filter(None, block.splitlines()):
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        assert any(re.search(pattern, one) for one in printed), f"not printed there: {line!r}"


def test_what_the_controller_takes_is_added_to_one_way_only():
    _, fast, _ = run(EXAMPLE, "--transport", "memory")
    _, slow, _ = run(EXAMPLE, "--transport", "memory", "--recreate-after", "30s")
    (in_place, recreated), (same, later) = (times(text, "the work goes on") for text in (fast, slow))
    assert same == in_place < recreated
    assert later == pytest.approx(recreated + 30.0, abs=1.5)
    assert times(slow, "the pod is gone") == times(fast, "the pod is gone")
    assert "and 30s for it and the scheduler" in " ".join(slow.split())


def test_without_latencies_it_says_so():
    code, out, _ = run(EXAMPLE, "--transport", "memory", "--latency", "zero")
    assert code == 0
    assert "Assumed: calls of the runtime and the API take no time" in out


TWO = """apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers:
  - {name: main, image: busybox:1.36, command: [sleep, '120']}
---
apiVersion: v1
kind: Pod
metadata: {name: worker, annotations: {kubelet-emu/devices: a100x8}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox:1.36
    command: [sh, -c, "sleep 10; exit 88"]
    restartPolicy: Never
    restartPolicyRules:
    - {action: RestartAllContainers, exitCodes: {operator: In, values: [88]}}
    resources: {limits: {nvidia.com/gpu: 2}}
"""


def test_a_regular_container_that_asks_beside_another_pod(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(TWO, encoding="utf-8")
    code, out, err = run(str(path), "--transport", "memory", "--until", "40s")
    assert (code, err) == (0, "")
    assert compared(out).startswith("Back after main exited with 88: ")
    in_place, recreated = times(out, "the work goes on")
    assert 0 < in_place < recreated
    assert times(out, "the pod is gone")[0] is None
    lines = [" ".join(line.split()) for line in compared(out).splitlines()]
    assert "UID kept new" in lines
    assert "calls of Allocate 0 1" in lines
    assert "devices the same 2, held throughout given back, then the same 2" in lines


def test_nothing_to_compare(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(
        TWO.partition("---")[0].replace("120", "1") + "  restartPolicy: Never\n", encoding="utf-8"
    )
    code, out, err = run(str(path), "--transport", "memory")
    assert code == 1
    assert "Back after" not in out
    assert "no pod was restarted in place" in err


def test_a_device_that_fails_on_the_way_is_kept_in_place_and_ends_the_new_pod(tmp_path):
    """A restart in place does not look at health; a new pod finds one device too few."""
    path = tmp_path / "pod.yaml"
    path.write_text(TWO.partition("---\n")[2].replace("gpu: 2", "gpu: 8"), encoding="utf-8")
    code, out, err = run(str(path), "--transport", "memory", "--until", "18s", "--fail-device", "#0@10500ms")
    assert code == 1
    assert "pod worker did not become ready again after it was deleted" in err
    in_place, recreated = times(out, "the work goes on")
    assert in_place > 0
    assert recreated is None
    assert "the same 8, held throughout" in out


def test_the_report_shows_devices_in_a_lane_and_among_what_was_kept():
    _, out, _ = run(EXAMPLE, "--transport", "memory", "--fail-device", "#3@10s-20s")
    (lane,) = (line for line in out.splitlines() if line.startswith("  nvidia.com/gpu "))
    assert re.search(r" 8≡+1 of 8≢+8≡+$", lane.rstrip())
    assert "  ✓  devices nvidia.com/gpu of train  8: GPU-050a4856 GPU-2058896c" in out
    assert "8 nvidia.com/gpu" in out.splitlines()[0]
    _, out, _ = run(EXAMPLE, "--transport", "memory", "--devices", "h100x8-2numa")
    assert "  ✓  devices nvidia.com/gpu of train  8: " in out
    assert "GPU-050a4856" not in out  # another machine


def test_quiet_says_nothing():
    assert run(EXAMPLE, "--transport", "memory", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--static",), "nobody can delete a static pod"),
        (("--recreate-after", "soon"), "--recreate-after"),
    ],
)
def test_misuse(arguments, says):
    code, out, err = run(EXAMPLE, *arguments)
    assert (code, out) == (2, "")
    assert says in err
