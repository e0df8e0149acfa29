"""Termination messages (RST-195 to RST-198, LOG-12)."""

import pytest

from kubelet_emu.container.runtime import ContainerState, RuntimeMount
from kubelet_emu.kuberuntime import termination

MOUNTS = (RuntimeMount("/dev/termination-log", "/host/file"),)


def sources(**more):
    given = {
        "state": ContainerState.EXITED,
        "exit_code": 1,
        "reason": "Error",
        "path": "/dev/termination-log",
        "policy": "File",
        "mounts": MOUNTS,
    }
    return termination.message_sources(**(given | more))


FALLBACK = {"policy": "FallbackToLogsOnError"}
SOURCES = [
    pytest.param({}, ("/host/file", False), id="RST-196-file"),
    pytest.param({"mounts": ()}, ("", False), id="RST-196-no-mount"),
    pytest.param({"path": ""}, ("", False), id="RST-196-no-path"),
    pytest.param(FALLBACK, ("/host/file", True), id="RST-197-fallback"),
    pytest.param(FALLBACK | {"exit_code": 0}, ("/host/file", False), id="RST-197-success"),
    pytest.param(FALLBACK | {"reason": "ContainerCannotRun"}, ("/host/file", False), id="RST-197-cannot-run"),
]


@pytest.mark.parametrize(("more", "expected"), SOURCES)
def test_sources(more, expected):
    found = sources(**more)
    assert (found.file, found.log) == expected


def test_rst_196_only_exited_instances_have_a_message():
    assert sources(state=ContainerState.RUNNING) is None


def test_rst_196_the_last_4096_bytes_count():
    assert termination.tail_of_file(b"a" + b"b" * 4096) == "b" * 4096


def test_rst_197_log_lines_lose_their_prefix_and_partial_lines_are_joined():
    log = (
        b"2026-01-01T00:00:00Z stdout F one\n"
        b"2026-01-01T00:00:00Z stderr P tw\n"
        b"nonsense\n"
        b"2026-01-01T00:00:00Z stderr F o\n"
    )
    assert termination.tail_of_log(log) == "one\ntwo\n"


def test_rst_197_at_most_80_lines_and_2048_bytes():
    log = b"".join(b"2026-01-01T00:00:00Z stdout F %03d\n" % number for number in range(100))
    assert termination.tail_of_log(log).splitlines()[0] == "020"
    assert len(termination.tail_of_log(b"2026-01-01T00:00:00Z stdout F " + b"x" * 5000 + b"\n")) == 2048


def test_log_that_is_none_says_so():
    with pytest.raises(ValueError, match="unsupported log format"):
        termination.tail_of_log(b"hello\n")


@pytest.mark.parametrize(
    ("runtime", "text", "expected"),
    [("", "", ""), ("a", "", "a"), ("", "b", "b"), ("a", "b", "a: b")],
)
def test_rst_198_message(runtime, text, expected):
    assert termination.compose_message(runtime, text) == expected
