"""Starting one container: image, count, config, create, start, postStart (RST-090 to RST-093, RST-143).

Mirrors ``startContainer`` and ``generateContainerConfig`` of
``pkg/kubelet/kuberuntime/kuberuntime_container.go`` and GenerateRunContainerOptions of
``pkg/kubelet/kubelet_pods.go``. Every failure is a ``StartError`` whose name becomes the waiting reason.
"""

from collections.abc import Mapping

from attrs import frozen

from k8s_proto import runtime_v1_pb2 as cri
from kubelet_emu.api.types import Container, EphemeralContainer, Pod
from kubelet_emu.container.runtime import RuntimePodStatus, StartError
from kubelet_emu.errors import PeerError
from kubelet_emu.kuberuntime import env, labels, security
from kubelet_emu.kuberuntime.calls import CriCalls, image_spec, message_of
from kubelet_emu.kuberuntime.configs import ContainerParts, container_config
from kubelet_emu.kuberuntime.env import ConfigError, EnvContext, EnvSources
from kubelet_emu.kuberuntime.grace import KillReason
from kubelet_emu.kuberuntime.images_manager import ImageManager, ImageRequest
from kubelet_emu.kuberuntime.kill import Killer, KillRequest
from kubelet_emu.kuberuntime.mounts import Mounter
from kubelet_emu.kuberuntime.podrefs import field_path
from kubelet_emu.kuberuntime.seams import (
    ActuatedResources,
    ContainerOptions,
    InternalLifecycle,
    NodeFacts,
    ObjectLookup,
    Services,
    VolumePaths,
)
from kubelet_emu.lifecycle.handlers import HookError, HookRunner
from kubelet_emu.seams import EventRecorder, Recorder
from kubelet_emu.settings import KubeletSettings
from node_host.files import Files
from trio_grpc import StatusError

__all__ = ["ImageVolumes", "Starter", "StarterSeams", "SyncContext"]


@frozen(kw_only=True)
class ImageVolumes:
    """Outcome of ensuring the pod's image volumes: the images that are there, the failures of the others."""

    images: Mapping[str, cri.ImageSpec] = {}
    failures: Mapping[str, StartError] = {}


@frozen(kw_only=True)
class SyncContext:
    """What all container starts of one sync share."""

    pod: Pod
    status: RuntimePodStatus
    sandbox_id: str
    sandbox_config: cri.PodSandboxConfig
    pod_ips: tuple[str, ...]
    handler: str
    image_volumes: ImageVolumes
    userns_host_id: int | None = None


@frozen(kw_only=True)
class StarterSeams:
    """The parts of the kubelet that a start asks."""

    objects: ObjectLookup
    services: Services
    volumes: VolumePaths
    options: ContainerOptions
    lifecycle: InternalLifecycle
    actuated: ActuatedResources


class Starter:
    """Starts containers through one runtime."""

    def __init__(
        self,
        calls: CriCalls,
        *,
        images: ImageManager,
        mounter: Mounter,
        killer: Killer,
        hooks: HookRunner,
        files: Files,
        events: EventRecorder,
        recorder: Recorder,
        settings: KubeletSettings,
        node: NodeFacts,
        seams: StarterSeams,
    ) -> None:
        self._calls = calls
        self._images = images
        self._mounter = mounter
        self._killer = killer
        self._hooks = hooks
        self._files = files
        self._events = events
        self._recorder = recorder
        self._settings = settings
        self._node = node
        self._seams = seams

    async def start(self, context: SyncContext, container: Container) -> None:
        """Bring one container to run; raises ``StartError`` (IMG-40)."""
        pod = context.pod
        self._check_image_volumes(context, container)
        image_ref = await self._image(context, container)
        try:
            config = await self._config(context, container, image_ref)
        except (PeerError, StatusError, OSError) as error:
            raise self._refused(pod, container, "CreateContainerConfigError", error) from error
        try:
            cpuset = self._seams.lifecycle.pre_create(pod, container)
        except PeerError as error:
            text = "Internal PreCreateContainer hook failed"
            raise self._refused(pod, container, "PreCreateHookError", error, text) from error
        config.linux.resources.cpuset_cpus = cpuset.get("cpuset_cpus", "")
        config.linux.resources.cpuset_mems = cpuset.get("cpuset_mems", "")
        container_id = await self._create(context, container, config)
        try:
            await self._calls.start_container(container_id)
        except StatusError as error:
            raise self._refused(pod, container, "RunContainerError", error) from error
        self._say(pod, container, "Started", "Container started")
        self._link_log(context, config, container_id)
        await self._post_start(pod, container, container_id)

    def _check_image_volumes(self, context: SyncContext, container: Container) -> None:
        """A container that mounts an image volume which failed does not start (IMG-32)."""
        for mount in container.volume_mounts:
            failure = context.image_volumes.failures.get(mount.name)
            if failure is not None:
                self._warn(context.pod, container, f"Error: {failure.name}")
                raise failure

    async def _image(self, context: SyncContext, container: Container) -> str:
        request = ImageRequest(
            pod=context.pod,
            image=container.image,
            policy=container.image_pull_policy or "IfNotPresent",
            field_path=field_path(context.pod, container.name),
            handler=context.handler,
            sandbox_config=context.sandbox_config,
        )
        try:
            return await self._images.ensure(request)
        except StartError as error:
            self._warn(context.pod, container, f"Error: {error.name}")
            raise

    def _restart_count(self, context: SyncContext, container: Container) -> int:
        """One more than the latest instance's, else counted from the log files (RST-185)."""
        latest = context.status.latest(container.name)
        if latest is not None:
            return latest.restart_count + 1
        directory = f"{context.sandbox_config.log_directory}/{container.name}"
        try:
            names = [
                name
                for name in self._files.list(directory)
                if self._files.stat(f"{directory}/{name}", follow=False).kind != "dir"
            ]
        except OSError:
            return 0
        return labels.restart_count_from_log_files(names)

    def _target(self, context: SyncContext, container: Container) -> str:
        if not isinstance(container, EphemeralContainer) or not container.target_container_name:
            return ""
        latest = context.status.latest(container.target_container_name)
        if latest is None:
            raise ConfigError(f"unable to find target container {container.target_container_name}")
        return latest.id

    async def _config(
        self, context: SyncContext, container: Container, image_ref: str
    ) -> cri.ContainerConfig:
        pod = context.pod
        restart_count = self._restart_count(context, container)
        target_id = self._target(context, container)
        options = await self._seams.options.options(pod, container)
        envs = env.build_env(
            pod,
            container,
            await self._sources(pod, container),
            EnvContext(
                pod_ips=self._addresses(context),
                host_ips=self._settings.node_ips,
                allocatable=self._node.allocatable,
                services=self._seams.services.services(),
            ),
        )
        mounts = self._mounter.mounts(
            pod,
            container,
            pod_ips=context.pod_ips,
            envs=envs,
            options=options,
            images=context.image_volumes.images,
        )
        uid, username = await self._image_user(container)
        security.verify_run_as_non_root(pod, container, uid, username)
        directory = f"{context.sandbox_config.log_directory}/{container.name}"
        try:
            self._files.make_dirs(directory, mode=0o755)
        except OSError as error:
            raise ConfigError(
                f"create container log directory for container {container.name} failed: {error}"
            ) from error
        self._seams.actuated.set_container(pod.metadata.uid, container.name, container.resources)
        parts = ContainerParts(
            image_ref=image_ref,
            restart_count=restart_count,
            envs=envs,
            options=options,
            mounts=mounts,
            image_uid=uid,
            image_username=username,
            userns_host_id=context.userns_host_id,
            target_id=target_id,
        )
        return container_config(pod, container, parts, self._settings, self._node)

    def _addresses(self, context: SyncContext) -> tuple[str, ...]:
        """A pod in the host's network has the node's addresses."""
        return self._settings.node_ips if context.pod.spec.host_network else context.pod_ips

    async def _sources(self, pod: Pod, container: Container) -> EnvSources:
        needed = env.needed_sources(container)
        namespace = pod.metadata.namespace
        objects = self._seams.objects
        maps = {name: await objects.config_map(namespace, name) for name in needed.config_maps}
        secrets = {name: await objects.secret(namespace, name) for name in needed.secrets}
        files = {place: self._env_file(pod, *place) for place in needed.files}
        return EnvSources(maps, secrets, files)

    def _env_file(self, pod: Pod, volume: str, path: str) -> bytes | None:
        base = self._seams.volumes.host_path(pod, volume)
        if base is None:
            raise ConfigError(f'cannot find the volume "{volume}" referenced by FileKeyRef')
        try:
            return self._files.read(f"{base}/{path}")
        except OSError:
            return None

    async def _image_user(self, container: Container) -> tuple[int | None, str]:
        """User of the image: a number, else a name, else root (IMG-43, CRI-095)."""
        image = await self._calls.image_status(image_spec(container.image, {}, ""))
        if image is None:
            return 0, ""
        if image.HasField("uid"):
            return image.uid.value, ""
        return (None, image.username) if image.username else (0, "")

    async def _create(self, context: SyncContext, container: Container, config: cri.ContainerConfig) -> str:
        pod = context.pod
        try:
            container_id = await self._calls.create_container(
                context.sandbox_id, config, context.sandbox_config
            )
        except (StatusError, PeerError) as error:
            raise self._refused(pod, container, "CreateContainerError", error) from error
        try:
            self._seams.lifecycle.pre_start(pod, container, container_id)
        except PeerError as error:
            text = "Internal PreStartContainer hook failed"
            raise self._refused(pod, container, "PreStartHookError", error, text) from error
        self._say(pod, container, "Created", "Container created")
        return container_id

    def _link_log(self, context: SyncContext, config: cri.ContainerConfig, container_id: str) -> None:
        """The symlink to the log, if the runtime has made the log (RST-189); failures do not matter."""
        target = f"{context.sandbox_config.log_directory}/{config.log_path}"
        if not self._files.exists(target):
            return
        meta = context.pod.metadata
        name = labels.log_symlink_name(meta.name, meta.namespace, config.metadata.name, container_id)
        directory = self._settings.container_logs_dir
        try:
            self._files.make_dirs(directory)
            self._files.symlink(target, f"{directory}/{name}")
        except OSError as error:
            self._recorder.fact(
                "log-symlink", pod=meta.name, container=config.metadata.name, error=str(error)
            )

    async def _post_start(self, pod: Pod, container: Container, container_id: str) -> None:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return
        try:
            await self._hooks.run(container_id, pod, container, hook)
        except HookError as error:
            self._events.event(
                pod,
                "Warning",
                "FailedPostStartHook",
                "PostStartHook failed",
                field_path=field_path(pod, container.name),
            )
            await self._kill_failed(pod, container, container_id)
            raise StartError("PostStartHookError", str(error)) from error

    async def _kill_failed(self, pod: Pod, container: Container, container_id: str) -> None:
        """A container whose postStart failed is stopped as any other; that this failed is only noted
        (HOK-02).
        """
        request = KillRequest(
            container_id=container_id,
            name=container.name,
            message="FailedPostStartHook",
            reason=KillReason.FAILED_POST_START_HOOK,
        )
        try:
            await self._killer.container(pod, request)
        except (StatusError, PeerError) as error:
            self._recorder.fact(
                "hook", pod=pod.metadata.name, container=container.name, hook="postStart", error=str(error)
            )

    def _refused(
        self, pod: Pod, container: Container, name: str, error: Exception, text: str = "Error"
    ) -> StartError:
        message = message_of(error)
        self._warn(pod, container, f"{text}: {message}")
        return StartError(name, message)

    def _say(self, pod: Pod, container: Container, reason: str, text: str) -> None:
        self._events.event(pod, "Normal", reason, text, field_path=field_path(pod, container.name))

    def _warn(self, pod: Pod, container: Container, text: str) -> None:
        self._events.event(pod, "Warning", "Failed", text, field_path=field_path(pod, container.name))
