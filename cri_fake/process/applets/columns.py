"""Applets about tabs, factors and hexadecimal: expand, unexpand, factor, xxd."""

from __future__ import annotations

from cri_fake.process.applets.common import applet, inputs, lines_of, options_of
from cri_fake.process.applets.options import UsageError
from cri_fake.process.applets.simple import parse_number
from cri_fake.process.proc import Proc, decode

MAX_FACTORED = 1 << 40
"""Larger numbers would take too long."""


@applet
async def expand(proc: Proc) -> int:
    """Tabs become spaces; with -i only those before the text."""
    options = options_of(proc, "it:")
    stop = max(parse_number(options.value("t", "8")), 1)
    code = 0
    for _, data in await inputs(proc, options.operands):
        code = code or int(data is None)
        for line in (data or b"").splitlines(keepends=True):
            await proc.write(_expanded(decode(line), stop, initial="i" in options))
    return code


def _expanded(line: str, stop: int, *, initial: bool) -> str:
    shown, column = "", 0
    for at, char in enumerate(line):
        if initial and char not in " \t":
            return shown + line[at:]
        width = stop - column % stop if char == "\t" else 1
        shown += " " * width if char == "\t" else char
        column += width
    return shown


@applet
async def unexpand(proc: Proc) -> int:
    """Spaces before the text become tabs; with -a all that reach a tab stop."""
    options = options_of(proc, "aft:")
    stop = max(parse_number(options.value("t", "8")), 1)
    everywhere = "a" in options or "t" in options
    code = 0
    for _, data in await inputs(proc, options.operands):
        code = code or int(data is None)
        for line in lines_of(data or b""):
            await proc.write(_unexpanded(decode(line), stop, everywhere) + "\n")
    return code


def _unexpanded(line: str, stop: int, everywhere: bool) -> str:
    shown, blanks, column = "", 0, 0
    for at, char in enumerate(line):
        if char == " ":
            blanks += 1
            column += 1
            if column % stop == 0 and blanks > 1:
                shown, blanks = f"{shown}\t", 0
            continue
        shown += " " * blanks
        blanks = 0
        if not everywhere:
            return shown + line[at:]
        shown += char
        column += 1
    return shown + " " * blanks


@applet
async def factor(proc: Proc) -> int:
    """The prime factors of each number, of standard input without operands."""
    words = proc.args or decode(await proc.read_all()).split()
    for word in words:
        number = parse_number(word)
        if number > MAX_FACTORED:
            raise UsageError(f"{word}: numbers up to {MAX_FACTORED} are factored")
        await proc.write(f"{number}:{''.join(f' {prime}' for prime in _primes(number))}\n")
    return 0


def _primes(number: int) -> list[int]:
    found: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1 if divisor == 2 else 2
    return [*found, number] if number > 1 else found


@applet
async def xxd(proc: Proc) -> int:
    """Bytes in hexadecimal; -p plain, -r back."""
    options = options_of(proc, "pri:c:g:l:s:u")
    name = options.operands[:1]
    ((_, data),) = await inputs(proc, name)
    if data is None:
        return 1
    if "r" in options:
        text = decode(data)
        if "p" not in options:
            text = "".join(line.partition(":")[2].partition("  ")[0] for line in text.splitlines())
        try:
            back = bytes.fromhex("".join(text.split()))
        except ValueError:
            raise UsageError("this is no hexadecimal") from None
        await proc.write(back)
        return 0
    data = data[parse_number(options.value("s", "0")) :]
    if "l" in options:
        data = data[: parse_number(options.value("l"))]
    per_line = max(parse_number(options.value("c", "30" if "p" in options else "16")), 1)
    for at in range(0, len(data), per_line):
        await proc.write(_row(data[at : at + per_line], at, per_line, plain="p" in options))
    return 0


def _row(row: bytes, at: int, per_line: int, *, plain: bool) -> str:
    if plain:
        return f"{row.hex()}\n"
    pairs = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
    width = 2 * per_line + (per_line + 1) // 2 - 1
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{at:08x}: {pairs:<{width}}  {shown}\n"
