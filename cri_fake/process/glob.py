"""Pathname expansion inside a container."""

from cri_fake.process.files import ContainerFiles
from cri_fake.process.shell.pattern import compile_pattern, has_magic, unescape

__all__ = ["glob"]

MAX_PATHS = 100_000


def glob(fs: ContainerFiles, pattern: str, cwd: str) -> list[str]:
    """The existing paths that match, sorted; names with a leading dot only where the pattern has it."""
    absolute = pattern.startswith("/")
    parts = pattern.split("/")
    if absolute:
        parts = parts[1:]
    found: list[str] = ["/" if absolute else ""]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "":
            if last:
                found = [f"{path}/" for path in found if fs.is_dir(_full(path, cwd))]
            continue
        grown: list[str] = []
        for path in found:
            if has_magic(part):
                grown.extend(_in_folder(fs, path, part, cwd))
            else:
                candidate = _under(path, unescape(part))
                if not last or _there(fs, _full(candidate, cwd)):
                    grown.append(candidate)
        found = grown[:MAX_PATHS]
    return sorted(path for path in found if path)


def _in_folder(fs: ContainerFiles, path: str, part: str, cwd: str) -> list[str]:
    regex = compile_pattern(part)
    hidden = part.startswith((".", "\\."))
    try:
        names = fs.list(_full(path or ".", cwd))
    except OSError:
        return []
    if hidden:
        names = [".", "..", *names]
    return [
        _under(path, name) for name in names if (hidden or not name.startswith(".")) and regex.fullmatch(name)
    ]


def _under(path: str, name: str) -> str:
    if not path:
        return name
    return f"{path}{name}" if path.endswith("/") else f"{path}/{name}"


def _full(path: str, cwd: str) -> str:
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"


def _there(fs: ContainerFiles, path: str) -> bool:
    try:
        fs.stat(path, follow=False)
    except OSError:
        return False
    return True
