"""Rules on restarts (RST), one sentence each (pure)."""

from collections.abc import Mapping

__all__ = ["RESTART"]

RESTART: Mapping[str, str] = {
    # -- fields and gates --
    "RST-003": (
        "Restart rules need a restartPolicy on the same container, exit codes to compare with, and at "
        "most 20 rules of 255 codes."
    ),
    "RST-005": "A sidecar may carry restart rules only where nodes can restart whole pods in place.",
    "RST-009": (
        "A pod with a RestartAllContainers rule is refused by a node that does not declare that feature."
    ),
    "RST-011": (
        "The kubelet drops a status in which a container that may not restart would leave its "
        "terminated state."
    ),
    # -- restart rules --
    "RST-020": (
        "Restart rules are tried in the order of the list, and the first one whose exit codes match decides."
    ),
    "RST-021": "Only the exit code is compared: neither the reason nor who caused the exit counts.",
    "RST-022": (
        "An exited container restarts if its first matching rule says so; without a match its own "
        "restartPolicy decides, and without one that of the pod."
    ),
    "RST-023": (
        "A container is due to start if it has no instance, if its instance was only created or is "
        "lost, or if it exited and may restart; in a pod that is being deleted nothing starts."
    ),
    "RST-024": (
        "A container without any instance in the runtime is started, even one that must never restart."
    ),
    "RST-025": "A container that might restart one day keeps the pod worth recreating its cgroup for.",
    "RST-026": (
        "A pod counts as fully restartable as soon as any init or regular container has a "
        "RestartAllContainers rule, whatever its exit codes."
    ),
    "RST-027": "A sidecar restarts after every exit; neither its exit code nor a Restart rule is asked.",
    "RST-028": (
        "An init container that exited with 0 is complete, and a Restart rule for code 0 cannot run it again."
    ),
    "RST-029": (
        "An init container has failed if its exit code is not 0, if it was killed for memory, or if the "
        "runtime has lost its state."
    ),
    # -- the sandbox --
    "RST-030": (
        "A new sandbox is needed if there is none, if the latest is not ready or has no address, if two "
        "are ready, or if its network is of the wrong kind; else it is kept."
    ),
    "RST-032": (
        "Each sync begins with the sandbox: if it has to change, everything in the pod is killed first."
    ),
    "RST-033": (
        "A pod of policy Never that has lost its sandbox after its containers ran is not built up again."
    ),
    "RST-034": (
        "In a new sandbox every regular container starts again, except one of policy OnFailure that had "
        "succeeded."
    ),
    "RST-035": "If no container is left to start, a lost sandbox is not replaced.",
    "RST-036": (
        "A new sandbox begins with the first init container; without init containers all regular ones start."
    ),
    # -- what a sync does --
    "RST-040": "While the whole pod restarts in place, a sync does nothing but kill and remove containers.",
    "RST-041": (
        "An ephemeral container without an instance is started, even during initialisation, and never again."
    ),
    "RST-042": "Regular containers are not looked at before all init containers are done.",
    "RST-045": "Init containers count as done while any regular container runs or was just created.",
    "RST-046": (
        "Init containers are judged from the last to the first; the last one with an instance tells "
        "which is next."
    ),
    "RST-047": (
        "A running sidecar lets the next container start once it counts as started, and is killed and "
        "restarted when its image changed or a startup or liveness probe failed."
    ),
    "RST-048": (
        "Only a startup probe of a sidecar holds back the next container; readiness and liveness do not."
    ),
    "RST-049": "A sidecar that has to be replaced does not hold back the containers after it.",
    "RST-050": "Plain init containers run one at a time, and no regular container starts beside one.",
    "RST-051": "If no init container has an instance, the first one starts.",
    "RST-053": "An init container that failed and may not restart ends the whole pod.",
    "RST-056": "A regular container that does not run is started if it may restart.",
    "RST-057": "A running container is killed if its image changed or its liveness or startup probe failed.",
    "RST-058": (
        "After a kill by a probe the container restarts unless its policy is Never; exit-code rules are "
        "not asked, because there is no exit code yet."
    ),
    "RST-059": (
        "A container killed by a probe without a restart is judged again by its exit code in a later sync."
    ),
    "RST-060": (
        "If no regular container is kept and none is to start, the pod is killed, its sidecars included."
    ),
    "RST-061": (
        "When the only container fails its probe, the pod is killed as a whole, and the probe's own "
        "grace period is not used."
    ),
    "RST-062": "Each kill is announced by a Killing event whose text names the cause.",
    "RST-063": "Only a change of name or image makes a running container count as changed.",
    "RST-065": (
        "A running container whose wanted resources differ is updated in place, or restarted if its "
        "resize policy asks for that."
    ),
    "RST-067": "Resources of the pod as a whole are updated at the end of a sync.",
    # -- syncing --
    "RST-081": "A new sandbox is preceded by the removal of all init containers; a failure is only noted.",
    "RST-083": (
        "Killing a pod stops all its running containers at once, sidecars last, and then its sandboxes."
    ),
    "RST-092": "A container whose postStart hook failed is killed and then counts as exited.",
    "RST-096": (
        "When an instance has died, older exited instances of the same container are removed with their logs."
    ),
    # -- killing --
    "RST-100": (
        "The grace period is that of the deletion, else that of the failed probe, else that of the pod."
    ),
    "RST-101": "A preStop hook runs before the stop signal and uses up part of the grace period.",
    "RST-102": "No container gets less than two seconds between the stop signal and the kill.",
    "RST-104": "At the end of a pod sidecars stop after all regular containers, the last sidecar first.",
    # -- back-off --
    "RST-110": (
        "Back-off begins with 10 seconds, doubles, and ends at 5 minutes unless the node says otherwise."
    ),
    "RST-111": (
        "Before each start the newest exited instance of the container is looked at: with one, back-off "
        "applies, whatever the exit code; without one, the start is immediate."
    ),
    "RST-112": "A container waits until its delay has passed since its last exit.",
    "RST-113": (
        "A start after an exit doubles the next delay, or sets it to the first one after ten quiet minutes."
    ),
    "RST-117": "A start that was put off shows as CrashLoopBackOff, with a BackOff event for each attempt.",
    "RST-119": "Back-off is kept in memory only, and an entry unused for ten minutes is forgotten.",
    # -- restarting the whole pod in place --
    "RST-121": (
        "The whole pod restarts in place if the condition AllContainersRestarting is True, or if a "
        "container exited with a code whose first matching rule is RestartAllContainers."
    ),
    "RST-122": (
        "What the API still remembers of an exit counts only beside an exited instance in the runtime."
    ),
    "RST-126": (
        "AllContainersRestarting is True from the trigger until no instance is left, then False; it "
        "stays in the status for good, and a finished pod gives its reason."
    ),
    "RST-128": "Containers are reset only after a status with AllContainersRestarting True was computed.",
    "RST-129": "A pod that has ended is not restarted in place, whatever the exit code.",
    "RST-130": (
        "Everything is killed and removed one by one: first regular, then init containers that did not "
        "trigger the restart, then those that did."
    ),
    "RST-131": "A container that is reset gets no preStop hook and two seconds to end.",
    "RST-133": "After the removal the pod is synced again at once.",
    "RST-134": "A restart in place ignores grace periods and the order in which sidecars stop.",
    "RST-135": "Ephemeral containers are left alone when the whole pod restarts in place.",
    "RST-136": "A restart in place keeps sandbox, address, volumes, devices and the pod's identity.",
    "RST-137": (
        "If the sandbox is lost at the same time, it is built again first and the containers are "
        "removed in the sync after that."
    ),
    "RST-142": (
        "A restart in place knows no back-off: a container that triggers it on every run loops without delay."
    ),
    "RST-145": (
        "A container removed for a restart in place shows as waiting with RestartingAllContainers, "
        "counts one restart more, and its last state becomes 137."
    ),
    "RST-146": "The real exit code is lost: after the removal every last state reads 137.",
    "RST-151": "A restart count never falls when a new instance appears.",
    "RST-152": (
        "After a restart in place the logs of the run before cannot be asked for, since the last state "
        "names no container."
    ),
    "RST-156": (
        "The pod stays Running during a restart in place, but shows Pending while init containers run again."
    ),
    "RST-158": "Ready turns False during a restart in place, while PodReadyToStartContainers stays True.",
    "RST-161": "A container whose probes had ended may come back unprobed, and then counts as ready at once.",
    # -- status --
    "RST-173": "The phase follows from what runs, what waits and what has ended, in a fixed order.",
    "RST-174": "A pod that has succeeded or failed stays so.",
    "RST-176": (
        "A running container whose instance has vanished gets a last state of 137, "
        "ContainerStatusUnknown, and counts one restart more."
    ),
    "RST-177": "The newest instance gives a container's state, the one before it its last state.",
    "RST-178": (
        "A restart count is never lower than it was, and a new instance moves the old end to the last state."
    ),
    "RST-179": (
        "A container that waits for its next start shows why it waits, and its end moves to the last state."
    ),
    "RST-185": "A new instance counts one more than the latest one, else one more than the newest log file.",
    "RST-186": "The count goes on from the log files that are left when no instance is.",
    "RST-200": (
        "When the last regular container has ended for good, the pod ends: Succeeded if all exited with "
        "0, else Failed."
    ),
    "RST-201": "A sidecar's exit restarts nothing once all regular containers have ended for good.",
}
