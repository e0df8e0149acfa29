# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
"""What the CRI validation suite asks, asked again by a plain grpcio client over a unix socket.

A case is a function of a ``Bench``: client, folder of the node, and names of its own. ``CASES`` is by group
and title; the table in docs/cri-support.md is made from which methods each of them was seen to call.
"""

import itertools
import re
import subprocess
import time

from k8s_proto import runtime_v1_pb2 as cri
from tests.cri_fake.grpc_client import METHODS

CASES = {}
_numbers = itertools.count()
STAGING = "gcr.io/k8s-staging-cri-tools"
RUNS_ON = ("nc", "-l", "-p", "9999")
"""A program that ends on TERM and is no ``sleep``, which one case looks for."""
YOUNGER = [name for name in ("CheckpointPod", "RestorePod") if name in METHODS]
LOGS = "/var/log/pods/validation"


def case(group, title):
    def add(function):
        assert (group, title) not in CASES
        CASES[group, title] = function
        return function

    return add


class Bench:
    """One case: ``c`` is the client; pods made through it are removed at the end."""

    def __init__(self, client, node):
        self.c = client
        self.node = node
        self.name = f"case{next(_numbers)}"
        self._pods = []

    def pod(self, **fields):
        sandbox, config = self.c.pod(f"{self.name}-{len(self._pods)}", **fields)
        self._pods.append(sandbox)
        return sandbox, config

    def container(self, command=RUNS_ON, **fields):
        sandbox, config = self.pod(log_directory=f"{LOGS}/{self.name}")
        return self.c.container(sandbox, config, command=command, **fields)

    def exec(self, container, *cmd, timeout=20):
        return self.c.ExecSync(container_id=container, cmd=cmd, timeout=timeout)

    def end(self):
        for sandbox in self._pods:
            self.c.StopPodSandbox(pod_sandbox_id=sandbox)
            self.c.RemovePodSandbox(pod_sandbox_id=sandbox)

    def pull(self, reference):
        return self.c.PullImage(image=cri.ImageSpec(image=reference)).image_ref

    def image(self, reference):
        reply = self.c.ImageStatus(image=cri.ImageSpec(image=reference))
        return reply.image if reply.HasField("image") else None

    def unpull(self, reference):
        self.c.RemoveImage(image=cri.ImageSpec(image=reference))


# Runtime info


@case("Runtime info", "runtime should return version info")
def _(b):
    version = b.c.Version(version="v1")
    assert (version.version, version.runtime_api_version) == ("0.1.0", "v1")
    assert version.runtime_name
    assert version.runtime_version


@case("Runtime info", "runtime should return runtime conditions")
def _(b):
    conditions = {each.type: each.status for each in b.c.Status().status.conditions}
    assert conditions == {"RuntimeReady": True, "NetworkReady": True}


# PodSandbox


@case("PodSandbox basic", "running PodSandbox")
def _(b):
    sandbox, _ = b.pod()
    assert b.c.PodSandboxStatus(pod_sandbox_id=sandbox).status.state == cri.SANDBOX_READY


@case("PodSandbox basic", "stopping PodSandbox")
def _(b):
    sandbox, _ = b.pod()
    b.c.StopPodSandbox(pod_sandbox_id=sandbox)
    assert b.c.PodSandboxStatus(pod_sandbox_id=sandbox).status.state == cri.SANDBOX_NOTREADY


@case("PodSandbox basic", "removing PodSandbox")
def _(b):
    sandbox, _ = b.pod()
    b.c.RemovePodSandbox(pod_sandbox_id=sandbox)
    assert sandbox not in b.c.pods()


@case("PodSandbox basic", "preserving PodSandbox attributes")
def _(b):
    sandbox, config = b.pod(labels={"a": "b"}, annotations={"c": "d"})
    status = b.c.PodSandboxStatus(pod_sandbox_id=sandbox).status
    (item,) = b.c.ListPodSandbox(filter=cri.PodSandboxFilter(id=sandbox)).items
    for found in (status, item):
        assert found.metadata == config.metadata
        assert dict(found.labels) == {"a": "b"}
        assert dict(found.annotations) == {"c": "d"}


MAY_BE_MISSING = re.compile("hugetlb|pressure|cpu_quota|memory_reservation|ulimits|blkio|fs_(reads|writes)")


@case("PodSandbox metrics", "returning metrics descriptors")
def _(b):
    descriptors = b.c.ListMetricDescriptors().descriptors
    assert len(descriptors) >= 56
    assert all(each.name and each.help and len(each.label_keys) >= 5 for each in descriptors)


@case("PodSandbox metrics", "listing pod sandbox metrics")
def _(b):
    container = b.container()
    script = "mkdir -p /var/lib/mydisktest && for i in 1 2 3; do echo $i > /var/lib/mydisktest/$i; done; sync"
    assert b.exec(container, "/bin/sh", "-c", script).exit_code == 0
    keys = {each.name: len(each.label_keys) for each in b.c.ListMetricDescriptors().descriptors}
    sandbox = b.c.ListContainers(filter=cri.ContainerFilter(id=container)).containers[0].pod_sandbox_id
    (mine,) = [each for each in b.c.ListPodSandboxMetrics().pod_metrics if each.pod_sandbox_id == sandbox]
    found = [*mine.metrics, *(metric for each in mine.container_metrics for metric in each.metrics)]
    assert all(len(each.label_values) == keys[each.name] and each.HasField("value") for each in found)
    missing = set(keys) - {each.name for each in found}
    assert all(MAY_BE_MISSING.search(name) for name in missing)


def _sysctl(b, name, value):
    sandbox, config = b.pod(linux=cri.LinuxPodSandboxConfig(sysctls={name: value}))
    container = b.c.container(sandbox, config)
    assert b.exec(container, "cat", "/proc/sys/" + name.replace(".", "/")).stdout == value.encode() + b"\n"


@case("PodSandbox sysctls", "should support safe sysctls")
def _(b):
    _sysctl(b, "kernel.shm_rmid_forced", "1")


@case("PodSandbox sysctls", "should support unsafe sysctls")
def _(b):
    _sysctl(b, "fs.mqueue.msg_max", "100")


# Containers


@case("Container basic", "creating container")
def _(b):
    container = b.container(start=False)
    assert b.c.listed(id=container) == [container]
    assert b.c.status(container).state == cri.CONTAINER_CREATED


@case("Container basic", "starting container")
def _(b):
    assert b.c.status(b.container()).state == cri.CONTAINER_RUNNING


@case("Container basic", "stopping container")
def _(b):
    container = b.container()
    start = time.monotonic()
    b.c.StopContainer(container_id=container, timeout=60)
    assert time.monotonic() - start < 60
    assert b.c.status(container).state == cri.CONTAINER_EXITED


@case("Container basic", "preserving container attributes")
def _(b):
    labels = {"foo": "bar"}
    container = b.container(start=False, labels=labels, annotations={"x": "y"})
    (item,) = b.c.ListContainers(filter=cri.ContainerFilter(id=container)).containers
    for found in (b.c.status(container), item):
        assert dict(found.labels) == labels
        assert dict(found.annotations) == {"x": "y"}
        assert found.metadata.name == "main"


@case("Container basic", "removing created container")
def _(b):
    container = b.container(start=False)
    b.c.RemoveContainer(container_id=container)
    assert b.c.listed(id=container) == []


@case("Container basic", "removing running container")
def _(b):
    container = b.container()
    b.c.RemoveContainer(container_id=container)
    assert b.c.listed(id=container) == []


@case("Container basic", "removing stopped container")
def _(b):
    container = b.container()
    b.c.StopContainer(container_id=container, timeout=10)
    b.c.RemoveContainer(container_id=container)
    assert b.c.listed(id=container) == []


@case("Container basic", "execSync")
def _(b):
    reply = b.exec(b.container(), "echo", "-n", "hello")
    assert (reply.stdout, reply.stderr, reply.exit_code) == (b"hello", b"", 0)


@case("Container basic", "execSync with timeout")
def _(b):
    container = b.container()
    code, _ = b.c.refused("ExecSync", container_id=container, cmd=["sleep", "4321"], timeout=1)
    assert code == "DEADLINE_EXCEEDED"
    assert b.exec(container, "sh", "-c", "pgrep sleep || true").stdout == b""


@case("Container basic", "listing container stats")
def _(b):
    container = b.container()
    stats = b.c.ContainerStats(container_id=container).stats
    assert (stats.attributes.id, stats.attributes.metadata.name) == (container, "main")
    assert stats.cpu.timestamp > 0
    assert stats.memory.timestamp > 0
    later = b.c.ContainerStats(container_id=container).stats
    assert later.cpu.timestamp > stats.cpu.timestamp
    assert later.cpu.usage_core_nano_seconds.value >= stats.cpu.usage_core_nano_seconds.value


def _stats(b, **wanted):
    reply = b.c.ListContainerStats(filter=cri.ContainerStatsFilter(**wanted))
    return [each.attributes.id for each in reply.stats]


@case("Container basic", "listing stats for started containers")
def _(b):
    running, created = b.container(), b.container(start=False)
    assert _stats(b, id=running) == [running]
    assert _stats(b, id=created) == []


@case("Container basic", "listing stats for started containers when filter is nil")
def _(b):
    running = b.container()
    assert running in [each.attributes.id for each in b.c.ListContainerStats().stats]


@case("Container basic", "listing stats for three created containers")
def _(b):
    sandbox, config = b.pod()
    made = [b.c.container(sandbox, config, f"c{number}") for number in range(3)]
    assert _stats(b, pod_sandbox_id=sandbox) == made


@case("Container basic", "listing stats filtered by labels")
def _(b):
    wanted = b.container(labels={"which": b.name})
    b.container(labels={"which": "other"})
    assert _stats(b, label_selector={"which": b.name}) == [wanted]


@case("Container volume", "starting container with volume")
def _(b):
    host = b.node / b.name
    host.mkdir()
    (host / "flag").write_text("")
    mounts = [cri.Mount(host_path=f"/{b.name}", container_path=f"/{b.name}")]
    assert b.exec(b.container(mounts=mounts), "ls", "-A", f"/{b.name}").stdout == b"flag\n"


@case("Container volume", "starting container with volume when host path is a symlink")
def _(b):
    host = b.node / b.name
    host.mkdir()
    (host / "flag").write_text("")
    (b.node / f"{b.name}-link").symlink_to(f"/{b.name}")
    mounts = [cri.Mount(host_path=f"/{b.name}-link", container_path="/vol")]
    assert b.exec(b.container(mounts=mounts), "ls", "-A", "/vol").stdout == b"flag\n"


@case("Container log", "starting container with log")
def _(b):
    container = b.container(["echo", "hello World"], log_path="main.log")
    status = b.c.exited(container)
    (line,) = (b.node / status.log_path.lstrip("/")).read_text().splitlines()
    assert line.endswith(" stdout F hello World")


@case("Container log", "reopening container log")
def _(b):
    container = b.container(["sh", "-c", "while true; do echo hello; sleep 0.05; done"], log_path="main.log")
    log = b.node / b.c.status(container).log_path.lstrip("/")
    old = log.with_name("old.log")
    log.rename(old)
    b.c.ReopenContainerLog(container_id=container)
    assert log.exists()
    size = old.stat().st_size
    time.sleep(0.3)
    assert old.stat().st_size == size
    assert log.stat().st_size > 0


RRO = {
    "should reject a recursive readonly mount with PROPAGATION_HOST_TO_CONTAINER": {
        "readonly": True,
        "propagation": cri.PROPAGATION_HOST_TO_CONTAINER,
    },
    "should reject a recursive readonly mount with PROPAGATION_BIDIRECTIONAL": {
        "readonly": True,
        "propagation": cri.PROPAGATION_BIDIRECTIONAL,
    },
    "should reject a recursive readonly mount with ReadOnly: false": {"readonly": False},
}
for title, mount in RRO.items():

    @case("Mount readonly", title)
    def _(b, mount=mount):
        sandbox, config = b.pod()
        wanted = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image="busybox:1.36"),
            mounts=[cri.Mount(host_path="/x", container_path="/x", recursive_read_only=True, **mount)],
        )
        b.c.refused("CreateContainer", pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)


# Idempotence

NOT_FOUND = "f" * 64


@case("Idempotence", "StopPodSandbox not found")
def _(b):
    b.c.StopPodSandbox(pod_sandbox_id=NOT_FOUND)


@case("Idempotence", "StopPodSandbox already stopped")
def _(b):
    sandbox, _ = b.pod()
    b.c.StopPodSandbox(pod_sandbox_id=sandbox)
    b.c.StopPodSandbox(pod_sandbox_id=sandbox)


@case("Idempotence", "RemovePodSandbox not found")
def _(b):
    b.c.RemovePodSandbox(pod_sandbox_id=NOT_FOUND)


@case("Idempotence", "StopContainer not found")
def _(b):
    b.c.StopContainer(container_id=NOT_FOUND, timeout=0)


@case("Idempotence", "StopContainer already stopped")
def _(b):
    container = b.container()
    b.c.StopContainer(container_id=container, timeout=0)
    b.c.StopContainer(container_id=container, timeout=0)


@case("Idempotence", "RemoveContainer not found")
def _(b):
    b.c.RemoveContainer(container_id=NOT_FOUND)


@case("Idempotence", "RemoveImage not found")
def _(b):
    b.unpull(f"{STAGING}/no-such-image:1")


# Images

PUBLIC = {
    "public image with tag should be pulled and removed": (f"{STAGING}/test-image-tag:test", "tag"),
    "public image without tag should be pulled and removed": (f"{STAGING}/test-image-latest", "tag"),
    "public image with digest should be pulled and removed": (
        f"{STAGING}/test-image-digest@sha256:9700f9a2f5bf2c45f2f605a0bd3bce7cf37420ec9d3ed50ac2758413308766bf",
        "digest",
    ),
}
for title, (reference, kind) in PUBLIC.items():

    @case("Image Manager", title)
    def _(b, reference=reference, kind=kind):
        b.unpull(reference)
        b.pull(reference)
        image = b.image(reference)
        assert image.size > 0
        if kind == "digest":
            assert list(image.repo_tags) == []
            assert list(image.repo_digests) == [reference]
        else:
            full = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
            assert list(image.repo_tags) == [full]
        b.unpull(reference)
        assert b.image(reference) is None


@case("Image Manager", "public image should timeout if requested")
def _(b):
    reference = f"{STAGING}/test-image-1:latest"
    b.unpull(reference)
    code, _ = b.c.refused("PullImage", deadline=0.001, image=cri.ImageSpec(image=reference))
    assert code == "DEADLINE_EXCEEDED"


@case("Image Manager", "image status should support all kinds of references")
def _(b):
    reference = f"{STAGING}/test-image-tag:all"
    image = b.image(b.pull(reference))
    assert image == b.image(reference) == b.image(image.id) == b.image(image.repo_digests[0])
    b.unpull(reference)


@case("Image Manager", "image status get image fields should not have Uid|Username empty")
def _(b):
    for name, uid, user in (
        ("uid", 1002, ""),
        ("username", None, "www-data"),
        ("uid-group", 1003, ""),
        ("username-group", None, "www-data"),
    ):
        image = b.image(b.pull(f"{STAGING}/test-image-user-{name}"))
        assert (image.uid.value if image.HasField("uid") else None, image.username) == (uid, user)
        b.unpull(image.id)


@case("Image Manager", "listImage should get exactly 3 image in the result list")
def _(b):
    ids = [b.pull(f"{STAGING}/test-image-{number}:latest") for number in (1, 2, 3)]
    assert [each.id for each in b.c.ListImages().images if each.id in ids] == ids
    for each in ids:
        b.unpull(each)


@case("Image Manager", "listImage should get exactly 3 repoTags in the result image")
def _(b):
    references = [f"{STAGING}/test-image-tags:{number}" for number in (1, 2, 3)]
    (image_id,) = {b.pull(each) for each in references}
    assert sorted(b.image(image_id).repo_tags) == references
    b.unpull(image_id)


@case("Image Manager", "removing image by one tag should remove all tags")
def _(b):
    references = [f"{STAGING}/test-image-tags:{number}" for number in (1, 2, 3)]
    for each in references:
        b.pull(each)
    b.unpull(references[1])
    assert [b.image(each) for each in references] == [None] * 3


@case("Image Manager", "removing image from one registry should remove all tags from other registries")
def _(b):
    references = ["registry.k8s.io/pause:3.9", "k8s.gcr.io/pause:3.9"]
    assert len({b.pull(each) for each in references}) == 1
    b.unpull(references[0])
    assert [b.image(each) for each in references] == [None] * 2


@case("Image Consistency", "should list and get image status immediately after pulling")
def _(b):
    image_id = b.pull(f"{STAGING}/test-image-1:latest")
    assert image_id in [each.id for each in b.c.ListImages().images]
    assert b.image(image_id).id == image_id


@case("Image Consistency", "should not list or get image status immediately after removal")
def _(b):
    image_id = b.pull(f"{STAGING}/test-image-1:latest")
    b.unpull(image_id)
    assert image_id not in [each.id for each in b.c.ListImages().images]
    assert b.image(image_id) is None


@case("Image Consistency", "should not fail on simultaneous RemoveImage calls")
def _(b):
    from concurrent.futures import ThreadPoolExecutor

    image_id = b.pull(f"{STAGING}/test-image-1:latest")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: b.unpull(image_id), range(16)))
    assert b.image(image_id) is None


@case("Image Identifier Consistency", "same image identifier across all APIs")
def _(b):
    reference = "registry.k8s.io/e2e-test-images/busybox:1.29-2"
    image_id = b.pull(reference)
    sandbox, config = b.pod()
    container = b.c.container(sandbox, config, command=[], image=cri.ImageSpec(image=image_id))
    (item,) = b.c.ListContainers(filter=cri.ContainerFilter(id=container)).containers
    assert image_id == b.image(reference).id == item.image_id == b.c.status(container).image_id
    assert image_id in [each.id for each in b.c.ListImages().images]


@case("Image Identifier Consistency", "when pulled from different registries")
def _(b):
    references = ["registry.k8s.io/e2e-test-images/busybox:1.29-2", "docker.io/library/busybox:1.29-2"]
    assert len({b.pull(each) for each in references}) == 1


def _image_volume(b, **fields):
    image_id = b.pull("registry.k8s.io/e2e-test-images/busybox:1.29-2")
    mount = cri.Mount(
        container_path="/volume", **{"readonly": True, "image": cri.ImageSpec(image=image_id), **fields}
    )
    sandbox, config = b.pod()
    wanted = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"),
        image=cri.ImageSpec(image="busybox:1.36"),
        command=RUNS_ON,
        mounts=[mount],
    )
    return {"pod_sandbox_id": sandbox, "config": wanted, "sandbox_config": config}


@case("Image Volume", "should correctly mount image and enforce read-only")
def _(b):
    container = b.c.CreateContainer(**_image_volume(b)).container_id
    b.c.StartContainer(container_id=container)
    assert b"etc" in b.exec(container, "ls", "/volume").stdout
    (mount,) = b.c.status(container).mounts
    assert mount.image.image


@case("Image Volume", "should reject Readonly set to false")
def _(b):
    code, text = b.c.refused("CreateContainer", **_image_volume(b, readonly=False))
    assert (code, "ImageVolumeMountFailed" in text) == ("UNKNOWN", True)


@case("Image Volume", "subPath should succeed when valid")
def _(b):
    container = b.c.CreateContainer(**_image_volume(b, image_sub_path="etc")).container_id
    b.c.StartContainer(container_id=container)
    assert b"passwd" in b.exec(container, "ls", "/volume").stdout


@case("Image Volume", "subPath should fail when missing")
def _(b):
    b.c.refused("CreateContainer", **_image_volume(b, image_sub_path="no/such"))


# Network


@case("Networking", "should support DNS config")
def _(b):
    dns = cri.DNSConfig(servers=["10.10.10.10", "fd00::a"], searches=["google.com"], options=["ndots:8"])
    sandbox, config = b.pod(dns_config=dns)
    lines = b.exec(b.c.container(sandbox, config), "cat", "/etc/resolv.conf").stdout.decode().splitlines()
    assert {"nameserver 10.10.10.10", "nameserver fd00::a", "search google.com"} < set(lines)
    assert "options ndots:8" in lines


@case("Networking", "should support set hostname")
def _(b):
    sandbox, config = b.pod(hostname="my-host")
    assert b.exec(b.c.container(sandbox, config), "hostname").stdout == b"my-host\n"


SERVER = ["sh", "-c", "mkdir /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www"]


def _curl(address):
    command = ["curl", "-s", "--noproxy", "*", "--retry", "20", "--retry-connrefused", "--retry-delay", "0"]
    return subprocess.run([*command, address], capture_output=True, timeout=30, check=False).stdout


@case("Networking", "should support port mapping with only container port")
def _(b):
    sandbox, config = b.pod(port_mappings=[cri.PortMapping(container_port=8080)])
    b.c.container(sandbox, config, command=SERVER)
    address = b.c.PodSandboxStatus(pod_sandbox_id=sandbox).status.network.ip
    assert address.startswith("127.")
    assert _curl(f"http://{address}:8080/") == b"hello\n"


@case("Networking", "should support port mapping with host port and container port")
def _(b):
    mappings = [cri.PortMapping(container_port=8080, host_port=12000)]
    sandbox, config = b.pod(port_mappings=mappings)
    b.c.container(sandbox, config, command=SERVER)
    address = b.c.PodSandboxStatus(pod_sandbox_id=sandbox).status.network.ip
    assert _curl(f"http://{address}:8080/") == _curl("http://127.0.0.1:12000/") == b"hello\n"
    code, text = b.c.refused(
        "RunPodSandbox",
        config=cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=b.name, uid="other"), port_mappings=mappings
        ),
    )
    assert (code, "cannot open hostport 12000" in text) == ("UNKNOWN", True)
    b.c.StopPodSandbox(pod_sandbox_id=sandbox)
    again, _ = b.pod(port_mappings=mappings)
    assert again


# Security


@case("Security Context", "should return error if RunAsGroup is set without RunAsUser")
def _(b):
    sandbox, config = b.pod()
    wanted = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"), image=cri.ImageSpec(image="busybox:1.36")
    )
    wanted.linux.security_context.run_as_group.value = 1001
    b.c.refused("CreateContainer", pod_sandbox_id=sandbox, config=wanted, sandbox_config=config)


@case("Security Context", "ReadOnlyRootfs is false")
def _(b):
    script = "touch test.go && [ -f test.go ] && echo Found"
    container = b.container(["sh", "-c", script], log_path="main.log")
    log = b.node / b.c.exited(container).log_path.lstrip("/")
    assert log.read_text().endswith(" stdout F Found\n")


@case("Security Context", "ReadOnlyRootfs is true")
def _(b):
    linux = cri.LinuxContainerConfig()
    linux.security_context.readonly_rootfs = True
    container = b.container(["sh", "-c", "touch test.go"], log_path="main.log", linux=linux)
    log = b.node / b.c.exited(container).log_path.lstrip("/")
    assert log.read_text().endswith(" stderr F touch: test.go: Read-only file system\n")


USERNS = {
    "fail: more than one mapping": (cri.POD, [(0, 1000, 10), (10, 2000, 10)]),
    "fail: container ID 0 not mapped": (cri.POD, [(1, 1000, 10)]),
    "fail: NamespaceMode_CONTAINER": (cri.CONTAINER, [(0, 1000, 10)]),
    "fail: NamespaceMode_TARGET": (cri.TARGET, [(0, 1000, 10)]),
}
for title, (mode, maps) in USERNS.items():

    @case("UserNamespaces", title)
    def _(b, mode=mode, maps=maps):
        entries = [cri.IDMapping(container_id=c, host_id=h, length=n) for c, h, n in maps]
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name=b.name, uid="u"))
        options = config.linux.security_context.namespace_options.userns_options
        options.mode = mode
        options.uids.extend(entries)
        options.gids.extend(entries)
        b.c.refused("RunPodSandbox", config=config)


# What the suite does not ask


@case("Beyond the suite", "resources of a container and of a sandbox")
def _(b):
    sandbox, config = b.pod()
    container = b.c.container(sandbox, config)
    b.c.UpdateContainerResources(
        container_id=container, linux=cri.LinuxContainerResources(memory_limit_in_bytes=1 << 26)
    )
    assert b.c.status(container).resources.linux.memory_limit_in_bytes == 1 << 26
    b.c.UpdatePodSandboxResources(
        pod_sandbox_id=sandbox, resources=cri.LinuxContainerResources(cpu_shares=99)
    )
    info = b.c.PodSandboxStatus(pod_sandbox_id=sandbox, verbose=True).info["info"]
    assert '"cpu_shares": "99"' in info


@case("Beyond the suite", "pod stats")
def _(b):
    container = b.container()
    sandbox = b.c.ListContainers(filter=cri.ContainerFilter(id=container)).containers[0].pod_sandbox_id
    first = b.c.PodSandboxStats(pod_sandbox_id=sandbox).stats
    reply = b.c.ListPodSandboxStats(filter=cri.PodSandboxStatsFilter(id=sandbox))
    (second,) = reply.stats
    assert [each.attributes.id for each in first.linux.containers] == [container]
    assert second.linux.cpu.timestamp > first.linux.cpu.timestamp
    assert second.linux.network.default_interface.rx_bytes.value > 0


@case("Beyond the suite", "a checkpoint is written where it is asked for, and the container runs on")
def _(b):
    import tarfile

    container = b.container()
    b.c.CheckpointContainer(container_id=container, location=f"/{b.name}.tar", timeout=10)
    with tarfile.open(b.node / f"{b.name}.tar") as archive:
        assert archive.getnames() == ["config.dump", "spec.dump", "status.dump"]
    assert b.c.status(container).state == cri.CONTAINER_RUNNING
    assert b.c.refused("CheckpointContainer", container_id=container, location="x")[0] == "INVALID_ARGUMENT"


@case("Beyond the suite", "streamed lists equal plain ones")
def _(b):
    b.container()
    for plain, streamed, items, parts in (
        ("ListContainers", "StreamContainers", "containers", "containers"),
        ("ListPodSandbox", "StreamPodSandboxes", "items", "pod_sandboxes"),
        ("ListImages", "StreamImages", "images", "images"),
    ):
        whole = list(getattr(getattr(b.c, plain)(), items))
        stream = getattr(b.c, streamed)()
        assert [each for batch in stream for each in getattr(batch, parts)] == whole
    for name, parts in (
        ("StreamContainerStats", "container_stats"),
        ("StreamPodSandboxStats", "pod_sandbox_stats"),
        ("StreamPodSandboxMetrics", "pod_sandbox_metrics"),
    ):
        assert [each for batch in getattr(b.c, name)() for each in getattr(batch, parts)]


@case("Beyond the suite", "events of a pod in order")
def _(b):
    stream = b.c.GetContainerEvents(deadline=30)
    container = b.container(["true"])
    b.c.exited(container)
    kinds = []
    for event in stream:
        if container in (event.container_id, *(each.id for each in event.containers_statuses)):
            kinds.append((event.container_id == container, event.container_event_type))
        if kinds[-1:] == [(True, cri.CONTAINER_STOPPED_EVENT)]:
            break
    stream.cancel()
    assert kinds == [(True, 0), (True, 1), (True, 2)]


@case("Beyond the suite", "configuration of the runtime")
def _(b):
    assert b.c.RuntimeConfig().linux.cgroup_driver == cri.CGROUPFS
    b.c.UpdateRuntimeConfig(runtime_config=cri.RuntimeConfig())
    usage = b.c.ImageFsInfo().image_filesystems[0]
    assert usage.HasField("used_bytes")


@case("Beyond the suite", "requests for streams are checked before they are granted")
def _(b):
    container = b.container()
    for name in ("Exec", "Attach"):
        wanted = {"container_id": container}
        assert b.c.refused(name, **wanted)[0] == "INVALID_ARGUMENT"
        assert b.c.refused(name, **wanted, tty=True, stderr=True)[0] == "INVALID_ARGUMENT"
        assert b.c.refused(name, container_id=NOT_FOUND, stdout=True)[0] == "NOT_FOUND"
    assert b.c.refused("PortForward")[0] == "INVALID_ARGUMENT"


@case("Beyond the suite", "methods that are younger than Kubernetes 1.36")
def _(b):
    for name in YOUNGER:
        assert b.c.refused(name)[0] == "UNIMPLEMENTED"
