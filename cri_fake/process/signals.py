"""Signal numbers and names as Linux on x86-64 has them (pure)."""

__all__ = [
    "CHLD",
    "CONT",
    "HUP",
    "INT",
    "KILL",
    "NAMES",
    "NUMBERS",
    "PIPE",
    "QUIT",
    "STOP",
    "TERM",
    "WINCH",
    "ignored_by_default",
    "parse_signal",
    "signal_name",
]

_ORDER = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN "
    "TTOU URG XCPU XFSZ VTALRM PROF WINCH POLL PWR SYS"
)
NAMES: dict[int, str] = dict(enumerate(_ORDER.split(), start=1))
NUMBERS: dict[str, int] = {name: number for number, name in NAMES.items()} | {"IO": 29, "CLD": 17, "IOT": 6}

HUP, INT, QUIT, KILL, PIPE, TERM, CHLD, CONT, STOP = (
    NUMBERS[_name] for _name in ("HUP", "INT", "QUIT", "KILL", "PIPE", "TERM", "CHLD", "CONT", "STOP")
)
WINCH = NUMBERS["WINCH"]
_LAST = 64
_IGNORED_BY_DEFAULT = frozenset({CHLD, CONT, NUMBERS["URG"], WINCH})


def parse_signal(text: str) -> int | None:
    """The number of ``TERM``, ``SIGTERM``, ``term`` or ``15``; 0 for ``0`` and ``EXIT``; None if unknown."""
    if text.isascii() and text.isdigit():
        number = int(text)
        return number if number <= _LAST else None
    name = text.upper()
    if name == "EXIT":
        return 0
    return NUMBERS.get(name.removeprefix("SIG"))


def signal_name(number: int) -> str:
    """The name without SIG, or the number as text when it has none."""
    return NAMES.get(number, "EXIT" if number == 0 else str(number))


def ignored_by_default(number: int) -> bool:
    """Whether the default action of the signal is to do nothing."""
    return number in _IGNORED_BY_DEFAULT
