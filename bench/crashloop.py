"""A crash-looping pod for one simulated hour: wall time, calls, records.

Usage: ``python bench/crashloop.py [grpc|memory]``
"""

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "proto"))

from kubelet_emu.lab.node import Node, Transport
from node_host.loop import run

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "crasher"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "docker.io/library/busybox:1.36",
                "command": ["sh", "-c", "sleep 1; exit 1"],
            }
        ]
    },
}
HOUR_SECONDS = 3600


async def hour(transport: Transport) -> tuple[int, int, int]:
    """Run the hour; gives restarts, calls and records."""
    async with Node(seed=1, transport=transport) as node:
        node.apply(POD)
        await node.advance(HOUR_SECONDS)
        status = node.pod("crasher").status
        return status.container_statuses[0].restart_count, node.calls.calls, len(node.recorder.records)


def main() -> None:
    """Measure and print one line."""
    transport: Transport = "grpc" if "grpc" in sys.argv[1:] else "memory"
    begin = time.perf_counter()
    restarts, calls, records = run(hour, transport, seed=1)
    wall = time.perf_counter() - begin
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{transport}: {HOUR_SECONDS} s simulated in {wall:.2f} s wall "
        f"({HOUR_SECONDS / wall:.0f}:1), {restarts} restarts, {calls} calls, {records} records, "
        f"peak {peak_mib:.0f} MiB"
    )


if __name__ == "__main__":
    main()
