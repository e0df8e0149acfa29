"""``kubelet-emu run``: run Pod manifests on an emulated node and show what happened, and why.

Only what ``--help`` needs is imported at the top; a run imports the rest step by step, so that something is
on the screen before the node is built.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from kubelet_emu.cli import completion, devices
from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from cri_fake.behaviours import Behaviours
    from devices.dra import DraSetup
    from devices.setup import PluginSetup
    from kubelet_emu.cli.given import GivenPods
    from kubelet_emu.cli.output import Output
    from kubelet_emu.lab.deeds import Deed
    from kubelet_emu.lab.expectations import Expectation
    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.report import Reported
    from kubelet_emu.lab.run import RunListener, RunOptions, RunResult
    from kubelet_emu.lab.until import Until
    from kubelet_emu.nodeobject import NodeShape
    from kubelet_emu.settings import KubeletSettings

__all__ = ["Asked", "command", "exit_code"]

EXIT_FAILED = 1
SIGNAL_BASE = 128

_EPILOG = """\b
Examples:
  kubelet-emu run pod.yaml                      until nothing more is due
  kubelet-emu run pod.yaml --until 35s          35 simulated seconds
  kubelet-emu run pod.yaml --until Ready        until every pod is Ready
  kubelet-emu run jobs/ --until Succeeded       all manifests of a folder
  kubectl get pod x -o yaml | kubelet-emu run - a pod from standard input
  kubelet-emu run pod.yaml --exit 'train#0=1@30s' --expect 'final train.restartCount = 1'
  kubelet-emu run worker.yaml --devices a100x8 --fail-device '#3@30s'
  kubelet-emu run worker.yaml --against-recreate
  kubelet-emu run pod.yaml --do reboot-node@30s  the node loses its power after 30 s
  kubelet-emu run pod.yaml -o yaml              the final Pod objects and nothing else

\b
Exit codes:
  0    the run ended as asked, and every check and invariant held (a Failed pod is no error)
  1    a check or an invariant failed, or --until was not reached
  2    misuse, or a manifest that is not valid
  130  Ctrl-C
"""


@frozen(kw_only=True)
class Asked:
    """The options as given."""

    paths: tuple[str, ...]
    until: str
    max_time: str | None
    expect: tuple[str, ...]
    exits: tuple[str, ...]
    behaviour: str | None
    seed: int
    real_time: bool
    transport: str
    latency: str
    gate: tuple[str, ...]
    config: str | None
    node: str
    devices: tuple[str, ...]
    do: tuple[str, ...]
    fail_device: tuple[str, ...]
    dra_driver: tuple[str, ...]
    cri_endpoint: str
    static: bool
    real_host_paths: bool
    against_recreate: bool
    recreate_after: str
    logs: bool
    output: str
    trace: str | None
    view: bool
    check_determinism: bool
    quiet: bool
    no_color: bool


@click.command("run", epilog=_EPILOG, short_help="Run Pod manifests and show what happened, and why.")
@click.argument("paths", nargs=-1, metavar="PATH...", shell_complete=completion.files)
@click.option(
    "--until",
    default="settled",
    metavar="WHEN",
    show_default=True,
    help="When to stop: a duration (35s), a phase (Succeeded), a condition (Ready, Ready=False) "
    "or settled: nothing more is due within ten minutes.",
)
@click.option("--max-time", metavar="DURATION", help="Give up after this simulated time.  [default: 30m]")
@click.option(
    "--expect",
    multiple=True,
    metavar="CHECK",
    help="A check that has to hold, such as 'final phase = Running'. With several pods it is judged "
    "for each that has the containers it names, or for one: 'POD: CHECK'. Repeatable.",
)
@click.option(
    "--exit",
    "exits",
    multiple=True,
    metavar="[POD/]NAME[#N]=CODE@TIME",
    help="Let a container, or its instance N (from 0), exit with CODE so long after its start. Repeatable.",
)
@click.option(
    "--behaviour",
    metavar="FILE",
    help="YAML that says what containers do: run time, exit code, OOM kill, log lines, readiness, "
    "failed starts and pulls.",
)
@click.option(
    "--do",
    multiple=True,
    metavar="[POD/]ACTION@TIME[+DOWN]",
    help="Do something so long after the start: delete or stop-sandbox (a pod), restart-kubelet, "
    "restart-runtime or reboot-node (away for DOWN). Repeatable.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Fixes ids, delays and the order of tasks.",
)
@click.option("--real-time", is_flag=True, help="Run as fast as the clock on the wall, not in virtual time.")
@click.option(
    "--transport",
    type=click.Choice(["grpc", "memory"]),
    default="grpc",
    show_default=True,
    help="How kubelet and runtime talk: gRPC over a unix socket, or in memory (faster, and the same "
    "every time).",
)
@click.option(
    "--latency",
    type=click.Choice(["measured", "zero"]),
    default="measured",
    show_default=True,
    help="How long calls take: as on the recorded node, or no time.",
)
@click.option("--gate", multiple=True, metavar="NAME=true|false", help="Set a feature gate. Repeatable.")
@click.option("--config", metavar="FILE", help="A KubeletConfiguration (kubelet.config.k8s.io/v1beta1).")
@click.option(
    "--node",
    default="",
    metavar="cpu=N,memory=SIZE,pods=N",
    help="What the node offers; also ephemeral-storage and extended resources.",
)
@click.option("--devices", multiple=True, metavar="PRESET|FILE", help=devices.DEVICES_HELP)
@click.option("--fail-device", multiple=True, metavar="ID@TIME[-TIME]", help=devices.FAILURES_HELP)
@click.option("--dra-driver", multiple=True, metavar="NAME=N", help=devices.DRIVERS_HELP)
@click.option(
    "--cri-endpoint",
    default="",
    metavar="unix://PATH",
    help="Use this runtime instead of the built-in one. Implies --real-time.",
)
@click.option(
    "--static", is_flag=True, help="Run the pods as static pods of a kubelet without an API server."
)
@click.option(
    "--real-host-paths",
    is_flag=True,
    help="Let hostPath volumes reach this machine's own files. Without it they lie in a private "
    "folder that is thrown away.",
)
@click.option(
    "--against-recreate",
    is_flag=True,
    help="After a restart of a whole pod in place run it once more without that rule: the pod is deleted and "
    "created again. Both ways are shown side by side, with the latencies assumed.",
)
@click.option(
    "--recreate-after",
    default="0s",
    metavar="DURATION",
    show_default=True,
    help="What controller and scheduler take to put the next pod on the node, for --against-recreate.",
)
@click.option("--logs", is_flag=True, help="Show what the containers printed.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="json and yaml print the final Pod objects instead of the report.",
)
@click.option(
    "--trace",
    metavar="FILE",
    help="Write everything that happened, one JSON record a line; - prints it in place of the report.",
)
@click.option(
    "--check-determinism",
    is_flag=True,
    help="Run it twice and show where the traces part; needs --transport memory.",
)
@click.option("--view", is_flag=True, help="At the end open a page in the browser to step through the run.")
@click.option("-q", "--quiet", is_flag=True, help="Say only what went wrong.")
@click.option("--no-color", is_flag=True, help="No colours (as does NO_COLOR in the environment).")
def command(**options: Any) -> int:
    """Run the Pods of manifests on an emulated node until they settle.

    PATH is a YAML or JSON file, a folder of them, or - for standard input; ConfigMaps and Secrets beside the
    Pods are created first. Shown are the rows of `kubectl get pods --watch` while it runs, and at the end a
    timeline, the containers, conditions and events, what was kept over restarts, and whether everything held.
    """
    return run(Asked(**options))


def run(asked: Asked) -> int:
    """Do what was asked; returns the exit code. Raises ``CallerError`` for what cannot be done."""
    from kubelet_emu.cli.output import stderr, stdout

    if asked.trace == "-" and asked.output == "table":
        asked = evolve(asked, quiet=True)
    out, err = stdout(no_color=asked.no_color), stderr(no_color=asked.no_color)
    given, pods = _read(asked)
    for warning in pods.warnings:
        err.write(f"warning: {warning}")
    table = asked.output == "table" and not asked.quiet
    if table and not asked.check_determinism:
        out.write(_opening(asked, given, pods))
    options = _run_options(asked, given)
    if asked.check_determinism:
        return _twice(options, pods, out)
    with _traced(asked) as sink:
        try:
            result = _run(options, pods, out if table else None, sink)
        finally:
            out.status("")
        _show(asked, result, out, err)
    if asked.view:
        from kubelet_emu.cli.view import show_page

        err.write(f"page: {show_page(result.trace)}")
    compared = True
    if asked.against_recreate and not result.signum:
        from kubelet_emu.cli.against import compare_ways

        compared = compare_ways(result, options, pods, given.recreate_after, out if table else None, err)
    return exit_code(result) if compared else max(exit_code(result), EXIT_FAILED)


def _traced(asked: Asked) -> "AbstractContextManager[Callable[[str], object] | None]":
    """What takes the trace. The report comes before word of a trace that could not be written."""
    from kubelet_emu.cli.tracefile import trace_file

    if asked.trace is None:
        return nullcontext()
    return trace_file(asked.trace, stdout_is_free=asked.output == "table")


def _twice(options: "RunOptions", pods: "GivenPods", out: "Output") -> int:
    """The run twice, without any show; says where the traces part."""
    from kubelet_emu.lab.run import run as run_pods
    from kubelet_emu.sim.determinism import first_difference

    difference = first_difference(
        lambda sink: run_pods(
            pods.pods, evolve(options, node=evolve(options.node, sink=sink)), objects=pods.objects
        )
    )
    out.write("both runs gave the same trace" if difference is None else str(difference))
    return 0 if difference is None else EXIT_FAILED


def exit_code(result: "RunResult") -> int:
    """The exit code that a result stands for."""
    if result.signum:
        return SIGNAL_BASE + result.signum
    return 0 if result.ok else EXIT_FAILED


@frozen(kw_only=True)
class _Given:
    """The options as values."""

    settings: "KubeletSettings"
    shape: "NodeShape"
    told: "Behaviours"
    until: "Until"
    max_seconds: float | None
    recreate_after: float
    endpoint: str
    expectations: "tuple[Expectation, ...]"
    deeds: "tuple[Deed, ...]"
    devices: "tuple[PluginSetup, ...]"
    drivers: "tuple[DraSetup, ...]"


def _read(asked: Asked) -> tuple[_Given, "GivenPods"]:
    """Everything that can be wrong with what was given is found here, at once."""
    from cri_fake.behaviours import Behaviours
    from kubelet_emu.cli import given
    from kubelet_emu.gates import Gates
    from kubelet_emu.lab.until import SETTLED, parse_until
    from kubelet_emu.nodeobject import NodeShape
    from kubelet_emu.settings import KubeletSettings

    if asked.check_determinism and (asked.transport != "memory" or asked.cri_endpoint or asked.real_time):
        hint = "add --transport memory: over sockets and in real time no two runs are the same"
        raise CallerError([Problem("--check-determinism needs virtual time in memory", hint=hint)])
    if not asked.paths:
        raise CallerError(
            [Problem("no manifests given", hint="name files or folders, or - for standard input")]
        )
    collect = given.Collector()
    settings = collect.read(lambda: given.read_settings(asked.config), KubeletSettings())
    gates = collect.read(lambda: given.read_gates(settings, asked.gate), Gates())
    shape = collect.read(lambda: given.read_node(asked.node), NodeShape())
    drivers = collect.read(lambda: devices.read_drivers(asked.dra_driver), ())
    if settings.max_pods != KubeletSettings().max_pods and "pods=" not in asked.node:
        shape = evolve(shape, pods=settings.max_pods)
    told = collect.read(lambda: given.read_behaviours(asked.exits, asked.behaviour), Behaviours())
    until = collect.read(lambda: parse_until(asked.until), SETTLED)
    max_seconds = None
    if asked.max_time is not None:
        text = asked.max_time
        max_seconds = collect.read(lambda: given.read_duration("--max-time", text), 0.0)
    recreate_after = collect.read(lambda: given.read_duration("--recreate-after", asked.recreate_after), 0.0)
    endpoint = ""
    if asked.cri_endpoint:
        endpoint = collect.read(lambda: given.read_endpoint(asked.cri_endpoint), "")
        collect.read(lambda: _alone(asked), None)
    if asked.against_recreate and asked.static:
        collect.problems.append(
            Problem("--against-recreate: nobody can delete a static pod", hint="leave --static away")
        )

    def told_end(pod: str, container: str) -> bool:
        return told.for_instance(pod, container, 0).told_end

    pods = collect.read(
        lambda: given.read_pods(asked.paths, gates, static=asked.static, told=told_end), given.GivenPods()
    )
    plugins: tuple[PluginSetup, ...] = ()
    if pods.pods or asked.devices:
        plugins = collect.read(
            lambda: devices.read_devices(asked.devices, asked.fail_device, found=pods.devices), ()
        )
    expectations: tuple[Expectation, ...] = ()
    if pods.pods:
        collect.read(lambda: given.check_targets(told, pods.containers), None)
        expectations = collect.read(lambda: _expectations(asked, pods, settings.node_name), ())
    deeds: tuple[Deed, ...] = ()
    if asked.do and pods.pods:
        names = list(pods.containers)
        deeds = collect.read(lambda: _deeds(asked, names), ())
    collect.raise_all()
    values = _Given(
        settings=evolve(settings, gates=gates),
        shape=devices.shape_with_nodes(shape, plugins),
        told=told,
        until=until,
        max_seconds=max_seconds,
        recreate_after=recreate_after,
        endpoint=endpoint,
        expectations=expectations,
        deeds=deeds,
        devices=plugins,
        drivers=drivers,
    )
    return values, pods


def _expectations(asked: Asked, pods: "GivenPods", node_name: str) -> "tuple[Expectation, ...]":
    if not asked.expect:
        return ()
    from kubelet_emu.lab.expectations import read_expectations

    containers: Mapping[str, tuple[str, ...]] = pods.containers
    if asked.static:
        containers = {f"{name}-{node_name}": names for name, names in containers.items()}
    return read_expectations(asked.expect, containers)


def _deeds(asked: Asked, names: Sequence[str]) -> "tuple[Deed, ...]":
    from kubelet_emu.lab.deeds import parse_deeds

    return parse_deeds(asked.do, names, static=asked.static, foreign=bool(asked.cri_endpoint))


def _alone(asked: Asked) -> None:
    """Raises ``CallerError`` for options that only the built-in runtime understands."""
    given = {
        "--exit": asked.exits,
        "--behaviour": asked.behaviour,
        "--static": asked.static,
        "--against-recreate": asked.against_recreate,
    }
    wrong = [name for name, value in given.items() if value]
    if wrong:
        hint = "leave --cri-endpoint away for it"
        raise CallerError([Problem(f"only for the built-in runtime: {', '.join(wrong)}", hint=hint)])


def _opening(asked: Asked, given: _Given, pods: "GivenPods") -> str:
    """The first line: it is on the screen before the node is built."""
    count = len(pods.pods)
    how = "in memory" if asked.transport == "memory" else "over gRPC"
    if given.endpoint:
        how = f"on {given.endpoint}"
    time = "real time" if asked.real_time or given.endpoint else "virtual time"
    shape = given.shape
    offered = [f"cpu {shape.cpu}", f"memory {shape.memory}", f"pods {shape.pods}"]
    offered += [f"{len(setup.model.devices)} {setup.model.resource}" for setup in given.devices]
    node = f"{given.settings.node_name} ({', '.join(offered)})"
    what = f"{count} static pod" if asked.static else f"{count} pod"
    return f"{what}{'s' if count != 1 else ''} on {node}, {how}, {time}, seed {asked.seed}"


def _run_options(asked: Asked, given: _Given) -> "RunOptions":
    from kubelet_emu.lab.run import RunOptions
    from node_host.loop import Pace

    real = asked.real_time or bool(given.endpoint)
    return RunOptions(
        node=_node_options(asked, given, real=real),
        until=given.until,
        max_seconds=given.max_seconds,
        expectations=given.expectations,
        deeds=given.deeds,
        pace=Pace.REAL if real else Pace.VIRTUAL,
    )


def _node_options(asked: Asked, given: _Given, *, real: bool) -> "NodeOptions":
    import time

    from kubelet_emu.lab.node import NodeOptions
    from kubelet_emu.lab.static import STATIC_POD_PATH

    settings = given.settings
    if asked.static and not settings.static_pod_path:
        settings = evolve(settings, static_pod_path=STATIC_POD_PATH)
    options = NodeOptions(
        seed=asked.seed,
        transport="memory" if asked.transport == "memory" else "grpc",
        latency="zero" if asked.latency == "zero" else "measured",
        settings=settings,
        shape=given.shape,
        behaviours=given.told,
        static=asked.static,
        cri_endpoint=given.endpoint,
        real_host_paths=asked.real_host_paths,
        devices=given.devices,
        drivers=given.drivers,
        header={"gates": dict(settings.gates.overrides)},
    )
    # A person who waits in real time does not wait for an old kubelet as well.
    warm_up = bool(options.devices or options.drivers)  # pods find their devices there
    return evolve(options, epoch_ns=time.time_ns(), warm_up=warm_up) if real else options


def _run(
    options: "RunOptions", pods: "GivenPods", out: "Output | None", sink: "Callable[[str], object] | None"
) -> "RunResult":
    from kubelet_emu.lab.run import run as run_pods
    from node_host.loop import Pace

    listener: RunListener | None = None
    if out is not None:
        from kubelet_emu.cli.live import LiveTable

        several = len({pod["metadata"].get("namespace") for pod in pods.pods}) > 1
        listener = LiveTable(out, namespaces=several, stop_when_unread=options.pace is Pace.REAL)
    if sink is not None:
        options = evolve(options, node=evolve(options.node, sink=sink))
    return run_pods(pods.pods, options, objects=pods.objects, listener=listener)


# -- the end --


def _show(asked: Asked, result: "RunResult", out: "Output", err: "Output") -> None:
    from kubelet_emu.lab.report import full_report, verdict_lines

    if asked.output == "table" and not asked.quiet:
        out.lines(full_report(_reported(asked, result, out)).lines())
        return
    if asked.output != "table":
        out.write(_document(asked.output, result))
    err.lines(verdict_lines(_reported(asked, result, err)))


def _reported(asked: Asked, result: "RunResult", output: "Output") -> "Reported":
    from kubelet_emu.lab.report import Reported
    from kubelet_emu.lab.run import absent_resources, opaque_processes

    return Reported(
        ending=result.ending,
        trace=result.trace,
        pods=result.pods,
        events=result.events,
        checks=result.checks,
        invariants=result.invariants,
        logs=result.logs if asked.logs else None,
        opaque=opaque_processes(result.trace.records),
        absent=absent_resources(result.pods, result.trace.records),
        now_ns=result.now_ns,
        zero_ns=result.zero_ns,
        wall_seconds=result.wall_seconds,
        calls=result.calls,
        until=asked.until,
        width=output.width,
        glyphs=output.glyphs,
    )


def _document(form: str, result: "RunResult") -> str:
    from kubelet_emu.cli.documents import json_text, yaml_text
    from kubelet_emu.lab.run import as_document

    document = as_document(result.pods)
    return json_text(document) if form == "json" else yaml_text(document)
