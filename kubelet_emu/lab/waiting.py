"""Waiting on a node until something holds: a condition, a phase, silence, or a check of the trace."""

from collections.abc import Callable
from contextlib import suppress

import trio

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.lab.checks import evaluate
from kubelet_emu.lab.checks_grammar import CheckSyntaxError, parse_check, parse_expr
from kubelet_emu.lab.checks_values import Check, Final
from kubelet_emu.lab.ending import EndWatch
from kubelet_emu.lab.node import Node
from kubelet_emu.lab.until import Until, UntilDuration, parse_until
from kubelet_emu.trace.schema import Record

__all__ = ["advance_until"]

_TELLING = ("pod", "event", "cri", "process", "action", "device", "node")
"""Kinds of records that can make a check hold that did not hold before."""


def _read(text: str) -> Until | Check:
    """What ``until`` may be: a form of ``--until``, a check, or the expression of a ``final`` check."""
    try:
        return parse_until(text)
    except CallerError as error:
        refused = error
    with suppress(CheckSyntaxError):
        return parse_check(text)
    with suppress(CheckSyntaxError):
        return Final(parse_expr(text))
    hint = (
        "give a phase (Succeeded), a condition (Ready, Ready=False), settled, or a check "
        "such as 'final main.restartCount = 1'"
    )
    raise CallerError([Problem(f"cannot understand {text!r}", path="until", hint=hint)]) from refused


async def advance_until(node: Node, until: str, *, within_seconds: float, pod: str = "") -> bool:
    """Let time pass until ``until`` holds; False if it does not within ``within_seconds``.

    ``pod`` is whom a check is about, by default the first pod. Raises ``CallerError`` for a text that is
    neither a condition, a phase, ``settled`` nor a check.
    """
    wanted = _read(until)
    if isinstance(wanted, UntilDuration):
        await node.advance(min(wanted.seconds, within_seconds))
        return wanted.seconds <= within_seconds
    if not isinstance(wanted, Until):
        return await _until_check(node, wanted, within_seconds, pod)
    watch = EndWatch(
        wanted,
        max_seconds=node.clock.elapsed_seconds() - node.recorder.zero_seconds + within_seconds,
        now=node.clock.elapsed_seconds,
        zero_seconds=node.recorder.zero_seconds,
        pods=lambda: node.store.list("Pod"),
    )
    with node.recorder.listening(watch.look):
        ending = await watch.wait()
    return ending.as_asked


async def _until_check(node: Node, check: Check, within_seconds: float, pod: str) -> bool:
    def holds() -> bool:
        trace = node.trace
        return bool(trace.pods) and evaluate(check, trace, pod=pod).ok

    if holds():
        return True
    return await _until_record(node, lambda record: record["k"] in _TELLING and holds(), within_seconds)


async def _until_record(node: Node, holds: Callable[[Record], bool], within_seconds: float) -> bool:
    found = trio.Event()

    def look(record: Record) -> None:
        if not found.is_set() and holds(record):
            found.set()

    with node.recorder.listening(look), trio.move_on_after(within_seconds):
        await found.wait()
    return found.is_set()
