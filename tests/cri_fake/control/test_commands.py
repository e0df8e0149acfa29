# pyright: basic, reportOptionalMemberAccess=false
"""Commands as text: what each means, and which words meet what is none."""

import pytest

from cri_fake.control.commands import (
    MAX_SCRIPT_LINES,
    ClearFaults,
    CommandProblem,
    SetLatency,
    Show,
    Toggle,
    parse_command,
    parse_script,
)
from node_host.faults import Spread, parse
from node_host.plan import Crash, Reboot, UserAction, WireFault


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (" status ", Show("status")),
        ("faults", Show("faults")),
        ("faults clear", ClearFaults()),
        ("*: 1*hang", WireFault(rule=parse("*: 1*hang")[0])),
        ("error Exec ABORTED x2", WireFault(rule=parse("Exec: 2*error(ABORTED)")[0])),
        ("latency Status 0.5", SetLatency("Status", 0.5)),
        ("latency Status 0.1..0.5", SetLatency("Status", Spread("even", 0.1, 0.5))),
        ("latency Status ~2", SetLatency("Status", Spread("exponential", 2.0))),
        ("latency Status x3", SetLatency("Status", None, 3.0)),
        ("latency Status default", SetLatency("Status", None)),
        ("disk full", Toggle("disk", False)),
        ("registry up", Toggle("registry", True)),
        ("network not-ready", Toggle("network", False)),
        ("oom web/main", UserAction(do="oom", pod="web", container="main")),
        ("kill-sandbox web", UserAction(do="kill-sandbox", pod="web")),
        ("crash runtime", Crash(peer="runtime", down_seconds=1.0)),
        ("reboot node down 90s", Reboot(down_seconds=90.0)),
    ],
)
def test_each_command(text, command):
    assert parse_command(text) == command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing happens in ''"),
        ("status now", "'status' is nothing that can happen; one of error, delay"),
        ("Exec: explode", "'explode' is no action"),
        ("latency Status", "write latency METHOD SECONDS"),
        ("latency Status x9999", "a factor (x3) or default"),
        ("disk half", "write disk full or ok"),
        ("network", "write network not-ready or ready"),
        ("registry", "fault of the registry is missing"),
        ("oom main", "write POD/CONTAINER"),
        ("oom ../main", "write POD/CONTAINER"),
        ("crash kubelet", "is nothing that a runtime alone can do"),
        ("delete pod web", "is nothing that a runtime alone can do"),
        ("crash runtime down soon", "'soon' is no duration"),
        ("error Exec ABORTED " + "x" * 70000, "longer than 65536 bytes"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(CommandProblem) as caught:
        parse_command(text)
    assert words in str(caught.value)


def test_a_file_is_read_in_order_of_time():
    script = parse_script("# a bad day\n\n@20s registry up\nregistry down\n@5s oom web/main\n")
    assert [(each.at_seconds, each.line) for each in script] == [(0.0, 4), (5.0, 5), (20.0, 3)]
    assert script[1].command == UserAction(do="oom", pod="web", container="main")


def test_all_bad_lines_of_a_file_are_named():
    with pytest.raises(CommandProblem) as caught:
        parse_script("explode\nstatus\n@noon status\n")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["line 1", "line 3"]
    with pytest.raises(CommandProblem, match="too many"):
        parse_script("status\n" * (MAX_SCRIPT_LINES + 1))
