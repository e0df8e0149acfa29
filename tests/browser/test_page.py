"""The page of a run, used in a real browser.

Goal: it loads, plays, steps, filters, follows links, works by keyboard and in two sizes, and complains of
nothing. Slow because a browser is started; each test has real time limits of seconds.
"""

import os
from pathlib import Path

import pytest

from kubelet_emu.lab.explain.reading import read_trace
from kubelet_emu.lab.explain.story import tell
from kubelet_emu.lab.node import NodeOptions
from kubelet_emu.lab.pictures.page import page_html
from kubelet_emu.lab.runner import run_scenario
from kubelet_emu.lab.scenarios import builtin_scenarios
from kubelet_emu.trace.schema import Trace

pytestmark = pytest.mark.slow
SHOTS = os.environ.get("PAGE_PICTURES", "")


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    scenario = next(one for one in builtin_scenarios() if one.id == "restart-all-regular-exit")
    trace = run_scenario(scenario, NodeOptions(seed=1, transport="memory"))
    path = tmp_path_factory.mktemp("page") / "run.html"
    path.write_text(page_html(tell(read_trace(trace))), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def no_complaints(page):
    page.errors.clear()
    page.requests.clear()
    yield
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "about:"))] == []


@pytest.fixture
def opened(page, html):
    page.size(1280, 900)
    page.open(html, "#t=0")
    page.settle()
    return page


def clock(page) -> float:
    return float(page.text("#clock").split()[0])


def test_it_loads_and_shows_the_run(opened):
    assert opened.run("document.title") == "restart-all-regular-exit (seed 1)"
    assert opened.run("document.querySelectorAll('#moments li').length") > 15
    assert opened.run("document.getElementById('lanes').height") > 150
    assert opened.text("#decision") == "Nothing has happened yet."


def test_play_and_pause(opened):
    opened.run("document.getElementById('speed').value = '20'")
    opened.key(" ")
    opened.wait("parseFloat(document.getElementById('clock').textContent) > 1")
    opened.key(" ")
    stopped = clock(opened)
    opened.settle()
    assert clock(opened) == stopped
    assert opened.run("document.getElementById('play').getAttribute('aria-pressed')") == "false"


def test_playing_ends_at_the_end(opened):
    opened.run("document.getElementById('speed').value = '100'")
    opened.key(" ")
    opened.wait("document.getElementById('play').getAttribute('aria-pressed') === 'false'")
    opened.settle()
    assert clock(opened) == 35.0


def test_steps_go_from_moment_to_moment_and_back(opened):
    seen = []
    for _ in range(6):
        opened.key("ArrowRight")
        seen.append(clock(opened))
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]
    opened.key("ArrowLeft")
    assert clock(opened) < seen[-1]
    opened.key("End")
    assert clock(opened) == 35.0
    opened.key("Home")
    assert clock(opened) == 0.0
    opened.key("ArrowRight", shift=True)
    assert clock(opened) == 1.0


def test_a_link_leads_to_a_moment(page, html):
    page.size(1280, 900)
    page.open(html)
    page.run("location.hash = '#t=10&tab=runtime'")
    page.wait("document.getElementById('clock').textContent === '10.000 s'")
    page.settle()
    assert "the whole pod restarts in place" in page.text("#decision h2")
    assert "crictl ps -a" in page.text("#panel").lower()
    assert "source#0\tExited\t42" in page.text("#panel")


def test_the_link_follows_the_cursor(opened):
    opened.key("End")
    opened.wait("location.hash.includes('t=35.000')")


def test_state_at_the_cursor(opened):
    opened.run("location.hash = '#t=11.4'")
    opened.wait("document.getElementById('clock').textContent === '11.400 s'")
    text = opened.text("#panel")
    assert "reason: RestartingAllContainers" in text
    assert opened.run("document.querySelectorAll('#panel mark').length") > 4
    for tab, said in (
        ("worker", "syncing"),
        ("devices", "work"),
        ("backoff", "nothing"),
        ("runtime", "setup#1"),
    ):
        opened.run(f"document.getElementById('tab-{tab}').click()")
        opened.settle()
        assert said in opened.text("#panel")


def test_rules_and_surprises_are_told(opened):
    opened.run("location.hash = '#t=9.3'")
    opened.wait("document.getElementById('clock').textContent === '9.300 s'")
    text = opened.text("#decision")
    assert "RST-130" in text
    assert "RST-134" in text


def test_search_and_filter(opened):
    before = opened.run("document.querySelectorAll('#moments li').length")
    opened.key("/")
    for letter in "proxy":
        opened.key(letter)
    found = opened.run("document.querySelectorAll('#moments li').length")
    assert 0 < found < before
    opened.key("Escape")
    opened.run(
        "document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new "
        "Event('input'))"
    )
    opened.run("document.querySelector('#kinds input[value=exit]').click()")
    assert opened.run("document.querySelectorAll('#moments li.exit').length") == 0
    assert opened.run("document.querySelectorAll('#moments li').length") < before


def test_a_click_on_the_timeline_moves_the_cursor(opened):
    box = opened.run(
        "(({left, top, width}) => [left, top, "
        "width])(document.getElementById('lanes').getBoundingClientRect())"
    )
    opened.click(box[0] + box[2] / 2, box[1] + 60)
    assert 5 < clock(opened) < 25


def test_zoom_and_fit(opened):
    opened.run("location.hash = '#t=9'")
    opened.wait("document.getElementById('clock').textContent === '9.000 s'")
    opened.key("+")
    opened.wait("location.hash.includes('from=')")
    opened.key("0")
    opened.wait("!location.hash.includes('from=')")


def test_everything_can_be_reached_by_keyboard(opened):
    opened.run("document.activeElement.blur()")
    reached = set()
    for _ in range(40):
        opened.key("Tab")
        reached.add(opened.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"play", "next", "back", "speed", "scrub", "search", "moments", "panel", "tab-runtime"} <= reached


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_window(page, html, width, dark):
    page.size(width, 900, dark=dark)
    page.open(html, "#t=9.3")
    page.settle()
    assert page.run("document.documentElement.scrollWidth") <= width
    ground = page.run("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(15, 20, 26)") is dark
    small = page.run(
        "[...document.querySelectorAll('button')].filter((one) => one.offsetParent && one.offsetHeight < "
        "28).length"
    )
    assert small == 0
    if SHOTS:
        page.picture(Path(SHOTS) / f"page-{width}-{'dark' if dark else 'light'}.png")


def an_hour() -> Trace:
    """Twenty containers that exit and come back for an hour, probes included."""
    names = [f"worker-{number:02}" for number in range(20)]
    spec = {"containers": [{"name": name} for name in names], "volumes": [{"name": "work", "emptyDir": {}}]}
    records = [
        {"t": 0.0, "k": "action", "do": "create", "pod": "p", "object": {"kind": "Pod", "spec": spec}},
        {"t": 0.1, "k": "cri", "m": "RunPodSandbox", "pod": "p", "sandbox": "p/sandbox#0", "dt": 0.1},
    ]
    shown = {
        name: {"kind": "regular", "state": "waiting", "restartCount": 0, "ready": False} for name in names
    }
    for second in range(1, 3600, 3):
        name, attempt = names[second // 3 % 20], second // 60
        label = f"{name}#{attempt}"
        base = {"pod": "p", "container": label}
        rules = [f"RST-023({name})", f"RST-022({name})", f"RST-056({name})"]
        running = {"kind": "regular", "state": "running", "restartCount": attempt, "ready": True, "id": label}
        shown = {**shown, name: running}
        records += [
            {"t": second - 0.4, "k": "decision", "machine": "status.generate", "pod": "p",
             "rules": [], "inputs": {"oldPhase": "Running"}, "outcome": {"phase": "Running"}},
            {"t": second - 0.3, "k": "decision", "machine": "kuberuntime.actions", "pod": "p", "rules": rules,
             "inputs": {"containers": {name: "exited:1"}, "sandboxes": ["0:ready"]},
             "outcome": {"regular": [names.index(name)]}},
            {"t": second - 0.2, "k": "cri", "m": "CreateContainer", "name": name, "attempt": attempt, **base},
            {"t": second - 0.1, "k": "cri", "m": "StartContainer", "dt": 0.1, **base},
            {"t": second, "k": "process", "do": "start", **base},
            {"t": second, "k": "requeue", "pod": "p", "about": "success", "seconds": 60.0},
            {"t": second + 0.1, "k": "pod", "pod": "p", "phase": "Running", "conditions": {"Ready": ["True"]},
             "containers": shown},
            {"t": second + 40.0, "k": "process", "do": "exit", "code": attempt % 3, **base},
        ]  # fmt: skip
        records += [
            {
                "t": second + 0.5 + n,
                "k": "probe",
                "pod": "p",
                "container": name,
                "probe": "liveness",
                "outcome": "success",
            }
            for n in range(3)
        ]
    records.sort(key=lambda record: record["t"])
    header = {
        "k": "header",
        "format": 1,
        "emitter": "test",
        "scenario": "an-hour",
        "pods": ["p"],
        "runFor": 3600,
    }
    return Trace(header, tuple({"seq": number, **record} for number, record in enumerate(records, start=1)))


def test_an_hour_of_twenty_containers_opens_fast_and_scrubs_smoothly(page, tmp_path):
    path = tmp_path / "hour.html"
    path.write_text(page_html(tell(read_trace(an_hour()))), encoding="utf-8")
    page.size(1280, 900)
    assert page.open(path) < 2.0
    assert int(page.text("#count").split()[0]) > 2000
    # The work of one scrub, drawing included; the middle of many, since the machine may be busy elsewhere.
    times = page.run(
        """(async () => {
          const scrub = document.getElementById("scrub"), times = [];
          for (let i = 0; i < 61; i++) {
            scrub.value = (i * 997) % 3600;
            const begin = performance.now();
            scrub.dispatchEvent(new Event("input")); paint(); document.body.offsetHeight;
            times.push(performance.now() - begin);
            await new Promise(requestAnimationFrame);
          }
          return times.sort((a, b) => a - b);
        })()"""
    )
    assert times[len(times) // 2] < 50
