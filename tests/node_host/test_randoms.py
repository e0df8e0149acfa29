"""Named streams and ids."""

import random
import uuid

from node_host.randoms import Randoms, new_id, new_uid


def test_streams_depend_on_seed_and_name_only():
    one, two = Randoms(1), Randoms(1)
    two.stream("other").random()
    assert one.stream("ids").random() == two.stream("ids").random()
    assert one.stream("ids").random() != Randoms(1).stream("ids").random()
    assert Randoms(1).stream("a").random() != Randoms(1).stream("b").random()
    assert Randoms(1).stream("a").random() != Randoms(2).stream("a").random()


def test_known_values_hold_across_versions():
    assert new_id(Randoms(0).stream("ids"), 8) == new_id(Randoms(0).stream("ids"), 8)
    assert Randoms(7).stream("ids").getrandbits(32) == 11855061


def test_ids():
    rng = random.Random(1)
    found = {new_id(rng) for _ in range(100)}
    assert len(found) == 100
    assert all(len(one) == 64 and set(one) <= set("0123456789abcdef") for one in found)
    for _ in range(100):
        uid = new_uid(rng)
        assert str(uuid.UUID(uid)) == uid
        assert uuid.UUID(uid).version == 4
        assert uuid.UUID(uid).variant == uuid.RFC_4122
