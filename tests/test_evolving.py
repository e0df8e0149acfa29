"""Changed copies of frozen values."""

import attrs
import pytest
from attrs import frozen

from kubelet_emu.evolving import evolve


@frozen(kw_only=True)
class Thing:
    name: str
    hidden: int = attrs.field(default=1, alias="secret")
    made: int = attrs.field(init=False, default=7)


def test_it_is_attrs_own_evolve() -> None:
    thing = Thing(name="a", secret=2)
    assert evolve(thing) == thing
    assert evolve(thing, name="b") == attrs.evolve(thing, name="b") == Thing(name="b", secret=2)
    assert evolve(thing, secret=3) == Thing(name="a", secret=3)
    assert thing == Thing(name="a", secret=2)


def test_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError):
        evolve(Thing(name="a"), colour="red")
