"""The DRA manager's state files (DEV-159)."""

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubelet_emu.cm.dra.claims import ClaimInfo, PreparedDevice
from kubelet_emu.cm.dra.health import HealthCache, Report
from kubelet_emu.cm.dra.state_file import decode, decode_health, encode, encode_health
from kubelet_emu.errors import PeerError

CLAIM = ClaimInfo(
    uid="067798be-454e-4be4-9047-1aa06aea63f7",
    name="example",
    namespace="default",
    pod_uids=("139cdb46-f989-4f17-9561-ca10cfb509a6",),
    drivers={
        "test-driver.cdi.k8s.io": (
            PreparedDevice(
                pool="worker-1",
                device="dev-1",
                requests=("test request",),
                cdi_ids=("example.com/example=x",),
            ),
        )
    },
    prepared=True,
)


def test_shape_and_checksum():
    outer = json.loads(encode([CLAIM]))
    assert list(outer) == ["Data", "Checksum"]
    assert outer["Checksum"] == zlib.crc32(outer["Data"].encode())
    inner = json.loads(outer["Data"])
    assert inner["kind"] == "DRACheckpoint"
    (entry,) = inner["ClaimInfoStateList"]
    assert entry["PodUIDs"] == {"139cdb46-f989-4f17-9561-ca10cfb509a6": {}}
    (device,) = entry["DriverState"]["test-driver.cdi.k8s.io"]["Devices"]
    assert list(device) == ["PoolName", "DeviceName", "ShareID", "RequestNames", "CDIDeviceIDs"]


def test_read_back_nothing_is_prepared():
    (claim,) = decode(encode([CLAIM]))
    assert claim.drivers == CLAIM.drivers
    assert claim.pod_uids == CLAIM.pod_uids
    assert not claim.prepared


def test_crc_of_a_kubelets_own_text():
    """The checksum that Kubernetes' own tests give for this text of one claim without share ids."""
    data = (
        '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":['
        '{"ClaimUID":"067798be-454e-4be4-9047-1aa06aea63f7","ClaimName":"example","Namespace":"default",'
        '"PodUIDs":{"139cdb46-f989-4f17-9561-ca10cfb509a6":{}},"DriverState":{"test-driver.cdi.k8s.io":'
        '{"Devices":[{"PoolName":"worker-1","DeviceName":"dev-1","RequestNames":["test request"],'
        '"CDIDeviceIDs":["example.com/example=cdi-example"]}]}}}]}'
    )
    (claim,) = decode(json.dumps({"Data": data, "Checksum": 1656016162}).encode())
    assert claim.drivers["test-driver.cdi.k8s.io"][0].cdi_ids == ("example.com/example=cdi-example",)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b'{"Data":"{}","Checksum":0}', b'{"Data":"[","Checksum":0}', b"\xff", b"null"],
)
def test_what_cannot_be_read(content):
    with pytest.raises(PeerError):
        decode(content)


names = st.text(max_size=8)
devices = st.builds(
    PreparedDevice,
    pool=names,
    device=names,
    requests=st.lists(names, max_size=2).map(tuple),
    cdi_ids=st.lists(names, max_size=2).map(tuple),
    share_id=st.none() | names,
)
claims = st.builds(
    ClaimInfo,
    uid=names,
    name=names,
    namespace=names,
    pod_uids=st.sets(names, max_size=3).map(sorted).map(tuple),
    drivers=st.dictionaries(names, st.lists(devices, max_size=2).map(tuple), max_size=2),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(claims, max_size=3))
def test_any_claims_survive_the_file(found):
    assert decode(encode(found)) == tuple(found)


def test_health_survives_the_file_and_garbage_is_nothing():
    cache = HealthCache()
    cache.take("d", [Report(pool="p", device="x", health="Unhealthy", timeout_seconds=7)], 3.5)
    again = decode_health(encode_health(cache, epoch_ns=10**18), epoch_ns=10**18)
    assert again.get("d", "p", "x", 4.0).health == "Unhealthy"
    assert again.get("d", "p", "x", 20.0).health == "Unknown"
    for content in (b"", b"[]", b'{"d": 3}', b'{"d":{"Devices":{"x":{}}}}', b"\xff"):
        assert decode_health(content, epoch_ns=0) == HealthCache()


@pytest.mark.parametrize(("given_seconds", "valid_seconds"), [(0, 30), (-5, 30), (7, 7)])
def test_dev_158_timeouts(given_seconds, valid_seconds):
    cache = HealthCache()
    cache.take("d", [Report(pool="p", device="x", health="Healthy", timeout_seconds=given_seconds)], 100.0)
    assert cache.get("d", "p", "x", 100.0 + valid_seconds).health == "Healthy"
    assert cache.get("d", "p", "x", 100.1 + valid_seconds).health == "Unknown"
    cache.clear("d")
    assert cache.get("d", "p", "x", 100.0).health == "Unknown"
