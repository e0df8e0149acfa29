"""What a shell remembers: variables with their attributes, functions, options, parameters (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from cri_fake.process.shell.nodes import Command
from cri_fake.process.shell.words import is_name

__all__ = ["OPTION_LETTERS", "ReadOnly", "ShellFailure", "State"]

OPTION_LETTERS: dict[str, str] = {
    "e": "errexit", "f": "noglob", "I": "ignoreeof", "i": "interactive", "m": "monitor", "n": "noexec",
    "s": "stdin", "x": "xtrace", "v": "verbose", "C": "noclobber", "a": "allexport", "b": "notify",
    "u": "nounset",
}  # fmt: skip
_FLAG_ORDER = "ubaCvxcsnmiIfe"
OPTION_NAMES = frozenset([*OPTION_LETTERS.values(), "pipefail", "vi"])
DEFAULT_IFS = " \t\n"
MAX_VALUE_CHARS = 16 << 20


class ShellFailure(Exception):
    """An error that ends a non-interactive shell with ``status``."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ReadOnly(ShellFailure):
    """An assignment to a read-only variable."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: is read only")


class State:
    """Copied as a whole for a subshell."""

    def __init__(self, env: Mapping[str, str], arg0: str, positional: list[str]) -> None:
        self.values: dict[str, str | None] = {}
        self.exported: set[str] = set()
        self.readonly: set[str] = set()
        for name, value in env.items():
            if is_name(name):
                self.values[name] = value
                self.exported.add(name)
        self.other_env = {name: value for name, value in env.items() if not is_name(name)}
        self.values["IFS"] = DEFAULT_IFS
        self.values.setdefault("PATH", None)
        self.values["OPTIND"] = "1"
        self.values.setdefault("PS4", "+ ")
        self.functions: dict[str, Command] = {}
        self.options: set[str] = set()
        self.arg0 = arg0
        self.positional = positional
        self.last_background = ""
        self.getopts_offset = 0
        self.scopes: list[dict[str, tuple[str | None, bool]]] = []

    def copy(self) -> State:
        twin = State.__new__(State)
        twin.values = dict(self.values)
        twin.exported = set(self.exported)
        twin.readonly = set(self.readonly)
        twin.other_env = self.other_env
        twin.functions = dict(self.functions)
        twin.options = set(self.options)
        twin.arg0 = self.arg0
        twin.positional = list(self.positional)
        twin.last_background = self.last_background
        twin.getopts_offset = self.getopts_offset
        twin.scopes = [dict(scope) for scope in self.scopes]
        return twin

    def set(self, name: str, value: str) -> None:
        """Assign. Raises ``ReadOnly``; a value beyond 16 million characters is a failure, too."""
        if name in self.readonly:
            raise ReadOnly(name)
        if len(value) > MAX_VALUE_CHARS:
            raise ShellFailure(f"{name}: value too long")
        self.values[name] = value
        if name == "OPTIND":
            self.getopts_offset = 0
        if "allexport" in self.options:
            self.exported.add(name)

    def unset(self, name: str) -> None:
        if name in self.readonly:
            raise ReadOnly(name)
        self.values.pop(name, None)
        self.exported.discard(name)

    def env(self) -> dict[str, str]:
        """What a command gets: exported variables that have a value."""
        exported = {
            name: value for name, value in self.values.items() if name in self.exported and value is not None
        }
        return {**self.other_env, **exported}

    def make_local(self, name: str) -> None:
        """Remember the present value for the end of the function."""
        scope = self.scopes[-1]
        if name not in scope:
            scope[name] = (self.values.get(name), name in self.exported)

    def leave_scope(self) -> None:
        for name, (value, exported) in self.scopes.pop().items():
            if value is None:
                self.values.pop(name, None)
            else:
                self.values[name] = value
            (self.exported.add if exported else self.exported.discard)(name)

    def flags(self) -> str:
        """The value of ``$-``."""
        return "".join(letter for letter in _FLAG_ORDER if OPTION_LETTERS.get(letter, letter) in self.options)

    def ifs(self) -> str:
        value = self.values.get("IFS")
        return DEFAULT_IFS if value is None else value
