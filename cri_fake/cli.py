"""``cri-fake``: the fake runtime on a unix socket, for any CRI client."""

import sys
from pathlib import Path

import click

__all__ = ["main"]

_EXAMPLES = """\b
Examples:
  cri-fake serve --socket /tmp/cri/cri.sock
  crictl --runtime-endpoint unix:///tmp/cri/cri.sock pods
\b
  cri-fake serve --socket ./cri.sock --latency zero --exit trainer#0=88@30s
  cri-fake serve --socket ./cri.sock --root / --pod-cidr 127.64.0.0/12
"""


@click.group(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A CRI v1 container runtime without containers: programs are emulated, nothing is executed."""


@main.command(epilog=_EXAMPLES)
@click.option("--socket", required=True, metavar="PATH", help="Unix socket to listen on; at most 107 bytes.")
@click.option(
    "--root",
    metavar="DIR",
    help="Folder that stands for / of the node: logs, host paths. Default: a new temporary folder. "
    "'--root /' means the real paths of this machine.",
)
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Seed of ids and latencies. Default: a new one."
)
@click.option(
    "--latency",
    default="measured",
    metavar="MODEL",
    show_default=True,
    help="measured, zero, or a factor (x0.5).",
)
@click.option(
    "--pod-cidr", default="10.88.0.0/16", metavar="CIDR[,CIDR]", show_default=True, help="Addresses of pods."
)
@click.option(
    "--exit", "exits", multiple=True, metavar="[POD/]NAME[#N]=CODE@TIME", help="Let a container exit."
)
@click.option(
    "--behaviour", type=click.Path(dir_okay=False), metavar="FILE", help="What containers do, as YAML."
)
@click.option(
    "--rate",
    type=click.FloatRange(0.0, 1000.0, min_open=True),
    default=1.0,
    metavar="N",
    show_default=True,
    help="Time of containers runs N times as fast as the wall clock; the kubelet must do so too.",
)
def serve(
    socket: str,
    root: str | None,
    seed: int | None,
    latency: str,
    pod_cidr: str,
    exits: tuple[str, ...],
    behaviour: str | None,
    rate: float,
) -> None:
    """Serve the runtime and image services until interrupted."""
    from cri_fake import serving  # after --help, which need not load it

    try:
        options = serving.ServeOptions(
            socket=socket,
            root=root,
            seed=seed,
            latency=latency,
            pod_cidr=pod_cidr,
            exits=exits,
            behaviour_text=None if behaviour is None else Path(behaviour).read_text(encoding="utf-8"),
            behaviour_file=behaviour or "",
            rate=rate,
        )
        serving.serve_until_interrupted(options, say=lambda text: click.echo(text, err=True))
    except serving.CannotServe as problem:
        click.echo(f"cri-fake: {problem}", err=True)
        sys.exit(2)
    except (OSError, UnicodeDecodeError) as problem:
        click.echo(f"cri-fake: cannot read {behaviour or socket}: {problem}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
