"""What was given on the command line, read and checked: manifests, behaviours, gates, the node's shape.

Every mistake is collected with what to do about it; nothing is started before all of it is in order.
"""

import os
import socket
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, field, frozen

from kubelet_emu.errors import CallerError, Problem

if TYPE_CHECKING:
    from cri_fake.behaviours import Behaviours
    from devices.setup import PluginSetup
    from kubelet_emu.api.manifests import LoadedInput
    from kubelet_emu.gates import Gates
    from kubelet_emu.nodeobject import NodeShape
    from kubelet_emu.settings import KubeletSettings

__all__ = [
    "Collector",
    "GivenPods",
    "read_behaviours",
    "read_duration",
    "read_endpoint",
    "read_gates",
    "read_node",
    "read_pods",
    "read_settings",
]

T = TypeVar("T")

_SHAPE_KEYS = ("cpu", "memory", "ephemeral-storage", "pods")
_MACHINE_KEYS = {
    "sockets": "sockets",
    "numa": "nodes_per_socket",
    "cores": "cores_per_node",
    "threads": "threads_per_core",
}


@define
class Collector:
    """Runs readers and keeps their problems, so that all can be told at once."""

    problems: list[Problem] = field(factory=list[Problem])

    def read(self, reader: Callable[[], T], default: T) -> T:
        """What the reader returns, or ``default`` if it raised ``CallerError``."""
        try:
            return reader()
        except CallerError as error:
            self.problems += error.problems
            return default

    def raise_all(self) -> None:
        """Raise ``CallerError`` with everything found, if anything was."""
        if self.problems:
            raise CallerError(list(dict.fromkeys(self.problems)))


def read_duration(option: str, text: str) -> float:
    """Seconds of a duration such as ``35s`` or ``2m30s``."""
    from cri_fake.behaviours import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise CallerError([Problem(str(error), path=option)]) from None


# -- pods --


@frozen
class GivenPods:
    """Objects as they are to be created: pods, what they refer to, and what is odd but legal."""

    pods: tuple[Mapping[str, Any], ...] = ()
    objects: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[Problem, ...] = ()
    devices: "tuple[PluginSetup, ...]" = ()
    """The plugins that the pods' annotations ask for."""

    @property
    def containers(self) -> dict[str, tuple[str, ...]]:
        """Names of the containers of each pod, by the pod's name."""
        found: dict[str, tuple[str, ...]] = {}
        for pod in self.pods:
            spec: Mapping[str, Any] = pod.get("spec") or {}
            kinds = ("initContainers", "containers", "ephemeralContainers")
            names = tuple(c["name"] for kind in kinds for c in spec.get(kind) or ())
            found[str(pod["metadata"].get("name") or pod["metadata"].get("generateName", ""))] = names
        return found


_APPLIED = ("ConfigMap", "Secret", "Service", "Namespace", "ResourceClaim", "ResourceClaimTemplate")


def read_pods(
    paths: Sequence[str], gates: "Gates", *, static: bool, told: Callable[[str, str], bool]
) -> GivenPods:
    """Load, default and validate manifests. ``told(pod, container)``: its end is told from outside.

    Raises ``CallerError`` with all problems of all files.
    """
    from kubelet_emu.api.check import check_input
    from kubelet_emu.api.manifests import load
    from kubelet_emu.lab.annotated import annotated_devices

    loaded = load(paths, stdin=sys.stdin.buffer)
    checked = check_input(loaded, gates=gates)
    problems, warnings = list(checked.problems), list(checked.warnings)
    pods = [item for item in loaded.objects if item.kind == "Pod"]
    others = [item for item in loaded.objects if item.kind != "Pod"]
    devices: tuple[PluginSetup, ...] = ()
    try:
        devices = annotated_devices(pods)
    except CallerError as error:
        problems += error.problems
    if not problems:
        problems += _shell_problems(loaded, told)
        if static:
            problems += _static_problems(loaded, gates)
    for item in others:
        if item.kind not in _APPLIED or static:
            name = item.json.get("metadata", {}).get("name", "")
            problem = Problem(f"{item.kind} {name} is not used", hint="a run is about Pods")
            warnings.append(item.source.place(problem))
    if not pods and not problems:
        problems.append(Problem("there is no Pod among the objects", hint="give at least one Pod manifest"))
    if problems:
        raise CallerError(problems)
    applied = () if static else tuple(item.json for item in others if item.kind in _APPLIED)
    return GivenPods(tuple(item.json for item in pods), applied, tuple(warnings), devices)


def _static_problems(loaded: "LoadedInput", gates: "Gates") -> list[Problem]:
    from kubelet_emu.api.static_pods import reference_problem
    from kubelet_emu.api.types import Pod

    if not gates.enabled("PreventStaticPodAPIReferences"):
        return []
    return [
        item.source.place(Problem(text, path="spec", hint="leave --static away to run it through the API"))
        for item in loaded.objects
        if isinstance(item.value, Pod) and (text := reference_problem(item.value))
    ]


def _shell_problems(loaded: "LoadedInput", told: Callable[[str, str], bool]) -> list[Problem]:
    """Scripts that the emulated shell cannot read, unless the container's end is told anyway."""
    from cri_fake.process.shell.parser import parse
    from kubelet_emu.cli.scripts import scripts_of

    problems: list[Problem] = []
    for item in loaded.objects:
        if item.kind != "Pod":
            continue
        for script in scripts_of(item.json):
            if told(str(item.json["metadata"].get("name", "")), script.container):
                continue
            error = parse(script.text).error
            if error is not None:
                message = f"the emulated shell cannot run this script: its line {error.line}: {error.message}"
                hint = (
                    "it speaks POSIX as busybox ash does: write it so, or say what the container does with "
                    f"--exit {script.container}=CODE@TIME or --behaviour FILE"
                )
                problems.append(item.source.place(Problem(message, path=script.path, hint=hint)))
    return problems


# -- behaviours --


def read_behaviours(exits: Sequence[str], file: str | None) -> "Behaviours":
    """``--behaviour`` and every ``--exit``, which wins over it."""
    from cri_fake.behaviours import BehaviourProblem, Behaviours, parse_exit

    problems: list[Problem] = []
    told = Behaviours()
    if file is not None:
        from cri_fake.behaviour_file import parse_behaviours

        try:
            told = parse_behaviours(_text_of(file, "--behaviour"), file=file)
        except CallerError as error:
            problems += error.problems
        except BehaviourProblem as error:
            problems += [Problem(f"{place}: {text}" if place else text) for place, text in error.problems]
    for text in exits:
        try:
            target, behaviour = parse_exit(text)
            told = told.merged_with(Behaviours({target: behaviour}))
        except BehaviourProblem as error:
            problems += [Problem(message, path="--exit") for _, message in error.problems]
    if problems:
        raise CallerError(problems)
    return told


def check_targets(told: "Behaviours", containers: Mapping[str, Sequence[str]]) -> None:
    """Raises ``CallerError`` for behaviours of containers that no pod has."""
    from kubelet_emu.api.strict import nearest

    problems: list[Problem] = []
    for target in told.by_target:
        pods = [target.pod] if target.pod else list(containers)
        if any(target.name in containers.get(pod, ()) for pod in pods):
            continue
        known = sorted(
            {f"{pod}/{name}" if target.pod else name for pod in containers for name in containers[pod]}
        )
        near = nearest(str(target).partition("#")[0], known)
        hint = f"did you mean {near}? " if near else ""
        problems.append(
            Problem(
                f"no container {str(target)!r} in these pods", hint=f"{hint}there are: {', '.join(known)}"
            )
        )
    if problems:
        raise CallerError(problems)


def _text_of(file: str, option: str) -> str:
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read(4 << 20)
    except OSError as error:
        raise CallerError([Problem(f"{file} cannot be read: {error.strerror}", path=option)]) from None
    except UnicodeDecodeError:
        raise CallerError([Problem(f"{file} is not UTF-8 text", path=option)]) from None


# -- the node --


def read_gates(settings: "KubeletSettings", texts: Sequence[str]) -> "Gates":
    """The gates of the configuration file with each ``--gate NAME=true|false`` laid over them."""
    from kubelet_emu.gates import Gates

    problems: list[Problem] = []
    overrides = dict(settings.gates.overrides)
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or value.lower() not in ("true", "false"):
            hint = "such as RestartAllContainersOnContainerExits=false"
            problems.append(Problem(f"{text!r} is not NAME=true or NAME=false", path="--gate", hint=hint))
        else:
            overrides[name.strip()] = value.lower() == "true"
    if problems:
        raise CallerError(problems)
    return Gates(overrides)


def read_node(text: str) -> "NodeShape":
    """``cpu=4,memory=8Gi,pods=20``; any other key is an extended resource, such as ``example.com/gpu=8``."""
    from attrs import evolve

    from kubelet_emu.api.quantity import Quantity
    from kubelet_emu.nodeobject import NodeShape

    shape, problems = NodeShape(), list[Problem]()
    machine: dict[str, int] = {}
    cpu_given = False
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if equals and name in _MACHINE_KEYS:
            if value.isdigit() and 0 < int(value) <= 1024:
                machine[_MACHINE_KEYS[name]] = int(value)
            else:
                problems.append(Problem(f"{part!r}: a whole number from 1 to 1024", path="--node"))
            continue
        if not equals or not (name in _SHAPE_KEYS or "/" in name):
            hint = (
                "write cpu=4,memory=8Gi,pods=20; also ephemeral-storage, example.com/gpu=8 and, for the "
                "machine, sockets=2,numa=1,cores=8,threads=2 (NUMA nodes a socket, cores a node)"
            )
            problems.append(Problem(f"{part!r} is no resource of a node", path="--node", hint=hint))
            continue
        try:
            quantity = Quantity.parse(value)
        except (CallerError, ValueError) as error:
            problems.append(Problem(f"{part!r}: {error}", path="--node"))
            continue
        if name == "pods" and not value.isdigit():
            problems.append(Problem(f"{part!r}: the number of pods is a whole number", path="--node"))
        elif str(quantity).startswith("-"):
            problems.append(Problem(f"{part!r}: a node cannot have less than nothing", path="--node"))
        elif name == "pods":
            shape = evolve(shape, pods=int(value))
        elif "/" in name:
            shape = evolve(shape, extended={**shape.extended, name: value})
        else:
            shape = evolve(shape, **{name.replace("-", "_"): value})
            cpu_given = cpu_given or name == "cpu"
    if problems:
        raise CallerError(problems)
    return shape.with_machine(**machine, cpu_given=cpu_given) if machine else shape


def read_settings(file: str | None) -> "KubeletSettings":
    """The settings of a KubeletConfiguration file; the defaults without one."""
    from kubelet_emu.settings import KubeletSettings

    if file is None:
        return KubeletSettings()
    from kubelet_emu.config.kubelet_configuration import settings_from_text

    return settings_from_text(_text_of(file, "--config"), file=file)


def read_endpoint(text: str) -> str:
    """The socket path of ``--cri-endpoint``, if somebody listens there."""
    path = text.removeprefix("unix://")
    hint = f"start the runtime first, for instance: cri-fake serve --root / --socket {path}"
    problem = ""
    if "://" in path or not path.startswith("/"):
        problem, hint = f"{text!r} is no unix socket", "write unix:///run/containerd/containerd.sock"
    else:
        try:
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                problem, hint = f"{path} is not a socket", "give the socket that the runtime serves CRI on"
            else:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                    probe.settimeout(5.0)
                    probe.connect(path)
        except FileNotFoundError:
            problem = f"there is no socket at {path}"
        except PermissionError:
            problem, hint = f"{path} may not be opened by this user", "run as a user who may"
        except OSError as error:
            problem = f"nobody listens at {path}: {error.strerror or error}"
    if problem:
        raise CallerError([Problem(problem, path="--cri-endpoint", hint=hint)])
    return path
