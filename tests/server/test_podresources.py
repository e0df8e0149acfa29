"""The PodResources API (DEV section 14) over a whole node."""

import pytest
import trio

from devices.dra import DraSetup
from k8s_proto import podresources_v1_pb2 as pb
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.nodeobject import NodeShape
from kubelet_emu.server.podresources import (
    ClaimedDevice,
    DynamicClaim,
    RateLimit,
    _claim,
    serve_pod_resources,
)
from kubelet_emu.server.view import KubeletView
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.loop import run
from trio_grpc import Code, MemoryTransport, StatusError
from trio_grpc.services.podresources_v1 import PodResourcesListerClient

WIDGET = "vendor.com/widget"


async def listed(client):
    """{pod: {container: sorted [(id, node)]}}"""
    reply = await client.List(pb.ListPodResourcesRequest())
    return {entry.name: shown(entry) for entry in reply.pod_resources}


def shown(entry):
    return {
        container.name: sorted(
            (device.device_ids[0], [node.ID for node in device.topology.nodes])
            for device in container.devices
        )
        for container in entry.containers
    }


def test_dev_142_143_147_list(on_node, widgets, pod, lister):
    devices = (widgets(WIDGET, a=(0,), b=None, c=(0, 1)), widgets("vendor.com/gadget", g=(1,)))

    async def story(node, view):
        node.apply(
            pod(
                "p",
                init=[
                    ("setup", {WIDGET: 1}, {"script": "sleep 30"}),
                    ("side", {"vendor.com/gadget": 1}, {"restartPolicy": "Always"}),
                ],
                main={WIDGET: 3},
            )
        )
        node.apply(pod("plain", only={}))
        await node.advance(1)
        async with lister(view, node.clock) as client:
            found = await listed(client)
        # Devices show while the set-up container still runs, and regular init containers never do.
        assert found == {
            "p": {"side": [("g", [1])], "main": [("a", [0]), ("b", []), ("c", [0]), ("c", [1])]},
            "plain": {"only": []},
        }

    on_node(story, devices=devices)


def test_dev_145_get(on_node, widgets, pod, lister):
    async def story(node, view):
        node.apply(pod("p", main={WIDGET: 1}))
        await node.advance(5)
        counted = []
        async with lister(view, node.clock, counted=lambda *what: counted.append(what)) as client:
            reply = await client.Get(pb.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
            assert shown(reply.pod_resources) == {"main": [("a", [])]}
            with pytest.raises(StatusError) as missing:
                await client.Get(pb.GetPodResourcesRequest(pod_name="p", pod_namespace="other"))
        assert missing.value.code is Code.UNKNOWN
        assert missing.value.details == "pod p in namespace other not found"
        assert counted == [("get", False), ("get", True)]

    on_node(story, devices=(widgets(WIDGET, a=None),))


def test_dev_144_allocatable(on_node, widgets, pod, lister):
    async def story(node, view):
        node.apply(pod("p", main={WIDGET: 1}))
        await node.advance(5)
        node.set_device_health(WIDGET, "d", "Unhealthy")
        await node.advance(1)
        async with lister(view, node.clock) as client:
            reply = await client.GetAllocatableResources(pb.AllocatableResourcesRequest())
        found = sorted((d.device_ids[0], [node.ID for node in d.topology.nodes]) for d in reply.devices)
        # In use or not; a topology without nodes leaves a device out, a missing one does not.
        assert found == [("a", []), ("b", [0]), ("b", [1])]

    on_node(story, devices=(widgets(WIDGET, a=None, b=(0, 1), c=(), d=None),))


def test_dev_063_list_collects_and_shows_active_pods_only(on_node, widgets, pod, lister):
    async def story(node, view):
        node.apply(pod("p", main={WIDGET: 1}))
        node.apply(pod("refused", main={WIDGET: 9}))
        await node.advance(5)
        async with lister(view, node.clock) as client:
            assert set(await listed(client)) == {"p"}
            node.delete("p")
            await node.advance(30)
            assert await listed(client) == {}
        assert node.kubelet.containers.devices.state.allocated.get(WIDGET, set()) == set()

    on_node(story, devices=(widgets(WIDGET, a=None),))


def test_a_restart_in_place_changes_nothing_here(on_node, widgets, pod, lister):
    manifest = pod("p", main={WIDGET: 2})
    manifest["spec"]["containers"][0] |= {
        "command": ["sh", "-c", "sleep 5; exit 3"],
        "restartPolicy": "Never",
        "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
        ],
    }
    manifest["spec"]["restartPolicy"] = "Never"

    async def story(node, view):
        node.apply(manifest)
        seen = []
        async with lister(view, node.clock) as client:
            for _ in range(15):
                await node.advance(1)
                seen.append(await listed(client))
        assert all(entry == seen[0] for entry in seen)
        assert len(seen[0]["p"]["main"]) == 2
        assert node.pod("p").status.container_statuses[0].restart_count >= 1

    on_node(story, devices=(widgets(WIDGET, a=None, b=None, c=None),))


def test_dev_141_rate_limit():
    async def main():
        limit = RateLimit(NodeClock())
        for _ in range(10):
            limit.take()
        with pytest.raises(StatusError) as refused:
            limit.take()
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        assert refused.value.details == "rejected by rate limit"
        await trio.sleep(0.011)
        limit.take()
        await trio.sleep(100)
        for _ in range(10):
            limit.take()
        with pytest.raises(StatusError):
            limit.take()

    run(main, seed=1)


def test_dev_146_cdi_names_are_carried_on():
    devices = (
        ClaimedDevice(driver="d", pool="p", device="a", cdi_ids=("v/c=a",)),
        ClaimedDevice(driver="other", pool="p", device="x"),
        ClaimedDevice(driver="d", pool="p", device="b", cdi_ids=("v/c=b",), share_id="s"),
    )
    message = _claim(DynamicClaim(name="n", namespace="ns", devices=devices))
    assert [[cdi.name for cdi in entry.cdi_devices] for entry in message.claim_resources] == [
        ["v/c=a"],
        [],
        ["v/c=a", "v/c=b"],
    ]
    assert [entry.HasField("share_id") for entry in message.claim_resources] == [False, False, True]


def test_its_socket(on_node, widgets, pod):
    async def story(node, view):
        transport = MemoryTransport()
        node.apply(pod("p", main={}))
        await node.advance(2)
        async with trio.open_nursery() as nursery:

            async def serve(*, task_status):
                await serve_pod_resources(
                    KubeletView(node.kubelet, node.clock),
                    transport=transport,
                    root_dir="/var/lib/kubelet",
                    clock=node.clock,
                    task_status=task_status,
                )

            await nursery.start(serve)
            path = "/var/lib/kubelet/pod-resources/kubelet.sock"
            async with transport.channel(path) as channel:
                assert await listed(PodResourcesListerClient(channel)) == {"p": {"main": []}}
            nursery.cancel_scope.cancel()

    on_node(story)


def test_dev_146_exclusive_cpus_and_pinned_memory(on_node, pod, lister):
    settings = KubeletSettings(
        cpu_manager_policy="static",
        reserved_cpus="0",
        memory_manager_policy="Static",
        reserved_memory={0: {"memory": "1Gi"}},
    )
    machine = MachineTopology(sockets=2, cores_per_node=2, memory_bytes=4 * 1024**3)
    shape = NodeShape(cpu="4", memory="8Gi", machine=machine)
    guaranteed = pod("g", main={"cpu": "2", "memory": "1Gi"})
    shared = pod("s", main={"cpu": "500m", "memory": "1Gi"})

    async def story(node, view):
        node.apply(guaranteed)
        node.apply(shared)
        await node.advance(5)
        async with lister(view, node.clock) as client:
            reply = await client.List(pb.ListPodResourcesRequest())
            found = {entry.name: entry.containers[0] for entry in reply.pod_resources}
            assert len(found["g"].cpu_ids) == 2
            assert not found["s"].cpu_ids
            (block,) = found["g"].memory
            assert (block.memory_type, block.size) == ("memory", 1024**3)
            allocatable = await client.GetAllocatableResources(pb.AllocatableResourcesRequest())
            assert list(allocatable.cpu_ids) == [1, 2, 3]
            sizes = {(each.memory_type, each.topology.nodes[0].ID): each.size for each in allocatable.memory}
            assert sizes == {("memory", 0): 3 * 1024**3, ("memory", 1): 4 * 1024**3}

    on_node(story, settings=settings, shape=shape)


def test_dev_146_claims(on_node, pod, lister):
    manifest = pod("p", main={})
    manifest["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
    manifest["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.vendor.com"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }

    async def story(node, view):
        node.apply_object(claim)
        node.apply(manifest)
        await node.advance(5)
        async with lister(view, node.clock) as client:
            (entry,) = (await client.List(pb.ListPodResourcesRequest())).pod_resources
        (found,) = entry.containers[0].dynamic_resources
        assert (found.claim_name, found.claim_namespace) == ("shared", "default")
        (resource,) = found.claim_resources
        assert (resource.driver_name, resource.pool_name, resource.device_name) == (
            "gpu.vendor.com",
            "node-1",
            "d0",
        )
        assert [cdi.name for cdi in resource.cdi_devices] == ["vendor.com/gpu=d0"]
        assert view.state().claims_in_use == {"gpu.vendor.com": 1}

    on_node(story, drivers=(DraSetup(driver="gpu.vendor.com", devices=("d0",), cdi_kind="vendor.com/gpu"),))


def test_dev_148_fields_of_later_versions_are_tolerated(on_node, pod):
    """Numbers 4 and 5 of PodResources, as 1.37 has them, reach a reader of today."""
    known = pb.PodResources(name="p", namespace="n").SerializeToString()
    later = known + bytes([0x22, 0x02, 0x01, 0x02]) + bytes([0x2A, 0x00])
    found = pb.PodResources.FromString(later)
    assert (found.name, found.namespace) == ("p", "n")


def test_dev_140_there_is_no_other_version(on_node, lister):
    async def story(node, view):
        async with lister(view, node.clock) as client:
            methods = {name for name in dir(client) if not name.startswith("_")}
        assert methods == {"List", "Get", "GetAllocatableResources"}

    on_node(story, warm_up=False)
