"""Images: names, sequences of IMG-30, back-off, credentials, throttle (IMG-03 to IMG-32)."""

import attrs
import pytest
import trio

from kubelet_emu.api.types import Container, ImageVolumeSource, Volume, VolumeMount
from kubelet_emu.container.runtime import StartError
from kubelet_emu.kuberuntime import images
from kubelet_emu.kuberuntime.images_manager import ImageRequest
from kubelet_emu.kuberuntime.seams import PullCredential
from kubelet_emu.settings import KubeletSettings
from trio_grpc import Code, StatusError

DIGEST = "sha256:" + "a" * 64
NAMES = [
    pytest.param("root", "root:latest", id="IMG-04-bare"),
    pytest.param("root:latest", "root:latest", id="IMG-04-latest"),
    pytest.param("root:tag", "root:tag", id="IMG-04-tag"),
    pytest.param(f"root@{DIGEST}", f"root@{DIGEST}", id="IMG-04-digest"),
    pytest.param(f"root:tag@{DIGEST}", f"root:tag@{DIGEST}", id="IMG-04-both"),
    pytest.param("FAILED_IMAGE", None, id="IMG-04-upper"),
    pytest.param("http://url", None, id="IMG-04-url"),
    pytest.param("a" * 64, None, id="IMG-04-hex"),
]


@pytest.mark.parametrize(("written", "sent"), NAMES)
def test_names(written, sent):
    assert images.apply_default_tag(written) == sent


def test_img_07_durations_are_cut_to_milliseconds():
    assert images.pulled_text("a", 1_234_567_890, 2_000_999_999, 7) == (
        'Successfully pulled image "a" in 1.234s (2s including waiting). Image size: 7 bytes.'
    )


PULL_ERRORS = [
    pytest.param("RegistryUnavailable: x", "RegistryUnavailable", "because the registry is unavailable: x"),
    pytest.param("SignatureValidationFailed", "SignatureValidationFailed", "the signature validation failed"),
    pytest.param("manifest unknown", "ErrImagePull", "manifest unknown"),
]


@pytest.mark.parametrize(("error", "reason", "end"), PULL_ERRORS)
def test_img_08_reason_by_prefix(error, reason, end):
    found = images.image_error_of_pull("typo_image", error)
    assert found.reason == reason
    assert found.message.endswith(end)


def ask(bench, pod, image, policy):
    """One request after a second; the outcome as reason, and the calls it made."""

    async def go():
        await bench.clock.sleep(1)
        bench.cri.calls.clear()
        bench.cri.reads.clear()
        request = ImageRequest(
            pod=pod, image=image, policy=policy, field_path="", handler="", sandbox_config=None
        )
        try:
            await bench.runtime.images.ensure(request)
        except StartError as error:
            outcome = error.name
        else:
            outcome = ""
        calls = [call.split()[0] for call in (*bench.cri.reads, *bench.cri.calls)]
        return outcome, calls

    return go()


def quick_backoff(bench):
    """The tables' back-off starts at one second."""
    table = bench.runtime.images.backoff
    bench.runtime.images.backoff = attrs.evolve(
        table, limits=attrs.evolve(table.limits, initial_ns=10**9, cap_ns=60 * 10**9)
    )


SEQUENCES = [
    pytest.param(
        "busybox:1.36", "IfNotPresent", {}, [("", ["ImageStatus"])] * 3, id="IMG-30-present-ifnotpresent"
    ),
    pytest.param(
        "busybox:1.36", "Always", {}, [("", ["ImageStatus", "PullImage"])] * 3, id="IMG-30-present-always"
    ),
    pytest.param("gone:1", "Never", {}, [("ErrImageNeverPull", ["ImageStatus"])] * 3, id="IMG-30-never"),
    pytest.param(
        "gone:1", "IfNotPresent", {}, [("", ["ImageStatus", "ImageStatus", "PullImage"])], id="IMG-30-missing"
    ),
    pytest.param(
        "busybox:1.36",
        "IfNotPresent",
        {"ImageStatus": StatusError(Code.UNKNOWN, "bad")},
        [("ImageInspectError", ["ImageStatus"])] * 3,
        id="IMG-30-inspect-error",
    ),
    pytest.param(
        "gone:1",
        "IfNotPresent",
        {"PullImage": StatusError(Code.UNKNOWN, "404")},
        [
            ("ErrImagePull", ["ImageStatus", "PullImage"]),
            ("ErrImagePull", ["ImageStatus", "PullImage"]),
            ("ImagePullBackOff", ["ImageStatus"]),
            ("ErrImagePull", ["ImageStatus", "PullImage"]),
            ("ImagePullBackOff", ["ImageStatus"]),
            ("ImagePullBackOff", ["ImageStatus"]),
        ],
        id="IMG-30-pull-error",
    ),
    pytest.param(
        "typo_image:1",
        "IfNotPresent",
        {"PullImage": StatusError(Code.UNKNOWN, "SignatureValidationFailed")},
        [
            ("SignatureValidationFailed", ["ImageStatus", "PullImage"]),
            ("SignatureValidationFailed", ["ImageStatus", "PullImage"]),
            ("ImagePullBackOff", ["ImageStatus"]),
            ("SignatureValidationFailed", ["ImageStatus", "PullImage"]),
            ("ImagePullBackOff", ["ImageStatus"]),
        ],
        id="IMG-30-signature",
    ),
    pytest.param("http://url", "Always", {}, [("InvalidImageName", [])], id="IMG-30-invalid-name"),
]


@pytest.mark.parametrize(("image", "policy", "fail", "expected"), SEQUENCES)
def test_sequences(on_bench, a_pod, image, policy, fail, expected):
    async def body(bench):
        quick_backoff(bench)
        bench.cri.fail = fail
        pod = a_pod("a")
        assert [await ask(bench, pod, image, policy) for _ in expected] == expected

    on_bench(body)


def test_img_30_throttled_pulls_make_no_call(on_bench, a_pod):
    async def body(bench):
        quick_backoff(bench)
        pod = a_pod("a")
        outcomes = [await ask(bench, pod, "gone:1", "Always") for _ in range(3)]
        assert outcomes == [("ErrImagePull", []), ("ErrImagePull", []), ("ImagePullBackOff", [])]
        assert 'Failed: Failed to pull image "gone:1": pull QPS exceeded' in bench.events.texts()

    on_bench(body, settings=KubeletSettings(registry_burst=0))


def test_img_16_back_off_repeats_the_last_failure(on_bench, a_pod):
    async def body(bench):
        bench.cri.fail = {"PullImage": StatusError(Code.NOT_FOUND, "no such")}
        pod = a_pod(Container(name="a", image="gone:1"))
        await bench.sync(pod)
        result = await bench.sync(pod)
        assert result.failed[0].message == (
            'Back-off pulling image "gone:1": ErrImagePull: rpc error: code = NotFound desc = no such'
        )
        assert result.failed[0].backoff_until_seconds is None
        assert bench.events.texts() == [
            'Pulling: Pulling image "gone:1"',
            'Failed: Failed to pull image "gone:1": rpc error: code = NotFound desc = no such',
            "Failed: Error: ErrImagePull",
            'BackOff: Back-off pulling image "gone:1"',
            "Failed: Error: ImagePullBackOff",
        ]
        assert bench.events.seen[3][0] == "Normal"

    on_bench(body)


class Credentials:
    def __init__(self, *found):
        self.found = found

    async def lookup(self, pod, image):
        return self.found


def secret(name, uid="1"):
    return PullCredential(
        username=name, secret_uid=uid, secret_namespace="n", secret_name=name, secret_hash=f"h-{name}-{uid}"
    )


def test_img_24_each_credential_is_tried_and_errors_are_joined(on_bench, a_pod):
    async def body(bench):
        bench.cri.fail = {"PullImage": StatusError(Code.UNKNOWN, "denied")}
        assert await ask(bench, a_pod("a"), "gone:1", "Always") == ("ErrImagePull", ["PullImage"] * 2)
        assert [request.auth.username for _, request in bench.cri.requests] == ["one", "two"]
        assert bench.events.texts()[-1] == 'Failed: Failed to pull image "gone:1": denied'

    on_bench(body, credentials=Credentials(secret("one"), secret("two")))


def test_img_26_a_pulled_image_is_only_for_those_who_may_see_it():
    record = images.record_pull(None, "private:1", secret("one"))
    may = [
        images.may_use_present("private:1", record, holders, ensure_secret=True)
        for holders in ((secret("one"),), (secret("one", uid="2"),), ())
    ]
    assert may == [True, False, False]
    assert not images.may_use_present("other:1", record, (secret("one"),), ensure_secret=True)
    assert images.may_use_present("private:1", None, (), ensure_secret=True)
    free = images.record_pull(record, "private:1", None)
    assert images.may_use_present("private:1", free, (), ensure_secret=True)


def test_img_20_pulls_are_serial_across_pods(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        async with trio.open_nursery() as nursery:
            for name in ("one:1", "two:1"):
                request = ImageRequest(
                    pod=pod, image=name, policy="Always", field_path="", handler="", sandbox_config=None
                )
                nursery.start_soon(bench.runtime.images.ensure, request)
        assert bench.clock.elapsed_seconds() == pytest.approx(3.0, abs=0.01)
        assert any("1.5s (3s including waiting)" in text for text in bench.events.texts())

    on_bench(body)


def test_img_30_parallel_pulls_are_limited(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a")
        async with trio.open_nursery() as nursery:
            for number in range(7):
                request = ImageRequest(
                    pod=pod,
                    image=f"i{number}:1",
                    policy="Always",
                    field_path="",
                    handler="",
                    sandbox_config=None,
                )
                nursery.start_soon(bench.runtime.images.ensure, request)
        assert bench.clock.elapsed_seconds() == pytest.approx(3.0, abs=0.01)

    on_bench(body, settings=KubeletSettings(serialize_image_pulls=False, max_parallel_image_pulls=5))


def volume(reference, policy="IfNotPresent"):
    return Volume(name="v", image=ImageVolumeSource(reference=reference, pull_policy=policy))


def test_img_31_image_volumes_are_ensured_and_mounted_by_the_runtime(on_bench, a_pod):
    async def body(bench):
        mount = VolumeMount(name="v", mount_path="/v", sub_path="sub")
        pod = a_pod(Container(name="a", volume_mounts=(mount,)), "b", volumes=(volume("busybox:1.36"),))
        await bench.sync(pod)
        request = next(r for m, r in bench.cri.requests if m == "CreateContainer")
        made = request.config.mounts[0]
        assert (made.container_path, made.image_sub_path, made.readonly, made.host_path) == (
            "/v",
            "sub",
            True,
            "",
        )
        assert made.image.user_specified_image == "busybox:1.36"
        assert bench.events.seen[0][3] == ""

    on_bench(body)


def test_img_32_a_failed_image_volume_holds_back_only_its_users(on_bench, a_pod):
    async def body(bench):
        mount = VolumeMount(name="v", mount_path="/v")
        pod = a_pod(Container(name="a", volume_mounts=(mount,)), "b", volumes=(volume("gone:1", "Never"),))
        result = await bench.sync(pod)
        assert [(r.target, r.error) for r in result.failed] == [("a", "ErrImageNeverPull")]
        assert bench.cri.states() == ["b#0 running"]

    on_bench(body)
