"""What is told of a failure: manifest, plan, trace, how to replay it, and a test to paste (pure)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kubelet_emu.fuzz.campaign import Found
from kubelet_emu.fuzz.simpler import describe
from kubelet_emu.sim.case import Case, case_to_json, case_to_yaml
from kubelet_emu.trace.schema import Record

__all__ = ["failure_json", "failure_lines", "pytest_case", "record_line", "trace_lines"]

LINES_MAX = 90
"""Lines of a trace that are shown; of a longer one the middle is left out."""
FIRST_LINES = 25
AFTER_LINES = 3
"""So many lines follow the last offending one."""
MARK = "►"


def failure_lines(found: Found, records: Sequence[Record], offending: Iterable[int], file: str) -> list[str]:
    """The whole report. ``offending`` are the ``seq`` of the proof, ``file`` is where the case is kept."""
    case = found.case
    rules = f" ({', '.join(found.rules)})" if found.rules else ""
    lines = [f"VIOLATED  {found.invariant}{rules}", f"  {found.text}"]
    where = "in the corpus" if found.example is None else f"example {found.example}"
    if found.original is not None:
        lines.append(
            f"  {where}: {describe(found.original)}; shrunk to {describe(case)} "
            f"in {found.runs} runs, {found.seconds:.1f} s"
        )
    else:
        lines.append(f"  {where}: {describe(case)}")
    lines += ["", *_manifest_lines(case), "", *_plan_lines(case), "", "trace"]
    lines += [f"  {line}" for line in trace_lines(records, offending)]
    if file:
        lines += ["", "replay", f"  kubelet-emu replay {file}"]
    lines += [
        "",
        "a test to paste",
        *(f"  {line}" if line else "" for line in pytest_case(found).splitlines()),
    ]
    return lines


def failure_json(found: Found, offending: Iterable[int], file: str) -> Mapping[str, Any]:
    """The same for machines."""
    return {
        "invariant": found.invariant,
        "rules": list(found.rules),
        "text": found.text,
        "example": found.example,
        "case": case_to_json(found.case),
        "original": None if found.original is None else case_to_json(found.original),
        "shrinkRuns": found.runs,
        "shrinkSeconds": round(found.seconds, 3),
        "records": list(offending),
        "file": file,
        "replay": f"kubelet-emu replay {file}" if file else "",
        "pytest": pytest_case(found),
    }


def _yaml(value: Any) -> list[str]:
    import yaml

    text = cast("Any", yaml).safe_dump(
        json.loads(json.dumps(value)), sort_keys=False, allow_unicode=True, width=110
    )
    return str(text).rstrip().splitlines()


def _manifest_lines(case: Case) -> list[str]:
    lines: list[str] = []
    for number, document in enumerate(case.documents):
        lines += ["---"] if number else []
        lines += _yaml(document)
    if case.behaviours:
        lines += ["", "behaviours", *(f"  {line}" for line in _yaml(case.behaviours))]
    return lines


def _plan_lines(case: Case) -> list[str]:
    facts = [f"schedule seed {case.seed}", f"schedule {case.schedule}", f"{case.duration_seconds:g} s"]
    if case.devices is not None:
        facts.append(f"devices {case.devices}")
    for what, names in (("bug", case.bugs), ("fix", case.fixes)):
        facts += [f"{what} {name}" for name in names]
    facts += [f"gate {name}={str(value).lower()}" for name, value in case.gates.items()]
    return [f"plan ({', '.join(facts)})", *(f"  {step}" for step in case.plan or ("nothing happens",))]


def pytest_case(found: Found) -> str:
    """A test that fails as long as the case does."""
    name = "".join(each if each.isalnum() else "_" for each in found.invariant)
    case = case_to_yaml(found.case).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return (
        "import yaml\n\n"
        "from kubelet_emu.sim import case_from_json, run_case\n\n"
        f'CASE = """\\\n{case}"""\n\n\n'
        f"def test_{name}():\n"
        "    outcome = run_case(case_from_json(yaml.safe_load(CASE)))\n"
        '    assert outcome.ok, "\\n".join(map(str, outcome.violations))\n'
    )


# -- traces --


def trace_lines(records: Sequence[Record], offending: Iterable[int]) -> list[str]:
    """A line for each record that tells something, the offending ones marked."""
    marked = frozenset(offending)
    last = max(marked, default=-1)
    shown: list[tuple[bool, str]] = []
    after = 0
    for record in records:
        mark = record["seq"] in marked
        text = record_line(record, always=mark)
        if not text:
            continue
        if 0 <= last < record["seq"]:
            after += 1
            if after > AFTER_LINES:
                break
        shown.append((mark, text))
    lines = [f"{MARK if mark else ' '} {text}" for mark, text in shown]
    if len(lines) <= LINES_MAX:
        return lines
    left_out = len(lines) - LINES_MAX
    return [
        *lines[:FIRST_LINES],
        f"  … {left_out} lines left out …",
        *lines[FIRST_LINES + left_out :],
    ]


_TOLD_CALLS = frozenset(
    {
        "RunPodSandbox",
        "StopPodSandbox",
        "RemovePodSandbox",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
    }
)


def record_line(record: Record, *, always: bool = False) -> str:
    """One record in a line; empty for one that tells nothing unless ``always``."""
    maker = _LINES.get(str(record["k"]))
    text = maker(record) if maker is not None else ""
    if not text and always:
        rest = {key: value for key, value in record.items() if key not in ("t", "k", "seq")}
        text = f"{record['k']} {json.dumps(rest, default=str)}"[:160]
    return f"{record['t']:9.3f}  {text}" if text else ""


def _cri(record: Record) -> str:
    failed = f"  ✗ {record['code']} {record.get('details', '')}".rstrip() if record.get("code") else ""
    if record.get("poll") or (record["m"] not in _TOLD_CALLS and not failed):
        return ""
    about = record.get("container") or record.get("sandbox") or record.get("image") or ""
    return f"cri      {record['m']} {about}{failed}"


def _pod(record: Record) -> str:
    containers = cast("Mapping[str, Mapping[str, Any]]", record.get("containers") or {})
    states = " ".join(
        f"{name}={one.get('state', '?')}"
        f"{':' + str(one['exitCode']) if one.get('exitCode') is not None else ''}"
        f"{'×' + str(one['restartCount']) if one.get('restartCount') else ''}"
        for name, one in containers.items()
    )
    deleted = (
        "  deleted" if record.get("deleted") else "  deleting" if record.get("deleting") is not None else ""
    )
    return f"api      {record['pod']} {record.get('phase', '')} {states}{deleted}".rstrip()


def _process(record: Record) -> str:
    end = "" if record["do"] == "start" else f" {record.get('code', record.get('signal', ''))}"
    return f"process  {record['container']} {record['do']}{end}"


def _action(record: Record) -> str:
    rest = " ".join(
        f"{key}={value}"
        for key, value in record.items()
        if key not in ("t", "k", "seq", "do", "object", "pod")
    )
    return f"action   {record['do']} {record.get('pod') or ''} {rest}".rstrip()


def _device(record: Record) -> str:
    about = f" for {record['container']}" if record.get("container") else ""
    ids = json.dumps(record["ids"]) if record.get("ids") else ""
    return f"device   {record['method']} {ids}{about}"


def _plugin(record: Record) -> str:
    return f"plugin   {record['resource']} {record['do']} {record.get('error', '')}".rstrip()


def _event(record: Record) -> str:
    return (
        f"event    {record['reason']} {record.get('message', '')}"[:120]
        if record.get("type") == "Warning"
        else ""
    )


def _violated(record: Record) -> str:
    return f"violated {record['invariant']}: {record['message']}"


_LINES: Mapping[str, Any] = {
    "cri": _cri,
    "pod": _pod,
    "process": _process,
    "action": _action,
    "device": _device,
    "plugin": _plugin,
    "event": _event,
    "invariant": _violated,
}
