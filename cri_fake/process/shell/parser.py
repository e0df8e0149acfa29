"""Recursive-descent parser for the shell language (pure).

``parse(text)`` gives a ``Script``. Text up to a syntax error is kept and the error is part of the result, as
a shell runs complete commands before it meets the error. Results of recent scripts are cached: nodes are
immutable. What busybox ash does not have (arrays, ``<<<``, process substitution, ``select``) is a syntax
error here too.
"""

from functools import lru_cache

from cri_fake.process.shell.nodes import (
    AndOr,
    Assignment,
    Case,
    CaseItem,
    Command,
    For,
    Function,
    Group,
    HereDocument,
    If,
    Literal,
    Loop,
    Pipeline,
    Redirect,
    Script,
    Sequence,
    ShellSyntaxError,
    Simple,
    Subshell,
    Word,
    bare_text,
)
from cri_fake.process.shell.words import WordReader, is_name

__all__ = ["as_assignment", "heredoc_parts", "parse"]

_RESERVED = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "while",
        "until",
        "for",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "{",
        "}",
        "!",
    ]
)
_CLOSERS = frozenset(["then", "elif", "else", "fi", "do", "done", "esac", "}"])
_MAX_NESTING = 80
_DEFAULT_FD = {"<": 0, "<>": 0, "<&": 0, "<<": 0, "<<-": 0}
_EMPTY = Sequence(())


class _Token:
    """An operator, a word, a newline or the end."""

    __slots__ = ("fd", "kind", "line", "text", "word")

    def __init__(self, kind: str, text: str, line: int, word: Word = (), fd: int | None = None) -> None:
        self.kind = kind
        self.text = text
        self.line = line
        self.word = word
        self.fd = fd

    def describe(self) -> str:
        if self.kind == "end":
            return "end of file"
        if self.kind == "newline":
            return "newline"
        if self.kind == "redirect":
            return "redirection"
        if self.kind == "word" and bare_text(self.word) not in _RESERVED:
            return "word"
        return f'"{self.text}"'


class _Parser:
    """One pass over one source text."""

    def __init__(self, text: str, first_line: int, depth: int) -> None:
        self._reader = WordReader(text, first_line, self._command_substitution, depth)
        self._token: _Token | None = None
        self._depth = depth
        self._heredocs: list[tuple[HereDocument, str, bool, bool]] = []

    # -- entry points ---------------------------------------------------------------------------------------

    def script(self) -> Script:
        commands: list[tuple[Command, bool]] = []
        try:
            while True:
                self._skip_newlines()
                if self._peek().kind == "end":
                    return Script(tuple(commands), open_document=self._reader.open_document)
                commands.extend(self._line())
                token = self._peek()
                if token.kind not in ("newline", "end"):
                    raise self._unexpected(token)
        except ShellSyntaxError as error:
            return Script(tuple(commands), error)
        except RecursionError:
            error = ShellSyntaxError("syntax error: nested too deeply", self._reader.line)
            return Script(tuple(commands), error)

    def _command_substitution(self) -> Script:
        """Called by the word reader just after ``$(``; leaves it just after the matching ``)``."""
        saved_token, saved_heredocs = self._token, self._heredocs
        self._token, self._heredocs = None, []
        try:
            body = self._list(")")
            self._expect_operator(")")
        finally:
            self._token, self._heredocs = saved_token, saved_heredocs
        return Script(body.items)

    def heredoc_body(self) -> Word:
        """The whole text with the rules of double quotes, but for the quotes themselves."""
        return self._reader.quoted_parts("", escapes="$`\\")

    # -- tokens ---------------------------------------------------------------------------------------------

    def _peek(self) -> _Token:
        if self._token is None:
            self._token = self._lex()
        return self._token

    def _next(self) -> _Token:
        token = self._peek()
        self._token = None
        return token

    def _lex(self) -> _Token:
        reader = self._reader
        reader.skip_blanks()
        line = reader.line
        char = reader.char()
        if char == "":
            if self._heredocs:
                self._read_heredocs()
            return _Token("end", "", line)
        if char == "\n":
            reader.advance()
            self._read_heredocs()
            return _Token("newline", "\n", line)
        fd = reader.io_number()
        if fd is not None:
            operator = reader.redirect_operator()
            return _Token("redirect", operator, line, fd=fd)
        operator = reader.operator()
        if operator:
            kind = "redirect" if operator[0] in "<>" or operator in ("&>", "&>>") else "operator"
            return _Token(kind, operator, line)
        start = reader.position
        word = reader.word()
        return _Token("word", reader.text[start : reader.position], line, word)

    def _read_heredocs(self) -> None:
        pending, self._heredocs = self._heredocs, []
        for document, delimiter, quoted, strip in pending:
            document.body = self._reader.heredoc(delimiter, quoted=quoted, strip=strip)

    def _unexpected(self, token: _Token, expecting: str = "") -> ShellSyntaxError:
        tail = f' (expecting "{expecting}")' if expecting else ""
        text = f"syntax error: unexpected {token.describe()}{tail}"
        return ShellSyntaxError(text, token.line, incomplete=token.kind == "end")

    def _skip_newlines(self) -> None:
        while self._peek().kind == "newline":
            self._next()

    def _reserved(self) -> str:
        token = self._peek()
        if token.kind == "word":
            text = bare_text(token.word)
            if text in _RESERVED:
                return text or ""
        return ""

    def _expect_reserved(self, text: str) -> None:
        self._skip_newlines()
        if self._reserved() != text:
            raise self._unexpected(self._peek(), text)
        self._next()

    def _is_operator(self, *texts: str) -> bool:
        token = self._peek()
        return token.kind == "operator" and token.text in texts

    def _expect_operator(self, text: str) -> None:
        if not self._is_operator(text):
            raise self._unexpected(self._peek(), text)
        self._next()

    # -- lists ----------------------------------------------------------------------------------------------

    def _line(self) -> list[tuple[Command, bool]]:
        """A list up to the end of the line."""
        items: list[tuple[Command, bool]] = []
        while True:
            command = self._and_or()
            background = False
            if self._is_operator(";", "&"):
                background = self._next().text == "&"
            else:
                items.append((command, False))
                return items
            items.append((command, background))
            if self._peek().kind in ("newline", "end") or self._is_operator(")"):
                return items

    def _list(self, closer: str) -> Sequence:
        """Commands up to a closing reserved word or operator, which is not consumed."""
        items: list[tuple[Command, bool]] = []
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise ShellSyntaxError(
                f"syntax error: nested deeper than {_MAX_NESTING} levels", self._peek().line
            )
        while True:
            self._skip_newlines()
            token = self._peek()
            if token.kind == "end" or self._reserved() in _CLOSERS or self._is_operator(")", ";;", ";&"):
                break
            command = self._and_or()
            background = False
            if self._is_operator(";", "&"):
                background = self._next().text == "&"
            elif self._peek().kind != "newline":
                items.append((command, False))
                break
            items.append((command, background))
        self._depth -= 1
        if not items and closer not in (")", ";;"):
            raise self._unexpected(self._peek(), closer if self._peek().kind == "end" else "")
        return Sequence(tuple(items))

    def _and_or(self) -> Command:
        first = self._pipeline()
        rest: list[tuple[str, Command]] = []
        while self._is_operator("&&", "||"):
            operator = self._next().text
            self._skip_newlines()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Command:
        line = self._peek().line
        negated = False
        if self._reserved() == "!":
            self._next()
            negated = True
        commands = [self._command()]
        while self._is_operator("|"):
            self._next()
            self._skip_newlines()
            commands.append(self._command())
        if len(commands) == 1 and not negated:
            return commands[0]
        return Pipeline(tuple(commands), negated, line)

    # -- commands -------------------------------------------------------------------------------------------

    def _command(self) -> Command:
        token = self._peek()
        if token.kind == "operator" and token.text == "(":
            self._next()
            body = self._list(")")
            if not body.items:
                raise self._unexpected(self._peek())
            self._expect_operator(")")
            return Subshell(body, self._redirects(), token.line)
        reserved = self._reserved()
        if not reserved or reserved == "in":
            return self._simple()
        if reserved in _CLOSERS or reserved == "!":
            raise self._unexpected(token)
        self._next()
        if reserved == "{":
            body = self._list("}")
            self._expect_reserved("}")
            return Group(body, self._redirects())
        compound = self._compound(reserved, token.line)
        redirects = self._redirects()
        return Group(compound, redirects) if redirects else compound

    def _compound(self, reserved: str, line: int) -> Command:
        if reserved == "if":
            return self._if()
        if reserved in ("while", "until"):
            condition = self._list("do")
            return Loop(condition, self._do_group(), reserved == "until")
        if reserved == "for":
            return self._for(line)
        return self._case(line)

    def _if(self) -> If:
        clauses: list[tuple[Command, Command]] = []
        while True:
            condition = self._list("then")
            self._expect_reserved("then")
            clauses.append((condition, self._list("fi")))
            self._skip_newlines()
            word = self._reserved()
            if word == "elif":
                self._next()
                continue
            orelse: Command | None = None
            if word == "else":
                self._next()
                orelse = self._list("fi")
            self._expect_reserved("fi")
            return If(tuple(clauses), orelse)

    def _do_group(self) -> Command:
        self._expect_reserved("do")
        body = self._list("done")
        self._expect_reserved("done")
        return body

    def _for(self, line: int) -> For:
        token = self._next()
        name = bare_text(token.word) if token.kind == "word" else None
        if name is None or not is_name(name):
            raise ShellSyntaxError("syntax error: bad for loop variable", token.line)
        self._skip_newlines()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self._next()
            words = []
            while self._peek().kind == "word":
                words.append(self._next().word)
            if not self._is_operator(";") and self._peek().kind != "newline":
                raise self._unexpected(self._peek())
            self._next()
        elif self._is_operator(";"):
            self._next()
        body = self._do_group()
        return For(name, None if words is None else tuple(words), body, line)

    def _case(self, line: int) -> Case:
        token = self._next()
        if token.kind != "word":
            raise self._unexpected(token)
        self._expect_reserved("in")
        items: list[CaseItem] = []
        while True:
            self._skip_newlines()
            if self._reserved() == "esac":
                self._next()
                return Case(token.word, tuple(items), line)
            items.append(self._case_item())

    def _case_item(self) -> CaseItem:
        if self._is_operator("("):
            self._next()
        patterns: list[Word] = []
        while True:
            pattern = self._next()
            if pattern.kind != "word":
                raise self._unexpected(pattern, ")")
            patterns.append(pattern.word)
            if self._is_operator("|"):
                self._next()
                continue
            self._expect_operator(")")
            break
        body = self._list(";;")
        falls_through = False
        if self._is_operator(";;", ";&"):
            falls_through = self._next().text == ";&"
        else:
            self._skip_newlines()
            if self._reserved() != "esac":
                raise self._unexpected(self._peek(), ";;")
        return CaseItem(tuple(patterns), body if body.items else None, falls_through)

    def _simple(self) -> Command:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        line = self._peek().line
        while True:
            token = self._peek()
            if words and bare_text(words[0]) == "[[" and bare_text(words[-1]) != "]]":
                words.append(self._test_word())
                continue
            if token.kind == "redirect":
                self._redirect(redirects)
                continue
            if token.kind == "word":
                self._next()
                if not words and not assignments and bare_text(token.word) == "function":
                    return self._function_keyword()
                assignment = None if words else as_assignment(token.word)
                if assignment is not None:
                    assignments.append(assignment)
                else:
                    words.append(token.word)
                continue
            if token.kind == "operator" and token.text == "(":
                return self._function(token, assignments, words, redirects)
            break
        if not assignments and not words and not redirects:
            raise self._unexpected(self._peek())
        return Simple(tuple(assignments), tuple(words), tuple(redirects), line)

    def _test_word(self) -> Word:
        """Inside ``[[ ]]`` operators are words."""
        token = self._next()
        if token.kind in ("end", "newline"):
            raise self._unexpected(token, "]]")
        return token.word if token.kind == "word" else (Literal(token.text),)

    def _function_keyword(self) -> Function:
        """``function name { … }``, with or without ``()``."""
        token = self._next()
        name = bare_text(token.word) if token.kind == "word" else None
        if name is None:
            raise self._unexpected(token)
        if self._is_operator("("):
            self._next()
            self._expect_operator(")")
        self._skip_newlines()
        return Function(name, self._command())

    def _function(
        self, token: _Token, assignments: list[Assignment], words: list[Word], redirects: list[Redirect]
    ) -> Function:
        name = bare_text(words[0]) if len(words) == 1 else None
        if name is None or assignments or redirects:
            raise self._unexpected(token)
        self._next()
        self._expect_operator(")")
        if any(char in name for char in "*?[]$/=") or name in _RESERVED:
            raise ShellSyntaxError("syntax error: bad function name", token.line)
        self._skip_newlines()
        return Function(name, self._command())

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while self._peek().kind == "redirect":
            self._redirect(found)
        return tuple(found)

    def _redirect(self, into: list[Redirect]) -> None:
        token = self._next()
        operator = token.text
        if operator == "<<<":
            raise self._unexpected(token)
        target = self._next()
        if target.kind != "word":
            raise self._unexpected(target)
        if operator in ("<<", "<<-"):
            delimiter, quoted = self._reader.delimiter(target.word, target.line)
            fd = 0 if token.fd is None else token.fd
            document = HereDocument()
            self._heredocs.append((document, delimiter, quoted, operator == "<<-"))
            into.append(Redirect(fd, "<<", (), document=document))
            return
        fd = token.fd if token.fd is not None else _DEFAULT_FD.get(operator, 1)
        if operator in ("&>", "&>>"):
            into.append(Redirect(1, operator[1:], target.word, both=True))
            return
        into.append(Redirect(fd, operator, target.word))


def as_assignment(word: Word) -> Assignment | None:
    """The word as ``name=value``, None if it is not one."""
    first = word[0] if word else None
    if not isinstance(first, Literal) or first.quoted:
        return None
    name, equals, rest = first.text.partition("=")
    if not equals or not is_name(name):
        return None
    value: Word = ((Literal(rest),) if rest else ()) + word[1:]
    return Assignment(name, value)


@lru_cache(maxsize=512)
def parse(text: str, first_line: int = 1, depth: int = 0) -> Script:
    """The script's commands; never raises for bad syntax (``Script.error`` tells)."""
    return _Parser(text, first_line, depth).script()


def heredoc_parts(body: str, first_line: int, depth: int) -> Word:
    """The parts of a here-document whose delimiter was not quoted: expansions, no quotes."""
    return _Parser(body, first_line, depth).heredoc_body()
