"""The retry rule (POD-514, POD-1304)."""

import pytest

from kubelet_emu.container.runtime import SyncAction, SyncPodResult, SyncResult
from kubelet_emu.podworkers.delays import jittered, requeue_after
from kubelet_emu.podworkers.record import SyncError

NOW = 1000.0
GENERIC = SyncError("it broke")


def backoff(seconds):
    return SyncError("back-off", NOW + seconds)


def started(*ends):
    """The error of a runtime sync in which one container start failed for each given end of a back-off."""
    results = tuple(
        SyncResult(
            SyncAction.START_CONTAINER,
            f"c{i}",
            error="CrashLoopBackOff" if end is not None else "RunContainerError",
            message="text",
            backoff_until_seconds=NOW + end if end is not None else None,
        )
        for i, end in enumerate(ends)
    )
    return SyncError.of_result(SyncPodResult(results))


@pytest.mark.parametrize(
    ("transition", "error", "base", "jitter"),
    [
        pytest.param(True, None, 0, False, id="POD-1304-phase-transition"),
        pytest.param(False, None, 20, True, id="POD-1304-success"),
        pytest.param(False, GENERIC, 10, True, id="POD-1304-error"),
        pytest.param(False, backoff(5), 5, True, id="POD-1304-backoff"),
        pytest.param(False, started(None, 7), 7, True, id="POD-1304-error-and-backoff"),
        pytest.param(False, started(10, 3), 3, True, id="POD-1304-two-backoffs"),
        pytest.param(False, backoff(-5), 0, True, id="POD-1304-backoff-over"),
        pytest.param(False, backoff(40), 20, True, id="POD-1304-backoff-beyond-resync"),
        pytest.param(False, SyncError("network is not ready: x"), 1, True, id="POD-1304-network"),
        pytest.param(
            False,
            SyncError("[network is not ready: x, back-off]", NOW + 3),
            1,
            True,
            id="POD-1304-network-and-backoff",
        ),
    ],
)
def test_requeue(transition, error, base, jitter):
    requeue = requeue_after(
        phase_transition=transition, error=error, now_seconds=NOW, resync_seconds=20.0, backoff_seconds=10.0
    )
    assert (requeue.base_seconds, requeue.jitter) == (base, jitter)


def test_jitter_never_shortens_and_stays_below_half_again():
    assert jittered(10.0, 0.0) == 10.0
    assert jittered(10.0, 0.999) == pytest.approx(14.995)


def test_a_sync_without_failures_has_no_error():
    assert SyncError.of_result(SyncPodResult()) is None
