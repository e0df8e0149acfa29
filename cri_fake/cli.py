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
  cri-fake serve --socket ./cri.sock --profile cri-o --faults 'PullImage: 1*error(UNKNOWN, "no route")'
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
@click.option(
    "--profile",
    default="containerd-2",
    metavar="NAME",
    show_default=True,
    help="Whom to resemble where runtimes differ: containerd-2, containerd-1.6 or cri-o.",
)
@click.option(
    "--faults", default="", metavar="PLAN", help="Such as 'StartContainer: 2*off -> 1*error(UNAVAILABLE)'."
)
@click.option(
    "--script",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Commands of 'ctl', one a line, at times.",
)
@click.option(
    "--state",
    metavar="DIR",
    help="Keep sandboxes, containers, images and (without --root) logs there for the next start.",
)
@click.option(
    "--stream-address",
    default="127.0.0.1",
    metavar="HOST[:PORT]",
    show_default=True,
    help="Where exec, attach and port-forward are served, from the first such call on. Port 0 is any.",
)
@click.option(
    "--control",
    metavar="PATH",
    help="Socket for 'cri-fake ctl'. Default: the runtime's, with .ctl at its end.",
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
    profile: str,
    faults: str,
    script: str | None,
    state: str | None,
    stream_address: str,
    control: str | None,
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
            behaviour_text=_text(behaviour),
            behaviour_file=behaviour or "",
            rate=rate,
            profile=profile,
            faults=faults,
            script_text=_text(script) or "",
            script_file=script or "",
            state=state,
            stream_address=stream_address,
            control=control,
        )
        serving.serve_until_interrupted(options, say=lambda text: click.echo(text, err=True))
    except serving.CannotServe as problem:
        click.echo(f"cri-fake: {problem}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _text(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        click.echo(f"cri-fake: cannot read {file}: {problem}", err=True)
        sys.exit(2)


_CTL_EXAMPLES = """\b
Examples:
  cri-fake ctl --socket /tmp/cri/cri.sock status
  cri-fake ctl --socket /tmp/cri/cri.sock 'StartContainer: 2*off -> 1*error(UNAVAILABLE)'
  cri-fake ctl --socket /tmp/cri/cri.sock 'GetContainerEvents: duplicate'
  cri-fake ctl --socket /tmp/cri/cri.sock lose-reply RunPodSandbox x2
  cri-fake ctl --socket /tmp/cri/cri.sock latency RunPodSandbox 0.1..0.5
  cri-fake ctl --socket /tmp/cri/cri.sock oom web/main
  cri-fake ctl --socket /tmp/cri/cri.sock crash runtime down 5s
\b
Faults of calls:
  error METHOD CODE ["TEXT"] [xN]          delay METHOD SECONDS [xN]
  hang METHOD [SECONDS] [xN]               lose-reply METHOD [SECONDS|CODE] [xN]
  duplicate METHOD [xN]                    METHOD: TERM -> TERM
  faults                                   faults clear
\b
Behind the kubelet's back:
  signal POD/CONTAINER N                   oom POD/CONTAINER
  kill-sandbox POD                         stop-sandbox POD
  crash runtime [lose-state] [down TIME]   reboot node [lose-state] [down TIME]
\b
Knobs:
  latency METHOD SECONDS|SPREAD|xN|default slow processes xN TIME
  disk full|ok                             network not-ready|ready
  registry down|up                         registry down TIME
\b
Spreads: 0.1..0.5 evenly   ~0.2 exponentially   0.2+-0.05 normally
"""


@main.command(epilog=_CTL_EXAMPLES, context_settings={"ignore_unknown_options": True})
@click.option("--socket", required=True, metavar="PATH", help="The runtime's socket.")
@click.option("--control", metavar="PATH", help="Its control socket, where that was moved.")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND…", type=click.UNPROCESSED)
def ctl(socket: str, control: str | None, words: tuple[str, ...]) -> None:
    """Change a running runtime: faults, latencies, knobs, kills."""
    import json

    from cri_fake.control.server import ask

    path = control or f"{socket}.ctl"
    try:
        answer = ask(path, " ".join(words).replace("\n", " "))
    except OSError as problem:
        click.echo(f"cri-fake: no runtime answers on {path}: {problem}", err=True)
        sys.exit(2)
    if not answer["ok"]:
        click.echo(f"cri-fake: {answer['error']}", err=True)
        sys.exit(1)
    click.echo(json.dumps(answer["result"], indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
