"""The folder of failures: a case file each, tried before anything new is drawn.

A file's name is the broken invariant and a digest of the case, so that the same failure is kept once.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from attrs import evolve, frozen

from kubelet_emu.errors import CallerError, Problem
from kubelet_emu.fuzz.campaign import Found
from kubelet_emu.sim.case import Case, case_from_json, case_to_yaml

__all__ = ["Corpus", "Kept"]

FILES_MAX = 1_000
"""Most files that are tried."""
DIGEST_LENGTH = 8


@frozen
class Kept:
    """A case of the corpus, and the file it is in."""

    path: Path
    case: Case


@frozen
class Corpus:
    """The folder. It is made when the first failure is kept."""

    folder: Path

    def __iter__(self) -> Iterator[Kept]:
        """All kept cases, by name. Raises ``CallerError`` for a file that is no case."""
        if not self.folder.exists():
            return
        try:
            names = sorted(path for path in self.folder.iterdir() if path.suffix == ".yaml")
        except OSError as error:
            raise CallerError([Problem(f"cannot be read: {error.strerror}", file=str(self.folder))]) from None
        for path in names[:FILES_MAX]:
            yield Kept(path, read_case(path))

    def keep(self, found: Found) -> Path:
        """Write a failure down; gives back its file. Raises ``CallerError`` if that cannot be done."""
        text = case_to_yaml(found.case)
        # The same failure found under a bug switch or without is the same story.
        story = case_to_yaml(evolve(found.case, bugs=(), fixes=()))
        digest = hashlib.sha256(story.encode()).hexdigest()[:DIGEST_LENGTH]
        path = self.folder / f"{found.invariant}-{digest}.yaml"
        comment = "".join(f"# {line}\n" for line in f"{found.invariant}: {found.text}".splitlines())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(comment + text, encoding="utf-8")
        except OSError as error:
            raise CallerError([Problem(f"cannot be written: {error.strerror}", file=str(path))]) from None
        return path


def read_case(path: Path) -> Case:
    """The case in a file. Raises ``CallerError``."""
    import yaml

    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        content: Any = cast("Any", yaml).load(path.read_text(encoding="utf-8"), Loader=loader)
    except OSError as error:
        raise CallerError([Problem(f"cannot be read: {error.strerror}", file=str(path))]) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise CallerError([Problem("is no YAML", file=str(path))]) from None
    return case_from_json(content, file=str(path))
