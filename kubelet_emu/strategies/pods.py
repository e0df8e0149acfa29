"""Generators of valid Pods, as manifests: JSON form, only what was chosen, short names.

Regular containers are called a, b …, init containers i, j …, sidecars s, t …; the pod is p. What a manifest
does not say it leaves to the API's defaults, so that a shrunk one is a few lines.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from kubelet_emu.strategies.draws import Draw, chance, one_of, weighted
from kubelet_emu.strategies.focus import Focus, focus_named
from kubelet_emu.strategies.scripts import TRIGGER, UP_FILE, VOLUME, init_scripts, probe_commands, scripts

__all__ = ["CONTAINERS_MAX", "IMAGE", "RESOURCE", "containers", "pods"]

IMAGE = "busybox:1.36"
RESOURCE = "example.com/resource"
"""The device resource that generated containers ask for: that of the preset ``sample``."""
CONTAINERS_MAX = 3
"""Most containers of a generated pod, all kinds together."""
CONFIG = "settings"
"""The ConfigMap that generated containers may refer to; whether it is there is chosen too."""

_POLICIES = one_of(("Always", "OnFailure", "Never"))
_OTHER_POLICIES = one_of(("Never", "OnFailure", "Always"))
_GRACES = one_of((1, 2, 5, 10, 0))
_PERIODS = one_of((1, 2, 5))
_THRESHOLDS = one_of((1, 3, 2))
_DELAYS = weighted({0: 5, 2: 2, 5: 1})
_HANDLERS = weighted({"exec": 12, "tcpSocket": 1, "httpGet": 1})
_HOOKS = one_of((["sleep", "1"], ["sleep", "4"], ["false"], ["true"]))
_RULE_CODES = weighted({"In": 5, "NotIn": 1})


@cache
def _probes(kind: str) -> "st.SearchStrategy[dict[str, Any]]":
    @st.composite
    def probe(draw: Draw) -> dict[str, Any]:
        handler = draw(_HANDLERS)
        made: dict[str, Any] = (
            {"exec": {"command": draw(probe_commands)}} if handler == "exec" else {handler: {"port": 80}}
        )
        delay = draw(_DELAYS)
        if delay:
            made["initialDelaySeconds"] = delay
        made["periodSeconds"] = draw(_PERIODS)
        threshold = draw(_THRESHOLDS) * (5 if kind == "startup" else 1)
        if threshold != 3:
            made["failureThreshold"] = threshold
        if kind != "readiness" and chance(draw, 15):
            made["terminationGracePeriodSeconds"] = draw(one_of((1, 3)))
        return made

    return probe()


@cache
def _rules(focus: str) -> "st.SearchStrategy[list[dict[str, Any]]]":
    chosen = focus_named(focus)

    @st.composite
    def rules(draw: Draw) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for _ in range(2 if chance(draw, 12) else 1):
            action = "RestartAllContainers" if chance(draw, chosen.restart_all) else "Restart"
            operator = draw(_RULE_CODES)
            values = [TRIGGER] if operator == "In" else [0, 1]
            made.append({"action": action, "exitCodes": {"operator": operator, "values": values}})
        return made

    return rules()


@cache
def containers(
    *, name: str = "a", kind: str = "regular", focus: str = "all"
) -> "st.SearchStrategy[dict[str, Any]]":
    """Containers of a kind: ``regular``, ``init`` or ``sidecar``. Raises ``CallerError`` for an unknown
    focus.
    """
    chosen = focus_named(focus)

    @st.composite
    def container(draw: Draw) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "image": IMAGE}
        rules = _restarts(draw, made, kind, chosen, focus)
        probed = False
        if kind != "init":
            probed = _watched(draw, made, kind, chosen)
            source = scripts(name=name, trigger=rules, probed=probed)
        else:
            source = init_scripts(name=name, trigger=rules)
        script = draw(source)
        made["command"] = ["sh", "-c", script]
        if VOLUME + "/" in script or chance(draw, chosen.volume):
            made["volumeMounts"] = [{"name": "v", "mountPath": VOLUME}]
        _extras(draw, made, kind, chosen)
        return made

    return container()


def _restarts(draw: Draw, made: dict[str, Any], kind: str, chosen: Focus, focus: str) -> bool:
    """Policy and rules of a container; says whether it has rules."""
    if kind == "sidecar":
        made["restartPolicy"] = "Always"
    rules = chance(draw, chosen.rules)
    if kind != "sidecar" and (rules or chance(draw, chosen.own_policy)):
        # An init container with Always would be a sidecar.
        made["restartPolicy"] = draw(_OTHER_POLICIES if kind == "regular" else one_of(("Never", "OnFailure")))
    if rules:
        made["restartPolicyRules"] = draw(_rules(focus))
    return rules


def _watched(draw: Draw, made: dict[str, Any], kind: str, chosen: Focus) -> bool:
    """Probes and hooks; says whether a probe looks for the file."""
    chances = {
        "livenessProbe": chosen.liveness,
        "readinessProbe": chosen.readiness,
        "startupProbe": chosen.startup * (2 if kind == "sidecar" else 1),
    }
    probed = False
    for field, percent in chances.items():
        if chance(draw, min(percent, 95)):
            made[field] = probe = draw(_probes(field.removesuffix("Probe")))
            probed = probed or UP_FILE in probe.get("exec", {}).get("command", ())
    hooks = {
        hook: {"exec": {"command": draw(_HOOKS)}}
        for hook, percent in (("postStart", chosen.post_start), ("preStop", chosen.pre_stop))
        if chance(draw, percent)
    }
    if hooks:
        made["lifecycle"] = hooks
    return probed


def _extras(draw: Draw, made: dict[str, Any], kind: str, chosen: Focus) -> None:
    if chance(draw, chosen.config):
        made["envFrom"] = [{"configMapRef": {"name": CONFIG}}]
    if chance(draw, min(chosen.devices * (2 if kind == "init" else 1), 95)):  # they set devices up
        made["resources"] = {"limits": {RESOURCE: draw(one_of(("1", "1", "1", "2")))}}
    elif chance(draw, chosen.resources):
        made["resources"] = {"requests": {"cpu": "100m"}}


@cache
def pods(*, name: str = "p", focus: str = "all") -> "st.SearchStrategy[dict[str, Any]]":
    """Valid Pods of up to three containers. Raises ``CallerError`` for an unknown focus."""
    chosen = focus_named(focus)

    @st.composite
    def pod(draw: Draw) -> dict[str, Any]:
        inits, regulars = _containers(draw, chosen, focus)
        spec: dict[str, Any] = {}
        policy = draw(_POLICIES)
        if policy != "Always":
            spec["restartPolicy"] = policy
        if chance(draw, chosen.short_grace):
            spec["terminationGracePeriodSeconds"] = draw(_GRACES)
        if chance(draw, chosen.deadline):
            spec["activeDeadlineSeconds"] = draw(one_of((5, 15)))
        if chance(draw, 3):
            spec["shareProcessNamespace"] = True
        if chance(draw, 2):
            spec["hostNetwork"] = True
        if inits:
            spec["initContainers"] = inits
        spec["containers"] = regulars
        if any("volumeMounts" in one for one in [*inits, *regulars]):
            spec["volumes"] = [{"name": "v", "emptyDir": {"medium": "Memory"} if chance(draw, 10) else {}}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    return pod()


def _containers(
    draw: Draw, chosen: Focus, focus: str
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Init containers and sidecars in a drawn order, and regular containers: at most three together."""
    kinds = [
        kind
        for kind, percent in (("sidecar", chosen.sidecar), ("init", chosen.init))
        if chance(draw, percent)
    ]
    if len(kinds) == 1 and chance(draw, 12):
        kinds.append(kinds[0])
    if len(kinds) > 1 and chance(draw, 50):
        kinds.reverse()
    inits: list[Mapping[str, Any]] = []
    for number, kind in enumerate(kinds):
        letter = ("s", "t")[number] if kind == "sidecar" else ("i", "j")[number]
        inits.append(draw(containers(name=letter, kind=kind, focus=focus)))
    second = len(kinds) < CONTAINERS_MAX - 1 and chance(draw, chosen.second_container)
    names = ("a", "b") if second else ("a",)
    return inits, [draw(containers(name=one, focus=focus)) for one in names]
