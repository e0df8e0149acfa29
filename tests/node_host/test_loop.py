"""Virtual time and the seeded order of tasks."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import trio
import trio.testing
from trio._core import _run

from node_host.clock import DEFAULT_EPOCH_NS, NodeClock
from node_host.loop import Pace, RealClock, VirtualClock, current_virtual_clock, run

PROTO = Path(__file__).parents[2] / "proto"

INTERLEAVING = """
import json, sys, trio
from node_host.loop import run

async def main():
    seen = []
    async def worker(name):
        for step in range(4):
            seen.append(f"{name}{step}")
            await trio.sleep(1 if step % 2 else 0)
    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(worker, name)
    return seen

print(json.dumps(run(main, seed=int(sys.argv[1]))))
"""


def interleaving_in_process(seed, hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(PROTO)}
    command = [sys.executable, "-c", INTERLEAVING, str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True, timeout=60)
    return json.loads(done.stdout)


async def interleaving():
    seen = []

    async def worker(name):
        for step in range(4):
            seen.append(f"{name}{step}")
            await trio.sleep(1 if step % 2 else 0)

    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(worker, name)
    return seen


def test_one_seed_one_interleaving_across_processes_and_hash_seeds():
    here = run(interleaving, seed=7)
    assert here == interleaving_in_process(7, 1) == interleaving_in_process(7, 2)
    assert here == run(interleaving, seed=7)


def test_other_seeds_give_other_interleavings():
    assert len({tuple(run(interleaving, seed=seed)) for seed in range(10)}) > 5


def test_trio_is_left_as_it_was_found():
    before = (_run._r, _run._r.getstate(), _run._ALLOW_DETERMINISTIC_SCHEDULING)

    async def fail():
        assert _run._ALLOW_DETERMINISTIC_SCHEDULING
        raise LookupError("on purpose")

    with pytest.raises(LookupError):
        run(fail, seed=1)
    assert (_run._r, _run._r.getstate(), _run._ALLOW_DETERMINISTIC_SCHEDULING) == before


def test_runs_in_two_threads_keep_their_own_order():
    alone = {seed: run(interleaving, seed=seed) for seed in (1, 2)}
    together = {}
    barrier = threading.Barrier(2)

    def body(seed):
        barrier.wait()
        for _ in range(20):
            together.setdefault(seed, []).append(run(interleaving, seed=seed))

    threads = [threading.Thread(target=body, args=(seed,)) for seed in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == {seed: [order] * 20 for seed, order in alone.items()}


def test_virtual_time_jumps_to_each_deadline_exactly():
    async def main():
        clock = NodeClock()
        times = []
        for seconds in (0.1, 0.2, 300.0, 1e-9, 86400.0 * 365):
            await clock.sleep(seconds)
            times.append(clock.elapsed_seconds())
        return times

    started = time.perf_counter()
    times = run(main, seed=0)
    assert time.perf_counter() - started < 2.0
    total = 0.0
    for seconds, seen in zip((0.1, 0.2, 300.0, 1e-9, 86400.0 * 365), times, strict=True):
        total += seconds
        assert seen == total


def test_timers_due_together_fire_in_the_order_of_setting():
    """The scopes are cancelled in that order, seen here through the abort functions of the sleeping tasks."""

    async def main():
        aborted = []

        async def blocked(name):
            def abort(_):
                aborted.append(name)
                return trio.lowlevel.Abort.SUCCEEDED

            with trio.move_on_at(5.0):
                await trio.lowlevel.wait_task_rescheduled(abort)

        async with trio.open_nursery() as nursery:
            for name in range(50):
                nursery.start_soon(blocked, name)
                await trio.testing.wait_all_tasks_blocked()
        return aborted

    assert run(main, seed=3) == list(range(50))


def test_no_jump_while_held_and_none_lost_after():
    async def main():
        clock = current_virtual_clock()
        assert clock is not None
        token = trio.lowlevel.current_trio_token()
        seen = []

        def receive():
            seen.append(trio.current_time())
            clock.release()

        def wire():
            time.sleep(0.05)
            token.run_sync_soon(receive)

        clock.hold()
        thread = threading.Thread(target=wire)
        thread.start()
        await trio.sleep(60)
        seen.append(trio.current_time())
        thread.join()
        assert clock.holds == 0
        with pytest.raises(RuntimeError):
            clock.release()
        return seen

    assert run(main, seed=0) == [0.0, 60.0]


def test_held_loop_sleeps_instead_of_spinning():
    async def main():
        clock = current_virtual_clock()
        token = trio.lowlevel.current_trio_token()
        clock.hold()
        threading.Timer(0.2, token.run_sync_soon, args=(clock.release,)).start()
        await trio.sleep(1)

    before = time.process_time()
    run(main, seed=0)
    assert time.process_time() - before < 0.1


def test_no_jump_before_a_descriptor_that_became_ready_is_served():
    async def main():
        ours, theirs = trio.socket.socketpair()
        seen = []

        async def reader():
            await ours.recv(1)
            seen.append(("read", trio.current_time()))

        async def sleeper():
            await trio.testing.wait_all_tasks_blocked()
            os.write(theirs.fileno(), b"x")
            await trio.sleep(10)
            seen.append(("slept", trio.current_time()))

        with ours, theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader)
                nursery.start_soon(sleeper)
        return seen

    for seed in range(10):
        assert run(main, seed=seed) == [("read", 0.0), ("slept", 10.0)]


def test_a_quiet_descriptor_does_not_stop_time():
    async def main():
        ours, theirs = trio.socket.socketpair()
        with ours, theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.recv, 1)
                for seconds in (1, 10, 100):
                    await trio.sleep(seconds)
                nursery.cancel_scope.cancel()
        return trio.current_time()

    assert run(main, seed=0) == 111.0


def test_no_jump_before_a_ready_socket_is_served():
    async def main():
        ours, theirs = trio.socket.socketpair()
        seen = []

        async def reader():
            await ours.recv(1)
            seen.append(("read", trio.current_time()))

        async def sleeper():
            await trio.sleep(10)
            seen.append(("slept", trio.current_time()))

        with ours, theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader)
                nursery.start_soon(sleeper)
                await theirs.send(b"x")
        return seen

    for seed in range(10):
        assert run(main, seed=seed) == [("read", 0.0), ("slept", 10.0)]


def test_waiting_until_all_is_blocked_comes_before_a_jump():
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            await trio.testing.wait_all_tasks_blocked()
            return trio.current_time()

    assert run(main, seed=0) == 0.0


def test_with_nothing_to_wait_for_the_run_waits_for_the_outside():
    async def main():
        event = trio.Event()
        token = trio.lowlevel.current_trio_token()
        threading.Timer(0.05, token.run_sync_soon, args=(event.set,)).start()
        await event.wait()
        return trio.current_time()

    assert run(main, seed=0) == 0.0


def test_real_pace_follows_the_machine_at_a_rate():
    async def main():
        assert current_virtual_clock() is None
        started = trio.current_time()
        await trio.sleep(2.0)
        return trio.current_time() - started

    started = time.perf_counter()
    elapsed = run(main, seed=0, pace=Pace.REAL, rate=20.0)
    assert 0.1 <= time.perf_counter() - started < 1.5
    assert elapsed >= 2.0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_rate_must_be_positive(rate):
    with pytest.raises(ValueError, match="positive"):
        RealClock(rate)


def test_virtual_time_has_no_rate():
    with pytest.raises(ValueError, match="real pace"):
        run(interleaving, seed=0, rate=2.0)


def test_clock_jump_moves_the_time_of_day_only():
    async def main():
        clock = NodeClock()
        await clock.sleep(1.5)
        before = (clock.elapsed_seconds(), clock.now_ns())
        clock.jump_ns(-3_600_000_000_000)
        after = (clock.elapsed_seconds(), clock.now_ns())
        await clock.sleep_until(2.0)
        return before, after, clock.elapsed_seconds(), clock.epoch_ns

    before, after, late, epoch = run(main, seed=0)
    assert before == (1.5, DEFAULT_EPOCH_NS + 1_500_000_000)
    assert after == (1.5, DEFAULT_EPOCH_NS + 1_500_000_000 - 3_600_000_000_000)
    assert (late, epoch) == (2.0, DEFAULT_EPOCH_NS)


def test_virtual_clock_jumps_fast():
    """Ten thousand timers in well under a second."""

    async def main():
        for _ in range(10_000):
            await trio.sleep(1)
        return trio.current_time()

    started = time.perf_counter()
    assert run(main, seed=0) == 10_000.0
    assert time.perf_counter() - started < 3.0
    assert isinstance(VirtualClock(), trio.abc.Clock)
