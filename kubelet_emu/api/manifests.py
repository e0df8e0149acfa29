"""Files, folders and standard input to API objects, as ``kubectl -f`` takes them.

The only module of this package that touches files. A folder is read one level deep, files with the endings
.json, .yaml and .yml, sorted by name. All problems of all files are collected; nothing here raises for bad
input. API-170, API-180 to API-186.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

from attrs import evolve

from kubelet_emu.api.objects import LoadedInput, LoadedObject, objects_of
from kubelet_emu.api.yaml_source import parse_documents
from kubelet_emu.errors import Problem

__all__ = ["MAX_FILE_BYTES", "MAX_PROBLEMS", "LoadedInput", "LoadedObject", "Readable", "load", "load_text"]

MAX_FILE_BYTES: Final = 3 * 1024 * 1024
"""Most bytes one file may have: the API server's limit on a request (API-186)."""
MAX_FILES: Final = 1000
"""Most files one folder may hold."""
MAX_PROBLEMS: Final = 500
"""Most problems one call of ``load`` returns."""

_ENDINGS = (".json", ".yaml", ".yml")


class Readable(Protocol):
    """Standard input, or anything else that bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


def load_text(text: str, *, file: str = "-") -> LoadedInput:
    """The objects of one text; ``file`` is the name that problems show."""
    objects: list[LoadedObject] = []
    problems: list[Problem] = []
    documents = parse_documents(text)
    if not documents:
        problems.append(Problem("no objects in the file", file=file, hint="it is empty or has comments only"))
    for document in documents:
        for found in objects_of(document, file):
            if isinstance(found, Problem):
                problems.append(found)
            else:
                objects.append(found)
    return LoadedInput(tuple(objects), tuple(problems))


def _not_text(data: bytes) -> str:
    if data[:2] in (b"\x1f\x8b", b"PK") or data[:4] == b"\x7fELF":
        return "a manifest is text; this looks like an archive or a program"
    return "a manifest is UTF-8 text"


def _load_bytes(data: bytes, file: str) -> LoadedInput:
    if len(data) > MAX_FILE_BYTES:
        message = f"the file is larger than {MAX_FILE_BYTES} bytes, the limit of the API server"
        return LoadedInput(problems=(Problem(message, file=file, hint="split it into several files"),))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"error converting YAML to JSON: yaml: line {line}: invalid UTF-8"
        return LoadedInput(problems=(Problem(message, file=file, line=line, hint=_not_text(data)),))
    return load_text(text, file=file)


def _load_file(path: Path, name: str) -> LoadedInput:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return LoadedInput(problems=(Problem(f"cannot be read: {error.strerror}", file=name),))
    return _load_bytes(data, name)


def _folder_files(path: Path, name: str) -> list[Path] | Problem:
    try:
        entries = sorted(entry for entry in path.iterdir() if entry.suffix in _ENDINGS and not entry.is_dir())
    except OSError as error:
        return Problem(f"cannot be read: {error.strerror}", file=name)
    if not entries:
        return Problem(
            "the folder has no manifests", file=name, hint=f"recognized file extensions are {list(_ENDINGS)}"
        )
    if len(entries) > MAX_FILES:
        return Problem(f"the folder has more than {MAX_FILES} manifests", file=name)
    return entries


def _missing(path: Path, name: str) -> Problem:
    from kubelet_emu.api.strict import nearest

    try:
        near = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        near = ""
    hint = f'did you mean "{path.parent / near}"?' if near else ""
    return Problem(f'the path "{name}" does not exist', hint=hint)


def _load_path(name: str, stdin: Readable | None) -> list[LoadedInput]:
    if name == "-":
        if stdin is None:
            return [LoadedInput(problems=(Problem("there is no standard input to read"),))]
        return [_load_bytes(_drain(stdin), "-")]
    if "://" in name:
        problem = Problem(f'the path "{name}" is a URL', hint="download it and give the file")
        return [LoadedInput(problems=(problem,))]
    path = Path(name)
    try:
        if path.is_dir():
            files = _folder_files(path, name)
            if isinstance(files, Problem):
                return [LoadedInput(problems=(files,))]
            return [_load_file(file, str(file)) for file in files]
        exists = path.exists()
    except (OSError, ValueError) as error:
        return [LoadedInput(problems=(Problem(f'the path "{name}" cannot be read: {error}'),))]
    return [_load_file(path, name) if exists else LoadedInput(problems=(_missing(path, name),))]


def _drain(stream: Readable) -> bytes:
    """Everything up to one byte more than a file may have; a pipe hands out less than asked for."""
    data = b""
    while len(data) <= MAX_FILE_BYTES:
        more = stream.read(MAX_FILE_BYTES + 1 - len(data))
        if not more:
            break
        data += more
    return data


def _duplicates(objects: Sequence[LoadedObject]) -> Iterable[Problem]:
    """The same object twice in one input, which an API server would refuse with AlreadyExists."""
    seen: dict[tuple[str, str, str], LoadedObject] = {}
    for loaded in objects:
        metadata = cast("Mapping[str, Any]", loaded.json.get("metadata") or {})
        name = str(metadata.get("name") or "")
        key = (loaded.kind, str(metadata.get("namespace") or ""), name)
        first = seen.setdefault(key, loaded)
        if name and first is not loaded:
            problem = loaded.source.place(
                Problem(f'{loaded.kind.lower()}s "{name}" already exists', path="metadata.name")
            )
            where = first.source.place(Problem("", path="metadata.name"))
            yield evolve(problem, hint=f"the first one is at {where.file}:{where.line}")


def load(paths: Sequence[str | Path], *, stdin: Readable | None = None) -> LoadedInput:
    """The objects of all given files, folders and, for ``-``, of standard input.

    Decoding is strict (API-180). Never raises for bad input: see ``LoadedInput.problems``; objects without
    problems are there even when others have some.
    """
    objects: list[LoadedObject] = []
    problems: list[Problem] = []
    if not paths:
        problems.append(Problem("no files given", hint="name a file or a folder, or - for standard input"))
    for name in dict.fromkeys(str(path) for path in paths):
        for part in _load_path(name, stdin):
            objects += part.objects
            problems += part.problems
    problems += _duplicates(objects)
    return LoadedInput(tuple(objects), tuple(problems[:MAX_PROBLEMS]))
