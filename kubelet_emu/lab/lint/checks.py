"""Checks of a pod's restart behaviour that need no run: they read the specification only (pure)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from kubelet_emu.gates import Gates
from kubelet_emu.lab.lint.finding import Behaviour, Finding, Severity

__all__ = ["Given", "behaviours", "static_findings"]

_CODES = range(256)
_FAILURES_MOST = 200
"""A rule that matches more failure codes than this is meant for any failure."""
_RESET_GRACE_SECONDS = 2
_DEFAULT_GRACE_SECONDS = 30
_ALL = "RestartAllContainers"

Object = Mapping[str, Any]


@frozen(kw_only=True)
class Given:
    """One container: where it stands, what it is, and the codes that each of its rules decides."""

    pod: Object
    container: Object
    path: str
    kind: str

    @property
    def name(self) -> str:
        return str(self.container.get("name", ""))

    @property
    def rules(self) -> Sequence[Object]:
        return self.container.get("restartPolicyRules") or ()

    @property
    def policy(self) -> str:
        """The policy that counts for it: its own, else the pod's."""
        return str(self.container.get("restartPolicy") or self.pod["spec"].get("restartPolicy") or "Always")

    def rule_path(self, index: int) -> str:
        return f"{self.path}.restartPolicyRules[{index}]"


def containers_of(pod: Object) -> list[Given]:
    """The init and regular containers of a pod, as written."""
    found: list[Given] = []
    for key, kind in (("initContainers", "init"), ("containers", "regular")):
        for index, container in enumerate(pod["spec"].get(key) or ()):
            sidecar = kind == "init" and container.get("restartPolicy") == "Always"
            path = f"spec.{key}[{index}]"
            found.append(Given(pod=pod, container=container, path=path, kind="sidecar" if sidecar else kind))
    return found


def part(obj: Object, key: str) -> Object:
    """A mapping inside an object; an empty one if it is not there."""
    found: Object | None = obj.get(key)
    return found if found is not None else {}


def _codes(rule: Object) -> frozenset[int]:
    """The exit codes from 0 to 255 that a rule matches by itself (RST-020)."""
    given = part(rule, "exitCodes")
    values = {value for value in given.get("values") or () if isinstance(value, int)}
    if given.get("operator") == "In":
        return frozenset(values & set(_CODES))
    return frozenset(set(_CODES) - values) if given.get("operator") == "NotIn" else frozenset()


def decided(given: Given) -> list[frozenset[int]]:
    """The codes that each rule decides: those that it matches and no rule before it does."""
    taken: set[int] = set()
    found: list[frozenset[int]] = []
    for rule in given.rules:
        mine = _codes(rule) - taken
        taken |= mine
        found.append(frozenset(mine))
    return found


def restarts_all(pod: Object) -> bool:
    """Whether some exit of some container restarts the whole pod (RST-026)."""
    return any(rule.get("action") == _ALL for given in containers_of(pod) for rule in given.rules)


# -- one container --


def _rule_findings(given: Given) -> Iterable[Finding]:
    codes = decided(given)
    for index, rule in enumerate(given.rules):
        path = given.rule_path(index)
        action = rule.get("action")
        values: Sequence[Any] = part(rule, "exitCodes").get("values") or ()
        outside = [value for value in values if isinstance(value, int) and value not in _CODES]
        if outside:
            yield Finding(
                check="code-that-cannot-occur",
                rule="RST-021",
                severity=Severity.WARNING,
                path=f"{path}.exitCodes.values",
                text=f"{given.name}: no process exits with {_listed(outside)}",
                fix="exit codes are 0 to 255; a process ended by signal N exits with 128 + N",
            )
        if not codes[index]:
            yield _never_matches(given, index, path, outside=bool(outside) and not _codes(rule))
            continue
        if given.kind == "sidecar" and action == "Restart" and not _shields(given, index, codes):
            yield Finding(
                check="sidecar-rule-without-effect",
                rule="RST-027",
                severity=Severity.WARNING,
                path=path,
                text=f"{given.name}: a sidecar restarts after every exit, so this rule changes nothing",
                fix="remove the rule",
            )
        elif action == "Restart" and given.policy == "Always" and not _shields(given, index, codes):
            yield Finding(
                check="rule-without-effect",
                rule="RST-022",
                severity=Severity.WARNING,
                path=path,
                text=f"{given.name}: with restartPolicy Always it restarts anyway, so this rule changes "
                "nothing",
                fix="remove the rule, or set restartPolicy: Never or OnFailure on the container",
            )
        yield from _zero_findings(given, rule, codes[index], path)
        yield from _broad_findings(given, rule, codes[index], path)


def _never_matches(given: Given, index: int, path: str, *, outside: bool) -> Finding:
    why = "all of its codes are decided by rules before it"
    if outside:
        why = "none of its codes can occur"
    elif not _codes(given.rules[index]):
        why = "it lists no code"
    return Finding(
        check="rule-never-matches",
        rule="RST-020",
        severity=Severity.ERROR if outside else Severity.WARNING,
        path=path,
        text=f"{given.name}: this rule never matches, {why}",
        fix="the first rule that matches decides: put the narrower rule first, or remove this one",
    )


def _shields(given: Given, index: int, codes: Sequence[frozenset[int]]) -> bool:
    """Whether a Restart rule keeps codes away from a RestartAllContainers rule after it."""
    later = given.rules[index + 1 :]
    return any(rule.get("action") == _ALL and _codes(rule) & codes[index] for rule in later)


def _zero_findings(given: Given, rule: Object, codes: frozenset[int], path: str) -> Iterable[Finding]:
    if given.kind != "init" or 0 not in codes:
        return
    listed = part(rule, "exitCodes").get("operator") == "In"
    if rule.get("action") == _ALL:
        yield Finding(
            check="init-loops",
            rule="RST-028",
            severity=Severity.ERROR,
            path=path,
            text=f"{given.name}: each time it succeeds the whole pod starts again, and the pod never gets "
            "further",
            fix="leave 0 out of the codes of this rule",
        )
    elif listed:
        yield Finding(
            check="init-rule-for-success",
            rule="RST-028",
            severity=Severity.WARNING,
            path=path,
            text=f"{given.name}: an init container that exits with 0 is done; no rule runs it again",
            fix="leave 0 out of the codes of this rule",
        )


def _broad_findings(given: Given, rule: Object, codes: frozenset[int], path: str) -> Iterable[Finding]:
    if rule.get("action") == _ALL and len(codes - {0}) > _FAILURES_MOST:
        yield Finding(
            check="any-failure-restarts-all",
            rule="RST-142",
            severity=Severity.WARNING,
            path=path,
            text=f"{given.name}: nearly every failure restarts the whole pod, without any back-off between "
            "the restarts",
            fix="list the codes that mean that the whole pod is needed again, and leave the rest to back-off",
        )


def _probe_findings(given: Given) -> Iterable[Finding]:
    if given.kind == "init":
        return
    regular = given.pod["spec"].get("containers") or ()
    for key in ("livenessProbe", "startupProbe"):
        probe = part(given.container, key)
        if not probe:
            continue
        saved = any({137, 143} & codes for codes in decided(given))
        if given.kind == "regular" and given.policy == "Never" and not saved:
            yield Finding(
                check="probe-kill-is-final",
                rule="RST-058",
                severity=Severity.WARNING,
                path=f"{given.path}.{key}",
                text=f"{given.name}: when this probe fails the container is killed and does not come back",
                fix="remove the probe, set restartPolicy: OnFailure, or add a Restart rule for 137 and 143",
            )
        own = probe.get("terminationGracePeriodSeconds")
        alone = given.kind == "regular" and len(regular) == 1 and given.policy == "Never"
        if own is not None and alone:
            yield Finding(
                check="probe-grace-not-used",
                rule="RST-061",
                severity=Severity.WARNING,
                path=f"{given.path}.{key}.terminationGracePeriodSeconds",
                text=f"{given.name}: it is the only container, so a failed probe ends the whole pod, "
                "with the pod's grace period and not with this one",
                fix="set the pod's terminationGracePeriodSeconds instead",
            )


def _hook_findings(given: Given) -> Iterable[Finding]:
    if not part(part(given.container, "lifecycle"), "preStop"):
        return
    path = f"{given.path}.lifecycle.preStop"
    if restarts_all(given.pod):
        yield Finding(
            check="prestop-not-run",
            rule="RST-131",
            severity=Severity.WARNING,
            path=path,
            text=f"{given.name}: this hook does not run when the whole pod restarts in place",
            fix="do in the container, on SIGTERM and within two seconds, what must not be left out",
        )
    if given.pod["spec"].get("terminationGracePeriodSeconds") == 0:
        yield Finding(
            check="prestop-not-run",
            rule="RST-101",
            severity=Severity.WARNING,
            path=path,
            text=f"{given.name}: with a grace period of 0 this hook does not run",
            fix="set terminationGracePeriodSeconds to what the hook and the end of the process need",
        )
    yield from _long_hook_findings(given, path)


def _long_hook_findings(given: Given, path: str) -> Iterable[Finding]:
    """A hook that only waits, for the whole grace period or longer."""
    grace = given.pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
    seconds = _waits_seconds(part(part(given.container, "lifecycle"), "preStop"))
    if isinstance(grace, int) and 0 < grace <= seconds:
        yield Finding(
            check="prestop-outlasts-grace",
            rule="HOK-12",
            severity=Severity.WARNING,
            path=path,
            text=f"{given.name}: this hook waits {seconds:g} seconds of a grace period of {grace}, so the "
            f"process gets SIGTERM after {min(seconds, grace):g} seconds and SIGKILL "
            f"{_RESET_GRACE_SECONDS} seconds later",
            fix="let the hook wait for less, or make terminationGracePeriodSeconds longer by what the "
            "process needs after SIGTERM",
        )


def _waits_seconds(hook: Object) -> float:
    """How long a hook sleeps for sure: the sleep action, or a command that begins with ``sleep N``."""
    told = part(hook, "sleep").get("seconds")
    if isinstance(told, int):
        return float(told)
    command = [str(word) for word in part(hook, "exec").get("command") or ()]
    if len(command) == 3 and command[0].rpartition("/")[2] in ("sh", "ash", "bash") and command[1] == "-c":
        command = command[2].replace(";", " ; ").replace("&&", " && ").split()
    if len(command) >= 2 and command[0].rpartition("/")[2] == "sleep" and command[1].isdecimal():
        return float(command[1])
    return 0.0


def _grace_findings(pod: Object) -> Iterable[Finding]:
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    if restarts_all(pod) and isinstance(grace, int) and grace > _RESET_GRACE_SECONDS:
        severity = Severity.WARNING if grace > _DEFAULT_GRACE_SECONDS else Severity.NOTE
        yield Finding(
            check="grace-not-used",
            rule="RST-134",
            severity=severity,
            path="spec.terminationGracePeriodSeconds",
            text=f"a restart in place gives each container {_RESET_GRACE_SECONDS} seconds to end, not "
            f"{grace}",
            fix="let the containers end within two seconds of SIGTERM, or expect them to be killed",
        )


def _final_init_findings(given: Given) -> Iterable[Finding]:
    spec = given.pod["spec"]
    own = given.container.get("restartPolicy")
    if given.kind == "init" and own == "Never" and (spec.get("restartPolicy") or "Always") != "Never":
        if any(rule.get("action") == "Restart" for rule in given.rules):
            return
        yield Finding(
            check="init-failure-is-final",
            rule="RST-053",
            severity=Severity.NOTE,
            path=f"{given.path}.restartPolicy",
            text=f"{given.name}: one failure ends the pod for good, although the pod's policy is "
            f"{spec.get('restartPolicy') or 'Always'}",
            fix="set restartPolicy: OnFailure, or add Restart rules for the codes that may be tried again",
        )


def _gate_findings(given: Given, gates: Gates) -> Iterable[Finding]:
    if gates.restart_all:
        return
    for index, rule in enumerate(given.rules):
        if rule.get("action") == _ALL:
            yield Finding(
                check="rules-without-gate",
                rule="RST-009",
                severity=Severity.ERROR,
                path=f"{given.rule_path(index)}.action",
                text=f"{given.name}: a node without the gate RestartAllContainersOnContainerExits refuses "
                "this pod",
                fix="turn the gate on (with ContainerRestartRules and NodeDeclaredFeatures), or use Restart",
            )


_CONTAINER_CHECKS: tuple[Callable[[Given], Iterable[Finding]], ...] = (
    _rule_findings,
    _probe_findings,
    _hook_findings,
    _final_init_findings,
)


def static_findings(pod: Object, gates: Gates) -> list[Finding]:
    """What can be said of a pod by reading it."""
    found = list(_grace_findings(pod))
    for given in containers_of(pod):
        for check in _CONTAINER_CHECKS:
            found += check(given)
        found += _gate_findings(given, gates)
    return found


# -- what it will do --


def behaviours(pod: Object) -> list[Behaviour]:
    """What each container does when it exits (RST-200)."""
    name = str(part(pod, "metadata").get("name", ""))
    return [Behaviour(name, given.name, given.kind, _behaviour(given)) for given in containers_of(pod)]


def _behaviour(given: Given) -> str:
    parts: list[str] = []
    for rule, codes in zip(given.rules, decided(given), strict=True):
        if rule.get("action") == _ALL and codes:
            parts.append(f"{_range(codes)} restarts the whole pod in place, without back-off")
        elif codes and given.kind != "sidecar":
            shown = codes - {0} if given.kind == "init" else codes
            if shown:
                parts.append(f"{_range(shown)} restarts it")
    rest = {
        "sidecar": "any exit restarts it, with back-off",
        "init": {
            "Never": "0 is done; a failure ends the pod",
            "OnFailure": "0 is done; a failure restarts it, with back-off",
            "Always": "0 is done; a failure restarts it, with back-off",
        }.get(given.policy, ""),
        "regular": {
            "Never": "it stays ended",
            "OnFailure": "0 ends it; a failure restarts it, with back-off",
            "Always": "any exit restarts it, with back-off",
        }.get(given.policy, ""),
    }[given.kind]
    return "; ".join([*parts, f"else {rest}" if parts else rest])


def _range(codes: frozenset[int]) -> str:
    """Codes in short: ``42``, ``1, 2``, ``all but 0``."""
    if len(codes) > len(_CODES) // 2:
        left = sorted(set(_CODES) - codes)
        return f"every code but {_listed(left)}" if left else "every code"
    return f"exit {_listed(sorted(codes))}"


def _listed(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:6]))
    return shown + (" …" if len(values) > 6 else "")
