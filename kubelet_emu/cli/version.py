"""``kubelet-emu version``."""

from importlib.metadata import PackageNotFoundError, version

import click

__all__ = ["KUBERNETES", "command"]

KUBERNETES = "v1.36.2"
"""The release whose kubelet is emulated."""


@click.command("version")
def command() -> None:
    """Print the version and the Kubernetes release that is emulated."""
    try:
        own = version("kubelet-emu")
    except PackageNotFoundError:
        own = "unknown (not installed)"
    click.echo(f"kubelet-emu {own}, emulates the kubelet of Kubernetes {KUBERNETES}")
