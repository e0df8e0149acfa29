"""Values of the store as CRI messages. Each value is frozen, so its list entry is built once and kept."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from cri_fake.profile import Profile
from cri_fake.signals import cri_signal
from cri_fake.store.containers import Container, WireState
from cri_fake.store.images import Image
from cri_fake.store.sandboxes import Sandbox
from k8s_proto import runtime_v1_pb2 as cri

__all__ = [
    "ListCache",
    "ReplyCache",
    "container_item",
    "container_status",
    "image_message",
    "sandbox_item",
    "sandbox_status",
]

_STATES = {
    WireState.CREATED: cri.CONTAINER_CREATED,
    WireState.RUNNING: cri.CONTAINER_RUNNING,
    WireState.EXITED: cri.CONTAINER_EXITED,
    WireState.UNKNOWN: cri.CONTAINER_UNKNOWN,
}

REPLIES_MAX = 256
"""Replies of one kind that are kept; further questions are answered anew each time."""


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


Value = TypeVar("Value", bound=_HasId)
Message = TypeVar("Message")


class ListCache(Generic[Value, Message]):
    """Messages by value: lists are asked for every second, values change rarely."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Value, Message]] = {}

    def get(self, value: Value) -> Message | None:
        kept = self._kept.get(value.id)
        return kept[1] if kept is not None and kept[0] is value else None

    def put(self, value: Value, message: Message) -> Message:
        self._kept[value.id] = (value, message)
        return message

    def keep_only(self, values: Sequence[Value]) -> None:
        """Forget what is not among the values, once more than those are kept."""
        if len(self._kept) > len(values):
            ids = {value.id for value in values}
            self._kept = {key: entry for key, entry in self._kept.items() if key in ids}


class ReplyCache(Generic[Message]):
    """Whole replies by what was asked, for as long as the stores they were made from do not change."""

    def __init__(self) -> None:
        self._made_of: tuple[object, ...] = ()
        self._kept: dict[bytes, Message] = {}

    def get(self, question: bytes, made_of: tuple[object, ...]) -> Message | None:
        """The reply to that question, if the values are still the very same objects."""
        if len(made_of) != len(self._made_of) or any(
            one is not other for one, other in zip(made_of, self._made_of, strict=True)
        ):
            self._made_of = made_of
            self._kept = {}
        return self._kept.get(question)

    def put(self, question: bytes, reply: Message) -> Message:
        """Keep the reply to a question that ``get`` has just been asked."""
        if len(self._kept) < REPLIES_MAX:
            self._kept[question] = reply
        return reply


def _sandbox_metadata(sandbox: Sandbox) -> cri.PodSandboxMetadata:
    return cri.PodSandboxMetadata(
        name=sandbox.name, uid=sandbox.uid, namespace=sandbox.namespace, attempt=sandbox.attempt
    )


def _sandbox_state(sandbox: Sandbox) -> cri.PodSandboxState.ValueType:
    return cri.SANDBOX_READY if sandbox.ready else cri.SANDBOX_NOTREADY


def sandbox_item(sandbox: Sandbox) -> cri.PodSandbox:
    """The entry of ListPodSandbox."""
    return cri.PodSandbox(
        id=sandbox.id,
        metadata=_sandbox_metadata(sandbox),
        state=_sandbox_state(sandbox),
        created_at=sandbox.created_at_ns,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )


def sandbox_status(sandbox: Sandbox) -> cri.PodSandboxStatus:
    """PodSandboxStatus. ``network`` is always there; its ip is empty once closed (CRI-028)."""
    options = cri.NamespaceOption()
    if sandbox.config.HasField("linux") and sandbox.config.linux.HasField("security_context"):
        options.CopyFrom(sandbox.config.linux.security_context.namespace_options)
    network = cri.PodSandboxNetworkStatus(
        ip=sandbox.ips[0] if sandbox.ips else "",
        additional_ips=[cri.PodIP(ip=ip) for ip in sandbox.ips[1:]],
    )
    return cri.PodSandboxStatus(
        id=sandbox.id,
        metadata=_sandbox_metadata(sandbox),
        state=_sandbox_state(sandbox),
        created_at=sandbox.created_at_ns,
        network=network,
        linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=options)),
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.runtime_handler,
    )


def container_metadata(container: Container) -> cri.ContainerMetadata:
    """Name and attempt."""
    return cri.ContainerMetadata(name=container.name, attempt=container.attempt)


def container_item(container: Container, profile: Profile) -> cri.Container:
    """The entry of ListContainers; image is the spec given at creation (CRI-060)."""
    item = cri.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=container_metadata(container),
        image=container.config.image,
        image_ref=container.image_id,
        state=_STATES[container.state],
        created_at=container.created_at_ns,
        labels=container.config.labels,
        annotations=container.config.annotations,
    )
    if profile.reports_image_id:
        item.image_id = container.image_id
    return item


def container_status(container: Container, image: Image | None, profile: Profile) -> cri.ContainerStatus:
    """ContainerStatus. ``image`` is the container's image if it is still present (CRI-208)."""
    state = container.state
    ran = state is not WireState.CREATED
    ended = state in (WireState.EXITED, WireState.UNKNOWN)
    if image is not None:
        spec = cri.ImageSpec(image=container.image_name)
        image_ref = container.image_ref
    else:
        spec = container.config.image
        image_ref = container.image_id
    status = cri.ContainerStatus(
        id=container.id,
        metadata=container_metadata(container),
        state=_STATES[state],
        created_at=container.created_at_ns,
        started_at=container.started_at_ns if ran else 0,
        finished_at=container.finished_at_ns if ended else 0,
        exit_code=container.exit_code if ended else 0,
        image=spec,
        image_ref=image_ref,
        image_id=container.image_id if profile.reports_image_id else "",
        reason=container.reason,
        message=container.message,
        labels=container.config.labels,
        annotations=container.config.annotations,
        mounts=container.config.mounts,
        log_path=container.log_path,
    )
    if container.resources is not None and profile.reports_resources:
        status.resources.linux.CopyFrom(container.resources)
    if profile.supplemental_groups_policy:
        status.user.linux.uid = container.uid
        status.user.linux.gid = container.gid
        status.user.linux.supplemental_groups.extend(container.groups)
    if profile.reports_stop_signal:
        status.stop_signal = cri.Signal.ValueType(cri_signal(container.stop_signal))
    return status


def image_message(image: Image) -> cri.Image:
    """An image; USER is split into a number or a name, with any group cut off (CRI-095)."""
    message = cri.Image(
        id=image.id,
        repo_tags=image.repo_tags,
        repo_digests=image.repo_digests,
        size=image.size_bytes,
        pinned=image.pinned,
    )
    user = image.config.user.partition(":")[0]
    if user.isdigit():
        message.uid.value = int(user)
    elif user:
        message.username = user
    else:
        message.uid.value = 0
    return message
