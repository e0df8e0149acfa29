"""Small applets without files: sleep, echo, true, yes, seq, env, date, id and their like."""

from __future__ import annotations

import math
import time

from cri_fake.process import signals
from cri_fake.process.applets.common import applet, fail, options_of
from cri_fake.process.applets.options import UsageError
from cri_fake.process.kernel import ExecError
from cri_fake.process.proc import Exit, Proc
from cri_fake.process.shell.builtins_io import ProcFileView, echo_text
from cri_fake.process.shell.builtins_jobs import send_signals
from cri_fake.process.shell.printf import format_printf
from cri_fake.process.shell.testexpr import TestError, evaluate_test

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds of ``1.5``, ``2m``, ``1h``, ``1d``, ``infinity``. Raises ``UsageError``."""
    unit = _UNITS.get(text[-1:], 0.0)
    number = text[:-1] if unit else text
    if number.lower() in ("inf", "infinity"):
        return math.inf
    if not number or any(char not in "0123456789." for char in number):
        raise UsageError(f"invalid number '{text}'")
    try:
        return float(number) * (unit or 1.0)
    except ValueError:
        raise UsageError(f"invalid number '{text}'") from None


def parse_number(text: str) -> int:
    """A count. Raises ``UsageError``."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"invalid number '{text}'")
    return int(text)


@applet
async def sleep(proc: Proc) -> int:
    if not proc.args:
        raise UsageError("missing operand")
    await proc.sleep(sum(parse_duration(text) for text in proc.args))
    return 0


@applet
async def usleep(proc: Proc) -> int:
    if not proc.args or not proc.args[0].isdigit():
        raise UsageError("missing operand")
    await proc.sleep(int(proc.args[0]) / 1e6)
    return 0


async def pause(proc: Proc) -> int:
    """The sandbox's program: does nothing until INT or TERM, then ends with 0."""
    proc.on_signal(signals.TERM, lambda number: proc.tell(0))
    proc.on_signal(signals.INT, lambda number: proc.tell(0))
    return await proc.until_told()


async def true(proc: Proc) -> int:
    return 0


async def false(proc: Proc) -> int:
    return 1


async def echo(proc: Proc) -> int:
    await proc.write(echo_text(proc.argv))
    return 0


@applet
async def printf(proc: Proc) -> int:
    if not proc.args:
        raise UsageError("usage: printf FORMAT [ARG]...")
    result = format_printf(proc.args[0], proc.args[1:])
    await proc.write(result.text)
    for problem in result.problems:
        await proc.complain(problem)
    return result.exit_code


async def test(proc: Proc) -> int:
    arguments = proc.args
    closing = {"[": "]", "[[": "]]"}.get(proc.name)
    if closing:
        if arguments[-1:] != [closing]:
            await proc.complain(f"missing {closing}")
            return 2
        arguments = arguments[:-1]
    try:
        return int(not evaluate_test(arguments, ProcFileView(proc), patterns=proc.name == "[["))
    except TestError as problem:
        await proc.complain(str(problem))
        return 2


async def yes(proc: Proc) -> int:
    line = (" ".join(proc.args) if proc.args else "y").encode("utf-8", "surrogateescape") + b"\n"
    chunk = line * max(4096 // len(line), 1)
    while True:
        await proc.write(chunk)
        await proc.step()


@applet
async def seq(proc: Proc) -> int:
    if _negative_first(proc.args):
        proc.argv.insert(1, "--")
    options = options_of(proc, "s:w", in_order=True)
    numbers = options.operands
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        raise UsageError(f"invalid number '{' '.join(numbers)}'") from None
    if not 1 <= len(values) <= 3:
        raise UsageError("usage: seq [-w] [-s SEP] [FIRST [INC]] LAST")
    first = values[0] if len(values) > 1 else 1.0
    step = values[1] if len(values) == 3 else 1.0
    last = values[-1]
    if step == 0:
        raise UsageError("invalid increment 0")
    count = int((last - first) / step + 1e-9) + 1
    digits = max((len(number.partition(".")[2]) for number in numbers), default=0)
    width = max(len(number) for number in numbers) if "w" in options else 0
    separator = options.value("s", "\n")
    for index in range(max(count, 0)):
        text = f"{first + index * step:0{width}.{digits}f}"
        await proc.write(text if index == 0 else separator + text)
        await proc.step()
    if count > 0:
        await proc.write("\n")
    return 0


def _negative_first(args: list[str]) -> bool:
    return bool(args) and args[0].startswith("-") and args[0][1:2].isdigit()


@applet
async def env(proc: Proc) -> int:
    options = options_of(proc, "iu:0", in_order=True)
    chosen = {} if "i" in options else dict(proc.env)
    for name in options.values.get("u", []):
        chosen.pop(name, None)
    operands = options.operands
    while operands and "=" in operands[0]:
        name, _, value = operands.pop(0).partition("=")
        chosen[name] = value
    if not operands:
        end = "\0" if "0" in options else "\n"
        await proc.write("".join(f"{name}={value}{end}" for name, value in chosen.items()))
        return 0
    return await become(proc, operands, chosen)


async def become(proc: Proc, argv: list[str], chosen: dict[str, str]) -> int:
    """Turn into another command, as ``env`` and ``nohup`` do."""
    try:
        found = proc.kernel.resolve(argv, chosen.get("PATH"), proc.cwd)
    except ExecError as problem:
        text = "No such file or directory" if problem.kind == "missing" else "Permission denied"
        raise await fail(proc, f"can't execute '{argv[0]}': {text}", problem.exit_code) from None
    return await proc.execute(found.program, found.argv, chosen)


@applet
async def nohup(proc: Proc) -> int:
    if not proc.args:
        raise UsageError("missing operand")
    proc.on_signal(signals.HUP, "ignore")
    return await become(proc, proc.args, proc.env)


async def printenv(proc: Proc) -> int:
    if not proc.args:
        await proc.write("".join(f"{name}={value}\n" for name, value in proc.env.items()))
        return 0
    missing = 0
    for name in proc.args:
        if name in proc.env:
            await proc.write(f"{proc.env[name]}\n")
        else:
            missing = 1
    return missing


@applet
async def date(proc: Proc) -> int:
    options = options_of(proc, "ud:Ir:", long={"utc": "u", "date": "d"})
    now_ns = proc.clock.now_ns()
    given = options.value("d")
    if given.startswith("@"):
        try:
            now_ns = int(float(given[1:]) * 1e9)
        except ValueError:
            raise UsageError(f"invalid date '{given}'") from None
    elif given:
        raise UsageError(f"invalid date '{given}': only @SECONDS is emulated")
    elif "r" in options:
        now_ns = proc.fs.stat(proc.path(options.value("r"))).mtime_ns
    form = options.operands[0] if options.operands else ""
    if form and not form.startswith("+"):
        raise UsageError(f"invalid date '{form}': the clock belongs to the node")
    if "I" in options:
        form = "+%Y-%m-%d"
    await proc.write(format_time(form[1:] if form else "%a %b %e %H:%M:%S UTC %Y", now_ns) + "\n")
    return 0


def format_time(form: str, now_ns: int) -> str:
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    moment = time.gmtime(seconds)
    form = form.replace("%%", "\0").replace("%s", str(seconds)).replace("%N", f"{nanos:09d}")
    form = form.replace("%Z", "UTC").replace("%z", "+0000").replace("\0", "%%")
    return time.strftime(form, moment) if form else ""


@applet
async def uname(proc: Proc) -> int:
    options = options_of(proc, "snrvmpoai")
    parts = {
        "s": "Linux", "n": proc.hostname, "r": "6.1.0-emulated", "v": "#1 SMP", "m": "x86_64",
        "o": "GNU/Linux",
    }  # fmt: skip
    chosen = "snrvmo" if "a" in options else "".join(letter for letter in parts if letter in options) or "s"
    await proc.write(" ".join(parts[letter] for letter in chosen) + "\n")
    return 0


@applet
async def hostname(proc: Proc) -> int:
    options = options_of(proc, "isfd")
    if options.operands:
        raise UsageError("sethostname: Operation not permitted")
    if "i" in options:
        await proc.write(f"{proc.pod_ip}\n")
    elif "d" in options:
        await proc.write("\n")
    else:
        await proc.write(f"{proc.hostname.split('.')[0] if 's' in options else proc.hostname}\n")
    return 0


async def nproc(proc: Proc) -> int:
    await proc.write("1\n")
    return 0


async def uptime(proc: Proc) -> int:
    minutes = int(proc.clock.elapsed_seconds() // 60)
    await proc.write(f" up {minutes} min,  load average: 0.00, 0.00, 0.00\n")
    return 0


@applet
async def kill(proc: Proc) -> int:
    code, failures = await send_signals(proc, proc.args)
    for failure in failures:
        await proc.complain(failure)
    return code


def _named(proc: Proc, pattern: str, *, exact: bool) -> list[int]:
    found: list[int] = []
    for pid, other in sorted(proc.kernel.processes.items()):
        if pid != proc.pid and (other.name == pattern if exact else pattern in other.name):
            found.append(pid)
    return found


@applet
async def killall(proc: Proc) -> int:
    arguments = list(proc.args)
    number = signals.TERM
    if arguments and arguments[0].startswith("-") and arguments[0] != "-q":
        parsed = signals.parse_signal(arguments.pop(0)[1:])
        if parsed is None:
            raise UsageError("bad signal name")
        number = parsed
    code = 0
    for name in arguments:
        pids = _named(proc, name, exact=proc.name == "killall")
        for pid in pids:
            proc.kernel.send_signal(pid, number)
        if not pids:
            code = 1
            if proc.name == "killall":
                await proc.complain(f"{name}: no process killed")
    return code


async def pidof(proc: Proc) -> int:
    names = [arg for arg in proc.args if not arg.startswith("-")]
    exact = proc.name == "pidof"
    pids = [pid for name in names for pid in _named(proc, name, exact=exact)]
    if not pids:
        return 1
    joined = " ".join(map(str, reversed(pids))) if exact else "\n".join(map(str, pids))
    await proc.write(f"{joined}\n")
    return 0


async def ps(proc: Proc) -> int:
    lines = ["PID   USER     TIME  COMMAND\n"]
    for pid, other in sorted(proc.kernel.processes.items()):
        lines.append(f"{pid:5} root      0:00 {' '.join(other.argv)}\n")
    await proc.write("".join(lines))
    return 0


@applet
async def timeout(proc: Proc) -> int:
    options = options_of(proc, "s:k:t:", in_order=True)
    operands = options.operands
    number = signals.parse_signal(options.value("s", "TERM"))
    if number is None:
        raise UsageError(f"unknown signal '{options.value('s')}'")
    if "t" in options:
        operands = [options.value("t"), *operands]
    if len(operands) < 2:
        raise UsageError("usage: timeout [-s SIG] [-k KILL_SECS] SECS PROG ARGS")
    limit = parse_duration(operands[0])
    try:
        found = proc.kernel.resolve(operands[1:], proc.env.get("PATH"), proc.cwd)
    except ExecError as problem:
        raise await fail(proc, f"can't execute '{operands[1]}'", problem.exit_code) from None
    import trio

    child = proc.fork(found.program, argv=found.argv)
    with trio.move_on_after(limit):
        return await proc.wait_for(child)
    child.deliver(number)
    if "k" in options:
        with trio.move_on_after(parse_duration(options.value("k"))):
            return await proc.wait_for(child)
        child.deliver(signals.KILL)
    status = await proc.wait_for(child)
    return status if child.killed_by else (143 if number == signals.TERM else 128 + number)


@applet
async def time_command(proc: Proc) -> int:
    """``time COMMAND``: node time, none of it computing."""
    if not proc.args:
        raise UsageError("missing operand")
    begin = proc.clock.elapsed_seconds()
    try:
        code = await proc.run(proc.args)
    except ExecError as problem:
        raise await fail(proc, f"can't execute '{proc.args[0]}'", problem.exit_code) from None
    minutes, seconds = divmod(proc.clock.elapsed_seconds() - begin, 60)
    await proc.write(f"real\t{int(minutes)}m {seconds:.2f}s\nuser\t0m 0.00s\nsys\t0m 0.00s\n", fd=2)
    return code


async def busybox(proc: Proc) -> int:
    """``busybox APPLET ARGS``."""
    if not proc.args:
        await proc.write("BusyBox v1.36.1 (emulated) multi-call binary.\n")
        return 0
    if proc.args[0] == "--list":
        from cri_fake.process.images import BUSYBOX_APPLETS

        await proc.write("".join(f"{name}\n" for name in BUSYBOX_APPLETS))
        return 0
    program = proc.kernel.programs.named(proc.args[0])
    if program is None:
        await proc.write(f"{proc.args[0]}: applet not found\n", fd=2)
        raise Exit(127)
    proc.argv = proc.args
    return await program(proc) or 0


async def not_emulated(proc: Proc) -> int:
    """An applet that exists in the image and not in the emulation: says so."""
    await proc.complain("this applet is not emulated")
    return 125
