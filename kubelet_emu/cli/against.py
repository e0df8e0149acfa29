"""``run --against-recreate``: a restart in place next to the same pod deleted and created again."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubelet_emu.cli.given import GivenPods
    from kubelet_emu.cli.output import Output
    from kubelet_emu.lab.run import RunOptions, RunResult

__all__ = ["compare_ways"]


def compare_ways(
    result: "RunResult",
    options: "RunOptions",
    pods: "GivenPods",
    after_seconds: float,
    out: "Output | None",
    err: "Output",
) -> bool:
    """Run the other way and show both; ``out`` None shows problems only.

    Returns whether there was a restart in place to compare, and both ways led back with all invariants held.
    """
    from kubelet_emu.lab.recreate import assumptions, run_recreated
    from kubelet_emu.lab.report.summary import invariant_lines
    from kubelet_emu.lab.report.text import line
    from kubelet_emu.lab.report.ways import measure, same_exit, trigger_of, way_lines

    trigger = trigger_of(result.trace)
    if trigger is None:
        err.write("--against-recreate: no pod was restarted in place, so there is nothing to compare")
        return False
    other = run_recreated(pods.pods, options, trigger, objects=pods.objects, after_seconds=after_seconds)
    if out is not None:
        head, lines = way_lines(
            trigger,
            measure(result.trace, trigger),
            measure(other.trace, same_exit(other.trace, trigger)),
            assumptions(options, after_seconds),
            out.width,
        )
        out.lines([line(""), line((head, "head")), line(""), *lines])
    broken = [verdict for verdict in other.invariants if not verdict.holds]
    err.lines(invariant_lines(broken, err.width, glyphs=(err.glyphs.good, err.glyphs.bad)))
    if not other.ready:
        err.write(f"--against-recreate: pod {trigger.pod} did not become ready again after it was deleted")
    return other.ready and not broken
