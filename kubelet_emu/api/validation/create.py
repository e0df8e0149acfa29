"""Validation of a new pod: metadata, spec, then what holds on create only. (pure)

``V.ValidatePodCreate`` in the Kubernetes tree. The pod has to be defaulted first.

API-060.
"""

from kubelet_emu.api.field_errors import FieldError, forbidden
from kubelet_emu.api.types import Pod
from kubelet_emu.api.validation.containers import validate_images
from kubelet_emu.api.validation.meta import is_mirror, validate_meta, validate_mirror_annotation
from kubelet_emu.api.validation.options import Options, options_for
from kubelet_emu.api.validation.spec import validate_spec, validate_token_projections
from kubelet_emu.gates import Gates

__all__ = ["validate_metadata_and_spec", "validate_pod_create"]


def validate_metadata_and_spec(pod: Pod, options: Options) -> list[FieldError]:
    """What holds on create and on every update."""
    errors = validate_meta(pod.metadata)
    errors += validate_mirror_annotation(pod)
    errors += validate_spec(pod.spec, options)
    errors += validate_token_projections(pod.spec)
    errors += validate_images(pod.spec)
    if is_mirror(pod) and pod.spec.resource_claims:
        errors.append(forbidden("", "static pods do not support resource claims"))
    return errors


def validate_pod_create(
    pod: Pod, *, gates: Gates | None = None, options: Options | None = None
) -> tuple[FieldError, ...]:
    """Every error of a defaulted pod that is to be created; none means that it is valid.

    ``options`` overrides what follows from ``gates``. Static pods get the same check (API-171), with no
    fields dropped before it (API-173).
    """
    errors = validate_metadata_and_spec(pod, options or options_for(gates))
    if pod.spec.ephemeral_containers:
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if pod.spec.node_name and pod.spec.scheduling_gates:
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", text))
    return tuple(errors)
