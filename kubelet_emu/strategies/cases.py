"""Generators of whole cases: manifests, plan, devices, seed, order of tasks."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kubelet_emu.sim.case import Case
from kubelet_emu.strategies.draws import Draw, chance, weighted
from kubelet_emu.strategies.focus import focus_named
from kubelet_emu.strategies.plans import plans
from kubelet_emu.strategies.pods import CONFIG, RESOURCE, pods

__all__ = ["cases"]

DEVICES = "sample"
"""The machine of generated cases that ask for devices: two of ``RESOURCE``."""
_SCHEDULES = weighted({"uniform": 6, "priority:1": 1, "priority:2": 2, "priority:3": 1})
_DURATIONS = weighted({30.0: 4, 60.0: 5, 20.0: 1})
_SEEDS = st.integers(0, 2**16)
_PLAIN = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}}


def cases(
    *,
    focus: str = "all",
    faults: str = "light",
    gates: Mapping[str, bool] | None = None,
    bugs: tuple[str, ...] = (),
    fixes: tuple[str, ...] = (),
) -> "st.SearchStrategy[Case]":
    """Cases with valid pods. Bugs and fixes are only handed on: what is drawn does not depend on them.

    Raises ``CallerError`` for an unknown focus or level of faults.
    """
    chosen, set_gates = focus_named(focus), dict(gates or {})
    plans([_PLAIN], faults=faults, focus=focus)

    @st.composite
    def case(draw: Draw) -> Case:
        documents: list[Mapping[str, Any]] = [draw(pods(focus=focus))]
        if chance(draw, chosen.second_pod):
            documents.append(draw(pods(name="q", focus=focus)))
        devices = any(_uses(one, "resources", RESOURCE) for one in documents)
        plan = draw(plans(documents, faults=faults, focus=focus, devices=devices))
        if any(_uses(one, "envFrom", "") for one in documents) and chance(draw, 80):
            documents.insert(0, _config_map())
        return Case(
            documents=documents,
            gates=set_gates,
            devices=DEVICES if devices else None,
            plan=plan,
            seed=draw(_SEEDS),
            schedule=draw(_SCHEDULES),
            duration_seconds=draw(_DURATIONS),
            bugs=bugs,
            fixes=fixes,
        )

    return case()


def _uses(pod: Mapping[str, Any], field: str, resource: str) -> bool:
    spec = pod["spec"]
    found = [one[field] for one in (*spec["containers"], *spec.get("initContainers", ())) if field in one]
    return any(not resource or resource in one.get("limits", {}) for one in found)


def _config_map() -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}, "data": {"LEVEL": "debug"}}
