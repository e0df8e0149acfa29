"""Validation of probes and lifecycle hooks. (pure)

API-110, API-111 and the table below it.
"""

from collections.abc import Callable, Sequence

from kubelet_emu.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from kubelet_emu.api.names import header_name_problems, port_name_problems, port_number_problems
from kubelet_emu.api.types import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    IntOrString,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from kubelet_emu.api.validation.meta import messages

__all__ = ["STOP_SIGNALS", "validate_lifecycle", "validate_probes"]

_NOT_NEGATIVE = "must be greater than or equal to 0"
_SCHEMES = ("HTTP", "HTTPS")
_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")
_NAMED_SIGNALS = [
    "ABRT",
    "ALRM",
    "BUS",
    "CHLD",
    "CLD",
    "CONT",
    "FPE",
    "HUP",
    "ILL",
    "INT",
    "IO",
    "IOT",
    "KILL",
    "PIPE",
    "POLL",
    "PROF",
    "PWR",
    "QUIT",
    "SEGV",
    "STKFLT",
    "STOP",
    "SYS",
    "TERM",
    "TRAP",
    "TSTP",
    "TTIN",
    "TTOU",
    "URG",
    "USR1",
    "USR2",
    "VTALRM",
    "WINCH",
    "XCPU",
    "XFSZ",
]
STOP_SIGNALS: tuple[str, ...] = (
    *(f"SIG{name}" for name in _NAMED_SIGNALS),
    "SIGRTMIN",
    *(f"SIGRTMIN+{number}" for number in range(1, 16)),
    *(f"SIGRTMAX-{number}" for number in range(14, 0, -1)),
    "SIGRTMAX",
)
"""Signals that ``lifecycle.stopSignal`` may name on Linux."""


def _port(port: IntOrString, path: str) -> list[FieldError]:
    if isinstance(port, int):
        return messages(path, port, port_number_problems(port))
    return messages(path, port, port_name_problems(port))


def _exec(action: ExecAction, path: str) -> list[FieldError]:
    return [] if action.command else [required(f"{path}.command")]


def _http_get(action: HTTPGetAction, path: str) -> list[FieldError]:
    errors = [] if action.path else [required(f"{path}.path")]
    errors += _port(action.port, f"{path}.port")
    if action.scheme not in _SCHEMES:
        errors.append(not_supported(f"{path}.scheme", action.scheme or "", _SCHEMES))
    for header in action.http_headers:
        errors += messages(f"{path}.httpHeaders", header.name, header_name_problems(header.name))
    return errors


def _tcp_socket(action: TCPSocketAction, path: str) -> list[FieldError]:
    return _port(action.port, f"{path}.port")


def _grpc(action: GRPCAction, path: str) -> list[FieldError]:
    return messages(f"{path}.port", action.port, port_number_problems(action.port))


def _sleep(grace_seconds: int | None) -> Callable[[SleepAction, str], list[FieldError]]:
    def check(action: SleepAction, path: str) -> list[FieldError]:
        if grace_seconds is None or 0 <= action.seconds <= grace_seconds:
            return []
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
        return [invalid(path, action.seconds, text)]

    return check


def _one_handler(
    handlers: Sequence[tuple[str, object, Callable[..., list[FieldError]]]], path: str
) -> list[FieldError]:
    """The first handler is checked, each further one is Forbidden unseen (API-111)."""
    errors: list[FieldError] = []
    present = [(name, action, check) for name, action, check in handlers if action is not None]
    if not present:
        return [required(path, "must specify a handler type")]
    for index, (name, action, check) in enumerate(present):
        if index == 0:
            errors += check(action, f"{path}.{name}")
        else:
            errors.append(forbidden(f"{path}.{name}", "may not specify more than 1 handler type"))
    return errors


def _validate_probe(probe: Probe, path: str) -> list[FieldError]:
    errors = _one_handler(
        (
            ("exec", probe.exec, _exec),
            ("httpGet", probe.http_get, _http_get),
            ("tcpSocket", probe.tcp_socket, _tcp_socket),
            ("grpc", probe.grpc, _grpc),
        ),
        path,
    )
    for name, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if value is not None and value < 0:
            errors.append(invalid(f"{path}.{name}", value, _NOT_NEGATIVE))
    grace = probe.termination_grace_period_seconds
    if grace is not None and grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    return errors


def _one_success(probe: Probe, path: str) -> list[FieldError]:
    threshold = probe.success_threshold or 0
    return [] if threshold == 1 else [invalid(f"{path}.successThreshold", threshold, "must be 1")]


def validate_probes(
    liveness: Probe | None, readiness: Probe | None, startup: Probe | None, path: str
) -> list[FieldError]:
    """The three probes of a container at ``path``."""
    errors: list[FieldError] = []
    if liveness is not None:
        errors += _validate_probe(liveness, f"{path}.livenessProbe")
        errors += _one_success(liveness, f"{path}.livenessProbe")
    if readiness is not None:
        place = f"{path}.readinessProbe"
        errors += _validate_probe(readiness, place)
        grace = readiness.termination_grace_period_seconds
        if grace is not None:
            text = "must not be set for readinessProbes"
            errors.append(invalid(f"{place}.terminationGracePeriodSeconds", grace, text))
    if startup is not None:
        errors += _validate_probe(startup, f"{path}.startupProbe")
        errors += _one_success(startup, f"{path}.startupProbe")
    return errors


def _validate_hook(handler: LifecycleHandler, grace_seconds: int | None, path: str) -> list[FieldError]:
    return _one_handler(
        (
            ("exec", handler.exec, _exec),
            ("httpGet", handler.http_get, _http_get),
            ("tcpSocket", handler.tcp_socket, _tcp_socket),
            ("sleep", handler.sleep, _sleep(grace_seconds)),
        ),
        path,
    )


def _validate_stop_signal(signal: str, os_name: str, path: str) -> list[FieldError]:
    if not os_name:
        return [forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    supported = _WINDOWS_SIGNALS if os_name == "windows" else STOP_SIGNALS
    return [] if signal in supported else [not_supported(path, signal, sorted(supported))]


def validate_lifecycle(
    lifecycle: Lifecycle | None, path: str, *, grace_seconds: int | None, os_name: str
) -> list[FieldError]:
    """The hooks of a container and its stop signal; ``path`` is that of ``lifecycle``."""
    if lifecycle is None:
        return []
    errors: list[FieldError] = []
    if lifecycle.post_start is not None:
        errors += _validate_hook(lifecycle.post_start, grace_seconds, f"{path}.postStart")
    if lifecycle.pre_stop is not None:
        errors += _validate_hook(lifecycle.pre_stop, grace_seconds, f"{path}.preStop")
    if lifecycle.stop_signal is not None:
        errors += _validate_stop_signal(lifecycle.stop_signal, os_name, f"{path}.stopSignal")
    return errors
