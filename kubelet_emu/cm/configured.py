"""The policies of CPU and memory manager that a configuration asks for (pure).

Mirrors the checks of ``pkg/kubelet/cm/cpumanager/cpu_manager.go`` and ``memorymanager/memory_manager.go``.
"""

from typing import TYPE_CHECKING

from kubelet_emu.api.quantity import Quantity
from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.errors import CallerError
from kubelet_emu.settings import KubeletSettings

if TYPE_CHECKING:  # imported where a configuration asks for them
    from kubelet_emu.cm.cpumanager.policy import StaticCpuPolicy
    from kubelet_emu.cm.memorymanager.policy import StaticMemoryPolicy

__all__ = ["cpu_policy", "memory_policy"]


def cpu_policy(settings: KubeletSettings, machine: MachineTopology) -> "StaticCpuPolicy | None":
    """None for the policy none; raises ``CallerError`` in the kubelet's words."""
    if settings.cpu_manager_policy == "none":
        if settings.cpu_manager_policy_options:
            raise CallerError("CPU Manager Policy options are not supported with the none policy")
        return None
    if settings.cpu_manager_policy != "static":
        raise CallerError(f'unknown policy: "{settings.cpu_manager_policy}"')
    from kubelet_emu.cm.cpumanager.cpuset import parse_cpus
    from kubelet_emu.cm.cpumanager.policy import StaticCpuPolicy, cpu_options

    if settings.reserved_cpus:
        reserved = parse_cpus(settings.reserved_cpus)
        if max(reserved) >= machine.cpu_count:
            raise CallerError(
                f"unable to reserve CPUs {settings.reserved_cpus}: the machine has {machine.cpu_count}"
            )
    else:
        # A fraction of a CPU reserves it whole.
        reserved = -(-Quantity.parse(settings.reserved_cpu).milli_value() // 1000)
    options = cpu_options(settings.cpu_manager_policy_options, machine)
    return StaticCpuPolicy(machine, reserved_cpus=reserved, options=options)


def memory_policy(settings: KubeletSettings, machine: MachineTopology) -> "StaticMemoryPolicy | None":
    """None for the policy None; raises ``CallerError`` in the kubelet's words."""
    if settings.memory_manager_policy == "None":
        return None
    if settings.memory_manager_policy != "Static":
        raise CallerError(f'unknown policy: "{settings.memory_manager_policy}"')
    from kubelet_emu.cm.memorymanager.policy import StaticMemoryPolicy

    reserved = {
        node: {kind: Quantity.parse(text).value() for kind, text in kinds.items()}
        for node, kinds in settings.reserved_memory.items()
    }
    return StaticMemoryPolicy(machine, reserved)
