"""Results of probes by container, one store for each kind; mirrors pkg/kubelet/prober/results (pure).

Containers are named by their bare runtime id; ids as a status shows them (``containerd://…``) are
accepted too.
"""

from collections.abc import Callable

from kubelet_emu.seams import ProbeKind, ProbeOutcome, ProbeUpdate

__all__ = ["Results", "bare_id"]


def bare_id(container_id: str) -> str:
    """The id as the runtime knows it, without the runtime's name in front."""
    return container_id.rpartition("://")[2]


class Results:
    """All results of one node (PRB-29). Implements ``kubelet_emu.seams.ProbeView``.

    ``on_update`` is called for each value that differs from the stored one, the first one of a container
    included; a removal is silent.
    """

    def __init__(self, on_update: Callable[[ProbeUpdate], None]) -> None:
        self._on_update = on_update
        self._stored: dict[tuple[ProbeKind, str], ProbeOutcome] = {}

    def result(self, kind: ProbeKind, container_id: str) -> ProbeOutcome | None:
        """The stored result, None if there is none."""
        return self._stored.get((kind, bare_id(container_id)))

    def set(self, kind: ProbeKind, container_id: str, outcome: ProbeOutcome, pod_uid: str) -> None:
        """Store a result and publish it if it is another one than before."""
        key = (kind, bare_id(container_id))
        if self._stored.get(key) is outcome:
            return
        self._stored[key] = outcome
        self._on_update(ProbeUpdate(kind, container_id, outcome, pod_uid))

    def remove(self, kind: ProbeKind, container_id: str) -> None:
        """Forget a result."""
        self._stored.pop((kind, bare_id(container_id)), None)
