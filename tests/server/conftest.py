"""A node in memory, its kubelet seen through the servers' view."""

from contextlib import asynccontextmanager

import pytest

from devices.model import Device, Model
from devices.setup import PluginSetup
from kubelet_emu.lab.node import Node
from kubelet_emu.server.podresources import PodResources, RateLimit
from kubelet_emu.server.view import KubeletView
from node_host.loop import run
from trio_grpc import MemoryTransport
from trio_grpc.services.podresources_v1 import PodResourcesListerClient


@pytest.fixture
def on_node():
    """Run ``story(node, view)`` on a fresh node in virtual time."""

    def tell(story, **options):
        async def main():
            async with Node(**{"transport": "memory", "latency": "zero", **options}) as node:
                return await story(node, KubeletView(node.kubelet, node.clock))

        return run(main, seed=options.get("seed", 0))

    return tell


@pytest.fixture
def widgets():
    """Plugin set-ups: a resource and its devices as ``id: numa nodes``."""

    def make(resource, **devices):
        model = Model(
            resource=resource,
            devices=tuple(Device(name.replace("_", "-"), nodes) for name, nodes in devices.items()),
            socket=f"{resource.replace('/', '-')}.sock",
            env="WIDGETS",
        )
        return PluginSetup(model=model)

    return make


@pytest.fixture
def pod():
    """A pod manifest: containers by name with their device limits; sidecars and init containers too."""

    def make(name, *, init=(), namespace="default", **containers):
        def container(key, limits, **more):
            return {
                "name": key,
                "image": "docker.io/library/busybox:1.36",
                "command": ["sh", "-c", more.pop("script", "sleep 3600")],
                "resources": {"limits": limits},
                **more,
            }

        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [container(*each) for each in containers.items()],
                "initContainers": [container(key, limits, **more) for key, limits, more in init],
            },
        }

    return make


@pytest.fixture
def lister():
    """A client of the PodResources API over a view."""

    @asynccontextmanager
    async def open_client(view, clock, *, limit=None, counted=None):
        transport = MemoryTransport()
        server = transport.server("/s")
        more = {} if counted is None else {"counted": counted}
        server.add(PodResources(view, limit or RateLimit(clock), **more))
        async with server, transport.channel("/s") as channel:
            yield PodResourcesListerClient(channel)

    return open_client
