"""A node in memory for tests of the kubelet as a whole."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubelet_emu.lab.node import Node
from node_host.loop import run

Story = Callable[[Node], Awaitable[Any]]


@pytest.fixture
def on_node():
    """Run a story on a fresh node in virtual time; every invariant has to hold."""

    def tell(story: Story, **options: Any) -> Any:
        async def main() -> Any:
            async with Node(**{"transport": "memory", "latency": "zero", **options}) as node:
                result = await story(node)
            broken = [r for r in node.recorder.records if r["k"] == "invariant"]
            assert not broken, broken
            return result

        return run(main, seed=options.get("seed", 0))

    return tell


@pytest.fixture
def busybox():
    """A pod manifest with one busybox container per keyword: a script, or a dict of further fields."""

    def make(name: str = "p", *, spec: dict[str, Any] | None = None, init: Any = (), **scripts: Any) -> Any:
        def container(entry: Any) -> dict[str, Any]:
            key, value = entry
            given = {"script": value} if isinstance(value, str) else dict(value)
            script = given.pop("script", "sleep 3600")
            return {
                "name": key,
                "image": "docker.io/library/busybox:1.36",
                "command": ["sh", "-c", script],
                **given,
            }

        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [container(entry) for entry in scripts.items()],
                **({"initContainers": [container(entry) for entry in init]} if init else {}),
                **(spec or {}),
            },
        }

    return make
