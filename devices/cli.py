"""``fake-devices``: device plugins of machines that are not there, for any kubelet."""

import sys
from collections.abc import Callable

import click

__all__ = ["main"]

_EXAMPLES = """\b
Examples:
  fake-devices serve gpu                         eight GPUs for the kubelet of this machine
  fake-devices serve h100x8-2numa --kubelet-dir /tmp/node/kubelet
  fake-devices serve generic --resource vendor.com/widget --count 4 --faults 'Allocate: 1*error(UNKNOWN)'
  fake-devices serve tpu --fail '#3@30s-90s' --register watcher
  fake-devices serve ./devices.yaml              a profile of your own; SIGHUP reads it again
  fake-devices dra gpu.vendor.com --count 8 --cdi vendor.com/gpu
  fake-devices presets
"""


@click.group(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Device plugins without devices: gRPC servers that register with a kubelet, ours or a real one."""


@main.command(epilog=_EXAMPLES)
@click.argument("what", metavar="gpu|tpu|amd|generic|PRESET|FILE")
@click.option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="Root directory of the kubelet.",
)
@click.option(
    "--register", type=click.Choice(["kubelet", "watcher"]), help="How to register. Default: kubelet.sock."
)
@click.option(
    "--count",
    type=click.IntRange(0, 100_000),
    metavar="N",
    help="How many devices (not with a preset or file).",
)
@click.option("--resource", metavar="NAME", help="Resource name (not with a preset or file).")
@click.option("--numa-nodes", type=click.IntRange(1, 64), metavar="N", help="NUMA nodes the devices lie on.")
@click.option(
    "--faults", default="", metavar="PLAN", help="Faults of all plugins, such as 'Allocate: 1*hang'."
)
@click.option("--fail", "fails", multiple=True, metavar="ID@TIME[-TIME]", help="Let a device turn unhealthy.")
@click.option("--serial", default="", metavar="TEXT", help="Tells machines of one kind apart: other ids.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", help="Seed of the plugin's own chance."
)
def serve(
    what: str,
    kubelet_dir: str,
    register: str | None,
    count: int | None,
    resource: str | None,
    numa_nodes: int | None,
    faults: str,
    fails: tuple[str, ...],
    serial: str,
    seed: int,
) -> None:
    """Serve device plugins until interrupted."""
    from devices import serving  # after --help, which need not load it

    options = serving.ServeOptions(
        what=what,
        kubelet_dir=kubelet_dir,
        register=register,
        count=count,
        resource=resource,
        numa_nodes=numa_nodes,
        faults=faults,
        fails=fails,
        serial=serial,
        seed=seed,
    )
    _end(lambda say: serving.serve_until_interrupted(options, say=say))


def _end(serve: Callable[[Callable[[str], None]], None]) -> None:
    """Serve, and turn how it ended into messages and exit codes."""
    from devices.serving import CannotServe

    try:
        serve(lambda text: click.echo(text, err=True))
    except CannotServe as problem:
        for line in str(problem).splitlines():
            click.echo(f"fake-devices: {line}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@main.command()
@click.argument("driver", metavar="NAME")
@click.option(
    "--count", type=click.IntRange(1, 10_000), default=4, show_default=True, help="How many devices."
)
@click.option("--cdi", default="", metavar="VENDOR/CLASS", help="Hand out CDI devices of this kind.")
@click.option(
    "--versions",
    default="v1.DRAPlugin,v1alpha1.DRAResourceHealth",
    show_default=True,
    metavar="LIST",
    help="Services in the driver's order; also v1beta1.DRAPlugin.",
)
@click.option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="Root directory of the kubelet.",
)
@click.option(
    "--faults", default="", metavar="PLAN", help="Such as 'NodePrepareResources: 1*error(UNKNOWN)'."
)
def dra(driver: str, count: int, cdi: str, versions: str, kubelet_dir: str, faults: str) -> None:
    """Serve a DRA driver until interrupted; each claim gets its next free device."""
    from devices import serving

    options = serving.DriverOptions(
        driver=driver, count=count, cdi=cdi, versions=versions, kubelet_dir=kubelet_dir, faults=faults
    )
    _end(lambda say: serving.serve_driver(options, say=say))


@main.command()
def presets() -> None:
    """List the machines that have a name."""
    from devices.presets import PRESETS, preset

    for name, (about, _) in PRESETS.items():
        resources = ", ".join(
            f"{setup.model.resource} x {len(setup.model.devices)}" for setup in preset(name)
        )
        click.echo(f"{name:18} {resources:30} {about}")


if __name__ == "__main__":
    main()
