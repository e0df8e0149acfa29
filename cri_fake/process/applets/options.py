"""Command lines of applets: short options, clustered, with or without values, and long ones (pure)."""

from collections.abc import Mapping, Sequence

__all__ = ["Options", "UsageError", "parse_options"]


class UsageError(Exception):
    """A command line that the applet does not take; its text is for standard error."""


class Options:
    """What was given: flags with how often, values in order, and the operands."""

    def __init__(self) -> None:
        self.flags: dict[str, int] = {}
        self.values: dict[str, list[str]] = {}
        self.operands: list[str] = []

    def __contains__(self, letter: str) -> bool:
        return letter in self.flags or letter in self.values

    def value(self, letter: str, default: str = "") -> str:
        """The last value of an option."""
        return self.values[letter][-1] if letter in self.values else default


def parse_options(
    args: Sequence[str], spec: str, *, long: Mapping[str, str] | None = None, in_order: bool = False
) -> Options:
    """Options of a ``getopt`` specification: letters, a colon behind those that take a value.

    ``long`` maps long names to letters. ``in_order`` stops at the first operand, as for commands that run
    others. Raises ``UsageError``; an option the real applet knows but that is not emulated is one the spec
    lacks.
    """
    found = Options()
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            found.operands += args[at:]
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            letter = (long or {}).get(name)
            if letter is None:
                raise UsageError(f"unrecognized option '--{name}'")
            if f"{letter}:" in spec:
                if not equals:
                    if at >= len(args):
                        raise UsageError(f"option '--{name}' requires an argument")
                    value = args[at]
                    at += 1
                found.values.setdefault(letter, []).append(value)
            else:
                found.flags[letter] = found.flags.get(letter, 0) + 1
            continue
        if len(word) < 2 or word[0] != "-":
            found.operands.append(word)
            if in_order:
                found.operands += args[at:]
                break
            continue
        at = _cluster(word, args, at, spec, found)
    return found


def _cluster(word: str, args: Sequence[str], at: int, spec: str, found: Options) -> int:
    for index, letter in enumerate(word[1:], start=1):
        place = -1 if letter == ":" else spec.find(letter)
        if place < 0:
            raise UsageError(f"invalid option -- '{letter}'")
        if spec[place + 1 : place + 2] != ":":
            found.flags[letter] = found.flags.get(letter, 0) + 1
            continue
        value = word[index + 1 :]
        if not value:
            if at >= len(args):
                raise UsageError(f"option requires an argument -- '{letter}'")
            value = args[at]
            at += 1
        found.values.setdefault(letter, []).append(value)
        break
    return at
