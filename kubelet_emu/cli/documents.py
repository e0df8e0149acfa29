"""API objects as kubectl prints them with ``-o json`` and ``-o yaml``. (pure)"""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["json_text", "yaml_text"]

JSON_INDENT = 4


def json_text(document: Mapping[str, Any]) -> str:
    """JSON with sorted keys, without its last line end."""
    return json.dumps(document, indent=JSON_INDENT, sort_keys=True, ensure_ascii=False)


def yaml_text(document: Mapping[str, Any]) -> str:
    """YAML with sorted keys, texts of several lines as blocks, without its last line end."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # pyright: ignore[reportUntypedBaseClass]
        """Writes shared parts out each time instead of naming them."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)  # pyright: ignore[reportUnknownMemberType]
    dumped: str = yaml.dump(  # pyright: ignore[reportUnknownMemberType]
        dict(document), Dumper=Dumper, sort_keys=True, allow_unicode=True, width=1_000_000
    )
    return dumped.rstrip("\n")
