"""Names and notes on sandboxes and containers: KA-H, KA-L (RST-185 to RST-193)."""

import pytest

from kubelet_emu.api.types import (
    Container,
    ContainerPort,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    ObjectMeta,
    Pod,
    PodSpec,
)
from kubelet_emu.kuberuntime import labels

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="n", uid="u", labels={"app": "x", labels.POD_NAME: "fake"}),
    spec=PodSpec(termination_grace_period_seconds=5),
)


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [
        pytest.param("test_container", "foo/image:v1", "8e45cbd0", id="KA-H01"),
        pytest.param("foo", "bar", "11a6d6d6", id="KA-H02"),
        pytest.param("setup", "docker.io/library/busybox:1.36", "2740e02", id="recorded-setup"),
        pytest.param("source", "docker.io/library/busybox:1.36", "64687601", id="recorded-source"),
    ],
)
def test_container_hash(name, image, expected):
    assert f"{labels.container_hash(Container(name=name, image=image, args=('x',))):x}" == expected


BIG = "9" * 25
COUNTS = [
    pytest.param([], 0, id="KA-L03-none"),
    pytest.param(["0.log"], 1, id="KA-L01"),
    pytest.param(["0.log.rotated-log"], 1, id="KA-L01-rotated"),
    pytest.param(["0.log", "1.log", "2.log"], 3, id="KA-L02-three"),
    pytest.param(["5.log.rotated", "6.log", "7.log"], 8, id="KA-L02-mixed"),
    pytest.param(["6.log.a", "6.log.b", "6.log.c"], 7, id="KA-L02-rotated"),
    pytest.param(["a.log.rotated", "b.log.rotated", "12log.rotated"], 0, id="KA-L03-names"),
    pytest.param(["rotated.23.log"], 0, id="KA-L03-prefix"),
    pytest.param(["mylog42.log"], 0, id="KA-L03-mylog"),
    pytest.param(["-42.log"], 0, id="KA-L03-negative"),
    pytest.param([f"{BIG}.log"], 0, id="KA-L03-too-big"),
    pytest.param(["145.log.log.rotated"], 146, id="KA-L04-double"),
    pytest.param(
        [f"{BIG}.log", "23.log", "23a.log", "1aaa.log.rotated", "2.log", "3.log.rotated"], 24, id="KA-L04-mix"
    ),
]


@pytest.mark.parametrize(("names", "expected"), COUNTS)
def test_restart_count_from_log_files(names, expected):
    assert labels.restart_count_from_log_files(names) == expected


def test_rst_191_labels():
    assert labels.container_labels(POD, "c") == {
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "n",
        "io.kubernetes.pod.uid": "u",
        "io.kubernetes.container.name": "c",
    }
    assert labels.sandbox_labels(POD)["io.kubernetes.pod.name"] == "p"
    assert labels.sandbox_labels(POD)["app"] == "x"


def test_rst_192_annotations_round_trip():
    hook = LifecycleHandler(exec=ExecAction(command=("true",)))
    container = Container(
        name="c",
        image="i",
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
        lifecycle=Lifecycle(pre_stop=hook),
        ports=(ContainerPort(container_port=80, protocol="TCP"),),
    )
    given = {"vendor/x": "1", labels.RESTART_COUNT: "99"}
    notes = labels.container_annotations(POD, container, 3, given)
    assert notes["vendor/x"] == "1"
    assert notes[labels.RESTART_COUNT] == "3"
    assert notes[labels.PRE_STOP_HANDLER] == '{"exec":{"command":["true"]}}'
    assert labels.POD_DELETION_GRACE not in notes
    read = labels.parse_container_annotations(notes)
    assert (read.hash, read.restart_count) == (labels.container_hash(container), 3)
    assert (read.pod_termination_grace_seconds, read.pod_deletion_grace_seconds) == (5, None)
    assert read.pre_stop == {"exec": {"command": ["true"]}}
    assert read.ports == ({"containerPort": 80, "protocol": "TCP"},)


def test_rst_192_malformed_annotations_read_as_nothing():
    notes = {labels.CONTAINER_HASH: "zz", labels.RESTART_COUNT: "x", labels.PRE_STOP_HANDLER: "{"}
    read = labels.parse_container_annotations(notes)
    assert (read.hash, read.restart_count, read.pre_stop) == (0, 0, None)


def test_rst_189_symlink_names_are_cut_and_read_back():
    name = labels.log_symlink_name("p" * 300, "n", "c", "abcdef")
    assert len(name) == 255
    assert labels.container_id_of_symlink("p_n_c-abcdef012.log") == "abcdef012"
    assert labels.container_id_of_symlink("p_n_c-abc.log") == ""
    assert labels.container_id_of_symlink("README") == ""


def test_rst_188_log_paths():
    directory = labels.pod_log_directory("/var/log/pods", "n", "p", "u")
    assert directory == "/var/log/pods/n_p_u"
    assert labels.uid_of_log_directory("n_p_u") == "u"
    assert labels.container_log_path("c", 2) == "c/2.log"
