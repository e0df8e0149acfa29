"""What a pod kept over the restarts of its containers: UID, sandbox, IP, volumes, devices. (pure)"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from kubelet_emu.trace.schema import Record, Trace

__all__ = ["Kept", "KeptFact", "kept_over_restarts"]

_OWN_MOUNTS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log", "/dev/shm")


@frozen
class KeptFact:
    """One thing and all the values it had, in order. It was kept if there is one value."""

    name: str
    values: tuple[str, ...]
    about: str = ""

    @property
    def kept(self) -> bool:
        """Whether it had one value throughout."""
        return len(self.values) <= 1


@frozen
class Kept:
    """The facts of one pod and how often its containers were started again."""

    pod: str
    restarts: int
    whole: int
    """How many of the restarts were of the whole pod in place."""
    facts: tuple[KeptFact, ...]


@define
class _Seen:
    uids: dict[str, None] = field(factory=dict[str, None])
    addresses: dict[str, None] = field(factory=dict[str, None])
    sandboxes: dict[str, None] = field(factory=dict[str, None])
    mounts: dict[tuple[str, str], dict[str, None]] = field(factory=dict[tuple[str, str], dict[str, None]])
    instances: dict[str, int] = field(factory=dict[str, int])
    volumes: dict[tuple[str, str], str] = field(factory=dict[tuple[str, str], str])
    devices: dict[tuple[str, str], dict[str, None]] = field(factory=dict[tuple[str, str], dict[str, None]])
    whole: int = 0


def kept_over_restarts(trace: Trace, pod: str) -> Kept:
    """What is known of one pod of a trace. Volumes are judged by where they lie on the node."""
    seen = _Seen()
    several = len(trace.pods) > 1
    for record in trace.records:
        if record.get("pod", "" if several else pod) == pod:
            _take(seen, record)
    facts = [KeptFact("UID", tuple(seen.uids)), KeptFact("sandbox", tuple(seen.sandboxes))]
    if seen.addresses:
        facts.append(KeptFact("IP", tuple(seen.addresses)))
    facts += _volume_facts(seen)
    facts += [
        KeptFact("devices", tuple(values), f"{resource} of {container}")
        for (container, resource), values in seen.devices.items()
    ]
    restarts = sum(count - 1 for count in seen.instances.values())
    return Kept(pod, restarts, seen.whole, tuple(facts))


def _take(seen: _Seen, record: Record) -> None:
    kind = record["k"]
    if kind == "pod":
        if record.get("uid"):
            seen.uids[record["uid"]] = None
        for address in record.get("addresses", ())[:1]:
            seen.addresses[address] = None
        if "spec" in record:
            _learn_volumes(seen, record["spec"])
        _learn_devices(seen, record.get("containers") or {})
    elif kind == "cri" and not record.get("code"):
        if record["m"] == "RunPodSandbox":
            seen.sandboxes[record.get("id") or record.get("sandbox", "")] = None
        elif record["m"] == "CreateContainer":
            name: str = record["name"]
            seen.instances[name] = seen.instances.get(name, 0) + 1
            mounts: Mapping[str, str] = record.get("mounts", {})
            for inside, outside in mounts.items():
                if inside not in _OWN_MOUNTS:
                    seen.mounts.setdefault((name, inside), {})[outside] = None
    elif kind == "decision" and record.get("outcome", {}).get("reset"):
        seen.whole += 1


def _learn_devices(seen: _Seen, containers: Mapping[str, Mapping[str, Any]]) -> None:
    for name, shown in containers.items():
        for resource in shown.get("allocatedResourcesStatus") or ():
            ids = sorted(str(device.get("resourceID", "")) for device in resource.get("resources") or ())
            if ids:
                seen.devices.setdefault((name, str(resource.get("name", ""))), {})[" ".join(ids)] = None


def _learn_volumes(seen: _Seen, spec: Mapping[str, Any]) -> None:
    kinds: dict[str, str] = {}
    for volume in spec.get("volumes") or ():
        source = str(next((key for key in volume if key != "name"), "emptyDir"))
        kinds[volume["name"]] = f"{volume['name']} ({source})"
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            for mount in container.get("volumeMounts") or ():
                shown = kinds.get(str(mount["name"]), str(mount["name"]))
                seen.volumes[container["name"], mount["mountPath"]] = shown


def _volume_facts(seen: _Seen) -> Iterable[KeptFact]:
    """One fact a volume: where the containers that mount it see it, which may differ between containers."""
    places: dict[str, dict[tuple[str, str], dict[str, None]]] = {}
    for key, outside in seen.mounts.items():
        if key in seen.volumes:
            places.setdefault(seen.volumes[key], {})[key] = outside
    for volume, by_mount in places.items():
        moved = [outside for outside in by_mount.values() if len(outside) > 1]
        values = tuple(moved[0]) if moved else tuple(next(iter(by_mount.values())))
        yield KeptFact("volume", values, volume)
