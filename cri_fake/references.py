"""Image references: grammar, normal form and parts, as the ``distribution`` libraries read them (pure).

``busybox`` means ``docker.io/library/busybox:latest``. A first part is a registry if it has a dot or a
colon, or is ``localhost``, or has capitals; otherwise the registry is docker.io.
"""

import re

from attrs import frozen

from cri_fake.store.faults import Kind, Refused

__all__ = ["Reference", "is_image_id", "parse_reference"]

_DEFAULT_DOMAIN = "docker.io"
_MAX_NAME_LENGTH = 255
_ALNUM = r"[a-z0-9]+"
_PATH_PART = rf"{_ALNUM}(?:(?:\.|_|__|-+){_ALNUM})*"
_PATH = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_IMAGE_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


@frozen
class Reference:
    """A reference in normal form. One of ``tag`` and ``digest`` is set; with a digest a tag is dropped."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


def is_image_id(text: str) -> bool:
    """True for a full image id, with or without ``sha256:``."""
    return _IMAGE_ID.fullmatch(text) is not None


def _bad(text: str, why: str) -> Refused:
    return Refused(Kind.UNKNOWN, f'failed to parse image reference "{text}": {why}', rule="CRI-091")


def parse_reference(text: str) -> Reference:
    """Read a reference as a person or the kubelet writes it; ``:latest`` is added where there is no tag.

    Raises:
        Refused: it is not a reference; the text is containerd's (CRI-091, CRI-093).
    """
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _bad(text, "invalid reference format")
    first, slash, remainder = rest.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first):
        domain, path = first, remainder
    else:
        domain, path = _DEFAULT_DOMAIN, rest
    if domain == "index.docker.io":
        domain = _DEFAULT_DOMAIN
    path, colon, tag = path.partition(":")
    if domain == _DEFAULT_DOMAIN and path and "/" not in path:
        path = f"library/{path}"
    if path.lower() != path and _PATH.fullmatch(path.lower()):
        raise _bad(text, f"invalid reference format: repository name ({path}) must be lowercase")
    well_formed = _DOMAIN.fullmatch(domain) and _PATH.fullmatch(path)
    if not well_formed or (colon and not _TAG.fullmatch(tag)):
        raise _bad(text, "invalid reference format")
    if len(path) > _MAX_NAME_LENGTH:
        raise _bad(text, f"repository name must not be more than {_MAX_NAME_LENGTH} characters")
    if digest:
        return Reference(domain, path, digest=digest)
    return Reference(domain, path, tag=tag or "latest")
