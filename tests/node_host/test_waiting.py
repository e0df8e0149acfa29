"""Sleeping and waiting for a bell by alarms; under a foreign clock by trio's own means."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import trio
import trio.testing

from node_host.loop import Pace, current_alarms, run
from node_host.waiting import Bell, sleep_until

T = TypeVar("T")


def in_both_clocks(body: Callable[[], Awaitable[T]]) -> T:
    """What ``body`` gives under the virtual clock, after a look that trio's own clock gives the same."""
    ours = run(body, seed=1)
    assert trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0)) == ours
    return ours


def test_sleep_ends_at_the_deadline_and_a_past_one_is_a_checkpoint() -> None:
    async def body() -> float:
        begin = trio.current_time()
        await sleep_until(begin + 7.5, current_alarms())
        with trio.testing.assert_checkpoints():
            await sleep_until(begin - 1.0, current_alarms())
        return trio.current_time() - begin

    assert in_both_clocks(body) == 7.5


def test_a_cancelled_sleep_leaves_no_alarm() -> None:
    async def body() -> float:
        begin = trio.current_time()
        with trio.move_on_after(3.0) as scope:
            await sleep_until(begin + 100.0, current_alarms())
        assert scope.cancelled_caught
        assert not len(current_alarms() or ())
        return trio.current_time() - begin

    assert in_both_clocks(body) == 3.0


def test_real_time_wakes_sleepers() -> None:
    async def body() -> float:
        await sleep_until(2.0, current_alarms())
        return trio.current_time()

    assert run(body, seed=1, pace=Pace.REAL, rate=50.0) >= 2.0


@pytest.mark.parametrize(("rings_after", "expected"), [(2.0, (True, 2.0)), (9.0, (False, 5.0))])
def test_a_bell_until_a_deadline(rings_after: float, expected: tuple[bool, float]) -> None:
    async def body() -> tuple[bool, float]:
        begin = trio.current_time()
        bell = Bell(current_alarms())

        async def ringer() -> None:
            await trio.sleep(rings_after)
            bell.ring()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ringer)
            rung = await bell.wait_until(begin + 5.0)
            took = trio.current_time() - begin
        return rung, took

    assert in_both_clocks(body) == expected


def test_a_bell_rings_until_it_is_cleared() -> None:
    async def body() -> tuple[bool, bool, float]:
        bell = Bell(current_alarms())
        bell.ring()
        bell.ring()
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await bell.wait()
            with trio.testing.assert_checkpoints():
                assert await bell.wait_until(trio.current_time() + 5.0)
        bell.clear()
        begin = trio.current_time()
        rung = await bell.wait_until(begin + 5.0)
        return rung, bell.rung, trio.current_time() - begin

    assert in_both_clocks(body) == (False, False, 5.0)


def test_one_task_at_a_time_waits_for_a_bell() -> None:
    async def body() -> None:
        bell = Bell(current_alarms())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bell.wait)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError):
                await bell.wait_until(trio.current_time() + 1.0)
            bell.ring()

    in_both_clocks(body)


def test_a_cancelled_wait_leaves_the_bell_for_the_next() -> None:
    async def body() -> None:
        bell = Bell(current_alarms())
        with trio.move_on_after(1.0):
            await bell.wait_until(trio.current_time() + 50.0)
        with trio.move_on_after(1.0):
            await bell.wait()
        bell.ring()
        assert await bell.wait_until(trio.current_time() + 50.0)
        assert not len(current_alarms() or ())

    in_both_clocks(body)
