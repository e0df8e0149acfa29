"""Static pods on a whole node: files, folders, HTTP; their mirrors (POD sections 2 and 8, NOD-100)."""

import json

import pytest

from kubelet_emu.settings import KubeletSettings
from node_host.net import MemoryNet

FOLDER = "/etc/kubernetes/manifests"
POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
IGNORANT = "trap '' TERM; sleep 3600"
SETTINGS = KubeletSettings(static_pod_path=FOLDER)


def manifest(name="web", script=POLITE, **more):
    container = {
        "name": "a",
        "image": "docker.io/library/busybox:1.36",
        "command": ["sh", "-c", script],
    }
    spec = {"containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def put(node, name, obj):
    node.files.make_dirs(FOLDER)
    node.files.write(f"{FOLDER}/{name}", json.dumps(obj).encode())


def test_pod_204_a_file_becomes_a_pod_with_its_mirror(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest())
        await node.advance(25)
        return node.pod("web-node-1"), seen(node)

    pod, look = on_node(story, settings=SETTINGS)
    annotations = pod.metadata.annotations
    assert annotations["kubernetes.io/config.source"] == "file"
    assert annotations["kubernetes.io/config.mirror"] == annotations["kubernetes.io/config.hash"]
    assert pod.metadata.owner_references[0].kind == "Node"
    assert pod.status.phase == "Running"
    assert pod.status.container_statuses[0].ready is True
    assert pod.spec.tolerations[0].effect == "NoExecute"
    assert len(look.calls("RunPodSandbox")) == 1


def test_pod_208_hidden_files_and_folders_are_skipped_and_yaml_is_read(on_node):
    async def story(node):
        put(node, ".hidden.json", manifest("hidden"))
        node.files.make_dirs(f"{FOLDER}/sub")
        node.files.write(f"{FOLDER}/sub/inner.json", json.dumps(manifest("inner")).encode())
        node.files.write(
            f"{FOLDER}/a.yaml",
            b"apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\n"
            b"spec: {containers: [{name: a, image: busybox:1.36, command: [sleep, '99']}]}\n",
        )
        await node.advance(25)
        return [pod.metadata.name for pod in node.pods()]

    assert on_node(story, settings=SETTINGS) == ["plain-node-1"]


def test_pod_207_an_edited_manifest_is_a_new_pod_that_waits_for_the_old(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest(script="trap 'sleep 4; exit 0' TERM; sleep 3600 & wait"))
        await node.advance(25)
        first = node.pod("web-node-1").metadata.annotations["kubernetes.io/config.hash"]
        put(node, "web.json", manifest(script="sleep 3601"))
        await node.advance(60)
        return first, node.pod("web-node-1"), seen(node)

    first, pod, look = on_node(story, settings=SETTINGS)
    assert pod.metadata.annotations["kubernetes.io/config.hash"] != first
    assert pod.status.phase == "Running"
    stop, start = look.calls("StopPodSandbox")[0], look.calls("RunPodSandbox")[1]
    assert start["t"] > stop["t"] + stop["dt"]
    assert start["t"] - stop["t"] < 16


def test_a_removed_manifest_ends_pod_and_mirror(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest())
        await node.advance(25)
        node.files.remove(f"{FOLDER}/web.json")
        await node.advance(25)
        return node.pods(), seen(node)

    pods, look = on_node(story, settings=SETTINGS)
    assert pods == ()
    assert look.told("StopContainer") == ["StopContainer a#0/30"]


def test_pod_805_deleting_the_mirror_does_not_stop_the_pod(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest())
        await node.advance(25)
        before = node.pod("web-node-1").metadata.uid
        node.delete("web-node-1")
        await node.advance(10)
        graceful = node.pod("web-node-1").metadata.uid
        node.delete("web-node-1", grace_seconds=0)
        await node.advance(100)
        return before, graceful, node.pod("web-node-1"), seen(node)

    before, graceful, pod, look = on_node(story, settings=SETTINGS)
    assert len({before, graceful, pod.metadata.uid}) == 3
    assert pod.status.phase == "Running"
    assert not look.calls("StopContainer")
    assert len(look.calls("StartContainer")) == 1


def test_sta_207_a_stopped_static_pod_with_policy_always_stays_running(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest(script="sleep 3; exit 1"))
        await node.advance(60)
        return seen(node)

    look = on_node(story, settings=SETTINGS)
    assert set(look.phases("web-node-1")) == {"Pending", "Running"}
    assert len(look.calls("StartContainer")) >= 3


@pytest.mark.parametrize(
    "more",
    [
        {"serviceAccountName": "robot"},
        {"imagePullSecrets": [{"name": "s"}]},
        {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "c"}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_pod_213_static_pods_refer_to_no_api_objects(on_node, seen, more):
    async def story(node):
        put(node, "web.json", manifest(**more))
        await node.advance(25)
        return node.pods(), [r for r in node.recorder.records if r["k"] == "config"]

    pods, notes = on_node(story, settings=SETTINGS)
    assert pods == ()
    assert any("static pods may not reference" in str(note) for note in notes)


def test_pod_209_a_manifest_that_breaks_ends_its_pod_at_the_next_listing(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest())
        await node.advance(25)
        node.files.write(f"{FOLDER}/web.json", b"{ not a pod")
        await node.advance(2)
        soon = [pod.status.phase for pod in node.pods()]
        await node.advance(40)
        return soon, node.pods()

    soon, later = on_node(story, settings=SETTINGS)
    assert soon == ["Running"]
    assert later == ()


def test_nod_104_a_standalone_kubelet_runs_static_pods(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest(script="sleep 4; exit 1"))
        await node.advance(45)
        return node.pods(), node.events(), seen(node)

    pods, events, look = on_node(story, settings=SETTINGS, static=True)
    assert pods == ()
    assert list(events) == []
    assert len(look.calls("StartContainer")) >= 3


def test_ka_z08_a_static_pod_restarts_in_place_without_an_api_server(on_node, seen):
    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        obj = manifest(script="sleep 4; exit 42", restartPolicy="Never")
        obj["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": rules}
        other = {**obj["spec"]["containers"][0], "name": "b", "command": ["sleep", "99"]}
        obj["spec"]["containers"].append(other)
        put(node, "web.json", obj)
        await node.advance(35)
        return seen(node)

    look = on_node(story, settings=SETTINGS, static=True)
    assert look.calls("StartContainer", of="a#1")
    assert look.calls("StartContainer", of="b#1")
    assert len(look.calls("RunPodSandbox")) == 1


def test_a_static_pod_survives_a_kubelet_restart(on_node, seen):
    async def story(node):
        put(node, "web.json", manifest())
        await node.advance(25)
        uid = node.pod("web-node-1").metadata.uid
        await node.restart_kubelet()
        await node.advance(40)
        return uid, node.pod("web-node-1"), seen(node)

    uid, pod, look = on_node(story, settings=SETTINGS)
    assert pod.metadata.uid == uid
    assert len(look.calls("StartContainer")) == 1
    assert not look.calls("StopContainer")


def test_pod_212_the_http_source(on_node, seen):
    bodies = [json.dumps(manifest("one")).encode()]

    async def serve(stream):
        async with stream:
            await stream.receive_some(4096)
            body = bodies[-1]
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            await stream.send_all(head + body)

    async def story(node):
        assert isinstance(node.net, MemoryNet)
        node.net.listen("10.0.0.9", 8000, serve)
        await node.advance(45)
        first = [pod.metadata.name for pod in node.pods()]
        source = node.pods()[0].metadata.annotations["kubernetes.io/config.source"]
        both = {"apiVersion": "v1", "kind": "PodList", "items": [manifest("one"), manifest("two")]}
        bodies.append(json.dumps(both).encode())
        await node.advance(45)
        second = [pod.metadata.name for pod in node.pods()]
        return first, source, second

    first, source, second = on_node(
        story, settings=KubeletSettings(static_pod_url="http://10.0.0.9:8000/pods")
    )
    assert (first, source) == (["one-node-1"], "http")
    assert second == ["one-node-1", "two-node-1"]
