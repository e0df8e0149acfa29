"""Validation of a container's restart policy and rules. (pure)

API-100 to API-102, RST-002 to RST-006.
"""

from typing import Final

from kubelet_emu.api.field_errors import FieldError, forbidden, not_supported, required, too_many
from kubelet_emu.api.restart_rules import RESTART, RESTART_ALL
from kubelet_emu.api.types import Container, ContainerRestartRule
from kubelet_emu.api.validation.options import Options

__all__ = ["validate_init_restart_policy", "validate_restart_policy"]

MAX_RULES: Final = 20
MAX_VALUES: Final = 255
_POLICIES = ("Always", "Never", "OnFailure")
_OPERATORS = ("In", "NotIn")
_RULES_NEED_POLICY = "must specify restartPolicy when restart rules are used"


def _validate_rule(rule: ContainerRestartRule, path: str, options: Options) -> list[FieldError]:
    errors: list[FieldError] = []
    actions = (RESTART, RESTART_ALL) if options.restart_all else (RESTART,)
    if rule.action not in actions:
        errors.append(not_supported(f"{path}.action", rule.action, actions))
    codes = rule.exit_codes
    if codes is None:
        errors.append(required(f"{path}.exitCodes", "must be specified"))
        return errors
    if codes.operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.exitCodes.operator", codes.operator, _OPERATORS))
    if len(codes.values) > MAX_VALUES:
        errors.append(too_many(f"{path}.exitCodes.values", len(codes.values), MAX_VALUES))
    return errors


def _validate_rules(container: Container, path: str, options: Options) -> list[FieldError]:
    """API-101; values themselves are not looked at (API-102)."""
    errors: list[FieldError] = []
    rules = container.restart_policy_rules
    if len(rules) > MAX_RULES:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _validate_rule(rule, f"{path}.restartPolicyRules[{index}]", options)
    return errors


def validate_restart_policy(container: Container, path: str, options: Options) -> list[FieldError]:
    """A regular container."""
    policy = container.restart_policy
    if not options.restart_rules:
        if policy is None:
            return []
        return [forbidden(f"{path}.restartPolicy", "may not be set for non-init containers")]
    errors: list[FieldError] = []
    if policy is None and container.restart_policy_rules:
        errors.append(required(f"{path}.restartPolicy", _RULES_NEED_POLICY))
    elif policy is not None and policy not in _POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _POLICIES))
    return errors + _validate_rules(container, path, options)


def validate_init_restart_policy(container: Container, path: str, options: Options) -> list[FieldError]:
    """An init container; with policy Always it is a sidecar."""
    policy, rules = container.restart_policy, container.restart_policy_rules
    if policy is None:
        return [required(f"{path}.restartPolicy", _RULES_NEED_POLICY)] if rules else []
    if not options.restart_rules:
        return [] if policy == "Always" else [not_supported(f"{path}.restartPolicy", policy, ("Always",))]
    if policy == "Always" and not options.restart_all:
        if not rules:
            return []
        text = "restartPolicyRules are not allowed for init containers with restart policy Always"
        return [forbidden(f"{path}.restartPolicyRules", text)]
    errors: list[FieldError] = []
    if policy not in _POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _POLICIES))
    return errors + _validate_rules(container, path, options)
