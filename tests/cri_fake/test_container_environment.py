# pyright: basic
"""What a container finds around it: files, variables, user, process namespace, mounts."""

import pytest

from cri_fake.behaviours import Behaviour, Behaviours, Target
from cri_fake.catalogue import PAUSE_IMAGE
from cri_fake.signals import cri_signal, kernel_signal, signal_by_name
from cri_fake.store.containers import Event, advance
from k8s_proto import runtime_v1_pb2 as cri


def output(drive, script, *, change=lambda config: None, pod=lambda config: None, before=None, **options):
    """Log lines of a container that runs the script, without ``stdout F``."""

    async def body(rig):
        config = rig.pod_config()
        pod(config)
        sandbox = await rig.run_pod(config=config)
        if before is not None:
            before(rig)
        container_config = rig.container_config(script=script)
        change(container_config)
        container = await rig.create(sandbox, config=container_config)
        await rig.start(container)
        return [line.split(" ", 2)[2] for line in rig.log(await rig.exited(container))]

    return drive(body, **options)


def test_environment_CRI_053(drive):
    def change(config):
        config.envs.add(key="A", value=b"one two")
        config.envs.add(key="HOME", value=b"/somewhere")

    lines = output(drive, 'echo "$A|$HOSTNAME|$HOME"; echo "$PATH"', change=change)
    assert lines[0] == "one two|web|/somewhere"
    assert "/bin" in lines[1]


def test_resolv_conf_and_hosts(drive):
    def pod(config):
        config.dns_config.servers.append("10.96.0.10")
        config.dns_config.searches.extend(["default.svc.cluster.local", "svc.cluster.local"])
        config.dns_config.options.append("ndots:5")

    lines = output(drive, "cat /etc/resolv.conf /etc/hosts; hostname", pod=pod)
    assert lines == [
        "search default.svc.cluster.local svc.cluster.local",
        "nameserver 10.96.0.10",
        "options ndots:5",
        "127.0.0.1\tlocalhost",
        "10.88.0.2\tweb",
        "web",
    ]


def test_mounted_hosts_file_is_the_kubelets(drive):
    def before(rig):
        rig.files.make_dirs("/var/lib/kubelet/pods/u")
        rig.files.write("/var/lib/kubelet/pods/u/etc-hosts", b"1.2.3.4 elsewhere\n")

    def change(config):
        config.mounts.add(container_path="/etc/hosts", host_path="/var/lib/kubelet/pods/u/etc-hosts")

    assert output(drive, "cat /etc/hosts", change=change, before=before) == ["1.2.3.4 elsewhere"]


def test_layer_dies_with_the_container_and_mounts_stay(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        script = "cat /work/seen /seen; echo x >> /work/seen; echo y > /seen"
        logs = []
        for attempt in (0, 1):
            config = rig.container_config(script=script, attempt=attempt)
            config.mounts.add(container_path="/work", host_path="/vol")
            container = await rig.create(sandbox, config=config)
            await rig.start(container)
            logs.append([line.split(" ", 2)[2] for line in rig.log(await rig.exited(container))])
        assert "x" not in logs[0]
        assert logs[1][0] == "x"
        assert "y" not in logs[1]
        assert rig.files.read("/vol/seen") == b"x\nx\n"

    drive(body)


def test_readonly_mount_and_root(drive):
    def mount(config):
        config.mounts.add(container_path="/work", host_path="/vol", readonly=True)

    assert "Read-only file system" in output(drive, "touch /work/x", change=mount)[0]

    def root(config):
        config.linux.security_context.readonly_rootfs = True

    assert "Read-only file system" in output(drive, "touch /x", change=root)[0]


def test_working_directory(drive):
    def change(config):
        config.working_dir = "/some/where"

    assert output(drive, "pwd", change=change) == ["/some/where"]


def test_tty_makes_one_stream_CRI_057(drive):
    async def body(rig):
        config = rig.container_config(script="echo out; echo err >&2", tty=True)
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        lines = rig.log(await rig.exited(container))
        assert [line.split(" ")[0] for line in lines] == ["stdout", "stdout"]

    drive(body)


@pytest.mark.parametrize(
    ("change", "uid", "gid"),
    [
        pytest.param(lambda s: None, 0, 0, id="CRI-063-default"),
        pytest.param(lambda s: setattr(s.run_as_user, "value", 1000), 1000, 0, id="CRI-063-uid"),
        pytest.param(lambda s: setattr(s, "run_as_username", "nobody"), 65534, 65534, id="CRI-063-name"),
        pytest.param(
            lambda s: (setattr(s.run_as_user, "value", 7), setattr(s.run_as_group, "value", 8)),
            7,
            8,
            id="CRI-063-group",
        ),
    ],
)
def test_user(drive, change, uid, gid):
    async def body(rig):
        config = rig.container_config()
        change(config.linux.security_context)
        status = await rig.status(await rig.create(await rig.run_pod(), config=config))
        assert (status.user.linux.uid, status.user.linux.gid) == (uid, gid)
        # busybox' /etc/group has root in wheel
        assert list(status.user.linux.supplemental_groups) == ([0, 10] if uid == 0 else [gid])

    drive(body)


def test_pause_runs_until_it_is_stopped(drive):
    async def body(rig):
        config = rig.container_config(script=None, image=cri.ImageSpec(image=PAUSE_IMAGE))
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        await rig.clock.sleep(100)
        assert (await rig.status(container)).state == cri.CONTAINER_RUNNING
        await rig.stop(container, 5)
        assert (await rig.status(container)).exit_code == 0

    drive(body)


def test_shared_process_namespace_lets_term_through_CRI_035(drive):
    async def body(rig):
        config = rig.container_config()
        config.linux.security_context.namespace_options.pid = cri.POD
        container = await rig.create(await rig.run_pod(), config=config)
        await rig.start(container)
        await rig.stop(container, 10)
        status = await rig.status(container)
        assert (status.exit_code, rig.clock.elapsed_seconds() < 1) == (143, True)

    drive(body)


def test_target_of_the_process_namespace_must_run_CRI_056(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        target = await rig.run(sandbox)
        config = rig.container_config("debug")
        options = config.linux.security_context.namespace_options
        options.pid, options.target_id = cri.TARGET, target
        await rig.start(await rig.create(sandbox, config=config))
        await rig.stop(target)
        config.metadata.attempt = 1
        code, text = await rig.refused(rig.create(sandbox, config=config))
        assert (code, text) == (
            "UNKNOWN",
            f'invalid target container: container "{target}" is not running - in state CONTAINER_EXITED',
        )
        other = await rig.run(await rig.run_pod("other"), pod="other")
        options.target_id = other
        assert "is not in sandbox" in (await rig.refused(rig.create(sandbox, config=config)))[1]

    drive(body)


def test_image_volume_CRI_154(drive):
    def change(config):
        image = cri.ImageSpec(image="busybox:1.35")
        config.mounts.add(container_path="/data", readonly=True, image=image)

    assert output(drive, "cat /data/etc/passwd", change=change)[0].startswith("root:x:0:0:")


def test_args_and_command_CRI_053(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        await rig.pull("nginx:1")
        seen = []

        async def program(proc):
            seen.append(list(proc.argv))
            return 0

        rig.runtime.add_behaviours(Behaviours({Target("c"): Behaviour(program=program)}))
        for attempt, (command, args) in enumerate(((["a"], ["b"]), (["a"], []), ([], ["b"]), ([], []))):
            config = rig.container_config("c", script=None, attempt=attempt)
            config.image.image = "nginx:1"
            config.command.extend(command)
            config.args.extend(args)
            container = await rig.create(sandbox, config=config)
            await rig.start(container)
            await rig.exited(container)
        entrypoint = "/docker-entrypoint.sh"
        assert seen == [["a", "b"], ["a"], [entrypoint, "b"], [entrypoint, "nginx", "-g", "daemon off;"]]

    drive(body)


def test_signal_from_outside(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        rig.runtime.signal_container("web", "main")
        status = await rig.exited(container)
        assert (status.exit_code, status.reason) == (137, "Error")

    drive(body)


def test_lost_container_can_be_stopped_and_removed_CRI_040(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        container = await rig.run(sandbox)
        world = rig.runtime.world
        world.containers.update(container, lambda old: advance(old, Event.LOST))
        assert (await rig.status(container)).state == cri.CONTAINER_UNKNOWN
        start = await rig.refused(rig.start(container))
        assert start[1].endswith("container is in CONTAINER_UNKNOWN state")
        await rig.remove(container)
        assert await rig.containers() == []

    drive(body)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("TERM", 15),
        ("SIGTERM", 15),
        ("sigkill", 9),
        ("9", 9),
        ("SIGRTMIN", 34),
        ("SIGRTMIN+3", 37),
        ("SIGRTMAX", 64),
        ("SIGRTMAX-1", 63),
        ("SIGPOLL", 29),
        ("SIGIOT", 6),
        ("nonsense", 0),
        ("0", 0),
        ("99", 0),
        ("", 0),
    ],
)
def test_signal_names_CRI_049(name, number):
    assert signal_by_name(name) == number


def test_every_signal_of_the_contract_has_a_kernel_number_CRI_049():
    for name, number in cri.Signal.items():
        if number == 0:
            assert kernel_signal(number) == 0
        else:
            kernel = kernel_signal(number)
            assert 0 < kernel <= 64, name
            assert kernel_signal(cri_signal(kernel)) == kernel
