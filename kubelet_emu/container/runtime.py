"""Values read from the runtime: sandboxes, containers, pods (mirrors ``pkg/kubelet/container/runtime.go``).

All are plain and frozen. Times are unix nanoseconds, 0 where the runtime gave none. Lists of containers and
sandboxes are newest first, so that the first hit by name is the latest instance (POD-918).
"""

from collections.abc import Mapping
from enum import StrEnum

from attrs import field, frozen

from kubelet_emu.errors import PeerError

__all__ = [
    "ContainerState",
    "RunningContainer",
    "RunningPod",
    "RuntimeContainer",
    "RuntimeMount",
    "RuntimePodStatus",
    "RuntimeSandbox",
    "SandboxState",
    "StartError",
    "SyncAction",
    "SyncPodResult",
    "SyncResult",
]


class ContainerState(StrEnum):
    """State of an instance as CRI reports it."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class SandboxState(StrEnum):
    """State of a sandbox as CRI reports it."""

    READY = "ready"
    NOT_READY = "notready"


@frozen
class RuntimeMount:
    """A mount of an instance as ContainerStatus lists it."""

    container_path: str
    host_path: str
    readonly: bool = False


@frozen
class RuntimeContainer:
    """One instance (ContainerStatus and its annotations). ``restart_count`` is the annotation's (RST-187)."""

    id: str
    name: str
    state: ContainerState
    created_at_ns: int = 0
    started_at_ns: int = 0
    finished_at_ns: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    restart_count: int = 0
    hash: int = 0
    image: str = ""
    image_id: str = ""
    image_ref: str = ""
    sandbox_id: str = ""
    log_path: str = ""
    mounts: tuple[RuntimeMount, ...] = ()
    annotations: Mapping[str, str] = field(factory=dict[str, str], eq=False)
    resources: Mapping[str, int] | None = None
    """CPU shares, quota, period, memory limit … as the runtime reports them; None if it does not."""
    user: Mapping[str, object] | None = None
    stop_signal: str = ""


@frozen
class RuntimeSandbox:
    """One sandbox (PodSandboxStatus). ``ip`` is None if the reply had no network part at all (RST-030)."""

    id: str
    state: SandboxState
    attempt: int = 0
    created_at_ns: int = 0
    host_network: bool = False
    ip: str | None = None
    additional_ips: tuple[str, ...] = ()


@frozen
class RuntimePodStatus:
    """Everything the runtime knows of one pod (POD-917). An unknown pod has no sandboxes and no
    containers.
    """

    uid: str
    name: str = ""
    namespace: str = ""
    ips: tuple[str, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
    sandboxes: tuple[RuntimeSandbox, ...] = ()
    observed_at_seconds: float = 0.0
    """Node-clock seconds taken before the runtime was asked."""

    def latest(self, name: str) -> RuntimeContainer | None:
        """The newest instance of that container name, or None (POD-918)."""
        return next((container for container in self.containers if container.name == name), None)

    def instances(self, name: str) -> tuple[RuntimeContainer, ...]:
        """All instances of that name, newest first."""
        return tuple(container for container in self.containers if container.name == name)

    @property
    def active(self) -> tuple[RuntimeContainer, ...]:
        """Instances of the newest sandbox if that one is READY, else none (POD-917, STA-201)."""
        if not self.sandboxes or self.sandboxes[0].state is not SandboxState.READY:
            return ()
        return tuple(c for c in self.containers if c.sandbox_id == self.sandboxes[0].id)


@frozen
class RunningContainer:
    """A container as a list of the runtime shows it: enough to kill it or to see it change."""

    id: str
    name: str
    state: ContainerState
    sandbox_id: str = ""
    created_at_ns: int = 0
    image: str = ""
    hash: int = 0


@frozen
class RunningPod:
    """A pod as the runtime's lists show it (mirrors kubecontainer.Pod). ``sandboxes`` are newest first."""

    uid: str
    name: str
    namespace: str
    containers: tuple[RunningContainer, ...] = ()
    sandboxes: tuple[RunningContainer, ...] = ()
    """Sandboxes in the guise of containers: READY is running, NOTREADY is exited (POD-905)."""
    created_at_ns: int = 0


class SyncAction(StrEnum):
    """Names of the actions of a sync as error texts show them (POD-609)."""

    START_CONTAINER = "StartContainer"
    KILL_CONTAINER = "KillContainer"
    INIT_CONTAINER = "InitContainer"
    CREATE_POD_SANDBOX = "CreatePodSandbox"
    CONFIG_POD_SANDBOX = "ConfigPodSandbox"
    KILL_POD_SANDBOX = "KillPodSandbox"
    REMOVE_CONTAINER = "RemoveContainer"
    RESIZE_POD_IN_PLACE = "ResizePodInPlace"


class StartError(PeerError):
    """Raised when an action of a sync failed; ``name`` becomes the waiting reason (POD-610).

    ``backoff_until_seconds`` is the node-clock time at which a back-off ends, None for other failures.
    """

    def __init__(self, name: str, message: str, *, backoff_until_seconds: float | None = None) -> None:
        self.name = name
        self.message = message
        self.backoff_until_seconds = backoff_until_seconds
        super().__init__(f"{name}: {message}")


@frozen
class SyncResult:
    """Outcome of one action of a sync; ``error`` is empty on success (POD-609)."""

    action: SyncAction
    target: str
    error: str = ""
    message: str = ""
    backoff_until_seconds: float | None = None

    def __str__(self) -> str:
        return f'failed to "{self.action}" for "{self.target}" with {self.error}: "{self.message}"'


@frozen
class SyncPodResult:
    """All outcomes of one runtime sync of a pod, in the order they happened.

    ``sync_error`` is an error of the sync itself that belongs to no action.
    """

    results: tuple[SyncResult, ...] = ()
    sync_error: str = ""

    @property
    def failed(self) -> tuple[SyncResult, ...]:
        return tuple(result for result in self.results if result.error)

    @property
    def error(self) -> str:
        """The aggregate error text, empty on success (POD-609)."""
        texts = [str(result) for result in self.failed]
        if self.sync_error:
            texts.append(f"failed to SyncPod: {self.sync_error}")
        if len(texts) > 1:
            return "[" + ", ".join(dict.fromkeys(texts)) + "]"
        return "".join(texts)
