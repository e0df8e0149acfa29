"""An ordered store of frozen values by id, with lookup by unique prefix, and the register of names (pure).

Values change through ``update`` only, which swaps the whole value. ``values`` is in the order of addition.
"""

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from cri_fake.store.faults import Kind, Refused

__all__ = ["Names", "Store", "resolve_prefix"]


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


Value = TypeVar("Value", bound=_HasId)


def resolve_prefix(prefix: str, ids: Iterator[str]) -> str | None:
    """The one id that starts with ``prefix``; None if there is none (CRI-011).

    Raises:
        Refused: the prefix is empty, or two ids start with it.
    """
    if not prefix:
        raise Refused(Kind.UNKNOWN, "prefix can't be empty", rule="CRI-011")
    found: str | None = None
    for candidate in ids:
        if candidate.startswith(prefix):
            if found is not None:
                raise Refused(
                    Kind.UNKNOWN, f"Multiple IDs found with provided prefix: {prefix}", rule="CRI-011"
                )
            found = candidate
    return found


class Store(Generic[Value]):
    """Values by id. Iteration and ``values`` give them in the order in which they were added."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._listed: tuple[Value, ...] | None = ()
        self.watch: Callable[[str, Value | None], None] | None = None
        """Told of every change: the id, and the new value or None."""

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, exact_id: str) -> bool:
        return exact_id in self._values

    @property
    def values(self) -> tuple[Value, ...]:
        """All values; the very same tuple for as long as none is added, replaced or removed."""
        if self._listed is None:
            self._listed = tuple(self._values.values())
        return self._listed

    def add(self, value: Value) -> None:
        """Make a value visible. Ids are random; a second use of one is a fault of this program."""
        assert value.id not in self._values, f"id {value.id} is taken"
        self._listed = None
        self._values[value.id] = value
        if self.watch is not None:
            self.watch(value.id, value)

    def find(self, prefix: str) -> Value | None:
        """The value whose id is, or uniquely starts with, ``prefix``; None if there is none.

        Raises:
            Refused: the prefix is empty or ambiguous (CRI-011).
        """
        exact = self._values.get(prefix)
        if exact is not None:
            return exact
        found = resolve_prefix(prefix, iter(self._values))
        return None if found is None else self._values[found]

    def get(self, exact_id: str) -> Value | None:
        """The value with exactly this id, or None."""
        return self._values.get(exact_id)

    def update(self, exact_id: str, change: Callable[[Value], Value]) -> Value:
        """Replace a value by what ``change`` makes of it; returns the new one. KeyError if it is gone."""
        new = change(self._values[exact_id])
        assert new.id == exact_id
        self._listed = None
        self._values[exact_id] = new
        if self.watch is not None:
            self.watch(exact_id, new)
        return new

    def remove(self, exact_id: str) -> bool:
        """Forget a value; False if it was gone already."""
        self._listed = None
        found = self._values.pop(exact_id, None) is not None
        if found and self.watch is not None:
            self.watch(exact_id, None)
        return found


class Names:
    """Names that are taken, each by one id, from before creation until after removal (CRI-012, CRI-014)."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._owner)

    def owner(self, name: str) -> str | None:
        return self._owner.get(name)

    def reserve(self, name: str, owner_id: str) -> None:
        """Take a name.

        Raises:
            Refused: another id holds it; the text is containerd's (CRI-013).
        """
        holder = self._owner.get(name)
        if holder is not None and holder != owner_id:
            raise Refused(Kind.UNKNOWN, f'name "{name}" is reserved for "{holder}"', rule="CRI-013")
        self._owner[name] = owner_id

    def release(self, name: str) -> None:
        """Give a name back; a name that nobody holds is left alone."""
        self._owner.pop(name, None)
