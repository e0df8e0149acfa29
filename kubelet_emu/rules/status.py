"""Rules on the status of a pod (STA), one sentence each (pure)."""

from collections.abc import Mapping

__all__ = ["STATUS"]

STATUS: Mapping[str, str] = {
    "STA-101": (
        "A status is made anew from the runtime and from the status before, and a phase that has ended "
        "is kept."
    ),
    "STA-204": (
        "The phase follows from the states of all containers and from whether those that ended may restart."
    ),
    "STA-205": "Without restart rules the phase asks the pod's restartPolicy only.",
    "STA-303": "A container without an instance keeps its old status, or shows that its instance was lost.",
    "STA-308": "The restart count is that of the instance, but never lower than the one shown before.",
    "STA-311": "A container that is due to start shows the reason of its last failed start, if there is one.",
    "STA-503": "ContainersReady is True when every sidecar and regular container is ready.",
    "STA-504": "Ready is True when ContainersReady is, and every readiness gate too.",
    "STA-505": (
        "Initialized is True when every init container is done, or once a regular container has started."
    ),
    "STA-506": "Initialized, once True, stays True while the pod restarts in place.",
    "STA-507": "PodReadyToStartContainers is True while the pod has a usable sandbox.",
    "STA-508": "PodScheduled is True for every pod that a kubelet knows.",
    "STA-602": (
        "A terminated container that may not restart cannot show as anything else again; such a status "
        "is dropped."
    ),
    "STA-603": "A new status is kept if it differs from the one before.",
    "STA-604": "A status equal to the one before changes nothing.",
    "STA-605": "While a pod is being deleted every status counts as new, changed or not.",
    "STA-607": "At its very end a pod gets a final phase, and containers still without an end get 137.",
    "STA-612": "A container whose end nobody saw is reported as ContainerStatusUnknown with code 137.",
    "STA-704": "What changed is sent to the API server as a patch of the status.",
    "STA-801": "Conditions that others own are left in the status as they are.",
    "STA-802": "An ended phase is held back while containers may still be running.",
    "STA-804": "A pod that has ended is not ready.",
    "STA-1218": "A pod that ends without a final phase has failed.",
}
