"""One suite for both trees of files; what is said of one holds for the other."""

import errno
import os
import stat as stat_bits

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node_host.files import DiskFiles, FileStat, MemoryFiles


@pytest.fixture(params=["memory", "disk"])
def files(request, tmp_path):
    if request.param == "memory":
        return MemoryFiles()
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_bytes(b"outside")
    return DiskFiles(str(root))


def errno_of(call, *args, **options):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*args, **options)
    return errno.errorcode[caught.value.errno]


def test_write_read_append(files):
    files.make_dirs("/var/log/pods")
    files.write("/var/log/pods/0.log", b"hello ")
    files.append("/var/log/pods/0.log", b"world")
    assert files.read("/var/log/pods/0.log") == b"hello world"
    assert files.read("/var/log/pods/0.log", offset=6) == b"world"
    assert files.read("/var/log/pods/0.log", offset=2, limit=3) == b"llo"
    assert files.read("/var/log/pods/0.log", offset=100) == b""
    files.write("/var/log/pods/0.log", b"new")
    assert files.read("/var/log/pods/0.log") == b"new"
    files.append("/var/log/pods/1.log", b"made")
    assert files.list("/var/log/pods") == ["0.log", "1.log"]
    assert files.list("/var/log/pods/") == ["0.log", "1.log"]


def test_modes(files):
    files.write("/secret-key", b"k", mode=0o600)
    files.make_dirs("/private/deep", mode=0o700)
    assert files.stat("/secret-key").mode == 0o600
    assert files.stat("/private/deep").mode == 0o700
    files.chmod("/secret-key", 0o640)
    files.write("/secret-key", b"again", mode=0o777)
    found = files.stat("/secret-key")
    assert (found.kind, found.size, found.mode) == ("file", 5, 0o640)


def test_errors_are_those_of_the_system(files):
    files.make_dirs("/dir/sub")
    files.write("/file", b"x")
    assert errno_of(files.read, "/missing") == "ENOENT"
    assert errno_of(files.read, "/dir") == "EISDIR"
    assert errno_of(files.read, "/file/below") == "ENOTDIR"
    assert errno_of(files.read, "/missing/below") == "ENOENT"
    assert errno_of(files.write, "/missing/file", b"") == "ENOENT"
    assert errno_of(files.write, "/dir", b"") == "EISDIR"
    assert errno_of(files.write, "/", b"") == "EISDIR"
    assert errno_of(files.list, "/file") == "ENOTDIR"
    assert errno_of(files.list, "/missing") == "ENOENT"
    assert errno_of(files.make_dirs, "/file") == "EEXIST"
    assert errno_of(files.make_dirs, "/file/below") == "ENOTDIR"
    assert errno_of(files.remove, "/dir") == "ENOTEMPTY"
    assert errno_of(files.remove, "/missing") == "ENOENT"
    assert errno_of(files.remove, "/") == "EBUSY"
    assert errno_of(files.remove_tree, "/") == "EBUSY"
    assert errno_of(files.read_link, "/file") == "EINVAL"
    assert errno_of(files.symlink, "x", "/file") == "EEXIST"
    assert errno_of(files.symlink, "", "/empty") == "ENOENT"
    assert errno_of(files.rename, "/missing", "/other") == "ENOENT"
    assert errno_of(files.stat, "/missing") == "ENOENT"
    assert errno_of(files.chmod, "/missing", 0o600) == "ENOENT"
    for wrong in ("relative", "", "/nul\0"):
        assert errno_of(files.read, wrong) == "EINVAL"
    assert errno_of(files.write, "/" + "n" * 256, b"") == "ENAMETOOLONG"
    with pytest.raises(FileNotFoundError) as caught:
        files.read("/no/such/file")
    assert caught.value.filename == "/no/such/file"


def test_make_dirs_twice_and_through_dots(files):
    files.make_dirs("/a/b/c")
    files.make_dirs("/a/b/c")
    files.make_dirs("/a/./b/../d/")
    assert files.list("/a") == ["b", "d"]
    files.make_dirs("/")


def test_remove(files):
    files.make_dirs("/a/b")
    files.write("/a/b/f", b"1")
    files.symlink("/a/b", "/link")
    files.remove("/link")
    assert files.read("/a/b/f") == b"1"
    files.symlink("/a/b", "/a/loop")
    files.remove_tree("/a")
    files.remove_tree("/a")
    files.remove_tree("/not/there")
    assert files.list("/") == []
    files.make_dirs("/e")
    files.remove("/e")
    assert not files.exists("/e")


def test_remove_tree_leaves_what_links_point_to(files):
    files.make_dirs("/keep")
    files.write("/keep/f", b"1")
    files.make_dirs("/gone")
    files.symlink("/keep", "/gone/link")
    files.remove_tree("/gone")
    assert files.read("/keep/f") == b"1"


def test_links(files):
    files.make_dirs("/data/v1")
    files.write("/data/v1/key", b"one")
    files.symlink("v1", "/data/current")
    files.symlink("current/key", "/data/key")
    assert files.read("/data/key") == b"one"
    assert files.read_link("/data/key") == "current/key"
    assert files.stat("/data/key").kind == "file"
    assert files.stat("/data/key", follow=False) == FileStat(
        kind="symlink", size=11, mode=0o777, mtime_ns=files.stat("/data/key", follow=False).mtime_ns
    )
    assert files.stat("/data/current/", follow=False).kind == "dir"
    files.make_dirs("/data/v2")
    files.write("/data/v2/key", b"two")
    files.symlink("v2", "/data/next")
    files.rename("/data/next", "/data/current")
    assert files.read("/data/key") == b"two"
    files.symlink("/nowhere/x", "/dangling")
    assert not files.exists("/dangling")
    assert errno_of(files.write, "/dangling", b"") == "ENOENT"
    files.symlink("/data/made", "/maker")
    files.write("/maker", b"through")
    assert files.read("/data/made") == b"through"


def test_link_loops_end(files):
    files.symlink("/b", "/a")
    files.symlink("/a", "/b")
    assert errno_of(files.read, "/a") == "ELOOP"
    assert errno_of(files.write, "/a", b"") == "ELOOP"
    assert not files.exists("/a")


@pytest.mark.parametrize("target", ["../secret", "../../../../secret", "/../secret", "/link/../../secret"])
def test_links_and_dots_stay_inside(files, target):
    files.make_dirs("/link")
    files.symlink(target, "/trap")
    assert not files.exists("/trap")
    assert not files.exists("/../secret")
    files.write("/../inside", b"in")
    assert files.read("/inside") == b"in"


def test_absolute_link_starts_at_the_root_of_the_tree(files):
    files.make_dirs("/etc")
    files.write("/etc/passwd", b"ours")
    files.symlink("/etc", "/e")
    assert files.read("/e/passwd") == b"ours"
    files.make_dirs("/e/made")
    assert files.list("/etc") == ["made", "passwd"]


def test_rename(files):
    files.make_dirs("/a/b")
    files.write("/f", b"1")
    files.write("/g", b"22")
    files.rename("/f", "/g")
    assert (files.list("/"), files.read("/g")) == (["a", "g"], b"1")
    assert errno_of(files.rename, "/a", "/a/b/c") == "EINVAL"
    assert errno_of(files.rename, "/a", "/g") == "ENOTDIR"
    assert errno_of(files.rename, "/g", "/a") == "EISDIR"
    files.make_dirs("/full/x")
    assert errno_of(files.rename, "/a", "/full") == "ENOTEMPTY"
    files.make_dirs("/empty")
    files.rename("/a", "/empty")
    assert files.list("/empty") == ["b"]
    files.rename("/g", "/g")
    assert files.read("/g") == b"1"


def test_memory_times_and_capacity():
    now = [5]
    files = MemoryFiles(now_ns=lambda: now[0], capacity_bytes=10)
    files.write("/a", b"12345")
    now[0] = 9
    files.append("/a", b"6")
    assert files.stat("/a").mtime_ns == 9
    assert files.used_bytes == 6
    with pytest.raises(OSError, match="No space"):
        files.append("/a", b"78901")
    assert files.read("/a") == b"123456"
    files.write("/b", b"7890")
    files.rename("/b", "/a")
    assert files.used_bytes == 4
    files.remove_tree("/a")
    assert files.used_bytes == 0


def test_disk_opens_no_fifo_and_leaks_no_descriptor(tmp_path):
    files = DiskFiles(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    assert files.read("/pipe") == b""
    assert errno_of(files.write, "/pipe", b"x") == "ENXIO"
    for path in ("/missing/a", "/pipe/a", "/../x"):
        assert not files.exists(path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert stat_bits.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_disk_needs_its_root(tmp_path):
    with pytest.raises(FileNotFoundError):
        DiskFiles(str(tmp_path / "missing"))


NAMES = st.sampled_from(["a", "b", "..", "."])
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))
TARGETS = st.one_of(PATHS, st.lists(NAMES, min_size=1, max_size=3).map("/".join))
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.binary(max_size=3)),
    st.tuples(st.just("append"), PATHS, st.binary(max_size=3)),
    st.tuples(
        st.sampled_from(["read", "make_dirs", "list", "remove", "remove_tree", "exists", "read_link"]), PATHS
    ),
    st.tuples(st.just("symlink"), TARGETS, PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
)


def outcome(files, step):
    name, *args = step
    try:
        return getattr(files, name)(*args)
    except OSError:
        return OSError


@settings(max_examples=120, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_memory_behaves_as_the_disk(tmp_path_factory, steps):
    """The same results and the same refusals; which errno, where two faults meet, is left open."""
    memory = MemoryFiles()
    disk = DiskFiles(str(tmp_path_factory.mktemp("root")))
    for step in steps:
        mine, real = outcome(memory, step), outcome(disk, step)
        assert mine == real, step
