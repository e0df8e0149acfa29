from collections.abc import Callable, Collection, Mapping

import pytest

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubelet_emu.cm.devicemanager.choosing import Choice, Preference, Request, choose
from kubelet_emu.cm.devicemanager.state import Device, DeviceState, Endpoint


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
