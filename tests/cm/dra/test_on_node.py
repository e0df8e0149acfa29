"""Claims over a whole node: once a pod, kept over restarts, given back at the end (DEV-152 to DEV-157)."""

import pytest

from devices.dra import DraSetup
from devices.model import Device, Model
from devices.setup import PluginSetup
from kubelet_emu.lab.node import Node
from node_host.loop import run

DRIVER = DraSetup(driver="gpu.vendor.com", devices=("d0", "d1", "d2"), cdi_kind="vendor.com/gpu")


def claim(name, *, count=1, template=False):
    spec = {
        "devices": {
            "requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.vendor.com", "count": count}}]
        }
    }
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": spec} if template else spec,
    }


def pod(name, script="sleep 3600", *, claim_name="shared", template=False, **spec):
    reference = {"resourceClaimTemplateName" if template else "resourceClaimName": claim_name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpu", **reference}],
            "containers": [
                {
                    "name": "main",
                    "image": "docker.io/library/busybox:1.36",
                    "command": ["sh", "-c", script],
                    "resources": {"claims": [{"name": "gpu"}]},
                    **spec.pop("container", {}),
                }
            ],
            **spec,
        },
    }


@pytest.fixture
def on_node():
    def tell(story, **options):
        async def main():
            async with Node(
                **{"transport": "memory", "latency": "zero", "drivers": (DRIVER,), **options}
            ) as node:
                await story(node)
            broken = [r for r in node.recorder.records if r["k"] == "invariant"]
            assert not broken, broken

        run(main, seed=options.get("seed", 0))

    return tell


def calls(node):
    return [
        (r["method"], r["ids"][0])
        for r in node.recorder.records
        if r["k"] == "device" and "Node" in r["method"]
    ]


def created(node):
    """CDI devices of each CreateContainer."""
    return [r.get("devices", []) for r in node.recorder.records if r.get("m") == "CreateContainer"]


RESTART_ALL = {
    "container": {
        "restartPolicy": "Never",
        "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
        ],
    },
    "restartPolicy": "Never",
}


@pytest.mark.parametrize("transport", ["memory", "grpc"])
def test_dev_152_155_156_a_restart_in_place_asks_no_driver_again(on_node, transport):
    script = "if [ -f /work/again ]; then sleep 600; fi; touch /work/again; sleep 2; exit 88"
    worker = pod("worker", script, volumes=[{"name": "work", "emptyDir": {}}], **RESTART_ALL)
    worker["spec"]["containers"][0]["volumeMounts"] = [{"name": "work", "mountPath": "/work"}]

    async def story(node):
        node.apply_object(claim("shared", count=2))
        node.apply(worker)
        await node.advance(15)
        status = node.pod("worker").status.container_statuses[0]
        assert (status.restart_count, status.state.running is not None) == (1, True)
        assert created(node) == [["vendor.com/gpu=d0", "vendor.com/gpu=d1"]] * 2
        assert calls(node) == [("NodePrepareResources", ["shared"])]
        (entry,) = status.allocated_resources_status
        assert entry.name == "claim:gpu"
        assert [each.health for each in entry.resources] == ["Healthy", "Healthy"]
        node.delete("worker")
        await node.advance(10)
        assert calls(node)[1:] == [("NodeUnprepareResources", ["shared"])]
        assert not node.drivers["gpu.vendor.com"].prepared
        assert not node.store.get("ResourceClaim", "default", "shared").get("status")

    on_node(story, transport=transport)


def test_a_template_makes_a_claim_of_the_pods_own(on_node):
    async def story(node):
        node.apply_object(claim("gpus", template=True))
        node.apply(pod("one", claim_name="gpus", template=True))
        node.apply(pod("two", claim_name="gpus", template=True))
        await node.advance(10)
        assert sorted(created(node)) == [["vendor.com/gpu=d0"], ["vendor.com/gpu=d1"]]
        (entry,) = node.pod("one").status.resource_claim_statuses
        assert entry.resource_claim_name.startswith("one-gpu-")
        node.delete("one")
        await node.advance(10)
        names = [obj["metadata"]["name"] for obj in node.store.list("ResourceClaim")]
        assert [name[:8] for name in names] == ["two-gpu-"]

    on_node(story)


def test_two_pods_share_a_claim(on_node):
    async def story(node):
        node.apply_object(claim("shared"))
        node.apply(pod("one"))
        await node.advance(5)
        node.apply(pod("two"))
        await node.advance(5)
        node.delete("one")
        await node.advance(10)
        assert calls(node) == [("NodePrepareResources", ["shared"])]
        assert node.drivers["gpu.vendor.com"].prepared
        node.delete("two")
        await node.advance(10)
        assert not node.drivers["gpu.vendor.com"].prepared

    on_node(story)


def test_dev_152_161_waits_while_the_driver_is_away_and_starts_later(on_node):
    async def story(node):
        driver = node.drivers["gpu.vendor.com"]
        driver.stop()
        await node.advance(3)
        node.apply_object(claim("shared"))
        node.apply(pod("worker"))
        await node.advance(20)
        assert node.pod("worker").status.phase == "Pending"
        events = [each for each in node.events() if each["reason"] == "FailedPrepareDynamicResources"]
        assert events[0]["type"] == "Warning"
        assert events[0]["message"] == (
            "Failed to prepare dynamic resources: prepare dynamic resources: "
            "DRA driver gpu.vendor.com is not registered"
        )
        driver.start()
        await node.advance(95)  # the retry is the next periodic sync
        assert node.pod("worker").status.phase == "Running"

    on_node(story)


def test_dev_156_161_a_pod_stays_until_its_claims_are_given_back(on_node):
    async def story(node):
        node.apply_object(claim("shared"))
        node.apply(pod("worker"))
        await node.advance(5)
        node.drivers["gpu.vendor.com"].stop()
        await node.advance(3)
        node.delete("worker")
        await node.advance(60)
        assert node.pod("worker").metadata.deletion_timestamp is not None
        node.drivers["gpu.vendor.com"].start()
        await node.advance(30)
        with pytest.raises(KeyError):
            node.pod("worker")

    on_node(story)


def test_dev_154_a_kubelet_restart_while_the_pod_runs(on_node):
    script = "sleep 20; exit 1"

    async def story(node):
        node.apply_object(claim("shared"))
        node.apply(pod("worker", script))
        await node.advance(5)
        await node.restart_kubelet(down_seconds=2)
        await node.advance(30)
        # The container has restarted since, with what the state file says; nobody was asked again.
        assert created(node)[-1] == ["vendor.com/gpu=d0"]
        assert len(created(node)) >= 2
        assert calls(node) == [("NodePrepareResources", ["shared"])]

    on_node(story)


def test_nothing_fits(on_node):
    async def story(node):
        node.apply_object(claim("shared", count=9))
        node.apply(pod("worker"))
        await node.advance(10)
        assert node.pod("worker").status.phase == "Pending"
        notes = [r["text"] for r in node.recorder.records if r["k"] == "note" and r["about"] == "claims"]
        assert notes == [
            "claim gpu of pod worker: ResourceClaim shared: request gpus: "
            "9 devices of gpu.vendor.com are wanted, 3 are free"
        ]

    on_node(story)


def test_dev_124_health_reaches_the_status(on_node):
    async def story(node):
        node.apply_object(claim("shared"))
        node.apply(pod("worker"))
        await node.advance(5)
        node.drivers["gpu.vendor.com"].set_health("d0", "Unhealthy", "overheated")
        await node.advance(3)
        (entry,) = node.pod("worker").status.container_statuses[0].allocated_resources_status
        assert [(each.health, each.message) for each in entry.resources] == [("Unhealthy", "overheated")]
        assert node.pod("worker").status.phase == "Running"

    on_node(story)


def test_dev_160_an_extended_resource_that_a_driver_serves(on_node):
    """A plugin serves the same resource; it is not asked, the device comes from the claim."""
    setup = PluginSetup(
        model=Model(resource="vendor.com/gpu", devices=(Device("p0"),), socket="gpu.sock", env="PLUGIN")
    )
    worker = pod("worker")
    worker["spec"]["resourceClaims"] = []
    worker["spec"]["containers"][0]["resources"] = {"limits": {"vendor.com/gpu": "1"}}
    mapping = {"containerName": "main", "resourceName": "vendor.com/gpu", "requestName": "gpus"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "ext", "requestMappings": [mapping]}}

    async def story(node):
        created_pod = node.store.create("Pod", worker)
        made = node.store.create("ResourceClaim", claim("ext"))
        result = {"request": "gpus", "driver": "gpu.vendor.com", "pool": "node-1", "device": "d2"}
        reserved = [{"resource": "pods", "name": "worker", "uid": created_pod["metadata"]["uid"]}]
        allocated = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        node.store.replace("ResourceClaim", "default", "ext", {**made, "status": allocated})
        node.store.patch("Pod", "default", "worker", {"status": status}, subresource="status")
        bound = node.store.get("Pod", "default", "worker")
        bound = {**bound, "spec": {**bound["spec"], "nodeName": node.settings.node_name}}
        node.store.replace("Pod", "default", "worker", bound, subresource="binding")
        await node.advance(10)
        assert node.pod("worker").status.phase == "Running"
        assert created(node) == [["vendor.com/gpu=d2"]]
        assert calls(node) == [("NodePrepareResources", ["ext"])]
        assert not [r for r in node.recorder.records if r["k"] == "device" and r["method"] == "Allocate"]

    on_node(story, devices=(setup,))
