"""The images of the CRI validation suite, whose users and tags its cases ask for (pure)."""

from collections.abc import Mapping

__all__ = ["SAME_CONTENT", "USERS"]

_STAGING = "gcr.io/k8s-staging-cri-tools"

USERS: Mapping[str, str] = {
    "test-image-user-uid": "1002",
    "test-image-user-uid-group": "1003:www-data",
    "test-image-user-username": "www-data",
    "test-image-user-username-group": "www-data:daemon",
}
"""USER by the last part of the repository's name; uid and name are told apart by CRI-095."""

SAME_CONTENT: Mapping[str, str] = {
    **{f"{_STAGING}/test-image-tags:{number}": "test-image-tags" for number in (1, 2, 3)},
    "registry.k8s.io/pause:3.9": "pause 3.9",
    "k8s.gcr.io/pause:3.9": "pause 3.9",
    "registry.k8s.io/e2e-test-images/busybox:1.29-2": "busybox 1.29-2",
    "docker.io/library/busybox:1.29-2": "busybox 1.29-2",
}
"""References that mean the same content (CRI-090)."""
