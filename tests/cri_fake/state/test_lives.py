# pyright: basic
"""A runtime that ends and begins again in the same folder."""

import os
import random
import tempfile
from pathlib import Path

import pytest

from cri_fake.network import Ipam
from cri_fake.state.journal import Journal
from k8s_proto import runtime_v1_pb2 as cri


@pytest.fixture
def live(drive):
    """``live(body, cut=None, **options)``: one life of the runtime; ``cut`` copies what is on disk first."""
    with tempfile.TemporaryDirectory(prefix="ke-") as made:
        folder = Path(made) / "state"

        def one(body, **options):
            async def inner(rig):
                return await body(rig)

            journal = Journal(str(folder), in_threads=False)
            try:
                return drive(inner, state=journal, ids=random.SystemRandom(), **options)
            finally:
                journal.close()

        one.folder = folder
        yield one


def test_all_is_found_again_CRI_191(live):
    async def first(rig):
        sandbox = await rig.run_pod()
        stopped = await rig.run_pod("old")
        await rig.stop_pod(stopped)
        gone = await rig.run_pod("gone")
        await rig.remove_pod(gone)
        created = await rig.create(sandbox, "created")
        running = await rig.run(sandbox, "running")
        ended = await rig.run(sandbox, "ended", script="echo hi; exit 3")
        await rig.exited(ended)
        image = await rig.pull("alpine:3.20")
        await rig.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image="busybox:1.35")))
        update = cri.UpdateContainerResourcesRequest(container_id=running)
        update.linux.cpu_shares = 77
        await rig.cri.UpdateContainerResources(update)
        state = {each: await rig.status(each) for each in (created, running, ended)}
        pods = {each: await rig.pod_status(each) for each in (sandbox, stopped)}
        listed = (await rig.images.ListImages(cri.ListImagesRequest())).images
        return state, pods, (created, running, ended), image, list(listed)

    state, pods, (created, running, ended), image, images = live(first)

    async def second(rig):
        assert await rig.pods() == list(pods)
        for each, status in pods.items():
            assert await rig.pod_status(each) == status
        assert await rig.containers() == [created, running, ended]
        assert await rig.status(created) == state[created]
        assert await rig.status(ended) == state[ended]
        lost = await rig.status(running)
        assert (lost.state, lost.exit_code, lost.reason) == (cri.CONTAINER_EXITED, 255, "Unknown")
        assert lost.resources.linux.cpu_shares == 77
        assert lost.started_at == state[running].started_at
        assert list((await rig.images.ListImages(cri.ListImagesRequest())).images) == images
        found = await rig.images.ImageStatus(cri.ImageStatusRequest(image=cri.ImageSpec(image="alpine:3.20")))
        assert found.image.id == image
        # and all of it goes on: names are held, the created one starts, a new one gets on in the same sandbox
        assert "is reserved for" in (await rig.refused(rig.run_pod()))[1]
        await rig.start(created)
        (sandbox, stopped) = pods
        again = await rig.run(sandbox, "running", attempt=1)
        assert (await rig.status(again)).created_at > state[ended].created_at
        await rig.remove_pod(sandbox)
        await rig.remove_pod(stopped)

    live(second)

    async def third(rig):
        assert await rig.pods() == await rig.containers() == []
        assert list((await rig.images.ListImages(cri.ListImagesRequest())).images) == images

    live(third)


def test_addresses_are_held_and_not_given_again_at_once_CRI_032(live):
    async def first(rig):
        held = (await rig.pod_status(await rig.run_pod("a"))).network.ip
        freed_pod = await rig.run_pod("b")
        freed = (await rig.pod_status(freed_pod)).network.ip
        await rig.remove_pod(freed_pod)
        return held, freed

    held, freed = live(first)

    async def second(rig):
        got = (await rig.pod_status(await rig.run_pod("c"))).network.ip
        assert got not in (held, freed)
        assert rig.runtime.world.ipam.holder(held) is not None

    live(second)
    ipam = Ipam("10.0.0.0/29")
    ipam.restored("x", ("10.0.0.3", "192.0.2.1"))
    ipam.go_on({"10.0.0.0/29": "10.0.0.3", "10.9.0.0/16": "10.9.0.4"})
    assert ipam.acquire("y", now_seconds=0) == ("10.0.0.4",)


def test_instances_count_on_over_lives(live):
    async def first(rig):
        sandbox = await rig.run_pod()
        await rig.remove(await rig.create(sandbox, "main"))
        return sandbox

    sandbox = live(first)

    async def second(rig):
        container = await rig.create(sandbox, "main", attempt=1)
        assert rig.runtime.world.containers.get(container).instance == 1

    live(second)


def test_whatever_was_answered_is_on_disk_at_that_moment(live):
    """The folder is copied right after each answer, as if the machine had died then."""
    snapshots = []

    def on_disk():
        (file,) = live.folder.glob("journal-*")
        return os.path.basename(file), file.read_bytes()

    async def first(rig):
        for number in range(6):
            sandbox = await rig.run_pod(f"pod{number}")
            snapshots.append((on_disk(), list(await rig.pods())))
            container = await rig.run(sandbox, pod=f"pod{number}")
            snapshots.append((on_disk(), list(await rig.pods())))
            assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
            if number % 2:
                await rig.remove_pod(sandbox)
                snapshots.append((on_disk(), list(await rig.pods())))

    live(first)
    assert len(snapshots) == 15
    for (name, data), pods in snapshots:
        for file in live.folder.glob("journal-*"):
            file.unlink()
        (live.folder / name).write_bytes(data)

        async def again(rig, pods=pods):
            assert await rig.pods() == pods

        live(again)


def test_loss_of_state_is_lasting_too(live):
    async def first(rig):
        await rig.run(await rig.run_pod())
        await rig.runtime.power_off(forget=True)
        await rig.runtime.restart()
        assert await rig.pods() == []

    live(first)

    async def second(rig):
        assert await rig.pods() == await rig.containers() == []

    live(second)


def test_what_ended_unasked_is_written_soon(live):
    async def first(rig):
        container = await rig.run(await rig.run_pod(), script="sleep 5; exit 9")
        await rig.clock.sleep(6)
        (file,) = live.folder.glob("journal-*")
        assert b'"exit_code":9' in file.read_bytes()
        return container

    container = live(first)

    async def second(rig):
        assert (await rig.status(container)).exit_code == 9

    live(second)
