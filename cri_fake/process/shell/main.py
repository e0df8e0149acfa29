"""``sh`` as a program: options, ``-c``, script files, scripts on standard input, a prompt on a terminal."""

from __future__ import annotations

from cri_fake.process import signals
from cri_fake.process.proc import Proc, decode
from cri_fake.process.shell.interp import Shell
from cri_fake.process.shell.parser import parse
from cri_fake.process.shell.state import OPTION_LETTERS, OPTION_NAMES, ShellFailure, State

__all__ = ["sh"]

MAX_SCRIPT_BYTES = 4 << 20
_BLOCK_BYTES = 1023


class _Options:
    def __init__(self, args: list[str]) -> None:
        self.command = False
        self.stdin = False
        self.names: set[str] = set()
        at = 0
        while at < len(args) and len(args[at]) > 1 and args[at][0] in "-+":
            word = args[at]
            at += 1
            if word == "--":
                break
            on = word[0] == "-"
            for letter in word[1:]:
                if letter == "c":
                    self.command = True
                elif letter == "s":
                    self.stdin = True
                elif letter == "l":
                    continue
                elif letter == "o":
                    name = args[at] if at < len(args) else ""
                    at += 1
                    if name not in OPTION_NAMES:
                        raise ShellFailure(f"illegal option -o {name}")
                    (self.names.add if on else self.names.discard)(name)
                elif letter in OPTION_LETTERS:
                    (self.names.add if on else self.names.discard)(OPTION_LETTERS[letter])
                else:
                    raise ShellFailure(f"illegal option -{letter}")
        self.rest = args[at:]


async def sh(proc: Proc) -> int:
    """The shell. Exit code 2 for usage and syntax errors, 127 or 126 for a script that cannot be read."""
    try:
        options = _Options(proc.args)
    except ShellFailure as failure:
        await proc.complain(failure.message)
        return 2
    rest = options.rest
    if options.command:
        if not rest:
            await proc.complain("-c requires an argument")
            return 2
        state = State(proc.env, rest[1] if len(rest) > 1 else proc.argv[0], rest[2:])
        state.options |= {*options.names, "c"}
        shell = _shell(proc, state)
        script = parse(rest[0])
        return await shell.main(lambda: shell.run_script(script, last=True))
    if rest and not options.stdin:
        return await _run_file(proc, options, rest)
    state = State(proc.env, proc.argv[0], rest)
    state.options |= options.names
    return await _run_stdin(proc, state)


def _shell(proc: Proc, state: State, *, script_file: bool = False, interactive: bool = False) -> Shell:
    shell = Shell(proc, state, script_file=script_file, interactive=interactive)
    state.values["PWD"] = proc.cwd
    state.exported.add("PWD") if "PWD" in proc.env else None
    for number in sorted(proc.ignored):
        shell.traps.actions[number] = ""
    return shell


async def _run_file(proc: Proc, options: _Options, rest: list[str]) -> int:
    try:
        text = decode(proc.fs.read(proc.path(rest[0]))[:MAX_SCRIPT_BYTES])
    except OSError as problem:
        await proc.complain(f"can't open '{rest[0]}': {problem.strerror}")
        return 2
    state = State(proc.env, rest[0], rest[1:])
    state.options |= options.names
    shell = _shell(proc, state, script_file=True)
    script = parse(text)
    return await shell.main(lambda: shell.run_script(script, last=False))


def _nothing(number: int) -> None:
    """A shell at a terminal outlives these signals; its children do not inherit that."""


async def _run_stdin(proc: Proc, state: State) -> int:
    interactive = 0 in proc.fds and proc.fds[0].is_terminal
    shell = _shell(proc, state, interactive=interactive)
    if interactive:
        state.options.add("interactive")
        for number in (signals.INT, signals.QUIT, signals.TERM):
            proc.on_signal(number, _nothing)
    return await shell.main(lambda: _read_and_run(shell))


async def _read_and_run(shell: Shell) -> int:
    """Complete commands as they come in; a failing one ends the shell unless somebody types."""
    source = _Lines(shell.proc, interactive=shell.interactive)
    status, text = 0, ""
    while True:
        if shell.interactive:
            await shell.proc.write("> " if text else f"{shell.proc.cwd} # ", fd=2)
        line = await source.next()
        text += line
        script = parse(text)
        incomplete = script.open_document or (script.error is not None and script.error.incomplete)
        if line and (incomplete or text.endswith("\\\n")):
            continue
        text = ""
        try:
            if script.commands or script.error is not None:
                status = await shell.run_script(script, last=False)
        except ShellFailure as failure:
            if not shell.interactive:
                raise
            await shell.complain(failure.message)
            status = shell.status = failure.status
        if not line:
            return status


class _Lines:
    """Lines of standard input. As ash does, it takes blocks: commands do not see that part."""

    def __init__(self, proc: Proc, *, interactive: bool) -> None:
        self._proc = proc
        self._interactive = interactive
        self._rest = b""

    async def next(self) -> str:
        """The next line with its end, "" at the end of input."""
        while b"\n" not in self._rest and len(self._rest) < MAX_SCRIPT_BYTES:
            block = await self._proc.read(_BLOCK_BYTES)
            if not block:
                break
            self._rest += block.replace(b"\r", b"\n") if self._interactive else block
        line, newline, self._rest = self._rest.partition(b"\n")
        return decode(line + newline)
