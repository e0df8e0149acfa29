"""The sources on trio: files, an URL, the API, and what joins them (POD-208 to POD-214, POD-219)."""

import random
from contextlib import asynccontextmanager
from types import SimpleNamespace

import h11
import pytest
import trio

from kubelet_emu.api.types import ObjectMeta, Pod
from kubelet_emu.apiserver.errors import ApiError
from kubelet_emu.config.api_source import ApiSource
from kubelet_emu.config.file_source import CHANGES_MAX, FileSource
from kubelet_emu.config.http_source import HttpSource
from kubelet_emu.config.manifest import PodReader
from kubelet_emu.config.pod_config import PodConfig
from kubelet_emu.errors import CallerError
from node_host.files import MemoryFiles
from node_host.loop import run
from node_host.net import MemoryNet


def manifest(name, *, image="busybox"):
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, "
        f"spec: {{containers: [{{name: c, image: {image}}}]}}}}"
    ).encode()


class Lists:
    """Every list that a source has sent, as names."""

    def __init__(self):
        self.sent = []
        self.uids = []

    async def set_pods(self, source, pods):
        self.sent.append((source, [pod.metadata.name for pod in pods]))
        self.uids.append([pod.metadata.uid for pod in pods])

    def last(self):
        return self.sent[-1][1]


class Recorder:
    def __init__(self):
        self.problems = []

    def decision(self, machine, pod, why, *, inputs, outcome):
        pass

    def fact(self, kind, **fields):
        self.problems.append(fields["problem"])


def reader(source):
    return PodReader(source=source, node_name="n", validate=lambda pod: ())


# --- files ----------------------------------------------------------------------------------------------


class FileNode:
    def __init__(self, path="/m"):
        self.files = MemoryFiles()
        self.lists = Lists()
        self.recorder = Recorder()
        self.source = FileSource(
            path=path,
            files=self.files,
            reader=reader("file"),
            set_pods=self.lists.set_pods,
            recorder=self.recorder,
        )


def files_scenario(scenario, path="/m", *, folder=True):
    async def main():
        node = FileNode(path)
        if folder:
            node.files.make_dirs("/m/sub")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.source.run)
            await scenario(node)
            nursery.cancel_scope.cancel()

    run(main, seed=0)


def test_POD_208_a_folder_is_listed_every_20_seconds():
    async def scenario(node):
        await trio.sleep(1)
        assert node.lists.sent == [("file", [])]
        node.files.write("/m/b.yaml", manifest("b"))
        node.files.write("/m/a.json", manifest("a"))
        node.files.write("/m/.hidden", manifest("hidden"))
        node.files.write("/m/sub/c.yaml", manifest("c"))
        await trio.sleep(18)
        assert len(node.lists.sent) == 1
        await trio.sleep(2)
        assert node.lists.last() == ["a-n", "b-n"]

    files_scenario(scenario)


def test_POD_209_told_changes_take_effect_at_once():
    async def scenario(node):
        await trio.sleep(1)
        node.files.write("/m/a.yaml", manifest("a"))
        node.source.changed("/m/a.yaml")
        await trio.sleep(0.1)
        assert node.lists.last() == ["a-n"]
        first = node.lists.uids[-1]
        node.files.write("/m/a.yaml", manifest("a", image="other"))
        node.source.changed("/m/a.yaml")
        await trio.sleep(0.1)
        assert node.lists.last() == ["a-n"]
        assert node.lists.uids[-1] != first
        node.files.remove("/m/a.yaml")
        node.source.changed("/m/a.yaml")
        await trio.sleep(0.1)
        assert node.lists.last() == []

    files_scenario(scenario)


def test_POD_209_a_broken_manifest_changes_nothing_until_the_next_listing():
    async def scenario(node):
        node.files.write("/m/a.yaml", manifest("a"))
        await trio.sleep(1)
        assert node.lists.last() == ["a-n"]
        node.files.write("/m/a.yaml", b"broken: [")
        node.source.changed("/m/a.yaml")
        await trio.sleep(1)
        assert node.lists.last() == ["a-n"]
        assert len(node.recorder.problems) == 1
        await trio.sleep(20)
        assert node.lists.last() == []
        assert len(node.recorder.problems) == 1

    files_scenario(scenario)


def test_POD_209_a_single_file_keeps_its_pod_when_it_breaks():
    async def scenario(node):
        node.files.write("/m/a.yaml", manifest("a"))
        await trio.sleep(1)
        node.files.write("/m/a.yaml", b"broken: [")
        await trio.sleep(41)
        assert node.lists.last() == ["a-n"]

    files_scenario(scenario, "/m/a.yaml")


def test_POD_210_a_missing_path_is_an_empty_list():
    async def scenario(node):
        await trio.sleep(1)
        assert node.lists.sent == [("file", [])]
        node.files.make_dirs("/m")
        node.files.write("/m/a.yaml", manifest("a"))
        await trio.sleep(20)
        assert node.lists.last() == ["a-n"]
        node.files.remove_tree("/m")
        await trio.sleep(20)
        assert node.lists.last() == []

    files_scenario(scenario, folder=False)


def test_POD_211_the_last_of_two_files_with_the_same_name_wins():
    async def scenario(node):
        node.files.write("/m/1.yaml", manifest("a", image="one"))
        node.files.write("/m/2.yaml", manifest("a", image="two"))
        await trio.sleep(1)
        (both,) = node.lists.uids[-1]
        node.files.remove("/m/1.yaml")
        await trio.sleep(20)
        assert node.lists.uids[-1] == [both]

    files_scenario(scenario)


def test_told_changes_are_bounded_and_only_of_manifests():
    node = FileNode()
    run_once = []

    async def main():
        node = FileNode()
        for number in range(CHANGES_MAX + 50):
            node.source.changed(f"/m/{number}")
        node.source.changed("/elsewhere/a.yaml")
        node.source.changed("/m/.hidden")
        with trio.move_on_after(1):
            await node.source.run()
        run_once.append(len(node.lists.sent))

    run(main, seed=0)
    assert node.lists.sent == []
    assert run_once == [1 + CHANGES_MAX]


# --- URL ------------------------------------------------------------------------------------------------


class Site:
    """An HTTP server with one page."""

    def __init__(self):
        self.status, self.body, self.requests, self.hang = 200, b"", [], False

    async def __call__(self, stream):
        server = h11.Connection(h11.SERVER)
        while True:
            event = server.next_event()
            if event is h11.NEED_DATA:
                server.receive_data(await stream.receive_some(4096))
            elif isinstance(event, h11.Request):
                self.requests.append((event.target.decode(), dict(event.headers)))
            elif isinstance(event, h11.EndOfMessage):
                break
        if self.hang:
            await trio.sleep_forever()
        headers = [("Content-Length", str(len(self.body)))]
        for part in (
            h11.Response(status_code=self.status, headers=headers),
            h11.Data(data=self.body),
            h11.EndOfMessage(),
        ):
            await stream.send_all(server.send(part))


def http_scenario(scenario):
    async def main():
        async with trio.open_nursery() as nursery:
            net, site, lists, recorder = MemoryNet(nursery), Site(), Lists(), Recorder()
            net.listen("10.0.0.1", 8080, site)
            source = HttpSource(
                url="http://10.0.0.1:8080/pods?x=1",
                net=net,
                reader=reader("http"),
                set_pods=lists.set_pods,
                recorder=recorder,
                headers={"X-Token": "t"},
            )
            await scenario(source, site, lists, recorder)
            nursery.cancel_scope.cancel()

    run(main, seed=0)


def test_POD_212_polls():
    async def scenario(source, site, lists, recorder):
        site.body = manifest("a")
        await source.poll()
        assert lists.sent == [("http", ["a-n"])]
        target, headers = site.requests[0]
        assert target == "/pods?x=1"
        assert headers[b"x-token"] == b"t"
        await source.poll()
        assert len(lists.sent) == 1
        site.status = 503
        await source.poll()
        assert recorder.problems == ["http://10.0.0.1:8080/pods?x=1: 503"]
        site.status, site.body = 200, b""
        await source.poll()
        assert lists.last() == []
        assert recorder.problems[-1].startswith("zero-length data received")
        site.body = b"broken: ["
        await source.poll()
        await source.poll()
        assert len(recorder.problems) == 3
        site.hang = True
        before = trio.current_time()
        await source.poll()
        assert trio.current_time() - before == 10
        assert recorder.problems[-1].endswith("no answer within 10 s")

    http_scenario(scenario)


def test_POD_212_the_period_is_20_seconds():
    async def scenario(source, site, lists, recorder):
        site.body = manifest("a")
        with trio.move_on_after(45):
            await source.run()
        assert len(site.requests) == 3

    http_scenario(scenario)


def test_an_unreachable_or_silent_server_is_told():
    async def main():
        async with trio.open_nursery() as nursery:
            net, recorder = MemoryNet(nursery), Recorder()

            async def rude(stream):
                await stream.receive_some(10)

            net.listen("10.0.0.2", 80, rude)
            for url in ("http://10.0.0.1/", "http://10.0.0.2/"):
                source = HttpSource(
                    url=url,
                    net=net,
                    reader=reader("http"),
                    set_pods=Lists().set_pods,
                    recorder=recorder,
                )
                await source.poll()
            assert len(recorder.problems) == 2
            nursery.cancel_scope.cancel()

    run(main, seed=0)


def test_only_plain_http_is_taken():
    for url in ("https://x/", "ftp://x", "pods.yaml"):
        with pytest.raises(CallerError):
            HttpSource(url=url, net=None, reader=reader("http"), set_pods=None, recorder=Recorder())


# --- API ------------------------------------------------------------------------------------------------


class Api:
    """Watches over a dict of objects."""

    def __init__(self):
        self.objects = {}
        self.watches = []
        self.available = True

    def write(self, name, *, node="n", event="MODIFIED", **spec):
        obj = {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"nodeName": node, **spec}}
        if event == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = obj
        for send, wanted in self.watches:
            if wanted(obj):
                send.send_nowait(SimpleNamespace(type=event, object=obj))

    def cut(self):
        for send, _ in self.watches:
            send.close()
        self.watches.clear()

    @asynccontextmanager
    async def watch(self, kind, *, wanted):
        assert kind == "Pod"
        if not self.available:
            raise ApiError(503, "ServiceUnavailable", "away")
        send, receive = trio.open_memory_channel(100)
        for name in sorted(self.objects):
            if wanted(self.objects[name]):
                send.send_nowait(SimpleNamespace(type="ADDED", object=self.objects[name]))
        self.watches.append((send, wanted))

        class Events:
            def __aiter__(self):
                return self

            async def __anext__(self):
                try:
                    return receive.receive_nowait()
                except trio.WouldBlock:
                    pass
                except trio.EndOfChannel:
                    raise StopAsyncIteration from None
                try:
                    return await receive.receive()
                except trio.EndOfChannel:
                    raise StopAsyncIteration from None

        yield Events()


def api_scenario(scenario, **options):
    async def main():
        api, lists, recorder = Api(), Lists(), Recorder()
        source = ApiSource(
            api=api,
            node_name="n",
            set_pods=lists.set_pods,
            recorder=recorder,
            rng=random.Random(1),
            **options,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.run)
            await scenario(api, lists, recorder)
            nursery.cancel_scope.cancel()

    run(main, seed=0)


def test_POD_214_the_full_list_comes_at_once_and_again_with_each_event():
    async def scenario(api, lists, recorder):
        await trio.sleep(0.1)
        assert lists.sent == [("api", [])]
        api.write("b")
        api.write("a")
        api.write("elsewhere", node="other")
        await trio.sleep(0.1)
        assert [names for _, names in lists.sent] == [[], ["b"], ["a", "b"]]
        api.write("b", event="DELETED")
        await trio.sleep(0.1)
        assert lists.last() == ["a"]

    api_scenario(scenario)


def test_POD_214_a_lost_watch_is_taken_up_again():
    async def scenario(api, lists, recorder):
        api.write("a")
        api.write("b")
        await trio.sleep(0.1)
        assert lists.sent == [("api", ["a", "b"])]
        api.available = False
        api.cut()
        del api.objects["a"]
        await trio.sleep(10)
        assert set(recorder.problems) == {"away"}
        assert len(lists.sent) == 1
        api.available = True
        await trio.sleep(30)
        assert lists.sent[1:] == [("api", ["b"])]

    api_scenario(scenario)


def test_POD_214_nothing_happens_before_the_node_is_known():
    known = []

    async def scenario(api, lists, recorder):
        await trio.sleep(5.5)
        assert lists.sent == []
        known.append(True)
        await trio.sleep(1)
        assert lists.sent == [("api", [])]

    api_scenario(scenario, node_synced=lambda: bool(known))


def test_an_object_that_is_no_pod_is_told_and_left_out():
    async def scenario(api, lists, recorder):
        api.write("a", containers="none")
        await trio.sleep(0.1)
        assert lists.last() == []
        assert len(recorder.problems) == 1

    api_scenario(scenario)


# --- together -------------------------------------------------------------------------------------------


def test_POD_219_all_sources_are_ready_once_each_has_sent_and_been_consumed():
    async def main():
        delivered, told = [], []

        async def deliver(update):
            delivered.append((str(update.op), update.source, len(update.pods)))

        def event(pod, event_type, reason, message, *, field_path=""):
            told.append((event_type, reason))

        config = PodConfig(
            sources=("file", "api"), deliver=deliver, events=SimpleNamespace(event=event), now_ns=lambda: 0
        )
        twice = [Pod(metadata=ObjectMeta(name="a", namespace="ns", uid=uid)) for uid in ("1", "2")]
        await config.set_pods("file", [])
        assert not config.all_ready({"file", "api"})
        await config.set_pods("api", twice)
        assert not config.all_ready({"file"})
        assert config.all_ready({"file", "api"})
        assert delivered == [("ADD", "file", 0), ("ADD", "api", 1)]
        assert told == [("Warning", "FailedValidation")]
        with pytest.raises(KeyError):
            await config.set_pods("http", [])

    run(main, seed=0)
