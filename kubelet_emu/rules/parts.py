"""Rules on images, probes, devices and the runtime (IMG, PRB, DEV, CRI), one sentence each (pure)."""

from collections.abc import Mapping

__all__ = ["DEVICES", "IMAGES_AND_PROBES", "RUNTIME"]

IMAGES_AND_PROBES: Mapping[str, str] = {
    "IMG-05": (
        "An image is looked up, pulled if its policy asks for that, and the first thing that goes wrong "
        "keeps the container waiting."
    ),
    "IMG-08": "A pull that fails shows as ErrImagePull, unless the error itself names a reason.",
    "IMG-13": (
        "After a failed pull the same image of the same pod is not pulled again before a growing delay "
        "is over."
    ),
    "HOK-12": (
        "A preStop hook runs beside a timer of the whole grace period; what it takes is subtracted, and at "
        "least two seconds are left for the process."
    ),
    "PRB-10": "After a kubelet restart a sidecar that had started counts as started without another probe.",
    "PRB-13": "A probe outlives the end of its container where that container is to be started again.",
    "IMG-35": "Every five minutes images that nobody uses go, until the disk is below its low threshold.",
    "PRB-12": (
        "A probe counts only while its container runs, after its initial delay, and when as many "
        "results in a row agree as its threshold asks for."
    ),
}

DEVICES: Mapping[str, str] = {
    "DEV-040": "Each list of a device plugin replaces all it listed before.",
    "DEV-044": (
        "When a plugin has been away too long its resource is taken off the node, but pods keep what "
        "they hold."
    ),
    "DEV-064": (
        "Devices come from those that the container holds already, then from those an init container of "
        "the pod held, then from free healthy ones that fit the topology and the plugin's preference."
    ),
    "DEV-091": "A pod that cannot be given the devices it asks for is refused.",
    "DEV-095": "A resize is put off while a device that the pod holds is not healthy or its plugin is away.",
    "DEV-043": "The devices of a plugin that went away count for five more minutes.",
    "DEV-068": "When a plugin cannot allocate, the pod is refused with the plugin's own words.",
    "DEV-071": "No two containers of a pod that run at the same time hold the same device.",
    "DEV-102": "A plugin that asks for it is called before each start of a container.",
    "DEV-110": "Over restarts of every kind a container keeps the devices it was given at admission.",
    "DEV-112": "A kubelet that starts asks the plugin again for each container that does not run just then.",
    "DEV-113": "What runs is looked up once, when the kubelet starts; a runtime that is away shows nothing.",
    "DEV-114": "A restart in place leaves the devices of a pod where they are.",
    "DEV-122": "A pod whose device changed its health is synced, so that the change shows in its status.",
    "DEV-138": (
        "Topology hints of all resources are merged by cutting their sets of NUMA nodes; the narrowest "
        "preferred set wins."
    ),
    "DEV-13A": "Under the policy single-numa-node only hints of a single node count.",
    "DEV-13B": (
        "Under the policies restricted and single-numa-node a pod without a preferred placement is refused."
    ),
    "DEV-152": "Claims are prepared right before a sandbox is made, once for the pod.",
    "DEV-153": "Claims are prepared driver by driver; what is prepared is not asked for again.",
    "DEV-202": (
        "A device belongs to one pod at a time, and a container keeps its devices as long as its pod is "
        "active."
    ),
}

RUNTIME: Mapping[str, str] = {
    "CRI-011": "Containers and sandboxes may be named by a unique beginning of their id.",
    "CRI-013": "Within a sandbox, name and attempt together are unique.",
    "CRI-021": "A sandbox needs metadata, and a runtime handler that exists.",
    "CRI-025": "Removing a sandbox that is not there succeeds; a running one is stopped first.",
    "CRI-026": "Nothing is created or started in a sandbox that is not ready.",
    "CRI-041": "A container starts once, and only after it was created.",
    "CRI-042": "A container that cannot be started ends with code 128 and the error as its message.",
    "CRI-051": "A container that is being started or removed cannot be removed.",
    "CRI-052": "A container needs metadata, a sandbox that exists and an image that is present.",
    "CRI-053": (
        "The container's command replaces the image's entrypoint; arguments alone replace its default "
        "arguments."
    ),
    "CRI-054": "A mounted host path that is not there becomes a folder.",
    "CRI-055": "Mounts and users that contradict themselves are refused.",
    "CRI-056": "A process namespace can be shared only with a container that runs in the same sandbox.",
    "CRI-070": (
        "Errors of the runtime without a code of their own are reported as Unknown, with their whole text."
    ),
    "CRI-080": "All members of a filter must match, and one that is not set matches everything.",
    "CRI-091": (
        "An image is found by its id, the beginning of it, a tag, a digest, or the short form of its name."
    ),
    "CRI-101": "A runtime says whether it and its network are ready.",
    "CRI-110": (
        "A command in a container that exits with another code than 0 is an answer, one that takes too "
        "long an error."
    ),
    "CRI-114": "A stream is asked for first and called for at a URL that is good once and for a minute.",
    "CRI-125": (
        "A log lies in the sandbox's log folder under the container's log path; without either there is none."
    ),
    "CRI-128": "A log file is made when the container starts, and appended to if it is there.",
    "CRI-129": "A log that was rotated is opened again when the kubelet asks for it.",
    "CRI-131": "Usage is reported for running containers only.",
    "CRI-132": "A sandbox's usage covers its network and all its containers.",
    "CRI-153": "A user namespace needs one full mapping of users and groups, and none without a namespace.",
    "CRI-154": "An image can be mounted as a read-only volume.",
    "CRI-155": "A checkpoint is written to the file that was asked for, and the container runs on.",
    "CRI-201": "Every ready sandbox of the pod network has one address that no other has, and keeps it.",
}
