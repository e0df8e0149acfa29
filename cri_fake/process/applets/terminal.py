"""Who one is and what one sits at: id, whoami, groups, tty, stty."""

from __future__ import annotations

from cri_fake.process.applets.common import applet, options_of
from cri_fake.process.applets.options import UsageError
from cri_fake.process.proc import Proc, decode
from cri_fake.process.terminal import Terminal

_IGNORED_SETTINGS = frozenset({"raw", "cooked", "icanon", "isig", "ixon", "opost", "onlcr", "icrnl"})
"""Settings that are taken and change nothing: the line discipline is always the usual one."""


def _name_of(proc: Proc, number: int, table: str) -> str:
    """The name /etc/passwd or /etc/group has for a number; empty when it has none."""
    try:
        lines = decode(proc.fs.read(table)).splitlines()
    except OSError:
        return ""
    for line in lines:
        entries = line.split(":")
        if len(entries) > 2 and entries[2] == str(number):
            return entries[0]
    return ""


def _groups(proc: Proc) -> list[int]:
    """The group of the process and its supplemental ones, each once."""
    return list(dict.fromkeys((proc.kernel.user[1], *proc.kernel.groups)))


@applet
async def identity(proc: Proc) -> int:
    """``id``: the user the container runs as."""
    options = options_of(proc, "ugGnr")
    uid, gid = proc.kernel.user

    def user(number: int) -> str:
        return (_name_of(proc, number, "/etc/passwd") if "n" in options else "") or str(number)

    def group(number: int) -> str:
        return (_name_of(proc, number, "/etc/group") if "n" in options else "") or str(number)

    def full(number: int, table: str) -> str:
        name = _name_of(proc, number, table)
        return f"{number}({name})" if name else str(number)

    if "u" in options:
        await proc.write(f"{user(uid)}\n")
    elif "g" in options:
        await proc.write(f"{group(gid)}\n")
    elif "G" in options:
        await proc.write(" ".join(group(each) for each in _groups(proc)) + "\n")
    else:
        groups = ",".join(full(each, "/etc/group") for each in _groups(proc))
        shown = f"uid={full(uid, '/etc/passwd')} gid={full(gid, '/etc/group')} groups={groups}"
        await proc.write(f"{shown}\n")
    return 0


async def groups(proc: Proc) -> int:
    """The names of all groups."""
    names = (_name_of(proc, each, "/etc/group") or str(each) for each in _groups(proc))
    await proc.write(" ".join(names) + "\n")
    return 0


async def whoami(proc: Proc) -> int:
    uid = proc.kernel.user[0]
    name = _name_of(proc, uid, "/etc/passwd")
    if not name:
        await proc.complain(f"unknown uid {uid}")
        return 1
    await proc.write(f"{name}\n")
    return 0


async def tty(proc: Proc) -> int:
    terminal = 0 in proc.fds and proc.fds[0].is_terminal
    await proc.write("/dev/pts/0\n" if terminal else "not a tty\n")
    return int(not terminal)


@applet
async def stty(proc: Proc) -> int:
    """``stty size``, ``echo``, ``-echo``, ``-a``; the settings that are left are taken and change nothing."""
    terminal = proc.fds.get(0)
    if not isinstance(terminal, Terminal):
        await proc.complain("standard input: Not a tty")
        return 1
    for word in proc.args:
        if word == "size":
            await proc.write(f"{terminal.rows} {terminal.columns}\n")
        elif word in ("-a", "--all"):
            shown = f"speed 38400 baud; rows {terminal.rows}; columns {terminal.columns}; line = 0;"
            await proc.write(f"{shown}\n{'' if terminal.echo else '-'}echo isig icanon\n")
        elif word in ("echo", "-echo"):
            terminal.echo = word == "echo"
        elif word == "sane":
            terminal.echo = True
        elif word.removeprefix("-") not in _IGNORED_SETTINGS:
            raise UsageError(f"invalid argument '{word}'")
    if not proc.args:
        await proc.write(f"speed 38400 baud; line = 0;\n{'' if terminal.echo else '-'}echo\n")
    return 0
