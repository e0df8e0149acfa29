"""A YAML or JSON text as a document whose every value knows its line, with plain scalars as JSON has them.

Beside the value it collects what is wrong, so that a person gets every problem at once.
"""

import re
from typing import cast

import yaml

from kubelet_emu.errors import Problem

__all__ = ["Document", "shown"]


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Plain scalars as JSON has them: no dates, no yes and no."""


_Loader.yaml_implicit_resolvers = {
    first: [
        pair for pair in pairs if pair[0] not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
    ]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


class Document:
    """The parsed text, the line of every path in it, and the problems found."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._lines: dict[str, int] = {}
        self.value: object = None
        loader = _Loader(text)
        try:
            node = cast("yaml.Node | None", loader.get_single_node())  # pyright: ignore[reportUnknownMemberType]
            if node is None:
                self.problem("the file is empty", hint="see docs/scenarios.md for what a scenario holds")
                return
            self._walk(node, "", 0)
            self.value = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType]
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = getattr(error, "problem", None) or str(error)
            self.problems.append(Problem(f"not YAML: {what}", file=file, line=mark.line + 1 if mark else 0))
        except RecursionError:
            self.problem("nested too deeply")
        except ValueError as error:
            self.problem(f"not YAML: {error}")
        finally:
            loader.dispose()  # pyright: ignore[reportUnknownMemberType]

    def _walk(self, node: yaml.Node, path: str, depth: int) -> None:
        if depth > 60:
            raise RecursionError
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                name = str(key.value)
                inner = f"{path}.{name}" if path else name
                self._lines[inner] = key.start_mark.line + 1
                if name in seen:
                    self.problem(f"key {name!r} stands here twice", inner)
                seen.add(name)
                self._walk(value, inner, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(cast("list[yaml.Node]", node.value)):
                self._walk(value, f"{path}[{index}]", depth + 1)

    def problem(self, message: str, path: str = "", *, hint: str = "") -> None:
        line = self._lines.get(path, 0)
        self.problems.append(Problem(message, path, self.file, line, hint))

    def typed(self, value: object, path: str, kind: type | tuple[type, ...], what: str) -> bool:
        """Whether the value is of that type; a boolean is no number. Notes a problem if not."""
        if isinstance(value, bool) and bool not in (kind if isinstance(kind, tuple) else (kind,)):
            ok = False
        else:
            ok = isinstance(value, kind)
        if not ok:
            self.problem(f"must be {what}, not {shown(value)}", path)
        return ok


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
