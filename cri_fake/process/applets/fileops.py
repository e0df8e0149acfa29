"""Applets that make, move and remove files: touch, rm, mkdir, cp, mv, ln, chmod, mktemp, dd and more."""

from __future__ import annotations

import errno

from cri_fake.process.applets.common import applet, options_of, reason
from cri_fake.process.applets.options import UsageError
from cri_fake.process.files import FileInfo
from cri_fake.process.layer import Device
from cri_fake.process.proc import Proc
from cri_fake.process.streams import OpenFile, RegularFile

MAX_DEPTH = 200


@applet
async def touch(proc: Proc) -> int:
    options = options_of(proc, "camhr:d:t:", long={"no-create": "c", "reference": "r", "date": "d"})
    if not options.operands:
        raise UsageError("missing operand")
    mtime_ns: int | None = None
    if "r" in options:
        mtime_ns = proc.fs.stat(proc.path(options.value("r"))).mtime_ns
    elif options.value("d").startswith("@"):
        mtime_ns = int(float(options.value("d")[1:]) * 1e9)
    code = 0
    for name in options.operands:
        path = proc.path(name)
        try:
            if not proc.fs.exists(path):
                if "c" in options:
                    continue
                proc.open(name, write=True, create=True).release()
            proc.fs.touch(path, mtime_ns=mtime_ns)
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
    return code


@applet
async def rm(proc: Proc) -> int:
    options = options_of(proc, "rRfiv", long={"recursive": "r", "force": "f"})
    force = "f" in options
    recursive = "r" in options or "R" in options
    if not options.operands and not force:
        raise UsageError("missing operand")
    code = 0
    for name in options.operands:
        if name.rstrip("/").rsplit("/", 1)[-1] in (".", ".."):
            await proc.complain(f"can't remove '.' or '..': '{name}'")
            code = 1
        elif not await _remove(proc, name, recursive=recursive, force=force, depth=0):
            code = 1
    return code


async def _remove(proc: Proc, name: str, *, recursive: bool, force: bool, depth: int) -> bool:
    path = proc.path(name)
    try:
        info = proc.fs.stat(path.rstrip("/") or "/", follow=False)
    except OSError as problem:
        if force and problem.errno in (errno.ENOENT, errno.ENOTDIR):
            return True
        await proc.complain(f"can't remove '{name}': {reason(problem)}")
        return False
    try:
        if info.kind != "dir":
            proc.fs.unlink(path)
            return True
        if not recursive:
            await proc.complain(f"can't remove '{name}': Is a directory")
            return False
        if depth > MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        good = True
        for child in proc.fs.list(path):
            await proc.step()
            inner = f"{name.rstrip('/')}/{child}"
            good = await _remove(proc, inner, recursive=True, force=force, depth=depth + 1) and good
        if not good:
            return False
        proc.fs.remove_dir(path)
    except OSError as problem:
        await proc.complain(f"can't remove '{name}': {reason(problem)}")
        return False
    return True


@applet
async def rmdir(proc: Proc) -> int:
    options = options_of(proc, "p", long={"parents": "p", "ignore-fail-on-non-empty": "i"})
    code = 0
    for name in options.operands:
        todo = [name]
        while "p" in options and "/" in todo[-1].strip("/"):
            todo.append(todo[-1].rstrip("/").rsplit("/", 1)[0])
        for each in todo:
            try:
                proc.fs.remove_dir(proc.path(each))
            except OSError as problem:
                await proc.complain(f"'{each}': {reason(problem)}")
                code = 1
                break
    return code


@applet
async def mkdir(proc: Proc) -> int:
    options = options_of(proc, "pm:v", long={"parents": "p", "mode": "m"})
    if not options.operands:
        raise UsageError("missing operand")
    code = 0
    mode = parse_mode(options.value("m"), 0o777) if "m" in options else 0o777 & ~proc.umask
    for name in options.operands:
        try:
            if "p" in options:
                make_parents(proc, name)
            else:
                proc.fs.make_dir(proc.path(name), mode=mode)
        except OSError as problem:
            await proc.complain(f"can't create directory '{name}': {reason(problem)}")
            code = 1
    return code


def make_parents(proc: Proc, name: str) -> None:
    """Make a folder and those above it. Raises OSError."""
    path = ""
    for step in [step for step in proc.path(name).split("/") if step]:
        path += f"/{step}"
        if not proc.fs.is_dir(path):
            proc.fs.make_dir(path, mode=0o777 & ~proc.umask)


def parse_mode(text: str, old: int) -> int:
    """An octal or symbolic mode. Raises ``UsageError``."""
    if text and set(text) <= set("01234567"):
        return int(text, 8)
    mode = old
    for clause in text.split(","):
        at = 0
        while at < len(clause) and clause[at] in "ugoa":
            at += 1
        who = clause[:at] or "a"
        who = "ugo" if "a" in who else who
        if at >= len(clause) or clause[at] not in "+-=":
            raise UsageError(f"invalid mode '{text}'")
        bits = 0
        for letter in clause[at + 1 :]:
            if letter not in "rwxXst":
                raise UsageError(f"invalid mode '{text}'")
            bits |= {"r": 4, "w": 2, "x": 1, "X": 1 if old & 0o111 else 0}.get(letter, 0)
            mode |= 0o1000 if letter == "t" and clause[at] != "-" else 0
        for letter in who:
            shift = {"u": 6, "g": 3, "o": 0}[letter]
            if clause[at] == "+":
                mode |= bits << shift
            elif clause[at] == "-":
                mode &= ~(bits << shift)
            else:
                mode = (mode & ~(7 << shift)) | (bits << shift)
    return mode


@applet
async def chmod(proc: Proc) -> int:
    args, recursive = list(proc.args), False
    while args and args[0] in ("-R", "-v", "-c", "-f", "--"):
        recursive = args.pop(0) == "-R" or recursive
    if len(args) < 2:
        raise UsageError("missing operand")
    code = 0
    for name in args[1:]:
        try:
            for path in [name, *(_below(proc, name) if recursive else [])]:
                full = proc.path(path)
                proc.fs.chmod(full, parse_mode(args[0], proc.fs.stat(full).mode))
        except OSError as problem:
            await proc.complain(f"{name}: {reason(problem)}")
            code = 1
    return code


def _below(proc: Proc, name: str, depth: int = 0) -> list[str]:
    if depth > MAX_DEPTH or proc.fs.stat(proc.path(name), follow=False).kind != "dir":
        return []
    found: list[str] = []
    for child in proc.fs.list(proc.path(name)):
        inner = f"{name.rstrip('/')}/{child}"
        if proc.fs.stat(proc.path(inner), follow=False).kind != "symlink":
            found += [inner, *_below(proc, inner, depth + 1)]
    return found


@applet
async def chown(proc: Proc) -> int:
    """Owners are not emulated: the files only have to exist."""
    operands = [arg for arg in proc.args if not arg.startswith("-")]
    if len(operands) < 2:
        raise UsageError("missing operand")
    code = 0
    for name in operands[1:]:
        if not proc.fs.exists(proc.path(name)):
            await proc.complain(f"{name}: No such file or directory")
            code = 1
    return code


def _into(proc: Proc, target: str, source: str) -> str:
    """The name under which a source ends up: inside the target where that is a folder."""
    if proc.fs.is_dir(proc.path(target)):
        return f"{target.rstrip('/')}/{source.rstrip('/').rsplit('/', 1)[-1]}"
    return target


@applet
async def cp(proc: Proc) -> int:
    options = options_of(proc, "rRafpdLPvnHuT", long={"recursive": "r", "archive": "a", "force": "f"})
    *sources, target = options.operands if len(options.operands) > 1 else [""]
    if not sources:
        raise UsageError("missing operand")
    if len(sources) > 1 and not proc.fs.is_dir(proc.path(target)):
        raise UsageError(f"target '{target}': No such file or directory")
    recursive = any(letter in options for letter in "rRa")
    links = any(letter in options for letter in "adPrR") and "L" not in options
    code = 0
    for source in sources:
        place = target if "T" in options else _into(proc, target, source)
        if "n" in options and proc.fs.exists(proc.path(place)):
            continue
        if not await copy(proc, source, place, recursive=recursive, links=links):
            code = 1
    return code


async def copy(proc: Proc, source: str, target: str, *, recursive: bool, links: bool, depth: int = 0) -> bool:
    """Copy a file, a link or a folder; False when something was left out."""
    old, new = proc.path(source), proc.path(target)
    try:
        info = proc.fs.stat(old, follow=not links)
    except OSError as problem:
        await proc.complain(f"can't stat '{source}': {reason(problem)}")
        return False
    try:
        if info.kind == "symlink":
            if proc.fs.exists(new):
                proc.fs.unlink(new)
            proc.fs.symlink(proc.fs.read_link(old), new)
            return True
        if info.kind != "dir":
            return await _copy_file(proc, source, target, info)
        if not recursive:
            await proc.complain(f"omitting directory '{source}'")
            return False
        if depth > MAX_DEPTH or (new + "/").startswith(old.rstrip("/") + "/"):
            await proc.complain(f"recursion detected, omitting directory '{source}'")
            return False
        if not proc.fs.is_dir(new):
            proc.fs.make_dir(new, mode=info.mode)
    except OSError as problem:
        await proc.complain(f"can't create '{target}': {reason(problem)}")
        return False
    good = True
    for child in proc.fs.list(old):
        await proc.step()
        inner = f"{source.rstrip('/')}/{child}", f"{target.rstrip('/')}/{child}"
        good = await copy(proc, *inner, recursive=True, links=links, depth=depth + 1) and good
    return good


async def _copy_file(proc: Proc, source: str, target: str, info: FileInfo) -> bool:
    try:
        same = proc.fs.stat(proc.path(target)).identity == info.identity
    except OSError:
        same = False
    if same:
        await proc.complain(f"'{source}' and '{target}' are the same file")
        return False
    data = proc.fs.read(proc.path(source))
    try:
        proc.fs.write(proc.path(target), data, mode=info.mode & ~proc.umask)
    except OSError as problem:
        await proc.complain(f"can't create '{target}': {reason(problem)}")
        return False
    return True


@applet
async def mv(proc: Proc) -> int:
    options = options_of(proc, "finvT", long={"force": "f"})
    *sources, target = options.operands if len(options.operands) > 1 else [""]
    if not sources:
        raise UsageError("missing operand")
    if len(sources) > 1 and not proc.fs.is_dir(proc.path(target)):
        raise UsageError(f"target '{target}': No such file or directory")
    code = 0
    for source in sources:
        place = target if "T" in options else _into(proc, target, source)
        if "n" in options and proc.fs.exists(proc.path(place)):
            continue
        if not await _move(proc, source, place):
            code = 1
    return code


async def _move(proc: Proc, source: str, target: str) -> bool:
    try:
        proc.fs.rename(proc.path(source), proc.path(target))
    except OSError as problem:
        if problem.errno == errno.EXDEV:
            if not await copy(proc, source, target, recursive=True, links=True):
                return False
            return await _remove(proc, source, recursive=True, force=True, depth=0)
        text = reason(problem)
        known = proc.fs.exists(proc.path(source))
        await proc.complain(f"can't rename '{source}': {text}" if known or text else f"can't stat '{source}'")
        return False
    return True


@applet
async def ln(proc: Proc) -> int:
    options = options_of(proc, "sfnvT", long={"symbolic": "s", "force": "f"})
    operands = options.operands
    if len(operands) == 1:
        operands = [operands[0], "."]
    *sources, target = operands if operands else [""]
    if not sources:
        raise UsageError("missing operand")
    code = 0
    for source in sources:
        is_link = "n" in options and _is_link(proc, target)
        place = target if "T" in options or is_link else _into(proc, target, source)
        path = proc.path(place)
        try:
            if "f" in options and (_is_link(proc, place) or proc.fs.exists(path)):
                proc.fs.unlink(path)
            if "s" in options:
                proc.fs.symlink(source, path)
            else:
                proc.fs.link(proc.path(source), path)
        except OSError as problem:
            await proc.complain(f"{place}: {reason(problem)}")
            code = 1
    return code


def _is_link(proc: Proc, name: str) -> bool:
    try:
        return proc.fs.stat(proc.path(name), follow=False).kind == "symlink"
    except OSError:
        return False


@applet
async def unlink(proc: Proc) -> int:
    if len(proc.args) != 1:
        raise UsageError("missing operand")
    proc.fs.unlink(proc.path(proc.args[0]))
    return 0


@applet
async def mktemp(proc: Proc) -> int:
    options = options_of(proc, "dqtup:")
    folder = options.value("p") or (proc.env.get("TMPDIR") or "/tmp")
    template = options.operands[0] if options.operands else ""
    if not template or "t" in options or "p" in options:
        template = f"{folder.rstrip('/')}/{template or 'tmp.XXXXXX'}"
    if not template.endswith("XXXXXX"):
        raise UsageError(f"Invalid argument: '{template}' must end in XXXXXX")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    for _ in range(100):
        name = template[:-6] + "".join(proc.rng.choice(letters) for _ in range(6))
        try:
            if "u" in options:
                pass
            elif "d" in options:
                proc.fs.make_dir(proc.path(name), mode=0o700)
            else:
                proc.open(name, write=True, create=True, exclusive=True).release()
                proc.fs.chmod(proc.path(name), 0o600)
        except FileExistsError:
            continue
        await proc.write(f"{name}\n")
        return 0
    raise UsageError("no free name")


@applet
async def truncate(proc: Proc) -> int:
    options = options_of(proc, "cs:", long={"size": "s", "no-create": "c"})
    if "s" not in options or not options.operands:
        raise UsageError("usage: truncate [-c] -s SIZE FILE...")
    size = parse_size(options.value("s"))
    for name in options.operands:
        if "c" in options and not proc.fs.exists(proc.path(name)):
            continue
        handle = proc.fs.open(proc.path(name), write=True, create=True)
        if not isinstance(handle, Device):
            handle.truncate(size)
    return 0


_SMALL = {
    "c": 1,
    "w": 2,
    "b": 512,
    "k": 1 << 10,
    "K": 1 << 10,
    "kB": 1000,
    "KB": 1000,
    "M": 1 << 20,
    "MB": 10**6,
}
_SUFFIXES = _SMALL | {"G": 1 << 30, "GB": 10**9, "": 1}


def parse_size(text: str) -> int:
    """A number with a unit, as ``dd`` and ``head`` take it. Raises ``UsageError``."""
    digits = text.rstrip("cwbkKMGB")
    factor = _SUFFIXES.get(text[len(digits) :])
    if not (digits.isascii() and digits.isdigit()) or factor is None:
        raise UsageError(f"invalid number '{text}'")
    return int(digits) * factor


@applet
async def dd(proc: Proc) -> int:
    settings: dict[str, str] = {}
    for word in proc.args:
        name, equals, value = word.partition("=")
        if not equals or name not in (
            "if",
            "of",
            "bs",
            "ibs",
            "obs",
            "count",
            "skip",
            "seek",
            "conv",
            "status",
        ):
            raise UsageError(f"unknown operand '{word}'")
        settings[name] = value
    block = parse_size(settings.get("bs") or settings.get("ibs") or "512")
    if not 0 < block <= 1 << 24:
        raise UsageError(f"invalid block size {block}")
    count = parse_size(settings["count"]) if "count" in settings else None
    keep = "notrunc" in settings.get("conv", "")
    if "if" in settings:
        proc.set_fd(0, _dd_open(proc, settings["if"], write=False, keep=keep))
    if "of" in settings:
        proc.set_fd(1, _dd_open(proc, settings["of"], write=True, keep=keep))
    await _dd_move(proc, block, parse_size(settings.get("skip", "0")), parse_size(settings.get("seek", "0")))
    total, full, partial = 0, 0, 0
    while count is None or full + partial < count:
        data = b""
        while len(data) < block and (more := await proc.read(block - len(data))):
            data += more
            if "if" not in settings:
                break
        if not data:
            break
        await proc.step()
        await proc.write(data)
        total += len(data)
        full, partial = (full + 1, partial) if len(data) == block else (full, partial + 1)
    if settings.get("status") != "none":
        records = f"{full}+{partial} records"
        tail = "" if settings.get("status") == "noxfer" else f"{total} bytes copied\n"
        await proc.write(f"{records} in\n{records} out\n{tail}", fd=2)
    return 0


def _dd_open(proc: Proc, name: str, *, write: bool, keep: bool) -> OpenFile:
    try:
        if write:
            return proc.open(name, write=True, create=True, truncate=not keep)
        return proc.open(name)
    except OSError as problem:
        raise UsageError(f"can't open '{name}': {reason(problem)}") from None


async def _dd_move(proc: Proc, block: int, skip: int, seek: int) -> None:
    for _ in range(skip):
        if not await proc.read(block):
            break
    target = proc.fds.get(1)
    if seek and isinstance(target, RegularFile):
        target.offset = seek * block


async def sync(proc: Proc) -> int:
    return 0


@applet
async def mkfifo(proc: Proc) -> int:
    raise UsageError("named pipes are not emulated")


@applet
async def mount(proc: Proc) -> int:
    if not proc.args:
        await proc.write(proc.fs.read("/proc/mounts"))
        return 0
    raise UsageError("permission denied (are you root?)")
