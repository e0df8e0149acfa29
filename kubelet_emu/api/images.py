"""Image references: repository, tag and digest. (pure)

The grammar is that of the container registries' reference library: a reference without a registry lies in
``docker.io``, one without a path in ``docker.io/library``. API-015.

Mirrors ``pkg/util/parsers/parsers.go``.
"""

import re
from typing import Final

from attrs import frozen

__all__ = ["ImageName", "default_pull_policy", "parse_image_name"]

_DEFAULT_DOMAIN: Final = "docker.io"
_MAX_NAME_CHARACTERS: Final = 255
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_HEX_ID = re.compile(r"[a-f0-9]{64}")
_DIGEST_HEX_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}


@frozen
class ImageName:
    """A parsed reference. ``tag`` and ``digest`` are empty where the reference has none."""

    repository: str
    """With registry: ``docker.io/library/busybox``."""
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")


def _good_digest(digest: str) -> bool:
    if not _DIGEST.fullmatch(digest):
        return False
    algorithm, _, digits = digest.partition(":")
    return len(digits) == _DIGEST_HEX_DIGITS.get(algorithm, len(digits)) and digits == digits.lower()


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    is_domain = "." in first or ":" in first or first == "localhost" or first != first.lower()
    if not slash or not is_domain:
        path = name if slash else f"library/{name}"
        return _DEFAULT_DOMAIN, path
    if first == "index.docker.io":
        first = _DEFAULT_DOMAIN
    if first == _DEFAULT_DOMAIN and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest


def parse_image_name(reference: str) -> ImageName | None:
    """The parts of a reference, None if it is malformed. A tag is not filled in."""
    if _HEX_ID.fullmatch(reference):
        return None
    name, at, digest = reference.partition("@")
    if at and not _good_digest(digest):
        return None
    tag = ""
    colon = name.rfind(":")
    if colon > name.rfind("/"):
        name, tag = name[:colon], name[colon + 1 :]
        if not _TAG.fullmatch(tag):
            return None
    domain, path = _split_domain(name)
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path):
        return None
    if len(path) > _MAX_NAME_CHARACTERS:
        return None
    return ImageName(f"{domain}/{path}", tag, digest)


def default_pull_policy(reference: str) -> str:
    """The pull policy that an image gets when none is given (API-015)."""
    image = parse_image_name(reference)
    if image is None:
        return "IfNotPresent"
    tag = image.tag or ("" if image.digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"
