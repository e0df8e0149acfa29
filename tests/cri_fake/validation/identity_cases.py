# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
"""Cases of the CRI validation suite about image mounts, users, groups and several containers.

Importing this module adds them to ``cases.CASES``.
"""

from k8s_proto import runtime_v1_pb2 as cri
from tests.cri_fake.validation.cases import LOGS, SERVER, STAGING, _curl, _image_volume, case


@case("Image Volume", "should return image digest in ContainerStatus mounts")
def _(b):
    container = b.c.CreateContainer(**_image_volume(b)).container_id
    b.c.StartContainer(container_id=container)
    (mount,) = [each for each in b.c.status(container).mounts if each.HasField("image")]
    assert mount.image.image
    assert b.image(mount.image.image) is not None


def _as(**fields):
    linux = cri.LinuxContainerConfig()
    linux.security_context.MergeFrom(cri.LinuxContainerSecurityContext(**fields))
    return linux


@case("Security Context", "SupplementalGroups")
def _(b):
    linux = _as(run_as_user=cri.Int64Value(value=1000), supplemental_groups=[1234, 5678])
    groups = b.exec(b.container(linux=linux), "id", "-G").stdout.split()
    assert {b"1234", b"5678"} <= set(groups)


@case("Security Context", "RunAsUser")
def _(b):
    container = b.container(linux=_as(run_as_user=cri.Int64Value(value=1001)))
    assert b.exec(container, "id", "-u").stdout == b"1001\n"


@case("Security Context", "RunAsUserName")
def _(b):
    container = b.container(linux=_as(run_as_username="nobody"))
    assert b.exec(container, "id", "-nu").stdout == b"nobody\n"


@case("Security Context", "RunAsGroup")
def _(b):
    linux = _as(run_as_user=cri.Int64Value(value=1001), run_as_group=cri.Int64Value(value=1002))
    container = b.container(["sh", "-c", "echo $(id -u):$(id -g)"], linux=linux, log_path="main.log")
    log = b.node / b.c.exited(container).log_path.lstrip("/")
    assert log.read_text().endswith(" stdout F 1001:1002\n")


PREDEFINED = f"{STAGING}/test-image-predefined-group"


def _groups(b, policy):
    b.pull(PREDEFINED)
    linux = _as(
        run_as_user=cri.Int64Value(value=1000),
        run_as_group=cri.Int64Value(value=1000),
        supplemental_groups=[60000],
        supplemental_groups_policy=policy,
    )
    container = b.container(image=cri.ImageSpec(image=PREDEFINED), linux=linux)
    told = list(b.c.status(container).user.linux.supplemental_groups)
    assert told == [int(each) for each in b.exec(container, "id", "-G").stdout.split()]
    return set(told)


@case("SupplementalGroupsPolicy", "Merge: groups of the image and of the container")
def _(b):
    assert _groups(b, cri.Merge) == {1000, 50000, 60000}


@case("SupplementalGroupsPolicy", "Strict: groups of the container alone")
def _(b):
    assert _groups(b, cri.Strict) == {1000, 60000}


def _two(b):
    sandbox, config = b.pod(log_directory=f"{LOGS}/{b.name}")
    server = b.c.container(sandbox, config, name="httpd", command=SERVER, log_path="httpd.log")
    command = ["sh", "-c", "echo hello World; sleep 1000"]
    return sandbox, server, b.c.container(sandbox, config, name="busybox", command=command, log_path="bb.log")


@case("Multiple Containers", "should support network")
def _(b):
    sandbox, _, _ = _two(b)
    address = b.c.PodSandboxStatus(pod_sandbox_id=sandbox).status.network.ip
    assert _curl(f"http://{address}:8080/") == b"hello\n"


@case("Multiple Containers", "should support container exec")
def _(b):
    _, server, other = _two(b)
    for container in (server, other):
        assert b.exec(container, "echo", "-n", "hello").stdout == b"hello"
