"""find and xargs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from cri_fake.process.applets.common import applet, fail, options_of, reason
from cri_fake.process.applets.fileops import parse_size
from cri_fake.process.applets.options import UsageError
from cri_fake.process.applets.simple import parse_number
from cri_fake.process.files import FileInfo
from cri_fake.process.kernel import ExecError
from cri_fake.process.proc import Proc, decode
from cri_fake.process.shell.pattern import matches

MAX_DEPTH = 200

_Test: TypeAlias = Callable[[str, FileInfo], Awaitable[bool]]
_KINDS = {"f": "file", "d": "dir", "l": "symlink", "c": "char", "p": "fifo"}


class _Expression:
    """The tests and actions of ``find``, parsed into closures."""

    def __init__(self, proc: Proc, words: list[str]) -> None:
        self._proc = proc
        self._words = words
        self._at = 0
        self.max_depth = MAX_DEPTH
        self.min_depth = 0
        self.acts = False
        self.depth_first = False
        self.pruned = False
        self.quit = False
        self.code = 0

    def parse(self) -> _Test:
        test = self._or() if self._words else self._always
        if self._at < len(self._words):
            raise UsageError(f"unrecognized: {self._words[self._at]}")
        return test

    async def _always(self, path: str, info: FileInfo) -> bool:
        return True

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        if self._at >= len(self._words):
            raise UsageError(f"{self._words[-1]}: requires an argument")
        self._at += 1
        return self._words[self._at - 1]

    def _or(self) -> _Test:
        left = self._and()
        while self._peek() in ("-o", "-or"):
            self._at += 1
            left = self._either(left, self._and())
        return left

    def _either(self, left: _Test, right: _Test) -> _Test:
        async def either(path: str, info: FileInfo) -> bool:
            return await left(path, info) or await right(path, info)

        return either

    def _and(self) -> _Test:
        tests = [self._not()]
        while self._peek() and self._peek() not in ("-o", "-or", ")"):
            if self._peek() in ("-a", "-and"):
                self._at += 1
            tests.append(self._not())

        async def every(path: str, info: FileInfo) -> bool:
            for test in tests:
                if not await test(path, info):
                    return False
            return True

        return every

    def _not(self) -> _Test:
        if self._peek() in ("!", "-not"):
            self._at += 1
            inner = self._not()

            async def negated(path: str, info: FileInfo) -> bool:
                return not await inner(path, info)

            return negated
        if self._peek() == "(":
            self._at += 1
            inner = self._or()
            if self._next() != ")":
                raise UsageError("missing ')'")
            return inner
        return self._primary()

    def _primary(self) -> _Test:
        word = self._next()
        if word in ("-maxdepth", "-mindepth"):
            depth = parse_number(self._next())
            if word == "-maxdepth":
                self.max_depth = min(depth, MAX_DEPTH)
            else:
                self.min_depth = depth
            return self._always
        if word == "-depth":
            self.depth_first = True
            return self._always
        if word in ("-xdev", "-follow"):
            return self._always
        if word in ("-name", "-iname", "-path", "-type", "-size", "-newer", "-mmin", "-mtime", "-perm"):
            return self._simple(word, self._next())
        if word == "-empty":
            return self._empty
        if word in ("-print", "-print0", "-delete", "-prune", "-quit"):
            return self._action(word)
        if word == "-exec":
            return self._exec()
        raise UsageError(f"unrecognized: {word}")

    def _simple(self, word: str, value: str) -> _Test:
        fs, proc = self._proc.fs, self._proc
        check: Callable[[str, FileInfo], bool]
        if word == "-name":
            check = lambda path, info: matches(value, _base(path))  # noqa: E731
        elif word == "-iname":
            check = lambda path, info: matches(value.lower(), _base(path).lower())  # noqa: E731
        elif word == "-path":
            check = lambda path, info: matches(value, path)  # noqa: E731
        elif word == "-type":
            if value not in _KINDS:
                raise UsageError(f"bad type '{value}'")
            check = lambda path, info: info.kind == _KINDS[value]  # noqa: E731
        elif word == "-newer":
            limit = fs.stat(proc.path(value)).mtime_ns
            check = lambda path, info: info.mtime_ns > limit  # noqa: E731
        elif word == "-perm":
            mode = int(value.lstrip("-/"), 8) if value.lstrip("-/").isdigit() else -1
            partly = value.startswith("-")
            check = lambda path, info: (info.mode & mode == mode) if partly else info.mode == mode  # noqa: E731
        elif word == "-size":
            unit = 1 if value.endswith("c") else (parse_size("1" + value[-1]) if value[-1] in "bkM" else 512)
            check = _counted(value.lstrip("+-").rstrip("cbkM"), value, lambda info: -(-info.size // unit))
        else:
            seconds = 60 if word == "-mmin" else 86400
            now_ns = proc.clock.now_ns()
            check = _counted(
                value.lstrip("+-"), value, lambda info: (now_ns - info.mtime_ns) // 1_000_000_000 // seconds
            )

        async def test(path: str, info: FileInfo) -> bool:
            return check(path, info)

        return test

    async def _empty(self, path: str, info: FileInfo) -> bool:
        if info.kind == "dir":
            return not self._proc.fs.list(self._proc.path(path))
        return info.kind == "file" and info.size == 0

    def _action(self, word: str) -> _Test:
        self.acts = self.acts or word not in ("-prune", "-quit")
        self.depth_first = self.depth_first or word == "-delete"
        proc = self._proc

        async def act(path: str, info: FileInfo) -> bool:
            if word == "-prune":
                self.pruned = True
            elif word == "-quit":
                self.quit = True
            elif word == "-delete":
                try:
                    (proc.fs.remove_dir if info.kind == "dir" else proc.fs.unlink)(proc.path(path))
                except OSError as problem:
                    await proc.complain(f"{path}: {reason(problem)}")
                    self.code = 1
                    return False
            else:
                await proc.write(path + ("\0" if word == "-print0" else "\n"))
            return True

        return act

    def _exec(self) -> _Test:
        self.acts = True
        words: list[str] = []
        while (word := self._next()) not in (";", "+"):
            words.append(word)
        if not words:
            raise UsageError("-exec requires a command")
        if word == "+":
            raise UsageError("-exec … + is not emulated; use ; or xargs")
        proc = self._proc

        async def run(path: str, info: FileInfo) -> bool:
            await proc.pay()
            try:
                return await proc.run([word.replace("{}", path) for word in words]) == 0
            except ExecError:
                raise await fail(proc, f"{words[0]}: No such file or directory") from None

        return run


def _counted(digits: str, text: str, measure: Callable[[FileInfo], int]) -> Callable[[str, FileInfo], bool]:
    """``+n``, ``-n`` and ``n``."""
    count = parse_number(digits)
    if text.startswith("+"):
        return lambda path, info: measure(info) > count
    if text.startswith("-"):
        return lambda path, info: measure(info) < count
    return lambda path, info: measure(info) == count


def _base(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1] or path


@applet
async def find(proc: Proc) -> int:
    args = list(proc.args)
    starts: list[str] = []
    while args and args[0] not in ("!", "(") and not (args[0].startswith("-") and len(args[0]) > 1):
        starts.append(args.pop(0))
    expression = _Expression(proc, args)
    test = expression.parse()
    for start in starts or ["."]:
        await _visit(proc, start, expression, test, 0)
    return expression.code


async def _visit(proc: Proc, path: str, expression: _Expression, test: _Test, depth: int) -> None:
    try:
        info = proc.fs.stat(proc.path(path), follow=False)
    except OSError as problem:
        await proc.complain(f"{path}: {reason(problem)}")
        expression.code = 1
        return
    await proc.step()
    expression.pruned = False
    children = proc.fs.list(proc.path(path)) if info.kind == "dir" and depth < expression.max_depth else []
    if expression.depth_first:
        for child in children:
            await _visit(proc, f"{path.rstrip('/')}/{child}", expression, test, depth + 1)
        children = []
    if (
        depth >= expression.min_depth
        and not expression.quit
        and await test(path, info)
        and not expression.acts
    ):
        await proc.write(f"{path}\n")
    if expression.pruned:
        return
    for child in children:
        if not expression.quit:
            await _visit(proc, f"{path.rstrip('/')}/{child}", expression, test, depth + 1)


@applet
async def xargs(proc: Proc) -> int:
    options = options_of(proc, "0rtn:I:P:s:L:", in_order=True)
    data = decode(await proc.read_all())
    command = options.operands or ["echo"]
    if "I" in options:
        items = [line.strip() for line in data.split("\n") if line.strip()]
        groups = [[item] for item in items]
    else:
        items = [item for item in data.split("\0") if item] if "0" in options else _quoted_words(data)
        size = parse_number(options.value("n") or options.value("L") or "0") or max(len(items), 1)
        groups = [items[at : at + size] for at in range(0, len(items), size)]
        if not groups and "r" not in options:
            groups = [list[str]()]
    code = 0
    for group in groups:
        if "I" in options:
            argv = [word.replace(options.value("I"), group[0]) for word in command]
        else:
            argv = [*command, *group]
        if "t" in options:
            await proc.write(" ".join(argv) + "\n", fd=2)
        fds = proc.copy_fds()
        if 0 in fds:
            fds.pop(0).release()
        fds[0] = proc.open("/dev/null")
        await proc.pay()
        try:
            status = await proc.run(argv, fds=fds)
        except ExecError as problem:
            for file in fds.values():
                file.release()
            raise await fail(proc, f"{argv[0]}: No such file or directory", problem.exit_code) from None
        if status == 255:
            raise await fail(proc, f"{argv[0]}: exited with status 255; aborting", 124)
        code = 123 if status else code
    return code


def _quoted_words(text: str) -> list[str]:
    """Words separated by blanks; quotes and backslashes protect."""
    words: list[str] = []
    current: list[str] | None = None
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if quote:
            if char == quote:
                quote = ""
            else:
                current = [*(current or []), char]
        elif char in " \t\n":
            if current is not None:
                words.append("".join(current))
            current = None
        elif char in "'\"":
            quote, current = char, current or []
        elif char == "\\" and at < len(text):
            current = [*(current or []), text[at]]
            at += 1
        else:
            current = [*(current or []), char]
    if quote:
        raise UsageError(f"unmatched {'single' if quote == chr(39) else 'double'} quote")
    if current is not None:
        words.append("".join(current))
    return words
