"""What a run came to: containers, conditions, events, what was kept, invariants and checks. (pure)"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kubelet_emu.lab.checks import Verdict as CheckVerdict
from kubelet_emu.lab.expectations import PodCheck
from kubelet_emu.lab.invariants import Verdict
from kubelet_emu.lab.log_lines import InstanceLog
from kubelet_emu.lab.report.kept import Kept
from kubelet_emu.lab.report.text import Line, Span, Style, line, rows, seconds_text, shorten, wrapped
from kubelet_emu.printers.events import describe_events

__all__ = [
    "absent_lines",
    "check_lines",
    "condition_lines",
    "container_lines",
    "event_lines",
    "invariant_lines",
    "kept_lines",
    "log_lines",
    "opaque_lines",
]

DEVICES_SHOWN = 8
DEVICE_WIDTH = 12
"""Ids of devices that are shown at most, and how much of each."""

EVENTS_MAX = 200
LOG_LINES_MAX = 2000
"""Lines of all logs together that a summary shows; the last ones of each instance count."""

Object = Mapping[str, Any]
Cell = str | tuple[str, Style]

_STATUS_LISTS = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


def _objects(value: object) -> Sequence[Object]:
    return cast("Sequence[Object]", value or ())


def _object(of: Object, key: str) -> Object:
    return cast("Object", of.get(key) or {})


def _kind(container: Object, key: str) -> str:
    if key == "initContainers":
        return "sidecar" if container.get("restartPolicy") == "Always" else "init"
    return "regular" if key == "containers" else "ephemeral"


def container_lines(pod: Object) -> list[Line]:
    """A table of all containers of a pod object: state, reason, exit code, restarts, last state."""
    spec, status = _object(pod, "spec"), _object(pod, "status")
    table: list[list[Cell]] = [
        [
            (title, "dim")
            for title in ("CONTAINER", "KIND", "STATE", "REASON", "EXIT", "RESTARTS", "LAST STATE")
        ]
    ]
    for key, statuses in _STATUS_LISTS:
        by_name = {shown["name"]: shown for shown in _objects(status.get(statuses))}
        for container in _objects(spec.get(key)):
            table.append(_container_row(container, _kind(container, key), by_name.get(container["name"], {})))
    return rows(table)


def _container_row(container: Object, kind: str, shown: Object) -> list[Cell]:
    state = _object(shown, "state")
    name = next(iter(state), "-")
    detail = _object(state, name)
    exit_code = str(detail["exitCode"]) if name == "terminated" else "-"
    style: Style = ""
    if name == "running":
        style = "run"
    elif name == "terminated":
        style = "good" if detail["exitCode"] == 0 else "bad"
    last = _object(_object(shown, "lastState"), "terminated")
    last_text = "-"
    if last:
        last_text = f"{last.get('reason') or 'Terminated'} ({last.get('exitCode', 0)})"
    return [
        container["name"],
        (kind, "dim"),
        (name + (" ready" if name == "running" and shown.get("ready") else ""), style),
        detail.get("reason") or "-",
        (exit_code, style),
        str(shown.get("restartCount", 0)),
        last_text,
    ]


def condition_lines(pod: Object) -> list[Line]:
    """The conditions of a pod object, with reason and message where there are any."""
    conditions = _objects(_object(pod, "status").get("conditions"))
    if not conditions:
        return [line("  none")]
    explained = any(condition.get("reason") for condition in conditions)
    titles = ("CONDITION", "STATUS", "REASON", "MESSAGE") if explained else ("CONDITION", "STATUS")
    table: list[list[Cell]] = [[(title, "dim") for title in titles]]
    for condition in conditions:
        status = str(condition.get("status", ""))
        row: list[Cell] = [str(condition.get("type", "")), (status, "good" if status == "True" else "")]
        if explained:
            row += [condition.get("reason") or "-", condition.get("message") or ""]
        table.append(row)
    return rows(table)


def event_lines(events: Iterable[Object], pod: Object, now_ns: int) -> list[Line]:
    """The pod's events as ``kubectl describe`` lists them."""
    uid = _object(pod, "metadata").get("uid")
    own = [event for event in events if _object(event, "involvedObject").get("uid") == uid]
    texts = describe_events(own[-EVENTS_MAX:], now_ns)
    if len(texts) == 1:
        return [line("  none")]
    return [
        line((text, "dim" if number < 2 else "warn" if text.startswith("  Warning") else ""))
        for number, text in enumerate(texts[1:])
    ]


def kept_lines(kept: Kept, *, glyphs: tuple[str, str]) -> list[Line]:
    """What was kept, one line a thing. ``glyphs`` are those for yes and no."""
    table: list[list[Cell]] = []
    for fact in kept.facts:
        values = [value[:12] if fact.name == "sandbox" else value for value in fact.values]
        yes, style = (glyphs[0], "good") if fact.kept else (glyphs[1], "warn")
        if fact.name == "volume":
            values = [_tail(value) for value in values]
        elif fact.name == "devices":
            values = [_some_devices(value.split()) for value in values]
        shown = ", then ".join(values[:4]) + (" ..." if len(values) > 4 else "")
        what = f"{fact.name} {fact.about}".rstrip()
        table.append([(yes, cast("Style", style)), what, shown or "-"])
    return rows(table)


def _some_devices(ids: Sequence[str]) -> str:
    """How many there are, and the beginnings of their ids: enough to see that they are the same."""
    shown = " ".join(one.rpartition("=")[2][:DEVICE_WIDTH] for one in ids[:DEVICES_SHOWN])
    return f"{len(ids)}: {shown}" + (" ..." if len(ids) > DEVICES_SHOWN else "")


def _tail(path: str) -> str:
    """The end of a long path, which tells volumes apart."""
    parts = path.split("/")
    return path if len(parts) <= 5 else "/".join(["...", *parts[-3:]])


def invariant_lines(verdicts: Sequence[Verdict], width: int, *, glyphs: tuple[str, str]) -> list[Line]:
    """All invariants with the number of steps that each judged; those broken with what broke them."""
    words: list[list[Span]] = []
    for verdict in verdicts:
        if verdict.holds:
            mark = Span(glyphs[0], "good") if verdict.judged else Span("-", "dim")
            words.append([mark, Span(f" {verdict.name}"), Span(f" ({verdict.judged})", "dim")])
    lines = wrapped(words, width)
    for verdict in verdicts:
        if verdict.holds:
            continue
        lines.append(line("  ", (f"{glyphs[1]} {verdict.name}", "bad"), f": {verdict.text}"))
        for violation in verdict.violations[:5]:
            records = ", ".join(map(str, violation.evidence))
            proof = f" (record {records} of the trace)" if records else ""
            lines.append(line(f"      {violation}{proof}"))
        if len(verdict.violations) > 5:
            lines.append(line(f"      and {len(verdict.violations) - 5} more"))
    return lines


def check_lines(checks: Sequence[PodCheck], *, glyphs: tuple[str, str]) -> list[Line]:
    """One line a check: verdict, text, what was found."""
    several = len({check.pod for check in checks}) > 1
    lines: list[Line] = []
    for check in checks:
        result = check.result
        mark, style = {
            CheckVerdict.PASS: (glyphs[0], "good"),
            CheckVerdict.FAIL: (glyphs[1], "bad"),
            CheckVerdict.SKIPPED: ("-", "warn"),
        }[result.verdict]
        pod = f"{check.pod}: " if several else ""
        lines.append(line("  ", (f"{mark} ", cast("Style", style)), f"{pod}{result.check}"))
        if result.found:
            at = "" if result.t is None else f" at {seconds_text(result.t)}"
            lines.append(line((f"      found{at}: {result.found}", "dim" if result.ok else "bad")))
    return lines


def opaque_lines(opaque: Mapping[tuple[str, str], tuple[str, ...]], width: int) -> list[Line]:
    """Which containers ran a program that is not emulated, and how to say what they do."""
    if not opaque:
        return []
    lines: list[Line] = []
    for (pod, container), argv in opaque.items():
        command = shorten(" ".join(argv), max(width - len(pod) - len(container) - 8, 20))
        lines.append(line("  ", (f"{pod}/{container}", "warn"), f"  {command}"))
    names = sorted({container for _, container in opaque})
    lines += [
        line("  These programs are not emulated: they run until they are stopped (TERM ends them with 143)."),
        line(f"  Say what they do:  --exit {names[0]}=1@30s   ends each instance after 30 s with code 1"),
        line(f"                     --exit {names[0]}#0=1@30s ends the first one only"),
        line("                     --behaviour FILE    for output, readiness, OOM kills, failed starts"),
    ]
    return lines


def absent_lines(absent: Mapping[tuple[str, str], Mapping[str, str]]) -> list[Line]:
    """Which containers run without devices that they ask for, and how to have some."""
    if not absent:
        return []
    lines: list[Line] = []
    for (pod, container), wanted in absent.items():
        text = ", ".join(f"{amount} {name}" for name, amount in wanted.items())
        lines.append(line("  ", (f"{pod}/{container}", "warn"), f"  {text}"))
    name = next(iter(next(iter(absent.values()))))
    lines += [
        line("  They run without: what the node has never heard of a kubelet leaves to the scheduler."),
        line("  Give the node some:  --devices a100x8  a preset (`fake-devices presets`) or a profile"),
        line(f"                       --node {name}=8  a number, without a device plugin"),
    ]
    return lines


def log_lines(logs: Sequence[InstanceLog], zero_ns: int) -> list[Line]:
    """What the containers printed, an instance after the other, each line with its time in the trace."""
    filled = [log for log in logs if log.lines]
    if not filled:
        return [line("  no container printed anything")]
    share = max(LOG_LINES_MAX // len(filled), 10)
    lines: list[Line] = []
    for log in filled:
        lines.append(line(("  " + f"{log.pod}/{log.container}", "head"), (f"  restart {log.number}", "dim")))
        if len(log.lines) > share:
            lines.append(line((f"    {len(log.lines) - share} lines before these are left out", "dim")))
        for logged in log.lines[-share:]:
            at = seconds_text(max((logged.at_ns - zero_ns) / 1e9, 0.0))
            style: Style = "warn" if logged.stream == "stderr" else ""
            lines.append(line((f"    {at:>7}  ", "dim"), (_printable(logged.text), style)))
    return lines


def _printable(text: str) -> str:
    """Text that cannot move the cursor or change the terminal."""
    return "".join(c if c == "\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)
