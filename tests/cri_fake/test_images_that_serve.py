# pyright: basic
"""The programs of images that serve something, reached as probes reach them, in virtual time."""

import json

import pytest
import trio

from cri_fake.process import Proc
from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.prober.grpc_health import NetGrpcHealth

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"


async def start(rig, image: str, *args: str, name: str = "main", **fields) -> tuple[str, str]:
    """A container of an image with its own entrypoint; gives its id and the pod's address."""
    await rig.pull(image)
    sandbox = await rig.run_pod(attempt=len(await rig.pods()))
    config = rig.container_config(name, script=None, args=args, **fields)
    config.image.image = image
    container = await rig.create(sandbox, config=config)
    await rig.start(container)
    await rig.clock.sleep(1)
    return container, (await rig.pod_status(sandbox)).network.ip


async def get(rig, host: str, port: int, path: str) -> tuple[int, str]:
    stream = await rig.runtime.world.net.connect(host, port)
    await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    data = b""
    while chunk := bytes(await stream.receive_some()):
        data += chunk
    await stream.aclose()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body.decode()


def test_liveness_is_well_for_ten_seconds(drive):
    async def body(rig):
        container, ip = await start(rig, AGNHOST, "liveness")
        assert await get(rig, ip, 8080, "/healthz") == (200, "ok")
        await rig.clock.sleep(10)
        status, said = await get(rig, ip, 8080, "/healthz")
        assert (status, said[:9]) == (500, "error: 11")
        await rig.stop(container, 30)
        assert (await rig.status(container)).exit_code == 143

    drive(body)


def test_netexec_runs_echoes_and_exits(drive):
    async def body(rig):
        container, ip = await start(rig, AGNHOST, "netexec", "--http-port=8083")
        assert await get(rig, ip, 8083, "/echo?msg=hi%20there") == (200, "hi there")
        assert await get(rig, ip, 8083, "/echo?msg=no&code=404") == (404, "no")
        assert await get(rig, ip, 8083, "/hostname") == (200, "web")
        shown = json.loads((await get(rig, ip, 8083, "/shell?cmd=echo%20out;exit%203"))[1])
        assert shown == {"output": "out\n", "error": "exit status 3"}
        dialled = f"/dial?host={ip}&port=8083&request=hostname&tries=2"
        assert json.loads((await get(rig, ip, 8083, dialled))[1]) == {"responses": ["web", "web"]}
        assert (await get(rig, ip, 8083, "/nothing"))[0] == 404
        assert await get(rig, ip, 8083, "/exit?code=7") in ((0, ""), (200, ""))
        assert (await rig.exited(container)).exit_code == 7

    drive(body)


def test_commands_that_end_by_themselves(drive):
    async def body(rig):
        container, _ = await start(rig, AGNHOST, "entrypoint-tester", "a", "b")
        assert rig.log(await rig.exited(container)) == ["stdout F [/agnhost entrypoint-tester a b]"]
        options = ("logs-generator", "--log-lines-total", "5", "--run-duration", "5s")
        container, _ = await start(rig, AGNHOST, *options, name="logs")
        status = await rig.exited(container)
        assert len(rig.log(status)) == 5
        assert 4.9e9 < status.finished_at - status.started_at < 6e9
        container, _ = await start(rig, AGNHOST, "unheard-of", name="wrong")
        assert (await rig.exited(container)).exit_code == 1

    drive(body)


def test_a_grpc_health_probe_reaches_agnhost(drive):
    async def body(rig):
        _, ip = await start(rig, AGNHOST, "grpc-health-checking", "--delay-unhealthy-sec=30")
        net = rig.runtime.world.net
        for service, kind in (("", "success"), ("unknown", "failure")):
            verdict = await NetGrpcHealth().check(net, ip, 5000, service, timeout_seconds=1)
            assert verdict.verdict == kind, verdict
        await get(rig, ip, 8080, "/make-not-serving")
        assert (await NetGrpcHealth().check(net, ip, 5000, "", timeout_seconds=1)).verdict == "failure"
        await get(rig, ip, 8080, "/make-serving")
        assert (await NetGrpcHealth().check(net, ip, 5000, "", timeout_seconds=1)).verdict == "success"
        await rig.clock.sleep(31)
        assert (await NetGrpcHealth().check(net, ip, 5000, "", timeout_seconds=1)).verdict == "failure"

    drive(body)


@pytest.mark.parametrize(
    ("image", "said", "logged"),
    [
        ("nginx", "Welcome to nginx!", "start worker processes"),
        ("registry.k8s.io/e2e-test-images/nginx:1.14-2", "Welcome to nginx!", "GET / HTTP/1.1"),
        ("registry.k8s.io/e2e-test-images/httpd:2.4.39-4", "It works!", "httpd"),
    ],
)
def test_web_servers_serve_log_and_stop(drive, image, said, logged):
    async def body(rig):
        container, ip = await start(rig, image)
        status, page = await get(rig, ip, 80, "/")
        assert (status, said in page) == (200, True)
        assert (await get(rig, ip, 80, "/no/such"))[0] == 404
        assert (await get(rig, ip, 80, "/../../etc/passwd"))[0] == 404
        await rig.stop(container, 30)
        ended = await rig.status(container)
        assert (ended.exit_code, ended.reason) == (0, "Completed")
        assert any(logged in line for line in rig.log(ended))

    drive(body)


def test_a_page_from_a_mount_is_served(drive):
    async def body(rig):
        rig.files.make_dirs("/pages")
        rig.files.write("/pages/index.html", b"mine")
        mount = cri.Mount(container_path="/usr/share/nginx/html", host_path="/pages", readonly=True)
        _, ip = await start(rig, "nginx", mounts=[mount])
        assert await get(rig, ip, 80, "/") == (200, "mine")

    drive(body)


def test_python_callables_are_programs(drive):
    async def greeter(proc: Proc) -> int:
        await proc.write(f"hello {proc.args[0]} from {proc.hostname}\n")
        await proc.sleep(3)
        return 4

    async def body(rig):
        container = await rig.run(await rig.run_pod(), script="/opt/greet you; echo $?")
        assert rig.log(await rig.exited(container)) == ["stdout F hello you from web", "stdout F 4"]

    drive(body, programs={"/opt/greet": greeter})


def test_user_and_groups_reach_the_processes_CRI_055(drive):
    async def body(rig):
        sandbox = await rig.run_pod()
        config = rig.container_config(script="id; id -u; id -G")
        security = config.linux.security_context
        security.run_as_user.value, security.run_as_group.value = 1000, 2000
        security.supplemental_groups.extend([3000, 10])
        container = await rig.create(sandbox, config=config)
        await rig.start(container)
        status = await rig.exited(container)
        assert rig.log(status) == [
            "stdout F uid=1000 gid=2000 groups=2000,3000,10(wheel)",
            "stdout F 1000",
            "stdout F 2000 3000 10",
        ]
        assert list(status.user.linux.supplemental_groups) == [2000, 3000, 10]
        strict = rig.container_config("strict", script="id -G")
        strict.linux.security_context.supplemental_groups_policy = cri.Strict
        merged = rig.container_config("merged", script="id -G")
        for config, groups in ((strict, "0"), (merged, "0 10")):
            container = await rig.create(sandbox, config=config)
            await rig.start(container)
            assert rig.log(await rig.exited(container)) == [f"stdout F {groups}"]

    drive(body)


def test_kubectl_cp_goes_through_tar(drive):
    async def body(rig):
        container = await rig.run(await rig.run_pod())
        script = (
            "mkdir -p /a/b; echo one > /a/x; echo two > /a/b/y; chmod 600 /a/x; ln -s x /a/l; cd /; "
            "tar cf - a | tar -xmf - -C /tmp; cd /tmp/a; ls -l x | cut -c1-10; cat b/y; readlink l; "
            "tar -czf /tmp/t.tgz b; tar tzf /tmp/t.tgz"
        )
        done = await rig.exec(container, "sh", "-c", script)
        assert done.stdout == b"-rw-------\ntwo\nx\nb/\nb/y\n", done

    drive(body)


def test_a_server_is_gone_with_its_container(drive):
    async def body(rig):
        container, ip = await start(rig, "nginx")
        await rig.stop(container, 30)
        with pytest.raises(OSError, match="refused"):
            await rig.runtime.world.net.connect(ip, 80)
        assert trio.lowlevel.current_statistics().tasks_living < 30

    drive(body)
