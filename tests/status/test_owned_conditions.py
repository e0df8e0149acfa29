"""Which conditions of a pod's status only the kubelet writes, by their names in the API (STA-502)."""

from kubelet_emu.status.constants import OWNED_CONDITIONS, SHARED_CONDITIONS


def test_sta_502_conditions_of_the_kubelet():
    assert sorted(OWNED_CONDITIONS) == [
        "AllContainersRestarting",
        "ContainersReady",
        "Initialized",
        "PodReadyToStartContainers",
        "PodResizeInProgress",
        "PodResizePending",
        "PodScheduled",
        "Ready",
    ]
    assert SHARED_CONDITIONS == ("DisruptionTarget",)
