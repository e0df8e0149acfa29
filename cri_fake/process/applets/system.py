"""Applets that show the machine: top, netstat, ip, who, umount, renice."""

from __future__ import annotations

from cri_fake.process.applets.common import applet, options_of
from cri_fake.process.applets.options import UsageError
from cri_fake.process.applets.simple import parse_duration, parse_number
from cri_fake.process.proc import Proc

_TOP_SECONDS = 5.0


@applet
async def top(proc: Proc) -> int:
    """``top [-b] [-n TIMES] [-d SECONDS]``: the processes of the container, again and again."""
    options = options_of(proc, "bn:d:m")
    times = parse_number(options.value("n")) if "n" in options else None
    pause = parse_duration(options.value("d")) if "d" in options else _TOP_SECONDS
    shown = 0
    while times is None or shown < times:
        if shown:
            await proc.sleep(pause)
        shown += 1
        lines = ["Mem: 1048576K used, 3145728K free", "Load average: 0.00 0.00 0.00 1/1 1"]
        lines.append("  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND")
        for pid, each in sorted(proc.kernel.processes.items()):
            state = "R" if each is proc else "S"
            command = " ".join(each.argv)
            lines.append(f"{pid:5} {each.parent:5} root     {state}     4400   0%   0   0% {command}")
        await proc.write("\n".join([*lines, ""]))
    return 0


@applet
async def netstat(proc: Proc) -> int:
    """Only the heading: what listens is known to the network, not to the container."""
    options_of(proc, "lantuwxprWe")
    await proc.write(
        "Active Internet connections (only servers)\n"
        "Proto Recv-Q Send-Q Local Address           Foreign Address         State       \n"
    )
    return 0


@applet
async def ip(proc: Proc) -> int:
    """``ip addr`` and ``ip route``: loopback and the pod's address."""
    words = [word for word in proc.args if not word.startswith("-")]
    if not words or not words[0].startswith(("a", "r", "l")):
        raise UsageError("only 'ip addr', 'ip link' and 'ip route' are emulated")
    if words[0].startswith("r"):
        await proc.write(f"default via {proc.pod_ip} dev eth0\n")
        return 0
    family, width = ("inet6", 64) if ":" in proc.pod_ip else ("inet", 16)
    shows = words[0].startswith("a")
    await proc.write(
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue qlen 1000\n"
        "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n"
        + ("    inet 127.0.0.1/8 scope host lo\n" if shows else "")
        + "2: eth0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP,M-DOWN> mtu 1500 qdisc noqueue\n"
        "    link/ether 02:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff\n"
        + (f"    {family} {proc.pod_ip}/{width} scope global eth0\n" if shows else "")
    )
    return 0


@applet
async def who(proc: Proc) -> int:
    """Nobody is logged in."""
    await proc.write("USER\t\tTTY\t\tIDLE\tTIME\t\t HOST\n")
    return 0


@applet
async def umount(proc: Proc) -> int:
    for name in proc.args or [""]:
        await proc.complain(f"can't unmount {name}: Operation not permitted")
    return 1


@applet
async def renice(proc: Proc) -> int:
    """Priorities are taken and change nothing."""
    options = options_of(proc, "n:pgu")
    pids = options.operands if "n" in options else options.operands[1:]
    known = [pid for pid in pids if pid.isdigit() and int(pid) in proc.kernel.processes]
    return 0 if pids and len(known) == len(pids) else 1
