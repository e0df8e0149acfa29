"""A DRA manager with an API of its own, and drivers over either transport."""

import contextlib
import threading

import pytest
import trio
from attrs import evolve

from devices.dra import DraDriver, DraSetup
from devices.places import Places
from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.cm.dra.manager import DraManager, DraSeams
from kubelet_emu.cm.pluginmanager.manager import PluginManager
from kubelet_emu.cm.sockets import memory_wires, unix_wires
from kubelet_emu.trace.recorder import TraceRecorder
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run

REAL_SECONDS = 30.0
DRIVER = "gpu.vendor.com"


class Bench:
    """One kubelet's worth of DRA: a manager, the plugin watcher, files, an API, drivers."""

    def __init__(self, kind, folder):
        self.root = f"{folder}/kubelet"
        self.transport, self.folders = memory_wires() if kind == "memory" else unix_wires()
        self.folders.make(f"{self.root}/plugins_registry")
        self.places = Places.below(self.root)
        self.files = MemoryFiles()
        self.objects = {}
        self.active = set()
        self.changed = []
        self.calls = []

    async def get_claim(self, namespace, name):
        await trio.lowlevel.checkpoint()
        return self.objects.get((namespace, name))

    @contextlib.asynccontextmanager
    async def manager(self):
        """A kubelet process: leave and enter again to restart it."""
        recorder = TraceRecorder(self.clock.elapsed_seconds)
        recorder.subscribe(self._watch)
        async with trio.open_nursery() as nursery:
            manager = DraManager(
                root_dir=self.root,
                files=self.files,
                transport=self.transport,
                clock=self.clock,
                nursery=nursery,
                recorder=recorder,
                seams=DraSeams(
                    get_claim=self.get_claim,
                    sources_ready=lambda: True,
                    active_uids=lambda: self.active,
                    pods_changed=self.changed.append,
                ),
            )
            watcher = PluginManager(
                root_dir=self.root,
                transport=self.transport,
                folders=self.folders,
                clock=self.clock,
                recorder=recorder,
                handlers={"DRAPlugin": manager.plugins},
            )
            nursery.start_soon(watcher.run)
            nursery.start_soon(manager.run)
            yield manager
            nursery.cancel_scope.cancel()

    def _watch(self, record):
        if record["k"] == "device":
            self.calls.append((record["method"], record["resource"], record["ids"][0]))

    @contextlib.asynccontextmanager
    async def driver(self, *, lookup=None, manager=None, **options):
        setup = DraSetup(driver=DRIVER, devices=("d0", "d1", "d2"), cdi_kind="vendor.com/gpu")
        driver = DraDriver(
            evolve(setup, **options),
            transport=self.transport,
            clock=self.clock,
            places=self.places,
            lookup=lookup,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.run)
            if manager is not None:
                await until(lambda: driver.registered)
            yield driver
            nursery.cancel_scope.cancel()

    def claim(self, name, *pods, drivers=(DRIVER,), uid=None, **status):
        """A ResourceClaim in the API, allocated and reserved for these pods."""
        obj = {
            "metadata": {"name": name, "namespace": "default", "uid": uid or f"claim-{name}"},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {"request": "req", "driver": driver, "pool": "node-1", "device": "d0"}
                            for driver in drivers
                        ]
                    }
                },
                "reservedFor": [
                    {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in pods
                ],
                **status,
            },
        }
        self.objects["default", name] = obj
        return obj

    def run(self, body, seed=1):
        async def main():
            self.clock = NodeClock()
            token = trio.lowlevel.current_trio_token()
            with trio.CancelScope() as scope:
                timer = threading.Timer(REAL_SECONDS, token.run_sync_soon, args=(scope.cancel,))
                timer.daemon = True
                timer.start()
                try:
                    await body(self)
                finally:
                    timer.cancel()
            assert not scope.cancelled_caught, "took too long in real time"

        run(main, seed=seed)


async def until(holds):
    with trio.fail_after(600):
        while not holds():
            await trio.sleep(0.1)


@pytest.fixture(params=["memory", "unix"])
def bench(request, tmp_path_factory):
    return Bench(request.param, tmp_path_factory.mktemp("d"))


@pytest.fixture
def memory_bench(tmp_path_factory):
    return Bench("memory", tmp_path_factory.mktemp("d"))


@pytest.fixture
def wait_until():
    return until


@pytest.fixture
def pod():
    """A pod whose container uses these claims: ``name`` or ``name/request``."""

    def make(name, *used, template=False):
        names = list(dict.fromkeys(each.partition("/")[0] for each in used))
        entries = [
            {
                "name": each,
                **({"resourceClaimTemplateName": "t"} if template else {"resourceClaimName": each}),
            }
            for each in names
        ]
        claims = [
            {"name": each.partition("/")[0], **({"request": each.partition("/")[2]} if "/" in each else {})}
            for each in used
        ]
        return pod_from_json(
            {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {
                    "resourceClaims": entries,
                    "containers": [{"name": "main", "resources": {"claims": claims}}],
                },
            }
        )

    return make
