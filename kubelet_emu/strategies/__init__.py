"""Hypothesis generators of Pods, of what their containers do, of faults, and of whole cases.

::

    from hypothesis import given
    from kubelet_emu.strategies import cases, pods

    @given(pods(focus="restart-all"))
    def test_my_controller(manifest): ...

Everything generated is valid, and shrinks to manifests a person can read. Needs the extra
``kubelet-emu[fuzz]``. ``docs/fuzzing.md`` has more.
"""

from kubelet_emu.strategies.cases import cases
from kubelet_emu.strategies.focus import FAULT_LEVELS, FOCI, Focus
from kubelet_emu.strategies.plans import plans
from kubelet_emu.strategies.pods import RESOURCE, containers, pods
from kubelet_emu.strategies.scripts import TRIGGER, init_scripts, scripts

__all__ = [
    "FAULT_LEVELS",
    "FOCI",
    "RESOURCE",
    "TRIGGER",
    "Focus",
    "cases",
    "containers",
    "init_scripts",
    "plans",
    "pods",
    "scripts",
]
