"""Volumes as containers see them: content, updates, failures, and what cannot be reached (VOL-)."""

MOUNT = [{"name": "v", "mountPath": "/v"}]


def events_of(node, reason):
    return [event for event in node.events() if event["reason"] == reason]


async def output(node, pod, container, *command):
    code, out, err = await node.exec("default", pod, container, command)
    return code, out.decode(), err.decode()


def test_vol_04_an_empty_dir_is_shared_and_outlives_a_container(on_node, busybox):
    async def story(node):
        writer = {"script": "echo once >> /v/log; sleep 1; exit 1", "volumeMounts": MOUNT}
        reader = {"script": "sleep 3600", "volumeMounts": MOUNT}
        node.apply(busybox(spec={"volumes": [{"name": "v", "emptyDir": {}}]}, w=writer, r=reader))
        await node.advance(9)
        return await output(node, "p", "r", "cat", "/v/log")

    code, out, _ = on_node(story)
    assert code == 0
    assert out == "once\nonce\n"


def test_vol_03_config_map_files_follow_the_object(on_node, busybox):
    async def story(node):
        node.apply_object(
            {
                "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "default"},
                "data": {"a": "1", "b": "2"},
            }
        )
        main = {"script": "sleep 3600", "volumeMounts": MOUNT}
        items = [{"key": "a", "path": "dir/a.txt"}]
        node.apply(
            busybox(spec={"volumes": [{"name": "v", "configMap": {"name": "c", "items": items}}]}, m=main)
        )
        await node.advance(5)
        first = await output(node, "p", "m", "cat", "/v/dir/a.txt")
        missing = await output(node, "p", "m", "cat", "/v/b")
        node.store.patch("ConfigMap", "default", "c", {"data": {"a": "changed"}})
        await node.advance(100)
        return first, missing, await output(node, "p", "m", "cat", "/v/dir/a.txt")

    first, missing, later = on_node(story)
    assert first[:2] == (0, "1")
    assert missing[0] == 1
    assert later[:2] == (0, "changed")


def test_vol_08_optional_sources_may_be_missing(on_node, busybox):
    async def story(node):
        main = {"script": "ls /v | wc -l; sleep 3600", "volumeMounts": MOUNT}
        node.apply(
            busybox(
                spec={"volumes": [{"name": "v", "secret": {"secretName": "s", "optional": True}}]}, m=main
            )
        )
        await node.advance(3)
        return node.pod("p").status.phase

    assert on_node(story) == "Running"


def test_vol_07_a_missing_key_is_told_and_tried_again(on_node, busybox):
    async def story(node):
        node.apply_object({"kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": {}})
        main = {"script": "sleep 3600", "volumeMounts": MOUNT}
        volume = {"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "k"}]}}
        node.apply(busybox(spec={"volumes": [volume]}, m=main))
        await node.advance(10)
        failed = events_of(node, "FailedMount")
        node.store.patch("Secret", "default", "s", {"data": {"k": "djE="}})
        await node.advance(20)
        return failed, node.pod("p").status.phase, await output(node, "p", "m", "cat", "/v/k")

    failed, phase, read = on_node(story)
    text = 'MountVolume.SetUp failed for volume "v" : references non-existent secret key: k'
    assert [event["message"] for event in failed] == [text]
    assert failed[0]["count"] >= 4
    assert phase == "Running"
    assert read[:2] == (0, "v1")


def test_downward_api_and_projected_files(on_node, busybox):
    async def story(node):
        pod = busybox(
            spec={
                "volumes": [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [
                                {
                                    "downwardAPI": {
                                        "items": [
                                            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                                        ]
                                    }
                                },
                                {"configMap": {"name": "none", "optional": True}},
                            ]
                        },
                    }
                ]
            },
            m={"script": "sleep 3600", "volumeMounts": MOUNT},
        )
        pod["metadata"]["labels"] = {"b": "2", "a": "1"}
        node.apply(pod)
        await node.advance(5)
        return await output(node, "p", "m", "cat", "/v/labels"), await output(
            node, "p", "m", "cat", "/v/name"
        )

    labels, name = on_node(story)
    assert labels[1] == 'a="1"\nb="2"'
    assert name[1] == "p"


def test_a_pod_that_removes_everything_harms_only_itself(on_node, busybox, tmp_path):
    """It mounts the node's root and runs ``rm -rf /``: nothing of the machine is touched."""
    precious = tmp_path / "precious"
    precious.write_text("kept")

    async def story(node):
        killer = {"script": "rm -rf / /v/* 2>/dev/null; sleep 3600", "volumeMounts": MOUNT}
        node.apply(
            busybox(spec={"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, k=killer),
        )
        await node.advance(5)
        node.apply(busybox("other", m="echo fine; sleep 3600"))
        await node.advance(5)
        return node.pod("other").status.phase

    assert on_node(story) == "Running"
    assert precious.read_text() == "kept"


def test_a_host_path_of_the_wrong_type_is_refused(on_node, busybox):
    async def story(node):
        main = {"script": "sleep 3600", "volumeMounts": MOUNT}
        volume = {"name": "v", "hostPath": {"path": "/data/none", "type": "Directory"}}
        node.apply(busybox(spec={"volumes": [volume]}, m=main))
        await node.advance(5)
        return events_of(node, "FailedMount")[0]["message"]

    text = (
        'MountVolume.SetUp failed for volume "v" : hostPath type check failed: /data/none is not a directory'
    )
    assert on_node(story) == text


def test_volumes_go_with_the_pod(on_node, busybox):
    async def story(node):
        main = {"script": "trap 'exit 0' TERM; sleep 3600 & wait", "volumeMounts": MOUNT}
        node.apply(busybox(spec={"volumes": [{"name": "v", "emptyDir": {}}]}, m=main))
        await node.advance(5)
        uid = node.pod("p").metadata.uid
        base = f"{node.settings.root_dir}/pods/{uid}"
        there = node.files.exists(base)
        node.delete("p")
        await node.advance(60)
        return there, node.files.exists(base), [pod.metadata.name for pod in node.pods()]

    assert on_node(story) == (True, False, [])


def config_map(**data):
    return {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": data}


def mounting(busybox, script="sleep 3600"):
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    return busybox(spec={"volumes": volumes}, m={"script": script, "volumeMounts": MOUNT})


def test_vol_05_a_key_that_goes_takes_its_file_along(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(a="1", b="2"))
        node.apply(mounting(busybox))
        await node.advance(4)
        node.store.patch("ConfigMap", "default", "c", {"data": {"b": None}})
        await node.advance(100)
        return await output(node, "p", "m", "ls", "/v")

    assert on_node(story)[:2] == (0, "a\n")


def test_vol_05_content_changed_while_the_kubelet_was_away_is_there_after_its_return(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(a="1", b="2"))
        node.apply(mounting(busybox))
        await node.advance(4)
        await node.stop_kubelet()
        node.store.patch("ConfigMap", "default", "c", {"data": {"a": "new", "b": None, "c": "3"}})
        await node.restart_kubelet()
        await node.advance(10)
        read = [(await output(node, "p", "m", "cat", f"/v/{name}"))[1] for name in ("a", "c")]
        return read, await output(node, "p", "m", "ls", "/v"), events_of(node, "FailedMount")

    read, listed, failed = on_node(story)
    assert read == ["new", "3"]
    assert listed[1] == "a\nc\n"
    assert failed == []


def test_vol_03_a_source_that_goes_while_the_pod_runs_is_told_and_the_files_stay(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(a="1"))
        node.apply(mounting(busybox))
        await node.advance(4)
        node.store.delete("ConfigMap", "default", "c")
        await node.advance(100)
        return await output(node, "p", "m", "cat", "/v/a"), events_of(node, "FailedMount")[0]["message"]

    read, text = on_node(story)
    assert read[:2] == (0, "1")
    assert text == 'MountVolume.SetUp failed for volume "v" : configmap "c" not found'


def test_vol_05_a_change_can_be_seen_by_a_script_that_looks_again(on_node, busybox):
    async def story(node):
        node.apply_object(config_map(a="1"))
        node.apply(mounting(busybox, "while [ $(cat /v/a) = 1 ]; do sleep 1; done; exit 7"))
        await node.advance(4)
        node.store.patch("ConfigMap", "default", "c", {"data": {"a": "2"}})
        await node.advance(100)
        return node.pod("p").status.container_statuses[0]

    assert on_node(story).restart_count >= 1


def test_vol_01_a_deletion_ends_the_wait_for_a_volume(on_node, busybox):
    async def story(node):
        node.apply(mounting(busybox))
        await node.advance(5)
        node.delete("p")
        await node.advance(5)
        return [pod.metadata.name for pod in node.pods()]

    assert on_node(story) == []


def test_vol_01_a_wait_ends_after_two_minutes_and_three_seconds_and_begins_again(on_node, busybox):
    async def story(node):
        node.apply(mounting(busybox))
        await node.advance(180)
        requeued = [r for r in node.recorder.records if r["k"] == "requeue"]
        found = [r for r in requeued if "unmounted volumes" in r["error"]]
        node.apply_object(config_map(a="1"))
        await node.advance(260)
        return found[0]["t"], found[0]["error"], events_of(node, "FailedMount"), node.pod("p").status.phase

    at, error, events, phase = on_node(story)
    assert 123 <= at < 124
    assert error == (
        "unmounted volumes=[v], unattached volumes=[v], failed to process volumes=[]: "
        "context deadline exceeded"
    )
    text = 'MountVolume.SetUp failed for volume "v" : configmap "c" not found'
    assert {event["message"] for event in events} == {text}
    assert phase == "Running"
