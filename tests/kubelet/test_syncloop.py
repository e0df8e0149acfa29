"""POD-101 to POD-108: one event at a time, no order among channels, nothing while the runtime is ill."""

import itertools
import random

import pytest
import trio

from kubelet_emu.syncloop import CHANNEL_CAPACITY, Channel, SyncLoop
from node_host.clock import NodeClock
from node_host.loop import run


class Bench:
    """A loop whose handlers note what they got."""

    def __init__(self, *, seed=0, takes_seconds=0.0, housekeeping=2.0):
        self.clock = NodeClock()
        self.problem = ""
        self.got = []
        self.looked_at = []
        self.loop = SyncLoop(
            clock=self.clock,
            rng=random.Random(seed),
            healthy=self._healthy,
            handlers={channel: self._handler(channel, takes_seconds) for channel in Channel},
            housekeeping_period_seconds=housekeeping,
        )

    def _healthy(self):
        self.looked_at.append(self.clock.elapsed_seconds())
        return self.problem

    def _handler(self, channel, takes_seconds):
        async def handle(event):
            self.got.append((round(self.clock.elapsed_seconds(), 3), channel.value, event))
            if takes_seconds:
                await self.clock.sleep(takes_seconds)

        return handle

    async def live(self, seconds):
        with trio.move_on_after(seconds):
            await self.loop.run()

    def events(self, *channels):
        return [(channel, event) for _, channel, event in self.got if channel in channels]


def on_bench(story, **options):
    async def main():
        return await story(Bench(**options))

    return run(main, seed=0)


def test_pod_103_ticks_come_every_second_and_every_two():
    async def story(bench):
        await bench.live(6.5)
        return bench.got

    got = on_bench(story)
    assert [at for at, channel, _ in got if channel == "sync-tick"] == [1, 2, 3, 4, 5, 6]
    assert [at for at, channel, _ in got if channel == "housekeeping-tick"] == [2, 4, 6]


def test_pod_103_events_of_one_channel_keep_their_order():
    async def story(bench):
        for number in range(5):
            bench.loop.offer(Channel.PLEG, number)
        await bench.live(0.5)
        return bench.events("pleg")

    assert on_bench(story) == [("pleg", number) for number in range(5)]


def test_pod_103_channels_that_are_ready_together_have_no_order():
    def first(seed):
        async def story(bench):
            bench.loop.offer(Channel.PLEG, "p")
            bench.loop.offer(Channel.CONFIG, "c")
            bench.loop.offer(Channel.READINESS, "r")
            await bench.live(0.5)
            return bench.got[0][1]

        return on_bench(story, seed=seed)

    assert {first(seed) for seed in range(30)} == {"pleg", "config", "readiness"}


def test_pod_103_one_event_at_a_time():
    async def story(bench):
        for number in range(3):
            bench.loop.offer(Channel.CONFIG, number)
        await bench.live(3.5)
        return [at for at, channel, _ in bench.got if channel == "config"]

    at = on_bench(story, takes_seconds=0.9)
    assert all(b - a >= 0.9 for a, b in itertools.pairwise(at))


def test_a_slow_handler_sees_fewer_ticks_never_a_burst():
    async def story(bench):
        bench.loop.offer(Channel.CONFIG, "slow")
        await bench.live(9.0)
        return [at for at, channel, _ in bench.got if channel == "sync-tick"]

    at = on_bench(story, takes_seconds=2.5)
    assert len(at) <= 3
    assert all(b - a >= 2.5 for a, b in itertools.pairwise(at))


def test_pod_101_while_ill_the_loop_sleeps_longer_and_longer_and_reads_nothing():
    async def story(bench):
        bench.problem = "PLEG is not healthy"
        bench.loop.offer(Channel.CONFIG, "waits")
        await bench.live(20.0)
        return bench.got, bench.looked_at

    got, looked_at = on_bench(story)
    assert got == []
    pauses = [round(b - a, 3) for a, b in itertools.pairwise(looked_at)]
    assert pauses[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_pod_101_one_healthy_look_resets_the_pause():
    async def story(bench):
        bench.problem = "ill"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.live, 30.0)
            await bench.clock.sleep(8.0)
            bench.problem = ""
            bench.loop.offer(Channel.CONFIG, 1)
            await bench.clock.sleep(6.0)
            bench.problem = "ill again"
            bench.looked_at.clear()
            await bench.clock.sleep(3.0)
        return bench.got, bench.looked_at

    got, looked_at = on_bench(story)
    assert any(channel == "config" for _, channel, _ in got)
    assert round(looked_at[1] - looked_at[0], 3) in (0.1, 0.2)


def test_a_full_channel_drops_and_counts():
    async def story(bench):
        taken = [bench.loop.offer(Channel.PLEG, number) for number in range(CHANNEL_CAPACITY + 3)]
        return taken.count(False), bench.loop.dropped, bench.loop.offer(Channel.CONFIG, 1)

    assert on_bench(story) == (3, 3, True)


def test_pod_108_a_loop_that_does_not_turn_is_stale():
    async def story(bench):
        bench.problem = "ill"
        with trio.move_on_after(299.0):
            await bench.loop.run()
        early = bench.loop.stale(60.0)
        await bench.clock.sleep(2.0)
        return early, bench.loop.stale(60.0), bench.loop.stale(200.0)

    assert on_bench(story) == (False, True, False)


@pytest.mark.parametrize("channel", list(Channel))
def test_every_channel_has_its_handler(channel):
    async def story(bench):
        bench.loop.offer(channel, "x")
        await bench.live(0.5)
        return bench.got

    assert on_bench(story) == [(0.0, channel.value, "x")]
