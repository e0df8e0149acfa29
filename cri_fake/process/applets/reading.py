"""Applets that read files and tell about them: cat, ls, stat, head, tail, wc, readlink, du, checksums."""

from __future__ import annotations

import hashlib
import time

from cri_fake.process.applets.common import (
    applet,
    copy_stream,
    inputs,
    lines_of,
    open_input,
    options_of,
    reason,
)
from cri_fake.process.applets.fileops import parse_size
from cri_fake.process.applets.options import Options, UsageError
from cri_fake.process.files import FileInfo
from cri_fake.process.proc import Proc, decode, encode
from cri_fake.process.programs import Program

_FOLLOW_EVERY_SECONDS = 1.0


@applet
async def cat(proc: Proc) -> int:
    options = options_of(proc, "unbvetA")
    code = 0
    number = 1
    for name in options.operands or ["-"]:
        try:
            if "n" in options or "b" in options:
                data = await _whole(proc, name)
                for line in lines_of(data):
                    if "b" in options and not line:
                        await proc.write("\n")
                        continue
                    await proc.write(f"{number:6}\t{decode(line)}\n")
                    number += 1
            else:
                await copy_stream(proc, open_input(proc, name))
        except BrokenPipeError:
            raise
        except IsADirectoryError as problem:
            await proc.complain(f"read error: {reason(problem)}")
            code = 1
        except OSError as problem:
            await proc.complain(f"can't open '{name}': {reason(problem)}")
            code = 1
    return code


async def _whole(proc: Proc, name: str) -> bytes:
    if name == "-":
        return await proc.read_all()
    return proc.fs.read(proc.path(name))


@applet
async def tac(proc: Proc) -> int:
    options = options_of(proc, "")
    code = 0
    for _, data in await inputs(proc, options.operands):
        if data is None:
            code = 1
            continue
        await proc.write(b"".join(line + b"\n" for line in reversed(lines_of(data))))
    return code


def _mode_text(info: FileInfo) -> str:
    kind = {"dir": "d", "symlink": "l", "char": "c", "fifo": "p"}.get(info.kind, "-")
    bits = "".join(
        letter if info.mode & (1 << (8 - index)) else "-" for index, letter in enumerate("rwxrwxrwx")
    )
    if info.mode & 0o1000:
        bits = bits[:8] + ("t" if bits[8] == "x" else "T")
    return kind + bits


@applet
async def ls(proc: Proc) -> int:
    options = options_of(proc, "1aAlhdRrtSFnpiLsCxw:", long={"all": "a", "color": "C:"})
    names = options.operands or ["."]
    code = 0
    files: list[str] = []
    folders: list[str] = []
    for name in names:
        try:
            follow = "l" not in options
            try:
                info = proc.fs.stat(proc.path(name), follow=follow)
            except FileNotFoundError:
                info = proc.fs.stat(proc.path(name), follow=False)
            (folders if info.kind == "dir" and "d" not in options else files).append(name)
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
    if files:
        await _list_entries(proc, files, "", options)
    for index, folder in enumerate(folders):
        await _list_folder(proc, folder, options, titled=len(names) > 1, first=index == 0 and not files)
    return code


async def _list_folder(proc: Proc, folder: str, options: Options, *, titled: bool, first: bool) -> None:
    shown = proc.fs.list(proc.path(folder))
    if "a" not in options and "A" not in options:
        shown = [name for name in shown if not name.startswith(".")]
    elif "a" in options:
        shown = [".", "..", *shown]
    if titled or "R" in options:
        await proc.write(f"{'' if first else chr(10)}{folder}:\n")
    if "l" in options:
        await proc.write("total 0\n")
    await _list_entries(proc, shown, folder, options)
    if "R" in options:
        for name in shown:
            inner = f"{folder.rstrip('/')}/{name}"
            if name not in (".", "..") and proc.fs.stat(proc.path(inner), follow=False).kind == "dir":
                await _list_folder(proc, inner, options, titled=True, first=False)


async def _list_entries(proc: Proc, names: list[str], folder: str, options: Options) -> None:
    entries: list[tuple[str, FileInfo, str]] = []
    for name in names:
        path = proc.path(f"{folder.rstrip('/') or '/'}/{name}" if folder else name)
        try:
            entries.append((name, proc.fs.stat(path, follow=False), path))
        except OSError:
            continue
    if "t" in options:
        entries.sort(key=lambda entry: -entry[1].mtime_ns)
    elif "S" in options:
        entries.sort(key=lambda entry: -entry[1].size)
    if "r" in options:
        entries.reverse()
    for name, info, path in entries:
        mark = ""
        if "F" in options or "p" in options:
            mark = "/" if info.kind == "dir" else ""
            if "F" in options and info.kind == "symlink":
                mark = "@"
            elif "F" in options and info.kind == "file" and info.mode & 0o111:
                mark = "*"
        if "l" in options or "n" in options:
            moment = time.strftime("%b %e %H:%M", time.gmtime(info.mtime_ns // 1_000_000_000))
            owner = "0        0    " if "n" in options else "root     root "
            size = _human(info.size) if "h" in options else str(info.size)
            tail = f" -> {proc.fs.read_link(path)}" if info.kind == "symlink" else mark
            await proc.write(f"{_mode_text(info)}    {info.links} {owner} {size:>12} {moment} {name}{tail}\n")
        else:
            await proc.write(f"{name}{mark}\n")


def _human(size: int) -> str:
    value = float(size)
    for unit in ("", "K", "M"):
        if value < 1024:
            return f"{value:.1f}{unit}" if unit else str(size)
        value /= 1024
    return f"{value:.1f}G"


@applet
async def stat(proc: Proc) -> int:
    options = options_of(proc, "c:Ltf")
    code = 0
    for name in options.operands:
        try:
            info = proc.fs.stat(proc.path(name), follow="L" in options)
        except OSError as problem:
            await proc.complain(f"can't stat '{name}': {reason(problem)}")
            code = 1
            continue
        if "c" in options:
            await proc.write(_stat_format(options.value("c"), name, info) + "\n")
            continue
        kinds = {
            "file": "regular file",
            "dir": "directory",
            "symlink": "symbolic link",
            "char": "character special file",
        }
        await proc.write(
            f"  File: {name}\n  Size: {info.size:<10}\tBlocks: {(info.size + 511) // 512:<10} "
            f"IO Block: 4096   {kinds.get(info.kind, info.kind)}\n"
            f"Access: ({info.mode:04o}/{_mode_text(info)})  Uid: (    0/    root)   Gid: (    0/    root)\n"
        )
    return code


def _stat_format(form: str, name: str, info: FileInfo) -> str:
    kinds = {"file": "regular file", "dir": "directory", "symlink": "symbolic link"}
    kind = "regular empty file" if info.kind == "file" and not info.size else kinds.get(info.kind, info.kind)
    seconds = str(info.mtime_ns // 1_000_000_000)
    values = {
        "n": name, "s": str(info.size), "a": f"{info.mode:o}", "A": _mode_text(info), "F": kind,
        "Y": seconds, "X": seconds, "Z": seconds, "h": str(info.links), "i": "1", "%": "%",
        "u": "0", "g": "0", "U": "root", "G": "root",
    }  # fmt: skip
    out: list[str] = []
    at = 0
    while at < len(form):
        if form[at] == "%" and at + 1 < len(form):
            out.append(values.get(form[at + 1], "?"))
            at += 2
        else:
            out.append(form[at])
            at += 1
    return "".join(out)


def _old_count(args: list[str]) -> list[str]:
    """``head -5`` and ``tail -5``."""
    made: list[str] = []
    for arg in args:
        old = len(arg) > 1 and arg[0] == "-" and arg[1:].isdigit() and made[-1:] not in (["-n"], ["-c"])
        made.append(f"-n{arg[1:]}" if old else arg)
    return made


@applet
async def head(proc: Proc) -> int:
    proc.argv[1:] = _old_count(proc.args)
    options = options_of(proc, "n:c:qv", long={"lines": "n", "bytes": "c"})
    text = options.value("c") if "c" in options else options.value("n", "10")
    count = parse_size(text.lstrip("-"))
    names = options.operands
    code = 0
    if text.startswith("-") or len(names) > 1:
        return await _head_whole(proc, options, -count if text.startswith("-") else count)
    try:
        proc.set_fd(0, open_input(proc, names[0] if names else "-"))
    except OSError as problem:
        await proc.complain(f"{names[0]}: {reason(problem)}")
        return 1
    while count > 0:
        chunk = await proc.read(min(count, 4096) if "c" in options else 4096)
        if not chunk:
            break
        if "c" in options:
            count -= len(chunk)
        else:
            lines = chunk.count(b"\n")
            if lines >= count:
                chunk = b"\n".join(chunk.split(b"\n", count)[:count]) + b"\n"
            count -= lines
        await proc.write(chunk)
    return code


async def _head_whole(proc: Proc, options: Options, count: int) -> int:
    code = 0
    first = True
    for name, data in await inputs(proc, options.operands):
        if data is None:
            code = 1
            continue
        if len(options.operands) > 1 and "q" not in options:
            await proc.write(f"{'' if first else chr(10)}==> {name} <==\n")
        first = False
        if "c" in options:
            await proc.write(data[:count])
        else:
            await proc.write(b"".join(data.splitlines(keepends=True)[:count]))
    return code


@applet
async def tail(proc: Proc) -> int:
    proc.argv[1:] = _old_count(proc.args)
    options = options_of(proc, "n:c:fFqvs:", long={"lines": "n", "bytes": "c", "follow": "f"})
    text = options.value("c") if "c" in options else options.value("n", "10")
    count = parse_size(text.lstrip("+-"))
    names = options.operands or ["-"]
    follow = "f" in options or "F" in options
    code = 0
    sizes: dict[str, int] = {}
    for index, name in enumerate(names):
        if len(names) > 1 and "q" not in options:
            await proc.write(f"{chr(10) if index else ''}==> {name} <==\n")
        try:
            data = await _whole(proc, name)
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
            if "F" in options:
                sizes[name] = 0
            continue
        if name != "-":
            sizes[name] = len(data)
        await proc.write(_last(data, count, from_start=text.startswith("+"), by_bytes="c" in options))
    if follow and sizes:
        await _follow(proc, sizes)
    return code


def _last(data: bytes, count: int, *, from_start: bool, by_bytes: bool) -> bytes:
    if by_bytes:
        if from_start:
            return data[max(count - 1, 0) :]
        return data[-count:] if count else b""
    lines = data.splitlines(keepends=True)
    if from_start:
        return b"".join(lines[max(count - 1, 0) :])
    return b"".join(lines[-count:]) if count else b""


async def _follow(proc: Proc, sizes: dict[str, int]) -> None:
    """Until the process is ended: what is appended, looked for every second."""
    while True:
        await proc.sleep(_FOLLOW_EVERY_SECONDS)
        for name, size in list(sizes.items()):
            try:
                data = proc.fs.read(proc.path(name))
            except OSError:
                continue
            if len(data) < size:
                size = 0
            if len(data) > size:
                await proc.write(data[size:])
            sizes[name] = len(data)


@applet
async def wc(proc: Proc) -> int:
    options = options_of(proc, "clwmL")
    wanted = [letter for letter in "lwmcL" if letter in options] or ["l", "w", "c"]
    totals = [0] * len(wanted)
    code = 0
    plain = len(wanted) == 1 and len(options.operands) < 2
    for name, data in await inputs(proc, options.operands):
        if data is None:
            code = 1
            continue
        counts = {
            "l": data.count(b"\n"),
            "w": len(data.split()),
            "c": len(data),
            "m": len(decode(data)),
            "L": max((len(line) for line in lines_of(data)), default=0),
        }
        values = [counts[letter] for letter in wanted]
        totals = [old + new for old, new in zip(totals, values, strict=True)]
        await _wc_line(proc, values, name if options.operands else "", plain=plain)
    if len(options.operands) > 1:
        await _wc_line(proc, totals, "total", plain=False)
    return code


async def _wc_line(proc: Proc, values: list[int], name: str, *, plain: bool) -> None:
    shown = str(values[0]) if plain else " ".join(f"{value:9}" for value in values)
    await proc.write(f"{shown} {name}\n" if name else f"{shown}\n")


@applet
async def readlink(proc: Proc) -> int:
    options = options_of(proc, "fnvqsem")
    code = 0
    for name in options.operands:
        path = proc.path(name)
        try:
            text = proc.fs.real_path(path) if "f" in options or "e" in options else proc.fs.read_link(path)
        except OSError:
            code = 1
            continue
        await proc.write(text if "n" in options else f"{text}\n")
    return code


@applet
async def realpath(proc: Proc) -> int:
    code = 0
    for name in proc.args:
        path = proc.path(name)
        try:
            if not proc.fs.exists(path):
                proc.fs.stat(path)
            await proc.write(f"{proc.fs.real_path(path)}\n")
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
    return code


@applet
async def basename(proc: Proc) -> int:
    options = options_of(proc, "as:", in_order=True)
    operands = options.operands
    if not operands:
        raise UsageError("missing operand")
    suffix = options.value("s")
    if "a" not in options and "s" not in options:
        suffix = operands[1] if len(operands) > 1 else ""
        operands = operands[:1]
    for operand in operands:
        name = operand.rstrip("/").rsplit("/", 1)[-1] or ("/" if operand else "")
        if suffix and name.endswith(suffix) and name != suffix:
            name = name[: -len(suffix)]
        await proc.write(f"{name}\n")
    return 0


@applet
async def dirname(proc: Proc) -> int:
    if not proc.args:
        raise UsageError("missing operand")
    for name in proc.args:
        head, slash, _ = name.rstrip("/").rpartition("/")
        await proc.write(f"{head.rstrip('/') or '/' if slash else ('/' if name.startswith('/') else '.')}\n")
    return 0


async def pwd(proc: Proc) -> int:
    await proc.write(f"{proc.cwd}\n")
    return 0


@applet
async def which(proc: Proc) -> int:
    code = 0
    for name in [arg for arg in proc.args if arg != "-a"]:
        candidates = [name] if "/" in name else [f"{d}/{name}" for d in proc.env.get("PATH", "").split(":")]
        for candidate in candidates:
            try:
                info = proc.fs.stat(proc.path(candidate))
            except OSError:
                continue
            if info.kind == "file" and info.mode & 0o111:
                await proc.write(f"{candidate}\n")
                break
        else:
            code = 1
    return code


def _digest(kind: str) -> Program:
    async def run(proc: Proc) -> int:
        options = options_of(proc, "cswb")
        code = 0
        if "c" in options:
            return await _check_digests(proc, kind, options.operands, quiet="s" in options)
        for name, data in await inputs(proc, options.operands):
            if data is None:
                code = 1
                continue
            await proc.write(f"{hashlib.new(kind, data).hexdigest()}  {name}\n")
        return code

    return applet(run)


async def _check_digests(proc: Proc, kind: str, names: list[str], *, quiet: bool) -> int:
    failed = 0
    for _, data in await inputs(proc, names):
        for line in lines_of(data or b""):
            digest, _, name = decode(line).partition("  ")
            try:
                good = hashlib.new(kind, proc.fs.read(proc.path(name))).hexdigest() == digest
            except OSError:
                good = False
            failed += not good
            if not quiet:
                await proc.write(f"{name}: {'OK' if good else 'FAILED'}\n")
    return int(failed > 0)


md5sum, sha1sum, sha256sum, sha512sum = (_digest(kind) for kind in ("md5", "sha1", "sha256", "sha512"))


@applet
async def du(proc: Proc) -> int:
    options = options_of(proc, "shkmacdLHx")
    for name in options.operands or ["."]:
        total = _size_below(proc, name)
        shown = _human(total) if "h" in options else str((total + 1023) // 1024)
        await proc.write(f"{shown}\t{name}\n")
    return 0


def _size_below(proc: Proc, name: str, depth: int = 0) -> int:
    info = proc.fs.stat(proc.path(name), follow=False)
    if info.kind != "dir" or depth > 200:
        return info.size if info.kind == "file" else 0
    return sum(
        _size_below(proc, f"{name.rstrip('/')}/{child}", depth + 1) for child in proc.fs.list(proc.path(name))
    )


async def df(proc: Proc) -> int:
    used = proc.fs.used_bytes // 1024
    await proc.write(
        "Filesystem           1K-blocks      Used Available Use% Mounted on\n"
        f"overlay                  65536 {used:>9} {65536 - used:>9} {used * 100 // 65536:>3}% /\n"
    )
    return 0


async def free(proc: Proc) -> int:
    await proc.write(
        "              total        used        free      shared  buff/cache   available\n"
        "Mem:        4096000      512000     3584000           0           0     3584000\n"
    )
    return 0


@applet
async def cmp(proc: Proc) -> int:
    options = options_of(proc, "sln:")
    if len(options.operands) != 2:
        raise UsageError("usage: cmp [-s] FILE1 FILE2")
    first, second = options.operands
    left, right = await _whole(proc, first), await _whole(proc, second)
    if left == right:
        return 0
    if "s" not in options:
        common = next(
            (i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None
        )
        if common is None:
            await proc.complain(f"EOF on {first if len(left) < len(right) else second}")
        else:
            line = left.count(b"\n", 0, common) + 1
            await proc.write(f"{first} {second} differ: char {common + 1}, line {line}\n")
    return 1


@applet
async def diff(proc: Proc) -> int:
    """Unified differences of two files; folders are not compared."""
    from difflib import unified_diff

    options = options_of(proc, "uqNabBwiTtdrU:")
    if len(options.operands) != 2:
        raise UsageError("usage: diff [-uq] FILE1 FILE2")
    first, second = options.operands
    texts: list[list[str]] = []
    for name in (first, second):
        try:
            texts.append(decode(await _whole(proc, name)).splitlines(keepends=True))
        except OSError as problem:
            await proc.complain(f"can't stat '{name}': {reason(problem)}")
            return 2
    if texts[0] == texts[1]:
        return 0
    if "q" in options:
        await proc.write(f"Files {first} and {second} differ\n")
        return 1
    for line in unified_diff(texts[0], texts[1], first, second, n=int(options.value("U", "3"))):
        ended = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        await proc.write(ended)
    return 1


@applet
async def nl(proc: Proc) -> int:
    options = options_of(proc, "b:w:s:n:v:")
    number = 1
    for _, data in await inputs(proc, options.operands):
        for line in lines_of(data or b""):
            if line or options.value("b") == "a":
                await proc.write(f"{number:6}\t{decode(line)}\n")
                number += 1
            else:
                await proc.write("       \n")
    return 0


@applet
async def base64(proc: Proc) -> int:
    import base64 as codec
    import binascii

    options = options_of(proc, "dw:")
    data = b"".join([data or b"" for _, data in await inputs(proc, options.operands)])
    if "d" in options:
        try:
            await proc.write(codec.b64decode(data))
        except binascii.Error:
            raise UsageError("truncated input") from None
        return 0
    text = codec.b64encode(data).decode()
    width = int(options.value("w", "76"))
    if width:
        text = "".join(f"{text[at : at + width]}\n" for at in range(0, len(text), width))
    await proc.write(encode(text))
    return 0
