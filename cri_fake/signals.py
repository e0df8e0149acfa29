"""Signals: CRI's numbers are its own, the kernel's are others (pure, CRI-049)."""

import re
import signal
from collections.abc import Mapping

from k8s_proto import runtime_v1_pb2 as cri

__all__ = ["SIGKILL", "SIGTERM", "cri_signal", "kernel_signal", "signal_by_name"]

SIGKILL = int(signal.SIGKILL)
SIGTERM = int(signal.SIGTERM)
_SIGRTMIN = 34
_SIGRTMAX = 64
_SAME = {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT", "SIGPOLL": "SIGIO"}


def signal_by_name(name: str) -> int:
    """The kernel's number of ``SIGTERM``, ``TERM``, ``15`` or ``SIGRTMIN+3``; 0 if unknown."""
    text = name.strip().upper()
    if text.isdigit():
        return int(text) if 0 < int(text) <= _SIGRTMAX else 0
    text = text if text.startswith("SIG") else f"SIG{text}"
    realtime = re.fullmatch(r"SIGRT(MIN|MAX)(?:(?:\+|-|PLUS|MINUS)(\d{1,2}))?", text)
    if realtime is not None:
        offset = int(realtime[2] or 0)
        return _SIGRTMIN + offset if realtime[1] == "MIN" else _SIGRTMAX - offset
    text = _SAME.get(text, text)
    found = signal.Signals.__members__.get(text)
    return 0 if found is None else int(found)


_KERNEL: Mapping[int, int] = {
    int(number): signal_by_name(name.removeprefix("SIGNAL_"))
    for name, number in cri.Signal.items()
    if number != 0
}
_SECONDARY = ("SIGNAL_SIGCLD", "SIGNAL_SIGIOT", "SIGNAL_SIGPOLL")
_CRI: Mapping[int, int] = {
    _KERNEL[int(number)]: int(number)
    for name, number in cri.Signal.items()
    if number != 0 and name not in _SECONDARY
}


def kernel_signal(cri_number: int) -> int:
    """The kernel's number for a runtime.v1.Signal; 0 for the default or an unknown one."""
    return _KERNEL.get(cri_number, 0)


def cri_signal(kernel_number: int) -> int:
    """The runtime.v1.Signal for a kernel's number; 0 if CRI has none."""
    return _CRI.get(kernel_number, 0)
