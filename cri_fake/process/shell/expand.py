"""Word expansion: tilde, parameters, command substitution, arithmetic, splitting, pathnames.

Asynchronous only because a command substitution runs a process; everything else is decided by the pure
modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cri_fake.process.proc import encode
from cri_fake.process.shell.arith import ArithmeticError_, evaluate
from cri_fake.process.shell.fields import Fields, Piece, piece_pattern, piece_text
from cri_fake.process.shell.nodes import Arith, CommandSub, DoubleQuoted, Literal, Param, Script, Word
from cri_fake.process.shell.pattern import has_magic, remove_prefix, remove_suffix, substitute
from cri_fake.process.shell.state import ShellFailure

if TYPE_CHECKING:
    from cri_fake.process.shell.interp import Shell

__all__ = ["Expander"]

_MAGIC = frozenset("*?[")


class _Out(Protocol):
    def text(self, text: str, *, quoted: bool) -> None: ...
    def split(self, text: str) -> None: ...
    def end_field(self) -> None: ...


class _Joined:
    """Collects without splitting: for assignments, patterns, here-documents, ``case``."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def text(self, text: str, *, quoted: bool) -> None:
        self.pieces.append((text, quoted))

    def split(self, text: str) -> None:
        self.pieces.append((text, False))

    def end_field(self) -> None:
        self.pieces.append((" ", True))


class Expander:
    """Expands words for one shell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def fields(self, words: tuple[Word, ...]) -> list[str]:
        """All fields that the words expand to."""
        out: list[str] = []
        for word in words:
            if len(word) == 1:
                part = word[0]
                if isinstance(part, Literal):
                    text = part.text
                    if part.quoted or text == "[" or not (text[:1] == "~" or _MAGIC.intersection(text)):
                        out.append(text)
                        continue
            fields = Fields(self._shell.state.ifs())
            await self._parts(word, fields, literal_splits=False, tilde=True)
            for pieces in fields.result():
                out.extend(self._paths(pieces))
        return out

    async def string(self, word: Word, *, tilde: bool = True) -> str:
        """The word as one string: neither split nor globbed."""
        joined = _Joined()
        await self._parts(word, joined, literal_splits=False, tilde=tilde)
        return piece_text(joined.pieces) if joined.pieces else ""

    async def assignment(self, word: Word) -> str:
        """The right side of an assignment: tildes count after a colon as well."""
        if len(word) == 1 and isinstance(word[0], Literal) and not word[0].quoted and "~" in word[0].text:
            return ":".join(self._tilde(text) for text in word[0].text.split(":"))
        return await self.string(word)

    async def pattern(self, word: Word) -> str:
        """The word as a pattern (``pattern`` module): quoted text stands for itself."""
        joined = _Joined()
        await self._parts(word, joined, literal_splits=False, tilde=True)
        return piece_pattern(joined.pieces)

    async def arithmetic(self, word: Word) -> int:
        return self.calculate(await self.string(word, tilde=False))

    def calculate(self, text: str) -> int:
        """The value of an arithmetic expression. Raises ``ShellFailure``."""
        state = self._shell.state
        try:
            return evaluate(text, lambda name: self._shell.parameter(name) or "", state.set)
        except ArithmeticError_ as problem:
            raise ShellFailure(str(problem)) from None

    # -- parts ----------------------------------------------------------------------------------------------

    async def _parts(self, word: Word, out: _Out, *, literal_splits: bool, tilde: bool) -> None:
        for index, part in enumerate(word):
            if isinstance(part, Literal):
                text = part.text
                if tilde and index == 0 and not part.quoted and text.startswith("~"):
                    prefix, slash, rest = text.partition("/")
                    if slash or len(word) == 1:
                        out.text(self._tilde(prefix), quoted=True)
                        text = slash + rest
                if literal_splits and not part.quoted:
                    out.split(text)
                else:
                    out.text(text, quoted=part.quoted)
            elif isinstance(part, Param):
                await self._param(part, out)
            elif isinstance(part, DoubleQuoted):
                await self._double_quoted(part, out)
            elif isinstance(part, CommandSub):
                self._put(out, await self._command(part.body), quoted=part.quoted)
            else:
                self._put(out, str(await self._arith(part)), quoted=part.quoted)

    async def _double_quoted(self, part: DoubleQuoted, out: _Out) -> None:
        at_only = part.parts and all(
            isinstance(inner, Param) and inner.name == "@" and not inner.op for inner in part.parts
        )
        if not at_only:
            out.text("", quoted=True)
        await self._parts(part.parts, out, literal_splits=False, tilde=False)

    def _put(self, out: _Out, text: str, *, quoted: bool) -> None:
        if quoted:
            out.text(text, quoted=True)
        else:
            out.split(text)

    async def _command(self, body: Script) -> str:
        return await self._shell.substitute(body)

    async def _arith(self, part: Arith) -> int:
        return await self.arithmetic(part.expression)

    def _tilde(self, text: str) -> str:
        """``~`` and ``~user`` at the start of the text."""
        if not text.startswith("~"):
            return text
        prefix, slash, rest = text.partition("/")
        if prefix == "~":
            home = self._shell.state.values.get("HOME")
            return text if home is None else home + slash + rest
        home = self._shell.home_of(prefix[1:])
        return text if home is None else home + slash + rest

    # -- parameters -----------------------------------------------------------------------------------------

    async def _param(self, part: Param, out: _Out) -> None:
        op = part.op
        if part.name in ("@", "*") and op in ("", ":-", "-", ":+", "+", "#", "##", "%", "%%", "/", "//"):
            await self._all_params(part, out)
            return
        value = self._shell.parameter(part.name)
        if op in ("", "len"):
            value = self._required(part.name, value)
            if op == "len":
                value = str(len(encode(value)))
            self._put(out, value, quoted=part.quoted)
            return
        if op[-1] in "-=?+":
            await self._conditional(part, value, out)
            return
        value = self._required(part.name, value)
        if op == "sub":
            result = await self._substring(part, value)
        else:
            result = await self._edited(part, value)
        self._put(out, result, quoted=part.quoted)

    def _required(self, name: str, value: str | None) -> str:
        if value is None:
            if "nounset" in self._shell.state.options and name not in ("@", "*"):
                raise ShellFailure(f"{name}: parameter not set")
            return ""
        return value

    async def _all_params(self, part: Param, out: _Out) -> None:
        values = list(self._shell.state.positional)
        op = part.op
        if op and op[-1] in "-+":
            present = bool(values) and not (op[0] == ":" and values == [""])
            if op[-1] == "+":
                if present:
                    await self._argument(part, out)
                return
            if not present:
                await self._argument(part, out)
                return
        elif op:
            values = [await self._edited(part, value) for value in values]
        if part.name == "*" and part.quoted:
            out.text(self._shell.state.ifs()[:1].join(values), quoted=True)
            return
        for index, value in enumerate(values):
            if index:
                out.end_field()
            self._put(out, value, quoted=part.quoted)

    async def _argument(self, part: Param, out: _Out) -> None:
        if part.quoted:
            await self._parts(part.arg, out, literal_splits=False, tilde=False)
        else:
            await self._parts(part.arg, out, literal_splits=True, tilde=True)

    async def _conditional(self, part: Param, value: str | None, out: _Out) -> None:
        op = part.op
        present = value is not None and not (op[0] == ":" and value == "")
        if op[-1] == "+":
            if present:
                await self._argument(part, out)
            return
        if present:
            self._put(out, value or "", quoted=part.quoted)
        elif op[-1] == "-":
            await self._argument(part, out)
        elif op[-1] == "=":
            if not (part.name[0].isalpha() or part.name[0] == "_"):
                raise ShellFailure(f"{part.name}: bad variable name")
            made = await self.string(part.arg)
            self._shell.state.set(part.name, made)
            self._put(out, made, quoted=part.quoted)
        else:
            message = await self.string(part.arg) if part.arg else "parameter not set"
            if not part.arg and op[0] == ":":
                message = "parameter not set or null"
            raise ShellFailure(f"{part.name}: {message}")

    async def _edited(self, part: Param, value: str) -> str:
        op = part.op
        pattern = await self.pattern(part.arg)
        if op[0] == "#":
            return remove_prefix(pattern, value, longest=len(op) == 2)
        if op[0] == "%":
            return remove_suffix(pattern, value, longest=len(op) == 2)
        replacement = await self.string(part.arg2) if part.arg2 else ""
        return substitute(pattern, replacement, value, everywhere=len(op) == 2)

    async def _substring(self, part: Param, value: str) -> str:
        offset = await self.arithmetic(part.arg)
        if offset < 0:
            offset = max(len(value) + offset, 0)
        if part.arg2 is None:
            return value[offset:]
        length = await self.arithmetic(part.arg2)
        end = len(value) + length if length < 0 else offset + length
        return value[offset : max(end, offset)]

    # -- pathnames ------------------------------------------------------------------------------------------

    def _paths(self, pieces: list[Piece]) -> list[str]:
        if "noglob" not in self._shell.state.options and any(
            not quoted and _MAGIC.intersection(text) for text, quoted in pieces
        ):
            pattern = piece_pattern(pieces)
            if has_magic(pattern):
                found = self._shell.glob(pattern)
                if found:
                    return found
        return [piece_text(pieces)]
