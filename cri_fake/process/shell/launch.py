"""Running external commands for a shell: beside it, or in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cri_fake.process.kernel import ExecError
from cri_fake.process.shell.control import ShellExit
from cri_fake.process.shell.state import ShellFailure

if TYPE_CHECKING:
    from cri_fake.process.shell.interp import Shell

__all__ = ["become_program", "run_program", "which"]


def which(shell: Shell, command: str) -> str | None:
    """The path of a command on the shell's PATH."""
    fs = shell.proc.fs
    for folder in (shell.state.values.get("PATH") or "").split(":"):
        candidate = f"{folder or shell.proc.cwd}/{command}"
        try:
            info = fs.stat(candidate)
        except OSError:
            continue
        if info.kind == "file" and info.mode & 0o111:
            return candidate
    return None


def _as_script(shell: Shell, words: list[str]) -> list[str]:
    """A file without a known format is a script for a new shell (POSIX 2.9.1.1)."""
    path = words[0] if "/" in words[0] else which(shell, words[0]) or words[0]
    return ["sh", path, *words[1:]]


async def _cannot_run(shell: Shell, problem: ExecError) -> int:
    text = "not found" if problem.kind == "missing" else "Permission denied"
    await shell.complain(f"{problem.command}: {text}")
    return problem.exit_code


async def run_program(shell: Shell, words: list[str], env: dict[str, str]) -> int:
    """Start an external command with the present descriptors and wait for it."""
    proc = shell.proc
    script = proc.kernel.programs.named("sh")
    try:
        found = proc.kernel.resolve(words, env.get("PATH"), proc.cwd)
        program, argv = found.program, list(found.argv)
        if not found.emulated:
            await shell.complain(f"{words[0]}: not found (this image's programs are not emulated)")
            return 127
    except ExecError as problem:
        if problem.kind != "format" or script is None:
            return await _cannot_run(shell, problem)
        program, argv = script, _as_script(shell, words)
    await proc.pay()
    try:
        child = proc.fork(program, argv=argv, env=env)
    except OSError as problem:
        raise ShellFailure(f"can't fork: {problem.strerror}") from None
    child.pace = proc.pace
    return await proc.wait_for(child)


async def become_program(shell: Shell, words: list[str], env: dict[str, str]) -> None:
    """Become another program; always raises ``ShellExit``."""
    proc = shell.proc
    script = proc.kernel.programs.named("sh")
    try:
        found = proc.kernel.resolve(words, env.get("PATH"), proc.cwd)
        program, argv = found.program, list(found.argv)
    except ExecError as problem:
        if problem.kind != "format" or script is None:
            raise ShellExit(await _cannot_run(shell, problem)) from None
        program, argv = script, _as_script(shell, words)
    await proc.pay()
    raise ShellExit(await proc.execute(program, argv, env), replaced=True)
