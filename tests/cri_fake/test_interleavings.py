"""Any calls in any order and at once: the invariants of CRI section 19 hold after each step."""

from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.latency import MeasuredLatency
from k8s_proto import runtime_v1_pb2 as cri
from trio_grpc import StatusError

PODS = 3
OPERATIONS = (
    "run_pod",
    "stop_pod",
    "remove_pod",
    "create",
    "start",
    "stop",
    "remove",
    "exec",
    "sandbox_dies",
    "wait",
    "crash",
)
steps = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5), st.booleans()), max_size=25)

Memory = dict[str, Any]


async def perform(rig: Any, operation: str, number: int, memory: Memory) -> None:
    """One call on some object that was seen so far; refusals are part of the game."""
    sandboxes, containers = memory["sandboxes"], memory["containers"]
    sandbox = sandboxes[number % len(sandboxes)] if sandboxes else "f" * 64
    container = containers[number % len(containers)] if containers else "e" * 64
    pod = f"pod{number % PODS}"
    try:
        if operation == "run_pod":
            sandboxes.append(await rig.run_pod(pod, attempt=number // PODS))
        elif operation == "stop_pod":
            await rig.stop_pod(sandbox)
            memory["stopped"].add(sandbox)
        elif operation == "remove_pod":
            await rig.remove_pod(sandbox)
        elif operation == "create":
            script = ("sleep 600", "exit 3", "sleep 1")[number % 3]
            containers.append(await rig.create(sandbox, f"c{number}", script, pod=pod))
        elif operation == "start":
            await rig.start(container)
        elif operation == "stop":
            await rig.stop(container, number % 3)
        elif operation == "remove":
            await rig.remove(container)
        elif operation == "exec":
            await rig.exec(container, "echo", "x", timeout=1)
        elif operation == "sandbox_dies":
            rig.runtime._sandboxes.process_died(sandbox)
        elif operation == "crash":
            await rig.runtime.restart(down_seconds=0.1)
        else:
            await rig.clock.sleep(number)
    except StatusError as refusal:
        memory["codes"].add(refusal.code.name)


async def check(rig: Any, memory: Memory) -> None:
    """CRI-200 to CRI-203, on what the wire shows and on what the runtime holds."""
    world = rig.runtime.world
    pods = {each.id: await rig.pod_status(each.id) for each in world.sandboxes.values}
    assert list(pods) == await rig.pods()
    addresses = [status.network.ip for status in pods.values() if status.network.ip]
    assert len(addresses) == len(set(addresses))
    for sandbox_id, status in pods.items():
        if status.state == cri.SANDBOX_READY:
            assert status.network.ip
            assert sandbox_id not in memory["not_ready"]
            assert sandbox_id not in memory["stopped"]
        else:
            memory["not_ready"].add(sandbox_id)
        if status.network.ip:
            assert world.ipam.holder(status.network.ip) == sandbox_id
    assert len(world.sandbox_names) == len(pods)
    listed = await rig.containers()
    assert len(world.container_names) == len(listed)
    for container_id in listed:
        status = await rig.status(container_id)
        sandbox_id = world.containers.get(container_id).sandbox_id
        assert sandbox_id in pods
        if status.state == cri.CONTAINER_RUNNING:
            assert sandbox_id not in memory["stopped"]
            assert rig.runtime._containers.live(container_id) is not None
        if status.state == cri.CONTAINER_EXITED:
            frozen = memory["ends"].setdefault(container_id, status.SerializeToString(deterministic=True))
            assert frozen == status.SerializeToString(deterministic=True)
            assert status.finished_at >= status.started_at
            assert status.finished_at >= status.created_at > 0


@settings(max_examples=60, deadline=None)
@given(steps=steps, seed=st.integers(0, 1000), slow=st.booleans())
def test_invariants_hold_over_any_interleaving_CRI_200_to_CRI_207(
    drive_once: Any, steps: list[tuple[str, int, bool]], seed: int, slow: bool
) -> None:
    async def body(rig: Any) -> None:
        memory: Memory = {
            "sandboxes": [],
            "containers": [],
            "stopped": set(),
            "not_ready": set(),
            "ends": {},
            "codes": set(),
        }
        async with trio.open_nursery() as nursery:
            for operation, number, at_once in steps:
                if at_once:
                    nursery.start_soon(perform, rig, operation, number, memory)
                else:
                    await perform(rig, operation, number, memory)
                    if not nursery.child_tasks:
                        await check(rig, memory)
        await rig.clock.sleep(5)
        await check(rig, memory)
        assert memory["codes"] <= {"UNKNOWN", "NOT_FOUND", "UNAVAILABLE", "DEADLINE_EXCEEDED"}
        for sandbox in await rig.pods():
            await rig.remove_pod(sandbox)
        assert await rig.pods() == await rig.containers() == []
        assert len(rig.runtime.world.sandbox_names) == len(rig.runtime.world.container_names) == 0
        assert rig.runtime._containers._live == {}

    drive_once(body, seed=seed, **({"latency": MeasuredLatency} if slow else {}))
