"""How the API server admits pods: defaults, then validation; the store calls these. (pure)"""

from collections.abc import Mapping
from typing import Any

from kubelet_emu.api.codec import pod_from_json, pod_to_json
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.validation import (
    validate_ephemeral_containers_update,
    validate_pod_create,
    validate_pod_resize,
    validate_pod_update,
)
from kubelet_emu.apiserver.errors import invalid
from kubelet_emu.errors import Problem
from kubelet_emu.gates import Gates

__all__ = ["admit_create", "admit_update", "aggregate"]

Json = dict[str, Any]


def admit_create(obj: Mapping[str, Any], *, gates: Gates) -> Json:
    """The object with all defaults filled in; raises ``ApiError`` 422 with every problem."""
    pod = default_pod(pod_from_json(obj))
    problems = validate_pod_create(pod, gates=gates)
    if problems:
        raise invalid("Pod", pod.metadata.name, aggregate(problems))
    return pod_to_json(pod)


def admit_update(old: Mapping[str, Any], new: Mapping[str, Any], subresource: str, *, gates: Gates) -> Json:
    """A changed pod with defaults for what was added; raises ``ApiError`` 422 for a forbidden change."""
    before, after = pod_from_json(old), default_pod(pod_from_json(new))
    if subresource == "ephemeralcontainers":
        problems = validate_ephemeral_containers_update(after, before, gates=gates)
    elif subresource == "resize":
        problems = validate_pod_resize(after, before, gates=gates)
    else:
        problems = validate_pod_update(after, before, gates=gates)
    if problems:
        raise invalid("Pod", after.metadata.name, aggregate(problems))
    return pod_to_json(after)


def aggregate(problems: "tuple[Problem, ...]") -> str:
    """Problems as an API server joins them: one as it is, several in brackets."""
    texts = [f"{problem.path}: {problem.message}" for problem in problems]
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
