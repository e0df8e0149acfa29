"""Ten pods on one node in memory, trace and invariants on: simulated seconds a wall second.

    python bench/ten_pods.py [idle|restarts] ...

``idle``: ten running pods in which nothing happens, for an hour; at least 1,000:1. ``restarts``: ten pods
whose container ends soon after each start with a code for which all containers are restarted in place, for
two minutes; at least 30:1 at 5 restarts a simulated second in all. The time until all pods run is not
counted. Ends with 1 below a bound.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "proto"))

from kubelet_emu.lab.node import Node
from node_host.loop import run

PODS = 10
IMAGE = "docker.io/library/busybox:1.36"


def idle_pod(name: str) -> Mapping[str, Any]:
    """One container that waits."""
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "1000000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def restarting_pod(name: str) -> Mapping[str, Any]:
    """One container that asks for a restart of all, again and again."""
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c", "sleep 1.5; exit 42"],
        "restartPolicy": "Never",
        "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        ],
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def restarts(node: Node) -> int:
    """Restarts of all containers so far."""
    return sum(each.restart_count for pod in node.pods() for each in pod.status.container_statuses)


async def measure(
    make: Callable[[str], Mapping[str, Any]], seconds: float
) -> tuple[float, float, float, int, int]:
    """Wall and CPU seconds, restarts a simulated second, calls, violated invariants."""
    async with Node(seed=1, transport="memory") as node:
        for number in range(PODS):
            node.apply(make(f"pod-{number}"))
        await node.advance(20.0)
        before, calls = restarts(node), node.calls.calls
        begin, used = time.perf_counter(), time.process_time()
        await node.advance(seconds)
        wall, cpu = time.perf_counter() - begin, time.process_time() - used
        violations = sum(record["k"] == "invariant" for record in node.recorder.records)
        assert len(node.pods()) == PODS
        return wall, cpu, (restarts(node) - before) / seconds, node.calls.calls - calls, violations


def main() -> int:
    """Measure what was asked for, one line each."""
    cases = {"idle": (idle_pod, 3600.0, 1000.0, 0.0), "restarts": (restarting_pod, 120.0, 30.0, 4.0)}
    below = False
    for name in sys.argv[1:] or cases:
        make, seconds, bound, rate_min = cases[name]
        wall, cpu, rate, calls, violations = run(measure, make, seconds, seed=1)
        print(
            f"{name}: {PODS} pods, {seconds:.0f} s simulated in {wall:.2f} s wall "
            f"and {cpu:.2f} s CPU ({seconds / wall:.0f}:1, bound {bound:.0f}:1), "
            f"{rate:.1f} restarts a simulated second, "
            f"{calls} calls, {violations} invariants violated"
        )
        below = below or seconds / wall < bound or rate < rate_min or violations > 0
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
