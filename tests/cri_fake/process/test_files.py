"""A container's file system: layer, image, mounts, links, limits. Nothing leads out of it."""

import errno

import pytest

from cri_fake.process import ContainerFiles, Mount, executable
from node_host.files import MemoryFiles


def container(*mounts: Mount, prepare=None, **options) -> tuple[ContainerFiles, MemoryFiles]:
    node = MemoryFiles()
    node.make_dirs("/var/lib/pod/work")
    node.make_dirs("/secret")
    node.write("/secret/key", b"top secret")
    node.write("/var/lib/pod/message", b"")
    if prepare is not None:
        prepare(node)
    return ContainerFiles(node, mounts=mounts, **options), node


WORK = Mount("/work", "/var/lib/pod/work", False)
WORK_READONLY = Mount("/work", "/var/lib/pod/work", True)
MESSAGE = Mount("/dev/termination-log", "/var/lib/pod/message", False)


def code_of(call, *arguments, **options) -> int | None:
    with pytest.raises(OSError) as raised:  # noqa: PT011
        call(*arguments, **options)
    return raised.value.errno


def test_layer_is_private_and_work_is_shared():
    files, node = container(WORK)
    files.write("/tmp/a", b"1")
    files.write("/work/b", b"2")
    assert node.read("/var/lib/pod/work/b") == b"2"
    assert not node.exists("/tmp/a")
    other = ContainerFiles(node, mounts=[WORK])
    assert (other.exists("/tmp/a"), other.read("/work/b")) == (False, b"2")


def test_busybox_image_has_its_programs_and_folders():
    files, _ = container()
    assert files.list("/") == ["bin", "dev", "etc", "home", "lib", "proc", "root", "sys", "tmp", "usr", "var"]
    assert files.stat("/bin/sh").mode == 0o755
    assert files.stat("/tmp").mode == 0o1777
    assert files.stat("/dev/null").kind == "char"


def test_image_is_not_changed_by_a_container():
    first, node = container()
    first.write("/etc/passwd", b"gone")
    first.unlink("/bin/ls")
    first.rename("/bin/cat", "/bin/dog")
    first.chmod("/bin/sh", 0o700)
    second = ContainerFiles(node, mounts=[])
    assert second.read("/etc/passwd").startswith(b"root:")
    assert second.exists("/bin/ls")
    assert second.read("/bin/cat") == executable("cat")
    assert second.stat("/bin/sh").mode == 0o755
    assert (first.exists("/bin/ls"), first.exists("/bin/cat"), first.exists("/bin/dog")) == (
        False,
        False,
        True,
    )
    assert "ls" not in first.list("/bin")


def test_image_files_are_part_of_the_image():
    files, _ = container(image_files={"/app/run.sh": b"#!/bin/sh\necho hi\n", "/etc/app.conf": b"x=1\n"})
    assert files.stat("/app/run.sh").mode == 0o755
    assert files.stat("/etc/app.conf").mode == 0o644
    files.write("/etc/app.conf", b"x=2\n")
    assert files.read("/etc/app.conf") == b"x=2\n"


@pytest.mark.parametrize(
    "target", ["/secret/key", "../../secret/key", "../../../../../secret/key", "/../secret/key"]
)
def test_links_resolve_inside_the_container(target):
    def prepare(node: MemoryFiles) -> None:
        node.symlink(target, "/var/lib/pod/work/escape")

    files, _ = container(WORK, prepare=prepare)
    assert code_of(files.read, "/work/escape") == errno.ENOENT
    files.symlink(target, "/link")
    assert code_of(files.read, "/link") == errno.ENOENT
    assert code_of(files.write, "/work/escape", b"x") in (errno.ENOENT, None)


def test_writing_through_a_link_in_a_volume_stays_inside():
    def prepare(node: MemoryFiles) -> None:
        node.symlink("/tmp/made", "/var/lib/pod/work/out")

    files, node = container(WORK, prepare=prepare)
    files.write("/work/out", b"layer")
    assert files.read("/tmp/made") == b"layer"
    assert not node.exists("/tmp/made")


def test_dot_dot_stops_at_the_root():
    files, _ = container(WORK)
    files.write("/top", b"1")
    assert files.read("/../../../top") == b"1"
    assert files.read("/work/../top") == b"1"
    assert files.real_path("/work/../../etc/./passwd") == "/etc/passwd"


def test_config_map_links_resolve_inside_the_volume():
    def prepare(node: MemoryFiles) -> None:
        node.make_dirs("/var/lib/pod/work/..2026_01")
        node.write("/var/lib/pod/work/..2026_01/key", b"value")
        node.symlink("..2026_01", "/var/lib/pod/work/..data")
        node.symlink("..data/key", "/var/lib/pod/work/key")

    files, _ = container(WORK, prepare=prepare)
    assert files.read("/work/key") == b"value"
    assert files.real_path("/work/key") == "/work/..2026_01/key"


def test_read_only_mount():
    files, node = container(WORK_READONLY)
    node.write("/var/lib/pod/work/a", b"1")
    assert files.read("/work/a") == b"1"
    assert code_of(files.write, "/work/a", b"2") == errno.EROFS
    assert code_of(files.write, "/work/new", b"2") == errno.EROFS
    assert code_of(files.unlink, "/work/a") == errno.EROFS
    assert code_of(files.make_dir, "/work/d") == errno.EROFS
    assert node.list("/var/lib/pod/work") == ["a"]


def test_read_only_root_still_lets_mounts_be_written():
    files, node = container(WORK, MESSAGE, readonly_root=True)
    assert code_of(files.write, "/tmp/a", b"") == errno.EROFS
    files.write("/work/a", b"1")
    files.write("/dev/termination-log", b"bye")
    assert node.read("/var/lib/pod/message") == b"bye"


def test_mounted_file_and_nested_mounts():
    files, node = container(
        Mount("/work", "/var/lib/pod/work", False), Mount("/work/inner", "/secret", True), MESSAGE
    )
    assert files.read("/work/inner/key") == b"top secret"
    assert files.list("/work") == ["inner"]
    assert code_of(files.remove_dir, "/work/inner") == errno.EBUSY
    assert code_of(files.remove_dir, "/work") == errno.EBUSY
    assert code_of(files.unlink, "/dev/termination-log") == errno.EBUSY
    assert code_of(files.rename, "/work", "/other") == errno.EBUSY
    assert node.exists("/secret/key")


def test_moves_between_file_systems_fail_with_exdev():
    files, _ = container(WORK)
    files.write("/tmp/a", b"1")
    assert code_of(files.rename, "/tmp/a", "/work/a") == errno.EXDEV
    assert code_of(files.link, "/tmp/a", "/work/a") == errno.EXDEV


def test_layer_is_bounded():
    files, _ = container(layer_bytes=1000)
    files.write("/tmp/a", b"x" * 900)
    assert code_of(files.write, "/tmp/b", b"x" * 200) == errno.ENOSPC
    files.unlink("/tmp/a")
    files.write("/tmp/c", b"x" * 900)
    assert files.used_bytes == 900


def test_endless_links_and_long_names_are_errors():
    files, _ = container()
    files.symlink("/b", "/a")
    files.symlink("/a", "/b")
    assert code_of(files.read, "/a") == errno.ELOOP
    assert code_of(files.write, "/" + "n" * 256, b"") == errno.ENAMETOOLONG
    assert code_of(files.read, "") == errno.ENOENT
    assert code_of(files.read, "/a\0b") == errno.EINVAL


def test_errors_of_kinds():
    files, _ = container()
    files.write("/f", b"1")
    files.make_dir("/d")
    files.write("/d/x", b"1")
    assert code_of(files.read, "/f/x") == errno.ENOTDIR
    assert code_of(files.write, "/d", b"") == errno.EISDIR
    assert code_of(files.unlink, "/d") == errno.EISDIR
    assert code_of(files.remove_dir, "/f") == errno.ENOTDIR
    assert code_of(files.remove_dir, "/d") == errno.ENOTEMPTY
    assert code_of(files.make_dir, "/d") == errno.EEXIST
    assert code_of(files.list, "/f") == errno.ENOTDIR
    assert code_of(files.rename, "/d", "/d/inner") == errno.EINVAL
    assert code_of(files.rename, "/f", "/d") == errno.EISDIR
    assert code_of(files.read_link, "/f") == errno.EINVAL


def test_hard_links_share_content_and_survive_each_other():
    files, _ = container()
    files.write("/a", b"1")
    files.link("/a", "/b")
    files.write("/a", b"2")
    files.unlink("/a")
    assert files.read("/b") == b"2"


def test_rm_rf_of_the_root_harms_the_layer_and_writable_mounts_only(in_box):
    async def use(box):
        done = await box.run(
            ["sh", "-c", "rm -rf / 2>/dev/null; echo $?; echo *; echo x > /dev/null; echo still"]
        )
        return done.out, box.node.list("/vol"), box.node.list("/ro"), box.node.exists("/outside")

    mounts = [Mount("/work", "/vol", False), Mount("/ro", "/ro", True)]
    node = {"/vol/a": b"1", "/ro/b": b"2", "/outside": b"3"}
    out, vol, readonly, outside = in_box(use, mounts=mounts, node=node)
    assert out == "1\ndev proc ro sys work\nstill\n"
    assert (vol, readonly, outside) == ([], ["b"], True)


def test_programs_are_files_that_can_be_copied_and_removed(sh):
    script = "cp /bin/echo /tmp/say; /tmp/say hi; ln -s say /tmp/o; /tmp/o you; rm /bin/ls; ls; echo $?"
    assert sh(script).out == "hi\nyou\n127\n"


def test_copied_program_runs_from_a_volume(sh):
    done = sh("cp /bin/busybox /work/bb; /work/bb echo hi", mounts=[WORK], node={"/var/lib/pod/work/x": b""})
    assert done.out == "hi\n"


def test_open_file_outlives_its_name(sh):
    assert sh("echo hi > /tmp/f; exec 3< /tmp/f; rm /tmp/f; cat <&3").out == "hi\n"


def test_every_start_is_fresh_but_volumes_stay(in_box):
    script = (
        "[ -f /tmp/again ] && echo layer; [ -f /work/again ] && echo volume; touch /tmp/again /work/again"
    )

    def once(node):
        async def use(box):
            box.node.make_dirs("/vol")
            if node:
                box.node.write("/vol/again", b"")
            done = await box.run(["sh", "-c", script])
            return done.out, box.node.exists("/vol/again")

        return in_box(use, mounts=[Mount("/work", "/vol", False)])

    assert once(False) == ("", True)
    assert once(True) == ("volume\n", True)


def test_termination_message_is_a_mount(sh, in_box):
    async def use(box):
        await box.run(["sh", "-c", "printf bye > /dev/termination-log; exit 4"])
        return box.node.read("/var/lib/pod/message")

    assert in_box(use, mounts=[MESSAGE], node={"/var/lib/pod/message": b""}) == b"bye"


def test_failed_write_to_a_volume_does_not_name_the_nodes_path(sh):
    script = "mkdir /work/d; (sleep 1; echo a) | tee -a /work/d/x & sleep 0.5; rm -r /work/d; wait"
    done = sh(script, mounts=[WORK], node={"/var/lib/pod/work/x": b""})
    assert "/var/lib" not in done.out + done.err


def test_a_hole_in_a_file_of_a_volume_takes_no_memory_without_bound(sh):
    far = "dd of=/work/x bs=1 count=1 seek=99999999999 </dev/zero 2>&1; truncate -s 90G /work/y"
    done = sh(far, mounts=[WORK], node={"/var/lib/pod/work/z": b""})
    assert done.out.startswith("dd: File too large\n")
    assert "File too large" in done.err
