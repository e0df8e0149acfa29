"""Applets that work on lines: sort, uniq, cut, tr, tee, rev, paste, fold, shuf, split, expr, od and their
like.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from cri_fake.process.applets.common import applet, inputs, lines_of, options_of, reason
from cri_fake.process.applets.options import Options, UsageError
from cri_fake.process.applets.simple import parse_number
from cri_fake.process.posix_regex import RegexError, compile_posix
from cri_fake.process.proc import Proc, decode, encode
from cri_fake.process.shell.printf import unescape_echo
from cri_fake.process.streams import OpenFile


async def _all_lines(proc: Proc, names: list[str]) -> tuple[list[str], int]:
    """The lines of all operands, and 1 when one could not be read."""
    lines: list[str] = []
    code = 0
    for _, data in await inputs(proc, names):
        if data is None:
            code = 1
        else:
            lines += [decode(line) for line in lines_of(data)]
    return lines, code


# -- sort and uniq ------------------------------------------------------------------------------------------


class _Key:
    """One ``-k`` of sort."""

    def __init__(self, text: str, flags: str) -> None:
        start, _, end = text.partition(",")
        self.flags = flags
        self.first, self.first_char = self._place(start)
        self.last, self.last_char = self._place(end) if end else (0, 0)

    def _place(self, text: str) -> tuple[int, int]:
        digits = text.rstrip("nrbfhMV")
        own = text[len(digits) :]
        if own:
            self.flags = own + self.flags.replace("n", "").replace("r", "")
        field, _, char = digits.partition(".")
        if not field.isdigit() or (char and not char.isdigit()):
            raise UsageError(f"bad field specification '{text}'")
        return int(field), int(char or 0)

    def of(self, line: str, separator: str) -> str:
        fields = _sort_fields(line, separator)
        chosen = fields[self.first - 1 : self.last or None]
        if chosen and self.last_char:
            chosen[-1] = chosen[-1][: self.last_char]
        text = separator.join(chosen) if separator else "".join(chosen)
        if self.first_char > 1:
            text = text[self.first_char - 1 :]
        return text.lstrip() if "b" in self.flags else text


def _sort_fields(line: str, separator: str) -> list[str]:
    if separator:
        return line.split(separator)
    fields: list[str] = []
    at = 0
    while at < len(line):
        start = at
        while at < len(line) and line[at] in " \t":
            at += 1
        while at < len(line) and line[at] not in " \t":
            at += 1
        fields.append(line[start:at])
    return fields


def _compare(left: str, right: str, flags: str) -> int:
    if "n" in flags or "g" in flags or "h" in flags:
        first, second = _leading_number(left, human="h" in flags), _leading_number(right, human="h" in flags)
        return (first > second) - (first < second)
    if "V" in flags:
        one, two = _version(left), _version(right)
        return (one > two) - (one < two)
    if "f" in flags:
        left, right = left.upper(), right.upper()
    first_bytes, second_bytes = encode(left), encode(right)
    return (first_bytes > second_bytes) - (first_bytes < second_bytes)


def _leading_number(text: str, *, human: bool) -> float:
    found = compile_posix("^[ \t]*-?[0-9]*\\.?[0-9]*", extended=True).match(text)
    digits = found.group().strip() if found else ""
    try:
        value = float(digits)
    except ValueError:
        return 0.0
    unit = text[found.end() : found.end() + 1] if found else ""
    return value * 1024.0 ** ("KMGT".find(unit.upper()) + 1) if human and unit else value


def _version(text: str) -> list[tuple[int, int, str]]:
    import re

    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", text)]


@applet
async def sort(proc: Proc) -> int:
    options = options_of(proc, "nrufbgdhVcszk:t:o:T:iM")
    flags = "".join(letter for letter in "nrfbghV" if letter in options)
    keys = [_Key(text, flags) for text in options.values.get("k", [])]
    separator = options.value("t")
    lines, code = await _all_lines(proc, options.operands)

    def by_keys(left: str, right: str) -> int:
        for key in keys:
            order = _compare(key.of(left, separator), key.of(right, separator), key.flags)
            if order:
                return -order if "r" in key.flags else order
        if not keys:
            order = _compare(left, right, flags)
            if order:
                return -order if "r" in flags else order
        if "u" in options or "s" in options:
            return 0
        order = _compare(left, right, "")
        return -order if "r" in flags else order

    if "c" in options:
        disordered = any(by_keys(lines[i], lines[i + 1]) > 0 for i in range(len(lines) - 1))
        return int(disordered)
    lines.sort(key=functools.cmp_to_key(by_keys))
    if "u" in options:
        kept: list[str] = []
        for line in lines:
            if not kept or by_keys(kept[-1], line) != 0:
                kept.append(line)
        lines = kept
    text = encode("".join(f"{line}\n" for line in lines))
    if "o" in options:
        proc.fs.write(proc.path(options.value("o")), text)
    else:
        await proc.write(text)
    return code


@applet
async def uniq(proc: Proc) -> int:
    options = options_of(proc, "cdiuf:s:w:z")
    lines, code = await _all_lines(proc, options.operands[:1])
    skip_fields, skip_chars = parse_number(options.value("f", "0")), parse_number(options.value("s", "0"))
    width = parse_number(options.value("w", "0"))

    def key(line: str) -> str:
        if skip_fields:
            line = "".join(_sort_fields(line, "")[skip_fields:])
        line = line[skip_chars:]
        if width:
            line = line[:width]
        return line.lower() if "i" in options else line

    groups: list[list[str]] = []
    for line in lines:
        if groups and key(groups[-1][0]) == key(line):
            groups[-1].append(line)
        else:
            groups.append([line])
    out: list[str] = []
    for group in groups:
        if ("d" in options and len(group) < 2) or ("u" in options and len(group) > 1):
            continue
        out.append(f"{len(group):7} {group[0]}\n" if "c" in options else f"{group[0]}\n")
    if len(options.operands) > 1:
        proc.fs.write(proc.path(options.operands[1]), encode("".join(out)))
    else:
        await proc.write("".join(out))
    return code


# -- cut and tr ---------------------------------------------------------------------------------------------


def _ranges(text: str) -> list[tuple[int, int]]:
    """``1,3-5,7-`` as pairs, counted from 1; an open end is a very large number."""
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low or high) or not (low + high).isdigit():
            raise UsageError(f"invalid range {part}")
        first = int(low) if low else 1
        last = (int(high) if high else 1 << 60) if dash else first
        if first < 1 or last < first:
            raise UsageError(f"invalid range {part}")
        found.append((first, last))
    return sorted(found)


@applet
async def cut(proc: Proc) -> int:
    options = options_of(proc, "b:c:f:d:sn")
    chosen = [letter for letter in "bcf" if letter in options]
    if len(chosen) != 1:
        raise UsageError("expected a list of bytes, characters, or fields")
    ranges = _ranges(options.value(chosen[0]))
    delimiter = options.value("d", "\t")
    lines, code = await _all_lines(proc, options.operands)
    out: list[str] = []
    for line in lines:
        if chosen[0] == "f":
            parts = line.split(delimiter)
            if len(parts) == 1:
                if "s" not in options:
                    out.append(line + "\n")
                continue
            out.append(delimiter.join(_pick(parts, ranges)) + "\n")
        else:
            out.append("".join(_pick(list(line), ranges)) + "\n")
    await proc.write("".join(out))
    return code


def _pick(parts: list[str], ranges: list[tuple[int, int]]) -> list[str]:
    return [
        part for index, part in enumerate(parts, start=1) if any(low <= index <= high for low, high in ranges)
    ]


_TR_CLASSES: dict[str, str] = {
    "alpha": "".join(map(chr, [*range(65, 91), *range(97, 123)])),
    "digit": "0123456789",
    "alnum": "".join(map(chr, [*range(48, 58), *range(65, 91), *range(97, 123)])),
    "upper": "".join(map(chr, range(65, 91))),
    "lower": "".join(map(chr, range(97, 123))),
    "space": "\t\n\v\f\r ",
    "blank": "\t ",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "punct": "".join(chr(code) for code in range(33, 127) if not chr(code).isalnum()),
    "xdigit": "0123456789ABCDEFabcdef",
}


def _tr_set(text: str) -> str:
    text = unescape_echo(text)[0] if "\\" in text else text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("[:", at) and ":]" in text[at:]:
            end = text.index(":]", at)
            name = text[at + 2 : end]
            if name not in _TR_CLASSES:
                raise UsageError(f"invalid character class '{name}'")
            out.append(_TR_CLASSES[name])
            at = end + 2
        elif at + 2 < len(text) and text[at + 1] == "-":
            if text[at] > text[at + 2]:
                raise UsageError(f"range-endpoints of '{text[at : at + 3]}' are in reverse order")
            out.append("".join(map(chr, range(ord(text[at]), ord(text[at + 2]) + 1))))
            at += 3
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


@applet
async def tr(proc: Proc) -> int:
    options = options_of(proc, "cCdst", in_order=True)
    if not options.operands:
        raise UsageError("usage: tr [-cds] STRING1 [STRING2]")
    first = _tr_set(options.operands[0])
    second = _tr_set(options.operands[1]) if len(options.operands) > 1 else ""
    if "c" in options or "C" in options:
        members = set(first)
        first = "".join(chr(code) for code in range(256) if chr(code) not in members)
    translate: dict[int, str] = {}
    if second and "d" not in options:
        padded = second + second[-1] * max(len(first) - len(second), 0)
        translate = {ord(old): new for old, new in zip(first, padded, strict=False)}
    squeezed = set(second or first) if "s" in options else set[str]()
    dropped = set(first) if "d" in options else set[str]()
    previous = ""
    while chunk := await proc.read():
        out: list[str] = []
        for char in chunk.decode("latin-1"):
            if char in dropped:
                continue
            char = translate.get(ord(char), char)
            if char in squeezed and char == previous:
                continue
            previous = char
            out.append(char)
        await proc.write("".join(out).encode("latin-1", "replace"))
    return 0


# -- others -------------------------------------------------------------------------------------------------


@applet
async def tee(proc: Proc) -> int:
    options = options_of(proc, "ai")
    append = "a" in options
    files: list[OpenFile] = []
    code = 0
    for name in options.operands:
        try:
            files.append(
                proc.open(name, write=True, create=True, append=append, truncate=not append, read=False)
            )
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
    while chunk := await proc.read():
        await proc.write(chunk)
        for file in files:
            await file.write(chunk)
    for file in files:
        file.release()
    return code


@applet
async def rev(proc: Proc) -> int:
    lines, code = await _all_lines(proc, proc.args)
    await proc.write("".join(f"{line[::-1]}\n" for line in lines))
    return code


@applet
async def paste(proc: Proc) -> int:
    options = options_of(proc, "d:s")
    delimiters = unescape_echo(options.value("d", "\t"))[0] or "\0"
    columns: list[list[str]] = []
    code = 0
    for _, data in await inputs(proc, options.operands):
        code = code or int(data is None)
        columns.append([decode(line) for line in lines_of(data or b"")])
    if "s" not in options:
        longest = max((len(column) for column in columns), default=0)
        columns = [[column[row] for column in columns if row < len(column)] for row in range(longest)]
    for row in columns:
        if not row:
            continue
        text = row[0]
        for index, cell in enumerate(row[1:]):
            text += delimiters[index % len(delimiters)] + cell
        await proc.write(f"{text}\n")
    return code


@applet
async def fold(proc: Proc) -> int:
    options = options_of(proc, "w:sb")
    width = max(parse_number(options.value("w", "80")), 1)
    code = 0
    for _, data in await inputs(proc, options.operands):
        code = code or int(data is None)
        for line in _with_ends(decode(data or b"")):
            text = line.removesuffix("\n")
            pieces = _folded(text, width, at_spaces="s" in options, by_bytes="b" in options)
            await proc.write("\n".join(pieces) + line[len(text) :])
    return code


def _with_ends(text: str) -> list[str]:
    """The lines with their ends; the last may have none."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _folded(line: str, width: int, *, at_spaces: bool, by_bytes: bool) -> list[str]:
    """The pieces of a line that are as wide as allowed; a tab reaches to the next multiple of eight."""
    pieces: list[str] = []
    piece, column = "", 0
    for char in line:
        wide = 8 - column % 8 if char == "\t" and not by_bytes else 1
        if piece and column + wide > width:
            at = piece.rfind(" ") + 1 if at_spaces and " " in piece else len(piece)
            pieces.append(piece[:at])
            piece = piece[at:]
            column = len(piece)
            wide = 8 - column % 8 if char == "\t" and not by_bytes else 1
        piece += char
        column += wide
    return [*pieces, piece]


@applet
async def shuf(proc: Proc) -> int:
    options = options_of(proc, "en:i:")
    if "i" in options:
        low, _, high = options.value("i").partition("-")
        lines = [str(number) for number in range(parse_number(low), parse_number(high) + 1)]
    else:
        lines = options.operands if "e" in options else (await _all_lines(proc, options.operands))[0]
    proc.rng.shuffle(lines)
    if "n" in options:
        lines = lines[: parse_number(options.value("n"))]
    await proc.write("".join(f"{line}\n" for line in lines))
    return 0


@applet
async def split(proc: Proc) -> int:
    options = options_of(proc, "l:b:a:")
    operands = options.operands
    data = b"".join([data or b"" for _, data in await inputs(proc, operands[:1])])
    prefix = operands[1] if len(operands) > 1 else "x"
    digits = parse_number(options.value("a", "2"))
    if "b" in options:
        from cri_fake.process.applets.fileops import parse_size

        size = max(parse_size(options.value("b")), 1)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
    else:
        count = max(parse_number(options.value("l", "1000")), 1)
        lines = data.splitlines(keepends=True)
        pieces = [b"".join(lines[at : at + count]) for at in range(0, len(lines), count)]
    if len(pieces) > 26**digits:
        raise UsageError("suffixes exhausted")
    for index, piece in enumerate(pieces):
        suffix = ""
        for _ in range(digits):
            index, letter = divmod(index, 26)
            suffix = chr(97 + letter) + suffix
        proc.fs.write(proc.path(prefix + suffix), piece)
    return 0


@applet
async def od(proc: Proc) -> int:
    """``od`` and ``hexdump`` in their common forms: -c, -An -tx1, -C."""
    options = options_of(proc, "A:t:cxvCN:n:j:")
    data = b"".join([data or b"" for _, data in await inputs(proc, options.operands)])
    limit = options.value("N") or options.value("n")
    data = data[: parse_number(limit)] if limit else data
    canonical = "C" in options
    named = options.value("A", "x" if proc.name == "hexdump" else "o")
    width = {"o": "07o", "x": "07x" if proc.name == "hexdump" else "06x", "d": "07d"}.get(named, "")
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        if canonical:
            halves = " ".join(f"{byte:02x}" for byte in row[:8]), " ".join(f"{byte:02x}" for byte in row[8:])
            shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            await proc.write(f"{at:08x}  {halves[0]:<23}  {halves[1]:<23}  |{shown}|\n")
            continue
        address = format(at, width) if width else ""
        await proc.write(address + _od_row(row, options) + "\n")
    if canonical:
        await proc.write(f"{len(data):08x}\n" if data else "")
    elif width:
        await proc.write(format(len(data), width) + "\n")
    return 0


_OD_NAMES = {0: "\\0", 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def _od_row(row: bytes, options: Options) -> str:
    kind = options.value("t")
    if "c" in options or kind == "c":
        return "".join(
            f"{_OD_NAMES.get(byte, chr(byte) if 32 <= byte < 127 else f'{byte:03o}'):>4}" for byte in row
        )
    if kind.startswith("x1"):
        return "".join(f" {byte:02x}" for byte in row)
    if kind.startswith(("u1", "d1")):
        return "".join(f" {byte:3}" for byte in row)
    words = [int.from_bytes(row[at : at + 2].ljust(2, b"\0"), "little") for at in range(0, len(row), 2)]
    hexadecimal = kind.startswith("x") or "x" in options
    return "".join(f" {word:04x}" if hexadecimal else f" {word:06o}" for word in words)


# -- expr ---------------------------------------------------------------------------------------------------

_EXPR_LEVELS: tuple[tuple[str, ...], ...] = (
    ("|",),
    ("&",),
    ("<", "<=", "=", "==", "!=", ">=", ">"),
    ("+", "-"),
    ("*", "/", "%"),
    (":",),
)


class _Expr:
    """``expr``'s grammar over its arguments."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def run(self) -> str:
        value = self._level(0)
        if self._at < len(self._words):
            raise UsageError("syntax error")
        return value

    def _level(self, level: int) -> str:
        if level == len(_EXPR_LEVELS):
            return self._primary()
        value = self._level(level + 1)
        while self._at < len(self._words) and self._words[self._at] in _EXPR_LEVELS[level]:
            operator = self._words[self._at]
            self._at += 1
            value = _expr_apply(operator, value, self._level(level + 1))
        return value

    def _next(self) -> str:
        if self._at >= len(self._words):
            raise UsageError("syntax error")
        self._at += 1
        return self._words[self._at - 1]

    def _primary(self) -> str:
        word = self._next()
        if word == "(":
            value = self._level(0)
            if self._next() != ")":
                raise UsageError("syntax error")
            return value
        if word == "length":
            return str(len(self._primary()))
        if word == "match":
            return _expr_match(self._primary(), self._primary())
        if word == "substr":
            text, start, length = self._primary(), _expr_int(self._primary()), _expr_int(self._primary())
            return text[start - 1 : start - 1 + length] if start > 0 and length > 0 else ""
        if word == "index":
            text, chars = self._primary(), self._primary()
            return str(next((at for at, char in enumerate(text, start=1) if char in chars), 0))
        return word


def _expr_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError("non-numeric argument") from None


def _expr_match(text: str, pattern: str) -> str:
    try:
        found = compile_posix(pattern, extended=False).match(text)
    except RegexError as problem:
        raise UsageError(f"bad regular expression: {problem}") from None
    groups = bool(found and found.re.groups) or "\\(" in pattern
    if found is None:
        return "" if groups else "0"
    return (found.group(1) or "") if groups else str(found.end())


def _expr_apply(operator: str, left: str, right: str) -> str:
    if operator == ":":
        return _expr_match(left, right)
    if operator == "|":
        return left if left not in ("", "0") else (right or "0")
    if operator == "&":
        return left if left not in ("", "0") and right not in ("", "0") else "0"
    if operator in ("+", "-", "*", "/", "%"):
        first, second = _expr_int(left), _expr_int(right)
        if operator in ("/", "%") and second == 0:
            raise UsageError("division by zero")
        quotient = abs(first) // abs(second or 1)
        quotient = quotient if (first < 0) == (second < 0) else -quotient
        table: dict[str, Callable[[], int]] = {
            "+": lambda: first + second,
            "-": lambda: first - second,
            "*": lambda: first * second,
            "/": lambda: quotient,
            "%": lambda: first - quotient * second,
        }
        return str(table[operator]())
    try:
        order = (int(left) > int(right)) - (int(left) < int(right))
    except ValueError:
        order = (left > right) - (left < right)
    truth = {
        "<": order < 0, "<=": order <= 0, "=": order == 0, "==": order == 0, "!=": order != 0,
        ">=": order >= 0, ">": order > 0,
    }  # fmt: skip
    return str(int(truth[operator]))


async def expr(proc: Proc) -> int:
    """Exit code 1 for a null or zero result, 2 for an invalid expression."""
    try:
        value = _Expr(proc.args).run()
    except UsageError as problem:
        await proc.complain(str(problem))
        return 2
    except RecursionError:
        await proc.complain("expression nested too deeply")
        return 2
    await proc.write(f"{value}\n")
    return int(value in ("", "0"))
