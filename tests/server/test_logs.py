"""Log requests: which instance is read (LOG-08), what the options do (LOG-11), and the lines (LOG-04)."""

import pytest
import trio

from kubelet_emu.api.codec import pod_from_json, status_from_json
from kubelet_emu.server.log_request import LogOptions, LogRefused, instance_to_read, parse_options
from kubelet_emu.server.log_stream import parse_line, read_log, tail_offset
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run

POD = pod_from_json({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})


def status(state=None, last=None):
    entry = {"name": "c", "containerID": "x://now" if state else ""}
    if state:
        entry["state"] = state
    if last is not None:
        entry["lastState"] = {"terminated": last}
    return status_from_json({"containerStatuses": [entry]})


RUNNING = {"running": {"startedAt": None}}
ENDED = {"terminated": {"exitCode": 1, "containerID": "x://now"}}
ENDED_NAMELESS = {"terminated": {"exitCode": 1}}
OLD = {"exitCode": 1, "containerID": "x://old"}


def waiting(reason):
    return {"waiting": {"reason": reason}}


@pytest.mark.parametrize(
    ("previous", "state", "last", "answer"),
    [
        (True, RUNNING, OLD, "x://old"),
        (True, RUNNING, None, 'previous terminated container "c" in pod "p" not found'),
        (True, RUNNING, {"exitCode": 137}, 'previous terminated container "c" in pod "p" not found'),
        (False, RUNNING, OLD, "x://now"),
        (False, ENDED, OLD, "x://now"),
        (False, ENDED_NAMELESS, OLD, "x://old"),
        (False, ENDED_NAMELESS, None, 'container "c" in pod "p" is terminated'),
        (False, waiting("CrashLoopBackOff"), OLD, "x://old"),
        (
            False,
            waiting("RestartingAllContainers"),
            {"exitCode": 137},
            'container "c" in pod "p" is terminated',
        ),
        (
            False,
            waiting("ErrImagePull"),
            None,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            False,
            waiting("ImagePullBackOff"),
            None,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        (
            False,
            waiting("ContainerCreating"),
            None,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (False, None, None, 'container "c" in pod "p" is waiting to start - no logs yet'),
    ],
)
def test_log_08(previous, state, last, answer):
    def ask():
        return instance_to_read(POD, status(state, last), "c", previous=previous)

    if answer.startswith("x://"):
        assert ask() == answer
        return
    with pytest.raises(LogRefused) as refused:
        ask()
    assert (str(refused.value), refused.value.status) == (answer, 400)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("d", 'container "d" not found in pod "p"', 404),
        ("c", 'container "c" in pod "p" is not available', 400),
    ],
)
def test_log_09_unknown(name, text, code):
    with pytest.raises(LogRefused) as refused:
        instance_to_read(POD, status_from_json({}), name, previous=False)
    assert (str(refused.value), refused.value.status) == (text, code)


def test_options():
    query = {"follow": "true", "timestamps": "1", "tail": "5", "limitBytes": "9", "sinceSeconds": "2"}
    assert parse_options(query, now_ns=10_000_000_000) == LogOptions(
        follow=True, timestamps=True, tail_lines=5, limit_bytes=9, since_ns=8_000_000_000
    )
    since = parse_options({"sinceTime": "1970-01-01T00:00:03Z"}, now_ns=0)
    assert since.since_ns == 3_000_000_000
    assert parse_options({"tailLines": "all", "previous": "false"}, now_ns=0) == LogOptions()


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"tailLines": "many"}, 422),
        ({"tailLines": "-1"}, 422),
        ({"tailLines": "٣"}, 422),
        ({"limitBytes": "0"}, 422),
        ({"sinceSeconds": "0"}, 422),
        ({"sinceTime": "yesterday"}, 422),
        ({"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "1"}, 422),
        ({"stream": "Stdout"}, 400),
        ({"tailLines": "9" * 30}, 422),
    ],
)
def test_log_09_bad_options(query, code):
    with pytest.raises(LogRefused) as refused:
        parse_options(query, now_ns=0)
    assert refused.value.status == code


def stamped(second, content, tag="F", stream="stdout"):
    return f"2026-01-01T00:00:{second:02d}.5Z {stream} {tag} {content}\n"


LINES = "".join(
    [
        stamped(1, "one"),
        stamped(2, "tw", "P"),
        stamped(2, "o"),
        "no log line\n",
        stamped(3, "three", stream="stderr"),
        stamped(4, ""),
    ]
)


@pytest.fixture
def read():
    """Read LINES (or other content) with options."""

    def tell(content=LINES, *, grow=(), **options):
        async def main():
            files = MemoryFiles()
            files.write("/log", content.encode())
            alive = [True]

            async def write():
                for more in grow:
                    await trio.sleep(1)
                    files.append("/log", more.encode())
                alive[0] = False

            got = b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                pieces = read_log(files, NodeClock(), "/log", LogOptions(**options), running=lambda: alive[0])
                async for piece in pieces:
                    got += piece
            return got.decode()

        return run(main, seed=1)

    return tell


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "one\ntwo\nthree\n\n"),
        ({"tail_lines": 2}, "three\n\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "one\ntwo\nthree\n\n"),
        ({"limit_bytes": 6}, "one\ntw"),
        ({"since_ns": 1_767_225_603_000_000_000}, "three\n\n"),
        ({"timestamps": True, "tail_lines": 1}, "2026-01-01T00:00:04.5Z \n"),
    ],
)
def test_log_11(read, options, text):
    assert read(**options) == text


def test_log_11_follow_ends_when_the_container_does(read):
    assert read(follow=True, grow=[stamped(5, "five"), stamped(6, "six")]).endswith("five\nsix\n")
    assert read(follow=True, tail_lines=0, grow=[stamped(5, "five")]) == "five\n"


def test_long_logs_are_read_in_blocks(read):
    content = "".join(stamped(n % 60, f"line {n} " + "x" * 200) for n in range(2000))
    assert read(content).count("\n") == 2000
    assert read(content, tail_lines=700).startswith("line 1300 ")


def test_a_log_that_is_gone_is_empty():
    async def main():
        pieces = read_log(MemoryFiles(), NodeClock(), "/no", LogOptions(tail_lines=1), running=lambda: False)
        assert [piece async for piece in pieces] == []

    run(main, seed=1)


@pytest.mark.parametrize(
    "raw", [b"", b"x", b"2026-01-01T00:00:00Z stdout", b"yesterday stdout F x", b"\xff a b c"]
)
def test_log_04_other_lines_are_none(raw):
    assert parse_line(raw) is None


@pytest.mark.parametrize(("count", "start"), [(1, b"c"), (2, b"b"), (3, b"a"), (9, b"a")])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_tail_offset(count, start, end):
    files = MemoryFiles()
    files.write("/log", b"a\nb\nc" + end)
    assert files.read("/log", offset=tail_offset(files, "/log", count))[:1] == start
