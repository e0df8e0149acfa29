"""The pod cache and the stamps that order its observations (POD-901, POD-902, POD-1315)."""

import pytest
import trio

from kubelet_emu.container.cache import PodCache
from kubelet_emu.container.runtime import RuntimePodStatus
from kubelet_emu.container.stamps import BEFORE_ALL, Stamps
from kubelet_emu.errors import PeerError
from node_host.loop import run

NOW = 100.0


def newer(cache, uid="u", after=NOW):
    """What get_newer_than gives at once; None if it waits."""

    async def ask():
        with trio.move_on_after(1):
            return await cache.get_newer_than(uid, after)
        return None

    return run(ask, seed=0)


@pytest.mark.parametrize(
    ("global_offset", "modified_offset", "found"),
    [(1, 0, True), (1, -10, True), (-1, 3, True), (-1, -1, False), (1, None, True), (-1, None, False)],
    ids=lambda value: f"POD-1315-{value}",
)
def test_get_newer_than(global_offset, modified_offset, found):
    cache = PodCache()
    if modified_offset is not None:
        cache.set("u", RuntimePodStatus("u", name="known"), None, NOW + modified_offset)
    cache.update_time(NOW + global_offset)
    status = newer(cache)
    assert (status is not None) is found
    if found:
        assert status.name == ("known" if modified_offset is not None else "")


def test_unknown_pods_have_an_empty_status_with_their_uid():
    assert PodCache().get("u") == RuntimePodStatus("u")


def test_a_cached_error_is_raised():
    cache = PodCache()
    cache.set("u", RuntimePodStatus("u"), PeerError("down"), NOW)
    with pytest.raises(PeerError, match="down"):
        cache.get("u")


def test_stale_sets_are_refused_only_if_asked_for():
    for refuse, kept in ((True, "new"), (False, "old")):
        cache = PodCache(refuse_stale=refuse)
        assert cache.set("u", RuntimePodStatus("u", name="new"), None, NOW)
        assert cache.set("u", RuntimePodStatus("u", name="old"), None, NOW - 1) is not refuse
        assert cache.get("u").name == kept


@pytest.mark.parametrize(
    ("act", "released"),
    [
        (lambda cache: cache.set("u", RuntimePodStatus("u"), None, NOW), True),
        (lambda cache: cache.set("u", RuntimePodStatus("u"), None, NOW - 1), False),
        (lambda cache: cache.set("other", RuntimePodStatus("other"), None, NOW + 1), False),
        (lambda cache: cache.set_observed_time("u", NOW + 1), True),
        (lambda cache: cache.update_time(NOW + 1), True),
        (lambda cache: cache.delete("u"), False),
    ],
    ids=["set", "older-set", "other-pod", "observed", "global", "delete"],
)
def test_waiters_are_released_by_a_stamp_that_is_not_before_theirs(act, released):
    async def scenario():
        cache = PodCache()
        woken = []

        async def waiter():
            woken.append(await cache.get_newer_than("u", NOW))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter)
            await trio.sleep(1)
            act(cache)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert bool(woken) is released

    run(scenario, seed=0)


def test_stamps_grow_while_time_stands_still():
    class Still:
        now = 5.0

        def elapsed_seconds(self):
            return self.now

    clock = Still()
    stamps = Stamps(clock)
    readings = [stamps.now() for _ in range(100)]
    assert readings == sorted(set(readings))
    assert readings[0] == 5.0
    assert readings[-1] == pytest.approx(5.0)
    clock.now = 6.0
    assert stamps.now() == 6.0
    assert readings[0] > BEFORE_ALL
