"""Builtins about signals and other processes: trap, kill, wait, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from cri_fake.process import signals
from cri_fake.process.proc import Proc
from cri_fake.process.shell.quote import quote
from cri_fake.process.shell.state import ShellFailure

if TYPE_CHECKING:
    from cri_fake.process.shell.children import Job
    from cri_fake.process.shell.interp import Shell

__all__ = ["foreground", "jobs", "kill", "send_signals", "trap", "wait"]


async def trap(shell: Shell, words: list[str]) -> int:
    traps = shell.traps
    arguments = words[2:] if words[1:2] == ["--"] else words[1:]
    if not arguments:
        for number, action in sorted(traps.actions.items()):
            await shell.proc.write(f"trap -- {quote(action)} {signals.signal_name(number)}\n")
        return 0
    if arguments == ["-l"]:
        await shell.proc.write("".join(f"{number:2}) {name}\n" for number, name in signals.NAMES.items()))
        return 0
    action: str | None = None
    if len(arguments) > 1 and not (arguments[0].isdigit() and signals.parse_signal(arguments[0]) is not None):
        action, arguments = arguments[0], arguments[1:]
    if action == "-":
        action = None
    status = 0
    for name in arguments:
        number = signals.parse_signal(name)
        if number is None:
            await shell.complain(f"trap: {name}: invalid signal specification")
            status = 1
        elif action is None:
            traps.clear(number)
        else:
            traps.set(number, action)
    return status


async def send_signals(proc: Proc, arguments: list[str], *, complain_as: str = "") -> tuple[int, list[str]]:
    """``kill ARGUMENTS``: exit code and complaints. Of process groups only 0 and -1 are emulated."""
    number = signals.TERM
    if arguments and arguments[0] == "-l":
        return await _list_signals(proc, arguments[1:])
    if arguments and arguments[0] == "-s" and len(arguments) > 1:
        spec, arguments = arguments[1], arguments[2:]
    elif arguments and len(arguments[0]) > 1 and arguments[0][0] == "-" and arguments[0] != "--":
        spec, arguments = arguments[0][1:], arguments[1:]
    else:
        spec = ""
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if spec:
        parsed = signals.parse_signal(spec)
        if parsed is None:
            return 1, [f"bad signal name '{spec}'"]
        number = parsed
    if not arguments:
        return 1, ["you need to specify whom to kill"]
    failures: list[str] = []
    for target in arguments:
        failures += _signal_one(proc, target, number)
    return int(bool(failures)), failures


def _signal_one(proc: Proc, target: str, number: int) -> list[str]:
    body = target[1:] if target.startswith("-") else target
    if not (body.isascii() and body.isdigit()):
        return [f"bad pid '{target}'"]
    pid = int(target)
    kernel = proc.kernel
    if pid in (0, -1):
        for other in sorted(kernel.processes):
            if other != 1 and (pid == 0 or other != proc.pid):
                kernel.send_signal(other, number)
        return []
    if not kernel.send_signal(abs(pid), number):
        return [f"can't kill pid {target}: No such process"]
    return []


async def _list_signals(proc: Proc, arguments: list[str]) -> tuple[int, list[str]]:
    if not arguments:
        await proc.write("".join(f"{number:2}) {name}\n" for number, name in signals.NAMES.items()))
        return 0, []
    for argument in arguments:
        number = signals.parse_signal(argument)
        if number is None:
            return 1, [f"unknown signal '{argument}'"]
        if argument.isdigit():
            await proc.write(f"{signals.signal_name(number - 128 if number > 128 else number)}\n")
        else:
            await proc.write(f"{number}\n")
    return 0, []


async def kill(shell: Shell, words: list[str]) -> int:
    arguments: list[str] = []
    for word in words[1:]:
        if word.startswith("%"):
            job = _job(shell, word)
            if job is None:
                await shell.complain(f"kill: {word}: no such job")
                return 2
            arguments += [str(process.pid) for process in job.processes]
        else:
            arguments.append(word)
    code, failures = await send_signals(shell.proc, arguments)
    for failure in failures:
        await shell.complain(failure if failure.startswith("can't") else f"kill: {failure}")
    return code


def _job(shell: Shell, spec: str) -> Job | None:
    """A job by %n, %%, %+, %- or the process id of one of its processes."""
    if spec.startswith("%"):
        rest = spec[1:]
        if rest in ("", "%", "+"):
            return shell.children.jobs[-1] if shell.children.jobs else None
        if rest == "-":
            return shell.children.jobs[-2] if len(shell.children.jobs) > 1 else None
        return next((job for job in shell.children.jobs if str(job.number) == rest), None)
    return next(
        (job for job in shell.children.jobs if any(str(process.pid) == spec for process in job.processes)),
        None,
    )


async def wait(shell: Shell, words: list[str]) -> int:
    arguments = words[1:]
    if arguments == ["-n"]:
        return await _wait_any(shell)
    if not arguments:
        while shell.children.jobs:
            status = await shell.interruptible(shell.children.jobs[0].wait())
            if not shell.children.jobs[0].done:
                return status
            shell.children.jobs.pop(0)
        return 0
    status = 0
    for spec in arguments:
        job = _job(shell, spec)
        if job is None:
            if not (spec.startswith("%") or spec.isdigit()):
                raise ShellFailure(f"wait: Illegal number: {spec}")
            status = 127
            continue
        status = await shell.interruptible(job.wait())
        if not job.done:
            return status
    return status


async def _wait_any(shell: Shell) -> int:
    if not shell.children.jobs:
        return 127
    first: list[Job] = [job for job in shell.children.jobs if job.done]

    async def one(job: Job, nursery: trio.Nursery) -> None:
        await job.wait()
        first.append(job)
        nursery.cancel_scope.cancel()

    async def any_job() -> int:
        if not first:
            async with trio.open_nursery() as nursery:
                for job in shell.children.jobs:
                    nursery.start_soon(one, job, nursery)
        return first[0].status

    status = await shell.interruptible(any_job())
    if first:
        shell.children.jobs.remove(first[0])
    return status


async def jobs(shell: Shell, words: list[str]) -> int:
    last = shell.children.jobs[-1] if shell.children.jobs else None
    for job in list(shell.children.jobs):
        if "-p" in words[1:]:
            await shell.proc.write(f"{job.pid}\n")
            continue
        if job.done:
            shell.children.jobs.remove(job)
            text = "Done" if job.status == 0 else f"Done({job.status})"
        else:
            text = "Running"
        mark = "+" if job is last else " "
        await shell.proc.write(f"[{job.number}]{mark}  {text:<27}\n")
    return 0


async def foreground(shell: Shell, words: list[str]) -> int:
    job = _job(shell, words[1] if len(words) > 1 else "%%")
    if job is None:
        raise ShellFailure("fg: no such job")
    status = await shell.interruptible(job.wait())
    if job.done:
        shell.children.jobs.remove(job)
    return status
