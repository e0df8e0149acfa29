"""The commands that a person gives a running runtime: one line of text each, read into a value (pure).

Most are deeds of the fault grammar, the one in which runs of the simulator are written too (see
``node_host.plan`` and ``node_host.faults``)::

    error METHOD CODE ["TEXT"] [xN]     delay METHOD SECONDS [xN]      duplicate METHOD [xN]
    hang METHOD [SECONDS] [xN]          lose-reply METHOD [SECONDS | CODE] [xN]
    METHOD: TERM -> TERM                such as StartContainer: 2*off -> 1*error(UNAVAILABLE)
    signal POD/CONTAINER N              oom POD/CONTAINER
    kill-sandbox POD                    stop-sandbox POD
    crash | restart runtime [lose-state] [down SECONDS]
    reboot node [lose-state] [down SECONDS]
    registry down SECONDS               slow processes xFACTOR SECONDS

What else a runtime that serves real clients needs::

    status
    faults | faults clear               show the rules that are not used up; forget them
    latency METHOD SECONDS              such as 0.5, 0.1..0.5, ~0.2, 0.2+-0.05, x3, or default
    disk full | ok                      registry up | down             network not-ready | ready

In a file blank lines and ``#`` comments are left out, and a line may begin with ``@TIME``, counted from the
start of the runtime.
"""

import re

from attrs import frozen

from node_host.faults import FaultSyntaxError, Spread, parse_spread
from node_host.plan import (
    Crash,
    Deed,
    Reboot,
    RegistryDown,
    SlowProcesses,
    UserAction,
    WireFault,
    parse_deed,
    parse_seconds,
)

__all__ = [
    "ClearFaults",
    "Command",
    "CommandProblem",
    "RuntimeDeed",
    "SetLatency",
    "Show",
    "Timed",
    "Toggle",
    "parse_command",
    "parse_script",
]

MAX_LINE_BYTES = 65536
MAX_SCRIPT_LINES = 10_000
_MAX_FACTOR = 1000.0
_METHOD = re.compile(r"[A-Z][A-Za-z]{2,40}")
_AT = re.compile(r"@(\S+)\s+(.*)", re.DOTALL)


class CommandProblem(Exception):
    """Raised for a line that is no command; the text says what would be right."""


@frozen
class ClearFaults:
    """Forget all rules."""


@frozen
class Show:
    """Tell something: ``faults`` or ``status``."""

    what: str


@frozen
class SetLatency:
    """The time of one method: seconds, a spread, a factor on what it has, or None for its own again."""

    method: str
    seconds: float | Spread | None
    factor: float | None = None


@frozen
class Toggle:
    """``disk``, ``registry`` or ``network``: in order, or not."""

    what: str
    fine: bool


RuntimeDeed = WireFault | Crash | Reboot | RegistryDown | SlowProcesses | UserAction
"""Deeds that a runtime alone can do."""
Command = ClearFaults | Show | SetLatency | Toggle | RuntimeDeed

_TOGGLES = {
    ("disk", "full"): False,
    ("disk", "ok"): True,
    ("registry", "down"): False,
    ("registry", "up"): True,
    ("network", "not-ready"): False,
    ("network", "ready"): True,
}
_RUNTIME_ACTIONS = ("signal", "oom", "kill-sandbox", "stop-sandbox")


@frozen
class Timed:
    """A command of a file; ``line`` counts from 1."""

    at_seconds: float
    line: int
    command: Command


def parse_command(text: str) -> Command:
    """Read one line.

    Raises:
        CommandProblem: it is none of the commands.
    """
    if len(text.encode("utf-8", "replace")) > MAX_LINE_BYTES:
        raise CommandProblem(f"the command is longer than {MAX_LINE_BYTES} bytes")
    words = text.split()
    match words:
        case ["status"]:
            return Show("status")
        case ["faults"]:
            return Show("faults")
        case ["faults", "clear"]:
            return ClearFaults()
        case ["latency", *rest]:
            return _latency(rest)
        case ["disk" | "registry" | "network" as what, state] if (what, state) in _TOGGLES:
            return Toggle(what, _TOGGLES[what, state])
        case ["disk" | "network" as what, *_]:
            right = " or ".join(state for known, state in _TOGGLES if known == what)
            raise CommandProblem(f"{text.strip()!r}: write {what} {right}")
        case _:
            return _deed(text)


def _deed(text: str) -> RuntimeDeed:
    try:
        deed: Deed = parse_deed(text)
    except FaultSyntaxError as problem:
        more = "beside that: status, faults, latency, disk, network, registry up"
        raise CommandProblem(f"{problem}; {more}") from None
    match deed:
        case WireFault() | Reboot() | RegistryDown() | SlowProcesses() | Crash(peer="runtime"):
            return deed
        case UserAction(do=do) if do in _RUNTIME_ACTIONS:
            return deed
        case _:
            raise CommandProblem(f"{text.strip()!r} is nothing that a runtime alone can do")


def _latency(words: list[str]) -> SetLatency:
    if len(words) != 2 or not _METHOD.fullmatch(words[0]):
        raise CommandProblem("write latency METHOD SECONDS, such as latency StartContainer 0.1..0.5")
    method, text = words
    if text == "default":
        return SetLatency(method, None)
    if text.startswith("x"):
        factor = parse_spread(text[1:])
        if isinstance(factor, float) and factor <= _MAX_FACTOR:
            return SetLatency(method, None, factor)
    else:
        seconds = parse_spread(text)
        if seconds is not None:
            return SetLatency(method, seconds)
    raise CommandProblem(
        f"latency {text!r}: write seconds (0.5), a spread (0.1..0.5, ~0.2, 0.2+-0.05), "
        "a factor (x3) or default"
    )


def parse_script(text: str) -> tuple[Timed, ...]:
    """Read a file of commands.

    Raises:
        CommandProblem: a line is none; all such lines are named.
    """
    lines = text.splitlines()
    if len(lines) > MAX_SCRIPT_LINES:
        raise CommandProblem(f"{len(lines)} lines are too many; at most {MAX_SCRIPT_LINES} are allowed")
    found: list[Timed] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        at = _AT.fullmatch(line)
        try:
            seconds = parse_seconds(at[1]) if at is not None else 0.0
            found.append(Timed(seconds, number, parse_command(line if at is None else at[2])))
        except (CommandProblem, FaultSyntaxError) as problem:
            problems.append(f"line {number}: {problem}")
    if problems:
        raise CommandProblem("\n".join(problems))
    return tuple(sorted(found, key=lambda timed: (timed.at_seconds, timed.line)))
