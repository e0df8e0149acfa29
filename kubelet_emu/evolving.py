"""A changed copy of a frozen value. (pure)

As ``attrs.evolve``, which looks the fields of the class up anew each time; a node changes values thousands of
times a second.
"""

from typing import TypeVar

from attrs import AttrsInstance, fields

__all__ = ["evolve"]

T = TypeVar("T", bound=AttrsInstance)

_names: dict[type, tuple[tuple[str, str], ...]] = {}


def evolve(value: T, **changes: object) -> T:
    """The value with these fields, the others as they are. Raises ``TypeError`` for a field it has not."""
    cls = type(value)
    names = _names.get(cls)
    if names is None:
        found = tuple((each.name, each.alias or each.name) for each in fields(cls) if each.init)
        names = _names[cls] = found
    for name, given in names:
        if given not in changes:
            changes[given] = getattr(value, name)
    return cls(**changes)
