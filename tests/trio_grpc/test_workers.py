# pyright: basic
"""Workers of a server in memory that are on their way out."""

from kubelet_emu.sim import Case, run_case


def test_a_run_that_is_cut_off_anywhere_ends_in_good_order():
    """Wherever a simulated run is stopped, what is on its way out finds what it needs."""
    container = {"name": "m", "image": "busybox", "command": ["sleep", "100"]}
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    for record in range(30, 60, 3):
        outcome = run_case(Case(documents=(pod,), seed=3, duration_seconds=8.0), stop_at_record=record)
        assert outcome.verdict == "stopped", outcome.failure
