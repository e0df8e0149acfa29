"""How the API server admits pods: defaults, gated fields, validation; the store calls these. (pure)"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from kubelet_emu.api.codec import pod_from_json, pod_to_json
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.field_errors import FieldError, aggregate
from kubelet_emu.api.strategy import drop_disabled_fields
from kubelet_emu.api.types import Pod
from kubelet_emu.api.validation import (
    validate_ephemeral_containers_update,
    validate_pod_create,
    validate_pod_resize,
    validate_pod_update,
)
from kubelet_emu.apiserver.errors import ApiError, invalid
from kubelet_emu.gates import Gates

__all__ = ["admit_create", "admit_update"]

Json = dict[str, Any]


def admit_create(obj: Mapping[str, Any], *, gates: Gates) -> Json:
    """The object with all defaults filled in; raises ``ApiError`` 422 with every problem."""
    pod = default_pod(pod_from_json(obj))
    pod = evolve(pod, spec=drop_disabled_fields(pod.spec, gates))
    problems = validate_pod_create(pod, gates=gates)
    if problems:
        raise _invalid(pod, problems)
    return pod_to_json(pod)


def admit_update(old: Mapping[str, Any], new: Mapping[str, Any], subresource: str, *, gates: Gates) -> Json:
    """A changed pod with defaults for what was added; raises ``ApiError`` 422 for a forbidden change."""
    before, after = pod_from_json(old), default_pod(pod_from_json(new))
    after = evolve(after, spec=drop_disabled_fields(after.spec, gates, before.spec))
    if subresource == "ephemeralcontainers":
        problems = validate_ephemeral_containers_update(after, before, gates=gates)
    elif subresource == "resize":
        problems = validate_pod_resize(after, before, gates=gates)
    else:
        problems = validate_pod_update(after, before, gates=gates)
    if problems:
        raise _invalid(after, problems)
    return pod_to_json(after)


def _invalid(pod: Pod, problems: Sequence[FieldError]) -> ApiError:
    return invalid("Pod", pod.metadata.name, aggregate(problems))
