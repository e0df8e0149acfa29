"""What vendors' plugins expose and answer (DEV-180 to DEV-18I), as pure models."""

import pytest
from attrs import evolve

from devices.model import Device, Identity, Model, Notices, Preference, Refused
from devices.nvidia import NvidiaOptions, gke_gpu_model, nvidia_models
from devices.others import amd_model, fake_operator_model, sample_model
from devices.presets import PRESETS, preset
from devices.setup import DeviceProblem
from devices.tpu import TpuOptions, slice_env, tpu_model
from devices.wire import answer_message, list_message


def gpus(**options):
    return nvidia_models(NvidiaOptions(**{"count": 4, **options}))


def ids(model, count=None):
    return [device.id for device in model.devices[:count]]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_unique_ids_and_stay_the_same(name):
    first, second = preset(name), preset(name)
    assert first == second
    for setup in first:
        names = ids(setup.model)
        assert len(set(names)) == len(names) > 0
        assert setup.model.resource.count("/") == 1


def test_other_serials_give_other_gpus():
    assert not set(ids(preset("a100x8", serial="n1")[0].model)) & set(
        ids(preset("a100x8", serial="n2")[0].model)
    )


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(DeviceProblem, match="a100x8"):
        preset("b200x9")


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("h100x8", [0] * 8),
        ("h100x8-2numa", [0] * 4 + [1] * 4),
        ("h100x8-8numa", list(range(8))),
    ],
)
def test_numa_nodes_of_presets(name, nodes):
    assert [device.numa_nodes for device in preset(name)[0].model.devices] == [(node,) for node in nodes]


class TestNvidia:
    def test_dev_181_mig_mixed_names_one_resource_for_each_profile(self):
        models = gpus(mig_strategy="mixed", mig={"1g.5gb": 2, "1g.5gb+me": 1})
        assert [model.resource for model in models] == ["nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.me"]
        assert [len(model.devices) for model in models] == [8, 4]
        assert all(name.startswith("MIG-") for name in ids(models[0]))

    def test_dev_181_mig_single_keeps_the_name(self):
        (model,) = gpus(mig_strategy="single", mig={"1g.5gb": 7})
        assert model.resource == "nvidia.com/gpu"
        assert len(model.devices) == 28

    def test_dev_183_envvar(self):
        (model,) = gpus()
        answer = model.allocate(ids(model, 2), serial=0)
        assert answer.envs == {"NVIDIA_VISIBLE_DEVICES": ",".join(ids(model, 2))}
        assert answer.mounts == answer.nodes == answer.cdi == ()

    def test_dev_183_volume_mounts(self):
        (model,) = gpus(device_list_strategy=("volume-mounts",))
        answer = model.allocate(ids(model, 1), serial=0)
        root = "/var/run/nvidia-container-devices"
        assert answer.envs == {"NVIDIA_VISIBLE_DEVICES": root}
        assert [(m.host_path, m.container_path) for m in answer.mounts] == [
            ("/dev/null", f"{root}/{ids(model)[0]}")
        ]

    def test_dev_183_cdi(self):
        (model,) = gpus(device_list_strategy=("cdi-annotations", "cdi-cri"), pass_device_specs=True)
        answer = model.allocate(ids(model, 2), serial=7)
        names = [f"k8s.device-plugin.nvidia.com/gpu={name}" for name in ids(model, 2)]
        assert list(answer.cdi) == names
        ((key, value),) = answer.annotations.items()
        assert key.startswith("cdi.k8s.io/nvidia-device-plugin_")
        assert value == ",".join(names)
        assert answer.envs == {}
        assert answer.nodes == ()  # DEV-184: with CDI strategies only, neither list env nor devices

    def test_dev_184_index_and_device_nodes(self):
        (model,) = gpus(device_id_strategy="index", pass_device_specs=True, features=("GDS",))
        answer = model.allocate([ids(model)[1], ids(model)[3]], serial=0)
        assert answer.envs == {"NVIDIA_VISIBLE_DEVICES": "1,3", "NVIDIA_GDS": "enabled"}
        paths = [node.host_path for node in answer.nodes]
        assert paths[-2:] == ["/dev/nvidia1", "/dev/nvidia3"]
        assert "/dev/nvidiactl" in paths
        assert {node.permissions for node in answer.nodes} == {"rw"}

    def test_dev_184_unknown_device(self):
        (model,) = gpus()
        with pytest.raises(Refused) as refused:
            model.allocate(["GPU-x"], serial=0)
        assert refused.value.text == (
            'invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: GPU-x'
        )

    def test_dev_186_replicas_share_one_gpu(self):
        (model,) = gpus(sharing="time-slicing", replicas=3, rename_by_default=True)
        assert model.resource == "nvidia.com/gpu.shared"
        first = ids(model)[0].partition("::")[0]
        assert ids(model, 3) == [f"{first}::{n}" for n in range(3)]
        answer = model.allocate(ids(model, 4), serial=0)
        assert answer.envs["NVIDIA_VISIBLE_DEVICES"].split(",") == [
            first,
            ids(model)[3].partition("::")[0],
        ]

    @pytest.mark.parametrize(
        ("sharing", "given", "refused"),
        [
            ("time-slicing", None, False),
            ("time-slicing", True, True),
            ("mps", None, True),
            ("mps", False, False),
        ],
    )
    def test_dev_186_more_than_one_replica(self, sharing, given, refused):
        (model,) = gpus(sharing=sharing, replicas=2, fail_requests_greater_than_one=given)
        if not refused:
            model.allocate(ids(model, 2), serial=0)
            return
        with pytest.raises(Refused) as problem:
            model.allocate(ids(model, 2), serial=0)
        assert problem.value.text.endswith(
            "invalid request: maximum request size for shared resources is 1; found 2"
        )

    def test_dev_186_mps_pipe_and_shm(self):
        (model,) = gpus(sharing="mps", replicas=2)
        answer = model.allocate(ids(model, 1), serial=0)
        assert answer.envs["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/nvidia.com/gpu/pipe"
        assert [mount.container_path for mount in answer.mounts] == ["/mps/nvidia.com/gpu/pipe", "/dev/shm"]

    def test_dev_187_preferred_stays_on_one_node(self):
        (model,) = gpus(count=8, numa_nodes=2)
        all_ids = ids(model)
        assert model.prefer(all_ids, [], 2) == tuple(all_ids[:2])
        # Node 0 has three left, node 1 all four: three fit node 0, four need node 1.
        assert model.prefer(all_ids[1:], [], 3) == tuple(all_ids[1:4])
        assert model.prefer(all_ids[1:], [], 4) == tuple(all_ids[4:])
        assert set(model.prefer(all_ids, [all_ids[6]], 3)) == {all_ids[6], all_ids[4], all_ids[5]}
        assert len(model.prefer(all_ids, [], 6)) == 6

    @pytest.mark.parametrize(
        ("preference", "picked"),
        [(Preference.SPREAD, ["b::0", "c::0"]), (Preference.PACKED, ["a::1", "a::2"])],
    )
    def test_dev_186_replica_preference(self, preference, picked):
        names = [f"{gpu}::{n}" for gpu in "abc" for n in range(3)]
        model = evolve(sample_model(), devices=tuple(Device(name) for name in names), preference=preference)
        assert list(model.prefer([name for name in names if name != "a::0"], [], 2)) == picked

    def test_dev_18d_gke(self):
        model = gke_gpu_model(count=2, shared=2)
        assert ids(model) == ["nvidia0/vgpu0", "nvidia0/vgpu1", "nvidia1/vgpu0", "nvidia1/vgpu1"]
        assert model.allocate(["nvidia1/vgpu1"], serial=0).nodes[0].host_path == "/dev/nvidia1"
        with pytest.raises(Refused) as refused:
            model.allocate(ids(model, 2), serial=0)
        assert refused.value.text == (
            "invalid request for sharing GPU (time-sharing), "
            "at most 1 nvidia.com/gpu can be requested on GPU nodes"
        )


class TestTpu:
    @pytest.mark.parametrize(
        ("generation", "topology", "chips", "expected"),
        [
            ("v4", "2x2x2", 4, {"TPU_ACCELERATOR_TYPE": "v4-16", "HOST_BOUNDS": "1,1,2"}),
            ("v5e", "2x4", 8, {"TPU_ACCELERATOR_TYPE": "v5litepod-8", "CHIPS_PER_HOST_BOUNDS": "2,4,1"}),
            ("v5e", "4x4", 4, {"TPU_HOST_BOUNDS": "2,2,1"}),
            (
                "v4",
                "4x4x4",
                4,
                {"TPU_ACCELERATOR_TYPE": "v4-128", "WRAP": "true,true,true", "HOST_BOUNDS": "2,2,4"},
            ),
            ("v3", "4x4", 4, {"TPU_ACCELERATOR_TYPE": "v3-32"}),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_dev_18c(self, generation, topology, chips, expected):
        env = slice_env(generation, topology, chips)
        assert {name: env[name] for name in expected} == expected

    def test_dev_18a_single_host_slice_names_its_worker(self):
        env = slice_env("v5e", "2x2", 4)
        assert env["TPU_WORKER_ID"] == "0"
        assert env["TPU_WORKER_HOSTNAMES"] == "localhost"
        assert env["TPU_RUNTIME_METRICS_PORTS"] == "8431,8432,8433,8434"
        assert "TPU_WORKER_ID" not in slice_env("v5e", "4x4", 4)
        assert slice_env("v4", "4x4x4", 4)["ENABLE_ICI_RESILIENCY"] == "true"

    @pytest.mark.parametrize(
        ("generation", "names", "paths"),
        [
            ("v4", ["accel0", "accel1", "accel2", "accel3"], ["/dev/accel0", "/dev/accel3"]),
            ("v5e", ["0", "1", "2", "3"], ["/dev/vfio/0", "/dev/vfio/vfio"]),
            (
                "tpu7x",
                ["0000:00:01", "0000:00:02", "0000:00:03", "0000:00:04"],
                ["/dev/vfio/0", "/dev/vfio/vfio"],
            ),
        ],
    )
    def test_dev_188_ids_and_nodes(self, generation, names, paths):
        model = tpu_model(TpuOptions(generation=generation))
        assert ids(model) == names
        nodes = [node.host_path for node in model.allocate(names, serial=0).nodes]
        assert [nodes[0], nodes[-1]] == paths
        assert model.notices is Notices.OWN_SOCKET
        assert (model.devices[0].numa_nodes is None) == (generation != "tpu7x")

    def test_dev_189_all_or_nothing(self):
        model = tpu_model(TpuOptions())
        with pytest.raises(Refused) as refused:
            model.allocate(["0", "1"], serial=0)
        assert refused.value.text == (
            "invalid TPU chip count request, you must request all 4 chips on this node together"
        )

    def test_dev_189_tpu7x_may_be_split_on_one_node(self):
        model = tpu_model(TpuOptions(generation="tpu7x"))
        model.allocate(ids(model, 2), serial=0)
        with pytest.raises(Refused):
            model.allocate([ids(model)[0], ids(model)[3]], serial=0)

    @pytest.mark.parametrize(
        "wrong",
        [{"generation": "v9"}, {"chips": 3}, {"topology": "4"}, {"topology": "axb"}, {"topology": "0x2"}],
    )
    def test_impossible_hosts(self, wrong):
        with pytest.raises(ValueError, match="TPU"):
            tpu_model(TpuOptions(**wrong))


class TestOthers:
    def test_dev_18e_amd(self):
        model = amd_model(count=2)
        nodes = [node.host_path for node in model.allocate(ids(model), serial=0).nodes]
        assert nodes == [
            "/dev/kfd",
            "/dev/dri/card0",
            "/dev/dri/renderD128",
            "/dev/dri/card1",
            "/dev/dri/renderD129",
        ]
        assert model.socket == "amd.com_gpu"
        assert amd_model(count=2, partition="spx_nps1").resource == "amd.com/spx_nps1"

    def test_dev_18f_fake_operator(self):
        model = fake_operator_model()
        assert model.identity is Identity.FRESH
        assert model.notices is Notices.NEVER
        answer = model.allocate(ids(model), serial=0)
        assert answer.envs["MOCK_NVIDIA_VISIBLE_DEVICES"] == ",".join(ids(model))
        assert answer.envs["NODE_NAME"] == "node-1"

    def test_dev_18g_sample(self):
        model = sample_model()
        assert model.allocate(["Dev-1"], serial=0).mounts[0].host_path == "/tmp/Dev-1"
        assert sample_model(cdi=True).allocate(["Dev-1"], serial=0).cdi == ("example.com/resource=CDI-Dev-1",)
        sick = evolve(model, devices=(Device("Dev-1", None, "Unhealthy"),))
        for names in (["Dev-1"], ["Dev-9"]):
            with pytest.raises(Refused):
                sick.allocate(names, serial=0)


def test_generic_templates_are_filled_for_each_device():
    from devices.model import MountSpec, NodeSpec

    model = Model(
        resource="v.com/w",
        socket="w.sock",
        devices=(Device("a"), Device("b")),
        env="W",
        envs={"MODE": "fast", "PATHS": "/dev/w{index}"},
        nodes=(NodeSpec("/dev/w{index}"), NodeSpec("/dev/wctl")),
        mounts=(MountSpec("/opt/{id}", "/srv/{id}", read_only=True),),
        cdi="v.com/w",
    )
    answer = model.allocate(["b", "a"], serial=0)
    assert answer.envs == {"W": "b,a", "MODE": "fast", "PATHS": "/dev/w1,/dev/w0"}
    assert [node.host_path for node in answer.nodes] == ["/dev/w1", "/dev/w0", "/dev/wctl"]
    assert [(m.host_path, m.container_path, m.read_only) for m in answer.mounts] == [
        ("/srv/b", "/opt/b", True),
        ("/srv/a", "/opt/a", True),
    ]
    assert answer.cdi == ("v.com/w=b", "v.com/w=a")
    message = answer_message(answer)
    assert [each.name for each in message.cdi_devices] == ["v.com/w=b", "v.com/w=a"]


def test_dev_144_topology_without_nodes_is_not_no_topology():
    message = list_message([Device("a"), Device("b", ()), Device("c", (0, 1))])
    assert [entry.HasField("topology") for entry in message.devices] == [False, True, True]
    assert [node.ID for node in message.devices[2].topology.nodes] == [0, 1]
