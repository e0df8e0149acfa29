"""A KubeletConfiguration file to settings: strict, with every mistake at its line. (pure)

Mirrors ``pkg/kubelet/kubeletconfig/configfiles`` and, for the fields that matter here,
``pkg/kubelet/apis/config/validation`` (NOD-95).
"""

from collections.abc import Mapping
from typing import Any, cast

from attrs import evolve, frozen

from kubelet_emu.api.durations import parse_duration
from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.strict import nearest
from kubelet_emu.api.yaml_source import Document, line_of, parse_documents
from kubelet_emu.config.kubelet_fields import FIELDS, READ_APART, WITHOUT_EFFECT, Field
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.gates import DEFAULT_GATES, Gates
from kubelet_emu.settings import KubeletSettings

__all__ = ["API_VERSION", "KIND", "settings_from_text", "without_effect"]

KIND = "KubeletConfiguration"
API_VERSION = "kubelet.config.k8s.io/v1beta1"

CRASH_LOOP_FIELD = "maxContainerRestartPeriod"
CRASH_LOOP_SECONDS = (1.0, 300.0)
"""Least and greatest ``crashLoopBackOff.maxContainerRestartPeriod`` (RST-110)."""

_NANO = 1_000_000_000


@frozen
class _Bad(Exception):
    """A value that is not what its field holds."""

    message: str


def settings_from_text(text: str, *, file: str = "") -> KubeletSettings:
    """The settings that a file's text asks for; what it leaves out keeps its default.

    Raises ``CallerError`` with all problems, each with file, line and path.
    """
    documents = [
        document for document in parse_documents(text) if document.value is not None or document.problems
    ]
    if not documents:
        raise CallerError([Problem("the file is empty", file=file, hint=f"it holds one {KIND}")])
    document = documents[0]
    problems = [problem for each in documents for problem in each.problems]
    if not problems:
        problems = _kind_problems(document)
    if len(documents) > 1:
        problems.append(Problem("more than one document", hint=f"a file holds one {KIND}"))
    settings = KubeletSettings()
    if not problems:
        reader = _Reader(cast("Mapping[str, Any]", document.value))
        settings, problems = reader.settings(), reader.problems
    if problems:
        raise CallerError([_placed(problem, document, file) for problem in problems])
    return settings


def without_effect(text: str) -> tuple[str, ...]:
    """The fields of a file that a real kubelet heeds and an emulated node has no use for."""
    value = next((document.value for document in parse_documents(text)), None)
    if not isinstance(value, Mapping):
        return ()
    return tuple(sorted(name for name in cast("Mapping[str, Any]", value) if name in WITHOUT_EFFECT))


def _placed(problem: Problem, document: Document, file: str) -> Problem:
    return evolve(problem, file=file, line=problem.line or line_of(document.lines, problem.path))


def _kind_problems(document: Document) -> list[Problem]:
    value = document.value
    if not isinstance(value, Mapping):
        return [Problem(f"not a {KIND} but {type(value).__name__}")]
    given = cast("Mapping[str, Any]", value)
    problems: list[Problem] = []
    for name, wanted in (("kind", KIND), ("apiVersion", API_VERSION)):
        if given.get(name) != wanted:
            found = f"{given[name]!r} is not supported" if name in given else "is missing"
            problems.append(Problem(f"{name} {found}", path=name, hint=f"write {name}: {wanted}"))
    return problems


class _Reader:
    """Reads the fields of one configuration."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.problems: list[Problem] = []
        self._reserved_cpu = Quantity(0)

    def settings(self) -> KubeletSettings:
        changes: dict[str, Any] = {}
        for name, value in self._given.items():
            if name in ("kind", "apiVersion", "metadata") or name in WITHOUT_EFFECT or value is None:
                continue
            if name == "featureGates":
                changes["gates"] = self._gates(value)
            elif name == "crashLoopBackOff":
                changes |= self._crash_loop(value)
            elif name == "reservedMemory":
                changes["reserved_memory"] = self._reserved_memory(value)
            elif name in ("kubeReserved", "systemReserved"):
                self._reserved(name, value)
            elif name in FIELDS:
                changes |= self._field(name, FIELDS[name], value)
            else:
                near = nearest(name, (*FIELDS, *READ_APART, *WITHOUT_EFFECT))
                hint = f'did you mean "{near}"?' if near else ""
                self.problems.append(Problem(f'unknown field "{name}"', path=name, hint=hint))
        parallel: int = changes.get("max_parallel_image_pulls", 0)
        if parallel > 1 and self._given.get("serializeImagePulls") is None:
            changes["serialize_image_pulls"] = False
        if self._reserved_cpu.nanos:
            changes["reserved_cpu"] = str(self._reserved_cpu)
        settings = evolve(KubeletSettings(), **changes)
        if parallel > 1 and settings.serialize_image_pulls:
            text = "maxParallelImagePulls cannot be larger than 1 unless serializeImagePulls is false"
            self.problems.append(Problem(text, path="maxParallelImagePulls"))
        if settings.image_gc_low_percent >= settings.image_gc_high_percent:
            text = "imageGCLowThresholdPercent must be smaller than imageGCHighThresholdPercent"
            self.problems.append(Problem(text, path="imageGCLowThresholdPercent"))
        if settings.preloaded_images_allowlist and settings.image_pull_credentials_policy != (
            "NeverVerifyAllowlistedImages"
        ):
            text = "needs imagePullCredentialsVerificationPolicy NeverVerifyAllowlistedImages"
            self.problems.append(Problem(text, path="preloadedImagesVerificationAllowlist"))
        return settings

    def _field(self, name: str, field: Field, value: Any) -> dict[str, Any]:
        try:
            read = _read(field, value)
        except _Bad as bad:
            self.problems.append(Problem(bad.message, path=name))
            return {}
        if field.zero_is_default and not read:
            return {}
        if isinstance(read, int | float) and not field.low <= read <= field.high:
            self.problems.append(Problem(f"{value!r} is too small: the least is {field.low:g}", path=name))
            return {}
        return {field.setting: read}

    def _gates(self, value: Any) -> Gates:
        if not isinstance(value, Mapping):
            self.problems.append(
                Problem("featureGates must be a mapping of names to true or false", path="featureGates")
            )
            return Gates()
        overrides: dict[str, bool] = {}
        for name, on in cast("Mapping[str, Any]", value).items():
            path = f"featureGates.{name}"
            if not isinstance(on, bool):
                self.problems.append(Problem(f"{on!r} is not true or false", path=path))
            elif name not in DEFAULT_GATES:
                near = nearest(name, tuple(DEFAULT_GATES))
                hint = (
                    f'did you mean "{near}"?'
                    if near
                    else "gates that do not matter to an emulated node are unknown"
                )
                self.problems.append(Problem(f'unknown feature gate "{name}"', path=path, hint=hint))
            else:
                overrides[name] = on
        try:
            return Gates(overrides)
        except CallerError as error:
            self.problems += [evolve(problem, path="featureGates") for problem in error.problems]
            return Gates()

    def _reserved(self, name: str, value: Any) -> None:
        """``systemReserved`` and ``kubeReserved``: of what they set aside only CPUs matter here."""
        for resource, text in self._mapping(name, value).items():
            quantity = self._quantity(f"{name}.{resource}", text)
            if resource == "cpu" and quantity is not None:
                self._reserved_cpu = self._reserved_cpu + quantity

    def _reserved_memory(self, value: Any) -> Mapping[int, Mapping[str, str]]:
        if not isinstance(value, list):
            self.problems.append(Problem("reservedMemory must be a list", path="reservedMemory"))
            return {}
        found: dict[int, Mapping[str, str]] = {}
        for index, item in enumerate(cast("list[Any]", value)):
            path = f"reservedMemory[{index}]"
            given = self._mapping(path, item)
            node = given.get("numaNode", 0)
            if isinstance(node, bool) or not isinstance(node, int) or node < 0:
                self.problems.append(Problem(f"{node!r} is no NUMA node", path=f"{path}.numaNode"))
                continue
            limits = self._mapping(f"{path}.limits", given.get("limits") or {})
            read = {kind: self._quantity(f"{path}.limits.{kind}", text) for kind, text in limits.items()}
            found[node] = {kind: str(quantity) for kind, quantity in read.items() if quantity is not None}
        return found

    def _mapping(self, path: str, value: Any) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return cast("Mapping[str, Any]", value)
        self.problems.append(Problem("must be a mapping", path=path))
        return {}

    def _quantity(self, path: str, value: Any) -> Quantity | None:
        try:
            return Quantity(value if isinstance(value, str | int) else str(value))
        except CallerError as error:
            self.problems.append(Problem(str(error), path=path))
            return None

    def _crash_loop(self, value: Any) -> dict[str, Any]:
        path = f"crashLoopBackOff.{CRASH_LOOP_FIELD}"
        if not isinstance(value, Mapping):
            self.problems.append(Problem("crashLoopBackOff must be a mapping", path="crashLoopBackOff"))
            return {}
        given = cast("Mapping[str, Any]", value)
        for name in given:
            if name != CRASH_LOOP_FIELD:
                text = f'unknown field "crashLoopBackOff.{name}"'
                hint = f"there is {CRASH_LOOP_FIELD}"
                self.problems.append(Problem(text, path=f"crashLoopBackOff.{name}", hint=hint))
        if given.get(CRASH_LOOP_FIELD) is None:
            return {}
        try:
            seconds = _duration(given[CRASH_LOOP_FIELD])
        except _Bad as bad:
            self.problems.append(Problem(bad.message, path=path))
            return {}
        low, high = CRASH_LOOP_SECONDS
        if not low <= seconds <= high:
            self.problems.append(Problem(f"must be between {low:g}s and {high:g}s", path=path))
            return {}
        return {"crash_loop_backoff_max_seconds": seconds}


def _read(field: Field, value: Any) -> Any:
    if field.kind == "duration":
        return _duration(value)
    if field.kind == "bool":
        return _typed(value, bool, "true or false")
    if field.kind == "int":
        if isinstance(value, bool):
            raise _Bad(f"{value!r} is not a whole number")
        return _typed(value, int, "a whole number")
    if field.kind == "string":
        text: str = _typed(value, str, "a text")
        if text and field.choices and text not in field.choices:
            raise _Bad(f"{text!r} is not one of {', '.join(field.choices)}")
        return text
    if field.kind == "options":
        options = cast("Mapping[str, Any]", _typed(value, Mapping, "a mapping of texts"))
        return {name: str(option) for name, option in options.items()}
    if field.kind == "strings":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            raise _Bad(f"{value!r} is not a list of texts")
        return tuple(cast("list[str]", value))
    try:
        return -(-Quantity(value if isinstance(value, str | int) else str(value)).nanos // _NANO)
    except CallerError as error:
        raise _Bad(str(error)) from None


def _typed(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise _Bad(f"{value!r} is not {what}")
    return value


def _duration(value: Any) -> float:
    if isinstance(value, str):
        try:
            nanos = parse_duration(value)
        except (CallerError, ValueError):
            pass
        else:
            if nanos >= 0:
                return nanos / _NANO
    raise _Bad(f"{value!r} is not a duration such as 10s or 1m30s")
