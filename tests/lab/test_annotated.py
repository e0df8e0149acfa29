# pyright: basic, reportArgumentType=false
"""Devices that a manifest asks for: presets, files beside it, mistakes, and a node that gets them late."""

import pytest

from kubelet_emu import Session
from kubelet_emu.api.manifests import load, load_text
from kubelet_emu.errors import CallerError
from kubelet_emu.lab.annotated import annotated_devices

POD = """apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations:
    kubelet-emu/devices: {devices}
spec:
  containers:
  - name: main
    image: busybox:1.36
    command: [sleep, '60']
    resources: {{limits: {{vendor.com/widget: 2}}}}
"""


def resources(setups):
    return [setup.model.resource for setup in setups]


def test_presets_and_files_beside_the_manifest(tmp_path):
    (tmp_path / "w.yaml").write_text("resource: vendor.com/widget\ncount: 3", encoding="utf-8")
    folder = tmp_path / "pods"
    folder.mkdir()
    (folder / "a.yaml").write_text(POD.format(name="a", devices="l4x1, ../w.yaml"), encoding="utf-8")
    (folder / "b.yaml").write_text(POD.format(name="b", devices="../w.yaml"), encoding="utf-8")
    assert resources(annotated_devices(load([folder]).objects)) == ["nvidia.com/gpu", "vendor.com/widget"]


def test_manifests_that_ask_for_nothing():
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {kubelet-emu/devices: l4x1}}"
    assert annotated_devices(load_text(text).objects) == ()
    assert annotated_devices(load_text(POD.format(name="p", devices="''")).objects) == ()


def test_mistakes_have_their_place(tmp_path):
    (tmp_path / "bad.yaml").write_text("resource: vendor.com/widget\ncount: many", encoding="utf-8")
    manifest = tmp_path / "p.yaml"
    manifest.write_text(POD.format(name="p", devices="a100, bad.yaml, none.yaml"), encoding="utf-8")
    with pytest.raises(CallerError) as error:
        annotated_devices(load([manifest]).objects)
    preset, profile, missing = map(str, error.value.problems)
    assert preset.startswith(f"{manifest}:6: metadata.annotations[kubelet-emu/devices]: there is no preset")
    assert profile.startswith(f"{tmp_path / 'bad.yaml'}:2: ")
    assert missing.startswith(f"{manifest}:6: ")


def test_a_session_gets_the_devices_that_its_first_manifest_asks_for(tmp_path):
    (tmp_path / "w.yaml").write_text(
        "resource: vendor.com/widget\ncount: 3\nfailAt: ['#0@10s']", encoding="utf-8"
    )
    manifest = tmp_path / "p.yaml"
    manifest.write_text(POD.format(name="p", devices="w.yaml"), encoding="utf-8")
    with Session(transport="memory", latency="zero") as node:
        node.advance("5s")
        node.apply(manifest)
        node.advance("9s")
        (before,) = node.pod("p").status.container_statuses[0].allocated_resources_status
        node.advance("3s")  # the failure counts from the pod's creation
        (after,) = node.pod("p").status.container_statuses[0].allocated_resources_status
    assert before.name == "vendor.com/widget"
    assert [one.health for one in before.resources] == ["Healthy", "Healthy"]
    assert sorted(one.health for one in after.resources) == ["Healthy", "Unhealthy"]
