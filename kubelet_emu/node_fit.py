"""Whether a pod fits a node: the predicates of kubelet admission (pure).

Mirrors ``pkg/kubelet/lifecycle/predicate.go`` and the filters it borrows from the scheduler (POD-402,
POD-403, NOD-35 to NOD-37). All failures are collected, in a fixed order; admission reports the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.api.resources import pod_requests
from kubelet_emu.api.types import Node, Pod, Taint, Toleration
from kubelet_emu.pod_update import is_static_pod

__all__ = ["Failure", "Shortage", "amount", "fit", "matches_node", "request_of", "tolerates"]

_NATIVE = ("cpu", "memory", "ephemeral-storage")

NODE_AFFINITY = "NodeAffinity"
_REFUSALS = {
    NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    "NodeName": "node(s) didn't match the requested node name",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "TaintToleration": "node(s) had taints that the pod didn't tolerate",
}


@frozen
class Shortage:
    """A resource of which the node has too little; cpu in millicores, the rest in base units."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """How much other pods would have to give up."""
        return self.requested - (self.capacity - self.used)

    @property
    def message(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


@frozen
class Failure:
    """One predicate that fails; ``shortage`` is set for resources only."""

    reason: str
    message: str
    shortage: Shortage | None = None


def amount(resource: str, quantity: Quantity | None) -> int:
    """A quantity as predicates count it: cpu in millicores, everything else in base units."""
    if quantity is None:
        return 0
    return quantity.milli_value() if resource == "cpu" else quantity.value()


def request_of(pod: Pod, resource: str) -> int:
    """What the pod asks of one resource; every pod asks 1 of ``pods`` (NOD-37)."""
    return 1 if resource == "pods" else amount(resource, pod_requests(pod).get(resource))


def fit(pod: Pod, others: Sequence[Pod], node: Node) -> tuple[Failure, ...]:
    """Every predicate that the pod fails beside ``others`` on the node, in the order of POD-402."""
    failures = [
        Failure(f"OutOf{shortage.resource}", shortage.message, shortage)
        for shortage in _shortages(pod, others, node)
    ]
    spec = pod.spec
    checks = (
        (NODE_AFFINITY, matches_node(pod, node)),
        ("NodeName", not spec.node_name or spec.node_name == node.metadata.name),
        ("NodePorts", not _ports_taken(pod, others)),
        ("TaintToleration", is_static_pod(pod) or not _repelled(node.spec.taints, spec.tolerations)),
    )
    failures += [
        Failure(name, f"Predicate {name} failed: {_REFUSALS[name]}") for name, good in checks if not good
    ]
    return tuple(failures)


# --- resources ------------------------------------------------------------------------------------------


def _shortages(pod: Pod, others: Sequence[Pod], node: Node) -> Iterable[Shortage]:
    allocatable = node.status.allocatable
    pods_max = amount("pods", allocatable.get("pods"))
    if len(others) + 1 > pods_max:
        yield Shortage("pods", 1, len(others), pods_max)
    wanted = pod_requests(pod)
    scalars = sorted(name for name in wanted if name not in _NATIVE and _counts(name, allocatable))
    counted = [name for name in (*_NATIVE, *scalars) if amount(name, wanted.get(name)) > 0]
    used = [pod_requests(other) for other in others] if counted else []
    for name in counted:
        request = amount(name, wanted.get(name))
        taken = sum(amount(name, requests.get(name)) for requests in used)
        capacity = amount(name, allocatable.get(name))
        if request > capacity - taken:
            yield Shortage(name, request, taken, capacity)


def _counts(name: str, allocatable: Mapping[str, Quantity]) -> bool:
    """Extended resources that the node does not know are somebody else's concern (POD-403)."""
    return name in allocatable or not _is_extended(name)


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


# --- affinity -------------------------------------------------------------------------------------------


def matches_node(pod: Pod, node: Node) -> bool:
    """nodeSelector and required node affinity; of several terms one must match."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity: Mapping[str, Any] = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    required: Mapping[str, Any] | None = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node.metadata.name}
    return any(_term_matches(term, labels, fields) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Mapping[str, Any], labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions: Sequence[Mapping[str, Any]] = term.get("matchExpressions") or ()
    field_expressions: Sequence[Mapping[str, Any]] = term.get("matchFields") or ()
    if not expressions and not field_expressions:
        return False
    return all(_expression_matches(e, labels) for e in expressions) and all(
        _expression_matches(e, fields) for e in field_expressions
    )


def _expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(expression.get("key", "")))
    values: Sequence[str] = expression.get("values") or ()
    operator = expression.get("operator")
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(values) == 1:
        try:
            found, bound = int(value), int(values[0])
        except ValueError:
            return False
        return found > bound if operator == "Gt" else found < bound
    return False


# --- ports and taints -----------------------------------------------------------------------------------


def _host_ports(pod: Pod) -> Iterable[tuple[str, str, int]]:
    """(protocol, address, port) of every host port; plain init containers hold none for long."""
    sidecars = (c for c in pod.spec.init_containers if c.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port


def _ports_taken(pod: Pod, others: Sequence[Pod]) -> bool:
    taken = [port for other in others for port in _host_ports(other)]
    return any(_conflict(wanted, held) for wanted in _host_ports(pod) for held in taken)


def _conflict(a: tuple[str, str, int], b: tuple[str, str, int]) -> bool:
    same_address = a[1] == b[1] or "0.0.0.0" in (a[1], b[1])
    return a[0] == b[0] and a[2] == b[2] and same_address


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")


def _repelled(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    return any(taint.effect == "NoExecute" and not tolerates(tolerations, taint) for taint in taints)
