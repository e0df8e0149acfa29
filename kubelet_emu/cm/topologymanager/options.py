"""Configuration of the topology manager and what makes a kubelet refuse to start with it (pure).

Mirrors ``NewManager`` of ``pkg/kubelet/cm/topologymanager/topology_manager.go`` and ``policy_options.go``
(DEV-130).
"""

from collections.abc import Mapping

from attrs import frozen

from kubelet_emu.cm.machine import MachineTopology
from kubelet_emu.cm.topologymanager.policy import Policy, Scope
from kubelet_emu.errors import CallerError

__all__ = ["TopologyConfig", "topology_config"]

NODES_DEFAULT_MAX = 8

_CLOSEST = "prefer-closest-numa-nodes"
_MAX_NODES = "max-allowable-numa-nodes"


@frozen(kw_only=True)
class TopologyConfig:
    """A configuration that holds for the machine."""

    policy: Policy = Policy.NONE
    scope: Scope = Scope.CONTAINER
    closest: bool = False


def topology_config(
    policy: str, scope: str, options: Mapping[str, str], machine: MachineTopology
) -> TopologyConfig:
    """Judge a configuration; raises ``CallerError`` in the kubelet's words. Policy none checks nothing."""
    if policy == Policy.NONE or not policy:
        return TopologyConfig()
    closest, most = False, NODES_DEFAULT_MAX
    for name, text in sorted(options.items()):
        if name == _CLOSEST:
            closest = _boolean(name, text)
        elif name == _MAX_NODES:
            most = _whole(name, text)
            if most < NODES_DEFAULT_MAX:
                raise CallerError(
                    f"the minimum value of {_MAX_NODES} should not be less than {NODES_DEFAULT_MAX}"
                )
        else:
            raise CallerError(f'unknown Topology Manager Policy option: "{name}"')
    if machine.node_count > most:
        raise CallerError(f"unsupported on machines with more than {most} NUMA Nodes")
    if policy not in set(Policy):
        raise CallerError(f'unknown policy: "{policy}"')
    if scope not in set(Scope):
        raise CallerError(f'unknown scope: "{scope}"')
    return TopologyConfig(policy=Policy(policy), scope=Scope(scope), closest=closest)


def _boolean(name: str, text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise CallerError(f'bad value for option "{name}": strconv.ParseBool: parsing "{text}": invalid syntax')


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CallerError(
            f'unable to convert policy option to integer "{name}": '
            f'strconv.Atoi: parsing "{text}": invalid syntax'
        ) from None
