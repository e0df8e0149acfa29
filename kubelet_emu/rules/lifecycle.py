"""Rules on the life of a pod on its node (POD), one sentence each (pure)."""

from collections.abc import Mapping

__all__ = ["LIFECYCLE"]

LIFECYCLE: Mapping[str, str] = {
    "POD-216": (
        "What a source of pods delivers is compared with what it delivered before, and becomes an "
        "addition, an update, a deletion, a removal or a mere change of status."
    ),
    "POD-218": (
        "Changes are handed on in one order: removed, added, updated, deleted pods, then changes of status."
    ),
    "POD-401": "Before a pod is taken in, one check after the other may refuse it; the first refusal counts.",
    "POD-402": (
        "A pod is taken in if the node has the resources, ports and labels that it asks for and bears "
        "its taints."
    ),
    "POD-403": "If only the node's labels do not fit, the node object is fetched once more.",
    "POD-404": "A critical pod that lacks resources displaces other pods instead of being refused.",
    "POD-409": "A refused pod that is deleted goes through its last step, so that its object can vanish.",
    "POD-502": "Once the end of a pod has begun, no container of it is started any more.",
    "POD-504.1": "The end of a pod that only the runtime knows is the one thing that may be asked of it.",
    "POD-504.4": (
        "A pod created again while its predecessor is still ending is remembered and starts afterwards."
    ),
    "POD-504.5": "A pod that is finished takes no further updates.",
    "POD-504.6": (
        "A pod begins to end when it is deleted, has a final phase, is to be killed, or is unknown to "
        "the API."
    ),
    "POD-504.7": "A kill of a pod that has already ended is answered at once.",
    "POD-504.8": "The update is handed to the pod's worker, which syncs the pod.",
    "POD-507": "A grace period may be shortened while a pod is ending, never made longer.",
    "POD-509": "A pod's worker starts as soon as it may; a static pod waits until its name is free.",
    "POD-510": "Of several static pods with one name only one runs at a time, in order of arrival.",
    "POD-513": (
        "After a run the worker goes on to the next part of the pod's life: syncing, terminating, "
        "terminated, finished."
    ),
    "POD-514": (
        "When the pod is synced again depends on how the last sync went: about a minute after a good "
        "one, ten seconds after an error."
    ),
    "POD-516": "A sync of containers that has begun is carried to its end.",
    "POD-519": "Workers of pods that no source wants any more are removed.",
    "POD-611": "A pod that waits for a back-off is synced when the back-off is over.",
    "POD-713": "A container's grace period is that of the pod, unless a failed probe brings its own.",
    "POD-803": (
        "A static pod is shown to the API by a mirror, which is made again when it is missing or differs."
    ),
    "POD-906": (
        "The kubelet lists all containers about once a second; what differs from the list before makes "
        "the pod's worker look again."
    ),
    "POD-915": "The runtime reports changes by itself, which spares the wait for the next list.",
    "POD-1001": "Every two seconds the node is tidied: workers, pods, volumes and logs that nobody wants.",
    "POD-1002": "A pod that is wanted but has no worker gets one.",
    "POD-1101": "A pod that has been active for longer than activeDeadlineSeconds has failed.",
    "POD-1201": "A kubelet that starts judges all pods again, those that run too, and stops whom it refuses.",
    "POD-1205": "A pod that runs but is wanted by nobody is killed.",
}
