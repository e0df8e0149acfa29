"""Which instance's log a request reads, and what its options mean (pure).

Mirrors validateContainerLogStatus of ``pkg/kubelet/kubelet_pods.go`` (LOG-08, LOG-09, LOG-11).
"""

from collections.abc import Mapping

from attrs import frozen

from kubelet_emu.api.times import TimeError, parse_rfc3339
from kubelet_emu.api.types import ContainerStatus, Pod, PodStatus

__all__ = ["LogOptions", "LogRefused", "instance_to_read", "parse_options"]


class LogRefused(Exception):
    """Raised for a request that cannot be served; ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@frozen(kw_only=True)
class LogOptions:
    """PodLogOptions. ``since_ns`` is a time of day; ``tail_lines`` and ``limit_bytes`` None are no limit."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_ns: int | None = None


def parse_options(query: Mapping[str, str], *, now_ns: int) -> LogOptions:
    """Read the query of ``/containerLogs``. Raises ``LogRefused`` (422, or 400 for a stream that is not
    served).
    """
    stream = query.get("stream", "All")
    if stream not in ("", "All"):
        raise LogRefused("stream: needs the feature gate PodLogsQuerySplitStreams, which is off")
    seconds = _number(query, "sinceSeconds", least=1)
    since_time = query.get("sinceTime", "")
    if seconds is not None and since_time:
        raise LogRefused("at most one of `sinceTime` or `sinceSeconds` may be specified", 422)
    since_ns = None if seconds is None else now_ns - seconds * 1_000_000_000
    if since_time:
        try:
            since_ns = parse_rfc3339(since_time)
        except TimeError as error:
            raise LogRefused(f"sinceTime: {error}", 422) from None
    tail = _number(query, "tailLines")
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_number(query, "tail") if tail is None else tail,
        limit_bytes=_number(query, "limitBytes", least=1),
        since_ns=since_ns,
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "false").lower() not in ("false", "0", "f", "no")


def _number(query: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    given = query.get(name, "")
    if not given or given == "all":
        return None
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise LogRefused(f"{name}: Invalid value: {given!r}: must be a number", 422)
    if int(given) < least:
        bound = "greater than 0" if least else "greater than or equal to 0"
        raise LogRefused(f"{name}: Invalid value: {given}: must be {bound}", 422)
    return int(given)


def instance_to_read(pod: Pod, status: PodStatus, name: str, *, previous: bool) -> str:
    """The id, with its scheme, of the instance whose log is meant (RST-152). Raises ``LogRefused``."""
    spec = pod.spec
    known = [*spec.containers, *spec.init_containers, *spec.ephemeral_containers]
    pod_name = pod.metadata.name
    if all(container.name != name for container in known):
        raise LogRefused(f'container "{name}" not found in pod "{pod_name}"', 404)
    statuses = [
        *status.init_container_statuses,
        *status.container_statuses,
        *status.ephemeral_container_statuses,
    ]
    found = next((each for each in statuses if each.name == name), None)
    where = f'container "{name}" in pod "{pod_name}"'
    if found is None:
        raise LogRefused(f"{where} is not available")
    last = found.last_state.terminated
    if previous:
        if last is None or not last.container_id:
            raise LogRefused(f'previous terminated container "{name}" in pod "{pod_name}" not found')
        return last.container_id
    return _current(found, None if last is None else last.container_id or "", where)


def _current(found: ContainerStatus, last_id: str | None, where: str) -> str:
    """``last_id`` is None where there is no last state at all."""
    state = found.state
    if state.running is not None:
        return found.container_id or ""
    if state.terminated is not None:
        chosen = state.terminated.container_id or last_id
        if not chosen:
            raise LogRefused(f"{where} is terminated")
        return chosen
    if last_id is not None:
        if not last_id:
            raise LogRefused(f"{where} is terminated")
        return last_id
    waiting = state.waiting
    if waiting is None:
        raise LogRefused(f"{where} is waiting to start - no logs yet")
    said = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }.get(waiting.reason or "", waiting.reason or "")
    raise LogRefused(f"{where} is waiting to start: {said}")
