"""Our kubelet, and a device plugin in a process of its own that plain grpcio serves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from kubelet_emu.lab.node import Node
from node_host.loop import Pace, run

ROOT = Path(__file__).parents[2]
PLUGIN = Path(__file__).with_name("plain_grpcio_plugin.py")
RESOURCE = "example.com/plain"
WAIT_SECONDS = 20.0


class Process:
    """The plugin; ``lines`` are what it has said."""

    def __init__(self, folder, mode, resource=RESOURCE):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proto'}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, str(PLUGIN), folder, resource, mode],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines = []

    async def until(self, start):
        """Read on until a line begins so; fails the test after a while."""
        with trio.fail_after(WAIT_SECONDS):
            while not any(line.startswith(start) for line in self.lines):
                line = await trio.to_thread.run_sync(self._process.stdout.readline, abandon_on_cancel=True)
                assert line, f"the plugin has ended: {self.lines}"
                self.lines.append(line.strip())
        return next(line for line in self.lines if line.startswith(start))

    def end(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def beside_a_kubelet():
    """Run a story in real time with a node whose sockets are on disk, and a way to start plugins there."""

    def tell(story):
        async def main():
            started = []
            options = {"transport": "grpc", "latency": "zero", "warm_up": False, "plugin_sockets": True}
            async with Node(**options) as node:

                def start(mode, resource=RESOURCE):
                    folder = f"{node.folder}/var/lib/kubelet/device-plugins"
                    started.append(Process(folder, mode, resource))
                    return started[-1]

                try:
                    return await story(node, start)
                finally:
                    for process in started:
                        process.end()

        return run(main, seed=0, pace=Pace.REAL)

    return tell


async def until(condition):
    with trio.fail_after(WAIT_SECONDS):
        while not condition():
            await trio.sleep(0.05)


def devices(node):
    return node.kubelet.containers.devices


@pytest.mark.slow
def test_a_plain_plugin_serves_a_pod(beside_a_kubelet, gpu_pod):
    """Slow: another process, in real time."""

    async def story(node, start):
        plugin = start("good")
        await plugin.until("registered")
        await plugin.until("watch")
        await until(lambda: devices(node).capacity().allocatable.get(RESOURCE) == 2)
        node.apply(gpu_pod(resource=RESOURCE, a="echo $PLAIN; sleep 3600"))
        await plugin.until("pre-start")
        await until(lambda: node.pod("p").status.phase == "Running")
        await until(lambda: devices(node).capacity().allocatable.get(RESOURCE) == 1)
        created = next(r for r in node.recorder.records if r["k"] == "cri" and r["m"] == "CreateContainer")
        status = node.pod("p").status.container_statuses[0].allocated_resources_status
        plugin.end()
        await until(lambda: devices(node).capacity().allocatable.get(RESOURCE) == 0)
        return plugin.lines, created, status, devices(node).capacity().capacity[RESOURCE]

    lines, created, status, capacity = beside_a_kubelet(story)
    assert [line for line in lines if not line.startswith(("options", "registered", "watch"))] == [
        "preferred D0 D1",
        "allocate D1",
        "pre-start D1",
    ]
    # Options are asked while Register is still under way.
    assert lines.index(next(one for one in lines if one.startswith("options"))) < lines.index("registered")
    assert created["env"]["PLAIN"] == "D1"
    assert created["devices"] == ["/dev/plain0", "example.com/plain=D1"]
    assert [one.resource_id for each in status for one in each.resources] == ["D1"]
    assert capacity == 2


@pytest.mark.slow
def test_what_a_plain_plugin_gets_wrong(beside_a_kubelet, gpu_pod):
    """Slow: other processes, in real time."""

    async def story(node, start):
        refused = await start("bad-version").until("refused")
        plugin = start("bad-bytes", "example.com/bytes")
        await plugin.until("watch")
        await until(lambda: devices(node).state.endpoints["example.com/bytes"].stopped)
        node.apply(gpu_pod(resource="example.com/bytes", a="sleep 3600"))
        await until(lambda: node.pod("p").status.phase == "Running")
        return refused, plugin.lines, devices(node).capacity()

    refused, lines, capacity = beside_a_kubelet(story)
    assert refused == (
        'refused UNKNOWN requested API version "v1alpha1" is not supported by kubelet. '
        'Supported version is ["v1beta1"]'
    )
    # A list that cannot be read ends the stream; the resource stays unknown, and pods run without it.
    assert "allocate" not in " ".join(lines)
    assert capacity.capacity["example.com/bytes"] == 0
    assert "example.com/bytes" not in capacity.allocatable
