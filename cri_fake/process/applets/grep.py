"""grep, egrep and fgrep."""

from __future__ import annotations

import re

from cri_fake.process.applets.common import applet, lines_of, options_of, reason
from cri_fake.process.applets.options import Options, UsageError
from cri_fake.process.applets.simple import parse_number
from cri_fake.process.posix_regex import RegexError, compile_posix
from cri_fake.process.proc import Proc, decode

MAX_DEPTH = 200


class _Search:
    """What is looked for, and how matches are shown."""

    def __init__(self, options: Options, patterns: list[str], *, extended: bool, fixed: bool) -> None:
        self.options = options
        self.patterns = [self._compile(text, extended=extended, fixed=fixed) for text in patterns]
        context = options.value("C", "0")
        self.after = parse_number(options.value("A", context))
        self.before = parse_number(options.value("B", context))
        self.limit = parse_number(options.value("m")) if "m" in options else -1
        self.names = False

    def _compile(self, text: str, *, extended: bool, fixed: bool) -> re.Pattern[str]:
        ignore_case = "i" in self.options
        if fixed:
            text = re.escape(text)
        else:
            try:
                text = compile_posix(text, extended=extended).pattern
            except RegexError as problem:
                raise UsageError(f"bad regex '{text}': {problem}") from None
        if "w" in self.options:
            text = rf"(?<!\w)(?:{text})(?!\w)"
        if "x" in self.options:
            text = rf"^(?:{text})$"
        return re.compile(text, re.IGNORECASE if ignore_case else 0)

    def matches(self, line: str) -> bool:
        return any(pattern.search(line) for pattern in self.patterns) != ("v" in self.options)

    def parts(self, line: str) -> list[str]:
        """What ``-o`` prints of a line."""
        found: list[str] = []
        for pattern in self.patterns:
            found += [match.group() for match in pattern.finditer(line) if match.group()]
        return found


@applet
async def grep(proc: Proc) -> int:
    options = options_of(
        proc,
        "HhnlLoqsvirRwxcFEe:f:m:A:B:C:a",
        long={
            "quiet": "q",
            "silent": "q",
            "extended-regexp": "E",
            "ignore-case": "i",
            "count": "c",
            "color": "z:",
        },
    )
    patterns = [line for text in options.values.get("e", []) for line in text.split("\n")]
    for name in options.values.get("f", []):
        patterns += decode(proc.fs.read(proc.path(name))).splitlines()
    operands = options.operands
    if "e" not in options and "f" not in options:
        if not operands:
            raise UsageError("usage: grep [OPTIONS] PATTERN [FILE]...")
        patterns = operands.pop(0).split("\n")
    extended = "E" in options or proc.name == "egrep"
    search = _Search(options, patterns, extended=extended, fixed="F" in options or proc.name == "fgrep")
    recursive = "r" in options or "R" in options
    names = operands or (["."] if recursive else ["-"])
    if recursive:
        names = [inner for name in names for inner in _files_below(proc, name, 0)]
    search.names = ("H" in options or len(operands) > 1 or recursive) and "h" not in options
    found, failed = False, False
    for name in names:
        try:
            data = await proc.read_all() if name == "-" else proc.fs.read(proc.path(name))
        except OSError as problem:
            if "s" not in options:
                await proc.complain(f"{name}: {reason(problem)}")
            failed = True
            continue
        matched = await _one(proc, search, "(standard input)" if name == "-" else name, data)
        found = found or matched
        if found and "q" in options:
            return 0
    if failed and not (found and "q" in options):
        return 2
    return int(not found)


def _files_below(proc: Proc, name: str, depth: int) -> list[str]:
    if depth > MAX_DEPTH or not proc.fs.is_dir(proc.path(name)):
        return [name]
    found: list[str] = []
    for child in proc.fs.list(proc.path(name)):
        found += _files_below(proc, f"{name.rstrip('/')}/{child}", depth + 1)
    return found


async def _one(proc: Proc, search: _Search, name: str, data: bytes) -> bool:
    """One file: writes its matches, gives whether there were any."""
    options = search.options
    lines = [decode(line) for line in lines_of(data)]
    count, shown_to, out = 0, -1, list[str]()
    for index, line in enumerate(lines):
        if search.limit >= 0 and count >= search.limit:
            break
        if not search.matches(line):
            continue
        count += 1
        if any(letter in options for letter in "qlLc"):
            if "c" not in options:
                break
            continue
        if "o" in options:
            out += [_label(search, name, index, ":") + part + "\n" for part in search.parts(line)]
            continue
        first = max(index - search.before, shown_to + 1)
        if (search.before or search.after) and shown_to >= 0 and first > shown_to + 1:
            out.append("--\n")
        last = min(index + search.after, len(lines) - 1)
        for at in range(first, last + 1):
            mark = ":" if search.matches(lines[at]) else "-"
            out.append(_label(search, name, at, mark) + lines[at] + "\n")
        shown_to = max(last, shown_to)
    if "q" not in options:
        if "c" in options:
            out = [f"{name}:{count}\n" if search.names else f"{count}\n"]
        elif "l" in options or "L" in options:
            out = [f"{name}\n"] if (count > 0) == ("l" in options) else []
        await proc.write("".join(out))
    await proc.step()
    return count > 0


def _label(search: _Search, name: str, index: int, mark: str) -> str:
    label = f"{name}{mark}" if search.names else ""
    return f"{label}{index + 1}{mark}" if "n" in search.options else label
