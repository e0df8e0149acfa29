"""``kubelet-emu run`` as a person meets it: what is shown, what is refused and how, exit codes, what is left.

Goal: every bad input of the issue has a clear message with what to do and the right exit code. Method: the
entry point itself, called in this process with its own streams; whole processes only where signals, pipes or
start-up times are the subject.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from kubelet_emu.cli.main import main

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "ml-worker.yaml")
ROOT = Path(__file__).parents[2]
FAST = ("--transport", "memory", "--latency", "zero")


class Ran:
    """What one call of the command line did."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def ke(*args, stdin=""):
    """Call the command line in this process."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["kubelet-emu", *args], io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main()
    finally:
        sys.argv, sys.stdin = before
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Ran(ended.value.code, *texts)


def manifest(tmp_path, text, name="pod.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def pod(container="", spec=""):
    """A manifest with room for what is to be wrong; the container begins in line 6."""
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: main\n"
        f"    image: busybox:1.36\n{container}{spec}"
    )


SLEEP = "    command: [sleep, '3']\n"
DONE = pod(SLEEP, "  restartPolicy: Never\n")


# -- bad input: message, what to do, exit code 2 --

CODES = ", ".join(map(str, range(256)))
RULES = (
    "    restartPolicyRules:\n    - action: {action}\n      exitCodes:\n        operator: In\n"
    "        values: [{codes}]\n"
)
BAD = {
    "unknown field": (
        pod("    comand: [sleep]\n"),
        ["pod.yaml:8:", 'unknown field "spec.containers[0].comand"', 'did you mean "command"?'],
    ),
    "wrong type": (
        pod("    env:\n    - {name: A, value: 5}\n"),
        ["pod.yaml:9:", "cannot unmarshal number", 'put it in quotes: "5"'],
    ),
    "duplicate key": (
        pod("    image: other\n"),
        ["pod.yaml:8:", 'duplicate field "spec.containers[0].image"'],
    ),
    "rule without restartPolicy": (
        pod(RULES.format(action="Restart", codes=1)),
        ["spec.containers[0].restartPolicy: Required value: must specify restartPolicy"],
    ),
    "unknown action": (
        pod("    restartPolicy: Never\n" + RULES.format(action="Explode", codes=1)),
        ["pod.yaml:10:", 'Unsupported value: "Explode"', '"RestartAllContainers"'],
    ),
    "256 exit codes": (
        pod("    restartPolicy: Never\n" + RULES.format(action="Restart", codes=CODES)),
        ["exitCodes.values: Too many: 256: must have at most 255 items"],
    ),
    "empty file": ("", ["pod.yaml", "no objects in the file"]),
    "a Deployment": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}\n",
        ["kind Deployment is not supported", "a node runs Pods only", "spec.template"],
    ),
    "an unsupported shell construct": (
        pod("    command:\n    - bash\n    - -c\n    - |\n      a=(1 2)\n      echo\n"),
        ["pod.yaml:11:", "its line 1", "POSIX", "--exit main=CODE@TIME"],
    ),
    "no Pod": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
        ["there is no Pod among the objects"],
    ),
    "not YAML": ("a: [1\n", ["pod.yaml", "yaml"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_manifest_is_refused_with_its_place_and_what_to_do(tmp_path, case):
    text, parts = BAD[case]
    ran = ke("run", manifest(tmp_path, text))
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err
    for part in parts:
        assert part in ran.err


def test_missing_file_names_what_was_probably_meant(tmp_path):
    manifest(tmp_path, DONE)
    ran = ke("run", str(tmp_path / "pods.yaml"))
    assert ran.code == 2
    assert "does not exist" in ran.err
    assert "did you mean" in ran.err


def test_all_problems_of_all_files_and_options_come_at_once(tmp_path):
    one = manifest(tmp_path, pod("    comand: [sleep]\n"), "one.yaml")
    two = manifest(tmp_path, pod("    restartPolicy: Sometimes\n"), "two.yaml")
    ran = ke("run", one, two, "--until", "wat", "--gate", "X", "--node", "gold=3", "--exit", "x")
    assert ran.code == 2
    for part in ("one.yaml:8", "two.yaml:8", "--until", "--gate", "--node", "--exit", "nothing has been run"):
        assert part in ran.err


BAD_OPTIONS = {
    "until": (["--until", "soon"], "give a duration (35s), a phase"),
    "max-time": (["--max-time", "long"], "not a duration"),
    "exit": (["--exit", "main=300@1s"], "not a number from 0 to 255"),
    "exit of nobody": (["--exit", "mian=1@1s"], "did you mean main?"),
    "expect": (["--expect", "final phase is Running"], "column"),
    "expect of nobody": (["--expect", "final mian.ready = true"], "containers: main"),
    "gate": (["--gate", "NoSuchGate=true"], "unknown feature gate NoSuchGate"),
    "locked gate": (["--gate", "SidecarContainers=false"], "locked to true"),
    "node": (["--node", "cpu=much"], "quantities must match"),
    "behaviour": (["--behaviour", "/no/such/file"], "cannot be read"),
    "config": (["--config", "/no/such/file"], "cannot be read"),
    "trace": (["--trace", "/no/such/folder/trace"], "cannot be written"),
    "endpoint": (["--cri-endpoint", "tcp://1.2.3.4"], "is no unix socket"),
    "no such option": (["--frobnicate"], "No such option"),
    "seed": (["--seed", "-1"], "--seed"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_option_is_refused_with_what_to_do(tmp_path, case):
    options, part = BAD_OPTIONS[case]
    ran = ke("run", manifest(tmp_path, DONE), *FAST, *options)
    assert ran.code == 2
    assert part in ran.err
    assert "Traceback" not in ran.err


def test_a_runtime_that_is_not_there_is_told(tmp_path):
    socket = tmp_path / "cri.sock"
    ran = ke("run", manifest(tmp_path, DONE), "--cri-endpoint", f"unix://{socket}")
    assert ran.code == 2
    assert f"no socket at {socket}" in ran.err
    assert "cri-fake serve" in ran.err
    socket.write_text("")
    assert "is not a socket" in ke("run", manifest(tmp_path, DONE), "--cri-endpoint", f"unix://{socket}").err


def test_nothing_given_says_what_to_give():
    ran = ke("run")
    assert ran.code == 2
    assert "name files or folders, or - for standard input" in ran.err


def test_a_manifest_without_a_verb_is_understood():
    ran = ke("pod.yaml")
    assert ran.code == 2
    assert "kubelet-emu run pod.yaml" in ran.err


# -- what is shown --


def test_shows_rows_timeline_tables_and_verdict(tmp_path):
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--logs", "--expect", "final phase = Succeeded")
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0].startswith(
        "1 pod on node-1 (cpu 2, memory 24Gi, pods 200), in memory, virtual time, seed 0"
    )
    assert lines[1] == "NAME   READY   STATUS    RESTARTS   AGE"
    assert lines[2] == "p      0/1     Pending   0          0s"
    titles = [line for line in lines if line and not line.startswith((" ", "p ", "NAME", "1 pod", "settled"))]
    assert titles == [
        "Timeline",
        "What happened, and why",
        "Containers",
        "Conditions",
        "Events",
        "Logs",
        "Invariants: all 25 hold",
        "Checks: all hold",
    ]
    assert "\x1b" not in ran.out
    assert max(map(len, lines)) <= 220


def test_a_row_is_shown_only_when_it_has_changed(tmp_path):
    ran = ke("run", manifest(tmp_path, DONE), *FAST)
    rows = [line.split()[:4] for line in ran.out.splitlines() if line.startswith("p ")]
    assert all(a != b for a, b in pairwise(rows))
    assert [row[2] for row in rows] == ["Pending", "ContainerCreating", "Running", "Completed"]


def test_the_example_restarts_in_place_and_settles():
    ran = ke("run", EXAMPLE, "--transport", "memory", "--expect", "final watcher.restartCount = 1")
    assert ran.code == 0
    assert "RestartingAllContainers" in ran.out
    assert "restart of all containers in place" in ran.out
    assert "Kept over 3 restarts of containers (1 of the whole pod in place)" in ran.out


def test_a_failed_check_is_exit_code_1_and_says_what_was_found(tmp_path):
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--expect", "final phase = Failed", "--quiet")
    assert ran.code == 1
    assert ran.out == ""
    assert "final phase = Failed" in ran.err
    assert "phase is Succeeded" in ran.err


def test_a_failed_pod_is_no_error(tmp_path):
    assert ke("run", manifest(tmp_path, DONE), *FAST, "--exit", "main=3@1s", "--quiet").code == 0


def test_what_was_not_reached_is_exit_code_1(tmp_path):
    ran = ke("run", manifest(tmp_path, pod()), *FAST, "--until", "Succeeded", "--max-time", "20s")
    assert ran.code == 1
    assert "Succeeded not reached within 20s (--max-time)" in ran.out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_objects_alone_can_be_read_by_programs(tmp_path, form):
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "-o", form, "--expect", "final phase = Failed")
    found = json.loads(ran.out) if form == "json" else yaml.safe_load(ran.out)
    assert found["kind"] == "Pod"
    assert found["status"]["phase"] == "Succeeded"
    assert ran.code == 1
    assert "final phase = Failed" in ran.err


def test_several_pods_from_a_list_on_standard_input(tmp_path):
    items = [yaml.safe_load(DONE), {**yaml.safe_load(DONE), "metadata": {"name": "q"}}]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    ran = ke("run", "-", *FAST, "-o", "json", stdin=given)
    assert [item["metadata"]["name"] for item in json.loads(ran.out)["items"]] == ["p", "q"]


def test_the_trace_is_written_line_by_line(tmp_path):
    file = tmp_path / "trace.ndjson"
    assert ke("run", manifest(tmp_path, DONE), *FAST, "--trace", str(file), "--quiet").code == 0
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert records[0]["k"] == "header"
    assert {"pod", "cri", "event", "decision", "process"} <= {record["k"] for record in records}


def test_a_trace_that_finds_no_room_is_said_after_the_report(tmp_path):
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--trace", "/dev/full")
    assert ran.code == 2
    assert "Invariants" in ran.out
    assert ran.err == "error: --trace: /dev/full cannot be written: No space left on device\n"


def test_a_dash_prints_the_trace_in_place_of_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--trace", "-")
    assert (ran.code, ran.err) == (0, "")
    assert {"header", "pod", "cri"} <= {json.loads(line)["k"] for line in ran.out.splitlines()}
    assert [file.name for file in tmp_path.iterdir()] == ["pod.yaml"]


def test_a_trace_and_pods_do_not_share_standard_output(tmp_path):
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--trace", "-", "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "name a file" in ran.err


def test_a_folder_too_long_for_sockets_is_refused_and_nothing_left(tmp_path):
    long = tmp_path / ("t" * 120)
    long.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "kubelet_emu", "run", manifest(tmp_path, DONE)],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "TMPDIR": str(long),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")]),
        },
    )
    assert done.returncode == 2
    assert "at most 107 bytes" in done.stderr
    assert "set TMPDIR" in done.stderr
    assert list(long.iterdir()) == []


CLOSED = {
    "stdin": ("- <&-", 2, "no objects"),
    "stdout": ("POD >&-", 0, ""),
    "stderr": ("/no/such/pod 2>&-", 2, ""),
    "full": ("POD >/dev/full", 2, "cannot be printed: No space left on device"),
}


@pytest.mark.parametrize("case", CLOSED)
def test_a_standard_stream_that_is_closed_or_full(tmp_path, case):
    words, code, said = CLOSED[case]
    command = f"{sys.executable} -m kubelet_emu run {' '.join(FAST)} {words}"
    done = subprocess.run(
        ["sh", "-c", command.replace("POD", manifest(tmp_path, DONE))],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")])},
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_static_pods(tmp_path):
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--static", "--expect", "final phase = Succeeded")
    assert ran.code == 0
    assert "p-node-1" in ran.out
    refers = pod("    envFrom:\n    - configMapRef: {name: c}\n")
    ran = ke("run", manifest(tmp_path, refers), *FAST, "--static")
    assert ran.code == 2
    assert "static pods may not reference configmaps" in ran.err


def test_opaque_programs_come_with_how_to_script_them(tmp_path):
    text = pod("    command: [python, train.py]\n").replace("busybox:1.36", "example.com/trainer:1")
    ran = ke("run", manifest(tmp_path, text), *FAST, "--until", "20s")
    assert "p/main  python train.py" in ran.out
    assert "--exit main=1@30s" in ran.out


def test_devices_that_the_node_lacks_are_named(tmp_path):
    wants = pod("    resources: {limits: {nvidia.com/gpu: 4}}\n")
    ran = ke("run", manifest(tmp_path, wants), *FAST, "--until", "9s")
    assert ran.code == 0
    assert "p/main  4 nvidia.com/gpu" in ran.out
    assert "--devices a100x8" in ran.out
    for has in (("--devices", "a100x8"), ("--node", "nvidia.com/gpu=4")):
        ran = ke("run", manifest(tmp_path, wants), *FAST, "--until", "9s", *has)
        assert "Devices that the node does not have" not in ran.out


def test_behaviours_come_from_a_file_and_from_options(tmp_path):
    file = manifest(tmp_path, "containers:\n  main: {runFor: 2s, exitCode: 7, logLines: [hello]}\n", "b.yaml")
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--behaviour", file, "--logs")
    assert "hello" in ran.out
    assert "exited with 7" in ran.out
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--behaviour", file, "--exit", "p/main#0=9@1s")
    assert "exited with 9" in ran.out


def test_the_nodes_shape_and_gates_matter(tmp_path):
    wants = pod("    resources: {requests: {cpu: '3'}}\n")
    assert "OutOfcpu" in ke("run", manifest(tmp_path, wants), *FAST).out
    assert (
        "OutOfcpu" not in ke("run", manifest(tmp_path, wants), *FAST, "--node", "cpu=4", "--until", "9s").out
    )
    config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n"
    ran = ke("run", manifest(tmp_path, DONE), *FAST, "--config", manifest(tmp_path, config, "kubelet.yaml"))
    assert "pods 7)" in ran.out
    ruled = pod("    restartPolicy: Never\n" + RULES.format(action="RestartAllContainers", codes=1))
    ran = ke("run", manifest(tmp_path, ruled), *FAST, "--gate", "RestartAllContainersOnContainerExits=false")
    assert ran.code == 2
    assert "Unsupported value" in ran.err


def test_host_paths_stay_private_unless_asked(tmp_path):
    folder = tmp_path / "host"
    folder.mkdir()
    text = DONE.replace(
        SLEEP, "    command: [sh, -c, 'echo x > /h/out']\n    volumeMounts: [{name: h, mountPath: /h}]\n"
    )
    text += f"  volumes: [{{name: h, hostPath: {{path: {folder}}}}}]\n"
    assert ke("run", manifest(tmp_path, text), *FAST, "--quiet").code == 0
    assert list(folder.iterdir()) == []
    assert ke("run", manifest(tmp_path, text), *FAST, "--quiet", "--real-host-paths").code == 0
    assert [file.name for file in folder.iterdir()] == ["out"]


def test_warnings_do_not_stop_a_run(tmp_path):
    text = DONE + "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s}\n"
    ran = ke("run", manifest(tmp_path, text), *FAST, "--quiet")
    assert ran.code == 0
    assert "warning: " in ran.err
    assert "ServiceAccount s is not used" in ran.err


def test_a_script_whose_end_is_told_need_not_be_understood(tmp_path):
    text = pod("    command: [sh, -c, 'a=(1 2)']\n", "  restartPolicy: Never\n")
    assert ke("run", manifest(tmp_path, text), *FAST, "--quiet").code == 2
    assert ke("run", manifest(tmp_path, text), *FAST, "--quiet", "--exit", "main=0@1s").code == 0


# -- whole processes --


def start(*args, **more):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}", "TERM": "dumb"}
    return subprocess.Popen(
        [sys.executable, "-m", "kubelet_emu", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, **more.pop("env", {})},
        **more,
    )


@pytest.mark.parametrize("wait_for", ["NAME", "Running"])
def test_ctrl_c_ends_a_run_in_good_order(tmp_path, wait_for):
    """Over real gRPC and in real time: the summary is printed, the code is 130, no folder stays."""
    path = manifest(tmp_path, pod("    command: [sleep, '1000']\n"))
    process = start("run", path, "--real-time", env={"TMPDIR": str(tmp_path)})
    seen = ""
    while wait_for not in seen:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        seen += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted at" in out
    assert "Traceback" not in err
    assert [entry.name for entry in tmp_path.iterdir()] == ["pod.yaml"]


@pytest.mark.parametrize("after_seconds", [0.15, 0.3, 0.5])
def test_ctrl_c_before_anything_runs_is_quiet(tmp_path, after_seconds):
    path = manifest(tmp_path, pod("    command: [sleep, '1000']\n"))
    process = start("run", path, "--real-time", env={"TMPDIR": str(tmp_path)})
    time.sleep(after_seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    # The interpreter itself may still be starting: then it is not yet us who answer.
    assert process.returncode in (130, -signal.SIGINT, 1)
    assert "Traceback" not in err or "site" in err or process.returncode == -signal.SIGINT
    assert [entry.name for entry in tmp_path.iterdir()] == ["pod.yaml"]


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    path = manifest(tmp_path, DONE)
    process = start("run", path, *FAST, env={"TMPDIR": str(tmp_path)})
    process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=30)
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.returncode == 0


def test_help_is_there_at_once_and_has_examples():
    process = start("run", "--help")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert err == ""
    assert "Examples:" in out
    assert "Exit codes:" in out


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['kubelet-emu', 'run', '--help']\nfrom kubelet_emu.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('trio', 'grpc', 'yaml', 'google.protobuf') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_encoding_without_box_characters_gets_plain_ones(tmp_path):
    process = start("run", manifest(tmp_path, DONE), *FAST, env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert out.isascii()
