"""Reading words, quotes and expansions out of shell text (pure).

The reader owns the position in the text; the parser above it decides what the words mean. A command
substitution is parsed by the parser at the reader's position, handed in as a callable.
"""

from __future__ import annotations

from collections.abc import Callable

from cri_fake.process.shell.nodes import (
    Arith,
    CommandSub,
    DoubleQuoted,
    Literal,
    Param,
    Part,
    Script,
    ShellSyntaxError,
    Word,
)

__all__ = ["WordReader", "ansi_c_unescape", "is_name"]

_SPECIAL_PARAMS = "@*#?-$!0123456789"
_WORD_END = " \t\n;&|<>()"
_OPERATORS = ("&>>", "&>", "&&", "||", ";;", ";&", "<<-", "<<<", "<<", ">>", ">|", "<>", "<&", ">&")
_SINGLE = "<>|&;()"
_PLAIN_OPS = "-=?+"
_DQUOTE_ESCAPES = '$`"\\'
_MAX_NESTING = 60
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", "'": "'"}
_ANSI = _ESCAPES | {'"': '"', "e": "\x1b"}


def is_name(text: str) -> bool:
    """Whether the text is a variable name: ASCII letters, digits and underscores, no digit first."""
    return bool(text) and text.isascii() and text.replace("_", "a").isalnum() and not text[0].isdigit()


class WordReader:
    """A cursor over shell text. Positions and lines are public so that the parser can name and go back to
    them.
    """

    def __init__(
        self, text: str, first_line: int, command_substitution: Callable[[], Script], depth: int
    ) -> None:
        self.text = text
        self.position = 0
        self.line = first_line
        self.open_document = False
        self._substitute = command_substitution
        self._depth = depth

    def char(self, ahead: int = 0) -> str:
        """The character at the cursor, "" at the end."""
        at = self.position + ahead
        return self.text[at] if at < len(self.text) else ""

    def advance(self, count: int = 1) -> str:
        taken = self.text[self.position : self.position + count]
        self.position += count
        self.line += taken.count("\n")
        return taken

    def skip_blanks(self) -> None:
        """Skips blanks, escaped newlines and a comment."""
        while True:
            char = self.char()
            if char in (" ", "\t"):
                self.position += 1
            elif char == "\\" and self.char(1) == "\n":
                self.advance(2)
            elif char == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            else:
                return

    def io_number(self) -> int | None:
        """The digits directly before a redirection operator, consumed; None if there are none."""
        at = self.position
        while at < len(self.text) and self.text[at].isdigit():
            at += 1
        if at == self.position or at >= len(self.text) or self.text[at] not in "<>" or at - self.position > 2:
            return None
        number = int(self.text[self.position : at])
        self.position = at
        return number

    def redirect_operator(self) -> str:
        return self.operator()

    def operator(self) -> str:
        """The operator at the cursor, consumed; "" if there is none."""
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.position):
                self.position += len(operator)
                return operator
        char = self.char()
        if char and char in _SINGLE:
            self.position += 1
            return char
        return ""

    # -- words ----------------------------------------------------------------------------------------------

    def word(self) -> Word:
        """The word at the cursor, up to an unquoted blank or operator."""
        return self._unquoted(_WORD_END)

    def _unquoted(self, stop: str) -> Word:
        parts: list[Part] = []
        plain: list[str] = []
        text = self.text
        while self.position < len(text):
            char = text[self.position]
            if char in stop:
                break
            if char not in "\\'\"$`":
                plain.append(char)
                self.advance()
                continue
            if char == "\\" and self.char(1) == "\n":
                self.advance(2)
                continue
            if char == "$" and not self._starts_expansion():
                plain.append("$")
                self.position += 1
                continue
            if plain:
                parts.append(Literal("".join(plain)))
                plain.clear()
            parts.append(self._special(char))
        if plain:
            parts.append(Literal("".join(plain)))
        return tuple(parts)

    def _special(self, char: str) -> Part:
        if char == "\\":
            self.position += 1
            return Literal(self.advance() or "\\", quoted=True)
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._double_quoted()
        if char == "`":
            return self._backquoted(quoted=False)
        if self.char(1) == "'":
            self.position += 1
            return Literal(ansi_c_unescape(self._single_quoted(escapes=True).text), quoted=True)
        return self._expansion(quoted=False)

    def _starts_expansion(self) -> bool:
        following = self.char(1)
        return bool(following) and (
            following in "({'_"
            or following in _SPECIAL_PARAMS
            or (following.isascii() and following.isalpha())
        )

    def _unterminated(self, what: str, line: int) -> ShellSyntaxError:
        return ShellSyntaxError(f"syntax error: unterminated {what}", line, incomplete=True)

    def _single_quoted(self, *, escapes: bool = False) -> Literal:
        line = self.line
        self.position += 1
        start = self.position
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == "'":
                text = self.text[start : self.position]
                self.position += 1
                return Literal(text, quoted=True)
            self.advance(2 if escapes and char == "\\" else 1)
        raise self._unterminated("quoted string", line)

    def _double_quoted(self) -> DoubleQuoted:
        line = self.line
        self.position += 1
        parts = self.quoted_parts('"')
        if self.char() != '"':
            raise self._unterminated("quoted string", line)
        self.position += 1
        return DoubleQuoted(parts)

    def quoted_parts(self, stop: str, *, escapes: str = _DQUOTE_ESCAPES) -> Word:
        """Text with the rules of double quotes up to an unescaped stop character or the end."""
        parts: list[Part] = []
        plain: list[str] = []
        while self.position < len(self.text):
            char = self.text[self.position]
            if char in stop:
                break
            if char == "\\":
                following = self.char(1)
                if following == "\n":
                    self.advance(2)
                elif following and (following in escapes or following in stop):
                    plain.append(following)
                    self.position += 2
                else:
                    plain.append("\\")
                    self.position += 1
                continue
            expands = char == "`" or (char == "$" and self._starts_expansion() and self.char(1) != "'")
            if not expands:
                if char == '"' and "}" in stop:
                    if plain:
                        parts.append(Literal("".join(plain), quoted=True))
                        plain.clear()
                    parts.append(self._double_quoted())
                    continue
                plain.append(char)
                self.advance()
                continue
            if plain:
                parts.append(Literal("".join(plain), quoted=True))
                plain.clear()
            parts.append(self._backquoted(quoted=True) if char == "`" else self._expansion(quoted=True))
        if plain:
            parts.append(Literal("".join(plain), quoted=True))
        return tuple(parts)

    # -- expansions -----------------------------------------------------------------------------------------

    def _backquoted(self, *, quoted: bool) -> CommandSub:
        from cri_fake.process.shell.parser import parse

        line = self.line
        self.position += 1
        inner: list[str] = []
        while True:
            char = self.char()
            if not char:
                raise self._unterminated("backquote", line)
            if char == "`":
                self.position += 1
                break
            if char == "\\" and self.char(1) in ("\\", "`", "$", *(('"',) if quoted else ())):
                inner.append(self.char(1))
                self.advance(2)
                continue
            inner.append(char)
            self.advance()
        self._enter(line)
        script = parse("".join(inner), line, self._depth)
        self._depth -= 1
        if script.error is not None:
            raise script.error
        return CommandSub(script, quoted)

    def _enter(self, line: int) -> None:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise ShellSyntaxError(f"syntax error: expansions nested deeper than {_MAX_NESTING} levels", line)

    def _expansion(self, *, quoted: bool) -> Part:
        """At a ``$`` that starts an expansion."""
        line = self.line
        self._enter(line)
        try:
            following = self.char(1)
            if following == "(":
                if self.char(2) == "(":
                    arithmetic = self._arithmetic(quoted=quoted)
                    if arithmetic is not None:
                        return arithmetic
                self.position += 2
                return CommandSub(self._substitute(), quoted)
            if following == "{":
                return self._braced(quoted=quoted)
            self.position += 1
            if following in _SPECIAL_PARAMS:
                self.position += 1
                return Param(following, quoted=quoted, line=line)
            return Param(self._name(), quoted=quoted, line=line)
        finally:
            self._depth -= 1

    def _name(self) -> str:
        start = self.position
        while self.position < len(self.text):
            char = self.text[self.position]
            if not (char == "_" or (char.isascii() and char.isalnum())):
                break
            self.position += 1
        return self.text[start : self.position]

    def _arithmetic(self, *, quoted: bool) -> Arith | None:
        """``$((…))``; None, cursor untouched, if it turns out to be ``$( (…) …)``."""
        start, line = self.position, self.line
        self.position += 3
        parts: list[Part] = []
        level = 0
        while True:
            parts.extend(self.quoted_parts("()", escapes="$`\\"))
            char = self.char()
            if not char:
                break
            if char == "(":
                level += 1
            elif level:
                level -= 1
            elif self.char(1) == ")":
                self.position += 2
                return Arith(tuple(parts), quoted)
            else:
                break
            parts.append(Literal(char, quoted=True))
            self.position += 1
        self.position, self.line = start, line
        return None

    def _braced(self, *, quoted: bool) -> Param:
        line = self.line
        self.position += 2
        name, length = self._braced_name()
        char = self.char()
        if char == "}":
            self.position += 1
            return Param(name, "len" if length else "", quoted=quoted, line=line)
        if length or not name:
            raise ShellSyntaxError("syntax error: bad substitution", line)
        if char == ":" and self.char(1) and self.char(1) in _PLAIN_OPS:
            op = self.advance(2)
        elif char == ":":
            return self._substring(name, line, quoted=quoted)
        elif char and char in _PLAIN_OPS:
            op = self.advance()
        elif char and char in "#%/":
            op = self.advance()
            if self.char() == char:
                op += self.advance()
        else:
            what = "syntax error: bad substitution" if char else "syntax error: missing '}'"
            raise ShellSyntaxError(what, line)
        pattern = op[0] in "#%/"
        first = self._braced_word("/}" if op[0] == "/" else "}", quoted=quoted and not pattern)
        second: Word | None = None
        if op[0] == "/" and self.char() == "/":
            self.position += 1
            second = self._braced_word("}", quoted=quoted)
        self._close_brace(line)
        return Param(name, op, first, second, quoted, line)

    def _braced_name(self) -> tuple[str, bool]:
        length = False
        if self.char() == "#" and self.char(1) != "}":
            following = self.char(1)
            simple = following.isalnum() or following == "_" or self.char(2) == "}"
            if simple and following:
                self.position += 1
                length = True
        char = self.char()
        if char.isdigit():
            start = self.position
            while self.char().isdigit():
                self.position += 1
            return self.text[start : self.position], length
        if char and char in _SPECIAL_PARAMS:
            self.position += 1
            return char, length
        return self._name(), length

    def _substring(self, name: str, line: int, *, quoted: bool) -> Param:
        self.position += 1
        offset = self.quoted_parts(":}")
        length: Word | None = None
        if self.char() == ":":
            self.position += 1
            length = self.quoted_parts("}")
        self._close_brace(line)
        return Param(name, "sub", offset, length, quoted, line)

    def _braced_word(self, stop: str, *, quoted: bool) -> Word:
        return self.quoted_parts(stop) if quoted else self._unquoted(stop)

    def _close_brace(self, line: int) -> None:
        if self.char() != "}":
            raise ShellSyntaxError("syntax error: missing '}'", line, incomplete=not self.char())
        self.position += 1

    # -- here-documents -------------------------------------------------------------------------------------

    def delimiter(self, word: Word, line: int) -> tuple[str, bool]:
        """The end marker of a here-document and whether any of it was quoted."""
        text: list[str] = []
        quoted = False
        for part in word:
            if isinstance(part, Literal):
                text.append(part.text)
                quoted = quoted or part.quoted
            elif isinstance(part, DoubleQuoted):
                quoted = True
                inner, _ = self.delimiter(part.parts, line)
                text.append(inner)
            else:
                raise ShellSyntaxError("syntax error: expansion in the delimiter of a here-document", line)
        return "".join(text), quoted

    def heredoc(self, delimiter: str, *, quoted: bool, strip: bool) -> Word:
        """The lines from the cursor to the delimiter, consumed with it; the end of the text ends them."""
        first_line = self.line
        lines: list[str] = []
        while self.position < len(self.text):
            end = self.text.find("\n", self.position)
            end = len(self.text) if end < 0 else end
            line = self.text[self.position : end]
            self.advance(min(end + 1, len(self.text)) - self.position)
            if strip:
                line = line.lstrip("\t")
            if line == delimiter:
                break
            lines.append(line + "\n")
        else:
            self.open_document = True
        body = "".join(lines)
        if quoted:
            return (Literal(body, quoted=True),)
        from cri_fake.process.shell.parser import heredoc_parts

        return heredoc_parts(body, first_line, self._depth)


def ansi_c_unescape(text: str) -> str:
    """The value of ``$'text'``."""
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at >= len(text):
            out.append(char)
            continue
        code = text[at]
        at += 1
        if code in _ANSI:
            out.append(_ANSI[code])
        elif code in "01234567":
            end = at
            while end < len(text) and end < at + 2 and text[end] in "01234567":
                end += 1
            out.append(chr(int(text[at - 1 : end], 8) & 0xFF))
            at = end
        elif code == "x":
            end = at
            while end < len(text) and end < at + 2 and text[end] in "0123456789abcdefABCDEF":
                end += 1
            out.append(chr(int(text[at:end], 16)) if end > at else "\\x")
            at = end
        else:
            out.append("\\" + code)
    return "".join(out)
