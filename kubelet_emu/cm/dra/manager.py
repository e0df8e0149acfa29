"""The DRA manager: prepares claims before a pod's sandbox is made, and unprepares them after its end.

Mirrors ``pkg/kubelet/cm/dra/manager.go`` (DEV-152 to DEV-161). Claims live in the API; what drivers said of
them lives here and in a state file, so container restarts and restarts in place ask no driver again.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import trio
from attrs import evolve, frozen

from kubelet_emu.api.types import Container, Pod, ResourceHealth, ResourceStatus
from kubelet_emu.cm.dra import state_file
from kubelet_emu.cm.dra.claims import (
    Checked,
    ClaimCache,
    ClaimInfo,
    PodClaim,
    cdi_ids,
    check_claim,
    container_claims,
    pod_claims,
)
from kubelet_emu.cm.dra.health import HealthCache, Report
from kubelet_emu.cm.dra.plugins import ClaimRef, DraPlugin, DraPlugins, Outcome
from kubelet_emu.errors import PeerError
from kubelet_emu.pod_update import uid_of
from kubelet_emu.seams import Recorder
from kubelet_emu.timing import DEFAULT_BUCKETS, Timing
from kubelet_emu.why import Why
from node_host.clock import NodeClock
from node_host.files import Files
from trio_grpc import StatusError, Transport

__all__ = ["RECONCILE_SECONDS", "DraManager", "DraSeams"]

RECONCILE_SECONDS = 60.0

Call = Callable[[DraPlugin, Sequence[ClaimRef]], Awaitable[Mapping[str, Outcome]]]


@frozen(kw_only=True)
class DraSeams:
    """What the manager asks of the kubelet.

    ``get_claim(namespace, name)`` reads a ResourceClaim from the API, None if there is none; it may raise
    ``PeerError``. ``pods_changed`` queues syncs of pods by UID.
    """

    get_claim: Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
    sources_ready: Callable[[], bool]
    active_uids: Callable[[], Collection[str]]
    pods_changed: Callable[[Sequence[str]], object]


class DraManager:
    """Claims of one kubelet process. Implements ``DynamicResources`` of ``kubelet_emu.kuberuntime.seams``.

    Raises ``PeerError`` on construction for a state file that is corrupt, which stops a kubelet.
    """

    name = "dramanager"

    def __init__(
        self,
        *,
        root_dir: str,
        files: Files,
        transport: Transport,
        clock: NodeClock,
        nursery: trio.Nursery,
        recorder: Recorder,
        seams: DraSeams,
    ) -> None:
        self._root_dir = root_dir
        self._files = files
        self._clock = clock
        self._recorder = recorder
        self._seams = seams
        self.operation_seconds = Timing(DEFAULT_BUCKETS)
        """Durations by whether it failed, and operation."""
        self.cache = ClaimCache(self._load())
        self.health = self._load_health()
        self.plugins = DraPlugins(
            nursery=nursery,
            transport=transport,
            clock=clock,
            recorder=recorder,
            health=self._take_health,
            health_over=self._health_over,
        )

    async def run(self) -> None:
        """Unprepare, each minute, what pods that are gone have left behind (DEV-157), until cancelled."""
        while True:
            await self._clock.sleep(RECONCILE_SECONDS)
            if self._seams.sources_ready():
                await self.reconcile()

    async def reconcile(self) -> None:
        """One pass over the leftovers; what fails is tried again by the next."""
        active = set(self._seams.active_uids())
        for claim in self.cache.all():
            for uid in claim.pod_uids:
                if uid in active:
                    continue
                try:
                    await self._unprepare(uid, claim.namespace, [claim.name])
                except PeerError as error:
                    self._recorder.fact("note", about="dra", text=f"unprepare of a pod that is gone: {error}")

    # -- prepare (DEV-153) --

    async def prepare(self, pod: Pod) -> None:
        """Have every claim of the pod prepared, once. Raises ``PeerError``."""
        if not pod.spec.resource_claims and not pod.status.extended_resource_claim_status:
            return
        begun, failed = self._clock.elapsed_seconds(), True
        try:
            await self._prepare(pod)
            failed = False
        except PeerError as error:
            self._decide(pod.metadata.name, "DEV-153", {"error": str(error)})
            raise PeerError(f"prepare dynamic resources: {error}") from None
        finally:
            self._took("PrepareResources", begun, failed=failed)

    async def _prepare(self, pod: Pod) -> None:
        checked = [await self._check(pod, claim) for claim in pod_claims(pod)]
        infos = [self.cache.add(each, uid_of(pod)) for each in checked]
        self._store()
        wanted: dict[str, list[ClaimInfo]] = {}
        for info in infos:
            if not info.prepared:
                for driver in info.drivers:
                    wanted.setdefault(driver, []).append(info)
        for driver, claims in wanted.items():
            answers = await self._ask("NodePrepareResources", driver, claims, DraPlugin.prepare)
            for claim in claims:
                current = self.cache.get(claim.namespace, claim.name) or claim
                self.cache.put(current.with_devices(driver, answers[claim.uid].devices))
            self._store()
        for each in checked:
            current = self.cache.get(each.namespace, each.name)
            if current is not None:
                self.cache.put(evolve(current, prepared=True))
        self._store()
        asked = {driver: [claim.name for claim in claims] for driver, claims in wanted.items()}
        self._decide(pod.metadata.name, "DEV-152", {"asked": asked})

    async def _check(self, pod: Pod, claim: PodClaim) -> Checked:
        namespace = pod.metadata.namespace or "default"
        try:
            obj = await self._seams.get_claim(namespace, claim.claim_name)
        except PeerError as error:
            raise PeerError(f"fetch ResourceClaim {claim.claim_name}: {error}") from error
        checked = check_claim(pod, claim, obj)
        for driver in checked.drivers:
            self.plugins.get(driver)
        return checked

    async def _ask(
        self, method: str, driver: str, claims: Sequence[ClaimInfo], call: Call
    ) -> Mapping[str, Outcome]:
        """One call to one driver for all its claims; the answers, all of them good. Raises ``PeerError``."""
        plugin = self.plugins.get(driver)
        refs = [ClaimRef(claim.namespace, claim.uid, claim.name) for claim in claims]
        names = {claim.uid: claim.name for claim in claims}
        self._recorder.fact("device", method=method, resource=driver, ids=[[ref.name for ref in refs]])
        try:
            answers = await call(plugin, refs)
        except StatusError as error:
            raise PeerError(f"{method}: {error}") from error
        for uid, answer in answers.items():
            if uid not in names:
                raise PeerError(f"{method} returned result for unknown claim UID {uid}")
            if answer.error:
                raise PeerError(f"{method} failed for ResourceClaim {names[uid]}: {answer.error}")
        missing = len(names) - len(answers)
        if missing:
            raise PeerError(f"{method} skipped {missing} ResourceClaims")
        return answers

    # -- unprepare (DEV-156) --

    async def unprepare(self, pod: Pod) -> None:
        """Give back the claims of a pod whose containers have stopped. Raises ``PeerError``."""
        if not pod.spec.resource_claims and not pod.status.extended_resource_claim_status:
            return
        try:
            names = [claim.claim_name for claim in pod_claims(pod)]
        except PeerError:
            return  # a claim that was never made was never prepared
        begun, failed = self._clock.elapsed_seconds(), True
        try:
            await self._unprepare(uid_of(pod), pod.metadata.namespace or "default", names)
            failed = False
        finally:
            self._took("UnprepareResources", begun, failed=failed)

    def _took(self, operation: str, begun_seconds: float, *, failed: bool) -> None:
        seconds = self._clock.elapsed_seconds() - begun_seconds
        self.operation_seconds.observe(seconds, "true" if failed else "false", operation)

    async def _unprepare(self, pod_uid: str, namespace: str, names: Sequence[str]) -> None:
        wanted: dict[str, list[ClaimInfo]] = {}
        last: list[ClaimInfo] = []
        for name in names:
            info = self.cache.get(namespace, name)
            if info is None:
                continue
            if len(info.pod_uids) > 1:
                self.cache.put(info.without_pod(pod_uid))
                self._store()
                continue
            # With one reference left nobody asks whose it is (DEV-157).
            last.append(info)
            for driver in info.drivers:
                wanted.setdefault(driver, []).append(info)
        try:
            for driver, claims in wanted.items():
                await self._ask("NodeUnprepareResources", driver, claims, DraPlugin.unprepare)
        except PeerError as error:
            raise PeerError(f"unprepare dynamic resources: {error}") from None
        for info in last:
            self.cache.remove(info.namespace, info.name)
        if last:
            self._store()

    # -- containers (DEV-155) --

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """CDI names for a container that is about to start. Raises ``PeerError``."""
        found: list[str] = []
        for claim, request in container_claims(pod, container):
            found += cdi_ids(self._info(pod, claim), request)
        return tuple(found)

    def claims_of(self, pod: Pod, container: Container) -> tuple[ClaimInfo, ...]:
        """The claims that a container uses, as far as they are known."""
        namespace = pod.metadata.namespace or "default"
        try:
            used = dict.fromkeys(claim for claim, _ in container_claims(pod, container))
        except PeerError:
            return ()
        infos = (self.cache.get(namespace, claim.claim_name) for claim in used)
        return tuple(info for info in infos if info is not None)

    def in_use(self) -> Mapping[str, int]:
        """Claims in the cache by driver."""
        found: dict[str, int] = {}
        for claim in self.cache.all():
            for driver in claim.drivers:
                found[driver] = found.get(driver, 0) + 1
        return found

    def _info(self, pod: Pod, claim: PodClaim) -> ClaimInfo:
        namespace = pod.metadata.namespace or "default"
        info = self.cache.get(namespace, claim.claim_name)
        if info is None:
            raise PeerError(
                f"internal error: unable to get claim info for ResourceClaim {claim.claim_name} "
                f"in namespace {namespace}"
            )
        return info

    # -- health (DEV-124, DEV-158) --

    def device_health(self, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
        """``allocatedResourcesStatus`` of the pod's regular containers, claims only."""
        found: dict[str, list[ResourceStatus]] = {}
        for container in pod.spec.containers:
            try:
                used = container_claims(pod, container)
            except PeerError:
                continue
            for claim, request in used:
                info = self.cache.get(pod.metadata.namespace or "default", claim.claim_name)
                if info is not None and claim.name:
                    name = f"claim:{claim.name}/{request}" if request else f"claim:{claim.name}"
                    status = ResourceStatus(name=name, resources=self._resources(info, request))
                    found.setdefault(container.name, []).append(status)
        return found

    def _resources(self, info: ClaimInfo, request: str) -> tuple[ResourceHealth, ...]:
        now = self._clock.elapsed_seconds()
        found: list[ResourceHealth] = []
        for driver in sorted(info.drivers):
            for device in info.drivers[driver]:
                if device.serves(request):
                    health = self.health.get(driver, device.pool, device.device, now)
                    shown = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
                    found.append(
                        ResourceHealth(
                            resource_id=shown, health=health.health, message=health.message or None
                        )
                    )
        return tuple(found)

    def _take_health(self, driver: str, reports: Sequence[Report]) -> None:
        changed = set(self.health.take(driver, reports, self._clock.elapsed_seconds()))
        uids = [
            uid
            for claim in self.cache.all()
            if any((device.pool, device.device) in changed for device in claim.drivers.get(driver, ()))
            for uid in claim.pod_uids
        ]
        self._store_health()
        if uids:
            self._seams.pods_changed(list(dict.fromkeys(uids)))

    def _health_over(self, driver: str) -> None:
        """The end of a stream clears what it said, and queues no pod."""
        self.health.clear(driver)

    # -- files --

    def _load(self) -> tuple[ClaimInfo, ...]:
        try:
            content = self._files.read(f"{self._root_dir}/{state_file.STATE_FILE}")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise PeerError(f"failed to read checkpoint file {state_file.STATE_FILE}: {error}") from error
        return state_file.decode(content)

    def _load_health(self) -> HealthCache:
        try:
            content = self._files.read(f"{self._root_dir}/{state_file.HEALTH_FILE}")
        except OSError:
            return HealthCache()
        return state_file.decode_health(content, epoch_ns=self._epoch_ns())

    def _epoch_ns(self) -> int:
        return self._clock.now_ns() - round(self._clock.elapsed_seconds() * 1e9)

    def _store(self) -> None:
        self._write(state_file.STATE_FILE, state_file.encode(self.cache.all()))

    def _store_health(self) -> None:
        try:
            content = state_file.encode_health(self.health, epoch_ns=self._epoch_ns())
            self._write(state_file.HEALTH_FILE, content)
        except PeerError as error:
            self._recorder.fact("note", about="dra", text=str(error))

    def _write(self, name: str, content: bytes) -> None:
        path, temporary = f"{self._root_dir}/{name}", f"{self._root_dir}/.{name}"
        try:
            self._files.make_dirs(self._root_dir)
            self._files.write(temporary, content, mode=0o600)
            self._files.rename(temporary, path)
        except OSError as error:
            raise PeerError(f"failed to write checkpoint file {name}: {error}") from error

    def _decide(self, pod: str, rule: str, outcome: Mapping[str, object]) -> None:
        self._recorder.decision(self.name, pod, (Why(rule),), inputs={}, outcome=outcome)
