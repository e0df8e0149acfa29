"""The ordered store, id prefixes and the register of names."""

import pytest
from attrs import evolve, frozen

from cri_fake.store.faults import Kind, Refused
from cri_fake.store.table import Names, Store


@frozen
class Thing:
    id: str
    count: int = 0


@pytest.fixture
def store() -> Store[Thing]:
    made: Store[Thing] = Store()
    for each in ("abc1", "abd2", "xyz3"):
        made.add(Thing(each))
    return made


def test_values_are_in_order_of_addition(store: Store[Thing]) -> None:
    store.update("abc1", lambda old: evolve(old, count=4))
    assert [thing.id for thing in store.values] == ["abc1", "abd2", "xyz3"]
    assert store.values[0].count == 4


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        pytest.param("abc1", "abc1", id="CRI-011-exact"),
        pytest.param("abc", "abc1", id="CRI-011-unique"),
        pytest.param("x", "xyz3", id="CRI-011-short"),
        pytest.param("q", None, id="CRI-011-unknown"),
        pytest.param("abc12", None, id="CRI-011-longer-than-the-id"),
    ],
)
def test_prefix(store: Store[Thing], prefix: str, found: str | None) -> None:
    thing = store.find(prefix)
    assert (thing.id if thing else None) == found


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        pytest.param("ab", "Multiple IDs found with provided prefix: ab", id="CRI-011-ambiguous"),
        pytest.param("", "prefix can't be empty", id="CRI-011-empty"),
    ],
)
def test_bad_prefix(store: Store[Thing], prefix: str, text: str) -> None:
    with pytest.raises(Refused) as caught:
        store.find(prefix)
    assert (caught.value.kind, caught.value.text) == (Kind.UNKNOWN, text)


def test_an_id_that_is_a_prefix_of_another_is_found_exactly() -> None:
    store: Store[Thing] = Store()
    store.add(Thing("ab"))
    store.add(Thing("abc"))
    found = store.find("ab")
    assert found is not None
    assert found.id == "ab"


def test_names_CRI_013_CRI_014() -> None:
    names = Names()
    names.reserve("web_default_u_0", "id1")
    names.reserve("web_default_u_0", "id1")
    with pytest.raises(Refused) as caught:
        names.reserve("web_default_u_0", "id2")
    assert caught.value.text == 'name "web_default_u_0" is reserved for "id1"'
    names.release("web_default_u_0")
    names.release("web_default_u_0")
    names.reserve("web_default_u_0", "id2")
    assert names.owner("web_default_u_0") == "id2"
