"""Logs and their rotation, and what garbage collection leaves (LOG-, POD section 10)."""

import gzip

import pytest

from kubelet_emu.container_logs import plan_rotation
from kubelet_emu.settings import KubeletSettings

POLITE = "trap 'exit 0' TERM; sleep 3600 & wait"
NEVER = {"restartPolicy": "Never"}


def log_folder(node, pod="p", container="a"):
    return f"/var/log/pods/default_{pod}_{node.pod(pod).metadata.uid}/{container}"


@pytest.mark.parametrize(
    ("names", "max_files", "remove", "compress"),
    [
        (["0.log"], 5, (), ()),
        (["0.log", "0.log.20260101-000000"], 5, (), ("0.log.20260101-000000",)),
        (["0.log", "0.log.1", "0.log.2", "0.log.3"], 3, ("0.log.1", "0.log.2"), ("0.log.3",)),
        (["0.log", "0.log.1.gz", "0.log.2"], 2, ("0.log.1.gz", "0.log.2"), ()),
        (["0.log", "0.log.1", "0.log.1.tmp"], 5, ("0.log.1.tmp",), ("0.log.1",)),
        (["0.log", "0.log.1", "0.log.1.gz"], 5, ("0.log.1",), ()),
        (["0.log", "1.log.1", "other"], 2, (), ()),
    ],
    ids=["alone", "first", "too-many", "two-files", "half-done", "done-twice", "others"],
)
def test_log_06_plan(names, max_files, remove, compress):
    plan = plan_rotation("0.log", names, max_files=max_files)
    assert (plan.remove, plan.compress) == (remove, compress)


def chatty(on_node, busybox, seen, **settings):
    async def story(node):
        script = "i=0; while true; do echo line$i; i=$((i+1)); sleep 0.5; done"
        node.apply(busybox(a=script))
        await node.advance(95)
        folder = log_folder(node)
        names = node.files.list(folder)
        texts = {name: node.files.read(f"{folder}/{name}") for name in names}
        return names, texts, seen(node)

    return on_node(story, settings=KubeletSettings(**settings))


def test_log_06_a_log_that_grows_is_rotated_compressed_and_dropped(on_node, busybox, seen):
    names, texts, look = chatty(
        on_node, busybox, seen, container_log_max_size_bytes=700, container_log_max_files=3
    )
    assert len(names) == 3
    assert names[0] == "0.log"
    assert names[1].endswith(".gz")
    assert not names[2].endswith(".gz")
    lines = (
        gzip.decompress(texts[names[1]]).splitlines()
        + texts[names[2]].splitlines()
        + texts["0.log"].splitlines()
    )
    numbers = [int(line.rsplit(b"line", 1)[1]) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 0
    assert numbers[-1] >= 188
    assert len(look.calls("ReopenContainerLog")) >= 3


def test_log_06_a_negative_size_turns_it_off(on_node, busybox, seen):
    names, _, look = chatty(on_node, busybox, seen, container_log_max_size_bytes=-1)
    assert names == ["0.log"]
    assert not look.calls("ReopenContainerLog")


def test_log_03_rotated_logs_count_for_the_number_of_the_next_instance(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(1)
        folder = log_folder(node)
        node.files.write(f"{folder}/7.log.20260101-000000", b"")
        await node.reboot(forget=True)
        await node.advance(4)
        return seen(node).calls("CreateContainer")[-1]["attempt"]

    assert on_node(story) == 8


def test_log_05_a_link_leads_to_each_log(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(3)
        container_id = node.pod("p").status.container_statuses[0].container_id.split("//")[1]
        link = f"/var/log/containers/p_default_a-{container_id}.log"
        return node.files.read_link(link) == f"{log_folder(node)}/0.log"

    assert on_node(story)


def test_pod_1005_only_the_newest_dead_instance_stays(on_node, busybox, seen):
    """Two that were left behind while the kubelet was away: the older one goes with the next collection."""

    async def story(node):
        node.apply(busybox(a="sleep 1; exit 1"))
        await node.advance(200)
        world = node.runtime.world
        return (
            [c.attempt for c in world.containers.values],
            log_folder(node),
            node.files.list(log_folder(node)),
        )

    attempts, _, logs = on_node(story)
    assert len(attempts) <= 2
    assert len(logs) == len(attempts)


def test_pod_1006_the_newest_sandbox_of_a_pod_stays_older_ones_go(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=POLITE))
        for _ in range(3):
            await node.advance(3)
            await node.stop_sandbox("default", "p")
        await node.advance(130)
        world = node.runtime.world
        return [(s.attempt, s.ready, len(world.containers_of(s.id))) for s in world.sandboxes.values]

    # The second one was lost during a back-off, so that the first still holds the newest dead instance.
    assert on_node(story) == [(1, False, 1), (3, True, 1)]


def test_pod_1009_everything_of_a_deleted_pod_goes(on_node, busybox):
    async def story(node):
        node.apply(busybox(init=[("i", "true")], a=POLITE))
        await node.advance(5)
        folder = log_folder(node).rsplit("/", 1)[0]
        node.delete("p")
        await node.advance(70)
        world = node.runtime.world
        return (
            len(world.containers.values),
            len(world.sandboxes.values),
            node.files.exists(folder),
            node.files.list("/var/log/containers"),
            node.files.list("/var/lib/kubelet/pods"),
        )

    assert on_node(story) == (0, 0, False, [], [])


def test_a_finished_pod_keeps_its_containers_until_it_is_deleted(on_node, busybox):
    async def story(node):
        node.apply(busybox(spec=NEVER, a="true"))
        await node.advance(130)
        kept = len(node.runtime.world.containers.values), node.files.list(log_folder(node))
        node.delete("p")
        await node.advance(70)
        return kept, len(node.runtime.world.containers.values)

    assert on_node(story) == ((1, ["0.log"]), 0)


def test_rst_190_logs_of_instances_removed_in_a_full_restart_stay(on_node, busybox):
    async def story(node):
        rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        t = {"script": "sleep 4; exit 42", "restartPolicy": "Never", "restartPolicyRules": rules}
        node.apply(busybox(spec=NEVER, t=t, w=POLITE))
        await node.advance(11)
        links = [name for name in node.files.list("/var/log/containers") if "_w-" in name]
        return node.files.list(log_folder(node, container="w")), len(links)

    logs, links = on_node(story)
    assert logs == ["0.log", "1.log", "2.log"]
    assert links == 3


def test_rst_024_an_instance_that_was_collected_starts_again(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={"restartPolicy": "OnFailure"}, done="sleep 1", keep=POLITE))
        await node.advance(4)
        await node.reboot(forget=True)
        await node.advance(10)
        return seen(node)

    assert on_node(story).told("StartContainer", of="done#") == [
        "StartContainer done#0",
        "StartContainer done#1",
    ]


def test_img_36_a_collection_that_fails_is_told_once_about_the_node(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=POLITE))
        await node.advance(5)
        await node.runtime.crash()
        await node.advance(130)
        await node.runtime.restart()
        await node.advance(5)
        return [event for event in node.events() if event["reason"] == "ContainerGCFailed"]

    (event,) = on_node(story)
    assert (event["type"], event["involvedObject"]["kind"], event["count"]) == ("Warning", "Node", 1)
