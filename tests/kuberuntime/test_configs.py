"""Requests as a real kubelet sent them in ``restart-all-sidecar-exit``, and other settings (RST-187 to
RST-194).

``data/recorded-configs.json`` holds RunPodSandbox and CreateContainer configs taken from a recorded run.
"""

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.types import (
    Capabilities,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EmptyDirVolumeSource,
    EnvVar,
    EphemeralContainer,
    HostAlias,
    PodDNSConfig,
    PodDNSConfigOption,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
    Sysctl,
    Volume,
    VolumeMount,
)
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import cgroups, podnet, security
from kubelet_emu.kuberuntime.env import ConfigError
from kubelet_emu.kuberuntime.seams import HostDns, NodeFacts, RunDevice, RunMount, RunOptions
from kubelet_emu.settings import KubeletSettings

RECORDED = json.loads((Path(__file__).parent / "data" / "recorded-configs.json").read_text())
IMAGE = "docker.io/library/busybox:1.36"


class Volumes:
    """Every volume is an emptyDir that is set up."""

    def host_path(self, pod, name):
        if name == "absent":
            return None
        return f"/var/lib/kubelet/pods/{pod.metadata.uid}/volumes/kubernetes.io~empty-dir/{name}"


def plain(config):
    """A config as the recording writes it, with what differs from run to run made equal."""
    found = json.loads(json.dumps(config))
    notes = found.get("annotations", {})
    for key in ("seen", "source"):
        notes.pop(f"kubernetes.io/config.{key}", None)
    found["annotations"] = notes
    found["envs"] = sorted(found.get("envs", []), key=lambda entry: entry["key"])
    if "image" in found:
        found["image"]["image"] = "id"
    for mount in found.get("mounts", []):
        if mount["container_path"] == "/dev/termination-log":
            mount["host_path"] = mount["host_path"].rsplit("/", 1)[0]
    return found


def test_recorded_requests_are_made_field_by_field(on_bench, a_pod):
    meta = RECORDED[0]["config"]["metadata"]
    rule = ContainerRestartRule(
        action="RestartAllContainers",
        exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(42,)),
    )

    def shell(name, script, **more):
        return Container(name=name, image=IMAGE, command=("sh", "-c", script), **more)

    scripts = {r["config"]["metadata"]["name"]: r["config"]["command"][2] for r in RECORDED[1:]}

    async def body(bench):
        bench.cri.images[IMAGE] = bench.cri.images["busybox"]
        pod = a_pod(
            "main",
            init=[
                shell("setup", scripts["setup"]),
                shell("log", scripts["log"], restart_policy="Always"),
                shell(
                    "source",
                    scripts["source"],
                    restart_policy="Always",
                    restart_policy_rules=(rule,),
                    volume_mounts=(VolumeMount(name="work", mount_path="/work"),),
                ),
            ],
            termination_grace_period_seconds=5,
            volumes=(Volume(name="work", empty_dir=EmptyDirVolumeSource()),),
            named=(meta["name"], meta["namespace"], meta["uid"]),
        )
        await bench.sync(pod)
        bench.cri.exit("setup", 0)
        await bench.sync(pod)
        await bench.sync(pod)
        made = [
            (method, MessageToDict(request.config, preserving_proto_field_name=True))
            for method, request in bench.cri.requests
        ]
        assert [method for method, _ in made] == [r["method"] for r in RECORDED[:4]]
        for (_, ours), theirs in zip(made, RECORDED, strict=False):
            assert plain(ours) == plain(theirs["config"])

    on_bench(body, volumes=Volumes())


def start(on_bench, pod, check, **seams):
    """Start the pod and hand the last CreateContainer request to ``check``."""

    async def body(bench):
        result = await bench.sync(pod)
        requests = [request for method, request in bench.cri.requests if method == "CreateContainer"]
        check(requests[-1].config if requests else None, result, bench)

    on_bench(body, **({"volumes": Volumes()} | seams))


def test_dev_106_plugin_parts_come_first(on_bench, a_pod):
    class Options:
        async def options(self, pod, container):
            return RunOptions(
                envs=(("GPU", "0"),),
                mounts=(RunMount(host_path="/h", container_path="/c", read_only=True),),
                devices=(RunDevice(host_path="/dev/x", container_path="/dev/y", permissions="rw"),),
                annotations={"vendor/a": "b", "io.kubernetes.container.restartCount": "9"},
                cdi_devices=("vendor.com/gpu=0",),
            )

    def check(config, result, bench):
        assert [(e.key, e.value) for e in config.envs][:2] == [("GPU", b"0"), ("A", b"$(GPU)")]
        assert config.args == ["0"]
        assert config.mounts[0].container_path == "/c"
        assert config.devices[0].container_path == "/dev/y"
        assert config.annotations["vendor/a"] == "b"
        assert config.annotations["io.kubernetes.container.restartCount"] == "0"
        assert [device.name for device in config.CDI_devices] == ["vendor.com/gpu=0"]

    container = Container(name="a", env=(EnvVar(name="A", value="$(GPU)"),), args=("$(GPU)",))
    start(on_bench, a_pod(container), check, options=Options())


def test_img_40_device_failure_is_a_config_error(on_bench, a_pod):
    class Options:
        async def options(self, pod, container):
            raise PeerError("no device")

    def check(config, result, bench):
        assert [(r.error, r.message) for r in result.failed] == [("CreateContainerConfigError", "no device")]
        assert bench.events.texts()[-1] == "Failed: Error: no device"

    start(on_bench, a_pod("a"), check, options=Options())


def mounting(**more):
    return Container(name="a", volume_mounts=(VolumeMount(**({"name": "v", "mount_path": "/v"} | more)),))


BROKEN = [
    pytest.param(mounting(name="absent"), 'cannot find volume "absent" to mount into container "a"'),
    pytest.param(mounting(sub_path="/abs"), "error SubPath `/abs` must not be an absolute path"),
    pytest.param(mounting(sub_path="a/../b"), "unable to provision SubPath `a/../b`: must not contain '..'"),
    pytest.param(mounting(sub_path_expr="$(X)"), 'missing value for "X"'),
]


@pytest.mark.parametrize(("container", "text"), BROKEN)
def test_vol_09_broken_mounts(on_bench, a_pod, container, text):
    def check(config, result, bench):
        assert [(r.error, r.message) for r in result.failed] == [("CreateContainerConfigError", text)]

    start(on_bench, a_pod(container), check)


def test_vol_09_sub_paths_are_made_and_written_volumes_are_read_only(on_bench, a_pod):
    def check(config, result, bench):
        base = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir"
        shown = [(m.container_path, m.host_path, m.readonly) for m in config.mounts[:2]]
        assert shown == [("/v", f"{base}/v/x/one", False), ("/c", f"{base}/c", True)]
        assert bench.files.exists(f"{base}/v/x/one")

    container = Container(
        name="a",
        env=(EnvVar(name="N", value="one"),),
        volume_mounts=(
            VolumeMount(name="v", mount_path="/v", sub_path_expr="x/$(N)"),
            VolumeMount(name="c", mount_path="/c"),
        ),
    )
    volumes = (
        Volume(name="v", empty_dir=EmptyDirVolumeSource()),
        Volume(name="c", config_map=ConfigMapVolumeSource(name="m")),
    )
    start(on_bench, a_pod(container, volumes=volumes), check)


def test_vol_10_hosts_file(on_bench, a_pod):
    def check(config, result, bench):
        text = bench.files.read("/var/lib/kubelet/pods/u/etc-hosts").decode()
        assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
        assert "\n10.0.0.9\th.sub.n.svc.cluster.local\th\n" in text
        assert text.endswith("\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")

    aliases = (HostAlias(ip="1.2.3.4", hostnames=("a", "b")),)
    start(on_bench, a_pod("a", hostname="h", subdomain="sub", host_aliases=aliases), check)


def test_vol_10_a_container_may_bring_its_own_hosts_file(on_bench, a_pod):
    def check(config, result, bench):
        assert [m.container_path for m in config.mounts] == ["/etc/hosts", "/dev/termination-log"]
        assert not bench.files.exists("/var/lib/kubelet/pods/u/etc-hosts")

    start(on_bench, a_pod(mounting(mount_path="/etc/hosts")), check)


def test_sandbox_of_a_pod_in_the_host_network(on_bench, a_pod):
    def check(config, result, bench):
        sandbox = next(r.config for m, r in bench.cri.requests if m == "RunPodSandbox")
        assert sandbox.hostname == ""
        assert sandbox.linux.security_context.namespace_options.network == 2
        assert list(sandbox.dns_config.servers) == ["8.8.8.8"]

    node = NodeFacts(host_dns=HostDns(servers=("8.8.8.8",)))
    start(on_bench, a_pod("a", host_network=True), check, node=node)


def test_sandbox_ports_sysctls_and_dns(on_bench, a_pod):
    def check(config, result, bench):
        sandbox = next(r.config for m, r in bench.cri.requests if m == "RunPodSandbox")
        assert [(p.container_port, p.host_port) for p in sandbox.port_mappings] == [(80, 8080)]
        assert dict(sandbox.linux.sysctls) == {"net.ipv4.x": "1"}
        assert list(sandbox.dns_config.servers) == ["10.96.0.10", "1.1.1.1"]
        assert list(sandbox.dns_config.options) == ["ndots:2", "debug"]

    dns = PodDNSConfig(
        nameservers=("1.1.1.1",),
        options=(PodDNSConfigOption(name="ndots", value="2"), PodDNSConfigOption(name="debug")),
    )
    pod = a_pod(
        Container(name="a", ports=(ContainerPort(container_port=80, host_port=8080, protocol="TCP"),)),
        security_context=PodSecurityContext(sysctls=(Sysctl(name="net/ipv4/x", value="1"),)),
        dns_config=dns,
    )
    start(on_bench, pod, check)


def sized(requests=None, limits=None, name="a"):
    def amounts(given):
        return {key: Quantity.parse(value) for key, value in (given or {}).items()}

    return Container(
        name=name, resources=ResourceRequirements(requests=amounts(requests), limits=amounts(limits))
    )


RESOURCES = [
    pytest.param(sized(), (2, 0, 0, 1000), id="best-effort"),
    pytest.param(sized({"cpu": "500m"}), (512, 0, 0, 999), id="request-only"),
    pytest.param(sized(limits={"cpu": "1", "memory": "1Gi"}), (1024, 100000, 1 << 30, -997), id="guaranteed"),
    pytest.param(sized({"memory": "12Gi"}, {"cpu": "2m"}), (2, 1000, 0, 500), id="burstable"),
    pytest.param(sized({"memory": "24Gi"}), (2, 0, 0, 3), id="all-of-it"),
]


@pytest.mark.parametrize(("container", "expected"), RESOURCES)
def test_linux_resources(a_pod, container, expected):
    pod = a_pod(container)
    made = cgroups.container_resources(pod, pod.spec.containers[0], NodeFacts())
    shown = (made.cpu_shares, made.cpu_quota, made.memory_limit_in_bytes, made.oom_score_adj)
    assert shown == expected


def test_a_sidecars_oom_score_is_not_above_the_regular_containers(a_pod):
    side = sized({"memory": "1Mi"}, name="side")
    pod = a_pod(sized({"memory": "12Gi"}), init=[Container(name="x", restart_policy="Always")])
    assert cgroups.oom_score_adjust(pod, pod.spec.init_containers[0], 24 * 1024**3) == 500
    assert cgroups.oom_score_adjust(pod, side, 24 * 1024**3) == 999


def test_container_security(a_pod):
    own = SecurityContext(
        privileged=True,
        run_as_group=7,
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",)),
        proc_mount="Unmasked",
    )
    pod = a_pod(
        Container(name="a", security_context=own),
        security_context=PodSecurityContext(run_as_user=5, fs_group=9, supplemental_groups=(10,)),
    )
    made = security.container_security(
        pod, pod.spec.containers[0], uid=0, username="", seccomp_default=True, root_dir="/r"
    )
    assert (made.run_as_user.value, made.run_as_group.value) == (5, 7)
    assert list(made.supplemental_groups) == [9, 10]
    assert (made.privileged, made.readonly_rootfs, made.no_new_privs) == (True, True, True)
    assert (list(made.masked_paths), list(made.capabilities.drop_capabilities)) == ([], ["ALL"])
    assert made.seccomp.profile_type == 0


NON_ROOT = [
    (None, 0, "", "container has runAsNonRoot and image will run as root"),
    (0, None, "", "container's runAsUser breaks non-root policy"),
    (None, None, "app", "container has runAsNonRoot and image has non-numeric user (app), cannot verify"),
]


@pytest.mark.parametrize(("asked", "uid", "username", "text"), NON_ROOT)
def test_img_43_run_as_non_root(a_pod, asked, uid, username, text):
    own = SecurityContext(run_as_non_root=True, run_as_user=asked)
    pod = a_pod(Container(name="a", security_context=own))
    with pytest.raises(ConfigError) as error:
        security.verify_run_as_non_root(pod, pod.spec.containers[0], uid, username)
    assert str(error.value).startswith(text)
    assert str(error.value).endswith('(pod: "p_n(u)", container: a)')


def test_img_43_a_numeric_user_is_fine(a_pod):
    own = SecurityContext(run_as_non_root=True)
    pod = a_pod(Container(name="a", security_context=own))
    security.verify_run_as_non_root(pod, pod.spec.containers[0], 1000, "")


def test_cri_153_user_namespaces_are_kept_per_pod(on_bench, a_pod):
    async def body(bench):
        pod = a_pod("a", host_users=False)
        await bench.sync(pod)
        options = [
            request.config.linux.security_context.namespace_options.userns_options
            for _, request in bench.cri.requests
        ]
        assert [(o.mode, o.uids[0].host_id, o.uids[0].length) for o in options] == [(0, 65536, 65536)] * 2
        bench.runtime.forget_pod("u")

    on_bench(body)


def test_ephemeral_target_shares_the_process_namespace(on_bench, a_pod):
    async def body(bench):
        debug = EphemeralContainer(name="e", image="busybox:1.36", target_container_name="a")
        pod = a_pod("a", ephemeral_containers=(debug,))
        await bench.sync(pod)
        await bench.sync(pod)
        config = bench.cri.requests[-1][1].config
        options = config.linux.security_context.namespace_options
        assert (config.metadata.name, options.pid, options.target_id) == ("e", 3, bench.cri.by_name("a").id)

    on_bench(body)


def test_host_names_are_cut():
    from kubelet_emu.api.types import ObjectMeta, Pod

    pod = Pod(metadata=ObjectMeta(name="a" * 62 + "-b", namespace="n", uid="u"))
    assert podnet.host_name(pod, "cluster.local").kernel == "a" * 62


def test_cluster_first_without_cluster_dns_falls_back(a_pod):
    host = HostDns(servers=("9.9.9.9",))
    config = podnet.dns_config(a_pod("a"), KubeletSettings(cluster_dns=()), host)
    assert list(config.servers) == ["9.9.9.9"]
