"""Images on a whole node: policies, back-off, queues, failures and their texts (IMG-)."""

import base64
from itertools import pairwise

import pytest

from cri_fake.behaviours import Behaviours, PullBehaviour
from kubelet_emu.settings import KubeletSettings

REMOTE = "registry.example/team/tool:v1"
OTHER = "registry.example/team/tool:v2"
BAD = "127.0.0.1:1/none:1"


def image(name, script="sleep 3600", **more):
    return {"image": name, "script": script, **more}


def on_pulls(given):
    return {"behaviours": Behaviours(images=given)}


def test_img_14_failed_pulls_wait_ten_seconds_and_twice_as_long_each_time(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=image(BAD)))
        await node.advance(160)
        return [call["t"] for call in seen(node).calls("PullImage")], seen(node)

    at, look = on_node(story)
    waits = [second - first for first, second in pairwise(at)]
    for wait, least in zip(waits, (10, 20, 40), strict=False):
        assert least <= wait <= least + 16
    assert len(waits) >= 3
    reasons = {c.get("reason") for c in look.containers("a")}
    assert reasons == {"ContainerCreating", "ErrImagePull", "ImagePullBackOff"}
    backing_off = next(c for c in look.containers("a") if c.get("reason") == "ImagePullBackOff")
    assert backing_off["message"].startswith(f'Back-off pulling image "{BAD}": ErrImagePull: failed to pull')
    assert look.messages("BackOff")[0] == f'Back-off pulling image "{BAD}"'
    assert {m for m in look.messages("Failed") if m.startswith("Error")} == {
        "Error: ErrImagePull",
        "Error: ImagePullBackOff",
    }


def test_img_15_a_success_with_another_image_does_not_clear_the_back_off(on_node, busybox, seen):
    """Fails (10 s), changed to a good image, changed back 23 s later: pulled at once, then 20 s."""

    async def story(node):
        node.apply(busybox(spec={"terminationGracePeriodSeconds": 1}, a=image(BAD), keep="sleep 3600"))
        await node.advance(5)

        def change(name):
            node.store.patch("Pod", "default", "p", {"spec": {"containers": [{"name": "a", "image": name}]}})

        change("docker.io/library/busybox:1.36")
        await node.advance(18)
        running = node.pod("p").status.container_statuses[0].state.running is not None
        changed = node.clock.elapsed_seconds() - node.recorder.zero_seconds
        change(BAD)
        await node.advance(13.9)
        await node.advance(5)
        told = seen(node).events("BackOff")[-1]["t"]
        return running, changed, [call["t"] for call in seen(node).calls("PullImage")], told

    running, changed, at, told = on_node(story)
    assert running
    assert len(at) == 2
    assert 0 <= at[1] - changed < 3
    assert 10.0 < told - at[1] < 16.0


@pytest.mark.parametrize(
    ("policy", "name", "calls", "events"),
    [
        ("IfNotPresent", REMOTE, 1, ["Pulling", "Pulled"]),
        ("IfNotPresent", "docker.io/library/busybox:1.36", 0, ["Pulled"]),
        ("Always", "docker.io/library/busybox:1.36", 1, ["Pulling", "Pulled"]),
        ("Never", REMOTE, 0, ["ErrImageNeverPull"]),
        ("Never", "docker.io/library/busybox:1.36", 0, ["Pulled"]),
    ],
    ids=["absent", "present", "always", "IMG-51-never-absent", "IMG-51-never-present"],
)
def test_img_05_policies(on_node, busybox, seen, policy, name, calls, events):
    async def story(node):
        node.apply(busybox(a=image(name, imagePullPolicy=policy)))
        await node.advance(9)
        return seen(node)

    look = on_node(story)
    assert len(look.calls("PullImage")) == calls
    found = [e["reason"] for e in look.events("Pulling", "Pulled", "ErrImageNeverPull")]
    assert list(dict.fromkeys(found)) == events


def test_img_06_always_pulls_at_every_start(on_node, busybox, seen):
    async def story(node):
        node.apply(
            busybox(a=image("docker.io/library/busybox:1.36", "sleep 1; exit 1", imagePullPolicy="Always"))
        )
        await node.advance(20)
        return seen(node)

    look = on_node(story)
    assert len(look.calls("PullImage")) == len(look.calls("CreateContainer")) == 3


def test_img_07_the_pulled_event_tells_both_durations_and_the_size(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=image(REMOTE)))
        node.apply(busybox("q", a=image(OTHER)))
        await node.advance(12)
        return seen(node).messages("Pulled")

    slow = {REMOTE: PullBehaviour(duration_seconds=2.5), OTHER: PullBehaviour(duration_seconds=1.25)}
    first, second = on_node(story, **on_pulls(slow))
    assert first.startswith(
        f'Successfully pulled image "{REMOTE}" in 2.5s (2.5s including waiting). Image size: '
    )
    assert first.endswith(" bytes.")
    assert second.startswith(f'Successfully pulled image "{OTHER}" in 1.25s (3.75s including waiting).')


def pull_times(on_node, busybox, seen, **settings):
    names = [f"registry.example/team/tool:v{number}" for number in range(4)]

    async def story(node):
        for number, name in enumerate(names):
            node.apply(busybox(f"p{number}", a=image(name)))
        await node.advance(30)
        return sorted((call["t"], call["t"] + call["dt"]) for call in seen(node).calls("PullImage"))

    slow = {name: PullBehaviour(duration_seconds=3.0) for name in names}
    return on_node(story, settings=KubeletSettings(**settings), **on_pulls(slow))


def test_img_20_pulls_are_serial_by_default(on_node, busybox, seen):
    times = pull_times(on_node, busybox, seen)
    assert [round(begin) for begin, _ in times] == [0, 3, 6, 9]


def test_img_21_parallel_pulls_are_limited_by_their_number(on_node, busybox, seen):
    times = pull_times(on_node, busybox, seen, serialize_image_pulls=False, max_parallel_image_pulls=2)
    assert [round(begin) for begin, _ in times] == [0, 0, 3, 3]


def test_img_21_without_a_limit_all_run_at_once(on_node, busybox, seen):
    times = pull_times(on_node, busybox, seen, serialize_image_pulls=False)
    assert [round(begin) for begin, _ in times] == [0, 0, 0, 0]


def test_img_19_pulls_beyond_the_rate_fail_without_a_call(on_node, busybox, seen):
    async def story(node):
        for number in range(4):
            node.apply(busybox(f"p{number}", a=image(f"registry.example/team/tool:v{number}")))
        await node.advance(2)
        return seen(node)

    look = on_node(
        story, settings=KubeletSettings(registry_qps=1, registry_burst=2, serialize_image_pulls=False)
    )
    failed = [m for m in look.messages("Failed") if m.startswith("Failed to pull")]
    assert len(failed) == 2
    assert all(text.endswith(": pull QPS exceeded") for text in failed)


FAILURES = {
    "RegistryUnavailable": (
        PullBehaviour(failure="RegistryUnavailable: no route"),
        "RegistryUnavailable",
        f"image pull failed for {REMOTE} because the registry is unavailable: no route",
    ),
    "SignatureValidationFailed": (
        PullBehaviour(failure="SignatureValidationFailed: bad key"),
        "SignatureValidationFailed",
        f"image pull failed for {REMOTE} because the signature validation failed: bad key",
    ),
    "ErrImagePull": (
        PullBehaviour(failure="manifest unknown"),
        "ErrImagePull",
        f'failed to pull and unpack image "{REMOTE}": manifest unknown',
    ),
    "IMG-09": (
        PullBehaviour(failure="RegistryUnavailable: gone", code="NOT_FOUND"),
        "ErrImagePull",
        "rpc error: code = NotFound desc = RegistryUnavailable: gone",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_img_08_reasons_of_failed_pulls(on_node, busybox, seen, case):
    behaviour, reason, message = FAILURES[case]

    async def story(node):
        node.apply(busybox(a=image(REMOTE)))
        await node.advance(3)
        status = node.pod("p").status.container_statuses[0].state.waiting
        return status.reason, status.message, seen(node).messages("Failed")

    found, text, events = on_node(story, **on_pulls({REMOTE: behaviour}))
    assert (found, text) == (reason, message)
    assert events[0].startswith(f'Failed to pull image "{REMOTE}": ')
    assert events[1] == f"Error: {reason}"


@pytest.mark.parametrize(
    ("name", "event"),
    [("FAILED_IMAGE", "InspectFailed"), ("http://url", "InspectFailed")],
    ids=["IMG-04-case", "IMG-04-url"],
)
def test_img_04_names_that_cannot_be_parsed(on_node, busybox, seen, name, event):
    async def story(node):
        node.apply(busybox(a=image(name)))
        await node.advance(4)
        return node.pod("p").status.container_statuses[0].state.waiting, seen(node)

    waiting, look = on_node(story)
    assert waiting.reason == "InvalidImageName"
    assert waiting.message.startswith(f'Failed to apply default image tag "{name}": ')
    assert look.messages(event)[0] == waiting.message
    assert "Error: InvalidImageName" in look.messages("Failed")
    assert not look.calls("PullImage")


def test_img_12_a_pull_holds_up_the_later_containers(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=image(REMOTE), b="sleep 3600"))
        await node.advance(8)
        return seen(node)

    look = on_node(story, **on_pulls({REMOTE: PullBehaviour(duration_seconds=5.0)}))
    assert look.calls("StartContainer", of="b#")[0]["t"] >= 5.0


def test_img_45_a_failing_regular_container_does_not_stop_the_next(on_node, busybox):
    async def story(node):
        node.apply(busybox(a=image(BAD), b="sleep 3600"))
        await node.advance(3)
        status = node.pod("p").status
        return status.phase, status.container_statuses[1].state.running is not None

    assert on_node(story) == ("Pending", True)


def test_img_45_a_failing_init_container_ends_the_sync_a_sidecar_does_not(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox("plain", init=[("i", image(BAD))], a="sleep 3600"))
        side = image(BAD, restartPolicy="Always")
        node.apply(busybox("side", init=[("s", side)], a="sleep 3600"))
        await node.advance(6)
        return {call["pod"] for call in seen(node).calls("StartContainer")}

    assert on_node(story) == set()


def test_a_deletion_during_a_pull_waits_for_the_sync_and_ends_failed(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a=image(REMOTE)))
        await node.advance(2)
        node.delete("p", grace_seconds=5)
        await node.advance(2)
        during = [pod.status.phase for pod in node.pods()]
        await node.advance(16)
        return during, node.pods(), seen(node)

    during, pods, look = on_node(story, **on_pulls({REMOTE: PullBehaviour(duration_seconds=8.0)}))
    assert during == ["Pending"]
    assert pods == ()
    assert look.told("StartContainer", "StopContainer") == ["StartContainer a#0", "StopContainer a#0/5"]


def test_img_31_image_volumes_are_ensured_and_mounted(on_node, busybox, seen):
    async def story(node):
        volumes = [
            {"name": "v", "image": {"reference": REMOTE}},
            {"name": "w", "image": {"reference": OTHER}},
        ]
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/tool"}]}
        node.apply(
            busybox(spec={"volumes": volumes}, a={"script": "ls /tool/etc > /out; sleep 3600", **mount})
        )
        await node.advance(30)
        found = await node.exec("default", "p", "a", ["cat", "/out"])
        return found, seen(node)

    (code, out, _), look = on_node(story)
    assert (code, out) == (0, b"group\npasswd\n")
    assert [event["on"] for event in look.events("Pulled")][:2] == ["", ""]


def test_img_32_a_missing_image_volume_stops_only_who_mounts_it(on_node, busybox, seen):
    async def story(node):
        volumes = [{"name": "v", "image": {"reference": BAD}}]
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/tool"}]}
        node.apply(busybox(spec={"volumes": volumes}, a={"script": "sleep 3600", **mount}, b="sleep 3600"))
        await node.advance(12)
        return node.pod("p").status.container_statuses, seen(node)

    (mounting, other), look = on_node(story)
    assert mounting.state.waiting.reason in ("ErrImagePull", "ImagePullBackOff")
    assert other.state.running is not None
    assert look.messages("Failed", on="{a}")[0] == "Error: ErrImagePull"


def test_img_23_missing_pull_secrets_are_told_and_do_not_stop_the_pull(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(spec={"imagePullSecrets": [{"name": "one"}, {"name": "two"}]}, a=image(REMOTE)))
        await node.advance(20)
        return node.pod("p").status.phase, seen(node)

    phase, look = on_node(story)
    assert phase == "Running"
    assert look.messages("FailedToRetrieveImagePullSecret")[0] == (
        "Unable to retrieve some image pull secrets (one, two); attempting to pull the image may not succeed."
    )


def test_img_24_credentials_of_a_pull_secret_go_with_the_call(on_node, busybox):
    config = base64.b64encode(b'{"auths":{"registry.example":{"auth":"dTpw"}}}').decode()
    secret = {
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "one", "namespace": "default"},
        "data": {".dockerconfigjson": config},
    }

    async def story(node):
        node.apply_object(secret)
        pod = node.apply(busybox(spec={"imagePullSecrets": [{"name": "one"}]}, a=image(REMOTE)))
        await node.advance(20)
        source = node.kubelet.pull_secrets
        return [(c.username, c.password) for c in await source.lookup(pod, REMOTE)], await source.lookup(
            pod, BAD
        )

    assert on_node(story) == ([("u", "p")], ())
