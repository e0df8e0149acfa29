"""``kubelet-emu serve``: a node in real time that stays up until it is stopped.

Only what ``--help`` needs is imported at the top.
"""

from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from kubelet_emu.cli import completion, devices
from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from cri_fake.behaviours import Behaviours
    from devices.dra import DraSetup
    from devices.setup import PluginSetup
    from kubelet_emu.cli.given import GivenPods
    from kubelet_emu.nodeobject import NodeShape
    from kubelet_emu.server.served import ServedNode, ServedOptions
    from kubelet_emu.settings import KubeletSettings

__all__ = ["Asked", "command"]

EXIT_INTERRUPTED = 130

_EPILOG = """\b
Examples:
  kubelet-emu serve --root /tmp/node --devices a100x8
  cp pod.yaml /tmp/node/manifests/               a static pod
  curl http://127.0.0.1:10255/pods
  fake-devices serve tpu --kubelet-dir /tmp/node/kubelet
  kubelet-emu serve --root /tmp/node --port 0 --cri-endpoint unix:///run/containerd/containerd.sock

\b
Below the folder:
  manifests/                            static pods, watched
  cri.sock                              the runtime
  kubelet/device-plugins/kubelet.sock   where device plugins register
  kubelet/plugins_registry/             where other plugins put their sockets
  kubelet/pod-resources/kubelet.sock    the PodResources API

\b
Exit codes:
  0    stopped by SIGTERM
  1    the runtime or the kubelet failed
  2    misuse, or an address or folder that cannot be used
  130  Ctrl-C
"""


@frozen(kw_only=True)
class Asked:
    """The options as given."""

    root: str | None
    port: int
    paths: tuple[str, ...]
    devices: tuple[str, ...]
    fail_device: tuple[str, ...]
    dra_driver: tuple[str, ...]
    exits: tuple[str, ...]
    behaviour: str | None
    seed: int
    latency: str
    gate: tuple[str, ...]
    config: str | None
    node: str
    pod_cidr: str
    cri_endpoint: str
    trace: str | None
    quiet: bool


@click.command("serve", epilog=_EPILOG, short_help="Serve a node in real time until stopped.")
@click.argument("paths", nargs=-1, metavar="[PATH...]", shell_complete=completion.files)
@click.option(
    "--root",
    metavar="DIR",
    help="The node's folder (mode 0700): a new one, or one that a node was served in before. "
    "Without it a new temporary folder, removed in the end.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=10255,
    show_default=True,
    metavar="N",
    help="Port of the read-only HTTP endpoints on 127.0.0.1; 0 takes a free one.",
)
@click.option("--devices", multiple=True, metavar="PRESET|FILE", help=devices.DEVICES_HELP)
@click.option("--fail-device", multiple=True, metavar="ID@TIME[-TIME]", help=devices.FAILURES_HELP)
@click.option("--dra-driver", multiple=True, metavar="NAME=N", help=devices.DRIVERS_HELP)
@click.option(
    "--exit",
    "exits",
    multiple=True,
    metavar="[POD/]NAME[#N]=CODE@TIME",
    help="Let a container exit with CODE so long after its start. Repeatable.",
)
@click.option("--behaviour", metavar="FILE", help="YAML that says what containers do.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Fixes ids and delays."
)
@click.option(
    "--latency",
    type=click.Choice(["measured", "zero"]),
    default="measured",
    show_default=True,
    help="How long calls of the built-in runtime take.",
)
@click.option("--gate", multiple=True, metavar="NAME=true|false", help="Set a feature gate. Repeatable.")
@click.option("--config", metavar="FILE", help="A KubeletConfiguration (kubelet.config.k8s.io/v1beta1).")
@click.option("--node", default="", metavar="cpu=N,memory=SIZE,pods=N", help="What the node offers.")
@click.option(
    "--pod-cidr",
    default="127.64.0.0/16",
    show_default=True,
    metavar="CIDR",
    help="Addresses of pods of the built-in runtime.",
)
@click.option(
    "--cri-endpoint", default="", metavar="unix://PATH", help="Use this runtime instead of the built-in one."
)
@click.option("--trace", metavar="FILE", help="Write everything that happens, one JSON record a line.")
@click.option("-q", "--quiet", is_flag=True, help="Say only where what is served, not what happens.")
def command(**options: Any) -> int:
    """Serve one node in real time, until SIGTERM or Ctrl-C.

    Pods of the manifests at PATH are created at the start, as through an API server; static pods come from
    the manifest folder. Device plugins, monitoring agents and CRI tools find the sockets and HTTP endpoints
    of a kubelet. Everything lies below one folder, and nothing outside it is touched (another runtime than
    the built-in one apart).
    """
    return serve(Asked(**options))


def serve(asked: Asked) -> int:
    """Do what was asked; returns the exit code. Raises ``CallerError`` for what cannot be done."""
    import shutil
    import tempfile

    from kubelet_emu.server.served import make_root

    options = _read(asked)
    if asked.root is not None:
        return _run(asked, options, make_root(asked.root))
    root = tempfile.mkdtemp(prefix="kubelet-emu-")
    try:
        return _run(asked, options, make_root(root))
    finally:
        shutil.rmtree(root, ignore_errors=True)


@frozen(kw_only=True)
class _Given:
    """The options as values."""

    settings: "KubeletSettings"
    shape: "NodeShape"
    told: "Behaviours"
    devices: "tuple[PluginSetup, ...]"
    drivers: "tuple[DraSetup, ...]"
    pods: "GivenPods"
    endpoint: str


def _read(asked: Asked) -> _Given:
    """Everything that can be wrong with what was given is found here, at once."""
    from attrs import evolve

    from cri_fake.behaviours import Behaviours
    from kubelet_emu.cli import given
    from kubelet_emu.gates import Gates
    from kubelet_emu.nodeobject import NodeShape
    from kubelet_emu.settings import KubeletSettings

    collect = given.Collector()
    settings = collect.read(lambda: given.read_settings(asked.config), KubeletSettings())
    gates = collect.read(lambda: given.read_gates(settings, asked.gate), Gates())
    shape = collect.read(lambda: given.read_node(asked.node), NodeShape())
    told = collect.read(lambda: given.read_behaviours(asked.exits, asked.behaviour), Behaviours())
    plugins = collect.read(lambda: devices.read_devices(asked.devices, asked.fail_device), ())
    drivers = collect.read(lambda: devices.read_drivers(asked.dra_driver), ())
    endpoint = ""

    def told_end(pod: str, container: str) -> bool:
        return told.for_instance(pod, container, 0).told_end

    if asked.cri_endpoint:
        endpoint = collect.read(lambda: given.read_endpoint(asked.cri_endpoint), "")
        wrong = [name for name, value in (("--exit", asked.exits), ("--behaviour", asked.behaviour)) if value]
        if wrong:
            hint = "leave --cri-endpoint away for it"
            collect.problems.append(Problem(f"{', '.join(wrong)} needs the built-in runtime", hint=hint))
    pods = given.GivenPods()
    if asked.paths:
        pods = collect.read(lambda: given.read_pods(asked.paths, gates, static=False, told=told_end), pods)
    collect.raise_all()
    return _Given(
        settings=evolve(settings, gates=gates),
        shape=devices.shape_with_nodes(shape, plugins),
        told=told,
        devices=plugins,
        drivers=drivers,
        pods=pods,
        endpoint=endpoint,
    )


def _run(asked: Asked, given: _Given, root: str) -> int:
    import time
    from contextlib import ExitStack

    from kubelet_emu.cli.output import stderr, stdout
    from kubelet_emu.cli.tracefile import trace_file
    from kubelet_emu.server.narrate import Narrator
    from kubelet_emu.server.served import ServedOptions
    from node_host.loop import Pace, run

    out, narrator = stdout(), Narrator()

    def tell(record: Any) -> None:
        line = narrator.line(record)
        if line:
            out.write(f"{record['t']:10.3f}s  {line}")

    with ExitStack() as stack:
        sink = None
        if asked.trace:
            sink = stack.enter_context(trace_file(asked.trace, line_by_line=True))
        options = ServedOptions(
            root=root,
            port=asked.port,
            seed=asked.seed,
            settings=given.settings,
            shape=given.shape,
            latency="zero" if asked.latency == "zero" else "measured",
            behaviours=given.told,
            pod_cidr=asked.pod_cidr,
            cri_endpoint=given.endpoint,
            devices=given.devices,
            drivers=given.drivers,
            objects=given.pods.objects,
            pods=given.pods.pods,
            epoch_ns=time.time_ns(),
            sink=sink,
            listener=None if asked.quiet else tell,
        )
        try:
            number = run(_serve, options, out.write, seed=asked.seed, pace=Pace.REAL)
        except BaseExceptionGroup as group:
            raise _innermost(group) from None
        except OSError as error:
            raise CallerError([Problem(str(error))]) from None
    if number is None:
        return 0
    stderr().write("interrupted")
    return EXIT_INTERRUPTED


async def _serve(options: "ServedOptions", say: Any) -> int | None:
    """Serve until a signal; SIGINT's number or None."""
    import signal

    import trio

    from kubelet_emu.server.served import ServedNode

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            number = signal.SIGTERM

            async def until_stopped() -> None:
                nonlocal number
                async for received in signals:
                    number = signal.Signals(received)
                    break
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_stopped)
            async with ServedNode(options) as node:
                for line in _places(node):
                    say(line)
                await trio.sleep_forever()
    return number if number == signal.SIGINT else None


def _places(node: "ServedNode") -> list[str]:
    """Where what is served."""
    options, root_dir = node.options, node.settings.root_dir
    rows = [
        ("node", f"{node.settings.node_name} in {options.root}"),
        ("http", f"http://127.0.0.1:{node.port}"),
        ("manifests", node.host_path(node.settings.static_pod_path)),
        ("runtime", options.cri_endpoint or f"unix://{options.root}/cri.sock"),
        ("plugins", f"unix://{node.host_path(root_dir)}/device-plugins/kubelet.sock"),
        ("podresources", f"unix://{node.host_path(root_dir)}/pod-resources/kubelet.sock"),
    ]
    return [*(f"{name:13}{where}" for name, where in rows), "ready; stop with Ctrl-C or SIGTERM"]


def _innermost(problem: BaseException) -> BaseException:
    """The first exception inside groups of one: a run of this program has one reason to end."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return problem  # pyright: ignore[reportUnknownVariableType]
