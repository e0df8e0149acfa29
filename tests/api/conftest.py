"""Builders that the tests of the pod API share."""

from pathlib import Path

import pytest
from attrs import evolve

from kubelet_emu.api.codec import pod_from_json
from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.types import Pod

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def data():
    """The folder of recorded objects."""
    return DATA


def _pod(spec=None, *, meta=None, containers=None, **more) -> Pod:
    """A valid defaulted pod; ``spec`` fields and those in ``more`` are JSON and replace its own."""
    main = [{"name": "main", "image": "busybox:1.36"}]
    body = {"containers": main if containers is None else containers, **(spec or {}), **more}
    metadata = {"name": "web", "namespace": "default", "resourceVersion": "1", **(meta or {})}
    return default_pod(pod_from_json({"metadata": metadata, "spec": body}))


@pytest.fixture(scope="session")
def a_pod():
    return _pod


@pytest.fixture(scope="session")
def a_container(a_pod):
    """A pod whose one regular container has the given JSON fields besides name and image."""

    def make(**fields) -> Pod:
        return a_pod(containers=[{"name": "main", "image": "busybox:1.36", **fields}])

    return make


@pytest.fixture(scope="session")
def an_init(a_pod):
    """A pod whose one init container has the given JSON fields besides name and image."""

    def make(**fields) -> Pod:
        return a_pod(initContainers=[{"name": "first", "image": "busybox:1.36", **fields}])

    return make


@pytest.fixture(scope="session")
def texts():
    """Errors as ``path: message`` texts."""
    return lambda errors: [error.text for error in errors]


@pytest.fixture(scope="session")
def kinds():
    """Errors as pairs of path and kind, sorted; for comparing sets as API-048 asks."""
    return lambda errors: sorted((error.path, error.kind.name) for error in errors)


@pytest.fixture(scope="session")
def with_spec():
    """A pod with some attributes of its spec replaced."""
    return lambda pod, **changes: evolve(pod, spec=evolve(pod.spec, **changes))
