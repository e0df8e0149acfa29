"""sed: a parser for its scripts and an interpreter, without branches to far files, with all of POSIX'
commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import define, field, frozen

from cri_fake.process.applets.common import applet, lines_of, options_of, reason
from cri_fake.process.applets.options import UsageError
from cri_fake.process.posix_regex import RegexError, compile_posix
from cri_fake.process.proc import Proc, decode, encode

MAX_STEPS = 1_000_000
"""How many commands may run on one line of input before the script counts as endless."""


@frozen
class _Address:
    """``kind``: line, last, regex, step, plus."""

    kind: str
    number: int = 0
    step: int = 0
    regex: re.Pattern[str] | None = None


@define
class _Command:
    """One command. ``target`` is where a branch, or the end of a group that does not apply, leads."""

    name: str
    first: _Address | None
    second: _Address | None
    negated: bool
    text: str = ""
    regex: re.Pattern[str] | None = None
    flags: str = ""
    target: int = 0
    active: bool = False
    until: int = field(default=0)


class _Script:
    """Parses the text of a script into a flat list of commands."""

    def __init__(self, text: str, *, extended: bool) -> None:
        self._text = text
        self._at = 0
        self._extended = extended
        self.commands: list[_Command] = []
        self._last_regex: re.Pattern[str] | None = None

    def parse(self) -> list[_Command]:
        groups: list[int] = []
        labels: dict[str, int] = {}
        while True:
            self._skip(" \t\n;")
            if self._at >= len(self._text):
                break
            if self._text[self._at] == "#":
                self._line()
                continue
            command = self._command()
            if command.name == "}":
                if not groups:
                    raise UsageError("unexpected '}'")
                self.commands[groups.pop()].target = len(self.commands)
                continue
            if command.name == ":":
                labels[command.text] = len(self.commands)
                continue
            if command.name == "{":
                groups.append(len(self.commands))
            self.commands.append(command)
        if groups:
            raise UsageError("unmatched '{'")
        for command in self.commands:
            if command.name in "btT":
                if command.text and command.text not in labels:
                    raise UsageError(f"can't find label for jump to '{command.text}'")
                command.target = labels.get(command.text, len(self.commands))
        return self.commands

    def _skip(self, chars: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in chars:
            self._at += 1

    def _line(self) -> str:
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        line, self._at = self._text[self._at : end], end
        return line

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _number(self) -> int:
        start = self._at
        while self._peek().isdigit():
            self._at += 1
        return int(self._text[start : self._at] or 0)

    def _address(self) -> _Address | None:
        char = self._peek()
        if char.isdigit():
            number = self._number()
            if self._peek() == "~":
                self._at += 1
                return _Address("step", number, self._number())
            return _Address("line", number)
        if char == "$":
            self._at += 1
            return _Address("last")
        if char == "+":
            self._at += 1
            return _Address("plus", self._number())
        if char in ("/", "\\"):
            self._at += 1
            delimiter = char
            if char == "\\":
                delimiter = self._peek()
                self._at += 1
            pattern = self._until(delimiter)
            ignore_case = self._peek() == "I"
            self._at += ignore_case
            return _Address("regex", regex=self._compile(pattern, ignore_case=ignore_case))
        return None

    def _until(self, delimiter: str, *, replacement: bool = False) -> str:
        out: list[str] = []
        bracket = False
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == "\\" and self._at < len(self._text):
                following = self._text[self._at]
                self._at += 1
                if following == delimiter and not (replacement and delimiter in "&"):
                    out.append(delimiter if delimiter not in ".*[]^$" else "\\" + delimiter)
                elif following == "n" and not replacement:
                    out.append("\n")
                else:
                    out.append("\\" + following)
                continue
            if char == "[" and not replacement and not bracket:
                bracket = True
            elif char == "]" and bracket and out[-1:] not in (["["], ["^"]):
                bracket = False
            if char == delimiter and not bracket:
                return "".join(out)
            out.append(char)
        raise UsageError(f"unmatched '{delimiter}'")

    def _compile(self, pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
        if not pattern:
            if self._last_regex is None:
                raise UsageError("no previous regexp")
            return self._last_regex
        try:
            self._last_regex = compile_posix(pattern, extended=self._extended, ignore_case=ignore_case)
        except RegexError as problem:
            raise UsageError(f"bad regex '{pattern}': {problem}") from None
        return self._last_regex

    def _command(self) -> _Command:
        first = self._address()
        second: _Address | None = None
        self._skip(" \t")
        if first is not None and self._peek() == ",":
            self._at += 1
            self._skip(" \t")
            second = self._address()
            if second is None:
                raise UsageError("no address after comma")
        self._skip(" \t")
        negated = self._peek() == "!"
        while self._peek() in ("!", " ") and self._peek():
            self._at += 1
        name = self._peek()
        self._at += 1
        command = _Command(name, first, second, negated)
        self._arguments(command)
        return command

    def _arguments(self, command: _Command) -> None:
        name = command.name
        if name == "s":
            self._substitution(command)
        elif name == "y":
            delimiter = self._peek()
            self._at += 1
            command.text = self._until(delimiter, replacement=True)
            command.flags = self._until(delimiter, replacement=True)
            if len(_plain(command.text)) != len(_plain(command.flags)):
                raise UsageError("y command strings have different lengths")
        elif name in ("a", "i", "c"):
            self._skip(" \t")
            if self._peek() == "\\":
                self._at += 1
                self._skip(" \t")
                self._at += self._peek() == "\n"
            lines = [self._line()]
            while lines[-1].endswith("\\") and self._at < len(self._text):
                self._at += 1
                lines[-1] = lines[-1][:-1]
                lines.append(self._line())
            command.text = "\n".join(line.replace("\\\\", "\\") for line in lines)
        elif name in (":", "b", "t", "T"):
            self._skip(" \t")
            start = self._at
            while self._peek() and self._peek() not in "\n;}":
                self._at += 1
            command.text = self._text[start : self._at].strip()
        elif name in ("r", "w"):
            self._skip(" \t")
            command.text = self._line()
        elif name in ("q", "Q", "l"):
            self._skip(" \t")
            command.text = str(self._number())
        elif name not in "{}=dDgGhHnNpPxz" or not name:
            raise UsageError(f"unsupported command {name}")

    def _substitution(self, command: _Command) -> None:
        delimiter = self._peek()
        if not delimiter or delimiter in "\n\\":
            raise UsageError("bad delimiter in s command")
        self._at += 1
        pattern = self._until(delimiter)
        command.text = self._until(delimiter, replacement=True)
        flags = ""
        while self._peek() and self._peek() in "gpiIe0123456789w":
            if self._peek() == "w":
                self._at += 1
                self._skip(" \t")
                flags += "w" + self._line()
                break
            flags += self._peek()
            self._at += 1
        if "e" in flags.split("w")[0]:
            raise UsageError("flag e of the s command is not emulated")
        command.flags = flags
        command.regex = self._compile(pattern, ignore_case="i" in flags.lower().split("w")[0])


def _plain(text: str) -> str:
    return text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\", "").replace("\0", "\\")


def _replacement(template: str, match: re.Match[str]) -> str:
    out: list[str] = []
    at = 0
    while at < len(template):
        char = template[at]
        at += 1
        if char == "&":
            out.append(match.group())
        elif char == "\\" and at < len(template):
            code = template[at]
            at += 1
            if code.isdigit():
                group = int(code)
                out.append((match.group(group) or "") if group <= match.re.groups else "")
            else:
                out.append({"n": "\n", "t": "\t", "r": "\r"}.get(code, code))
        else:
            out.append(char)
    return "".join(out)


class _Sed:
    """One run over the lines of its inputs."""

    def __init__(self, proc: Proc, commands: list[_Command], lines: list[str], *, quiet: bool) -> None:
        self.proc = proc
        self.commands = commands
        self.lines = lines
        self.quiet = quiet
        self.out: list[str] = []
        self.number = 0
        self.pattern = ""
        self.hold = ""
        self.appended: list[str] = []
        self.code = 0
        self.quit = False
        self.replaced = False
        self.written: dict[str, list[str]] = {}

    async def run(self) -> str:
        restart = False
        while not self.quit and (restart or self.number < len(self.lines)):
            if not restart:
                self.pattern = self.lines[self.number]
                self.number += 1
            self.replaced = False
            restart = await self._cycle()
        return "".join(self.out)

    def _put(self, text: str) -> None:
        self.out.append(text + "\n")

    def _end_cycle(self, *, show: bool = True) -> None:
        if show and not self.quiet:
            self._put(self.pattern)
        self.out += self.appended
        self.appended = []

    async def _cycle(self) -> bool:
        """One pass of the script; True when it is to start again without reading a line (``D``)."""
        at, steps = 0, 0
        while at < len(self.commands):
            steps += 1
            if steps > MAX_STEPS:
                raise UsageError("endless script")
            await self.proc.step()
            command = self.commands[at]
            at += 1
            if self._selected(command) == command.negated:
                if command.name == "{":
                    at = command.target
                continue
            name = command.name
            if name in "btT":
                if name == "b" or self.replaced == (name == "t"):
                    at = command.target
                if name != "b":
                    self.replaced = False
            elif name == "d":
                self._end_cycle(show=False)
                return False
            elif name == "D":
                _, newline, rest = self.pattern.partition("\n")
                self._end_cycle(show=False)
                self.pattern = rest
                return bool(newline)
            elif name == "c":
                if command.second is None or not command.active:
                    self._put(command.text)
                self._end_cycle(show=False)
                return False
            elif name in "qQ":
                self.code = int(command.text)
                self.quit = True
                self._end_cycle(show=name == "q")
                return False
            elif name in "nN" and not self._next_line(name):
                return False
            elif name not in "{nN":
                self._simple(command)
        self._end_cycle()
        return False

    def _next_line(self, name: str) -> bool:
        if self.number >= len(self.lines):
            self.quit = True
            self._end_cycle()
            return False
        if name == "n":
            self._end_cycle()
            self.pattern = self.lines[self.number]
        else:
            self.pattern += "\n" + self.lines[self.number]
        self.number += 1
        return True

    def _simple(self, command: _Command) -> None:
        name = command.name
        if name == "s":
            self._substitute(command)
        elif name == "p":
            self._put(self.pattern)
        elif name == "P":
            self._put(self.pattern.partition("\n")[0])
        elif name == "=":
            self._put(str(self.number))
        elif name == "a":
            self.appended.append(command.text + "\n")
        elif name == "i":
            self._put(command.text)
        elif name == "h":
            self.hold = self.pattern
        elif name == "H":
            self.hold += "\n" + self.pattern
        elif name == "g":
            self.pattern = self.hold
        elif name == "G":
            self.pattern += "\n" + self.hold
        elif name == "x":
            self.pattern, self.hold = self.hold, self.pattern
        elif name == "z":
            self.pattern = ""
        elif name == "y":
            table = str.maketrans(_plain(command.text), _plain(command.flags))
            self.pattern = self.pattern.translate(table)
        elif name == "l":
            self._put(self.pattern.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") + "$")
        elif name == "r":
            try:
                self.appended.append(decode(self.proc.fs.read(self.proc.path(command.text))))
            except OSError:
                return
        elif name == "w":
            self._write(command.text)

    def _write(self, name: str) -> None:
        if name == "/dev/stdout":
            self._put(self.pattern)
        else:
            self.written.setdefault(name, []).append(self.pattern + "\n")

    def _substitute(self, command: _Command) -> None:
        assert command.regex is not None
        flags, _, target = command.flags.partition("w")
        digits = "".join(char for char in flags if char.isdigit())
        wanted = int(digits) if digits else 1
        count = 0

        def replace(match: re.Match[str]) -> str:
            nonlocal count
            count += 1
            if count == wanted or (count > wanted and "g" in flags):
                return _replacement(command.text, match)
            return match.group()

        limit = 0 if "g" in flags else wanted
        self.pattern = command.regex.sub(replace, self.pattern, count=limit)
        if count >= wanted:
            self.replaced = True
            if "p" in flags:
                self._put(self.pattern)
            if target:
                self._write(target)

    def _hits(self, address: _Address) -> bool:
        if address.kind == "line":
            return self.number == address.number
        if address.kind == "last":
            return self.number == len(self.lines)
        if address.kind == "step":
            past = self.number - address.number
            return past == 0 or (past > 0 and address.step > 0 and past % address.step == 0)
        return address.regex is not None and address.regex.search(self.pattern) is not None

    def _selected(self, command: _Command) -> bool:
        first, second = command.first, command.second
        if first is None:
            return True
        if second is None:
            return self._hits(first)
        if command.active:
            if second.kind in ("line", "plus"):
                if self.number >= command.until:
                    command.active = False
                return self.number <= command.until
            command.active = not self._hits(second)
            return True
        from_start = first.kind == "line" and first.number == 0 and self.number == 1
        if not from_start and not self._hits(first):
            return False
        if second.kind in ("line", "plus"):
            command.until = second.number + (self.number if second.kind == "plus" else 0)
            command.active = command.until > self.number
        else:
            ended = self.number == len(self.lines) if second.kind == "last" else False
            command.active = not ended and not (from_start and self._hits(second))
        return True


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)


@applet
async def sed(proc: Proc) -> int:
    options = options_of(proc, "nrEie:f:sz", long={"quiet": "n", "regexp-extended": "E", "in-place": "i"})
    scripts = list(options.values.get("e", []))
    scripts += [decode(proc.fs.read(proc.path(name))) for name in options.values.get("f", [])]
    operands = options.operands
    if not scripts:
        if not operands:
            raise UsageError("usage: sed [-i] [-nrE] SCRIPT [FILE]...")
        scripts = [operands.pop(0)]
    text, extended = _joined(scripts), "r" in options or "E" in options
    quiet = "n" in options or text.startswith("#n\n")
    commands = _Script(text, extended=extended).parse()
    code = 0
    pieces: list[tuple[str, bytes]] = []
    for name in operands or ["-"]:
        try:
            data = await proc.read_all() if name == "-" else proc.fs.read(proc.path(name))
            pieces.append((name, data))
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
    separate = "i" in options or "s" in options
    groups = [[piece] for piece in pieces] if separate else [pieces]
    for group in groups:
        lines = [decode(line) for _, data in group for line in lines_of(data)]
        run = _Sed(proc, commands, lines, quiet=quiet)
        result = await run.run()
        if group and group[-1][1] and not group[-1][1].endswith(b"\n") and not run.quit:
            result = result.removesuffix("\n")
        if "i" in options:
            proc.fs.write(proc.path(group[0][0]), encode(result))
        else:
            await proc.write(result)
        for name, written in run.written.items():
            proc.fs.write(proc.path(name), encode("".join(written)))
        code = code or run.code
    return code
