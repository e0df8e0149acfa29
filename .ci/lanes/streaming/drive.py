# pyright: basic
"""Starts ``cri-fake serve`` and judges what spdy-transport sees of it: ``drive.py WORK``."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import grpc

from k8s_proto import runtime_v1_pb2 as cri

WORK = Path(sys.argv[1])
SERVICE = "/runtime.v1.RuntimeService/"
BUSYBOX = "docker.io/library/busybox:1.36"


class Runtime:
    """A runtime with one pod, asked over its socket by plain grpcio."""

    def __init__(self, socket: Path) -> None:
        options = [("grpc.default_authority", "localhost")]
        self.channel = grpc.insecure_channel(f"unix://{socket}", options=options)

    def __call__(self, method: str, request: Any, reply: Any) -> Any:
        call = self.channel.unary_unary(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return call(request, timeout=10, wait_for_ready=True)

    def start(self) -> None:
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", namespace="n", uid="u"))
        ran = self("RunPodSandbox", cri.RunPodSandboxRequest(config=config), cri.RunPodSandboxResponse)
        self.sandbox = ran.pod_sandbox_id
        server = "nc -l -k -p 8080 -e sh -c 'read -r x; echo \"got $x\"'"
        self.main = self.container(config, "server", ["sh", "-c", server])
        self.shell = self.container(config, "shell", ["/bin/sh"], stdin=True, stdin_once=True)

    def container(self, pod: Any, name: str, command: list[str], **fields: Any) -> str:
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name),
            image=cri.ImageSpec(image=BUSYBOX),
            command=command,
            **fields,
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=self.sandbox, config=config, sandbox_config=pod)
        made = self("CreateContainer", request, cri.CreateContainerResponse).container_id
        request = cri.StartContainerRequest(container_id=made)
        self("StartContainer", request, cri.StartContainerResponse)
        return made

    def exec_url(self, *cmd: str, **fields: Any) -> str:
        request = cri.ExecRequest(container_id=self.main, cmd=cmd, **{"stdout": True, **fields})
        return self("Exec", request, cri.ExecResponse).url


def talk(url: str, *streams: dict[str, Any], protocol: str = "v4.channel.k8s.io", **plan: Any) -> Any:
    """What spdy-transport sees."""
    text = json.dumps({"protocol": protocol, "streams": streams, **plan})
    command = ["node", str(WORK / "client.js"), url, text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the client failed: {done.stderr}")
    return json.loads(done.stdout)


def channel(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "headers": {"streamType": name}, **fields}


def check(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"FAILED {what}: {found!r} instead of {expected!r}")
    print(f"ok: {what}")


def judge(runtime: Runtime) -> None:
    url = runtime.exec_url("sh", "-c", "echo out; echo err >&2; exit 7", stderr=True)
    seen = talk(url, channel("error"), channel("stdout"), channel("stderr"), ping=True)
    check("subprotocol", seen["protocol"], "v4.channel.k8s.io")
    check("stdout", seen["received"]["stdout"]["text"], "out\n")
    check("stderr", seen["received"]["stderr"]["text"], "err\n")
    status = json.loads(seen["received"]["error"]["text"])
    check("exit code", status["details"]["causes"], [{"reason": "ExitCode", "message": "7"}])
    check("every stream ends", sorted(seen["ended"]), ["error", "stderr", "stdout"])
    check("no errors", seen["errors"], [])
    check("ping comes back", seen["pinged"], True)
    for older in ("v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"):
        seen = talk(
            runtime.exec_url("sh", "-c", "exit 3"), channel("error"), channel("stdout"), protocol=older
        )
        said = "command terminated with non-zero exit code: exit status 3"
        check(older, (seen["protocol"], seen["received"]["error"]["text"]), (older, said))
    url = runtime.exec_url("wc", "-c", stdin=True)
    sent = channel("stdin", send=["x" * 10_000], repeat=200, end=True)
    seen = talk(url, channel("error"), sent, channel("stdout"))
    check("2 MB of stdin, half-closed", seen["received"]["stdout"]["text"], "2000000\n")
    seen = talk(runtime.exec_url("sh", "-c", "yes | head -c 5000000"), channel("error"), channel("stdout"))
    check("5 MB of stdout within its windows", seen["received"]["stdout"]["length"], 5_000_000)
    check("no errors", seen["errors"], [])
    request = cri.AttachRequest(container_id=runtime.shell, stdin=True, stdout=True)
    url = runtime("Attach", request, cri.AttachResponse).url
    sent = channel("stdin", send=["echo -n hello\n"], end=True)
    seen = talk(url, channel("error"), sent, channel("stdout"))
    check("attach", seen["received"]["stdout"]["text"], "hello")
    request = cri.PortForwardRequest(pod_sandbox_id=runtime.sandbox)
    url = runtime("PortForward", request, cri.PortForwardResponse).url
    streams = [
        {"name": f"{kind}{n}", "headers": {"streamType": kind, "port": "8080", "requestID": str(n)}, **more}
        for n in range(3)
        for kind, more in (("error", {"end": True}), ("data", {"send": [f"ping{n}\n"], "end": True}))
    ]
    seen = talk(url, *streams, protocol="portforward.k8s.io")
    found = [seen["received"][f"data{n}"]["text"] for n in range(3)]
    check("port-forward, three connections", found, [f"got ping{n}\n" for n in range(3)])
    seen = talk(runtime.exec_url("true"), protocol="v9.channel.k8s.io")
    check("nothing in common", seen["refused"], "HTTP/1.1 403 Forbidden")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ke-") as folder:
        socket = Path(folder) / "cri" / "cri.sock"
        command = [
            sys.executable,
            "-m",
            "cri_fake.cli",
            "serve",
            "--socket",
            str(socket),
            "--latency",
            "zero",
        ]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            print(server.stderr.readline().strip())
            runtime = Runtime(socket)
            runtime.start()
            judge(runtime)
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    main()
