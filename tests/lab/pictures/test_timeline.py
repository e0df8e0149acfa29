"""Timelines: the same bytes each time, everything in sight, readable when crowded, usable without eyes.

Goal: the picture does not change unless somebody means it to. Method: golden files of recordings, which do
not change, and of one hand-written trace with every kind of record. After a wanted change look at the
picture, then write the files anew: ``REWRITE_GOLDEN=1 pytest tests/lab/pictures``.
"""

import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubelet_emu.cli.timeline import command
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.explain.reading import Reading, read_trace
from kubelet_emu.lab.pictures.svg import COLOURS
from kubelet_emu.lab.pictures.timeline import timeline_svg
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.trace.schema import Trace

GOLDEN = Path(__file__).parents[2] / "golden" / "timeline"
SCENARIOS = {scenario.id: scenario for scenario in builtin_scenarios()}
SVG = "{http://www.w3.org/2000/svg}"


def recorded(name: str) -> Reading:
    scenario = SCENARIOS[name]
    return read_trace(load_recordings(name)[0], {scenario.pod_name: scenario.pod})


def every_kind() -> Reading:
    """A trace of every kind of record that a timeline shows."""
    spec = {
        "containers": [
            {"name": "main", "image": "a", "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}
        ],
        "volumes": [{"name": "work", "emptyDir": {}}],
    }
    shown = {"kind": "regular", "state": "running", "restartCount": 1, "ready": True, "id": "main#1"}
    mounts = {"/work": "/var/lib/kubelet/x"}
    create = {
        "k": "cri",
        "m": "CreateContainer",
        "pod": "p",
        "name": "main",
        "mounts": mounts,
        "devices": ["gpu-1"],
    }
    start = {"k": "cri", "m": "StartContainer", "pod": "p", "dt": 0.1}
    status = {"k": "pod", "pod": "p", "containers": {}}
    back = {"machine": "kuberuntime.backoff", "pod": "p", "rules": ["RST-111(main)", "RST-112(main)"]}
    records = [
        {"t": 0.0, "k": "action", "do": "create", "pod": "p", "object": {"kind": "Pod", "spec": spec}},
        {"t": 0.0, **status, "phase": "Pending", "conditions": {"Ready": ["False"]}},
        {
            "t": 0.1,
            "k": "device",
            "method": "Allocate",
            "resource": "example.com/gpu",
            "ids": ["gpu-1"],
            "pod": "p",
        },
        {"t": 5.0, "k": "action", "do": "fault", "text": "crash kubelet down 2s"},
        {"t": 0.2, "k": "cri", "m": "RunPodSandbox", "pod": "p", "sandbox": "p/sandbox#0", "dt": 0.2},
        {"t": 0.5, **create, "container": "main#0", "attempt": 0, "dt": 0.1},
        {"t": 0.6, **start, "container": "main#0"},
        {"t": 0.7, "k": "process", "do": "start", "pod": "p", "container": "main#0"},
        {"t": 0.8, "k": "cri", "m": "ExecSync", "pod": "p", "container": "main#0", "cmd": ["x"], "dt": 1.0},
        {"t": 2.0, "k": "process", "do": "exit", "pod": "p", "container": "main#0", "code": 3},
        {
            "t": 2.5,
            "k": "decision",
            **back,
            "inputs": {"container": "main", "sinceExitMs": 500},
            "outcome": {"wait": True, "delaySeconds": 10.0},
        },
        {
            "t": 2.6,
            "k": "event",
            "pod": "p",
            "reason": "BackOff",
            "type": "Warning",
            "on": "",
            "message": "wait",
        },
        {"t": 4.0, "k": "runtime", "up": False},
        {"t": 12.5, **create, "container": "main#1", "attempt": 1, "dt": 0.1},
        {"t": 12.6, **start, "container": "main#1"},
        {
            "t": 13.0,
            "k": "probe",
            "pod": "p",
            "container": "main",
            "probe": "readiness",
            "outcome": "success",
        },
        {
            "t": 13.1,
            **status,
            "phase": "Running",
            "conditions": {"Ready": ["True"]},
            "containers": {"main": shown},
        },
        {"t": 14.0, "k": "probe", "pod": "p", "container": "main", "probe": "liveness", "outcome": "failure"},
        {
            "t": 15.0,
            "k": "invariant",
            "invariant": "sandbox-kept",
            "rules": [],
            "pod": "p",
            "message": "lost <it>",
            "evidence": [],
        },
        {
            "t": 16.0,
            "k": "cri",
            "m": "StopContainer",
            "pod": "p",
            "container": "main#1",
            "timeout": "5",
            "dt": 5.0,
        },
        {"t": 20.0, "k": "action", "do": "end"},
    ]
    header = {"k": "header", "format": 1, "emitter": "test", "scenario": "every-kind", "pods": ["p"]}
    numbered = [record | {"seq": number} for number, record in enumerate(records)]
    return read_trace(Trace(header, tuple(numbered)))


def pictures() -> dict[str, list[Reading]]:
    return {
        "restart-all": [recorded("restart-all-regular-exit")],
        "crash-loop": [recorded("crashloop-delays-double")],
        "two-runs": [recorded("sidecar-around-a-job"), recorded("delete-kill-after-grace")],
        "every-kind": [every_kind()],
    }


@pytest.mark.parametrize("name", ["restart-all", "crash-loop", "two-runs", "every-kind"])
def test_the_picture_is_the_same_byte_for_byte(name):
    text = timeline_svg(pictures()[name])
    path = GOLDEN / f"{name}.svg"
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_recording_can_be_drawn(name):
    root = ElementTree.fromstring(timeline_svg([recorded(name)]))
    width, height = float(root.get("width")), float(root.get("height"))
    for shape in root.iter(f"{SVG}rect"):
        x, y = float(shape.get("x", 0)), float(shape.get("y", 0))
        assert 0 <= x <= width
        assert 0 <= y <= height
        assert x + float(shape.get("width")) <= width + 1


def test_everything_of_every_kind_is_in_the_picture():
    text = timeline_svg([every_kind()])
    for said in (
        "main#0 exits with 3",
        "main: back-off 10s",
        "devices gpu-1",
        "volumes work",
        "hook of main#0",
        "liveness probe of main: failure",
        "main#1 is told to stop with 5 s of grace",
        "invariant at 15.00 s: sandbox-kept: lost &lt;it&gt;",
        "fault at 4.00 s: runtime is away",
        "fault at 5.00 s: crash kubelet down 2s",
        ">sandbox-kept</text>",
        "main ready",
    ):
        assert said in text


def test_the_picture_is_told_in_words():
    root = ElementTree.fromstring(timeline_svg([every_kind()]))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "t d"
    assert root.find(f"{SVG}title").text == "Timeline of every-kind"
    assert "regular container main: 2 instances, exit codes 3" in root.find(f"{SVG}desc").text


def test_both_themes_are_in_it_and_each_can_be_had_alone():
    both = timeline_svg([every_kind()])
    assert "prefers-color-scheme:dark" in both
    light, dark = (timeline_svg([every_kind()], theme=theme) for theme in ("light", "dark"))
    assert COLOURS["bg"][0] in light
    assert COLOURS["bg"][1] in dark
    assert "var(" not in light + dark


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        ("text", "bg", 7.0),
        ("text", "band", 7.0),
        ("soft", "band", 4.5),
        ("bad", "bg", 4.5),
        ("ink", "run", 3.5),
        ("ink", "init", 3.5),
        ("run", "bg", 3.0),
        ("ok", "bg", 3.0),
        ("wait", "bg", 3.0),
        ("reset", "bg", 3.0),
    ],
)
def test_colours_can_be_told_apart(theme, ink, ground, least):
    first, second = sorted((luminance(COLOURS[ink][theme]), luminance(COLOURS[ground][theme])))
    assert (second + 0.05) / (first + 0.05) >= least


def test_what_cannot_be_seen_is_merged():
    records = [{"t": 0.0, "k": "action", "do": "create", "pod": "p", "object": {"kind": "Pod", "spec": {}}}]
    for number in range(5000):
        t = number * 0.7
        records.append(
            {
                "t": t,
                "k": "cri",
                "m": "CreateContainer",
                "pod": "p",
                "name": "main",
                "container": f"main#{number}",
                "attempt": number,
                "dt": 0.01,
            }
        )
        records.append(
            {"t": t + 0.01, "k": "cri", "m": "StartContainer", "pod": "p", "container": f"main#{number}"}
        )
        records.append(
            {
                "t": t + 0.5,
                "k": "process",
                "do": "exit",
                "pod": "p",
                "container": f"main#{number}",
                "code": number % 2,
            }
        )
    header = {"k": "header", "format": 1, "emitter": "test", "pods": ["p"]}
    numbered = tuple(record | {"seq": number} for number, record in enumerate(records))
    assert len(timeline_svg([read_trace(Trace(header, numbered))])) < 700_000


def test_a_part_of_the_time():
    text = timeline_svg([recorded("crashloop-delays-double")], start=10.0, end=20.0)
    assert "main#2 runs" in text
    assert "main#0 runs" not in text
    assert not re.search(r'(?:x|cx|x1)="-', text)


def test_the_verb_writes_a_file(tmp_path):
    path = tmp_path / "out.svg"
    result = CliRunner().invoke(command, ["recording:restart-all-regular-exit", "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert path.read_text(encoding="utf-8") == timeline_svg([recorded("restart-all-regular-exit")])


@pytest.mark.parametrize("arguments", [["--from", "9s", "--to", "3s"], ["--from", "soon"]])
def test_wrong_times(arguments, tmp_path):
    source = "recording:restart-all-regular-exit"
    result = CliRunner().invoke(command, [source, "-o", str(tmp_path / "out.svg"), *arguments])
    assert result.exit_code == 2 or isinstance(result.exception, CallerError)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(tmp_path):
    result = CliRunner().invoke(
        command, ["recording:restart-all-regular-exit", "-o", str(tmp_path / "no" / "out.svg")]
    )
    assert isinstance(result.exception, CallerError)
