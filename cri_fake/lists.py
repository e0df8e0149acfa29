"""The read side of the runtime service: lists, statuses and stats, from the store's values to messages."""

from collections.abc import Mapping, Sequence

from cri_fake.containers import ContainerOps
from cri_fake.events import PodEvent
from cri_fake.info import container_info, sandbox_info
from cri_fake.messages import (
    ListCache,
    ReplyCache,
    container_item,
    container_status,
    sandbox_item,
    sandbox_status,
)
from cri_fake.metrics import container_stats, pod_metrics, pod_stats
from cri_fake.sandboxes import SandboxOps
from cri_fake.selecting import full_id, labels_match
from cri_fake.store.containers import Container, WireState
from cri_fake.store.faults import Kind, Refused, not_found
from cri_fake.store.sandboxes import Sandbox
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["Reader"]

_WIRE = {
    cri.CONTAINER_CREATED: WireState.CREATED,
    cri.CONTAINER_RUNNING: WireState.RUNNING,
    cri.CONTAINER_EXITED: WireState.EXITED,
    cri.CONTAINER_UNKNOWN: WireState.UNKNOWN,
}


class Reader:
    """Answers everything that changes nothing. Never waits (CRI-004)."""

    def __init__(self, world: World, sandboxes: SandboxOps, containers: ContainerOps) -> None:
        self._world = world
        self._sandbox_ops = sandboxes
        self._container_ops = containers
        self._sandbox_items: ListCache[Sandbox, cri.PodSandbox] = ListCache()
        self._container_items: ListCache[Container, cri.Container] = ListCache()
        self._sandbox_lists: ReplyCache[cri.ListPodSandboxResponse] = ReplyCache()
        self._container_lists: ReplyCache[cri.ListContainersResponse] = ReplyCache()

    def sandbox_list(self, wanted: cri.PodSandboxFilter) -> cri.ListPodSandboxResponse:
        """The reply with the entries that match. It may be given again: it is not to be changed."""
        question = wanted.SerializeToString(deterministic=True)
        kept = self._sandbox_lists.get(question, (self._world.sandboxes.values,))
        if kept is not None:
            return kept
        reply = cri.ListPodSandboxResponse(items=self.sandboxes(wanted))
        return self._sandbox_lists.put(question, reply)

    def container_list(self, wanted: cri.ContainerFilter) -> cri.ListContainersResponse:
        """The reply with the entries that match. It may be given again: it is not to be changed."""
        question = wanted.SerializeToString(deterministic=True)
        made_of = (self._world.containers.values, self._world.sandboxes.values)
        kept = self._container_lists.get(question, made_of)
        if kept is not None:
            return kept
        reply = cri.ListContainersResponse(containers=self.containers(wanted))
        return self._container_lists.put(question, reply)

    def sandboxes(self, wanted: cri.PodSandboxFilter) -> list[cri.PodSandbox]:
        """Entries that match, in order of creation."""
        values = self._world.sandboxes.values
        exact = full_id(wanted.id, values)
        if exact is None:
            return []
        ready = wanted.state.state == cri.SANDBOX_READY if wanted.HasField("state") else None
        self._sandbox_items.keep_only(values)
        return [
            self._sandbox_items.get(value) or self._sandbox_items.put(value, sandbox_item(value))
            for value in values
            if (not exact or value.id == exact)
            and (ready is None or value.ready is ready)
            and labels_match(value.config.labels, wanted.label_selector)
        ]

    def containers(self, wanted: cri.ContainerFilter) -> list[cri.Container]:
        """Entries that match, in order of creation."""
        values = self._world.containers.values
        exact = full_id(wanted.id, values)
        sandbox_id = full_id(wanted.pod_sandbox_id, self._world.sandboxes.values)
        if exact is None or sandbox_id is None:
            return []
        state = _WIRE.get(wanted.state.state) if wanted.HasField("state") else None
        self._container_items.keep_only(values)
        return [
            self._container_items.get(value)
            or self._container_items.put(value, container_item(value, self._world.profile))
            for value in values
            if (not exact or value.id == exact)
            and (not sandbox_id or value.sandbox_id == sandbox_id)
            and (state is None or value.state is state)
            and labels_match(value.config.labels, wanted.label_selector)
        ]

    def sandbox_status(self, prefix: str, *, verbose: bool) -> cri.PodSandboxStatusResponse:
        """Raises Refused (NotFound)."""
        sandbox = self._sandbox_ops.find(prefix)
        info = sandbox_info(sandbox) if verbose else {}
        reply = cri.PodSandboxStatusResponse(status=sandbox_status(sandbox), info=info)
        if self._world.profile.times_pod_status:
            reply.timestamp = self._world.clock.now_ns()
            reply.containers_statuses.extend(map(self._status, self._world.containers_of(sandbox.id)))
        return reply

    def container_status(self, prefix: str, *, verbose: bool) -> cri.ContainerStatusResponse:
        """Raises Refused (NotFound)."""
        container = self._container_ops.find(prefix)
        info: dict[str, str] = {}
        if verbose:
            info = container_info(container, self._world.sandboxes.get(container.sandbox_id))
        return cri.ContainerStatusResponse(status=self._status(container), info=info)

    def _status(self, container: Container) -> cri.ContainerStatus:
        return container_status(container, self._container_ops.image_of(container), self._world.profile)

    def event(self, event: PodEvent) -> cri.ContainerEventResponse:
        """An event with its snapshot (CRI-141)."""
        message = cri.ContainerEventResponse(
            container_id=event.object_id,
            container_event_type=cri.ContainerEventType.ValueType(int(event.type)),
            created_at=event.created_at_ns,
            containers_statuses=[self._status(container) for container in event.containers],
        )
        if event.sandbox is not None:
            message.pod_sandbox_status.CopyFrom(sandbox_status(event.sandbox))
        return message

    def one_container_stats(self, prefix: str) -> cri.ContainerStats:
        """Raises Refused: NotFound, or the container is not running (CRI-131)."""
        container = self._world.containers.find(prefix)
        if container is None:
            raise not_found("failed to find container")
        if container.state is not WireState.RUNNING:
            text = f'failed to fetch metrics for task: container "{container.id}" is not running'
            raise Refused(Kind.UNKNOWN, text, rule="CRI-131")
        return container_stats(self._world, container)

    def container_stats(self, wanted: cri.ContainerStatsFilter) -> list[cri.ContainerStats]:
        """Stats of running containers that match (CRI-085, CRI-131)."""
        values = self._world.containers.values
        exact = full_id(wanted.id, values)
        sandbox_id = full_id(wanted.pod_sandbox_id, self._world.sandboxes.values)
        if exact is None or sandbox_id is None:
            return []
        return [
            container_stats(self._world, value)
            for value in values
            if value.state is WireState.RUNNING
            and (not exact or value.id == exact)
            and (not sandbox_id or value.sandbox_id == sandbox_id)
            and labels_match(value.config.labels, wanted.label_selector)
        ]

    def one_pod_stats(self, prefix: str) -> cri.PodSandboxStats:
        """Raises Refused: NotFound, or the sandbox is not READY."""
        sandbox = self._world.sandboxes.find(prefix)
        if sandbox is None:
            raise self._world.unknown(f"an error occurred when trying to find sandbox {prefix}")
        if not sandbox.ready:
            text = f'failed to get metrics: sandbox container "{sandbox.id}" is not running'
            raise Refused(Kind.UNKNOWN, text, rule="CRI-132")
        return pod_stats(self._world, sandbox)

    def pod_stats(self, wanted: cri.PodSandboxStatsFilter) -> list[cri.PodSandboxStats]:
        """Stats of READY sandboxes that match (CRI-132, CRI-211)."""
        return [pod_stats(self._world, each) for each in self._ready(wanted.id, wanted.label_selector)]

    def pod_metrics(self) -> list[cri.PodSandboxMetrics]:
        """Metrics of all READY sandboxes (CRI-134)."""
        return [pod_metrics(self._world, sandbox) for sandbox in self._ready("", {})]

    def _ready(self, prefix: str, selector: Mapping[str, str]) -> Sequence[Sandbox]:
        values = self._world.sandboxes.values
        exact = full_id(prefix, values)
        if exact is None:
            return ()
        return [
            value
            for value in values
            if value.ready
            and (not exact or value.id == exact)
            and labels_match(value.config.labels, selector)
        ]
