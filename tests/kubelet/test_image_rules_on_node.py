# pyright: basic
"""Image rules that show over several pods, starts and policies (IMG-)."""

from itertools import pairwise

import pytest

from cri_fake.behaviours import Behaviours, PullBehaviour

REMOTE = "registry.example/team/tool:v1"
BAD = "127.0.0.1:1/none:1"


def on_pulls(given):
    return {"behaviours": Behaviours(images=given)}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("root", "Always"),
        ("root:latest", "Always"),
        ("root:tag", "IfNotPresent"),
        (f"root@sha256:{'a' * 64}", "IfNotPresent"),
        (f"root:latest@sha256:{'a' * 64}", "Always"),
        (f"root:tag@sha256:{'a' * 64}", "IfNotPresent"),
    ],
    ids=["bare", "latest", "tag", "digest", "latest-digest", "tag-digest"],
)
def test_img_01_img_02_img_04_the_policy_that_a_reference_stands_for(on_node, busybox, image, policy):
    async def story(node):
        volumes = [{"name": "v", "image": {"reference": image}}]
        pod = node.apply(busybox(spec={"volumes": volumes}, a={"image": image}))
        return pod.spec.containers[0].image_pull_policy, pod.spec.volumes[0].image.pull_policy

    assert on_node(story) == (policy, policy)


def test_img_10_one_failed_pull_is_three_events(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a={"image": BAD}))
        await node.advance(3)
        return [(e["reason"], e["type"], e["message"]) for e in seen(node).events(on="{a}")]

    events = on_node(story, **on_pulls({BAD: PullBehaviour(failure="manifest unknown")}))
    assert [event[:2] for event in events[:3]] == [
        ("Pulling", "Normal"),
        ("Failed", "Warning"),
        ("Failed", "Warning"),
    ]
    assert events[0][2] == f'Pulling image "{BAD}"'
    assert events[1][2].startswith(f'Failed to pull image "{BAD}": ')
    assert events[2][2] == "Error: ErrImagePull"


def test_img_13_containers_of_a_pod_share_a_back_off_pods_do_not(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("one", a={"image": BAD}, b={"image": BAD}))
        await node.advance(3)
        first = len(seen(node).calls("PullImage"))
        node.apply(busybox("two", a={"image": BAD}))
        await node.advance(3)
        return first, len(seen(node).calls("PullImage")), node.pod("one").status.container_statuses

    first, then, (a, b) = on_node(story)
    assert (first, then) == (1, 2)
    assert a.state.waiting.reason in ("ErrImagePull", "ImagePullBackOff")
    assert b.state.waiting.reason == "ImagePullBackOff"


def test_img_17_a_sync_that_failed_in_back_off_comes_again_after_ten_to_fifteen_seconds(
    on_node, busybox, seen
):
    async def story(node):
        node.apply(busybox(a={"image": BAD}))
        await node.advance(200)
        return [e["t"] for e in seen(node).events("BackOff", "Pulling")]

    at = on_node(story)
    gaps = [second - first for first, second in pairwise(at)]
    assert len(gaps) > 6
    assert all(9.9 <= gap <= 16.5 or gap < 2 for gap in gaps), gaps


def test_img_18_img_50_a_full_restart_does_not_reset_the_back_off_of_images(on_node, busybox, seen):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]

    async def story(node):
        trigger = {"script": "sleep 15; exit 88", "restartPolicy": "Never", "restartPolicyRules": rules}
        node.apply(busybox(spec={"restartPolicy": "Never"}, a={"image": BAD}, b=trigger))
        await node.advance(90)
        return [c["t"] for c in seen(node).calls("PullImage")], seen(node).exits("b#1")

    at, second_ends = on_node(story)
    waits = [second - first for first, second in pairwise(at)]
    assert second_ends
    assert all(wait >= least for wait, least in zip(waits, (10, 20, 40), strict=False)), waits


def test_img_22_two_pods_that_want_one_image_at_once_pull_it_twice(on_node, busybox, seen):
    from kubelet_emu.settings import KubeletSettings

    async def story(node):
        for name in ("one", "two"):
            node.apply(busybox(name, a={"image": REMOTE, "imagePullPolicy": "Always"}))
        await node.advance(12)
        return [call["t"] for call in seen(node).calls("PullImage")]

    settings = KubeletSettings(serialize_image_pulls=False)
    at = on_node(story, settings=settings, **on_pulls({REMOTE: PullBehaviour(duration_seconds=5.0)}))
    assert len(at) == 2
    assert at[1] - at[0] < 5


def test_img_41_reasons_of_ended_containers_are_the_runtimes(on_node, busybox):
    async def story(node):
        node.apply(
            busybox(spec={"restartPolicy": "Never"}, ok="exit 0", bad="exit 3", gone={"command": ["/none"]})
        )
        await node.advance(5)
        statuses = node.pod("p").status.container_statuses
        return {s.name: (s.state.terminated.reason, s.state.terminated.exit_code) for s in statuses}

    found = on_node(story)
    assert found["ok"] == ("Completed", 0)
    assert found["bad"] == ("Error", 3)
    assert found["gone"][0] in ("StartError", "ContainerCannotRun")
    assert found["gone"][1] in (127, 128)


def test_img_42_what_waits_without_a_failure(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("plain", a={"image": REMOTE}))
        node.apply(busybox("init", init=[("i", "sleep 20")], a="sleep 3600"))
        await node.advance(4)
        return {
            pod.metadata.name: pod.status.container_statuses[0].state.waiting.reason for pod in node.pods()
        }

    found = on_node(story, **on_pulls({REMOTE: PullBehaviour(duration_seconds=30.0)}))
    assert found == {"plain": "ContainerCreating", "init": "PodInitializing"}


def test_img_51_never_makes_no_pull_and_always_one_for_each_start(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("never", a={"image": BAD, "imagePullPolicy": "Never"}))
        node.apply(busybox("always", a={"script": "exit 1", "imagePullPolicy": "Always"}))
        await node.advance(45)
        look = seen(node)
        return [c["image"] for c in look.calls("PullImage")], len(look.calls("StartContainer"))

    pulls, starts = on_node(story)
    assert BAD not in pulls
    assert len(pulls) == starts > 2
