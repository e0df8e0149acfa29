"""Several scenarios at once on one node, each pod judged by its own part of the trace.

For runtimes in real time: twenty scenarios then take as long as the longest. Only scenarios that do not need
to be alone on the node, and whose feature gates agree, can share one.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import trio
from attrs import evolve

from kubelet_emu.gates import Gates
from kubelet_emu.lab.node import Node, NodeOptions
from kubelet_emu.lab.runner import perform_all
from kubelet_emu.lab.scenarios import Scenario
from kubelet_emu.trace.schema import Record, Trace
from node_host.loop import Pace, run

__all__ = ["part_of", "run_side_by_side", "sharing"]

START_APART_SECONDS = 0.5
"""Pods are created this far apart, so that a small machine does not start all of them at one moment."""

PODS_AT_ONCE_MAX = 40
"""More pods than this on one node would get in each other's way in real time."""


def sharing(scenarios: Iterable[Scenario], *, at_once: int = PODS_AT_ONCE_MAX) -> list[tuple[Scenario, ...]]:
    """Scenarios in groups of at most ``at_once`` that can share a node; those that must be alone are."""
    alone: list[tuple[Scenario, ...]] = []
    groups: dict[tuple[tuple[str, bool], ...], list[list[Scenario]]] = {}
    for scenario in scenarios:
        if "alone" in scenario.needs or scenario.devices:
            alone.append((scenario,))
            continue
        alike = groups.setdefault(tuple(sorted(scenario.gates.items())), [])
        for group in alike:
            taken = {other.pod_name for other in group}
            if scenario.pod_name not in taken and len(group) < min(at_once, PODS_AT_ONCE_MAX):
                group.append(scenario)
                break
        else:
            alike.append([scenario])
    return [tuple(group) for alike in groups.values() for group in alike] + alone


def run_side_by_side(
    scenarios: Sequence[Scenario],
    options: NodeOptions,
    *,
    pace: Pace = Pace.VIRTUAL,
    rate: float = 1.0,
) -> dict[str, Trace]:
    """Run scenarios of one group on one node; the trace of each by its id.

    Raises as ``kubelet_emu.lab.runner.run_scenario`` does, in a group if it happens while pods run.
    """
    gates = Gates({**options.settings.gates.overrides, **scenarios[0].gates})
    chosen = evolve(options, settings=evolve(options.settings, gates=gates))
    whole = run(_run_in_node, scenarios, chosen, seed=chosen.seed, pace=pace, rate=rate)
    return {scenario.id: part_of(whole, scenario) for scenario in scenarios}


async def _run_in_node(scenarios: Sequence[Scenario], options: NodeOptions) -> Trace:
    async with Node(options) as node:
        async with trio.open_nursery() as nursery:
            for number, scenario in enumerate(scenarios):
                nursery.start_soon(_run_one, node, scenario, START_APART_SECONDS * number)
        node.recorder.action("end")
    return node.trace


async def _run_one(node: Node, scenario: Scenario, wait_seconds: float) -> None:
    await node.clock.sleep(wait_seconds)
    zero = node.clock.elapsed_seconds()
    pod = node.apply(scenario.pod)
    await perform_all(node, scenario, pod, zero_seconds=zero)
    node.recorder.action("end", pod=pod.metadata.name)


# -- taking the trace apart --

_ADDRESS = re.compile(r"\bip-\d+\b")


def part_of(whole: Trace, scenario: Scenario) -> Trace:
    """One scenario's records, as if its pod had been alone: time 0 is its creation, its address ``ip-1``.

    What belongs to no pod is kept, pulls of images that are not the pod's left out.
    """
    name = scenario.pod_name
    images = _images(scenario.pod)
    records = [record for record in whole.records if _belongs(record, name, images)]
    zero = next((one["t"] for one in records if one["k"] == "action" and one["do"] == "create"), 0.0)
    ends = [r["t"] for r in records if r["k"] == "action" and r["do"] == "end"]
    end = ends[0] if ends else float("inf")
    addresses: dict[str, str] = {}
    shown = tuple(
        {**_renamed(record, addresses), "t": round(record["t"] - zero, 3)}
        for record in records
        if zero <= record["t"] <= end
    )
    header = {**whole.header, "scenario": scenario.id, "pods": [name], "runFor": scenario.run_for_seconds}
    return Trace(header, shown)


def _belongs(record: Record, pod: str, images: frozenset[str]) -> bool:
    if "pod" in record:
        return record["pod"] == pod
    if record["k"] == "cri" and record["m"] in ("PullImage", "ImageStatus"):
        return record.get("image") in images
    return not (record["k"] == "action" and record["do"] == "end")


def _images(pod: Any) -> frozenset[str]:
    """All images that a pod names, in its spec and so in its containers of every kind."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return frozenset(str(container.get("image")) for container in containers)


def _renamed(record: Record, addresses: dict[str, str]) -> Record:
    if record["k"] not in ("pod", "event", "cri"):
        return record

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            if "ip-" not in value:
                return value
            return _ADDRESS.sub(lambda m: addresses.setdefault(m[0], f"ip-{len(addresses) + 1}"), value)
        if isinstance(value, dict):
            return {key: rename(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, list):
            return [rename(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    return rename(record)
