"""Validation of pods in the words of the API server, all errors at once. (pure)

Mirrors ``pkg/apis/core/validation/validation.go``. Every function takes defaulted pods
(``kubelet_emu.api.defaults``) and returns ``FieldError`` values, which are ``Problem`` values; the texts
that a Status or kubectl make of them come from ``kubelet_emu.api.field_errors``.

sections 5 to 16 of API-.
"""

from kubelet_emu.api.validation.create import validate_pod_create
from kubelet_emu.api.validation.options import Options, options_for
from kubelet_emu.api.validation.status import validate_pod_status_update
from kubelet_emu.api.validation.update import (
    validate_ephemeral_containers_update,
    validate_pod_resize,
    validate_pod_update,
)

__all__ = [
    "Options",
    "options_for",
    "validate_ephemeral_containers_update",
    "validate_pod_create",
    "validate_pod_resize",
    "validate_pod_status_update",
    "validate_pod_update",
]
