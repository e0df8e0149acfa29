"""Runtime health, the reason cache, the node object, the cache of objects: small parts with own rules."""

import random

import pytest

from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.store import ApiStore
from kubelet_emu.container.runtime import SyncAction, SyncPodResult, SyncResult
from kubelet_emu.errors import PeerError
from kubelet_emu.gates import Gates
from kubelet_emu.nodeobject import NodeShape, declared_features, node_object
from kubelet_emu.object_cache import ObjectCache
from kubelet_emu.reason_cache import ENTRIES_MAX, ReasonCache
from kubelet_emu.runtime_health import RuntimeHealth
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.loop import run


class TestRuntimeHealth:
    def test_nod_22_before_the_first_status(self):
        assert RuntimeHealth().runtime_error(0.0, pleg_error="") == (
            "container runtime status check may not have completed yet"
        )

    def test_nod_22_a_good_status_is_good_for_thirty_seconds(self):
        health = RuntimeHealth()
        health.take_status(10.0, runtime_ready=None, network_ready=None)
        assert health.runtime_error(39.9, pleg_error="") == ""
        assert health.runtime_error(40.0, pleg_error="") == "container runtime is down"

    def test_nod_22_pleg_comes_before_the_condition(self):
        health = RuntimeHealth()
        health.take_status(0.0, runtime_ready=None, network_ready=None)
        health.take_status(1.0, runtime_ready="RuntimeReady=false reason:r message:m", network_ready=None)
        assert health.runtime_error(2.0, pleg_error="PLEG is not healthy: x") == "PLEG is not healthy: x"
        assert health.runtime_error(2.0, pleg_error="") == (
            "container runtime not ready: RuntimeReady=false reason:r message:m"
        )

    def test_nod_21_a_status_that_is_not_ready_does_not_count_as_seen(self):
        health = RuntimeHealth()
        health.take_status(0.0, runtime_ready=None, network_ready=None)
        health.take_status(25.0, runtime_ready="RuntimeReady=false", network_ready=None)
        assert health.runtime_error(30.0, pleg_error="") == "container runtime is down"

    def test_pod_102_the_network_does_not_stop_the_loop(self):
        health = RuntimeHealth()
        assert health.network_condition == "network state unknown"
        health.take_status(0.0, runtime_ready=None, network_ready="NetworkReady=false reason:a message:b")
        assert health.runtime_error(1.0, pleg_error="") == ""
        assert health.network_condition == (
            "container runtime network not ready: NetworkReady=false reason:a message:b"
        )
        health.take_status(1.0, runtime_ready=None, network_ready=None)
        assert health.network_condition == ""


def failed_start(name, reason="CrashLoopBackOff", message="m"):
    return SyncResult(SyncAction.START_CONTAINER, name, error=reason, message=message)


class TestReasonCache:
    def test_rst_118_a_failed_start_sets_a_good_one_removes(self):
        cache = ReasonCache()
        cache.update("u", SyncPodResult((failed_start("a"), failed_start("b", "ErrImagePull"))))
        assert cache.get("u", "a") == ("CrashLoopBackOff", "m")
        cache.update("u", SyncPodResult((SyncResult(SyncAction.START_CONTAINER, "a"),)))
        assert cache.get("u", "a") is None
        assert cache.get("u", "b") == ("ErrImagePull", "m")
        assert cache.get("other", "b") is None

    def test_pod_610_other_actions_leave_it_alone(self):
        cache = ReasonCache()
        cache.update("u", SyncPodResult((failed_start("a"),)))
        cache.update("u", SyncPodResult((SyncResult(SyncAction.KILL_CONTAINER, "a"),)))
        cache.update(
            "u", SyncPodResult((SyncResult(SyncAction.KILL_CONTAINER, "c", error="x", message="y"),))
        )
        assert cache.get("u", "a") is not None
        assert cache.get("u", "c") is None

    def test_rst_118_a_thousand_entries_the_least_used_goes_first(self):
        cache = ReasonCache()
        for number in range(ENTRIES_MAX):
            cache.update(f"u{number}", SyncPodResult((failed_start("a"),)))
        assert cache.get("u0", "a") is not None
        cache.update("new", SyncPodResult((failed_start("a"),)))
        assert cache.get("u0", "a") is not None
        assert cache.get("u1", "a") is None


class TestNodeObject:
    def test_nod_14_capacity_and_allocatable(self):
        shape = NodeShape(cpu="8", memory="1Gi", pods=5, extended={"example.com/thing": "3"})
        status = node_object(KubeletSettings(), shape, ready_since="2026-01-01T00:00:00Z", boot_id="b")[
            "status"
        ]
        assert status["capacity"]["cpu"] == "8"
        assert status["capacity"]["example.com/thing"] == "3"
        assert status["allocatable"] == status["capacity"]
        assert status["nodeInfo"]["bootID"] == "b"
        assert shape.allocatable()["pods"].value() == 5

    def test_nod_19_declared_features_follow_the_gates(self):
        assert declared_features(Gates()) == (
            "ExtendWebSocketsToKubelet",
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScalingInitContainers",
            "RestartAllContainersOnContainerExits",
        )
        off = Gates({"RestartAllContainersOnContainerExits": False})
        assert "RestartAllContainersOnContainerExits" not in declared_features(off)
        without = Gates({"RestartAllContainersOnContainerExits": False, "NodeDeclaredFeatures": False})
        assert declared_features(without) == ()

    def test_labels_and_addresses(self):
        settings = KubeletSettings(node_name="n", node_ips=("192.0.2.1", "2001:db8::1"))
        found = node_object(settings, NodeShape(labels={"disk": "ssd"}), ready_since="t")
        assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
        assert found["metadata"]["labels"]["disk"] == "ssd"
        assert [entry["address"] for entry in found["status"]["addresses"]] == [
            "192.0.2.1",
            "2001:db8::1",
            "n",
        ]


def with_api(story):
    async def main():
        clock = NodeClock()
        store = ApiStore(now_ns=clock.now_ns, rng=random.Random(0))
        api = ApiClient(store, clock=clock, rng=random.Random(1), latency_seconds=(0.0, 0.0))
        return await story(store, api)

    return run(main, seed=0)


class TestObjectCache:
    def test_what_was_read_can_be_had_through_an_outage(self):
        async def story(store, api):
            cache = ObjectCache(api)
            store.create("ConfigMap", {"metadata": {"name": "c"}, "data": {"k": "1"}})
            before = await cache.get("ConfigMap", "default", "c")
            absent = await cache.get("Secret", "default", "none")
            api.available = False
            return (
                before,
                absent,
                await cache.get("ConfigMap", "default", "c"),
                await cache.get("Secret", "default", "none"),
            )

        before, absent, after, still = with_api(story)
        assert before == after
        assert before["data"] == {"k": "1"}
        assert absent is still is None

    def test_what_never_was_read_cannot(self):
        async def story(store, api):
            api.available = False
            with pytest.raises(PeerError) as caught:
                await ObjectCache(api).get("Secret", "default", "s")
            return str(caught.value)

        assert with_api(story) == "failed to sync secret cache: timed out waiting for the condition"
