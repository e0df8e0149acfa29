"""What explanations and pictures are made from: a trace, a recording, a manifest a scenario or a case.

A manifest, a scenario or a case is run first, in memory and in virtual time.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from kubelet_emu.lab.explain.reading import Reading
    from kubelet_emu.lab.scenarios import Scenario
    from kubelet_emu.trace.schema import Trace

__all__ = ["SOURCE_HELP", "load_reading", "load_trace", "source_options"]

SOURCE_HELP = (
    "SOURCE is a trace (from `run --trace`), a recording of a real kubelet, a manifest, a shipped "
    "scenario's id, a case that `fuzz` kept, "
    "recording:ID for that scenario's recording, or - for standard input."
)
_RECORDING = "recording:"
_CASE = re.compile(r"^kubelet-emu-case:", re.MULTILINE)
_CASE_CHARACTERS = 4096
"""Where the key of a case has to be: failures that are kept begin with a line of what broke."""
_TRACE_BYTES_MAX = 1024 * 1024 * 1024


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for sources that have to be run first."""
    for option in (
        click.option(
            "--exit",
            "exits",
            multiple=True,
            metavar="[POD/]NAME[#N]=CODE@TIME",
            help="For a manifest: let a container exit so long after its start. Repeatable.",
        ),
        click.option(
            "--until",
            default="settled",
            show_default=True,
            metavar="WHEN",
            help="For a manifest: when to stop.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**63 - 1),
            help="For a manifest (default 0, as for `run`) or a scenario (1, as for `conform`).",
        ),
    ):
        function = option(function)
    return function


def load_reading(
    source: str, *, seed: int | None = None, exits: tuple[str, ...] = (), until: str = "settled"
) -> "Reading":
    """A source, read. Raises ``CallerError`` for what cannot be read or run."""
    from kubelet_emu.lab.explain.reading import read_trace

    trace = load_trace(source, seed=seed, exits=exits, until=until)
    return read_trace(trace, _objects(trace))


def load_trace(
    source: str, *, seed: int | None = None, exits: tuple[str, ...] = (), until: str = "settled"
) -> "Trace":
    """The trace that a source stands for. Raises ``CallerError``."""
    if source.startswith(_RECORDING):
        return _recording(source.removeprefix(_RECORDING))
    if source == "-":
        text = sys.stdin.read(_TRACE_BYTES_MAX)
        return _from_text(text, "-", seed, exits, until)
    path = Path(source)
    if not path.exists():
        scenario = _scenario(source)
        if scenario is not None:
            return _run_scenario(scenario, seed)
        raise CallerError(
            [
                Problem(
                    f"{source!r} is neither a file nor the id of a scenario",
                    hint="`kubelet-emu conform --list` lists the scenarios",
                )
            ]
        )
    if path.is_dir():
        return _run_manifest([source], seed, exits, until)
    try:
        with path.open(encoding="utf-8") as lines:
            first = lines.readline()
            if _is_header(first):
                from kubelet_emu.trace.ndjson import read_lines

                lines.seek(0)
                return read_lines(lines, file=source)
            lines.seek(0)
            if _CASE.search(lines.read(_CASE_CHARACTERS)):
                return _run_case(source)
    except OSError as error:
        raise CallerError([Problem(f"cannot be read: {error.strerror}", file=source)]) from None
    except UnicodeDecodeError as error:
        raise CallerError([Problem(f"is not UTF-8: byte {error.start}", file=source)]) from None
    return _run_manifest([source], seed, exits, until)


def _is_header(line: str) -> bool:
    try:
        record: object = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("k") == "header"  # pyright: ignore


def _from_text(text: str, name: str, seed: int | None, exits: tuple[str, ...], until: str) -> "Trace":
    if _is_header(text.partition("\n")[0]):
        from kubelet_emu.trace.ndjson import read_lines

        return read_lines(text.splitlines(), file=name)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kubelet-emu-") as folder:
        path = Path(folder) / "stdin.yaml"
        path.write_text(text, encoding="utf-8")
        return _run_manifest([str(path)], seed, exits, until)


def _run_case(source: str) -> "Trace":
    from kubelet_emu.cli.replay import load_case
    from kubelet_emu.sim import run_case
    from kubelet_emu.trace.ndjson import read_lines

    lines: list[str] = []
    run_case(load_case(source), sink=lines.append)
    return read_lines(lines, file=source)


def _scenario(name: str) -> "Scenario | None":
    from kubelet_emu.lab.scenarios import builtin_scenarios

    return next((one for one in builtin_scenarios() if one.id == name), None)


def _recording(name: str) -> "Trace":
    from kubelet_emu.lab.scenarios import load_recordings

    scenario, _, run = name.partition(".")
    found = load_recordings(scenario)
    if run:
        found = tuple(trace for trace in found if trace.header.get("run") == run)
    if not found:
        raise CallerError(
            [
                Problem(
                    f"there is no recording {name!r}", hint="`kubelet-emu conform --list` lists the scenarios"
                )
            ]
        )
    return found[0]


def _objects(trace: "Trace") -> Mapping[str, Mapping[str, Any]] | None:
    """The pods of a recording, which does not hold them itself."""
    if "emitter" in trace.header:
        return None
    scenario = _scenario(str(trace.header.get("scenario", "")))
    return {scenario.pod_name: scenario.pod} if scenario is not None else None


def _run_scenario(scenario: "Scenario", seed: int | None) -> "Trace":
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.runner import run_scenario

    return run_scenario(scenario, NodeOptions(seed=1 if seed is None else seed, transport="memory"))


def _run_manifest(paths: list[str], seed: int | None, exits: tuple[str, ...], until: str) -> "Trace":
    from kubelet_emu.cli import given
    from kubelet_emu.gates import Gates
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.run import RunOptions, run
    from kubelet_emu.lab.until import parse_until

    told = given.read_behaviours(exits, None)

    def told_end(pod: str, container: str) -> bool:
        return told.for_instance(pod, container, 0).told_end

    pods = given.read_pods(tuple(paths), Gates(), static=False, told=told_end)
    given.check_targets(told, pods.containers)
    node = NodeOptions(seed=seed or 0, transport="memory", behaviours=told)
    return run(pods.pods, RunOptions(node=node, until=parse_until(until)), objects=pods.objects).trace
