# pyright: basic
"""Images that a node collects, and the events about it (IMG-27, IMG-35, IMG-36)."""

from kubelet_emu.settings import KubeletSettings

OTHER = "docker.io/library/busybox:1.35"


def fs(bytes_, **changes):
    return KubeletSettings(image_fs_bytes=bytes_, **changes)


def removed(node):
    return [r["outcome"]["removed"] for r in node.recorder.records if r.get("machine") == "images.gc"]


def gc_events(node):
    names = ("ImageGCFailed", "FreeDiskSpaceFailed")
    return [(e["reason"], e["type"], e["count"], e["message"]) for e in node.events() if e["reason"] in names]


def test_img_35_a_full_disk_loses_the_images_that_nobody_uses(on_node, busybox):
    async def story(node):
        node.apply(busybox(a="sleep 9000"))
        await node.advance(3)
        used = node.pod("p").status.container_statuses[0].image
        await node.advance(320)
        reply = await node.kubelet.runtime.calls.list_images()
        tags = [tag for image in reply for tag in image.repo_tags]
        return used, tags, removed(node), node.pod("p").status.phase

    used, tags, gone, phase = on_node(story, settings=fs(1000))
    assert used in tags
    assert gone
    assert phase == "Running"


def test_img_35_a_disk_with_room_keeps_all_images(on_node, busybox):
    async def story(node):
        before = len(await node.kubelet.runtime.calls.list_images())
        await node.advance(700)
        return before, len(await node.kubelet.runtime.calls.list_images()), removed(node)

    before, after, gone = on_node(story)
    assert before == after > 1
    assert gone == []


def test_img_36_what_cannot_be_freed_is_told_at_once_the_failure_from_the_second_on(on_node, busybox):
    async def story(node):
        node.apply(busybox(a="sleep 9000"))
        seen = []
        for _ in range(12):  # each pass frees an image, until only those in use are left
            await node.advance(300)
            seen.append(gc_events(node))
        return next(events for events in seen if events), seen[-1]

    first, last = on_node(story, settings=fs(1000))
    assert [event[:3] for event in first] == [("FreeDiskSpaceFailed", "Warning", 1)]
    assert first[0][3] == (
        "Failed to garbage collect required amount of images. Attempted to free 200 bytes, "
        "but only found 0 bytes eligible to free."
    )
    told = {event[0]: event[2] for event in last}
    assert told["FreeDiskSpaceFailed"] == told["ImageGCFailed"] + 1


def test_img_35_a_maximum_age_empties_a_node_that_nobody_uses(on_node):
    async def story(node):
        await node.advance(700)
        pinned = [image for image in await node.kubelet.runtime.calls.list_images() if not image.pinned]
        return pinned, removed(node)

    left, gone = on_node(story, settings=KubeletSettings(image_gc_max_age_seconds=400.0))
    assert left == []
    assert gone


def test_img_35_thresholds_that_cannot_be_reached_switch_it_off(on_node):
    async def story(node):
        await node.advance(700)
        return removed(node), gc_events(node)

    assert on_node(story, settings=fs(1000, image_gc_high_percent=100)) == ([], [])


def test_img_28_a_new_kubelet_still_knows_whose_image_it_is(on_node, busybox, seen):
    async def story(node):
        image = {"image": "registry.example/team/app:1", "imagePullPolicy": "IfNotPresent"}
        node.apply(busybox(a=image))
        await node.advance(10)
        folder = f"{node.settings.root_dir}/image_manager"
        files = [len(node.files.list(f"{folder}/{name}")) for name in ("pulling", "pulled")]
        before = node.kubelet.runtime.images.records._records
        await node.restart_kubelet()
        return files, before, node.kubelet.runtime.images.records._records

    files, before, after = on_node(story)
    assert files == [0, 1]
    assert before == after != {}
