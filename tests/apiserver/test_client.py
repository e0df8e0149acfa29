"""The API as the kubelet reaches it: latency, outages, watches that end."""

import random

import pytest
import trio

from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.store import ApiStore
from node_host.clock import NodeClock
from node_host.loop import run


def with_client(story, latency=(0.0, 0.0)):
    async def main():
        clock = NodeClock()
        store = ApiStore(now_ns=clock.now_ns, rng=random.Random(0))
        return await story(
            ApiClient(store, clock=clock, rng=random.Random(1), latency_seconds=latency), store, clock
        )

    return run(main, seed=0)


def config_map(name, **data):
    return {"metadata": {"name": name}, "data": data}


def test_a_call_takes_its_round_trip_half_before_and_half_after():
    async def story(client, store, clock):
        seen = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.create, "ConfigMap", config_map("c"))
            await clock.sleep(0.5)
            seen.append(store.get("ConfigMap", "default", "c") is not None)
            await clock.sleep(1.0)
            seen.append(store.get("ConfigMap", "default", "c") is not None)
        return seen, clock.elapsed_seconds()

    seen, took = with_client(story, latency=(2.0, 2.0))
    assert seen == [False, True]
    assert took == pytest.approx(2.0)


def test_every_call_fails_while_the_server_is_away():
    async def story(client, store, clock):
        client.available = False
        codes = []
        for call in (
            client.get("Pod", "default", "p"),
            client.create("ConfigMap", config_map("c")),
            client.patch("ConfigMap", "default", "c", {}),
            client.delete("ConfigMap", "default", "c"),
            client.get_pod("default", "p"),
            client.patch_pod_status("default", "p", "u", {}),
            client.delete_pod("default", "p", "u", 0),
        ):
            with pytest.raises(ApiError) as caught:
                await call
            codes.append((caught.value.code, caught.value.reason))
        with pytest.raises(ApiError):
            async with client.watch("Pod"):
                pass
        return set(codes), store.list("ConfigMap")

    assert with_client(story) == ({(503, "ServiceUnavailable")}, [])


def test_an_outage_ends_watches_and_what_happened_is_not_told():
    async def story(client, store, clock):
        told = []
        store.create("ConfigMap", config_map("before"))

        async def follow():
            async with client.watch("ConfigMap") as events:
                async for event in events:
                    told.append((event.type, event.object["metadata"]["name"]))
            told.append(("ended", ""))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await clock.sleep(1)
            client.available = False
            store.create("ConfigMap", config_map("meanwhile"))
            await clock.sleep(1)
        client.available = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await clock.sleep(1)
            nursery.cancel_scope.cancel()
        return told

    assert with_client(story) == [
        ("ADDED", "before"),
        ("ended", ""),
        ("ADDED", "before"),
        ("ADDED", "meanwhile"),
    ]


def test_watch_events_take_their_way_the_first_ones_come_with_the_answer():
    async def story(client, store, clock):
        store.create("ConfigMap", config_map("first"))
        at = []
        async with client.watch("ConfigMap") as events:
            await anext(events)
            at.append(clock.elapsed_seconds())
            store.create("ConfigMap", config_map("second"))
            await anext(events)
            at.append(clock.elapsed_seconds())
        return at

    first, second = with_client(story, latency=(0.004, 0.004))
    assert first == 0.0
    assert 0.001 <= second <= 0.003


def test_a_watch_that_is_left_is_forgotten():
    async def story(client, store, clock):
        async with client.watch("ConfigMap"):
            pass
        client.available = False
        return client.available

    assert with_client(story) is False


def test_deleting_with_a_foreign_uid_is_a_conflict():
    async def story(client, store, clock):
        store.create("ConfigMap", config_map("c"))
        with pytest.raises(ApiError) as caught:
            await client.delete("ConfigMap", "default", "c", uid="other")
        return caught.value.code

    assert with_client(story) == 409
