"""Runs one scenario on one node and gives back its trace."""

from typing import Any

import trio
from attrs import evolve

from kubelet_emu.api.types import Pod
from kubelet_emu.errors import PeerError
from kubelet_emu.gates import Gates
from kubelet_emu.lab.actions import perform
from kubelet_emu.lab.node import Node, NodeOptions
from kubelet_emu.lab.scenarios import Scenario
from kubelet_emu.trace.schema import Trace
from node_host.loop import Pace, run

__all__ = ["perform_all", "run_scenario", "run_scenario_in_node"]


def run_scenario(
    scenario: Scenario, options: NodeOptions | None = None, *, pace: Pace = Pace.VIRTUAL, rate: float = 1.0
) -> Trace:
    """Run a scenario from start to end in a trio run of its own.

    Raises ``CallerError`` for a pod or an action that cannot be carried out, ``PeerError`` for a runtime that
    does not answer.
    """
    chosen = options or NodeOptions()
    settings = evolve(chosen.settings, gates=Gates({**chosen.settings.gates.overrides, **scenario.gates}))
    header: dict[str, Any] = {
        "scenario": scenario.id,
        "pods": [scenario.pod["metadata"]["name"]],
        "runFor": scenario.run_for_seconds,
        **chosen.header,
    }
    # The recordings were made through a proxy that outlived the kubelet, and so did its open calls.
    chosen = evolve(chosen, settings=settings, header=header, hold_calls=not chosen.cri_endpoint)
    if scenario.devices:
        # Imported here because few scenarios need what it imports.
        from kubelet_emu.lab.node_devices import setups_of

        chosen = evolve(chosen, devices=(*chosen.devices, *setups_of(scenario.devices)))
    return run(run_scenario_in_node, scenario, chosen, seed=chosen.seed, pace=pace, rate=rate)


async def run_scenario_in_node(scenario: Scenario, options: NodeOptions) -> Trace:
    """The same inside a trio run that is there already."""
    async with Node(options) as node:
        pod = node.apply(scenario.pod)
        await perform_all(node, scenario, pod, zero_seconds=node.recorder.zero_seconds)
        node.recorder.action("end")
    return node.trace


async def perform_all(node: Node, scenario: Scenario, pod: Pod, *, zero_seconds: float) -> None:
    """Carry a scenario's actions out, counted from ``zero_seconds`` of the node's clock, until its end."""
    async with trio.open_nursery() as nursery:
        for action in scenario.actions:
            await node.clock.sleep_until(zero_seconds + action.at_seconds)
            # A slow action (an exec, a restart) does not hold up the ones after it.
            nursery.start_soon(_perform, node, action, pod.metadata.namespace, pod.metadata.name)
        await node.clock.sleep_until(zero_seconds + scenario.run_for_seconds)
        nursery.cancel_scope.cancel()


async def _perform(node: Node, action: Any, namespace: str, pod: str) -> None:
    try:
        await perform(node, action, namespace=namespace, pod=pod)
    except PeerError as error:
        node.recorder.fact("note", about=action.do, text=str(error))
