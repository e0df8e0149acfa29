"""Devices that a manifest itself asks the emulated node to have: the annotation ``kubelet-emu/devices``.

A real node lets the annotation pass, so that one manifest serves both.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kubelet_emu.api.objects import LoadedObject
from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from devices.setup import PluginSetup

__all__ = ["DEVICES_ANNOTATION", "annotated_devices", "load_source"]

DEVICES_ANNOTATION = "kubelet-emu/devices"
"""Presets and profile files, separated by commas; a file's path counts from the manifest's folder."""


def annotated_devices(objects: Iterable[LoadedObject]) -> "tuple[PluginSetup, ...]":
    """The plugins that pods of manifests ask for; one that several ask for runs once.

    Raises ``CallerError`` with all problems, each at its place in the manifest.
    """
    setups: tuple[PluginSetup, ...] = ()
    problems: list[Problem] = []
    seen: set[str] = set()
    for item in objects:
        if item.kind != "Pod":
            continue
        metadata = cast("Mapping[str, Any]", item.json.get("metadata") or {})
        annotations = cast("Mapping[str, Any]", metadata.get("annotations") or {})
        text = str(annotations.get(DEVICES_ANNOTATION) or "")
        for source in filter(None, map(str.strip, text.split(","))):
            found = _located(source, item.source.file)
            if found in seen:
                continue
            seen.add(found)
            try:
                setups += load_source(found)
            except CallerError as error:
                path = f"metadata.annotations[{DEVICES_ANNOTATION}]"
                problems += [
                    problem if problem.line else item.source.place(Problem(str(problem), path=path))
                    for problem in error.problems
                ]
    if problems:
        raise CallerError(problems)
    return setups


def _located(source: str, manifest: str) -> str:
    """A preset's name as it is, a file's path from the manifest's folder."""
    file = "/" in source or bool(Path(source).suffix)
    return str(Path(manifest).parent / source) if file else source


def load_source(source: str) -> "tuple[PluginSetup, ...]":
    """The plugins of a preset or of a profile file. Raises ``CallerError`` with all problems."""
    from devices.load import load_devices
    from devices.setup import DeviceProblem

    try:
        return load_devices(source)
    except DeviceProblem as error:
        found: list[Problem] = []
        for place, text in error.problems:
            file, _, line = place.rpartition(":")
            known = file and line.isdigit()
            found.append(Problem(text, file=file, line=int(line)) if known else Problem(text, file=place))
        raise CallerError(found) from None
