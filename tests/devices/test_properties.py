"""What holds for every request and every text."""

import contextlib
import json
import string

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.model import Device, Model, Preference, Refused
from devices.presets import PRESETS, preset
from devices.profile import parse_profile
from devices.setup import DeviceProblem, HealthChange, parse_failure

SETTINGS = settings(max_examples=60, deadline=None)


@st.composite
def requests(draw):
    """A model, what is on offer, what must be in, and how many are wanted."""
    nodes = st.none() | st.lists(st.integers(0, 9), max_size=2, unique=True).map(tuple)
    replicas = draw(st.integers(1, 3))
    physical = draw(st.lists(nodes, min_size=1, max_size=10))
    devices = tuple(
        Device(f"d{index}::{replica}" if replicas > 1 else f"d{index}", where)
        for index, where in enumerate(physical)
        for replica in range(replicas)
    )
    model = Model(
        resource="v.com/w", devices=devices, socket="s", preference=draw(st.sampled_from(list(Preference)))
    )
    names = [device.id for device in devices] + ["unknown"]
    available = draw(st.lists(st.sampled_from(names), unique=True))
    must = draw(st.lists(st.sampled_from(available), unique=True)) if available else []
    return model, available, must, draw(st.integers(0, len(names) + 1))


@SETTINGS
@given(requests())
def test_preferred_devices_are_on_offer_and_hold_what_must_be_in(request):
    model, available, must, size = request
    answer = model.prefer(available, must, size)
    assert list(answer[: len(must)]) == must
    assert len(set(answer)) == len(answer)
    assert set(answer) <= set(available) | set(must)
    # Never short while there is more, and never more than wanted beyond what must be in.
    assert len(answer) == max(len(must), min(size, len(set(available) | set(must))))
    assert answer == model.prefer(list(reversed(available)), must, size)


@SETTINGS
@given(requests())
def test_topology_never_takes_more_nodes_than_the_lowest_ids_do(request):
    model, available, must, size = request
    nodes = {device.id: device.numa_nodes or () for device in model.devices}

    def needed(answer):
        """Nodes without which a device of the answer has no place."""
        return len({nodes[name][0] for name in answer if len(nodes.get(name, ())) == 1})

    single = [name for name in available if len(nodes.get(name, ())) == 1]
    must = [name for name in must if name in single]
    best = evolve(model, preference=Preference.TOPOLOGY).prefer(single, must, size)
    lowest = evolve(model, preference=Preference.LOWEST).prefer(single, must, size)
    assert needed(best) <= needed(lowest)


@SETTINGS
@given(st.sampled_from(sorted(PRESETS)), st.data())
def test_presets_answer_or_refuse(name, data):
    for setup in preset(name):
        ids = [device.id for device in setup.model.devices]
        asked = data.draw(st.lists(st.sampled_from([*ids, "x"]), max_size=9))
        first, second = (attempt(setup.model, asked) for _ in range(2))
        assert first == second


def attempt(model, asked):
    try:
        return model.allocate(asked, serial=0)
    except Refused as refused:
        return refused.text


KEYS = ["plugins", "resource", "ids", "count", "id", "topology", "numa", "nodes", "shared", "env", "mounts"]
MORE_KEYS = ["preset", "model", "failAt", "faults", "mig"]
TEXTS = ["nvidia", "tpu", "generic", "a100x8", "vendor.com/w", "#0@3s", "1g.5gb", "true", "3", "-1", "null"]
WORDS = st.sampled_from([*KEYS, *MORE_KEYS, *TEXTS])
VALUES = st.recursive(
    WORDS | st.integers(-3, 99) | st.none() | st.booleans() | st.text(string.printable, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_any_profile_is_read_or_refused(value):
    with contextlib.suppress(DeviceProblem):
        parse_profile(json.dumps(value))


@SETTINGS
@given(st.text(max_size=30))
def test_any_text_is_a_profile_a_failure_or_refused(text):
    for read in (parse_profile, parse_failure):
        try:
            for found in read(text):
                assert not isinstance(found, HealthChange) or found.at_seconds >= 0
        except DeviceProblem:
            pass
