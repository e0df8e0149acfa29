"""What is done to the node while ``run`` runs: ``--do [POD/]ACTION@TIME[+DOWN]``.

The actions are those of scenarios that need nothing but a time (``docs/scenarios.md``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from cri_fake.behaviours import parse_duration
from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.actions import perform
from kubelet_emu.lab.scenarios import Action

if TYPE_CHECKING:
    from kubelet_emu.lab.node import Node

__all__ = ["DEEDS_MAX", "Deed", "do_all", "parse_deeds"]

DEEDS_MAX = 1000
"""Deeds of one run."""

_OF_POD = ("delete", "stop-sandbox")
_OF_NODE = ("restart-kubelet", "restart-runtime", "reboot-node")
_REBOOT_SECONDS = 10.0
_HINT = "such as reboot-node@30s, restart-kubelet@10s+2s, web/delete@1m"


@frozen(kw_only=True)
class Deed:
    """One action at its time. ``pod`` is empty for what is done to the whole node, and for the only pod."""

    action: Action
    pod: str = ""


def parse_deeds(
    texts: Sequence[str], pods: Sequence[str], *, static: bool = False, foreign: bool = False
) -> tuple[Deed, ...]:
    """Read deeds, sorted by time. ``static`` and ``foreign`` say that there is no API, no runtime of ours.

    Raises ``CallerError`` with everything that is wrong.
    """
    problems: list[Problem] = []
    if len(texts) > DEEDS_MAX:
        raise CallerError([Problem(f"more than {DEEDS_MAX} actions", path="--do")])
    deeds: list[Deed] = []
    for text in texts:
        try:
            deeds.append(_parse(text, pods, static=static, foreign=foreign))
        except ValueError as error:
            problems.append(Problem(f"{text!r}: {error}", path="--do", hint=_HINT))
    if problems:
        raise CallerError(problems)
    return tuple(sorted(deeds, key=lambda deed: deed.action.at_seconds))


def _parse(text: str, pods: Sequence[str], *, static: bool, foreign: bool) -> Deed:
    """Raises ``ValueError``."""
    what, at, when = text.partition("@")
    pod, slash, do = what.rpartition("/")
    if not at:
        raise ValueError("write ACTION@TIME")
    if do not in (*_OF_POD, *_OF_NODE):
        raise ValueError(f"unknown action {do!r}; known: {', '.join((*_OF_POD, *_OF_NODE))}")
    time, plus, down = when.partition("+")
    if plus and do in _OF_POD:
        raise ValueError(f"{do} takes no time to be away")
    if slash and do in _OF_NODE:
        raise ValueError(f"{do} concerns the whole node, name no pod")
    if slash and pod not in pods:
        raise ValueError(f"there is no pod {pod!r}")
    if do in _OF_POD and not slash and len(pods) > 1:
        raise ValueError(f"which pod? write POD/{do}@{when}")
    if do in _OF_POD and static:
        raise ValueError(f"{do} needs an API server, leave --static away")
    if foreign and do not in ("delete", "restart-kubelet"):
        raise ValueError(f"{do} needs the built-in runtime, leave --cri-endpoint away")
    seconds = parse_duration(down) if plus else _REBOOT_SECONDS if do == "reboot-node" else 0.0
    action = Action(at_seconds=parse_duration(time), do=do, down_seconds=seconds)
    return Deed(action=action, pod=pod or (pods[0] if do in _OF_POD and pods else ""))


async def do_all(
    node: "Node", deeds: Sequence[Deed], namespaces: Mapping[str, str], *, zero_seconds: float
) -> None:
    """Carry the deeds out, each so long after the beginning of the trace; ``namespaces`` are the pods'."""
    now: Callable[[], float] = node.clock.elapsed_seconds
    for deed in deeds:
        await node.clock.sleep(max(zero_seconds + deed.action.at_seconds - now(), 0.0))
        await perform(node, deed.action, namespace=namespaces.get(deed.pod, "default"), pod=deed.pod)
