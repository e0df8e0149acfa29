"""``--devices`` and ``--fail-device``: presets, profiles, and every mistake with its place."""

import pytest

from devices.load import load_devices, with_failures
from devices.model import Identity, Notices, Preference
from devices.presets import preset
from devices.profile import parse_profile, plugins_from
from devices.setup import DeviceProblem, Register, find_device, parse_duration, parse_failure

PROFILE = """
plugins:
- resource: vendor.com/widget
  ids: [w0, w1, w2, w3]
  topology: {numa: [0, 0, 1, [0, 1]]}
  env: WIDGETS
  mounts: [{hostPath: /opt/w, containerPath: /w, readOnly: true}]
  deviceNodes: [{hostPath: "/dev/w{index}"}]
  annotations: {vendor.com/mode: fast}
  cdi: vendor.com/widget
  preStart: true
  preferred: lowest
  identity: fresh
  notices: own-socket
  register: watcher
  faults: 'Allocate: 2*off -> 1*error(UNKNOWN, "broken")'
  restartAfterCrash: never
  failAt: ["w3@30s", "#0@10s-20s"]
- preset: tpu-v5e-4
  preStart: true
- model: nvidia
  count: 2
  numaNodes: 2
  deviceListStrategy: [cdi-cri]
"""


def test_a_profile_with_everything():
    widget, tpu, gpu = parse_profile(PROFILE)
    model = widget.model
    assert [device.numa_nodes for device in model.devices] == [(0,), (0,), (1,), (0, 1)]
    assert (model.pre_start, model.preference, model.identity) == (True, Preference.LOWEST, Identity.FRESH)
    assert (model.notices, widget.register) == (Notices.OWN_SOCKET, Register.WATCHER)
    assert widget.restart_after_crash_seconds is None
    assert [(c.device, c.at_seconds, c.health) for c in widget.changes] == [
        ("w3", 30.0, "Unhealthy"),
        ("w0", 10.0, "Unhealthy"),
        ("w0", 20.0, "Healthy"),
    ]
    assert tpu.model.pre_start
    assert tpu.model.resource == "google.com/tpu"
    assert gpu.model.allocate([gpu.model.devices[0].id], serial=0).cdi


@pytest.mark.parametrize(
    "text",
    ["resource: a.com/b\ncount: 3", "- resource: a.com/b\n  count: 3", "{resource: a.com/b, count: 3}"],
)
def test_one_plugin_or_a_list(text):
    (setup,) = parse_profile(text)
    assert [device.id for device in setup.model.devices] == ["Dev-0", "Dev-1", "Dev-2"]


def test_devices_of_a_scenario():
    (setup,) = plugins_from(
        [
            {
                "resource": "nvidia.com/gpu",
                "ids": ["GPU-0000", "GPU-0001"],
                "env": "VISIBLE_DEVICES",
                "topology": {"numa": 0},
                "preStart": True,
                "preferred": "lowest",
            }
        ]
    )
    model = setup.model
    assert model.allocate(["GPU-0001", "GPU-0000"], serial=0).envs == {"VISIBLE_DEVICES": "GPU-0001,GPU-0000"}
    assert model.prefer(["GPU-0001", "GPU-0000"], [], 1) == ("GPU-0000",)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 0, "is empty"),
        ("a: b: c", 1, "not valid YAML"),
        ("count: 3", 1, "resource is missing"),
        ("resource: a.com/b\ncolour: red", 2, "unknown field 'colour'"),
        ("resource: a.com/b\ncount: many", 2, "must be a number"),
        ("resource: a.com/b\ncount: 1\ncount: 2", 3, "twice"),
        ("resource: a.com/b\npreferred: best", 2, "must be one of none, lowest"),
        ("resource: a.com/b\npreStart: maybe", 2, "true or false"),
        ("resource: a.com/b\nfaults: 'Allocate: explode'", 2, "no action"),
        ("resource: a.com/b\nfailAt: [zzz@3s]", 2, "no device 'zzz'"),
        ("resource: a.com/b\nfailAt: ['#0@soon']", 2, "no duration"),
        ("resource: a.com/b\ncount: 3\ntopology: {numa: [0]}", 1, "1 entries for 3 devices"),
        ("resource: a.com/b\ncount: 90000\nshared: 2", 1, "too many"),
        ("model: quantum", 1, "must be one of generic, nvidia"),
        ("preset: zx81", 1, "no preset 'zx81'"),
        ("model: tpu\nchips: 3", 1, "TPU host has"),
        ("resource: a.com/b\nmounts: [{containerPath: /x}]", 2, "hostPath is missing"),
        ("- 3", 1, "must be a mapping"),
        ("plugins: 3", 1, "must be a list"),
        ("plugins: []\nmore: 1", 2, "beside plugins"),
    ],
)
def test_mistakes_are_told_with_their_line(text, line, says):
    with pytest.raises(DeviceProblem) as problem:
        parse_profile(text, file="p.yaml")
    place, message = problem.value.problems[0]
    assert says in message
    assert place == ("p.yaml" if line == 0 else f"p.yaml:{line}")


def test_all_mistakes_at_once():
    with pytest.raises(DeviceProblem) as problem:
        parse_profile("- resource: a.com/b\n  colour: red\n- count: many\n")
    assert len(problem.value.problems) == 3


def test_a_file_and_what_is_no_file(tmp_path):
    path = tmp_path / "devices.yaml"
    path.write_text("resource: a.com/b")
    assert load_devices(str(path))[0].model.resource == "a.com/b"
    assert load_devices("a100x8") == preset("a100x8")
    for wrong, says in (
        ("nosuch", "no preset"),
        (str(tmp_path / "no.yaml"), "cannot read"),
        (str(tmp_path), "cannot"),
    ):
        with pytest.raises(DeviceProblem, match=says):
            load_devices(wrong)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DeviceProblem, match="UTF-8"):
        load_devices(str(path))


class TestFailures:
    def test_by_id_by_start_and_by_number(self):
        setups = (*preset("a100x8"), *preset("tpu-v5e-4"))
        gpu = setups[0].model.devices[3].id
        found = with_failures(setups, [f"{gpu}@30s", f"{gpu[:14]}@1m", "#3@5", "google.com/tpu#2@10s-20s"])
        assert [(c.device, c.at_seconds) for c in found[0].changes] == [(gpu, 30.0), (gpu, 60.0), (gpu, 5.0)]
        assert [(c.device, c.health) for c in found[1].changes] == [("2", "Unhealthy"), ("2", "Healthy")]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("GPU-1", "write ID@TIME"),
            ("#1@soon", "no duration"),
            ("#1@20s-10s", "recover after"),
            ("#99@1s", "no device '#99'"),
            ("GPU@1s", "start of 8 ids"),
            ("XPU@1s", "no device 'XPU'"),
        ],
    )
    def test_mistakes(self, text, says):
        with pytest.raises(DeviceProblem, match=says):
            with_failures(preset("a100x8"), [text])

    def test_ids_may_hold_an_at_sign(self):
        assert parse_failure("a@b@3s")[0].device == "a@b"

    def test_no_plugins_at_all(self):
        with pytest.raises(DeviceProblem, match="no plugins"):
            find_device([], "#0")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("1m30s", 90), ("250ms", 0.25), ("1h", 3600)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1d", "s", "99999999999h", "1e3", "٣s"])
def test_no_durations(text):
    with pytest.raises(ValueError, match=r"duration|long"):
        parse_duration(text)
