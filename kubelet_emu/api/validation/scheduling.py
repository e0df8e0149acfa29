"""Validation of tolerations, DNS, gates, spread and aliases. (pure)

API-063, API-153 to API-155.
"""

import re
from collections.abc import Sequence
from typing import Final

from kubelet_emu.api.field_errors import FieldError, duplicate, invalid, not_supported, required
from kubelet_emu.api.names import (
    ip_problems,
    label_value_problems,
    qualified_name_problems,
    search_domain_problems,
    subdomain_problems,
)
from kubelet_emu.api.types import (
    HostAlias,
    PodDNSConfig,
    PodReadinessGate,
    PodSchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from kubelet_emu.api.validation.meta import messages
from kubelet_emu.api.validation.options import Options

__all__ = [
    "validate_dns",
    "validate_host_aliases",
    "validate_readiness_gates",
    "validate_scheduling_gates",
    "validate_spread",
    "validate_tolerations",
]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_COMPARISONS = ("Lt", "Gt")
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def _validate_operator(toleration: Toleration, path: str, options: Options) -> list[FieldError]:
    operator, value = toleration.operator or "", toleration.value or ""
    place = f"{path}.operator"
    if operator in ("", "Equal"):
        return messages(place, value, label_value_problems(value))
    if operator == "Exists":
        if not value:
            return []
        return [invalid(place, value, "value must be empty when `operator` is 'Exists'")]
    if operator in _COMPARISONS:
        if not options.toleration_comparison:
            return [not_supported(place, operator, ("Equal", "Exists", "Lt", "Gt"))]
        if not _DECIMAL.fullmatch(value) or not -(2**63) <= int(value) < 2**63:
            return [invalid(f"{path}.value", value, "must be a valid decimal integer in canonical form")]
        return []
    return [not_supported(place, operator, ("Equal", "Exists"))]


def validate_tolerations(tolerations: Sequence[Toleration], path: str, options: Options) -> list[FieldError]:
    """API-153."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        place = f"{path}[{index}]"
        if toleration.key:
            errors += messages(f"{place}.key", toleration.key, qualified_name_problems(toleration.key))
        elif toleration.operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{place}.operator", toleration.operator or "", text))
        effect = toleration.effect or ""
        if toleration.toleration_seconds is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{place}.effect", effect, text))
        errors += _validate_operator(toleration, place, options)
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{place}.effect", effect, _EFFECTS))
    return errors


def validate_dns(config: PodDNSConfig | None, policy: str | None, path: str) -> list[FieldError]:
    """``spec.dnsConfig`` under the pod's DNS policy (API-154)."""
    if policy == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.nameservers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", text)]
    if config is None:
        return []
    errors: list[FieldError] = []
    if len(config.nameservers) > _MAX_NAMESERVERS:
        text = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(f"{path}.nameservers", config.nameservers, text))
    for index, server in enumerate(config.nameservers):
        errors += messages(f"{path}.nameservers[{index}]", server, ip_problems(server))
    if len(config.searches) > _MAX_SEARCHES:
        text = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(invalid(f"{path}.searches", config.searches, text))
    if len(" ".join(config.searches)) > _MAX_SEARCH_CHARACTERS:
        limit = f"{_MAX_SEARCH_CHARACTERS} characters (including spaces)"
        text = f"must not have more than {limit} in the search list"
        errors.append(invalid(f"{path}.searches", config.searches, text))
    for index, search in enumerate(config.searches):
        errors += messages(f"{path}.searches[{index}]", search, search_domain_problems(search))
    for index, option in enumerate(config.options):
        if not option.name:
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))
    return errors


def validate_readiness_gates(gates: Sequence[PodReadinessGate], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(gates):
        problems = qualified_name_problems(gate.condition_type)
        errors += messages(f"{path}[{index}].conditionType", gate.condition_type, problems)
    return errors


def validate_scheduling_gates(gates: Sequence[PodSchedulingGate], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        errors += messages(f"{path}[{index}]", gate.name, qualified_name_problems(gate.name))
        if gate.name in seen:
            errors.append(duplicate(f"{path}[{index}]", gate.name))
        seen.add(gate.name)
    return errors


def validate_spread(constraints: Sequence[TopologySpreadConstraint], path: str) -> list[FieldError]:
    """``spec.topologySpreadConstraints``: what does not need a scheduler to be checked."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        key, when = constraint.topology_key, constraint.when_unsatisfiable
        if constraint.max_skew <= 0:
            errors.append(invalid(f"{place}.maxSkew", constraint.max_skew, "must be greater than zero"))
        if not key:
            errors.append(required(f"{place}.topologyKey", "can not be empty"))
        else:
            errors += messages(f"{place}.topologyKey", key, qualified_name_problems(key))
        if when not in _WHEN_UNSATISFIABLE:
            errors.append(not_supported(f"{place}.whenUnsatisfiable", when, _WHEN_UNSATISFIABLE))
        if (key, when) in seen:
            errors.append(duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
        seen.add((key, when))
        domains = constraint.min_domains
        if domains is not None and domains <= 0:
            errors.append(invalid(f"{place}.minDomains", domains, "must be greater than zero"))
        if domains is not None and when != "DoNotSchedule":
            text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not whenUnsatisfiable=" + when
            errors.append(invalid(f"{place}.minDomains", domains, text))
    return errors


def validate_host_aliases(aliases: Sequence[HostAlias], path: str) -> list[FieldError]:
    """API-155."""
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        errors += messages(f"{path}[{index}].ip", alias.ip, ip_problems(alias.ip))
        for name in alias.hostnames:
            errors += messages(f"{path}[{index}].hostnames", name, subdomain_problems(name))
    return errors
