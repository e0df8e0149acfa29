"""EVT-01 to EVT-04: the sink of events: what is written, tries again, bounds."""

import random

import pytest
import trio

from kubelet_emu.api.types import ObjectMeta, Pod
from kubelet_emu.apiserver.client import ApiClient
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.apiserver.store import ApiStore
from kubelet_emu.events import QUEUE_MAX, TRIES_MAX, PodEvents
from node_host.clock import NodeClock
from node_host.loop import run


def pod(name="p"):
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}"))


class Refusing(ApiClient):
    """A client that answers writes of events with an error for as long as ``error`` is set."""

    error = None
    tries = 0

    async def create(self, kind, obj):
        self.tries += 1
        if self.error is not None:
            raise self.error
        return await super().create(kind, obj)


def with_sink(story, *, api=True, **more):
    async def main():
        clock = NodeClock()
        store = ApiStore(now_ns=clock.now_ns, rng=random.Random(0))
        client = Refusing(store, clock=clock, rng=random.Random(1), latency_seconds=(0.0, 0.0))
        events = PodEvents(
            api=client if api else None, clock=clock, rng=random.Random(2), node_name="node-1", **more
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(events.run)
            result = await story(events, store, client, clock)
            nursery.cancel_scope.cancel()
        return result

    return run(main, seed=0)


def test_evt_01_04_what_an_event_object_holds():
    async def story(events, store, client, clock):
        events.event(pod(), "Normal", "Started", "Container started", field_path="spec.containers{a}")
        await clock.sleep(1)
        return store.list("Event")

    (event,) = with_sink(story)
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("p.")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "ns",
        "uid": "uid-p",
        "fieldPath": "spec.containers{a}",
    }
    assert event["source"] == {"component": "kubelet", "host": "node-1"}
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Started", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


def test_evt_02_a_repeat_raises_count_and_last_timestamp():
    async def story(events, store, client, clock):
        for _ in range(3):
            events.event(pod(), "Warning", "BackOff", "again")
            await clock.sleep(5)
        return store.list("Event")

    (event,) = with_sink(story)
    assert event["count"] == 3
    assert event["lastTimestamp"] == "2026-01-01T00:00:10Z"


def test_evt_02_a_flood_is_cut_off():
    async def story(events, store, client, clock):
        for _ in range(40):
            events.event(pod(), "Warning", "BackOff", "again")
        events.event(pod("other"), "Warning", "BackOff", "again")
        await clock.sleep(1)
        return [
            (event["involvedObject"]["name"], event["count"]) for event in store.list("Event")
        ], events.dropped

    found, dropped = with_sink(story)
    assert sorted(found) == [("other", 1), ("p", 25)]
    assert dropped == 15


def test_evt_03_twelve_tries_ten_seconds_apart():
    async def story(events, store, client, clock):
        client.error = ApiError(500, "InternalError", "no")
        events.event(pod(), "Normal", "Started", "one")
        await clock.sleep(105)
        early = client.tries
        await clock.sleep(30)
        client.error = None
        events.event(pod(), "Normal", "Started", "two")
        await clock.sleep(1)
        return early, client.tries, events.dropped, [event["message"] for event in store.list("Event")]

    early, tries, dropped, messages = with_sink(story)
    assert early in (11, 12)
    assert tries == TRIES_MAX + 1
    assert dropped == 1
    assert messages == ["two"]


def test_evt_03_an_event_gets_through_once_the_api_is_back():
    async def story(events, store, client, clock):
        client.available = False
        events.event(pod(), "Normal", "Started", "one")
        await clock.sleep(35)
        client.available = True
        await clock.sleep(12)
        return [(event["message"], event["firstTimestamp"]) for event in store.list("Event")]

    assert with_sink(story) == [("one", "2026-01-01T00:00:00Z")]


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Invalid"), (404, "NotFound")])
def test_evt_03_an_event_that_the_api_refuses_is_dropped_at_once(code, reason):
    async def story(events, store, client, clock):
        client.error = ApiError(code, reason, "no")
        events.event(pod(), "Normal", "Started", "one")
        await clock.sleep(60)
        return client.tries, events.dropped

    assert with_sink(story) == (1, 1)


def test_evt_03_the_queue_is_bounded():
    async def story(events, store, client, clock):
        client.available = False
        for number in range(QUEUE_MAX + 10):
            events.event(pod(f"p{number}"), "Normal", "Started", "x")
        return events.dropped

    assert with_sink(story) == 10


def test_nod_104_without_an_api_events_go_nowhere():
    async def story(events, store, client, clock):
        events.event(pod(), "Normal", "Started", "x")
        events.node_event("Warning", "Rebooted", "x")
        await clock.sleep(1)
        return store.list("Event"), events.dropped

    assert with_sink(story, api=False) == ([], 0)


def test_events_about_the_node():
    async def story(events, store, client, clock):
        events.node_event("Warning", "Rebooted", "Node node-1 has been rebooted, boot id: b")
        await clock.sleep(1)
        return store.list("Event")[0]

    event = with_sink(story)
    assert event["involvedObject"] == {"kind": "Node", "name": "node-1", "uid": "node-1"}
    assert event["metadata"]["namespace"] == "default"


def test_two_events_at_one_moment_get_two_names():
    async def story(events, store, client, clock):
        events.event(pod(), "Normal", "A", "x")
        events.event(pod(), "Normal", "B", "x")
        await clock.sleep(1)
        return {event["metadata"]["name"] for event in store.list("Event")}

    assert len(with_sink(story)) == 2


def test_evt_01_fifty_a_second_after_a_burst_of_a_hundred():
    async def story(events, store, client, clock):
        for number in range(300):
            events.event(pod(f"p{number}"), "Normal", "Started", "x")
        counts = []
        for _ in range(5):
            counts.append(len(store.list("Event")))
            await clock.sleep(1)
        return counts, store.list("Event")[0]["firstTimestamp"]

    counts, stamp = with_sink(story)
    assert counts[0] == 0
    assert [
        abs(found - wanted) <= 3 for found, wanted in zip(counts[1:], (150, 200, 250, 300), strict=True)
    ] == [True] * 4
    assert stamp == "2026-01-01T00:00:00Z"


def test_evt_01_no_limit_at_zero():
    async def story(events, store, client, clock):
        for number in range(300):
            events.event(pod(f"p{number}"), "Normal", "Started", "x")
        await clock.sleep(0.01)
        return len(store.list("Event"))

    assert with_sink(story, qps=0) == 300
