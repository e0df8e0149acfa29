"""The image service over the wire (CRI section 8)."""

import pytest
import trio

from cri_fake.behaviours import Behaviour, Behaviours, PullBehaviour, Target
from cri_fake.catalogue import PAUSE_IMAGE, Catalogue
from cri_fake.latency import MeasuredLatency
from cri_fake.store.images import ImageConfig
from k8s_proto import runtime_v1_pb2 as cri


async def image(rig, name):
    reply = await rig.images.ImageStatus(cri.ImageStatusRequest(image=cri.ImageSpec(image=name)))
    return reply.image if reply.HasField("image") else None


async def remove(rig, name):
    await rig.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))


def test_preloaded_images_CRI_096(drive):
    async def body(rig):
        listed = (await rig.images.ListImages(cri.ListImagesRequest())).images
        assert [list(each.repo_tags) for each in listed] == [
            ["docker.io/library/busybox:1.35"],
            ["docker.io/library/busybox:1.36"],
            [PAUSE_IMAGE],
        ]
        assert [each.pinned for each in listed] == [False, False, True]
        assert len({each.id for each in listed}) == 3
        assert all(each.size > 0 and not each.repo_digests for each in listed)

    drive(body)


def test_absent_image_is_ok_and_unset_CRI_092(drive):
    async def body(rig):
        assert await image(rig, "nowhere/x:1") is None
        assert await image(rig, "") is None
        assert await image(rig, "Not A Reference!") is None

    drive(body)


def test_pull_gives_the_id_everywhere_CRI_090_CRI_093(drive):
    async def body(rig):
        ref = await rig.pull("gcr.io/team/app:v1")
        found = await image(rig, "gcr.io/team/app:v1")
        assert found.id == ref
        assert list(found.repo_tags) == ["gcr.io/team/app:v1"]
        assert len(found.repo_digests) == 1
        for name in (ref, ref.removeprefix("sha256:")[:12], found.repo_digests[0]):
            assert await image(rig, name) == found
        config = rig.container_config(script=None, image=cri.ImageSpec(image=ref))
        container = await rig.create(await rig.run_pod(), config=config)
        status = await rig.status(container)
        assert status.image_id == ref
        assert status.image_ref == found.repo_digests[0]
        assert status.image.image == "gcr.io/team/app:v1"

    drive(body)


def test_removed_image_leaves_its_containers_alone_CRI_094_CRI_208(drive):
    async def body(rig):
        ref = await rig.pull("gcr.io/team/app:v1")
        config = rig.container_config(script=None, image=cri.ImageSpec(image=ref))
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(remove, rig, "gcr.io/team/app:v1")
        assert await image(rig, ref) is None
        status = await rig.status(container)
        assert (status.state, status.image_id, status.image_ref) == (cri.CONTAINER_RUNNING, ref, ref)
        assert status.image.image == ref
        await remove(rig, "never/there:1")

    drive(body)


def test_refused_registry_and_malformed_reference(drive):
    async def body(rig):
        before = rig.clock.elapsed_seconds()
        code, text = await rig.refused(rig.pull("127.0.0.1:1/absent/image:v1"))
        assert code == "UNKNOWN"
        assert text.endswith("dial tcp 127.0.0.1:1: connect: connection refused")
        assert rig.clock.elapsed_seconds() - before < 0.05
        assert await image(rig, "127.0.0.1:1/absent/image:v1") is None
        assert (await rig.refused(rig.pull("docker.io/UPPER/x")))[0] == "UNKNOWN"

    drive(body, latency=MeasuredLatency)


def test_pull_takes_its_time_CRI_170_CRI_192(drive):
    async def body(rig):
        before = rig.clock.elapsed_seconds()
        await rig.pull("gcr.io/team/app:v1")
        took = rig.clock.elapsed_seconds() - before
        size = (await image(rig, "gcr.io/team/app:v1")).size
        assert size / (20 << 20) + 0.5 <= took <= size / (20 << 20) + 2.0
        before = rig.clock.elapsed_seconds()
        await rig.pull("gcr.io/team/app:v1")
        assert 0.05 <= rig.clock.elapsed_seconds() - before <= 0.3

    drive(body, latency=MeasuredLatency)


def test_cancelled_pull_leaves_nothing_CRI_097_CRI_170(drive):
    async def body(rig):
        request = cri.PullImageRequest(image=cri.ImageSpec(image="gcr.io/team/app:v1"))
        refusal = await rig.refused(rig.images.PullImage(request, timeout_seconds=0.001))
        assert refusal[0] == "DEADLINE_EXCEEDED"
        await rig.clock.sleep(60)
        assert await image(rig, "gcr.io/team/app:v1") is None

    drive(body, latency=MeasuredLatency)


def test_parallel_pulls_of_one_image_succeed_CRI_097(drive):
    async def body(rig):
        refs = []

        async def pull():
            refs.append(await rig.pull("gcr.io/team/app:v1"))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(pull)
        assert len(refs) == 4
        assert len(set(refs)) == 1

    drive(body, latency=MeasuredLatency)


@pytest.mark.parametrize(
    ("user", "uid", "username"),
    [
        pytest.param("1002", 1002, "", id="CRI-095-number"),
        pytest.param("www-data", None, "www-data", id="CRI-095-name"),
        pytest.param("1003:www-data", 1003, "", id="CRI-095-number-and-group"),
        pytest.param("www-data:1003", None, "www-data", id="CRI-095-name-and-group"),
        pytest.param("", 0, "", id="CRI-095-none-is-root"),
    ],
)
def test_user_of_an_image(drive, user, uid, username):
    async def body(rig):
        await rig.pull("gcr.io/team/app:v1")
        found = await image(rig, "gcr.io/team/app:v1")
        assert (found.uid.value if found.HasField("uid") else None) == uid
        assert found.username == username

    drive(body, catalogue=Catalogue(configs={"app": ImageConfig(command=("app",), user=user)}))


def test_image_fs_info_CRI_099(drive):
    async def body(rig):
        reply = await rig.images.ImageFsInfo(cri.ImageFsInfoRequest())
        first = reply.image_filesystems[0]
        assert first.timestamp > 0
        assert first.fs_id.mountpoint.startswith("/")
        assert first.used_bytes.value > 0
        assert first.HasField("inodes_used")
        await rig.pull("gcr.io/team/app:v1")
        after = (await rig.images.ImageFsInfo(cri.ImageFsInfoRequest())).image_filesystems[0]
        assert after.used_bytes.value > first.used_bytes.value
        assert reply.container_filesystems

    drive(body)


def test_told_pull_failures_end_after_their_count(drive):
    async def body(rig):
        before = rig.clock.elapsed_seconds()
        for _ in range(2):
            assert await rig.refused(rig.pull("app:v1")) == (
                "NOT_FOUND",
                'failed to pull and unpack image "docker.io/library/app:v1": manifest unknown',
            )
        assert rig.clock.elapsed_seconds() - before == pytest.approx(6)
        assert (await rig.pull("app:v1")).startswith("sha256:")

    told = PullBehaviour(failure="manifest unknown", code="NOT_FOUND", duration_seconds=3.0, times=2)
    drive(body, behaviours=Behaviours(images={"app:v1": told}))


def test_told_pull_by_container_CRI_098(drive):
    async def body(rig):
        rig.runtime.bind_images("web", {"main": "app:v1", "other": "b:1"})
        assert (await rig.refused(rig.pull("docker.io/library/app:v1")))[1].endswith(": no disk")
        await rig.pull("b:1")
        await rig.pull("app:v1", pod="elsewhere")

    told = Behaviours({Target("main"): Behaviour(pull=PullBehaviour(failure="no disk"))})
    drive(body, behaviours=told)


def test_stop_signal_of_the_image_CRI_049(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        for number, (name, signal) in enumerate(
            (("nginx:1", "SIGNAL_SIGQUIT"), ("httpd:2", "SIGNAL_SIGWINCH"), ("app:1", "SIGNAL_SIGTERM"))
        ):
            await rig.pull(name)
            config = rig.container_config(f"c{number}", script=None, image=cri.ImageSpec(image=name))
            status = await rig.status(await rig.create(sandbox, config=config))
            assert cri.Signal.Name(status.stop_signal) == signal
        config = rig.container_config("own", stop_signal=cri.SIGNAL_SIGUSR1)
        status = await rig.status(await rig.create(sandbox, config=config))
        assert status.stop_signal == cri.SIGNAL_SIGUSR1

    drive(body)
