"""The shell's builtins: the table, and those that change the shell itself.

A builtin gets the shell and its words (the name first) and gives a status. Special builtins (POSIX 2.14) are
found before functions; their errors end a non-interactive shell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from cri_fake.process.proc import decode
from cri_fake.process.shell import builtins_io, builtins_jobs
from cri_fake.process.shell.control import BreakLoop, ContinueLoop, ReturnFrom, ShellExit
from cri_fake.process.shell.launch import run_program, which
from cri_fake.process.shell.parser import parse
from cri_fake.process.shell.quote import quote
from cri_fake.process.shell.state import OPTION_LETTERS, OPTION_NAMES, ShellFailure
from cri_fake.process.shell.words import is_name

if TYPE_CHECKING:
    from cri_fake.process.shell.interp import Shell

__all__ = ["KEYWORDS", "REGULAR", "SPECIAL", "Builtin"]

Builtin: TypeAlias = "Callable[[Shell, list[str]], Awaitable[int]]"

KEYWORDS = frozenset(
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
        "[[",
        "function",
    ]
)
MAX_SOURCE_BYTES = 4 << 20


def _number(words: list[str], default: int) -> int:
    if len(words) < 2:
        return default
    text = words[1]
    if not (text.isascii() and text.isdigit()):
        raise ShellFailure(f"{words[0]}: Illegal number: {text}")
    return int(text)


async def _true(shell: Shell, words: list[str]) -> int:
    return 0


async def _false(shell: Shell, words: list[str]) -> int:
    return 1


async def _break(shell: Shell, words: list[str]) -> int:
    levels = _number(words, 1)
    if shell.loops:
        raise (ContinueLoop if words[0] == "continue" else BreakLoop)(max(levels, 1))
    return 0


async def _exit(shell: Shell, words: list[str]) -> int:
    default = shell.status if shell.trap_status is None else shell.trap_status
    raise ShellExit(_number(words, default) & 0xFF)


async def _return(shell: Shell, words: list[str]) -> int:
    status = _number(words, shell.status) & 0xFF
    if shell.calls:
        raise ReturnFrom(status)
    raise ShellExit(status)


async def _eval(shell: Shell, words: list[str]) -> int:
    text = " ".join(words[1:])
    return await shell.run_text(text) if text.strip() else 0


async def _source(shell: Shell, words: list[str]) -> int:
    if len(words) < 2:
        raise ShellFailure(f"{words[0]}: filename argument required")
    name = words[1]
    path = name if "/" in name else which(shell, name) or name
    proc = shell.proc
    try:
        text = decode(proc.fs.read(proc.path(path))[:MAX_SOURCE_BYTES])
    except OSError as problem:
        raise ShellFailure(f"{words[0]}: can't open '{name}': {problem.strerror}") from None
    state = shell.state
    outer, outer_file, outer_line = state.positional, shell.script_file, shell.line
    if len(words) > 2:
        state.positional = words[2:]
    shell.calls += 1
    try:
        return await shell.run_script(parse(text), last=False)
    except ReturnFrom as end:
        return end.status
    finally:
        shell.calls -= 1
        shell.script_file, shell.line = outer_file, outer_line
        if len(words) > 2:
            state.positional = outer


async def _shift(shell: Shell, words: list[str]) -> int:
    count = _number(words, 1)
    if count > len(shell.state.positional):
        return 1
    del shell.state.positional[:count]
    shell.state.getopts_offset = 0
    return 0


async def _mark(shell: Shell, words: list[str]) -> int:
    """``export`` and ``readonly``."""
    state = shell.state
    marked = state.exported if words[0] == "export" else state.readonly
    arguments = words[1:]
    if not arguments or arguments == ["-p"]:
        for name in sorted(marked):
            value = state.values.get(name)
            shown = f"{words[0]} {name}" + ("" if value is None else f"={quote(value)}")
            await shell.proc.write(f"{shown}\n")
        return 0
    remove = arguments[0] == "-n" and words[0] == "export"
    for argument in arguments[1:] if remove or arguments[0] == "--" else arguments:
        name, equals, value = argument.partition("=")
        if not is_name(name):
            raise ShellFailure(f"{words[0]}: {name}: bad variable name")
        if equals:
            state.set(name, value)
        else:
            state.values.setdefault(name, None)
        (marked.discard if remove else marked.add)(name)
    return 0


async def _unset(shell: Shell, words: list[str]) -> int:
    functions = False
    for name in words[1:]:
        if name in ("-f", "-v"):
            functions = name == "-f"
        elif functions:
            shell.state.functions.pop(name, None)
        elif not is_name(name):
            raise ShellFailure(f"unset: {name}: bad variable name")
        else:
            shell.state.unset(name)
    return 0


async def _set(shell: Shell, words: list[str]) -> int:
    state = shell.state
    if len(words) == 1:
        for name, value in sorted(state.values.items()):
            if value is not None:
                await shell.proc.write(f"{name}={quote(value)}\n")
        return 0
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--" or word == "-":
            if word == "--" or words[at + 1 :]:
                state.positional = words[at + 1 :]
            return 0
        if len(word) < 2 or word[0] not in "-+":
            state.positional = words[at:]
            return 0
        on = word[0] == "-"
        for letter in word[1:]:
            if letter == "o":
                at += 1
                await _set_long(shell, words[at] if at < len(words) else None, on=on)
            elif letter in OPTION_LETTERS:
                (state.options.add if on else state.options.discard)(OPTION_LETTERS[letter])
            else:
                raise ShellFailure(f"set: illegal option {word[0]}{letter}")
        at += 1
    return 0


async def _set_long(shell: Shell, name: str | None, *, on: bool) -> None:
    options = shell.state.options
    if name is None:
        for option in sorted(OPTION_NAMES):
            await shell.proc.write(f"{option:<16}{'on' if option in options else 'off'}\n")
    elif name in OPTION_NAMES:
        (options.add if on else options.discard)(name)
    else:
        raise ShellFailure(f"set: illegal option {'-' if on else '+'}o {name}")


async def _local(shell: Shell, words: list[str]) -> int:
    state = shell.state
    if not state.scopes:
        raise ShellFailure("local: not in a function")
    for argument in words[1:]:
        name, equals, value = argument.partition("=")
        if not is_name(name):
            raise ShellFailure(f"local: {name}: bad variable name")
        state.make_local(name)
        if equals:
            state.set(name, value)
        elif name not in state.readonly:
            state.values[name] = None
    return 0


async def _let(shell: Shell, words: list[str]) -> int:
    if len(words) < 2:
        raise ShellFailure("let: expression expected")
    value = 0
    for expression in words[1:]:
        value = shell.expander.calculate(expression)
    return int(value == 0)


async def _cd(shell: Shell, words: list[str]) -> int:
    proc, state = shell.proc, shell.state
    arguments = [word for word in words[1:] if word not in ("-L", "-P", "--")]
    physical = "-P" in words[1:]
    target = arguments[0] if arguments else state.values.get("HOME") or ""
    show = target == "-"
    if show:
        target = state.values.get("OLDPWD") or ""
    if not target:
        return 0 if arguments else 1
    path = proc.path(target)
    logical = proc.fs.real_path(path) if physical else _normalise(path)
    try:
        info = proc.fs.stat(logical if physical else path)
    except OSError as problem:
        await shell.complain(f"cd: can't cd to {target}: {problem.strerror}")
        return 2
    if info.kind != "dir":
        await shell.complain(f"cd: can't cd to {target}: Not a directory")
        return 2
    state.set("OLDPWD", proc.cwd)
    proc.cwd = logical
    state.set("PWD", logical)
    if show:
        await proc.write(f"{logical}\n")
    return 0


def _normalise(path: str) -> str:
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            names = names[:-1]
        elif name and name != ".":
            names.append(name)
    return "/" + "/".join(names)


async def _pwd(shell: Shell, words: list[str]) -> int:
    physical = "-P" in words[1:]
    await shell.proc.write(f"{shell.proc.fs.real_path(shell.proc.cwd) if physical else shell.proc.cwd}\n")
    return 0


def _describe(shell: Shell, name: str) -> tuple[str, str] | None:
    """How a command name is found: what ``command -v`` says and what ``type`` says."""
    if name in KEYWORDS and name != "[[":
        return name, f"{name} is a shell keyword"
    if name in SPECIAL:
        return name, f"{name} is a special shell builtin"
    if name in shell.state.functions:
        return name, f"{name} is a function"
    if name in REGULAR:
        return name, f"{name} is a shell builtin"
    if "/" in name:
        found = shell.proc.fs.exists(shell.proc.path(name))
        return (name, f"{name} is {name}") if found else None
    if shell.proc.kernel.programs.user_program(name) is not None:
        return name, f"{name} is {name}"
    path = which(shell, name)
    return None if path is None else (path, f"{name} is {path}")


async def _command(shell: Shell, words: list[str]) -> int:
    arguments = words[1:]
    verbose = ""
    while arguments and arguments[0] in ("-v", "-V", "-p", "--"):
        verbose = arguments[0] if arguments[0] in ("-v", "-V") else verbose
        arguments = arguments[1:]
    if not arguments:
        return 0
    if verbose:
        found = _describe(shell, arguments[0])
        if found is None:
            if verbose == "-V":
                await shell.complain(f"{arguments[0]}: not found")
            return 127
        await shell.proc.write(f"{found[0] if verbose == '-v' else found[1]}\n")
        return 0
    builtin = SPECIAL.get(arguments[0]) or REGULAR.get(arguments[0])
    if arguments[0] == "exec":
        raise ShellFailure("command: exec is not supported behind command; use exec alone")
    if builtin is not None:
        try:
            return await builtin(shell, arguments)
        except ShellFailure as failure:
            await shell.complain(failure.message)
            return failure.status
    return await run_program(shell, arguments, shell.state.env())


async def _type(shell: Shell, words: list[str]) -> int:
    status = 0
    for name in words[1:]:
        found = _describe(shell, name)
        if found is None:
            await shell.proc.write(f"{name}: not found\n")
            status = 127
        else:
            await shell.proc.write(f"{found[1]}\n")
    return status


async def _getopts(shell: Shell, words: list[str]) -> int:
    """OPTIND names the argument after the one being read, as in ash; the place inside is the shell's."""
    if len(words) < 3:
        raise ShellFailure("getopts: usage: getopts optstring var [arg...]")
    options, variable = words[1], words[2]
    arguments = words[3:] or shell.state.positional
    state = shell.state
    index = int(state.values.get("OPTIND") or "1")
    offset = state.getopts_offset
    word = arguments[index - 2] if 1 < index <= len(arguments) + 1 else ""
    if not 0 < offset < len(word):
        word = arguments[index - 1] if 0 < index <= len(arguments) else ""
        if len(word) < 2 or word[0] != "-" or word == "--":
            state.set("OPTIND", str(index + (word == "--")))
            state.set(variable, "?")
            return 1
        index, offset = index + 1, 1
    letter = word[offset]
    offset += 1
    result, argument = letter, ""
    if letter == ":" or letter not in options:
        result = "?"
        argument = await _getopts_problem(shell, options, letter, f"Illegal option -{letter}")
    elif options[options.index(letter) + 1 :].startswith(":"):
        rest, offset = word[offset:], 0
        if rest:
            argument = rest
        elif index <= len(arguments):
            argument, index = arguments[index - 1], index + 1
        else:
            result = ":" if options.startswith(":") else "?"
            argument = await _getopts_problem(shell, options, letter, f"No arg for -{letter} option")
    state.set("OPTIND", str(index))
    state.getopts_offset = offset
    state.set(variable, result)
    state.set("OPTARG", argument)
    return 0


async def _getopts_problem(shell: Shell, options: str, letter: str, text: str) -> str:
    """With a leading colon the script gets the letter; otherwise the user gets a message."""
    if options.startswith(":"):
        return letter
    await shell.complain(text)
    return ""


async def _umask(shell: Shell, words: list[str]) -> int:
    if len(words) == 1:
        await shell.proc.write(f"{shell.proc.umask:04o}\n")
        return 0
    try:
        shell.proc.umask = int(words[1], 8) & 0o777
    except ValueError:
        raise ShellFailure(f"umask: Illegal mode: {words[1]}") from None
    return 0


async def _ulimit(shell: Shell, words: list[str]) -> int:
    """Limits are not emulated: they read as unlimited and setting one changes nothing."""
    if len(words) < 3 and not (len(words) == 2 and words[1].isdigit()):
        await shell.proc.write("unlimited\n")
    return 0


async def _times(shell: Shell, words: list[str]) -> int:
    await shell.proc.write("0m0.00s 0m0.00s\n0m0.00s 0m0.00s\n")
    return 0


async def _alias(shell: Shell, words: list[str]) -> int:
    if len(words) == 1:
        return 0
    raise ShellFailure(f"{words[0]}: aliases are not supported; use a function")


SPECIAL: dict[str, Builtin] = {
    ":": _true,
    ".": _source,
    "source": _source,
    "break": _break,
    "continue": _break,
    "eval": _eval,
    "exec": _true,
    "exit": _exit,
    "export": _mark,
    "readonly": _mark,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "times": _times,
    "trap": builtins_jobs.trap,
    "unset": _unset,
}

REGULAR: dict[str, Builtin] = {
    "[": builtins_io.test,
    "[[": builtins_io.test,
    "alias": _alias,
    "unalias": _alias,
    "bg": builtins_jobs.jobs,
    "cd": _cd,
    "chdir": _cd,
    "command": _command,
    "echo": builtins_io.echo,
    "false": _false,
    "fg": builtins_jobs.foreground,
    "getopts": _getopts,
    "hash": _true,
    "jobs": builtins_jobs.jobs,
    "kill": builtins_jobs.kill,
    "let": _let,
    "local": _local,
    "printf": builtins_io.printf,
    "pwd": _pwd,
    "read": builtins_io.read,
    "test": builtins_io.test,
    "true": _true,
    "type": _type,
    "ulimit": _ulimit,
    "umask": _umask,
    "wait": builtins_jobs.wait,
}
