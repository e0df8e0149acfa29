"""Known bugs that can be switched on, and fixes of bugs that 1.36.2 still has (pure).

Each switch changes one decision, where the bug is or was. With none the kubelet does what 1.36.2 does.
``fixed`` bugs are gone in 1.36.2: switching one on brings the old behaviour back. ``open`` ones are still
there: what they break is exempt from the invariant that would find it, under the rule that says so; switching
one on lifts that exemption, and its fix changes the behaviour. ``mistake`` is what somebody who writes the
restart of all containers anew gets wrong easily.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from attrs import frozen

from kubelet_emu.errors import CallerError, Problem

__all__ = [
    "AS_RELEASED",
    "BUGS",
    "COUNTS_RESET",
    "CRASHED_BESIDE_SIDECAR",
    "CREATED_NOT_STARTED",
    "DEVICES_FREED",
    "FINISHED_INIT_USED_DEVICE",
    "INIT_NOT_RUN",
    "KILLED_WITH_ZERO",
    "LEFT_CREATED",
    "OLD_INIT_COUNTS",
    "REMOVED_RUNS_AGAIN",
    "RUNNING_WITH_DEVICES",
    "SANDBOX_RECREATED",
    "STALE_CREATED",
    "STARTUP_WORKER_ENDS",
    "TRIGGER_KEPT",
    "Bug",
    "BugKind",
    "Deviations",
    "find_bug",
    "known_bugs",
    "known_fixes",
    "list_bugs",
]

BugKind: TypeAlias = Literal["fixed", "open", "mistake"]

CRASHED_BESIDE_SIDECAR: Final = "136910"
LEFT_CREATED: Final = "126543"
OLD_INIT_COUNTS: Final = "137710"
RUNNING_WITH_DEVICES: Final = "118559"
STARTUP_WORKER_ENDS: Final = "132826"
FINISHED_INIT_USED_DEVICE: Final = "124345"
REMOVED_RUNS_AGAIN: Final = "90271"
CREATED_NOT_STARTED: Final = "123839"
STALE_CREATED: Final = "140309"
KILLED_WITH_ZERO: Final = "109537"
INIT_NOT_RUN: Final = "init-not-run"
TRIGGER_KEPT: Final = "trigger-kept"
SANDBOX_RECREATED: Final = "sandbox-recreated"
DEVICES_FREED: Final = "devices-freed"
COUNTS_RESET: Final = "counts-reset"


@frozen(kw_only=True)
class Bug:
    """One switch. ``breaks`` names the invariants or properties that find it, ``rules`` what 1.36.2 does
    instead (``open``: what makes it do so), ``upstream`` the numbers of kubernetes/kubernetes.
    """

    id: str
    kind: BugKind
    title: str
    breaks: tuple[str, ...]
    rules: tuple[str, ...]
    upstream: tuple[int, ...] = ()

    def __str__(self) -> str:
        numbers = "".join(f" #{number}" for number in self.upstream)
        return f"{self.id:<18} {self.kind:<8} {self.title}{f' ({numbers.strip()})' if numbers else ''}"


BUGS: Final[tuple[Bug, ...]] = (
    Bug(
        id=CRASHED_BESIDE_SIDECAR,
        kind="fixed",
        title="after a kubelet restart a crashed container beside a sidecar with a startup probe stays down",
        breaks=("debts-paid",),
        rules=("PRB-10", "RST-047"),
        upstream=(136910, 137146),
    ),
    Bug(
        id=LEFT_CREATED,
        kind="fixed",
        title="an init container that was created and could not be started is left so",
        breaks=("debts-paid",),
        rules=("RST-046",),
        upstream=(126543,),
    ),
    Bug(
        id=OLD_INIT_COUNTS,
        kind="fixed",
        title="in a new sandbox an init container that ended in the old one counts as done",
        breaks=("regular-after-init", "init-in-order"),
        rules=("RST-081",),
        upstream=(137710,),
    ),
    Bug(
        id=RUNNING_WITH_DEVICES,
        kind="fixed",
        title="a kubelet that starts before its device plugin refuses pods whose containers run",
        breaks=("running-stays-admitted",),
        rules=("DEV-064", "DEV-110"),
        upstream=(118559,),
    ),
    Bug(
        id=STARTUP_WORKER_ENDS,
        kind="fixed",
        title="under policy Never a sidecar that ends loses the worker of its startup probe",
        breaks=("debts-paid",),
        rules=("PRB-12", "PRB-13"),
        upstream=(132826,),
    ),
    Bug(
        id=FINISHED_INIT_USED_DEVICE,
        kind="open",
        title="a kubelet that starts before its device plugin refuses a pod that runs and whose init is done",
        breaks=("running-stays-admitted",),
        rules=("DEV-112",),
        upstream=(124345, 138446),
    ),
    Bug(
        id=REMOVED_RUNS_AGAIN,
        kind="open",
        title="a container that had ended for good runs again when its instance is removed",
        breaks=("removed-stays-ended",),
        rules=("RST-024",),
        upstream=(90271, 51142),
    ),
    Bug(
        id=CREATED_NOT_STARTED,
        kind="open",
        title="a pod stays Pending when its sandbox is lost between creation and start of its container",
        breaks=("debts-paid",),
        rules=("RST-033",),
        upstream=(123839,),
    ),
    Bug(
        id=STALE_CREATED,
        kind="open",
        title="a container that an earlier sandbox left created is taken for the end of initialization",
        breaks=("regular-after-init", "init-in-order"),
        rules=("RST-045",),
        upstream=(140309,),
    ),
    Bug(
        id=KILLED_WITH_ZERO,
        kind="open",
        title="under OnFailure a container that answers a kill by its probe with 0 counts as succeeded",
        breaks=("success-is-its-own",),
        rules=("RST-021",),
        upstream=(109537,),
    ),
    Bug(
        id=INIT_NOT_RUN,
        kind="mistake",
        title="a full restart does not run init containers again",
        breaks=("reset-complete",),
        rules=("RST-130",),
    ),
    Bug(
        id=TRIGGER_KEPT,
        kind="mistake",
        title="a full restart does not remove the container that triggered it",
        breaks=("debts-paid",),
        rules=("RST-130",),
    ),
    Bug(
        id=SANDBOX_RECREATED,
        kind="mistake",
        title="a full restart makes a new sandbox",
        breaks=("sandbox-kept",),
        rules=("RST-136",),
    ),
    Bug(
        id=DEVICES_FREED,
        kind="mistake",
        title="a full restart gives the devices of the pod back",
        breaks=("allocate-once", "devices-kept", "devices-exclusive"),
        rules=("DEV-110", "DEV-114"),
    ),
    Bug(
        id=COUNTS_RESET,
        kind="mistake",
        title="a full restart begins the restart counts anew",
        breaks=("counts-never-fall", "restarts-counted"),
        rules=("RST-145", "RST-185"),
    ),
)
_BY_NAME: Final = {name: bug for bug in BUGS for name in (bug.id, *(str(number) for number in bug.upstream))}


def list_bugs() -> tuple[Bug, ...]:
    """All bugs, those of upstream first."""
    return BUGS


def find_bug(name: str) -> Bug:
    """The bug of an id, or of a number of kubernetes/kubernetes with or without ``#``. Raises
    ``CallerError``.
    """
    found = _BY_NAME.get(name.removeprefix("#"))
    if found is None:
        known = ", ".join(bug.id for bug in BUGS)
        raise CallerError([Problem(f"there is no bug {name!r}", hint=f"known are {known}")])
    return found


def known_bugs(names: Iterable[str]) -> frozenset[str]:
    """The ids of these bugs. Raises ``CallerError`` for one that is not known."""
    return frozenset(find_bug(name).id for name in names)


def known_fixes(names: Iterable[str]) -> frozenset[str]:
    """The ids of the bugs to fix. Raises ``CallerError`` for one that is not known, or not open."""
    found = [find_bug(name) for name in names]
    for bug in found:
        if bug.kind != "open":
            known = ", ".join(one.id for one in BUGS if one.kind == "open")
            raise CallerError(
                [Problem(f"there is nothing to fix about {bug.id}", hint=f"fixes are there for {known}")]
            )
    return frozenset(bug.id for bug in found)


@frozen
class Deviations:
    """In what one kubelet differs from 1.36.2: ids of bugs switched on, and of bugs fixed."""

    bugs: frozenset[str] = frozenset()
    fixes: frozenset[str] = frozenset()

    def has(self, bug: str) -> bool:
        """Whether that bug is switched on."""
        return bug in self.bugs

    def fixed(self, bug: str) -> bool:
        """Whether that bug, which 1.36.2 has, is fixed here."""
        return bug in self.fixes


AS_RELEASED: Final = Deviations()
"""1.36.2 as it is."""
