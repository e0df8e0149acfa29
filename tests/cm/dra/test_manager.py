"""The DRA manager against the fake driver, over both transports (DEV section 15)."""

import pytest
import trio
from attrs import evolve

from devices.dra import ClaimDevice
from devices.model import Refused
from kubelet_emu.api.codec import pod_from_json, pod_to_json
from kubelet_emu.errors import PeerError

DRIVER = "gpu.vendor.com"
BOTH = pytest.mark.parametrize("service", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])


def main_container(pod):
    return pod.spec.containers[0]


async def refused(coroutine):
    with pytest.raises(PeerError) as error:
        await coroutine
    return str(error.value)


@BOTH
def test_dev_152_155_156_once_a_pod_and_given_back(bench, pod, service):
    async def body(bench):
        worker = pod("worker", "gpus")
        bench.claim("gpus", worker)
        async with bench.manager() as manager, bench.driver(manager=manager, versions=(service,)) as driver:
            await manager.prepare(worker)
            await manager.prepare(worker)  # a new sandbox of the same pod
            assert manager.cdi_devices(worker, main_container(worker)) == ("vendor.com/gpu=d0",)
            assert list(driver.prepared) == ["claim-gpus"]
            await manager.unprepare(worker)
            await manager.unprepare(worker)
            assert not driver.prepared
            assert not manager.cache.all()
        assert bench.calls == [
            ("NodePrepareResources", DRIVER, ["gpus"]),
            ("NodeUnprepareResources", DRIVER, ["gpus"]),
        ]

    bench.run(body)


def test_dev_150_takes_the_first_service_in_the_drivers_order(memory_bench):
    async def body(bench):
        versions = ("v9.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAPlugin")
        async with bench.manager() as manager, bench.driver(manager=manager, versions=versions):
            assert manager.plugins.get(DRIVER).service == "v1beta1.DRAPlugin"
            assert manager.plugins.drivers() == (DRIVER,)

    memory_bench.run(body)


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ((), "empty list of supported gRPC services (aka supported versions)"),
        (
            ("v9.DRAPlugin",),
            "none of services supported by the plugin ([v9.DRAPlugin]) are supported by the kubelet "
            "([v1.DRAPlugin v1beta1.DRAPlugin v1alpha1.DRAResourceHealth])",
        ),
    ],
)
def test_dev_150_validation(memory_bench, versions, text):
    async def body(bench):
        async with bench.manager() as manager:
            with pytest.raises(PeerError) as error:
                manager.plugins.validate("d", "/e", versions)
            assert str(error.value) == text

    memory_bench.run(body)


def test_dev_150_151_endpoints(memory_bench):
    async def body(bench):
        async with bench.manager() as manager:
            plugins = manager.plugins
            await plugins.register("d", "/old.sock", ["v1.DRAPlugin"])
            text = await refused(plugins.register("d", "/old.sock", ["v1.DRAPlugin"]))
            assert text == "endpoint /old.sock already registered for DRA driver plugin d"
            await plugins.register("d", "/new.sock", ["v1.DRAPlugin"])
            assert plugins.get("d").endpoint == "/new.sock"
            await plugins.deregister("d", "/new.sock")
            assert plugins.get("d").endpoint == "/old.sock"
            await plugins.deregister("d", "/old.sock")
            assert plugins.drivers() == ()

    memory_bench.run(body)


class TestChecks:
    """Step 1 of DEV-153: nothing changes when it fails."""

    def check(self, bench, pod, spoil, text, *, driver=True, worker=None):
        async def body(bench):
            who = worker or pod("worker", "gpus")
            obj = bench.claim("gpus", who)
            spoil(bench, obj)
            async with bench.manager() as manager:
                if driver:
                    async with bench.driver(manager=manager):
                        assert await refused(manager.prepare(who)) == f"prepare dynamic resources: {text}"
                else:
                    assert await refused(manager.prepare(who)) == f"prepare dynamic resources: {text}"
                assert not manager.cache.all()
            assert not bench.calls

        bench.run(body)

    def test_missing(self, memory_bench, pod):
        self.check(
            memory_bench,
            pod,
            lambda bench, _: bench.objects.clear(),
            'fetch ResourceClaim gpus: resourceclaims.resource.k8s.io "gpus" not found',
        )

    def test_not_reserved(self, memory_bench, pod):
        self.check(
            memory_bench,
            pod,
            lambda _, obj: obj["status"].update(reservedFor=[]),
            "pod worker (uid-worker) is not allowed to use ResourceClaim gpus (claim-gpus)",
        )

    def test_not_allocated(self, memory_bench, pod):
        self.check(
            memory_bench,
            pod,
            lambda _, obj: obj["status"].pop("allocation"),
            "ResourceClaim gpus is not allocated",
        )

    def test_driver_away(self, memory_bench, pod):
        self.check(
            memory_bench, pod, lambda *_: None, "DRA driver gpu.vendor.com is not registered", driver=False
        )

    def test_template_not_made_yet(self, memory_bench, pod):
        worker = pod("worker", "gpus", template=True)
        self.check(memory_bench, pod, lambda *_: None, "ResourceClaim not found", worker=worker)

    def test_generated_claim_of_another_pod(self, memory_bench, pod):
        worker = pod("worker", "gpus", template=True)
        obj = pod_to_json(worker)
        obj["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "gpus"}]}
        self.check(
            memory_bench,
            pod,
            lambda *_: None,
            "ResourceClaim default/gpus was not created for pod default/worker (pod is not owner)",
            worker=pod_from_json(obj),
        )


def test_a_generated_claim_and_one_that_was_not_needed(memory_bench, pod):
    obj = pod_to_json(pod("worker", "gpus", "nics", template=True))
    obj["status"] = {
        "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "worker-gpus-x7"}, {"name": "nics"}]
    }
    worker = pod_from_json(obj)

    async def body(bench):
        claim = bench.claim("worker-gpus-x7", worker)
        claim["metadata"]["ownerReferences"] = [{"uid": "uid-worker", "controller": True}]
        async with bench.manager() as manager, bench.driver(manager=manager):
            await manager.prepare(worker)
            assert manager.cdi_devices(worker, main_container(worker)) == ("vendor.com/gpu=d0",)

    memory_bench.run(body)


def test_dev_153_a_claim_made_anew_under_the_old_name(memory_bench, pod):
    async def body(bench):
        first, second = pod("first", "gpus"), pod("second", "gpus")
        bench.claim("gpus", first)
        async with bench.manager() as manager, bench.driver(manager=manager):
            await manager.prepare(first)
            bench.claim("gpus", second, uid="other")
            assert await refused(manager.prepare(second)) == (
                "prepare dynamic resources: old ResourceClaim with same name gpus and different "
                "UID claim-gpus still exists (previous pod force-deleted?!)"
            )

    memory_bench.run(body)


class TestAnswers:
    @pytest.mark.parametrize(
        ("faults", "text"),
        [
            (
                'NodePrepareResources: 1*error(INTERNAL, "boom")',
                "NodePrepareResources: rpc error: code = Internal desc = boom",
            ),
            (
                "NodePrepareResources: 1*hang",
                "NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            ),
            (
                "NodePrepareResources: 1*crash",
                "NodePrepareResources: rpc error: code = Unavailable desc = error reading from server: EOF",
            ),
        ],
    )
    def test_dev_153_failed_and_tried_again(self, bench, pod, wait_until, faults, text):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            async with bench.manager() as manager, bench.driver(manager=manager, faults=faults) as driver:
                failed = await refused(manager.prepare(worker))
                if "crash" in faults:
                    assert failed.startswith("prepare dynamic resources: NodePrepareResources: rpc error")
                    await trio.sleep(5)
                    await wait_until(lambda: driver.registered)
                else:
                    assert failed == f"prepare dynamic resources: {text}"
                await manager.prepare(worker)
                assert list(driver.prepared) == ["claim-gpus"]

        bench.run(body)

    def test_dev_153_an_error_for_one_claim(self, bench, pod):
        def lookup(claim):
            if claim.name == "bad":
                raise Refused("device is gone")
            return [ClaimDevice(device="d1")]

        async def body(bench):
            worker = pod("worker", "good", "bad")
            bench.claim("good", worker)
            bench.claim("bad", worker)
            async with bench.manager() as manager, bench.driver(manager=manager, lookup=lookup):
                assert await refused(manager.prepare(worker)) == (
                    "prepare dynamic resources: NodePrepareResources failed for ResourceClaim bad: "
                    "device is gone"
                )
                # The references stay, so that the pod's end gives back what may have been prepared.
                assert [claim.name for claim in manager.cache.all()] == ["bad", "good"]
                await manager.unprepare(worker)
                assert not manager.cache.all()

        bench.run(body)

    def test_dev_156_unprepare_fails_and_is_tried_again(self, bench, pod):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            faults = 'NodeUnprepareResources: 1*error(UNKNOWN, "busy")'
            async with bench.manager() as manager, bench.driver(manager=manager, faults=faults):
                await manager.prepare(worker)
                assert await refused(manager.unprepare(worker)) == (
                    "unprepare dynamic resources: NodeUnprepareResources: "
                    "rpc error: code = Unknown desc = busy"
                )
                assert manager.cache.all()
                await manager.unprepare(worker)
                assert not manager.cache.all()

        bench.run(body)

    def test_dev_156_driver_away(self, memory_bench, pod, wait_until):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            async with bench.manager() as manager, bench.driver(manager=manager) as driver:
                await manager.prepare(worker)
                driver.stop()
                await wait_until(lambda: not manager.plugins.drivers())
                assert await refused(manager.unprepare(worker)) == (
                    "unprepare dynamic resources: DRA driver gpu.vendor.com is not registered"
                )
                driver.start()
                await wait_until(lambda: driver.registered)
                await manager.unprepare(worker)

        memory_bench.run(body)


def test_dev_156_a_shared_claim_stays_until_its_last_pod(bench, pod):
    async def body(bench):
        one, two = pod("one", "gpus"), pod("two", "gpus")
        bench.claim("gpus", one, two)
        async with bench.manager() as manager, bench.driver(manager=manager) as driver:
            await manager.prepare(one)
            await manager.prepare(two)
            await manager.unprepare(one)
            assert driver.prepared
            assert manager.cache.all()[0].pod_uids == ("uid-two",)
            await manager.unprepare(two)
            assert not driver.prepared
        assert [method for method, *_ in bench.calls] == ["NodePrepareResources", "NodeUnprepareResources"]

    bench.run(body)


class TestRequests:
    def test_dev_155_by_request(self, memory_bench, pod):
        def lookup(claim):
            return [
                ClaimDevice(device="d0", requests=("big",)),
                ClaimDevice(device="d1", requests=("small/first",)),
                ClaimDevice(device="d2"),
            ]

        async def body(bench):
            whole, part = pod("whole", "gpus"), pod("part", "gpus/small")
            bench.claim("gpus", whole, part)
            async with bench.manager() as manager, bench.driver(manager=manager, lookup=lookup):
                await manager.prepare(whole)
                names = manager.cdi_devices(whole, main_container(whole))
                assert names == ("vendor.com/gpu=d0", "vendor.com/gpu=d1", "vendor.com/gpu=d2")
                # A device without requests belongs to all of them.
                names = manager.cdi_devices(part, main_container(part))
                assert names == ("vendor.com/gpu=d1", "vendor.com/gpu=d2")

        memory_bench.run(body)

    def test_dev_155_not_prepared(self, memory_bench, pod):
        async def body(bench):
            worker = pod("worker", "gpus")
            async with bench.manager() as manager:
                with pytest.raises(PeerError) as error:
                    manager.cdi_devices(worker, main_container(worker))
            assert str(error.value) == (
                "internal error: unable to get claim info for ResourceClaim gpus in namespace default"
            )

        memory_bench.run(body)

    def test_dev_160_extended_resources(self, memory_bench, pod):
        obj = pod_to_json(pod("worker"))
        obj["spec"]["containers"][0]["resources"] = {"limits": {"vendor.com/gpu": "1"}}
        obj["status"] = {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "ext",
                "requestMappings": [
                    {"containerName": "main", "resourceName": "vendor.com/gpu", "requestName": "r"}
                ],
            }
        }
        worker = pod_from_json(obj)

        async def body(bench):
            bench.claim("ext", worker)
            async with bench.manager() as manager, bench.driver(manager=manager):
                await manager.prepare(worker)
                assert manager.cdi_devices(worker, main_container(worker)) == ("vendor.com/gpu=d0",)

        memory_bench.run(body)


class TestRestart:
    def test_dev_154_159_a_kubelet_restart(self, bench, pod, wait_until):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            bench.active.add("uid-worker")
            async with bench.driver() as driver:
                async with bench.manager() as manager:
                    await wait_until(lambda: driver.registered)
                    await manager.prepare(worker)
                async with bench.manager() as manager:
                    # Containers that restart need no driver: the state file has their devices.
                    assert manager.cdi_devices(worker, main_container(worker)) == ("vendor.com/gpu=d0",)
                    await wait_until(lambda: manager.plugins.drivers())
                    await manager.prepare(
                        worker
                    )  # for a new sandbox: asked again, and stored twice (as coded)
                    names = manager.cdi_devices(worker, main_container(worker))
                    assert names == ("vendor.com/gpu=d0", "vendor.com/gpu=d0")
                    await manager.unprepare(worker)
                    assert not driver.prepared

        bench.run(body)

    def test_dev_157_a_pod_that_went_meanwhile(self, memory_bench, pod, wait_until):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            async with bench.driver() as driver:
                async with bench.manager() as manager:
                    await wait_until(lambda: driver.registered)
                    await manager.prepare(worker)
                async with bench.manager() as manager:
                    await wait_until(lambda: not driver.prepared)
                    assert not manager.cache.all()
                    assert bench.clock.elapsed_seconds() >= 60

        memory_bench.run(body)

    def test_dev_159_a_corrupt_file_stops_the_start(self, memory_bench):
        async def body(bench):
            bench.files.make_dirs(bench.root)
            bench.files.write(f"{bench.root}/dra_manager_state", b'{"Data":"{}","Checksum":1}')
            with pytest.raises((PeerError, ExceptionGroup)) as error:
                async with bench.manager():
                    pass
            found = error.value
            while isinstance(found, ExceptionGroup):
                (found,) = found.exceptions
            assert str(found) == "checkpoint is corrupted"

        memory_bench.run(body)


class TestHealth:
    def test_dev_124_158_reported_changed_and_stale(self, bench, pod, wait_until):
        async def body(bench):
            worker = pod("worker", "gpus/req")
            bench.claim("gpus", worker)
            async with (
                bench.manager() as manager,
                bench.driver(manager=manager, health_timeout_seconds=20) as driver,
            ):
                await manager.prepare(worker)

                def shown():
                    (status,) = manager.device_health(worker)["main"]
                    assert status.name == "claim:gpus/req"
                    (entry,) = status.resources
                    assert entry.resource_id == "vendor.com/gpu=d0"
                    return entry.health, entry.message

                assert shown() == ("Healthy", None)
                bench.changed.clear()
                driver.set_health("d0", "Unhealthy", "x" * 2000)
                await wait_until(lambda: shown()[0] == "Unhealthy")
                assert len(shown()[1]) == 1024
                assert shown()[1].endswith("...")
                assert bench.changed == [["uid-worker"]]
                driver.set_health("d1", "Unhealthy")  # of no pod
                await trio.sleep(1)
                assert bench.changed == [["uid-worker"]]
                await trio.sleep(30)
                assert shown() == ("Unknown", None)
                driver.set_health("d0", "Healthy")
                await wait_until(lambda: shown()[0] == "Healthy")
                driver.stop()
                await wait_until(lambda: shown()[0] == "Unknown")
                assert len(bench.changed) == 2

        bench.run(body)

    def test_dev_158_a_driver_without_the_service_is_asked_on(self, memory_bench, pod):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            bench.active.add("uid-worker")
            async with bench.manager() as manager, bench.driver(manager=manager, versions=("v1.DRAPlugin",)):
                await manager.prepare(worker)
                await trio.sleep(60)
                ((entry,),) = [each.resources for each in manager.device_health(worker)["main"]]
                assert entry.health == "Unknown"

        memory_bench.run(body)

    def test_dev_124_without_cdi_the_device_is_named_in_full(self, memory_bench, pod):
        async def body(bench):
            worker = pod("worker", "gpus")
            bench.claim("gpus", worker)
            async with bench.manager() as manager, bench.driver(manager=manager, cdi_kind=""):
                await manager.prepare(worker)
                (status,) = manager.device_health(worker)["main"]
                assert status.name == "claim:gpus"
                assert status.resources[0].resource_id == "gpu.vendor.com/node-1/d0"

        memory_bench.run(body)


def test_pods_without_claims_cost_nothing(memory_bench, pod):
    async def body(bench):
        plain = evolve(pod("plain"))
        async with bench.manager() as manager:
            await manager.prepare(plain)
            await manager.unprepare(plain)
            assert manager.cdi_devices(plain, main_container(plain)) == ()
            assert manager.device_health(plain) == {}
        assert not bench.files.exists(f"{bench.root}/dra_manager_state")

    memory_bench.run(body)
