"""Topology, exclusive CPUs and memory on a whole node (DEV sections 13 and 16)."""

from attrs import evolve

from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.nodeobject import NodeShape
from kubelet_emu.settings import KubeletSettings

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
NIC = "example.com/nic"
GPU = "nvidia.com/gpu"
TOPOLOGY = "Pod was rejected: Resources cannot be allocated with Topology locality"

TWO = NodeShape(
    cpu="16",
    memory="16Gi",
    machine=MachineTopology(sockets=2, cores_per_node=4, threads_per_core=2, memory_bytes=8 * 1024**3),
)
"""CPUs 0-3,8-11 on node 0, 4-7,12-15 on node 1."""


def settings(policy: str, **more) -> KubeletSettings:
    return KubeletSettings(topology_manager_policy=policy, **more)


def both(gpu_pod, gpus: int, nics: int, **more):
    """A pod whose one container asks for both kinds of devices."""
    pod = gpu_pod(gpus=gpus, a=POLITE, **more)
    pod["spec"]["containers"][0]["resources"]["limits"][NIC] = str(nics)
    return pod


def guaranteed(pod, cpu: str, memory: str = "1Gi"):
    for container in pod["spec"]["containers"]:
        limits = container["resources"]["limits"]
        limits.update(cpu=cpu, memory=memory)
        container["resources"]["requests"] = dict(limits)
    return pod


def plugins(plugin):
    """GPU-0 to GPU-3 on node 0, GPU-4 to GPU-7 on node 1; NICs on node 1 only."""
    gpus = plugin(8, nodes=(0, 1))
    nics = plugin(2, nodes=(1,), resource=NIC, ids=("NIC-0", "NIC-1"))
    return gpus, nics


def test_dev_131_devices_of_two_kinds_come_from_one_node(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(both(gpu_pod, 2, 1))
        await node.advance(5)
        return look(node).held(), look(node).held(resource=NIC)

    found = on_node(story, *plugins(plugin), shape=TWO, settings=settings("single-numa-node"))
    assert found == ({"GPU-4", "GPU-5"}, {"NIC-0"})


def test_dev_131_without_a_policy_the_plugin_has_its_way(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(both(gpu_pod, 2, 1))
        await node.advance(5)
        return look(node).held()

    assert on_node(story, *plugins(plugin), shape=TWO) == {"GPU-0", "GPU-1"}


def test_dev_13b_what_does_not_fit_one_node_is_refused(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=5, a=POLITE))
        await node.advance(5)
        return node.pod("p").status, look(node).calls("Allocate"), look(node).events("TopologyAffinityError")

    status, allocated, events = on_node(
        story, plugin(8, nodes=(0, 1)), shape=TWO, settings=settings("single-numa-node")
    )
    assert (status.phase, status.reason, status.message) == ("Failed", "TopologyAffinityError", TOPOLOGY)
    assert events == ["Resources cannot be allocated with Topology locality"]
    assert allocated == []


def test_dev_13b_restricted_takes_two_nodes_where_one_can_never_do(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=5, a=POLITE))
        node.apply(gpu_pod("q", gpus=2, a=POLITE))
        await node.advance(5)
        return node.pod("p").status.phase, look(node).held(), node.pod("q").status.phase

    phase, held, other = on_node(story, plugin(8, nodes=(0, 1)), shape=TWO, settings=settings("restricted"))
    assert (phase, len(held), other) == ("Running", 5, "Running")


def test_dev_13b_best_effort_fails_in_allocation_instead(on_node, plugin, gpu_pod):
    async def story(node):
        node.apply(gpu_pod(gpus=9, a=POLITE))
        await node.advance(5)
        return node.pod("p").status.message

    message = on_node(story, plugin(8, nodes=(0, 1)), shape=TWO, settings=settings("best-effort"))
    assert message == (
        f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {GPU}. "
        "Requested: 9, Available: 8, which is unexpected"
    )


def test_dev_131_pod_scope_puts_all_containers_in_one_place(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=2, a=POLITE, b=POLITE))
        await node.advance(5)
        return look(node).held("a") | look(node).held("b")

    held = on_node(
        story,
        plugin(8, nodes=(0, 1)),
        shape=TWO,
        settings=settings("single-numa-node", topology_manager_scope="pod"),
    )
    assert held == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_dev_131_pod_scope_refuses_what_container_scope_takes_apart(on_node, plugin, gpu_pod):
    pod = gpu_pod(gpus=3, a=POLITE, b=POLITE)

    async def story(node):
        node.apply(pod)
        await node.advance(5)
        return node.pod("p").status.phase

    devices = plugin(8, nodes=(0, 1))
    container = settings("single-numa-node")
    assert on_node(story, devices, shape=TWO, settings=container) == "Running"
    whole = evolve(container, topology_manager_scope="pod")
    assert on_node(story, devices, shape=TWO, settings=whole) == "Failed"


def test_dev_133_after_a_kubelet_restart_the_hints_are_those_of_what_is_held(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod(gpus=4, a=POLITE))
        await node.advance(5)
        before = look(node).held()
        await node.restart_kubelet()
        await node.advance(15)
        return before, look(node).held(), node.pod("p").status.phase

    before, after, phase = on_node(
        story, plugin(8, nodes=(0, 1)), shape=TWO, settings=settings("single-numa-node")
    )
    assert (after, phase) == (before, "Running")


STATIC = {"cpu_manager_policy": "static", "reserved_cpu": "1"}


def cpusets(node) -> dict[str, str]:
    """The CPUs that the runtime has for each running container."""
    return {r["container"]: r["cpus"] for r in node.recorder.records if r["k"] == "cpus"}


def test_dev_172_exclusive_cpus_follow_the_devices(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(guaranteed(both(gpu_pod, 1, 1), "4"))
        await node.advance(5)
        return look(node).held(), cpusets(node)

    held, cpus = on_node(story, *plugins(plugin), shape=TWO, settings=settings("single-numa-node", **STATIC))
    assert held == {"GPU-4"}
    assert cpus == {"a": "4-5,12-13"}


def test_dev_172_exclusive_cpus_stay_over_restarts_and_leave_the_shared_pool(on_node, gpu_pod, look):
    async def story(node):
        node.apply(gpu_pod("shared", gpus=None, a=POLITE))
        await node.advance(3)
        node.apply(guaranteed(gpu_pod(gpus=None, a="sleep 2; exit 1"), "2"))
        await node.advance(12)
        pool = [
            r["pod"]
            for r in node.recorder.records
            if r["k"] == "cri" and r["m"] == "UpdateContainerResources"
        ]
        first = node.kubelet.containers.cpus.state.get(node.pod("p").metadata.uid, "a")
        await node.restart_kubelet()
        await node.advance(20)
        second = node.kubelet.containers.cpus.state.get(node.pod("p").metadata.uid, "a")
        node.delete("p", grace_seconds=0)
        await node.advance(30)
        # The pod that was admitted last counts as active until the next one comes.
        node.apply(gpu_pod("next", gpus=None, a=POLITE))
        await node.advance(5)
        return first, second, pool, node.kubelet.containers.cpus.state

    first, second, told, state = on_node(story, shape=TWO, settings=settings("none", **STATIC))
    assert first == second
    assert len(first) == 2
    assert told == ["shared"]
    assert state.entries == {}
    assert len(state.default) == 16


def test_dev_091_smt_alignment_has_a_reason_of_its_own(on_node, gpu_pod, look):
    async def story(node):
        node.apply(guaranteed(gpu_pod(gpus=None, a=POLITE), "3"))
        await node.advance(5)
        return node.pod("p").status

    more = {**STATIC, "cpu_manager_policy_options": {"full-pcpus-only": "true"}}
    status = on_node(story, shape=TWO, settings=settings("none", **more))
    assert (status.phase, status.reason) == ("Failed", "SMTAlignmentError")
    assert status.message == (
        "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    )


def test_dev_174_memory_is_pinned_where_the_devices_are(on_node, plugin, gpu_pod, look):
    async def story(node):
        node.apply(guaranteed(both(gpu_pod, 1, 1), "2", "6Gi"))
        await node.advance(5)
        uid = node.pod("p").metadata.uid
        return node.kubelet.containers.memory.nodes(uid, "a"), look(node).held()

    more = {"memory_manager_policy": "Static", "reserved_memory": {0: {"memory": "1Gi"}}}
    nodes, held = on_node(story, *plugins(plugin), shape=TWO, settings=settings("restricted", **more))
    assert (nodes, held) == ("1", {"GPU-4"})


def test_pod_404_a_critical_pod_pushes_others_aside(on_node, gpu_pod, look):
    async def story(node):
        node.apply(guaranteed(gpu_pod("small", gpus=None, a="trap 'exit 1' TERM; sleep 3600 & wait"), "1"))
        await node.advance(5)
        critical = gpu_pod("boss", gpus=None, a=POLITE, spec={"priority": 2_000_001_000})
        node.apply(guaranteed(critical, "2"))
        await node.advance(10)
        return node.pod("small").status, node.pod("boss").status, look(node).events("Preempting", "small")

    small, boss, events = on_node(story)
    assert events == ["Preempted in order to admit critical pod"]
    assert (small.phase, small.reason) == ("Failed", "Preempting")
    assert small.message == "Preempted in order to admit critical pod"
    assert [c.type for c in small.conditions if c.type == "DisruptionTarget"] == ["DisruptionTarget"]
    assert boss.phase == "Running"
