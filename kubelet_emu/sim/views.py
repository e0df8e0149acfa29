"""Pods as the API and the runtime really have them, for what judges a run."""

from collections.abc import Mapping
from typing import Any

from cri_fake.store.containers import Container
from cri_fake.world import World
from kubelet_emu.lab.node import Node
from kubelet_emu.sim.liveness import InstanceView, PodView

__all__ = ["pod_views"]


def pod_views(node: Node) -> list[PodView]:
    """All pods: those in the API, in its order, then those of which only the runtime knows."""
    runtime = node.runtime
    assert runtime is not None, "a simulated node has its own runtime"
    world = runtime.world
    known: dict[str, Mapping[str, Any] | None] = {
        str(obj["metadata"]["uid"]): obj for obj in node.store.list("Pod")
    }
    for sandbox in world.sandboxes.values:
        known.setdefault(sandbox.uid, None)
    start_ns = node.clock.now_ns() - round(node.clock.elapsed_seconds() * 1e9)
    return [_view(world, uid, obj, start_ns) for uid, obj in known.items()]


def _view(world: World, uid: str, obj: Mapping[str, Any] | None, start_ns: int) -> PodView:
    sandboxes = [one for one in world.sandboxes.values if one.uid == uid]
    current = max(sandboxes, key=lambda one: one.created_at_ns, default=None)
    instances: dict[str, InstanceView] = {}
    earlier: dict[str, InstanceView] = {}
    elsewhere: list[str] = []
    for sandbox in sandboxes:
        newest: dict[str, Container] = {}
        for container in world.containers_of(sandbox.id):
            before = newest.get(container.name)
            if before is not None and before.state == "RUNNING":
                elsewhere.append(before.name)
            newest[container.name] = container
        if sandbox is current:
            instances = {name: _instance(one, start_ns) for name, one in newest.items()}
        else:
            elsewhere += [name for name, one in newest.items() if one.state == "RUNNING"]
            earlier |= {name: _instance(one, start_ns) for name, one in newest.items()}
    name = obj["metadata"]["name"] if obj is not None else sandboxes[0].name
    return PodView(
        name=name,
        obj=obj,
        ready_sandboxes=sum(one.ready for one in sandboxes),
        instances=instances,
        earlier=earlier,
        running_elsewhere=tuple(elsewhere),
    )


def _instance(container: Container, start_ns: int) -> InstanceView:
    return InstanceView(
        id=container.id,
        state=str(container.state),
        attempt=container.attempt,
        exit_code=container.exit_code,
        started_seconds=(container.started_at_ns - start_ns) / 1e9,
        finished_seconds=(container.finished_at_ns - start_ns) / 1e9,
    )
