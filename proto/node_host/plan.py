"""The other half of the fault grammar: faults and actions at a moment of a run (pure).

    line    = "@" seconds [trigger] deed         seconds count from the run's zero; "@0s" is its start
    trigger = "after" N [method] "calls"         as soon as the N-th call (of that method) has been answered
            | "after" N "records"                as soon as the N-th further record of the trace is there
    deed    = "error" method code ["text"] [xN]  the next N calls (1 without) are answered with this code
            | "delay" method seconds [xN]        are handed over that much later
            | "hang" method [seconds] [xN]       are never seen by the peer; UNAVAILABLE after seconds (30)
            | "lose-reply" method [seconds | code] [xN]   are done, but the answer is lost
            | "duplicate" method [xN]            reach the peer twice
            | rule                               any rule of node_host.faults: Method: term -> term
            | "crash" peer ["down" seconds]      kubelet, plugin RESOURCE, or
                                                 runtime [keep-state | lose-processes | lose-state]
            | "restart" peer ["down" seconds]    the same in good order, where the peer knows a difference
            | "reboot node" [lose-state] ["down" seconds]
            | "miss-pleg" [xN] | "late-pleg" seconds [xN]
            | "api away" seconds | "api stale" seconds | "api conflict" [xN]
            | "registry down" seconds
            | "clock" ("+" | "-") seconds
            | "slow processes" xFACTOR seconds
            | "device" ID health
            | "delete pod" POD ["grace" seconds]
            | "image" POD/CONTAINER IMAGE | "ephemeral" POD NAME [IMAGE]
            | "resize" POD/CONTAINER key=value … | "signal" POD/CONTAINER number | "oom" POD/CONTAINER
            | "remove" POD/CONTAINER
            | "stop-sandbox" POD | "kill-sandbox" POD

Seconds are written ``4s``, ``1m30s``, ``250ms`` or as a bare number. ``str()`` of what is read here gives the
line in its one normal form, and reading that gives the same value again.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from node_host.faults import CODES, MAX_COUNT, Fault, FaultSyntaxError, Rule, Term, parse

__all__ = [
    "ApiFault",
    "ClockJump",
    "Crash",
    "Deed",
    "DeviceHealth",
    "PlegFault",
    "Reboot",
    "RegistryDown",
    "SlowProcesses",
    "Trigger",
    "UserAction",
    "WireFault",
    "ends_after_seconds",
    "parse_deed",
    "parse_line",
    "parse_seconds",
    "parse_triggered",
    "seconds_text",
]

BROKEN_AFTER_SECONDS = 30.0
"""A call that hangs, or whose answer was lost, ends in UNAVAILABLE after so long if nothing else is said."""

DOWN_SECONDS: Mapping[str, float] = {"kubelet": 0.0, "runtime": 1.0, "plugin": 1.0, "node": 10.0}
"""How long a peer is away where the step does not say."""

SECONDS_MAX = 86_400.0
FACTOR_MAX = 1_000.0

_WORD = re.compile(r'"[^"]*"|\S+')
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TIMES = re.compile(r"x([1-9]\d{0,8})")
_METHOD = re.compile(r"\*|[A-Za-z][A-Za-z0-9_]*")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


def parse_seconds(text: str) -> float:
    """Seconds of ``4s``, ``1m30s``, ``250ms`` or a bare number. Raises FaultSyntaxError."""
    parts = _PART.findall(text)
    if _NUMBER.fullmatch(text):
        seconds = float(text)
    elif parts and "".join(number + unit for number, unit in parts) == text:
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        raise FaultSyntaxError(f"{text!r} is no duration; write such as 4s, 1m30s, 250ms")
    if seconds > SECONDS_MAX:
        raise FaultSyntaxError(f"{text!r} is too long; at most {SECONDS_MAX:g} s")
    return round(seconds, 6)


def seconds_text(seconds: float) -> str:
    """The normal form of a duration, to the microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


@frozen(kw_only=True)
class Trigger:
    """What a step waits for beside its time: the ``count``-th call or record from then on."""

    count: int
    unit: Literal["calls", "records"]
    method: str = ""
    """Only calls of this method count; empty for all."""

    def __str__(self) -> str:
        return f"after {self.count} {self.method + ' ' if self.method else ''}{self.unit}"


@frozen(kw_only=True)
class WireFault:
    """Faults of calls from now on, until they are used up."""

    rule: Rule

    def __str__(self) -> str:
        rule = self.rule
        if len(rule.terms) != 1 or rule.terms[0].count is None:
            return str(rule)
        fault, count = rule.terms[0].fault, rule.terms[0].count
        times = f" x{count}" if count > 1 else ""
        if fault.kind == "error":
            details = f' "{fault.details}"' if fault.details else ""
            return f"error {rule.method} {fault.code}{details}{times}"
        if fault.kind == "delay" and fault.spread is None:
            return f"delay {rule.method} {seconds_text(fault.seconds)}{times}"
        if fault.kind == "duplicate":
            return f"duplicate {rule.method}{times}"
        if fault.kind == "hang" and fault.seconds:
            return f"hang {rule.method} {seconds_text(fault.seconds)}{times}"
        if fault.kind == "lost" and fault.code is None and fault.seconds:
            return f"lose-reply {rule.method} {seconds_text(fault.seconds)}{times}"
        if fault.kind == "lost" and fault.code is not None and not fault.details:
            return f"lose-reply {rule.method} {fault.code}{times}"
        return str(rule)


@frozen(kw_only=True)
class Crash:
    """A peer dies and comes back ``down_seconds`` later. ``graceful``: it is asked to stop."""

    peer: Literal["kubelet", "runtime", "plugin"]
    resource: str = ""
    down_seconds: float
    lose_state: bool = False
    lose_processes: bool = False
    graceful: bool = False

    def __str__(self) -> str:
        more = f" {self.resource}" if self.resource else ""
        more += " lose-state" if self.lose_state else " lose-processes" if self.lose_processes else ""
        return f"{'restart' if self.graceful else 'crash'} {self.peer}{more}{_down(self)}"


@frozen(kw_only=True)
class Reboot:
    """The node loses its power and comes up again."""

    down_seconds: float
    lose_state: bool = False

    def __str__(self) -> str:
        return f"reboot node{' lose-state' if self.lose_state else ''}{_down(self)}"


@frozen(kw_only=True)
class PlegFault:
    """The next ``count`` events of PLEG arrive ``late_seconds`` late, or (None) never."""

    count: int = 1
    late_seconds: float | None = None

    def __str__(self) -> str:
        head = "miss-pleg" if self.late_seconds is None else f"late-pleg {seconds_text(self.late_seconds)}"
        return f"{head}{f' x{self.count}' if self.count > 1 else ''}"


@frozen(kw_only=True)
class ApiFault:
    """The API server is away or stale for ``seconds``, or refuses ``count`` writes with a conflict."""

    kind: Literal["away", "stale", "conflict"]
    seconds: float = 0.0
    count: int = 1

    def __str__(self) -> str:
        if self.kind == "conflict":
            return f"api conflict{f' x{self.count}' if self.count > 1 else ''}"
        return f"api {self.kind} {seconds_text(self.seconds)}"


@frozen(kw_only=True)
class RegistryDown:
    """No image can be pulled for so long."""

    seconds: float

    def __str__(self) -> str:
        return f"registry down {seconds_text(self.seconds)}"


@frozen(kw_only=True)
class ClockJump:
    """The time of day jumps; durations and timers do not."""

    seconds: float

    def __str__(self) -> str:
        return f"clock {'-' if self.seconds < 0 else '+'}{seconds_text(abs(self.seconds))}"


@frozen(kw_only=True)
class SlowProcesses:
    """What the runtime does with processes takes ``factor`` times as long for ``seconds``."""

    factor: float
    seconds: float

    def __str__(self) -> str:
        return f"slow processes x{_number(self.factor)} {seconds_text(self.seconds)}"


@frozen(kw_only=True)
class DeviceHealth:
    """A plugin reports a health for a device: an id, the start of one, or ``[RESOURCE]#N``."""

    device: str
    health: Literal["healthy", "unhealthy"]

    def __str__(self) -> str:
        return f"device {self.device} {self.health}"


UserDo: TypeAlias = Literal[
    "delete", "image", "ephemeral", "resize", "signal", "oom", "remove", "stop-sandbox", "kill-sandbox"
]


@frozen(kw_only=True)
class UserAction:
    """What a person does to a pod, through the API or past it."""

    do: UserDo
    pod: str
    container: str = ""
    value: str = ""
    """Image, or number of the signal."""
    grace_seconds: int | None = None
    resources: Mapping[str, str] = field(factory=dict[str, str])

    def __str__(self) -> str:
        if self.do == "delete":
            grace = "" if self.grace_seconds is None else f" grace {self.grace_seconds}"
            return f"delete pod {self.pod}{grace}"
        if self.do in ("stop-sandbox", "kill-sandbox"):
            return f"{self.do} {self.pod}"
        value = f" {self.value}" if self.value else ""
        if self.do == "ephemeral":
            return f"ephemeral {self.pod} {self.container}{value}"
        if self.do == "resize":
            value = "".join(f" {key}={amount}" for key, amount in self.resources.items())
        return f"{self.do} {self.pod}/{self.container}{value}"


Deed: TypeAlias = (
    WireFault
    | Crash
    | Reboot
    | PlegFault
    | ApiFault
    | RegistryDown
    | ClockJump
    | SlowProcesses
    | DeviceHealth
    | UserAction
)


def ends_after_seconds(deed: Deed) -> float:
    """How long the fault lasts by itself, in seconds from its beginning; wire faults last until used up."""
    if isinstance(deed, Crash | Reboot):
        return deed.down_seconds
    if isinstance(deed, PlegFault):
        return deed.late_seconds or 0.0
    if isinstance(deed, ApiFault | RegistryDown | SlowProcesses):
        return deed.seconds
    return 0.0


# -- reading --


def parse_line(text: str) -> tuple[float, Trigger | None, Deed]:
    """Read ``@5s [after 3 calls] DEED``. Raises FaultSyntaxError."""
    head, _, rest = text.strip().partition(" ")
    if not head.startswith("@"):
        raise FaultSyntaxError(f"{text!r} does not say when; write such as '@5s crash kubelet'")
    try:
        at_seconds = parse_seconds(head[1:])
    except FaultSyntaxError as error:
        raise FaultSyntaxError(f"{text!r}: {error}") from None
    return at_seconds, *parse_triggered(rest)


def parse_triggered(text: str) -> tuple[Trigger | None, Deed]:
    """Read ``[after 3 calls] DEED``. Raises FaultSyntaxError."""
    words = _WORD.findall(text)
    if not words or words[0] != "after":
        return None, parse_deed(text)
    number = words[1] if len(words) > 1 else ""
    at = 3 if len(words) > 3 and words[2] not in ("calls", "records") else 2
    unit = words[at] if len(words) > at else ""
    method = words[2] if at == 3 else ""
    if not (number.isascii() and number.isdigit() and 1 <= len(number) <= 9 and int(number)):
        raise FaultSyntaxError(f"{text!r}: {number!r} is no count; write such as 'after 3 calls'")
    if unit not in ("calls", "records") or (method and (unit == "records" or not _METHOD.fullmatch(method))):
        raise FaultSyntaxError(
            f"{text!r}: write 'after N calls', 'after N METHOD calls' or 'after N records' and what happens"
        )
    rest = text.split(unit, 1)[1].strip()
    kind: Literal["calls", "records"] = "calls" if unit == "calls" else "records"
    return Trigger(count=int(number), unit=kind, method=method), parse_deed(rest)


def parse_deed(text: str) -> Deed:
    """Read one deed. Raises FaultSyntaxError that says what would be right."""
    words = _WORD.findall(text)
    if not words:
        raise FaultSyntaxError(f"nothing happens in {text!r}; write one of {', '.join(_READERS)}")
    reader = _READERS.get(words[0])
    if reader is not None:
        given = _Words(text, words)
        deed = reader(given)
        given.end()
        return deed
    if ":" in text:
        rules = parse(text)
        if len(rules) != 1:
            raise FaultSyntaxError(f"{text!r}: a step has one rule; write one step for each")
        return WireFault(rule=rules[0])
    raise FaultSyntaxError(f"{text!r}: {words[0]!r} is nothing that can happen; one of {', '.join(_READERS)}")


class _Words:
    """The words of one deed, taken one after the other."""

    def __init__(self, text: str, words: list[str]) -> None:
        self.text = text
        self._words = words
        self._at = 1

    def wrong(self, what: str) -> FaultSyntaxError:
        return FaultSyntaxError(f"{self.text!r}: {what}")

    def peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, what: str) -> str:
        word = self.peek()
        if not word:
            raise self.wrong(f"{what} is missing")
        self._at += 1
        return word

    def took(self, word: str) -> bool:
        """Whether the next word is this one; takes it if so."""
        if self.peek() == word:
            self._at += 1
            return True
        return False

    def one_of(self, what: str, *allowed: str) -> str:
        word = self.take(what)
        if word not in allowed:
            raise self.wrong(f"{word!r} is no {what}; one of {', '.join(allowed)}")
        return word

    def method(self) -> str:
        word = self.take("method")
        if not _METHOD.fullmatch(word):
            raise self.wrong(f"{word!r} is no method name; write a wire name such as StartContainer, or *")
        return word

    def seconds(self, what: str = "duration") -> float:
        try:
            return parse_seconds(self.take(what))
        except FaultSyntaxError as error:
            raise self.wrong(str(error)) from None

    def times(self) -> int:
        found = _TIMES.fullmatch(self.peek())
        if found is None:
            return 1
        self._at += 1
        return int(found[1])

    def name(self, what: str) -> str:
        word = self.take(what)
        if not _NAME.fullmatch(word):
            raise self.wrong(f"{word!r} is no name of a {what}")
        return word

    def container(self) -> tuple[str, str]:
        word = self.take("POD/CONTAINER")
        pod, slash, name = word.partition("/")
        if not slash or not _NAME.fullmatch(pod) or not _NAME.fullmatch(name):
            raise self.wrong(f"{word!r} is no container; write POD/CONTAINER")
        return pod, name

    def down(self, peer: str) -> float:
        return self.seconds() if self.took("down") else DOWN_SECONDS[peer]

    def rest(self) -> list[str]:
        words, self._at = self._words[self._at :], len(self._words)
        return words

    def end(self) -> None:
        if self.peek():
            raise self.wrong(f"{self.peek()!r} is more than fits here")


def _down(deed: Crash | Reboot) -> str:
    peer = deed.peer if isinstance(deed, Crash) else "node"
    return "" if deed.down_seconds == DOWN_SECONDS[peer] else f" down {seconds_text(deed.down_seconds)}"


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _wire(method: str, fault: Fault, count: int) -> WireFault:
    return WireFault(rule=Rule(method, (Term(fault, min(count, MAX_COUNT)),)))


def _error(words: _Words) -> Deed:
    method = words.method()
    code = words.one_of("gRPC code", *CODES)
    details = words.take("text")[1:-1] if words.peek().startswith('"') else ""
    return _wire(method, Fault(kind="error", code=code, details=details), words.times())


def _delay(words: _Words) -> Deed:
    method = words.method()
    return _wire(method, Fault(kind="delay", seconds=words.seconds()), words.times())


def _is_duration(word: str) -> bool:
    return bool(word) and word[0].isdigit()


def _hang(words: _Words) -> Deed:
    method = words.method()
    seconds = words.seconds() if _is_duration(words.peek()) else BROKEN_AFTER_SECONDS
    return _wire(method, Fault(kind="hang", seconds=seconds), words.times())


def _lose_reply(words: _Words) -> Deed:
    method, code, seconds = words.method(), None, 0.0
    if words.peek() in CODES:
        code = words.take("code")
    else:
        seconds = words.seconds() if _is_duration(words.peek()) else BROKEN_AFTER_SECONDS
    return _wire(method, Fault(kind="lost", code=code, seconds=seconds), words.times())


def _duplicate(words: _Words) -> Deed:
    method = words.method()
    return _wire(method, Fault(kind="duplicate"), words.times())


def _crash(words: _Words, *, graceful: bool = False) -> Deed:
    peer = words.one_of("peer", "kubelet", "runtime", "plugin")
    if peer == "kubelet":
        return Crash(peer="kubelet", down_seconds=words.down(peer), graceful=graceful)
    if peer == "plugin":
        resource = words.take("resource")
        return Crash(peer="plugin", resource=resource, down_seconds=words.down(peer), graceful=graceful)
    lose, processes = words.took("lose-state"), words.took("lose-processes")
    if not lose and not processes:
        words.took("keep-state")
    return Crash(
        peer="runtime",
        lose_state=lose,
        lose_processes=processes,
        down_seconds=words.down(peer),
        graceful=graceful,
    )


def _reboot(words: _Words) -> Deed:
    words.one_of("thing to reboot", "node")
    lose = words.took("lose-state")
    return Reboot(lose_state=lose, down_seconds=words.down("node"))


def _late_pleg(words: _Words) -> Deed:
    return PlegFault(late_seconds=words.seconds(), count=words.times())


def _api(words: _Words) -> Deed:
    kind = words.one_of("fault of the API", "away", "stale", "conflict")
    if kind == "conflict":
        return ApiFault(kind="conflict", count=words.times())
    return ApiFault(kind="away" if kind == "away" else "stale", seconds=words.seconds())


def _registry(words: _Words) -> Deed:
    words.one_of("fault of the registry", "down")
    return RegistryDown(seconds=words.seconds())


def _clock(words: _Words) -> Deed:
    word = words.take("jump")
    if word[0] not in "+-":
        raise words.wrong(f"{word!r} is no jump; write such as +30s or -30s")
    try:
        seconds = parse_seconds(word[1:])
    except FaultSyntaxError as error:
        raise words.wrong(str(error)) from None
    return ClockJump(seconds=-seconds if word[0] == "-" and seconds else seconds)


def _slow(words: _Words) -> Deed:
    words.one_of("slow thing", "processes")
    word = words.take("factor")
    if not (word[0] == "x" and _NUMBER.fullmatch(word[1:]) and 0 < float(word[1:]) <= FACTOR_MAX):
        raise words.wrong(f"{word!r} is no factor; write such as x4")
    return SlowProcesses(factor=round(float(word[1:]), 6), seconds=words.seconds())


def _device(words: _Words) -> Deed:
    device = words.take("device")
    health = words.one_of("health", "healthy", "unhealthy")
    return DeviceHealth(device=device, health="healthy" if health == "healthy" else "unhealthy")


def _delete(words: _Words) -> Deed:
    words.one_of("thing to delete", "pod")
    pod, grace = words.name("pod"), None
    if words.took("grace"):
        text = words.take("grace").removesuffix("s")
        if not (text.isascii() and text.isdigit() and len(text) <= 6):
            raise words.wrong(f"{text!r} is no grace period; write whole seconds")
        grace = int(text)
    return UserAction(do="delete", pod=pod, grace_seconds=grace)


def _image(words: _Words) -> Deed:
    pod, container = words.container()
    return UserAction(do="image", pod=pod, container=container, value=words.take("image"))


def _ephemeral(words: _Words) -> Deed:
    pod, name = words.name("pod"), words.name("container")
    return UserAction(
        do="ephemeral", pod=pod, container=name, value=words.take("image") if words.peek() else ""
    )


def _resize(words: _Words) -> Deed:
    pod, container = words.container()
    resources: dict[str, str] = {}
    for word in words.rest():
        key, equals, amount = word.partition("=")
        if not equals or key not in ("cpu", "memory") or not amount:
            raise words.wrong(f"{word!r} is no amount; write such as cpu=500m or memory=64Mi")
        resources[key] = amount
    if not resources:
        raise words.wrong("amounts are missing; write such as cpu=500m")
    return UserAction(do="resize", pod=pod, container=container, resources=resources)


def _signal(words: _Words) -> Deed:
    pod, container = words.container()
    number = words.take("signal")
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:3]) <= 64 and len(number) <= 2):
        raise words.wrong(f"{number!r} is no signal; write its number, such as 9")
    return UserAction(do="signal", pod=pod, container=container, value=number)


def _oom(words: _Words) -> Deed:
    pod, container = words.container()
    return UserAction(do="oom", pod=pod, container=container)


def _remove(words: _Words) -> Deed:
    pod, container = words.container()
    return UserAction(do="remove", pod=pod, container=container)


_READERS: Mapping[str, Callable[[_Words], Deed]] = {
    "error": _error,
    "delay": _delay,
    "hang": _hang,
    "lose-reply": _lose_reply,
    "duplicate": _duplicate,
    "crash": _crash,
    "restart": lambda words: _crash(words, graceful=True),
    "reboot": _reboot,
    "miss-pleg": lambda words: PlegFault(count=words.times()),
    "late-pleg": _late_pleg,
    "api": _api,
    "registry": _registry,
    "clock": _clock,
    "slow": _slow,
    "device": _device,
    "delete": _delete,
    "image": _image,
    "ephemeral": _ephemeral,
    "resize": _resize,
    "signal": _signal,
    "oom": _oom,
    "remove": _remove,
    "stop-sandbox": lambda words: UserAction(do="stop-sandbox", pod=words.name("pod")),
    "kill-sandbox": lambda words: UserAction(do="kill-sandbox", pod=words.name("pod")),
}
