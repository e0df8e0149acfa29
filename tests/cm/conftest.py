from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from devices.model import Device as Listed
from devices.model import Model
from devices.model import Preference as Preferences
from devices.setup import PluginSetup
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubelet_emu.cm.devicemanager.choosing import Choice, Preference, Request, choose
from kubelet_emu.cm.devicemanager.state import Device, DeviceState, Endpoint
from kubelet_emu.lab.node import Node
from node_host.loop import run


@pytest.fixture
def make_pod() -> Callable[..., Pod]:
    """A pod from limits by container; init containers whose name starts with ``side`` are restartable."""

    def make(
        containers: Mapping[str, Mapping[str, object]],
        *,
        inits: Mapping[str, Mapping[str, object]] | None = None,
        uid: str = "uid-1",
        name: str = "pod",
    ) -> Pod:
        def one(title: str, limits: Mapping[str, object], *, policy: str | None = None) -> Container:
            amounts = {resource: Quantity(str(amount)) for resource, amount in limits.items()}
            return Container(
                name=title,
                restart_policy=policy,
                resources=ResourceRequirements(limits=amounts, requests=amounts),
            )

        return Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=uid),
            spec=PodSpec(
                init_containers=tuple(
                    one(title, limits, policy="Always" if title.startswith("side") else None)
                    for title, limits in (inits or {}).items()
                ),
                containers=tuple(one(title, limits) for title, limits in containers.items()),
            ),
        )

    return make


@pytest.fixture
def make_state() -> Callable[..., DeviceState]:
    """A state in which every given resource is registered and has listed. Devices: id → nodes or None."""

    def make(
        resources: Mapping[str, Mapping[str, tuple[int, ...] | None]], unhealthy: Collection[str] = ()
    ) -> DeviceState:
        state = DeviceState()
        for resource, devices in resources.items():
            state.connected(resource, Endpoint(path=f"/{resource}.sock", connection=1))
            state.listed(
                resource,
                [
                    Device(one, "Unhealthy" if one in unhealthy else "Healthy", nodes)
                    for one, nodes in devices.items()
                ],
            )
        return state

    return make


class Allocator:
    """Runs ``choose`` to its end with a plugin that answers from a function, and writes the result down."""

    def __init__(self, state: DeviceState) -> None:
        self.state = state
        self.asked: list[Preference] = []

    def choose(
        self, request: Request, prefer: Callable[[Preference], Collection[str]] = lambda _: ()
    ) -> Choice:
        steps = choose(self.state, request)
        try:
            question = next(steps)
            while True:
                self.asked.append(question)
                question = steps.send(prefer(question))
        except StopIteration as end:
            found: Choice = end.value
            return found

    def container(self, pod: Pod, container: Container, **more: object) -> Choice:
        """What the manager does for one container of a pod with one resource."""
        uid = pod.metadata.uid
        self.state.begin_pod(uid)
        last = Choice()
        for resource, quantity in sorted(container.resources.limits.items()):
            last = self.choose(
                Request(uid=uid, container=container.name, resource=resource, limit=quantity.value(), **more)
            )
            if last.error:
                return last
            if last.ids:
                self.state.assign(uid, container.name, resource, last.ids, b"")
        plain = any(
            one.name == container.name and one.restart_policy != "Always" for one in pod.spec.init_containers
        )
        self.state.settle(uid, container.name, reusable=plain)
        return last

    def pod(self, pod: Pod, **more: object) -> dict[str, set[str]]:
        """Allocate a whole pod of one resource; the devices by container. Fails the test on an error."""
        held: dict[str, set[str]] = {}
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            choice = self.container(pod, container, **more)
            assert choice.error == ""
            held[container.name] = {
                one
                for each in self.state.pods.container(pod.metadata.uid, container.name).values()
                for one in each.ids
            }
        return held


@pytest.fixture
def make_allocator() -> Callable[[DeviceState], Allocator]:
    return Allocator


GPU = "nvidia.com/gpu"


@pytest.fixture
def plugin():
    """A plain plugin with a number of devices ``GPU-0`` …, in this order over ``nodes`` if some are given."""

    def make(
        count: int = 8,
        *,
        resource: str = GPU,
        nodes: tuple[int, ...] = (),
        ids: tuple[str, ...] = (),
        **more: Any,
    ) -> PluginSetup:
        names = ids or tuple(f"GPU-{number}" for number in range(count))
        placed = [(nodes[i * len(nodes) // len(names)],) if nodes else None for i in range(len(names))]
        fields: dict[str, Any] = {"pre_start": True, "preference": Preferences.LOWEST, "env": "VISIBLE"}
        setup = {key: more.pop(key) for key in ("faults", "register", "changes") if key in more}
        model = Model(
            resource=resource,
            devices=tuple(Listed(one, where) for one, where in zip(names, placed, strict=True)),
            socket=f"{resource.replace('/', '_')}.sock",
            **{**fields, **more},
        )
        return PluginSetup(model=model, **setup)

    return make


class Look:
    """What a node's trace shows of devices."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def calls(self, method: str, resource: str = GPU) -> list[Any]:
        """The ids, or the questions, of each call."""
        return [
            r.get("ids", r.get("req"))
            for r in self.node.recorder.records
            if r["k"] == "device" and r["method"] == method and r["resource"] == resource
        ]

    def plugin(self, resource: str = GPU) -> list[str]:
        """What became of the plugin, in order."""
        return [
            r["do"] for r in self.node.recorder.records if r["k"] == "plugin" and r["resource"] == resource
        ]

    def events(self, reason: str, pod: str = "p") -> list[str]:
        return [
            r.get("raw", r["message"])
            for r in self.node.recorder.records
            if r["k"] == "event" and r["reason"] == reason and r["pod"] == pod
        ]

    def held(self, container: str = "a", pod: str = "p", resource: str = GPU) -> set[str]:
        """Ids that the device manager has noted for a container now."""
        uid = self.node.pod(pod).metadata.uid
        held = self.node.kubelet.containers.devices.state.pods.get(uid, container, resource)
        return set(held.ids) if held is not None else set()

    def amounts(self, resource: str = GPU) -> tuple[str | None, str | None]:
        """Capacity and allocatable as the Node object has them."""
        status = self.node.store.get("Node", "", self.node.settings.node_name)["status"]
        return status["capacity"].get(resource), status["allocatable"].get(resource)

    def env(self, container: str = "a") -> list[str | None]:
        """The plugin's variable at each creation of a container."""
        return [
            r["env"].get("VISIBLE")
            for r in self.node.recorder.records
            if r["k"] == "cri" and r["m"] == "CreateContainer" and r["name"] == container
        ]

    def health(self, container: str = "a", pod: str = "p") -> dict[str, str]:
        """Health by device id, as the pod's status shows it."""
        for status in self.node.pod(pod).status.container_statuses:
            if status.name == container:
                return {
                    one.resource_id: one.health
                    for each in status.allocated_resources_status
                    for one in each.resources
                }
        return {}


@pytest.fixture
def look():
    return Look


@pytest.fixture
def on_node():
    """Run a story on a node with plugins in virtual time; every invariant has to hold."""

    def tell(story: Any, *devices: PluginSetup, **options: Any) -> Any:
        async def main() -> Any:
            given = {"transport": "memory", "latency": "zero", "devices": devices, **options}
            async with Node(**given) as node:
                result = await story(node)
            broken = [r for r in node.recorder.records if r["k"] == "invariant"]
            assert not broken, [(r["t"], r["invariant"], r["message"]) for r in broken]
            return result

        return run(main, seed=options.get("seed", 0))

    return tell


@pytest.fixture
def gpu_pod():
    """A manifest: one busybox container per keyword, a script or (script, devices)."""

    def make(
        name: str = "p",
        *,
        gpus: int = 1,
        resource: str = GPU,
        spec: Any = None,
        init: Any = (),
        **scripts: Any,
    ) -> dict[str, Any]:
        def container(title: str, given: Any) -> dict[str, Any]:
            script, number = given if isinstance(given, tuple) else (given, gpus)
            limits = {resource: str(number)} if number is not None else {}
            return {
                "name": title,
                "image": "docker.io/library/busybox:1.36",
                "command": ["sh", "-c", script],
                "resources": {"limits": limits},
            }

        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [container(*entry) for entry in (scripts or {"a": "sleep 3600"}).items()],
                **({"initContainers": [container(*entry) for entry in init]} if init else {}),
                **(spec or {}),
            },
        }

    return make
