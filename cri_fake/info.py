"""Verbose info: what ``crictl inspect``, ``inspectp`` and ``info`` show beside the status (CRI-061)."""

import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from cri_fake.catalogue import PAUSE_IMAGE
from cri_fake.store.containers import Container
from cri_fake.store.images import Image
from cri_fake.store.sandboxes import Sandbox
from cri_fake.world import World
from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["container_info", "image_info", "runtime_info", "sandbox_info"]

_RUNTIME_TYPE = "io.containerd.runc.v2"


def _plain(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _text(value: dict[str, Any]) -> dict[str, str]:
    return {"info": json.dumps(value, sort_keys=True)}


def container_info(container: Container, sandbox: Sandbox | None) -> dict[str, str]:
    """The one key ``info`` with a JSON object."""
    config = _plain(container.config)
    for pair, given in zip(config.get("envs", ()), container.config.envs, strict=True):
        pair["value"] = bytes(given.value).decode("utf-8", "replace")
    security = container.config.linux.security_context
    return _text(
        {
            "sandboxID": container.sandbox_id,
            "pid": container.pid,
            "removing": container.removing,
            "snapshotKey": container.id,
            "snapshotter": "overlayfs",
            "runtimeType": _RUNTIME_TYPE,
            "runtimeOptions": None,
            "config": config,
            "runtimeSpec": {
                "ociVersion": "1.2.0",
                "hostname": sandbox.config.hostname if sandbox is not None else "",
                "process": {
                    "args": [*container.config.command, *container.config.args],
                    "cwd": container.config.working_dir or "/",
                    "user": {"uid": container.uid, "gid": container.gid},
                },
                "root": {"path": "rootfs", "readonly": security.readonly_rootfs},
                "mounts": [
                    {"destination": m.container_path, "source": m.host_path, "type": "bind"}
                    for m in container.config.mounts
                ],
                "linux": {
                    "cgroupsPath": f"/k8s.io/{container.id}",
                    "maskedPaths": list(security.masked_paths),
                    "readonlyPaths": list(security.readonly_paths),
                    "resources": _plain(container.resources or cri.LinuxContainerResources()),
                },
            },
        }
    )


def sandbox_info(sandbox: Sandbox) -> dict[str, str]:
    """The one key ``info`` with a JSON object."""
    gateway = sandbox.ips[0].rpartition(".")[0] + ".1" if sandbox.ips else ""
    addresses = [{"IP": ip, "Gateway": gateway if "." in ip else ""} for ip in sandbox.ips]
    return _text(
        {
            "pid": sandbox.pid,
            "processStatus": "running" if sandbox.alive else "deleted",
            "netNamespaceClosed": not sandbox.network_open,
            "image": PAUSE_IMAGE,
            "snapshotKey": sandbox.id,
            "snapshotter": "overlayfs",
            "runtimeHandler": sandbox.runtime_handler,
            "runtimeType": _RUNTIME_TYPE,
            "runtimeOptions": None,
            "config": _plain(sandbox.config),
            "runtimeSpec": {
                "ociVersion": "1.2.0",
                "hostname": sandbox.config.hostname,
                "linux": {"cgroupsPath": f"/k8s.io/{sandbox.id}"},
            },
            "cniResult": {
                "Interfaces": {"eth0": {"IPConfigs": addresses}, "lo": {"IPConfigs": [{"IP": "127.0.0.1"}]}}
            },
            "sandboxMetadata": {
                "ID": sandbox.id,
                "Name": sandbox.reserved_name,
                "IP": sandbox.ips[0] if sandbox.ips else "",
            },
            "overhead": _plain(sandbox.overhead or cri.LinuxContainerResources()),
            "resources": _plain(sandbox.resources or cri.LinuxContainerResources()),
        }
    )


def image_info(image: Image) -> dict[str, str]:
    """The one key ``info`` with a JSON object."""
    config = image.config
    return _text(
        {
            "chainID": image.id,
            "imageSpec": {
                "architecture": "amd64",
                "os": "linux",
                "config": {
                    "Entrypoint": list(config.entrypoint),
                    "Cmd": list(config.command),
                    "Env": [f"{key}={value}" for key, value in config.environment],
                    "WorkingDir": config.working_directory,
                    "User": config.user,
                    "StopSignal": config.stop_signal,
                },
            },
        }
    )


def runtime_info(world: World) -> dict[str, str]:
    """What ``crictl info`` shows: one JSON object under ``config``, plain text elsewhere (CRI-182)."""
    config = {
        "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"runtimeType": _RUNTIME_TYPE}}},
        "podCIDR": world.ipam.cidrs,
        "sandboxImage": PAUSE_IMAGE,
    }
    return {
        "config": json.dumps(config, sort_keys=True),
        "lastCNILoadStatus": "OK" if world.network_ready else "cni plugin not initialized",
        "golang": "none: cri-fake",
    }
