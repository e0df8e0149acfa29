"""Making sure that a container's image is there: asks the runtime, pulls, holds back, tells (IMG-05 to
IMG-28).

Mirrors ``EnsureImageExists`` of ``pkg/kubelet/images/image_manager.go`` and ``puller.go``. What is decided
lies in ``images``; this module makes the calls in the real order.
"""

from collections.abc import Sequence

import trio
from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Pod
from kubelet_emu.container.runtime import StartError
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import images
from kubelet_emu.kuberuntime.backoff import BackOffTable, image_pull_limits
from kubelet_emu.kuberuntime.calls import CriCalls, image_spec
from kubelet_emu.kuberuntime.gotext import go_quote
from kubelet_emu.kuberuntime.images import ImageError, Verification
from kubelet_emu.kuberuntime.pull_records import PullRecords
from kubelet_emu.kuberuntime.seams import PullCredential, PullCredentials
from kubelet_emu.seams import EventRecorder, EventType, Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import Code, StatusError

__all__ = ["ImageManager", "ImageRequest"]

_SECOND_NS = 1_000_000_000
_PREVIOUS_MAX = 4096
_QPS_EXCEEDED = "pull QPS exceeded"


@frozen(kw_only=True)
class ImageRequest:
    """One image to be ensured: for a container (``field_path`` set) or for an image volume of the pod."""

    pod: Pod
    image: str
    policy: str
    field_path: str
    handler: str
    sandbox_config: cri.PodSandboxConfig


class _PullFailed(Exception):
    """Raised inside a pull; the text is what events show."""


class _TokenBucket:
    """Pulls per second with a burst; never waits (IMG-19)."""

    def __init__(self, qps: int, burst: int) -> None:
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._last_seconds = 0.0

    def take(self, now_seconds: float) -> bool:
        if self._qps <= 0:
            return True
        grown = self._tokens + (now_seconds - self._last_seconds) * self._qps
        self._tokens = min(float(self._burst), grown)
        self._last_seconds = now_seconds
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class ImageManager:
    """The image manager of one node."""

    def __init__(
        self,
        calls: CriCalls,
        *,
        clock: NodeClock,
        files: Files,
        events: EventRecorder,
        recorder: Recorder,
        settings: KubeletSettings,
        credentials: PullCredentials,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._events = events
        self._recorder = recorder
        self._credentials = credentials
        self._ensure_secret = settings.gates.enabled("KubeletEnsureSecretPulledImages")
        self._bucket = _TokenBucket(settings.registry_qps, settings.registry_burst)
        self._queue = _pull_queue(settings)
        self._previous: dict[str, str] = {}
        self.records = PullRecords(files, settings.root_dir, clock)
        self._verification = Verification(
            policy=settings.image_pull_credentials_policy, allowlist=settings.preloaded_images_allowlist
        )
        self.backoff = BackOffTable(image_pull_limits())

    async def ensure(self, request: ImageRequest) -> str:
        """The id of the image, pulled if need be. Raises ``StartError`` with waiting reason and message."""
        sent = images.apply_default_tag(request.image)
        if sent is None:
            text = images.invalid_name_text(request.image)
            self._say(request, "Warning", "InspectFailed", text)
            raise StartError(images.INVALID_IMAGE_NAME, text)
        spec = image_spec(sent, request.pod.metadata.annotations, request.handler)
        await self._settle_what_was_left()
        present: cri.Image | None = None
        if request.policy != images.ALWAYS:
            present = await self._inspect(request, spec)
        credentials = await self._matching(request)
        usable = present is not None and images.may_use_present(
            request.image,
            self.records.get(present.id),
            credentials,
            ensure_secret=self._ensure_secret,
            verification=self._verification,
            pulling=self.records.pulling(request.image),
        )
        step = images.step_after_presence(
            request.image, request.policy, present=present is not None, usable=usable
        )
        if isinstance(step, ImageError):
            self._say(request, "Warning", images.ERR_IMAGE_NEVER_PULL, step.message)
            raise self._failed(request, step)
        if step and present is not None:
            text = images.present_text(request.image, credentials_checked=self._ensure_secret)
            self._say(request, "Normal", "Pulled", text)
            return present.id
        return await self._recorded_pull(request, spec, credentials)

    async def _settle_what_was_left(self) -> None:
        """Pulls that a crash broke off: what they may have brought is for nobody yet (IMG-28)."""
        for image in self.records.left:
            sent = images.apply_default_tag(image)
            try:
                found = await self._calls.image_status(image_spec(sent, {}, "")) if sent else None
                reference = found.id if found is not None else ""
                self.records.recover(image, reference, images.repository_of(image))
            except (StatusError, PeerError, OSError) as error:
                self._recorder.fact("note", about="images", text=f"pull of {image} left open: {error}")
                return

    async def _recorded_pull(
        self, request: ImageRequest, spec: cri.ImageSpec, credentials: Sequence[PullCredential]
    ) -> str:
        """A pull with its intent before and its record behind it; a disk that refuses is told in Go's way as
        reason and message (IMG-11, IMG-28).
        """
        try:
            self.records.begin(request.image)
        except OSError as error:
            raise StartError(str(error), str(error)) from error
        done = False
        try:
            reference, credential = await self._pull(request, spec, credentials)
            self.records.succeeded(request.image, reference, credential)
            done = True
        except OSError as error:
            self._recorder.fact("note", about="images", text=f"pull record not written: {error}")
            raise StartError(str(error), str(error)) from error
        finally:
            if not done:
                self.records.failed(request.image)
        return reference

    async def _inspect(self, request: ImageRequest, spec: cri.ImageSpec) -> cri.Image | None:
        try:
            return await self._calls.image_status(spec)
        except (StatusError, PeerError) as error:
            text = images.inspect_text(str(error))
            self._say(request, "Warning", "InspectFailed", text)
            raise StartError(images.IMAGE_INSPECT_ERROR, text) from error

    async def _matching(self, request: ImageRequest) -> Sequence[PullCredential]:
        try:
            return await self._credentials.lookup(request.pod, request.image)
        except PeerError as error:
            raise StartError(str(error), str(error)) from error

    async def _pull(
        self, request: ImageRequest, spec: cri.ImageSpec, credentials: Sequence[PullCredential]
    ) -> tuple[str, PullCredential | None]:
        key = f"{request.pod.metadata.uid}_{request.image}"
        if self.backoff.waiting(key, self._clock.now_ns()):
            self._say(request, "Normal", "BackOff", f"Back-off pulling image {go_quote(request.image)}")
            raise self._failed(request, images.back_off_error(request.image, self._previous.get(key, "")))
        self._previous.pop(key, None)
        self._say(request, "Normal", "Pulling", f"Pulling image {go_quote(request.image)}")
        asked = self._clock.elapsed_seconds()
        try:
            async with self._queue:
                granted = self._clock.elapsed_seconds()
                image_ref, credential = await self._attempts(request, spec, credentials)
                size = await self._size(spec)
                finished = self._clock.elapsed_seconds()
        except _PullFailed as error:
            raise self._pull_failed(request, key, str(error)) from error
        text = images.pulled_text(
            request.image,
            round((finished - granted) * _SECOND_NS),
            round((finished - asked) * _SECOND_NS),
            size,
        )
        self._say(request, "Normal", "Pulled", text)
        self.backoff.collect(self._clock.now_ns())
        return image_ref, credential

    def _pull_failed(self, request: ImageRequest, key: str, text: str) -> StartError:
        self._say(request, "Warning", "Failed", f"Failed to pull image {go_quote(request.image)}: {text}")
        entry = self.backoff.failed(key, self._clock.now_ns())
        failure = images.image_error_of_pull(request.image, text)
        self._previous[key] = f"{failure.reason}: {failure.message}"
        while len(self._previous) > _PREVIOUS_MAX:
            del self._previous[next(iter(self._previous))]
        self._recorder.fact(
            "backoff", pod=request.pod.metadata.name, image=request.image, delayNs=entry.delay_ns
        )
        return self._failed(request, failure)

    async def _attempts(
        self, request: ImageRequest, spec: cri.ImageSpec, credentials: Sequence[PullCredential]
    ) -> tuple[str, PullCredential | None]:
        """Try each credential in turn, or anonymously without any; the first success wins (IMG-24)."""
        if not self._bucket.take(self._clock.elapsed_seconds()):
            raise _PullFailed(_QPS_EXCEEDED)
        failures: dict[str, None] = {}
        for credential in credentials or (None,):
            try:
                reference = await self._calls.pull_image(spec, credential, request.sandbox_config)
            except StatusError as error:
                failures[error.details if error.code is Code.UNKNOWN else str(error)] = None
            except PeerError as error:
                failures[str(error)] = None
            else:
                return reference, credential
        texts = list(failures)
        raise _PullFailed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")

    async def _size(self, spec: cri.ImageSpec) -> int:
        """Size for the event, best effort (IMG-07)."""
        try:
            image = await self._calls.image_status(spec)
        except (StatusError, PeerError):
            return 0
        return image.size if image is not None else 0

    def _failed(self, request: ImageRequest, failure: ImageError) -> StartError:
        self._recorder.decision(
            "kuberuntime.images",
            request.pod.metadata.name,
            failure.why,
            inputs={"image": request.image, "policy": request.policy},
            outcome={"reason": failure.reason},
        )
        return StartError(failure.reason, failure.message)

    def _say(self, request: ImageRequest, event_type: EventType, reason: str, text: str) -> None:
        self._events.event(request.pod, event_type, reason, text, field_path=request.field_path)


def _pull_queue(settings: KubeletSettings) -> trio.Lock | trio.CapacityLimiter:
    """One pull at a time, first come first served; or as many as are allowed (IMG-20, IMG-21)."""
    if settings.serialize_image_pulls and settings.max_parallel_image_pulls < 2:
        return trio.Lock()
    parallel = settings.max_parallel_image_pulls
    return trio.CapacityLimiter(parallel if parallel >= 1 else _PREVIOUS_MAX)
