"""The shell scripts inside a pod: commands, hooks and probes of the form ``sh -c SCRIPT``. (pure)"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from attrs import frozen

__all__ = ["Script", "scripts_of"]

_SHELLS = ("sh", "ash", "bash", "dash")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


@frozen
class Script:
    """One script: the container it belongs to, its path inside the pod object, its text."""

    container: str
    path: str
    text: str


def scripts_of(pod: Mapping[str, Any]) -> Iterator[Script]:
    """All scripts of a pod object, in the order of its spec."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _of_container(container, f"spec.{kind}[{index}]")


def _of_container(container: Mapping[str, Any], path: str) -> Iterator[Script]:
    name = str(container.get("name", ""))
    command = cast("Sequence[str]", container.get("command") or ())
    args = cast("Sequence[str]", container.get("args") or ())
    paths = [f"{path}.command[{i}]" for i in range(len(command))] + [
        f"{path}.args[{i}]" for i in range(len(args))
    ]
    yield from _script(name, [*command, *args], paths)
    lifecycle: Mapping[str, Any] = container.get("lifecycle") or {}
    actions = [(f"{path}.lifecycle.{hook}", lifecycle.get(hook)) for hook in ("postStart", "preStop")]
    actions += [(f"{path}.{probe}", container.get(probe)) for probe in _PROBES]
    for place, action in actions:
        given = cast("Mapping[str, Any]", action or {})
        words = cast("Sequence[str]", cast("Mapping[str, Any]", given.get("exec") or {}).get("command") or ())
        yield from _script(name, words, [f"{place}.exec.command[{i}]" for i in range(len(words))])


def _script(container: str, words: Sequence[str], paths: Sequence[str]) -> Iterator[Script]:
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith(("-", "+")):
            return
        if word.startswith("-") and not word.startswith("--") and "c" in word and index + 1 < len(words):
            yield Script(container, paths[index + 1], words[index + 1])
            return
