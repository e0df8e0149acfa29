"""The interpreter: walks the syntax tree as one process of the container.

A subshell, an element of a pipeline, a background job and a command substitution are processes of their own
with a copy of the shell's state; external commands are children too. As in ash, the last command of ``sh -c``
replaces the shell when no trap is set, so ``sh -c 'sleep 5'`` is one process.

Errors of the script end a non-interactive shell with 2 and a message; nothing in a script raises out of here
but cancellation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from cri_fake.process.glob import glob
from cri_fake.process.proc import Proc, decode
from cri_fake.process.shell import builtins
from cri_fake.process.shell.children import Children
from cri_fake.process.shell.control import BreakLoop, ContinueLoop, ReturnFrom, ShellExit
from cri_fake.process.shell.expand import Expander
from cri_fake.process.shell.launch import become_program, run_program
from cri_fake.process.shell.nodes import (
    AndOr,
    Case,
    Command,
    For,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Script,
    Sequence,
    Simple,
    Subshell,
    bare_text,
)
from cri_fake.process.shell.parser import as_assignment, parse
from cri_fake.process.shell.pattern import matches
from cri_fake.process.shell.quote import quote_trace
from cri_fake.process.shell.redirect import RedirectError, Redirector
from cri_fake.process.shell.state import ShellFailure, State
from cri_fake.process.shell.traps import Interrupted, Traps

__all__ = ["Shell"]

ASSIGNING_BUILTINS = frozenset(["export", "readonly", "local", "alias"])
MAX_DEPTH = 3000
"""How deep commands may nest while they run; more is an error of the script, not of the node."""

_HOP_EVERY = 40
"""After so many levels evaluation moves to a fresh task: Python's own stack is small."""


class Shell:
    """One shell process. With ``script_file`` (the text comes from a file) messages name the line."""

    def __init__(
        self, proc: Proc, state: State, *, script_file: bool = False, interactive: bool = False
    ) -> None:
        self.proc = proc
        self.state = state
        self.script_file = script_file
        self.interactive = interactive
        self.expander = Expander(self)
        self.redirector = Redirector(proc, self.expander, lambda: "noclobber" in state.options)
        self.traps = Traps(proc)
        self.children = Children(self)
        self.status = 0
        self.line = 1
        self.loops = 0
        self.calls = 0
        self.depth = 0
        self.tested = 0
        self.substitution_status: int | None = None
        self.umbrella_pid = proc.pid
        self.trap_status: int | None = None

    # -- running --------------------------------------------------------------------------------------------

    async def main(self, run: Callable[[], Awaitable[int]]) -> int:
        """Run something to the end of this shell, with its EXIT trap; gives the exit code."""
        try:
            try:
                status = await run()
                await self.run_traps()
            except ShellExit as end:
                status = end.status
                if end.replaced:
                    return status
            except ShellFailure as failure:
                await self.complain(failure.message)
                status = failure.status
            except (BreakLoop, ReturnFrom):
                status = self.status
            return await self._exit_trap(status)
        except ShellExit as end:
            return end.status

    async def _exit_trap(self, status: int) -> int:
        action = self.traps.actions.pop(0, "")
        if not action:
            return status
        self.status = status
        try:
            await self._run_action(action)
        except ShellExit as end:
            return end.status
        except ShellFailure as failure:
            await self.complain(failure.message)
            return failure.status
        except (BreakLoop, ReturnFrom):
            pass
        return status

    async def _run_action(self, action: str) -> None:
        """The text of a trap; ``$?`` is the same before and after, and what a plain ``exit`` in it gives."""
        status, outer = self.status, self.trap_status
        self.trap_status = status
        try:
            await self.run_text(action)
        finally:
            self.trap_status = outer
        self.status = status

    async def run_text(self, text: str) -> int:
        """Run script text in this shell. Raises what ends it early."""
        return await self.run_script(parse(text), last=False)

    async def run_script(self, script: Script, *, last: bool) -> int:
        """Run complete commands in order; ``last``: nothing follows, the final one may replace the shell."""
        final = len(script.commands) - 1
        status = 0
        for index, (command, background) in enumerate(script.commands):
            replace = last and index == final and script.error is None
            status = await self._item(command, background, last=replace)
        if script.error is not None:
            self.line = script.error.line
            raise ShellFailure(f"{self._line_prefix(always=True)}{script.error.message}")
        return status

    async def _item(self, command: Command, background: bool, *, last: bool) -> int:
        if not background:
            return await self.execute(command, last=last)
        await self.children.background(command)
        self.status = 0
        return 0

    async def execute(self, command: Command, *, last: bool = False) -> int:
        """Run one command; gives and remembers its status."""
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise ShellFailure(f"nested deeper than {MAX_DEPTH} levels")
            if self.depth % _HOP_EVERY == 0:
                return await self._in_fresh_task(command, last=last)
            return await self._dispatch(command, last=last)
        finally:
            self.depth -= 1

    async def _in_fresh_task(self, command: Command, *, last: bool) -> int:
        """The same, on a task of its own, so that Python's recursion limit is never met."""
        raised: list[Exception] = []

        async def run() -> None:
            try:
                await self._dispatch(command, last=last)
            except Exception as problem:
                raised.append(problem)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
        if raised:
            raise raised[0]
        return self.status

    async def _dispatch(self, command: Command, *, last: bool) -> int:
        if isinstance(command, Simple):
            status = await self._simple(command, last=last)
        elif isinstance(command, Sequence):
            return await self._sequence(command, last=last)
        elif isinstance(command, AndOr):
            return await self._and_or(command, last=last)
        elif isinstance(command, If):
            return await self._if(command, last=last)
        elif isinstance(command, Loop):
            status = await self._loop(command)
        elif isinstance(command, For):
            status = await self._for(command)
        elif isinstance(command, Case):
            return await self._case(command, last=last)
        elif isinstance(command, Group):
            return await self._group(command, last=last)
        elif isinstance(command, Function):
            self.state.functions[command.name] = command.body
            status = 0
        elif isinstance(command, Subshell):
            status = await self._subshell(command)
        else:
            status = await self._pipeline(command)
        self.status = status
        if self.proc.killed_by:
            await trio.lowlevel.checkpoint()
        if self.traps.pending:
            await self.run_traps()
        checked = isinstance(command, Simple | Subshell) or (
            isinstance(command, Pipeline) and not command.negated
        )
        if status and checked and not self.tested and "errexit" in self.state.options:
            raise ShellExit(status)
        return self.status

    # -- compound commands ----------------------------------------------------------------------------------

    async def _sequence(self, command: Sequence, *, last: bool) -> int:
        final = len(command.items) - 1
        for index, (item, background) in enumerate(command.items):
            self.status = await self._item(item, background, last=last and index == final)
        return self.status

    async def _test(self, command: Command) -> bool:
        """Run a condition: its failure does not end the shell under ``set -e``."""
        self.tested += 1
        try:
            return await self.execute(command) == 0
        finally:
            self.tested -= 1

    async def _and_or(self, command: AndOr, *, last: bool) -> int:
        chain: list[tuple[str, Command]] = [("", command.first), *command.rest]
        final = len(chain) - 1
        for index, (operator, part) in enumerate(chain):
            if (operator == "&&" and self.status != 0) or (operator == "||" and self.status == 0):
                continue
            if index == final:
                self.status = await self.execute(part, last=last)
            else:
                await self._test(part)
        return self.status

    async def _if(self, command: If, *, last: bool) -> int:
        for condition, body in command.clauses:
            if await self._test(condition):
                return await self.execute(body, last=last)
        if command.orelse is not None:
            return await self.execute(command.orelse, last=last)
        self.status = 0
        return 0

    async def _loop(self, command: Loop) -> int:
        status = 0
        self.loops += 1
        try:
            while True:
                await self.proc.step()
                try:
                    if await self._test(command.condition) == command.until:
                        return status
                    status = await self.execute(command.body)
                except BreakLoop as jump:
                    status = jump.status
                    if not self._stays(jump):
                        return status
        finally:
            self.loops -= 1

    def _stays(self, jump: BreakLoop) -> bool:
        """Whether a jump continues this loop; raises it again when it is meant for one further out."""
        if jump.levels > 1 and self.loops > 1:
            further = type(jump)(jump.levels - 1)
            further.status = jump.status
            raise further
        return isinstance(jump, ContinueLoop)

    async def _for(self, command: For) -> int:
        self.line = command.line
        if command.words is None:
            values = list(self.state.positional)
        else:
            values = await self.expander.fields(command.words)
        status = 0
        self.loops += 1
        try:
            for value in values:
                await self.proc.step()
                self.state.set(command.name, value)
                try:
                    status = await self.execute(command.body)
                except BreakLoop as jump:
                    status = jump.status
                    if not self._stays(jump):
                        return status
        finally:
            self.loops -= 1
        return status

    async def _case(self, command: Case, *, last: bool) -> int:
        self.line = command.line
        subject = await self.expander.string(command.subject)
        falling = matched = False
        for item in command.items:
            if not falling:
                for pattern in item.patterns:
                    if matches(await self.expander.pattern(pattern), subject):
                        break
                else:
                    continue
            if item.body is not None:
                matched = True
                self.status = await self.execute(item.body, last=last and not item.falls_through)
            falling = item.falls_through
            if not falling:
                break
        if not matched:
            self.status = 0
        return self.status

    async def _group(self, command: Group, *, last: bool) -> int:
        if not command.redirects:
            return await self.execute(command.body, last=last)
        try:
            saved = await self.redirector.apply(command.redirects)
        except RedirectError as problem:
            return await self._failed(str(problem), 1)
        try:
            return await self.execute(command.body)
        finally:
            self.redirector.undo(saved)

    async def _failed(self, message: str, status: int) -> int:
        """A command that could not run: say so and go on."""
        await self.complain(message)
        self.status = status
        if not self.tested and "errexit" in self.state.options:
            raise ShellExit(status)
        return status

    # -- processes ------------------------------------------------------------------------------------------

    async def _subshell(self, command: Subshell) -> int:
        self.line = command.line

        async def body(shell: Shell) -> int:
            try:
                shell.redirector.forget(await shell.redirector.apply(command.redirects))
            except RedirectError as problem:
                return await shell._failed(str(problem), 1)
            return await shell.execute(command.body, last=True)

        await self.proc.pay_fork()
        child = self.children.fork(body, foreground=True)
        return await self.proc.wait_for(child)

    async def _pipeline(self, command: Pipeline) -> int:
        self.line = command.line
        if len(command.commands) == 1:
            try:
                self.status = 0 if not await self._test(command.commands[0]) else 1
            except BreakLoop as jump:  # the status is turned round on the way out, too
                jump.status = int(jump.status == 0)
                raise
            return self.status
        await self.proc.pay_fork()
        processes = self.children.start_pipeline(command, foreground=True)
        statuses = [await self.proc.wait_for(process) for process in processes]
        status = statuses[-1]
        if "pipefail" in self.state.options:
            status = next((code for code in reversed(statuses) if code), 0)
        return int(status == 0) if command.negated else status

    async def substitute(self, body: Script) -> str:
        """The output of a command substitution; its status is kept for an assignment."""
        output, self.substitution_status = await self.children.substitute(body)
        return output

    # -- simple commands ------------------------------------------------------------------------------------

    async def _simple(self, command: Simple, *, last: bool) -> int:
        self.line = command.line
        self.substitution_status = None
        words = await self._words(command)
        if not words:
            return await self._assign_only(command)
        name = words[0]
        special = builtins.SPECIAL.get(name)
        if special is not None:
            return await self._run_special(command, words, special, last=last)
        function = self.state.functions.get(name)
        if function is not None:
            return await self._run_here(command, words, lambda: self.call(function, words), last=last)
        regular = builtins.REGULAR.get(name)
        if regular is not None:
            return await self._run_here(command, words, lambda: regular(self, words), last=last)
        return await self._run_external(command, words, last=last)

    async def _words(self, command: Simple) -> list[str]:
        """The fields of the command. Arguments of ``export`` and its like that assign are not split."""
        name = bare_text(command.words[0]) if command.words else None
        if name in ASSIGNING_BUILTINS:
            words: list[str] = []
            for word in command.words:
                assigned = as_assignment(word)
                if assigned is None:
                    words += await self.expander.fields((word,))
                else:
                    words.append(f"{assigned.name}={await self.expander.assignment(assigned.value)}")
            return words
        return await self.expander.fields(command.words)

    async def _assignments(self, command: Simple) -> list[tuple[str, str]]:
        made: list[tuple[str, str]] = []
        for assignment in command.assignments:
            value = await self.expander.assignment(assignment.value)
            made.append((assignment.name, value))
        return made

    async def _assign_only(self, command: Simple) -> int:
        try:
            saved = await self.redirector.apply(command.redirects)
        except RedirectError as problem:
            await self.complain(str(problem))
            return 1
        for assignment in command.assignments:
            value = await self.expander.assignment(assignment.value)
            if "xtrace" in self.state.options:
                await self._trace([f"{assignment.name}={quote_trace(value)}"])
            self.state.set(assignment.name, value)
        self.redirector.undo(saved)
        return self.substitution_status or 0

    async def _trace(self, shown: list[str]) -> None:
        if shown:
            prefix = self.state.values.get("PS4") or ""
            await self.say(prefix + " ".join(shown))

    async def _trace_command(self, assignments: list[tuple[str, str]], words: list[str]) -> None:
        if "xtrace" in self.state.options:
            shown = [f"{name}={quote_trace(value)}" for name, value in assignments]
            await self._trace([*shown, *(quote_trace(word) for word in words)])

    async def _run_special(
        self, command: Simple, words: list[str], builtin: builtins.Builtin, *, last: bool
    ) -> int:
        """A special builtin: its assignments stay and its errors end the shell."""
        assignments = await self._assignments(command)
        await self._trace_command(assignments, words)
        for name, value in assignments:
            self.state.set(name, value)
        try:
            saved = await self.redirector.apply(command.redirects)
        except RedirectError as problem:
            raise ShellFailure(str(problem), 1 if words[0] != "exec" else 2) from None
        if words[0] == "exec":
            self.redirector.forget(saved)
            if len(words) > 1:
                await become_program(self, words[1:], self.state.env())
            return 0
        try:
            return await builtin(self, words)
        finally:
            self.redirector.undo(saved)

    async def _run_here(
        self, command: Simple, words: list[str], run: Callable[[], Awaitable[int]], *, last: bool
    ) -> int:
        """A function or a regular builtin: redirections and assignments last as long as it runs."""
        assignments = await self._assignments(command)
        await self._trace_command(assignments, words)
        saved = None
        if command.redirects:
            try:
                saved = await self.redirector.apply(command.redirects)
            except RedirectError as problem:
                await self.complain(str(problem))
                return 1
        state = self.state
        before = [(name, state.values.get(name), name in state.exported) for name, _ in assignments]
        try:
            for name, value in assignments:
                state.set(name, value)
                state.exported.add(name)
            return await run()
        except OSError as problem:
            await self.complain(f"{words[0]}: {problem.strerror or problem}")
            return 1
        finally:
            for name, old, exported in before:
                if old is None:
                    state.values.pop(name, None)
                else:
                    state.values[name] = old
                (state.exported.add if exported else state.exported.discard)(name)
            if saved is not None:
                self.redirector.undo(saved)

    async def call(self, body: Command, words: list[str]) -> int:
        """Call a function. As in busybox, ``break`` and ``continue`` in it reach loops around the call."""
        state = self.state
        outer, state.positional = state.positional, words[1:]
        offset = state.getopts_offset
        state.scopes.append({})
        self.calls += 1
        try:
            return await self.execute(body)
        except ReturnFrom as end:
            return end.status
        finally:
            self.calls -= 1
            state.leave_scope()
            state.positional = outer
            state.getopts_offset = offset

    async def _run_external(self, command: Simple, words: list[str], *, last: bool) -> int:
        assignments = await self._assignments(command)
        await self._trace_command(assignments, words)
        env = self.state.env() | dict(assignments)
        replace = last and not self.traps.any_caught and not self.traps.pending
        try:
            saved = await self.redirector.apply(command.redirects)
        except RedirectError as problem:
            await self.complain(str(problem))
            return 1
        try:
            if replace:
                self.redirector.forget(saved)
                await become_program(self, words, env)
            return await run_program(self, words, env)
        finally:
            self.redirector.undo(saved)

    # -- traps ----------------------------------------------------------------------------------------------

    async def run_traps(self) -> None:
        """Run the actions of signals that have arrived, in order."""
        traps = self.traps
        while traps.pending:
            number = traps.pending.pop(0)
            action = traps.actions.get(number, "")
            if not action:
                continue
            await self._run_action(action)

    async def interruptible(self, awaitable: Awaitable[int]) -> int:
        """Wait for a status; a caught signal gives 128 + n at once (its action runs right after)."""
        try:
            return await self.traps.interruptible(awaitable)
        except Interrupted as interruption:
            return 128 + interruption.number

    # -- lookups --------------------------------------------------------------------------------------------

    def parameter(self, name: str) -> str | None:
        """The value of a variable or special parameter; None when it is not set."""
        state = self.state
        value = state.values.get(name)
        if value is not None:
            return value
        special = _SPECIAL_PARAMETERS.get(name)
        if special is not None:
            return special(self)
        if name.isdigit():
            index = int(name)
            if index == 0:
                return state.arg0
            return state.positional[index - 1] if index <= len(state.positional) else None
        return None

    def home_of(self, user: str) -> str | None:
        """The home folder that /etc/passwd gives a user."""
        try:
            lines = decode(self.proc.fs.read("/etc/passwd")).splitlines()
        except OSError:
            return None
        for line in lines:
            entries = line.split(":")
            if entries[0] == user and len(entries) > 5:
                return entries[5]
        return None

    def glob(self, pattern: str) -> list[str]:
        return glob(self.proc.fs, pattern, self.proc.cwd)

    # -- messages -------------------------------------------------------------------------------------------

    def _line_prefix(self, *, always: bool = False) -> str:
        return f"line {self.line}: " if always and not self.script_file else ""

    async def complain(self, message: str) -> None:
        where = f"line {self.line}: " if self.script_file else ""
        await self.say(f"{self.state.arg0}: {where}{message}")

    async def say(self, text: str) -> None:
        """A line on standard error; lost when that is closed."""
        try:
            await self.proc.write(f"{text}\n", fd=2)
        except OSError:
            return


_SPECIAL_PARAMETERS: dict[str, Callable[[Shell], str | None]] = {
    "?": lambda shell: str(shell.status),
    "#": lambda shell: str(len(shell.state.positional)),
    "$": lambda shell: str(shell.umbrella_pid),
    "!": lambda shell: shell.state.last_background or None,
    "-": lambda shell: shell.state.flags(),
    "@": lambda shell: " ".join(shell.state.positional),
    "*": lambda shell: shell.state.ifs()[:1].join(shell.state.positional),
    "LINENO": lambda shell: str(shell.line),
    "RANDOM": lambda shell: str(shell.proc.rng.randrange(32768)),
    "PPID": lambda shell: str(shell.proc.parent),
    "EPOCHSECONDS": lambda shell: str(shell.proc.clock.now_ns() // 1_000_000_000),
    "PWD": lambda shell: shell.proc.cwd,
}
