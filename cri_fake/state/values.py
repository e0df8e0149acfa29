"""Sandboxes, containers and images as JSON, and back (pure).

Flags of a moment (a start or a removal under way) are not kept: what was asked for then was not answered.
"""

import base64
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import evolve, fields
from google.protobuf.message import Message

from cri_fake.store.containers import Container
from cri_fake.store.images import Image, ImageConfig
from cri_fake.store.sandboxes import Sandbox
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["BadValue", "container_from", "image_from", "plain", "sandbox_from"]

Value = TypeVar("Value", Sandbox, Container, Image, ImageConfig)


class BadValue(Exception):
    """Raised for a value that this version cannot read."""


_BYTES_KEY = "base64"
"""How bytes and messages look in JSON: an object with this one key."""


def plain(value: Any) -> Any:
    """A value of the store as JSON knows it."""
    if isinstance(value, Container):
        value = evolve(value, starting=False, removing=False)
    if isinstance(value, Message):
        return plain(value.SerializeToString(deterministic=True))
    if isinstance(value, bytes):
        return {_BYTES_KEY: base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple):
        return [plain(each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, Sandbox | Container | Image | ImageConfig):
        return {each.name: plain(getattr(value, each.name)) for each in fields(type(value)) if each.init}
    return value


def _again(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_again(each) for each in cast("list[Any]", value))
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if set(found) == {_BYTES_KEY}:
            return base64.b64decode(found[_BYTES_KEY], validate=True)
        return {key: _again(each) for key, each in found.items()}
    return value


def _made(kind: type[Value], value: Any, messages: Mapping[str, type[Message]], **more: Any) -> Value:
    try:
        known = {each.name for each in fields(kind)}
        given = {name: _again(each) for name, each in value.items() if name in known}
        for name, message in messages.items():
            if given.get(name) is not None:
                given[name] = message.FromString(given[name])
        return kind(**{**given, **more})
    except Exception as problem:
        raise BadValue(f"cannot read a kept {kind.__name__.lower()}: {problem}") from problem


def sandbox_from(value: Any) -> Sandbox:
    """Raises BadValue."""
    resources = cri.LinuxContainerResources
    messages = {"config": cri.PodSandboxConfig, "overhead": resources, "resources": resources}
    return _made(Sandbox, value, messages)


def container_from(value: Any) -> Container:
    """Raises BadValue."""
    messages = {"config": cri.ContainerConfig, "resources": cri.LinuxContainerResources}
    return _made(Container, value, messages)


def image_from(value: Any) -> Image:
    """Raises BadValue."""
    kept = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return _made(Image, kept, {}, config=_made(ImageConfig, kept.get("config", {}), {}))
