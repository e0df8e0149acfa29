"""A node in memory for tests of the kubelet as a whole."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubelet_emu.lab.node import Node
from node_host.loop import run

Story = Callable[[Node], Awaitable[Any]]


class Seen:
    """What a node's trace shows so far, in the words of the tests: calls, events, snapshots."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def calls(self, *methods: str, of: str = "") -> list[dict[str, Any]]:
        """Calls that change something, in order of their beginning; ``of`` is a part of ``NAME#attempt``."""
        found = [
            record
            for record in self._node.recorder.records
            if record["k"] == "cri"
            and not record.get("poll")
            and (not methods or record["m"] in methods)
            and of in (record.get("container") or record.get("sandbox") or "")
        ]
        return sorted(found, key=lambda record: record["seq"])

    def told(self, *methods: str, of: str = "") -> list[str]:
        """The same as ``METHOD WHAT`` with the stop timeout after a slash."""
        return [
            f"{record['m']} {(record.get('container') or record.get('sandbox') or '').split('/')[-1]}"
            + (f"/{record['timeout']}" if record["m"] == "StopContainer" else "")
            for record in self.calls(*methods, of=of)
        ]

    def timeouts(self, of: str = "") -> list[str]:
        """Timeouts of StopContainer calls."""
        return [record["timeout"] for record in self.calls("StopContainer", of=of)]

    def events(self, *reasons: str, on: str = "") -> list[dict[str, Any]]:
        """Event records, once for each increase of a count."""
        return [
            record
            for record in self._node.recorder.records
            if record["k"] == "event" and (not reasons or record["reason"] in reasons) and on in record["on"]
        ]

    def messages(self, *reasons: str, on: str = "") -> list[str]:
        """Texts of events as the API has them."""
        return [record.get("raw", record["message"]) for record in self.events(*reasons, on=on)]

    def snapshots(self, pod: str = "p") -> list[dict[str, Any]]:
        """Every change of a pod object that shows."""
        return [r for r in self._node.recorder.records if r["k"] == "pod" and r["pod"] == pod]

    def containers(self, name: str, pod: str = "p") -> list[dict[str, Any]]:
        """A container's status over time, repeats left out, with the ``t`` of its first sight."""
        found: list[dict[str, Any]] = []
        for snapshot in self.snapshots(pod):
            status = snapshot["containers"].get(name)
            if status is not None and (not found or {**found[-1], "t": 0} != {**status, "t": 0}):
                found.append({**status, "t": snapshot["t"]})
        return found

    def phases(self, pod: str = "p") -> list[str]:
        """Phases over time, repeats left out."""
        found: list[str] = []
        for snapshot in self.snapshots(pod):
            if not found or found[-1] != snapshot["phase"]:
                found.append(snapshot["phase"])
        return found

    def condition(self, condition_type: str, pod: str = "p") -> list[tuple[str, ...]]:
        """A condition over time, repeats left out: status, reason, message as far as they are there."""
        found: list[tuple[str, ...]] = []
        for snapshot in self.snapshots(pod):
            value = tuple(part for part in snapshot["conditions"].get(condition_type, ()) if part)
            if not found or found[-1] != value:
                found.append(value)
        return found

    def exits(self, of: str = "") -> list[dict[str, Any]]:
        """Ends of containers' first processes."""
        return [
            record
            for record in self._node.recorder.records
            if record["k"] == "process" and record["do"] == "exit" and of in record["container"]
        ]


@pytest.fixture
def seen():
    """``seen(node)`` reads the trace of a node."""
    return Seen


@pytest.fixture
def on_node():
    """Run a story on a fresh node in virtual time; every invariant has to hold."""

    def tell(story: Story, **options: Any) -> Any:
        async def main() -> Any:
            async with Node(**{"transport": "memory", "latency": "zero", **options}) as node:
                result = await story(node)
            broken = [r for r in node.recorder.records if r["k"] == "invariant"]
            assert not broken, [(r["t"], r["invariant"], r["message"], r.get("evidence")) for r in broken]
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
