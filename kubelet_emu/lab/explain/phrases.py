"""Decisions, calls and exits in words (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubelet_emu.lab.explain.reading import PodReading
from kubelet_emu.trace.schema import Record

__all__ = ["call_text", "changes", "exit_text", "join", "plan_title", "seen_text", "short", "started_names"]

_CONDITIONS_SHOWN = ("Initialized", "Ready", "PodReadyToStartContainers", "AllContainersRestarting")


def join(names: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    listed = list(names)
    return ", ".join(listed[:-1]) + " and " + listed[-1] if len(listed) > 1 else "".join(listed)


def short(label: str) -> str:
    """A sandbox's label without its pod (``sandbox#0``); other labels as they are."""
    return label.rpartition("/")[2]


def seen_text(name: str, state: str) -> str:
    """What the kubelet found of one container: its entry in the inputs of a decision, in words."""
    what, _, code = state.replace(" ", ":").partition(":")
    if what == "exited":
        return f"{name} exited with {code}"
    return {"running": f"{name} runs", "created": f"{name} was created but not started"}.get(
        what, f"{name} is {what}"
    )


def started_names(pod: PodReading, outcome: Mapping[str, Any]) -> list[str]:
    """Names of the containers that a sync is to start, in order."""
    names: list[str] = []
    for key, listed in (
        ("init", "initContainers"),
        ("ephemeral", "ephemeralContainers"),
        ("regular", "containers"),
    ):
        containers: Sequence[Mapping[str, Any]] = pod.spec.get(listed) or ()
        for index in outcome.get(key, ()):
            if isinstance(index, int) and index < len(containers):
                names.append(containers[index]["name"])
            else:
                names.append(str(index))
    return names


def plan_title(
    pod: PodReading, record: Record, before: Mapping[str, str], again: frozenset[str], waits: Sequence[Record]
) -> str:
    """One line on what a sync is about. ``before`` is what it found, ``again`` who has run before."""
    outcome: Mapping[str, Any] = record["outcome"]
    rules = [str(rule) for rule in record["rules"]]
    if outcome.get("reset"):
        return _reset_title(outcome, before)
    waiting = {str(wait["inputs"]["container"]): wait for wait in waits if wait["outcome"].get("wait")}
    starts = started_names(pod, outcome)
    now = [name for name in starts if name not in waiting]
    if outcome.get("createSandbox"):
        first = not record["inputs"].get("sandboxes")
        what = "The pod gets a sandbox" if first else "The sandbox is lost and made again"
        return f"{what}, and {join(now)} may start." if now else f"{what}."
    if outcome.get("killPod"):
        return _kill_pod_title(rules, before)
    parts: list[str] = []
    killed = [str(name) for name in outcome.get("kill", ())]
    if killed:
        back = [name for name in killed if name in starts]
        parts.append(f"{join(killed)} {_is(killed)} killed" + (" and started again" if back else ""))
        now = [name for name in now if name not in killed]
    fresh = [name for name in now if name not in again]
    old = [name for name in now if name in again]
    if old:
        causes = [seen_text(name, before[name]) for name in old if name in before]
        parts.append((f"{join(causes)}: " if causes else "") + f"{join(old)} {_start(old)} again")
    if fresh:
        parts.append(f"{join(fresh)} {_start(fresh)}")
    for name, wait in waiting.items():
        delay = wait["outcome"].get("delaySeconds", 0)
        parts.append(f"{name} has to wait: back-off of {delay:g} s")
    if outcome.get("update") or outcome.get("podResources"):
        parts.append("resources are changed in place")
    return ("; ".join(parts) or "The kubelet looks at the pod") + "."


def _start(names: Sequence[str]) -> str:
    return "starts" if len(names) == 1 else "start"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _reset_title(outcome: Mapping[str, Any], before: Mapping[str, str]) -> str:
    entries = [str(entry) for entry in outcome["reset"]]
    source = entries[-1].rstrip("!")
    state = before.get(source, "")
    cause = seen_text(source, state) if state else f"{source} asks for it"
    return f"{cause}: the whole pod restarts in place."


def _kill_pod_title(rules: Sequence[str], before: Mapping[str, str]) -> str:
    if "RST-033" in rules:
        return "The sandbox is lost, and a pod of policy Never is not built up again."
    if any(rule.startswith("RST-053") for rule in rules):
        return "An init container failed for good: the pod ends."
    if before:
        return "No regular container is left to run: the pod ends."
    return "The pod is killed."


def call_text(record: Record) -> str:
    """A CRI call as something done; empty for calls that are not worth a line."""
    method: str = record["m"]
    failed = f", but: {record.get('details') or record['code']}" if record.get("code") else ""
    label = short(str(record.get("container") or record.get("sandbox") or ""))
    took = record.get("dt", 0.0)
    match method:
        case "RunPodSandbox":
            return f"made {label} ({took:.2f} s){failed}"
        case "StopPodSandbox":
            return f"stopped {label}{failed}"
        case "RemovePodSandbox":
            return f"removed {label}{failed}"
        case "CreateContainer" | "PullImage" if failed or method == "PullImage":
            what = f"pulled {record.get('image', '')}" if method == "PullImage" else f"created {label}"
            return f"{what} ({took:.2f} s){failed}"
        case "StartContainer":
            return f"started {label}{failed}"
        case "StopContainer":
            grace = record.get("timeout", "?")
            return f"stopped {label} (grace {grace} s, it took {took:.1f} s){failed}"
        case "RemoveContainer":
            return f"removed {label}{failed}"
        case "ExecSync" if "timeout" not in record:
            return f"ran the hook of {label} ({took:.1f} s, exit {record.get('exit', '?')}){failed}"
        case "UpdateContainerResources":
            return f"changed the resources of {label}{failed}"
        case _:
            return ""


def exit_text(record: Record, *, asked: bool) -> str:
    """The end of a process in words."""
    label: str = record["container"]
    code, number = record.get("code"), record.get("signal")
    if number:
        shown = code if code is not None else 128 + int(number)
        how = f"was ended by signal {number} (exit code {shown})"
    else:
        how = f"exits with {code}"
    reason = record.get("reason")
    more = f", {reason}" if reason and reason not in ("Error", "Completed") else ""
    return f"{label} {how}{more}{', as it was asked to' if asked else ''}."


def changes(before: Record | None, after: Record) -> list[str]:
    """What differs for someone who watches the pod's status."""
    found: list[str] = []
    if after.get("deleted"):
        return ["the object is gone"]
    old_phase = before["phase"] if before is not None else ""
    if after["phase"] != old_phase:
        found.append(f"phase {old_phase} → {after['phase']}" if old_phase else f"phase {after['phase']}")
    if after.get("reason") and (before is None or before.get("reason") != after["reason"]):
        found.append(f"reason {after['reason']}")
    for name in _CONDITIONS_SHOWN:
        new = (after["conditions"].get(name) or [""])[0]
        old = ((before["conditions"].get(name) if before is not None else None) or [""])[0]
        if new != old and (old or new == "True"):
            found.append(f"{name} {new or 'gone'}")
    for name, shown in after["containers"].items():
        was = before["containers"].get(name) if before is not None else None
        if was is None or _state(was) != _state(shown):
            found.append(f"{name} {_state(shown)}")
        if was is not None and shown.get("restartCount", 0) != was.get("restartCount", 0):
            found.append(f"{name} restartCount {shown['restartCount']}")
    return found


def _state(shown: Record) -> str:
    if shown["state"] == "terminated":
        return f"terminated with {shown.get('exitCode', 0)}"
    if shown["state"] == "waiting":
        return f"waiting ({shown['reason']})" if shown.get("reason") else "waiting"
    return "running" + ("" if shown.get("ready") else ", not ready")
