"""CRI configurations of sandboxes and containers, put together from decided parts (pure).

Mirrors ``generatePodSandboxConfig`` and ``generateContainerConfig`` of ``pkg/kubelet/kuberuntime`` (RST-187
to RST-194, DEV-106, VOL-09, VOL-10).
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Container, ContainerPort, Pod
from kubelet_emu.kuberuntime import cgroups, labels, podnet, security
from kubelet_emu.kuberuntime.env import expand
from kubelet_emu.kuberuntime.restart_rules import is_sidecar
from kubelet_emu.kuberuntime.seams import NodeFacts, RunOptions
from kubelet_emu.settings import KubeletSettings

__all__ = ["ContainerParts", "container_config", "sandbox_config", "stop_signal"]

_PROTOCOLS = {"TCP": cri.TCP, "UDP": cri.UDP, "SCTP": cri.SCTP}


def _mapped_ports(pod: Pod) -> list[ContainerPort]:
    sidecars = [container for container in pod.spec.init_containers if is_sidecar(container)]
    return [port for container in (*sidecars, *pod.spec.containers) for port in container.ports]


def sandbox_config(
    pod: Pod, attempt: int, settings: KubeletSettings, node: NodeFacts, *, userns_host_id: int | None = None
) -> cri.PodSandboxConfig:
    """The config of RunPodSandbox, and of every CreateContainer in that sandbox (RST-188, RST-191,
    RST-194).
    """
    meta = pod.metadata
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, attempt=attempt
        ),
        log_directory=labels.pod_log_directory(settings.pod_logs_dir, meta.namespace, meta.name, meta.uid),
        dns_config=podnet.dns_config(pod, settings, node.host_dns),
        labels=labels.sandbox_labels(pod),
        annotations=meta.annotations,
    )
    if not pod.spec.host_network:
        config.hostname = podnet.host_name(pod, settings.cluster_domain).kernel
    for port in _mapped_ports(pod):
        config.port_mappings.add(
            protocol=_PROTOCOLS.get(port.protocol or "TCP", cri.TCP),
            container_port=port.container_port,
            host_port=port.host_port or 0,
            host_ip=port.host_ip or "",
        )
    linux = config.linux
    if settings.cgroups_per_qos:
        linux.cgroup_parent = _cgroup_parent(pod)
    linux.security_context.CopyFrom(security.sandbox_security(pod, userns_host_id=userns_host_id))
    linux.resources.CopyFrom(cgroups.sandbox_resources(pod))
    linux.overhead.CopyFrom(cgroups.overhead_resources(pod))
    if pod.spec.security_context is not None:
        for sysctl in pod.spec.security_context.sysctls:
            linux.sysctls[sysctl.name.replace("/", ".")] = sysctl.value
    return config


def _cgroup_parent(pod: Pod) -> str:
    quality = cgroups.pod_qos(pod)
    middle = "" if quality == cgroups.GUARANTEED else f"{quality.lower()}/"
    return f"/kubepods/{middle}pod{pod.metadata.uid}"


@frozen(kw_only=True)
class ContainerParts:
    """Everything about one start that is not in the pod: what was resolved, counted and found out for it."""

    image_ref: str
    restart_count: int
    envs: Mapping[str, str]
    options: RunOptions
    mounts: Sequence[cri.Mount]
    image_uid: int | None = None
    image_username: str = ""
    userns_host_id: int | None = None
    target_id: str = ""
    cpuset: Mapping[str, str] = {}


def stop_signal(container: Container, *, enabled: bool) -> cri.Signal.ValueType:
    """The signal asked for in ``lifecycle.stopSignal``; the runtime's own without one or with the gate off
    (HOK-18).
    """
    wanted = container.lifecycle.stop_signal if container.lifecycle is not None else None
    if not enabled or not wanted:
        return cri.SIGNAL_RUNTIME_DEFAULT
    return dict(cri.Signal.items()).get(f"SIGNAL_{wanted}", cri.SIGNAL_RUNTIME_DEFAULT)


def _expanded(texts: Sequence[str], envs: Mapping[str, str]) -> list[str]:
    return [expand(text, envs.get) for text in texts]


def container_config(
    pod: Pod, container: Container, parts: ContainerParts, settings: KubeletSettings, node: NodeFacts
) -> cri.ContainerConfig:
    """The config of a CreateContainer request."""
    options = parts.options
    known = dict(options.envs) | dict(parts.envs)
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=container.name, attempt=parts.restart_count),
        image=cri.ImageSpec(image=parts.image_ref, user_specified_image=container.image),
        command=_expanded(container.command, known),
        args=_expanded(container.args, known),
        working_dir=container.working_dir or "",
        mounts=parts.mounts,
        labels=labels.container_labels(pod, container.name),
        annotations=labels.container_annotations(pod, container, parts.restart_count, options.annotations),
        log_path=labels.container_log_path(container.name, parts.restart_count),
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdin_once),
        tty=bool(container.tty),
        stop_signal=stop_signal(container, enabled=settings.gates.enabled("ContainerStopSignals")),
    )
    for name, value in (*options.envs, *parts.envs.items()):
        config.envs.add(key=name, value=value.encode())
    for device in options.devices:
        config.devices.add(
            host_path=device.host_path,
            container_path=device.container_path,
            permissions=device.permissions,
        )
    for name in options.cdi_devices:
        config.CDI_devices.add(name=name)
    resources = cgroups.container_resources(pod, container, node)
    resources.cpuset_cpus = parts.cpuset.get("cpuset_cpus", "")
    resources.cpuset_mems = parts.cpuset.get("cpuset_mems", "")
    config.linux.resources.CopyFrom(resources)
    config.linux.security_context.CopyFrom(
        security.container_security(
            pod,
            container,
            uid=parts.image_uid,
            username=parts.image_username,
            seccomp_default=settings.seccomp_default,
            root_dir=settings.root_dir,
            userns_host_id=parts.userns_host_id,
            target_id=parts.target_id,
        )
    )
    return config
