"""One JSON object of a manifest to a value, or to the problems that say why not. (pure)

Decides which kinds a node can take, unwraps lists, and tells how to get at the pod inside a workload.
API-180 to API-186, API-240.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from attrs import evolve, field, frozen

from kubelet_emu.api.codec import from_json, pod_from_json
from kubelet_emu.api.strict import check_strict, nearest
from kubelet_emu.api.types import ApiObject, ConfigMap, Event, Lease, Node, Pod, Secret
from kubelet_emu.api.yaml_source import Document, line_of
from kubelet_emu.errors import CallerError, Problem

__all__ = ["LoadedInput", "LoadedObject", "Source", "objects_of"]

T = TypeVar("T", bound=ApiObject)

_TYPED: Mapping[str, tuple[str, type[ApiObject]]] = {
    "Pod": ("v1", Pod),
    "ConfigMap": ("v1", ConfigMap),
    "Secret": ("v1", Secret),
    "Node": ("v1", Node),
    "Event": ("v1", Event),
    "Lease": ("coordination.k8s.io/v1", Lease),
}
_UNTYPED: Mapping[str, str] = {
    "Namespace": "v1",
    "ServiceAccount": "v1",
    "PodDisruptionBudget": "policy/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
}
_CLUSTER_SCOPED = ("Node", "Namespace")
_SUPPORTED = ", ".join([*_TYPED, *_UNTYPED])
_TEMPLATES: Mapping[str, str] = {
    "Deployment": "spec.template",
    "ReplicaSet": "spec.template",
    "StatefulSet": "spec.template",
    "DaemonSet": "spec.template",
    "ReplicationController": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
    "PodTemplate": "template",
    "JobSet": "spec.replicatedJobs[0].template.spec.template",
    "LeaderWorkerSet": "spec.leaderWorkerTemplate.workerTemplate",
    "PyTorchJob": "spec.pytorchReplicaSpecs.Worker.template",
    "RayCluster": "spec.workerGroupSpecs[0].template",
}
_MAX_LIST_DEPTH = 5


@frozen
class Source:
    """Where an object was read: file name as given (``-`` is standard input), and the lines of its paths."""

    file: str
    lines: Mapping[str, int] = field(factory=dict[str, int], eq=False, repr=False)
    prefix: str = ""
    """Path of the object inside its document, empty unless it is an item of a list."""

    def place(self, problem: Problem) -> Problem:
        """The problem with file and line of its path filled in."""
        path = (
            f"{self.prefix}.{problem.path}" if self.prefix and problem.path else self.prefix or problem.path
        )
        return evolve(problem, file=self.file, line=problem.line or line_of(self.lines, path))


@frozen
class LoadedObject:
    """One object of the input. ``value`` is the typed value, None for kinds that are only carried through."""

    kind: str
    json: Mapping[str, Any]
    value: ApiObject | None
    source: Source


@frozen
class LoadedInput:
    """What was read: all objects in the order of the input, and all problems with file, line and path."""

    objects: tuple[LoadedObject, ...] = ()
    problems: tuple[Problem, ...] = ()

    def values(self, cls: type[T]) -> tuple[T, ...]:
        """All values of one class."""
        return tuple(loaded.value for loaded in self.objects if isinstance(loaded.value, cls))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods, as written: neither defaulted nor validated."""
        return self.values(Pod)

    @property
    def config_maps(self) -> tuple[ConfigMap, ...]:
        return self.values(ConfigMap)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return self.values(Secret)

    @property
    def others(self) -> tuple[LoadedObject, ...]:
        """All objects that are none of the above."""
        return tuple(o for o in self.objects if not isinstance(o.value, Pod | ConfigMap | Secret))

    def raise_problems(self) -> "LoadedInput":
        """Itself if there are no problems; raises ``CallerError`` with all of them otherwise."""
        if self.problems:
            raise CallerError(self.problems)
        return self


def _text(obj: Mapping[str, Any], name: str) -> str:
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def _type_problems(obj: Mapping[str, Any]) -> list[Problem]:
    """``kind not set`` and ``apiVersion not set``, with what was probably written instead."""
    problems: list[Problem] = []
    for name, example in (("kind", "kind: Pod"), ("apiVersion", "apiVersion: v1")):
        if _text(obj, name):
            continue
        wrong = next((key for key in obj if key.lower() == name.lower() and key != name), "")
        hint = f"the field is written {name}, not {wrong}" if wrong else f"add {example}"
        problems.append(Problem(f"{name} not set", path=wrong or name, hint=hint))
    return problems


def _pod_template_hint(kind: str, file: str) -> str:
    path = _TEMPLATES[kind]
    command = f'yq \'.{path} | .apiVersion = "v1" | .kind = "Pod" | .metadata.name = "NAME"\' {file}'
    return f"a node runs Pods only; this one's pod template is at {path}: {command}"


def _kind_problem(obj: Mapping[str, Any], file: str) -> Problem | None:
    kind, version = _text(obj, "kind"), _text(obj, "apiVersion")
    wanted = _TYPED[kind][0] if kind in _TYPED else _UNTYPED.get(kind, "")
    if wanted == version:
        return None
    if wanted:
        message = f'no matches for kind "{kind}" in version "{version}"'
        return Problem(message, path="apiVersion", hint=f"write apiVersion: {wanted}")
    if kind in _TEMPLATES:
        return Problem(f"kind {kind} is not supported", path="kind", hint=_pod_template_hint(kind, file))
    near = nearest(kind, (*_TYPED, *_UNTYPED))
    meant = f'did you mean "{near}"? ' if near else ""
    return Problem(f"kind {kind} is not supported", path="kind", hint=f"{meant}supported: {_SUPPORTED}")


def _items(obj: Mapping[str, Any], source: Source, depth: int) -> Iterator[LoadedObject | Problem]:
    items = obj.get("items")
    if not isinstance(items, list | tuple):
        yield source.place(Problem("items not set", path="items", hint="a List holds its objects in items"))
        return
    item_kind = _text(obj, "kind").removesuffix("List")
    for index, item in enumerate(cast("list[Any]", items)):
        place = f"{source.prefix}.items[{index}]" if source.prefix else f"items[{index}]"
        if item_kind and isinstance(item, Mapping):
            # Items of a typed list need not repeat what the list says.
            typed = {"kind": item_kind, "apiVersion": _text(obj, "apiVersion")}
            item = {**typed, **cast("Mapping[str, Any]", item)}
        yield from _object(item, evolve(source, prefix=place), depth + 1)


def _default_namespace(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    if kind in _CLUSTER_SCOPED or (metadata is not None and not isinstance(metadata, Mapping)):
        return obj
    known: Mapping[str, Any] = cast("Mapping[str, Any]", metadata) or {}
    return (
        obj
        if known.get("namespace") not in (None, "")
        else {**obj, "metadata": {**known, "namespace": "default"}}
    )


def _object(value: Any, source: Source, depth: int = 0) -> Iterator[LoadedObject | Problem]:
    if not isinstance(value, Mapping):
        what = "a list" if isinstance(value, list) else "a single value"
        yield source.place(
            Problem(f"not a Kubernetes object but {what}", hint="an object has kind and apiVersion")
        )
        return
    obj = cast("Mapping[str, Any]", value)
    problems = _type_problems(obj)
    if problems:
        yield from map(source.place, problems)
        return
    kind = _text(obj, "kind")
    if kind == "List" or (kind.endswith("List") and kind.removesuffix("List") in (*_TYPED, *_UNTYPED)):
        if depth >= _MAX_LIST_DEPTH:
            yield source.place(Problem("lists are nested too deeply", path="items"))
        else:
            yield from _items(obj, source, depth)
        return
    wrong_kind = _kind_problem(obj, source.file)
    if wrong_kind:
        yield source.place(wrong_kind)
        return
    obj = _default_namespace(obj, kind)
    if kind not in _TYPED:
        yield LoadedObject(kind, obj, None, source)
        return
    cls = _TYPED[kind][1]
    found = check_strict(cls, obj)
    if found:
        yield from map(source.place, found)
        return
    decoded = pod_from_json(obj) if cls is Pod else from_json(cls, obj)
    yield LoadedObject(kind, obj, decoded, source)


def objects_of(document: Document, file: str) -> Iterator[LoadedObject | Problem]:
    """The objects of one document, lists unwrapped, and every problem with its file and line.

    An object with a problem is not among the objects; a namespaced one without namespace lies in ``default``.
    """
    source = Source(file, document.lines)
    for problem in document.problems:
        yield source.place(problem)
    if document.value is not None and not document.problems:
        yield from _object(document.value, source)
    elif document.value is not None:
        # The text is faulty but readable: say what else is wrong, yet hand out no object.
        yield from (found for found in _object(document.value, source) if isinstance(found, Problem))
