"""Log files: framing, format, containment."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.logs import MAX_LINE_BYTES, LineFramer, LogFile, log_path, rfc3339_nano
from cri_fake.store.faults import Kind, Refused
from node_host.files import MemoryFiles

DIRECTORY = "/var/log/pods/default_web_u"
NOW = 1_767_225_600_123_456_000


@pytest.mark.parametrize(
    ("unix_ns", "text"),
    [
        pytest.param(1_767_225_600_000_000_000, "2026-01-01T00:00:00Z", id="CRI-126-whole"),
        pytest.param(1_767_225_600_100_000_000, "2026-01-01T00:00:00.1Z", id="CRI-126-tenth"),
        pytest.param(1_767_225_600_000_000_001, "2026-01-01T00:00:00.000000001Z", id="CRI-126-nano"),
    ],
)
def test_timestamp(unix_ns: int, text: str) -> None:
    assert rfc3339_nano(unix_ns) == text


@pytest.mark.parametrize(
    ("chunks", "entries"),
    [
        pytest.param([b"a\nb\n"], [("F", b"a"), ("F", b"b")], id="CRI-126-lines"),
        pytest.param([b"a", b"b\n"], [("F", b"ab")], id="CRI-126-chunks"),
        pytest.param([b"a\r\n"], [("F", b"a")], id="CRI-126-crlf"),
        pytest.param([b"\n\n"], [("F", b""), ("F", b"")], id="CRI-126-empty"),
        pytest.param([b"end"], [("P", b"end")], id="CRI-127-unfinished"),
        pytest.param([b"abcdefgh\n"], [("P", b"abc"), ("P", b"def"), ("F", b"gh")], id="CRI-127-long"),
        pytest.param([b"abc\n"], [("F", b"abc")], id="CRI-127-just-fits"),
        pytest.param(
            [b"abcdefgh"], [("P", b"abc"), ("P", b"def"), ("P", b"gh")], id="CRI-127-long-unfinished"
        ),
        pytest.param([b"\xff\x00\n"], [("F", b"\xff\x00")], id="CRI-126-bytes"),
    ],
)
def test_framing(chunks: list[bytes], entries: list[tuple[str, bytes]]) -> None:
    framer = LineFramer(max_line_bytes=3)
    found = [entry for chunk in chunks for entry in framer.feed(chunk)]
    assert found + framer.finish() == entries


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=12), max_size=8), st.integers(1, 5))
def test_content_survives_however_it_is_cut_CRI_127(chunks: list[bytes], limit: int) -> None:
    data = b"".join(chunks).replace(b"\r", b"")
    framer = LineFramer(max_line_bytes=limit)
    entries = [entry for chunk in chunks for entry in framer.feed(chunk.replace(b"\r", b""))]
    entries += framer.finish()
    assert all(len(content) <= limit for _, content in entries)
    assert b"".join(c + (b"\n" if t == "F" else b"") for t, c in entries) == data


@pytest.mark.parametrize(
    ("directory", "relative", "path"),
    [
        pytest.param(DIRECTORY, "main/0.log", f"{DIRECTORY}/main/0.log", id="CRI-125-join"),
        pytest.param(DIRECTORY + "/", "./main//0.log", f"{DIRECTORY}/main/0.log", id="CRI-125-clean"),
        pytest.param(DIRECTORY, "/etc/passwd", f"{DIRECTORY}/etc/passwd", id="CRI-125-absolute-stays-below"),
        pytest.param("", "main/0.log", "", id="CRI-125-no-directory"),
        pytest.param(DIRECTORY, "", "", id="CRI-125-no-path"),
        pytest.param(DIRECTORY, "a/../b.log", f"{DIRECTORY}/b.log", id="CRI-125-dots-inside"),
    ],
)
def test_log_path(directory: str, relative: str, path: str) -> None:
    assert log_path(directory, relative) == path


@pytest.mark.parametrize(
    ("directory", "relative"),
    [
        (DIRECTORY, "../other/0.log"),
        (DIRECTORY, "a/../../../../etc/passwd"),
        (DIRECTORY, "."),
        (DIRECTORY, ".."),
        (DIRECTORY, "a\0b"),
        ("relative", "0.log"),
        ("../../etc", "0.log"),
    ],
)
def test_hostile_log_paths_are_refused_CRI_125(directory: str, relative: str) -> None:
    with pytest.raises(Refused) as caught:
        log_path(directory, relative)
    assert caught.value.kind is Kind.INVALID_ARGUMENT


def a_log(files: MemoryFiles, path: str = f"{DIRECTORY}/main/0.log") -> LogFile:
    return LogFile(files, DIRECTORY, path, now_ns=lambda: NOW)


def test_file_is_made_at_open_and_lines_are_whole_CRI_128() -> None:
    files = MemoryFiles()
    log = a_log(files)
    log.open()
    assert files.stat(f"{DIRECTORY}/main/0.log").mode == 0o640
    log.write("stdout", b"one\ntw")
    log.write("stderr", b"err\n")
    log.write("stdout", b"o\nrest")
    log.close()
    log.write("stdout", b"late\n")
    stamp = b"2026-01-01T00:00:00.123456Z"
    assert files.read(f"{DIRECTORY}/main/0.log").splitlines() == [
        stamp + b" stdout F one",
        stamp + b" stderr F err",
        stamp + b" stdout F two",
        stamp + b" stdout P rest",
    ]


def test_open_appends_to_what_is_there_CRI_128() -> None:
    files = MemoryFiles()
    first = a_log(files)
    first.open()
    first.write("stdout", b"a\n")
    second = a_log(files)
    second.open()
    second.write("stdout", b"b\n")
    assert len(files.read(f"{DIRECTORY}/main/0.log").splitlines()) == 2


def test_reopen_makes_the_new_file_and_leaves_the_old_one_CRI_129() -> None:
    files = MemoryFiles()
    log = a_log(files)
    log.open()
    log.write("stdout", b"a\n")
    path = f"{DIRECTORY}/main/0.log"
    files.rename(path, path + ".20260101-000000")
    log.reopen()
    assert files.exists(path)
    log.write("stdout", b"b\n")
    assert files.read(path).endswith(b" stdout F b\n")
    assert files.read(path + ".20260101-000000").endswith(b" stdout F a\n")


@pytest.mark.parametrize("link", [f"{DIRECTORY}/main", f"{DIRECTORY}/main/0.log"])
def test_symbolic_links_are_not_followed_CRI_125(link: str) -> None:
    files = MemoryFiles()
    files.make_dirs("/secret")
    files.write("/secret/0.log", b"kept")
    files.make_dirs(link.rpartition("/")[0])
    files.symlink("/secret" if link.endswith("main") else "/secret/0.log", link)
    with pytest.raises(Refused, match="is a symbolic link"):
        a_log(files).open()
    assert files.read("/secret/0.log") == b"kept"


def test_full_disk_loses_lines_not_the_container() -> None:
    files = MemoryFiles(capacity_bytes=200)
    log = a_log(files)
    log.open()
    log.write("stdout", b"x" * 500 + b"\n")
    assert log.dropped == 1
    log.write("stdout", b"fits\n")
    assert files.read(f"{DIRECTORY}/main/0.log").endswith(b" stdout F fits\n")


def test_no_path_is_no_log_CRI_125() -> None:
    files = MemoryFiles()
    log = LogFile(files, "", "", now_ns=lambda: NOW)
    log.open()
    log.write("stdout", b"a\n")
    log.close()
    assert files.list("/") == []


def test_line_limit_is_containerds() -> None:
    assert MAX_LINE_BYTES == 16384
