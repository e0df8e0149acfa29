"""Alarms by themselves, and rung by both clocks."""

import math

import trio
import trio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from node_host.alarms import Alarms
from node_host.loop import Pace, current_alarms, run


def test_order_and_ties():
    alarms, rung = Alarms(), []
    for name, deadline in (("b", 2.0), ("a", 1.0), ("c", 2.0), ("d", 3.0)):
        alarms.at(deadline, lambda name=name: rung.append(name))
    assert alarms.next_deadline(math.inf) == 1.0
    assert alarms.next_deadline(0.5) == 0.5
    alarms.ring(2.0)
    assert rung == ["a", "b", "c"]
    assert len(alarms) == 1


def test_cancelled_never_rings_and_is_thrown_out():
    alarms, rung = Alarms(), []
    alarm = alarms.at(1.0, lambda: rung.append(1))
    alarm.cancel()
    alarm.cancel()
    assert alarms.next_deadline(math.inf) == math.inf
    kept = alarms.at(5.0, lambda: rung.append(5))
    for _ in range(10_000):
        alarms.at(120.0, lambda: rung.append("never")).cancel()
    assert len(alarms) == 1
    assert len(alarms._heap) < 3000
    alarms.ring(200.0)
    kept.cancel()
    assert rung == [5]
    assert len(alarms) == 0


@given(st.lists(st.tuples(st.sampled_from(["at", "cancel", "ring"]), st.integers(0, 9)), max_size=40))
def test_against_a_plain_list(steps):
    alarms, rung, expected, made, model = Alarms(), [], [], [], []
    for number, (what, value) in enumerate(steps):
        if what == "at":
            made.append((alarms.at(float(value), lambda number=number: rung.append(number)), number))
            model.append((value, number))
        elif what == "cancel" and made:
            alarm, name = made[value % len(made)]
            alarm.cancel()
            model = [one for one in model if one[1] != name]
        elif what == "ring":
            expected += [name for _, name in sorted(one for one in model if one[0] <= value)]
            model = [one for one in model if one[0] > value]
            alarms.ring(float(value))
        assert alarms.next_deadline(math.inf) == min((float(one[0]) for one in model), default=math.inf)
        assert len(alarms) == len(model)
    assert rung == expected


async def woken_at(seconds):
    event = trio.Event()
    alarms = current_alarms()
    alarms.at(trio.current_time() + seconds, event.set)
    cancelled = alarms.at(trio.current_time() + seconds / 2, lambda: 1 / 0)
    cancelled.cancel()
    await event.wait()
    return trio.current_time()


def test_virtual_clock_jumps_to_alarms():
    assert run(woken_at, 90.0, seed=0) == 90.0


def test_virtual_clock_rings_between_deadlines():
    async def main():
        seen = []
        current_alarms().at(5.0, lambda: seen.append(trio.current_time()))
        current_alarms().at(7.0, lambda: seen.append(trio.current_time()))
        for seconds in (4.0, 2.0, 1.0, 1.0):
            await trio.sleep(seconds)
            seen.append(("slept", trio.current_time()))
        return seen

    assert run(main, seed=0) == [("slept", 4.0), 5.0, ("slept", 6.0), 7.0, ("slept", 7.0), ("slept", 8.0)]


def test_an_alarm_in_the_past_rings_at_once():
    assert run(woken_at, -1.0, seed=0) == 0.0


def test_real_clock_rings():
    assert run(woken_at, 2.0, seed=0, pace=Pace.REAL, rate=40.0) >= 2.0


def test_real_clock_rings_in_a_busy_loop():
    async def main():
        rung = []
        current_alarms().at(trio.current_time() + 0.02, lambda: rung.append(1))
        while not rung:
            await trio.lowlevel.checkpoint()

    run(main, seed=0, pace=Pace.REAL)


def test_foreign_clocks_have_none():
    async def main():
        return current_alarms()

    assert trio.run(main) is None
