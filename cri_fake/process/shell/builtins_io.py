"""Builtins that read, write and test: echo, printf, read, test. The first, second and last are applets as
well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import trio

from cri_fake.process.proc import Proc, decode
from cri_fake.process.shell.fields import Fields, piece_text
from cri_fake.process.shell.printf import format_printf, unescape_echo
from cri_fake.process.shell.state import ShellFailure
from cri_fake.process.shell.testexpr import TestError, evaluate_test
from cri_fake.process.shell.traps import Interrupted
from cri_fake.process.shell.words import is_name

if TYPE_CHECKING:
    from cri_fake.process.shell.interp import Shell

__all__ = ["ProcFileView", "echo", "echo_text", "printf", "read", "test"]

MAX_LINE_CHARS = 1 << 20


def echo_text(words: list[str]) -> str:
    """What ``echo WORDS`` prints: -n, -e and -E in any combination, then the words."""
    newline, escapes, at = True, False, 1
    while at < len(words) and len(words[at]) > 1 and words[at][0] == "-" and set(words[at][1:]) <= set("neE"):
        for letter in words[at][1:]:
            if letter == "n":
                newline = False
            else:
                escapes = letter == "e"
        at += 1
    text = " ".join(words[at:])
    if escapes:
        text, stopped = unescape_echo(text)
        newline = newline and not stopped
    return text + "\n" if newline else text


async def echo(shell: Shell, words: list[str]) -> int:
    await shell.proc.write(echo_text(words))
    return 0


async def printf(shell: Shell, words: list[str]) -> int:
    arguments = words[2:] if words[1:2] == ["--"] else words[1:]
    if not arguments:
        await shell.complain("printf: usage: printf FORMAT [ARG]...")
        return 2
    result = format_printf(arguments[0], arguments[1:])
    if result.text:
        await shell.proc.write(result.text)
    for problem in result.problems:
        await shell.complain(f"printf: {problem}")
    return result.exit_code


class ProcFileView:
    """What ``test`` sees of files, as one process."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc

    def test_file(self, operator: str, path: str) -> bool:
        letter = operator[1]
        try:
            info = self._proc.fs.stat(self._proc.path(path), follow=letter not in "hL")
        except OSError:
            return False
        if letter in "fdhLcpbS":
            kinds = {"f": "file", "d": "dir", "h": "symlink", "L": "symlink", "c": "char", "p": "fifo"}
            return info.kind == kinds.get(letter)
        if letter == "s":
            return info.size > 0
        if letter == "x":
            return info.kind == "dir" or bool(info.mode & 0o111)
        if letter in "gku":
            return bool(info.mode & {"g": 0o2000, "k": 0o1000, "u": 0o4000}[letter])
        return True  # -e, and as root -r, -w, -O, -G

    def compare_files(self, operator: str, left: str, right: str) -> bool:
        found: list[tuple[int, object] | None] = []
        for path in (left, right):
            try:
                info = self._proc.fs.stat(self._proc.path(path))
                found.append((info.mtime_ns, info.identity))
            except OSError:
                found.append(None)
        first, second = found
        if operator == "-ef":
            return first is not None and second is not None and first[1] == second[1]
        if operator == "-ot":
            first, second = second, first
        return first is not None and second is not None and first[0] > second[0]

    def is_terminal(self, fd: int) -> bool:
        file = self._proc.fds.get(fd)
        return file is not None and file.is_terminal

    def regex_match(self, pattern: str, text: str) -> bool:
        try:
            return re.search(pattern, text) is not None
        except re.error:
            raise TestError(f"{pattern}: bad regular expression") from None


async def test(shell: Shell, words: list[str]) -> int:
    name, arguments = words[0], words[1:]
    if name in ("[", "[["):
        closing = "]" if name == "[" else "]]"
        if not arguments or arguments[-1] != closing:
            await shell.complain(f"missing {closing}")
            return 2
        arguments = arguments[:-1]
    try:
        return int(not evaluate_test(arguments, ProcFileView(shell.proc), patterns=name == "[["))
    except TestError as problem:
        await shell.complain(str(problem))
        return 2


class _ReadOptions:
    def __init__(self, words: list[str]) -> None:
        self.raw = False
        self.prompt = ""
        self.timeout_seconds: float | None = None
        self.count = 0
        self.delimiter = "\n"
        self.fd = 0
        at = 1
        while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
            word = words[at]
            at += 1
            if word == "--":
                break
            for index, letter in enumerate(word[1:], start=1):
                if letter in "rs":
                    self.raw = self.raw or letter == "r"
                    continue
                value = word[index + 1 :]
                if not value:
                    value = words[at] if at < len(words) else ""
                    at += 1
                self._valued(letter, value)
                break
        self.names = words[at:]

    def _valued(self, letter: str, value: str) -> None:
        if letter == "p":
            self.prompt = value
            return
        if letter == "d":
            self.delimiter = value[:1] or "\0"
            return
        try:
            number = float(value)
        except ValueError:
            raise ShellFailure(f"read: Illegal number: {value}") from None
        if letter == "t":
            self.timeout_seconds = number
        elif letter == "n":
            self.count = int(number)
        elif letter == "u":
            self.fd = int(number)
        else:
            raise ShellFailure(f"read: illegal option -{letter}")


async def _read_line(proc: Proc, options: _ReadOptions, chars: list[tuple[str, bool]]) -> int:
    """Reads into ``chars`` (character, escaped); 0 when the delimiter was met, 1 at the end of input."""
    raw = bytearray()
    escaped = False
    while len(chars) < MAX_LINE_CHARS:
        byte = await proc.read(1, fd=options.fd)
        if not byte:
            return 1
        raw += byte
        if raw[0] >= 0x80 and len(raw) < _utf8_length(raw[0]):
            continue
        char = decode(bytes(raw))
        raw.clear()
        if escaped:
            escaped = False
            if char != "\n":
                chars.append((char, True))
        elif char == "\\" and not options.raw:
            escaped = True
            continue
        elif char == options.delimiter:
            return 0
        elif char != "\0":
            chars.append((char, False))
        if options.count and len(chars) >= options.count:
            return 0
    return 1


def _utf8_length(first: int) -> int:
    if first >= 0xF0:
        return 4
    if first >= 0xE0:
        return 3
    return 2 if first >= 0xC0 else 1


async def read(shell: Shell, words: list[str]) -> int:
    options = _ReadOptions(words)
    names = options.names or ["REPLY"]
    for name in names:
        if not is_name(name):
            raise ShellFailure(f"read: {name}: bad variable name")
    if options.prompt and ProcFileView(shell.proc).is_terminal(options.fd):
        await shell.proc.write(options.prompt, fd=2)
    chars: list[tuple[str, bool]] = []
    status = 1
    try:
        limit = options.timeout_seconds
        with trio.move_on_after(float("inf") if limit is None else limit):
            status = await shell.traps.interruptible(_read_line(shell.proc, options, chars))
    except Interrupted as interruption:
        return 128 + interruption.number
    _assign(shell, names, chars, whole=not options.names)
    return status


def _assign(shell: Shell, names: list[str], chars: list[tuple[str, bool]], *, whole: bool) -> None:
    """Distribute a line over variables: the last one gets the rest with its inner separators."""
    state = shell.state
    if whole:
        state.set(names[0], "".join(char for char, _ in chars))
        return
    ifs = state.ifs()
    blanks = [char for char in ifs if char in " \t\n"]
    at = 0
    for name in names[:-1]:
        while at < len(chars) and not chars[at][1] and chars[at][0] in blanks:
            at += 1
        value: list[str] = []
        while at < len(chars) and (chars[at][1] or chars[at][0] not in ifs):
            value.append(chars[at][0])
            at += 1
        while at < len(chars) and not chars[at][1] and chars[at][0] in blanks:
            at += 1
        if at < len(chars) and not chars[at][1] and chars[at][0] in ifs and chars[at][0] not in blanks:
            at += 1
        state.set(name, "".join(value))
    rest = chars[at:]
    while rest and not rest[0][1] and rest[0][0] in blanks:
        rest.pop(0)
    while rest and not rest[-1][1] and rest[-1][0] in blanks:
        rest.pop()
    state.set(names[-1], _last_value(rest, ifs))


def _last_value(rest: list[tuple[str, bool]], ifs: str) -> str:
    """A separator at the very end belongs to no field, if there is but one field left."""
    text = "".join(char for char, _ in rest)
    if rest and not rest[-1][1] and rest[-1][0] in ifs:
        fields = Fields(ifs)
        for char, escaped in rest:
            if escaped:
                fields.text(char, quoted=True)
            else:
                fields.split(char)
        found = fields.result()
        if len(found) == 1:
            return piece_text(found[0])
    return text
