"""What happens to one container's image: policy, presence, credentials, back-off, and its texts (pure).

Mirrors ``pkg/kubelet/images/image_manager.go`` (IMG-03 to IMG-11), ``pullmanager`` (IMG-25, IMG-26) and
``types.go``. The shell in ``images_manager`` asks the runtime and comes back here for each step.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from kubelet_emu.api.images import parse_image_name
from kubelet_emu.kuberuntime.gotext import go_duration, go_quote
from kubelet_emu.kuberuntime.seams import PullCredential
from kubelet_emu.why import Why

__all__ = [
    "ALWAYS",
    "ERR_IMAGE_NEVER_PULL",
    "ERR_IMAGE_PULL",
    "IF_NOT_PRESENT",
    "IMAGE_INSPECT_ERROR",
    "IMAGE_PULL_BACK_OFF",
    "INVALID_IMAGE_NAME",
    "NEVER",
    "ImageError",
    "PullRecord",
    "RecordEntry",
    "Verification",
    "apply_default_tag",
    "image_error_of_pull",
    "invalid_name_text",
    "may_use_present",
    "never_pull_text",
    "present_text",
    "pulled_text",
    "record_pull",
    "repository_of",
    "step_after_presence",
]

ALWAYS = "Always"
IF_NOT_PRESENT = "IfNotPresent"
NEVER = "Never"
INVALID_IMAGE_NAME = "InvalidImageName"
IMAGE_INSPECT_ERROR = "ImageInspectError"
ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
ERR_IMAGE_PULL = "ErrImagePull"
IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
_REGISTRY_UNAVAILABLE = "RegistryUnavailable"
_SIGNATURE_FAILED = "SignatureValidationFailed"
_MAX_SECRETS = 100
_MILLISECOND_NS = 1_000_000


@frozen
class ImageError:
    """Why an image cannot be used: the waiting reason and its message (IMG-05, IMG-08)."""

    reason: str
    message: str
    why: tuple[Why, ...]


def _parse_error(image: str) -> str:
    name = image.rsplit("/", 1)[-1].split("@")[0].split(":")[0]
    if len(image) == 64 and all(char in "0123456789abcdef" for char in image):
        cause = f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    elif name != name.lower():
        path = name if "/" in image else f"library/{name}"
        cause = f"invalid reference format: repository name ({path}) must be lowercase"
    else:
        cause = "invalid reference format"
    return f"couldn't parse image name {go_quote(image)}: {cause}"


def apply_default_tag(image: str) -> str | None:
    """The reference as it goes to the runtime: ``:latest`` added where it has neither tag nor digest
    (IMG-03).

    None for a reference that cannot be parsed.
    """
    parsed = parse_image_name(image)
    if parsed is None:
        return None
    return image if parsed.tag or parsed.digest else f"{image}:latest"


def repository_of(image: str) -> str:
    """The reference without tag and digest: the key of pull records (IMG-26)."""
    parsed = parse_image_name(image)
    return parsed.repository if parsed is not None else image


def invalid_name_text(image: str) -> str:
    """Message and event of a reference that cannot be parsed (IMG-05 row 1)."""
    return f"Failed to apply default image tag {go_quote(image)}: {_parse_error(image)}"


def inspect_text(error: str) -> str:
    """Message and event of an ImageStatus that failed; the quoted name is always empty (IMG-05 row 2)."""
    return f'Failed to inspect image "": {error}'


def never_pull_text(image: str) -> str:
    """Message and event of an absent image that may not be pulled (IMG-05 row 3)."""
    return f"Container image {go_quote(image)} is not present with pull policy of Never"


def present_text(image: str, *, credentials_checked: bool) -> str:
    """Event of an image that is used as it is (IMG-05 rows 4 and 5)."""
    suffix = " and can be accessed by the pod" if credentials_checked else ""
    return f"Container image {go_quote(image)} already present on machine{suffix}"


def pulled_text(image: str, pull_ns: int, wait_ns: int, size_bytes: int) -> str:
    """Event of a finished pull; durations are cut to milliseconds (IMG-07)."""
    pull = go_duration(pull_ns // _MILLISECOND_NS * _MILLISECOND_NS)
    wait = go_duration(wait_ns // _MILLISECOND_NS * _MILLISECOND_NS)
    return (
        f"Successfully pulled image {go_quote(image)} in {pull} ({wait} including waiting). "
        f"Image size: {size_bytes} bytes."
    )


def image_error_of_pull(image: str, error: str) -> ImageError:
    """Reason and message of a failed pull, by the prefix of the runtime's text (IMG-08)."""
    why = (Why("IMG-08", image),)
    if error.startswith(_REGISTRY_UNAVAILABLE):
        rest = error.removeprefix(_REGISTRY_UNAVAILABLE)
        text = f"image pull failed for {image} because the registry is unavailable{rest}"
        return ImageError(_REGISTRY_UNAVAILABLE, text, why)
    if error.startswith(_SIGNATURE_FAILED):
        rest = error.removeprefix(_SIGNATURE_FAILED)
        text = f"image pull failed for {image} because the signature validation failed{rest}"
        return ImageError(_SIGNATURE_FAILED, text, why)
    return ImageError(ERR_IMAGE_PULL, error, why)


def back_off_error(image: str, previous: str) -> ImageError:
    """Reason and message while pulls of an image are held back (IMG-05 row 7, IMG-16)."""
    text = f"Back-off pulling image {go_quote(image)}"
    return ImageError(
        IMAGE_PULL_BACK_OFF, f"{text}: {previous}" if previous else text, (Why("IMG-13", image),)
    )


def _no_mapping() -> Mapping[str, "RecordEntry"]:
    return {}


@frozen
class RecordEntry:
    """Who may use an image under one name: every pod of the node, or holders of these secrets (IMG-27).

    A secret is (uid, namespace, name, credential hash).
    """

    node_pods: bool = False
    secrets: tuple[tuple[str, str, str, str], ...] = ()


@frozen
class PullRecord:
    """What the kubelet remembers of an image that it pulled itself, by repository (IMG-27)."""

    entries: Mapping[str, RecordEntry] = field(factory=_no_mapping)


def record_pull(record: PullRecord | None, image: str, credential: PullCredential | None) -> PullRecord:
    """The record after a successful pull with this credential, None for an anonymous pull (IMG-27,
    IMG-28).
    """
    known = record or PullRecord()
    repository = repository_of(image)
    entry = known.entries.get(repository, RecordEntry())
    if credential is None or not credential.secret_uid:
        entry = RecordEntry(node_pods=True)
    elif not entry.node_pods:
        secret = _coordinates(credential)
        others = tuple(item for item in entry.secrets if item[:3] != secret[:3])
        entry = evolve(entry, secrets=(secret, *others)[:_MAX_SECRETS])
    return PullRecord({**known.entries, repository: entry})


def _coordinates(credential: PullCredential) -> tuple[str, str, str, str]:
    return (
        credential.secret_uid,
        credential.secret_namespace,
        credential.secret_name,
        credential.secret_hash,
    )


@frozen(kw_only=True)
class Verification:
    """Whose right to a present image is checked (``imagePullCredentialsVerificationPolicy``, IMG-25)."""

    policy: str = "NeverVerifyPreloadedImages"
    allowlist: tuple[str, ...] = ()

    def demanded(self, image: str, *, ours: bool) -> bool:
        """Whether a pod has to show that it may use an image; ``ours`` if this kubelet pulled it, or does."""
        if self.policy == "NeverVerify":
            return False
        if self.policy == "NeverVerifyPreloadedImages":
            return ours
        if self.policy == "NeverVerifyAllowlistedImages":
            return not self._listed(repository_of(image))
        return True

    def _listed(self, repository: str) -> bool:
        return any(
            repository.startswith(entry[:-1]) if entry.endswith("/*") else repository == entry
            for entry in self.allowlist
        )


_DEFAULT = Verification()


def may_use_present(
    image: str,
    record: PullRecord | None,
    credentials: Sequence[PullCredential],
    *,
    ensure_secret: bool,
    verification: Verification = _DEFAULT,
    pulling: bool = False,
) -> bool:
    """Whether a present image may be used without a pull (IMG-25, IMG-26); ``pulling`` if one is going on.

    Under the default policy an image that the kubelet has no record of is preloaded and free for all.
    """
    ours = record is not None or pulling
    if not ensure_secret or not verification.demanded(image, ours=ours):
        return True
    if record is None:
        return False
    entry = record.entries.get(repository_of(image))
    if entry is None:
        return False
    if entry.node_pods:
        return True
    return any(
        held[3] == wanted[3] or held[:3] == wanted[:3]
        for held in entry.secrets
        for wanted in (_coordinates(credential) for credential in credentials)
    )


def step_after_presence(image: str, policy: str, *, present: bool, usable: bool) -> ImageError | bool:
    """What follows once presence is known: True to use it, False to pull, or the error (IMG-05 rows 3, 4,
    6).
    """
    if policy != ALWAYS and present and usable:
        return True
    if policy == NEVER:
        return ImageError(ERR_IMAGE_NEVER_PULL, never_pull_text(image), (Why("IMG-05", image),))
    return False
