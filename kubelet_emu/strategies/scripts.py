"""Generators of what containers do, as shell commands that read as stories.

A script of a container that goes on is ``sleep 600`` or something that ends or changes before that; one of an
init container ends. ``/v`` is the pod's volume: what a script leaves there, its next instance finds.
``/tmp/up`` is what probes of the file kind look for.
"""

from functools import cache

from hypothesis import strategies as st

from kubelet_emu.strategies.draws import Draw, chance, one_of, weighted

__all__ = ["TRIGGER", "UP_FILE", "VOLUME", "init_scripts", "scripts"]

TRIGGER = 88
"""The exit code that generated rules wait for."""
VOLUME = "/v"
UP_FILE = "/tmp/up"

_FOREVER = "sleep 600 & wait"
_TRAPS = weighted(
    {"": 5, "trap 'exit 0' TERM; ": 6, "trap 'exit 1' TERM; ": 1, "trap 'sleep 3; exit 0' TERM; ": 1}
)
_SECONDS = st.integers(0, 12)
_SHORT_SECONDS = st.integers(0, 3)
_CODES = weighted({0: 4, 1: 5, TRIGGER: 5, 137: 1})
_PLAIN_CODES = weighted({0: 4, 1: 5, 3: 1})
_INIT_CODES = weighted({0: 16, 1: 2, TRIGGER: 2})
_PLAIN_INIT_CODES = weighted({0: 17, 1: 3})


def _sleep(seconds: int) -> str:
    return f"sleep {seconds}; " if seconds else ""


@cache
def scripts(*, name: str = "a", trigger: bool = False, probed: bool = False) -> "st.SearchStrategy[str]":
    """Scripts of regular containers and sidecars.

    ``name`` is what the script calls itself in the pod's volume, ``trigger`` makes the rule's exit code
    likely, ``probed`` makes and maybe removes the file that probes look for.
    """

    @st.composite
    def script(draw: Draw) -> str:
        ends, trap = chance(draw, 60), draw(_TRAPS)
        up = ""
        if probed:
            up = f"{_sleep(draw(_SHORT_SECONDS))}touch {UP_FILE}; "
            if chance(draw, 40):
                up += f"{_sleep(draw(_SECONDS))}rm {UP_FILE}; "
        if not ends:
            return f"{trap}{up}{_FOREVER if trap else 'sleep 600'}"
        seconds, code = draw(_SECONDS), draw(_CODES if trigger else _PLAIN_CODES)
        pause = f"sleep {seconds} & wait; " if trap and seconds else _sleep(seconds)
        end = f"{up}{pause}exit {code}"
        if not chance(draw, 45):
            return trap + end
        seen = f"{VOLUME}/{name}"
        return f"{trap}[ -f {seen} ] || {{ touch {seen}; {end}; }}; {_FOREVER if trap else 'sleep 600'}"

    return script()


@cache
def init_scripts(*, name: str = "i", trigger: bool = False) -> "st.SearchStrategy[str]":
    """Scripts of init containers, which end; most of them well."""

    @st.composite
    def script(draw: Draw) -> str:
        seconds, code = draw(_SHORT_SECONDS), draw(_INIT_CODES if trigger else _PLAIN_INIT_CODES)
        end = f"{_sleep(seconds)}exit {code}"
        if code and chance(draw, 60):
            seen = f"{VOLUME}/{name}"
            return f"[ -f {seen} ] || {{ touch {seen}; {end}; }}"
        return end

    return script()


probe_commands = one_of((["true"], ["test", "-f", UP_FILE], ["false"], ["sh", "-c", "sleep 2"]))
"""What exec probes run; the last one takes longer than a probe may by default."""
