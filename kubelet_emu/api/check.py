"""Loaded manifests to pods that can run, or to problems with file and line. (pure)

Joins what ``kubectl create`` and the API server do in turn: defaults, fields of gates that are off,
validation.
"""

from attrs import evolve, frozen

from kubelet_emu.api.defaults import default_pod
from kubelet_emu.api.objects import LoadedInput, LoadedObject
from kubelet_emu.api.strategy import prepare_for_create, warnings_of
from kubelet_emu.api.types import Pod
from kubelet_emu.api.validation import validate_pod_create
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.gates import Gates

__all__ = ["CheckedInput", "check_input"]

_GENERATED = "x" * 5


@frozen
class CheckedInput:
    """``pods`` are defaulted and valid; ``problems`` has those of loading and those of validation."""

    pods: tuple[Pod, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def raise_problems(self) -> "CheckedInput":
        """Itself if there are no problems; raises ``CallerError`` with all of them otherwise."""
        if self.problems:
            raise CallerError(self.problems)
        return self


def _named(pod: Pod) -> Pod:
    """A pod that leaves its name to the server is checked under one such as it would get."""
    meta = pod.metadata
    if meta.name or not meta.generate_name:
        return pod
    return evolve(pod, metadata=evolve(meta, name=meta.generate_name + _GENERATED))


def _check(loaded: LoadedObject, pod: Pod, gates: Gates) -> tuple[Pod, list[Problem], list[Problem]]:
    ready = prepare_for_create(default_pod(pod), gates)
    problems: list[Problem] = [
        loaded.source.place(Problem(error.message, path=error.path))
        for error in validate_pod_create(_named(ready), gates=gates)
    ]
    warnings: list[Problem] = []
    for text in warnings_of(ready):
        path, _, message = text.partition(": ")
        warnings.append(loaded.source.place(Problem(message, path=path)))
    return ready, problems, warnings


def check_input(loaded: LoadedInput, *, gates: Gates | None = None) -> CheckedInput:
    """Default and validate every pod of an input; the order of the input is kept."""
    pods: list[Pod] = []
    problems: list[Problem] = list(loaded.problems)
    warnings: list[Problem] = []
    for item in loaded.objects:
        if isinstance(item.value, Pod):
            ready, found, noted = _check(item, item.value, gates or Gates())
            problems += found
            warnings += noted
            if not found:
                pods.append(ready)
    return CheckedInput(tuple(pods), tuple(problems), tuple(warnings))
