"""What the page of a run holds; how it behaves in a browser is tested in tests/browser."""

import json
import re

import pytest
from click.testing import CliRunner

from kubelet_emu.cli.view import command
from kubelet_emu.lab.explain.reading import read_trace
from kubelet_emu.lab.explain.story import Story, tell
from kubelet_emu.lab.pictures.page import page_data, page_html
from kubelet_emu.lab.scenarios import builtin_scenarios, load_recordings
from kubelet_emu.trace.schema import Trace

SCENARIOS = {scenario.id: scenario for scenario in builtin_scenarios()}


def recorded(name: str) -> Story:
    scenario = SCENARIOS[name]
    return tell(read_trace(load_recordings(name)[0], {scenario.pod_name: scenario.pod}))


def unfolded(deltas):
    """The snapshots again, as the page's script puts them together."""
    current = {"conditions": {}, "containers": {}}
    for delta in deltas:
        for key in delta.get("gone", ()):
            current.pop(key, None)
        current = {
            **current,
            **delta["set"],
            "conditions": {**current["conditions"], **delta.get("conditions", {})},
            "containers": {**current["containers"], **delta.get("containers", {})},
        }
        yield current


@pytest.mark.parametrize(
    "name", ["restart-all-regular-exit", "delete-kill-after-grace", "sidecar-around-a-job"]
)
def test_snapshots_can_be_put_together_again(name):
    story = recorded(name)
    pod = next(iter(story.reading.pods.values()))
    folded = list(unfolded(page_data(story)["pods"][0]["deltas"]))
    assert len(folded) == len(pod.snapshots)
    for again, record in zip(folded, pod.snapshots, strict=True):
        assert again["phase"] == record["phase"]
        assert again["containers"].items() >= record["containers"].items()
        assert again["conditions"].items() >= record["conditions"].items()


def test_the_page_needs_no_network():
    text = page_html(recorded("restart-all-regular-exit"))
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert "http://" not in text
    assert "https://" not in text
    assert "import(" not in text


def test_every_rule_that_fired_has_its_text():
    data = page_data(recorded("restart-all-regular-exit"))
    fired = {rule for moment in data["moments"] for rule, _ in moment.get("rules", ())}
    assert fired <= set(data["rules"])


def test_nothing_in_a_trace_can_break_out_of_the_page():
    evil = "</script><script>alert(1)</script><!--"
    records = (
        {
            "t": 0.0,
            "k": "action",
            "do": "create",
            "pod": evil,
            "object": {"kind": "Pod", "spec": {}},
            "seq": 1,
        },
        {
            "t": 1.0,
            "k": "event",
            "pod": evil,
            "type": "Warning",
            "reason": evil,
            "on": "",
            "message": evil,
            "seq": 2,
        },
    )
    header = {"k": "header", "format": 1, "emitter": "test", "scenario": evil, "pods": [evil]}
    text = page_html(tell(read_trace(Trace(header, records))))
    assert "alert(1)</script>" not in text.replace("&lt;/script&gt;", "")
    assert text.count("<script") == 2
    data = text.partition('type="application/json">')[2].partition("</script>")[0]
    assert json.loads(data)["pods"][0]["name"] == evil


def test_the_same_run_gives_the_same_page():
    assert page_html(recorded("restart-all-regular-exit")) == page_html(recorded("restart-all-regular-exit"))


def test_the_verb_writes_a_page(tmp_path):
    path = tmp_path / "run.html"
    result = CliRunner().invoke(command, ["recording:restart-all-regular-exit", "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert path.read_text(encoding="utf-8") == page_html(recorded("restart-all-regular-exit"))
