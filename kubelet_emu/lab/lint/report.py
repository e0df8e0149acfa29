"""Findings as a table, as JSON, and as SARIF for code hosts (pure)."""

from collections.abc import Iterable, Sequence
from typing import Any

from kubelet_emu.lab.lint.finding import CHECKS, Behaviour, Finding, Severity
from kubelet_emu.rules import sentence

__all__ = ["as_json", "as_sarif", "table_lines"]

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def table_lines(behaviours: Sequence[Behaviour], findings: Sequence[Finding]) -> Iterable[str]:
    """What each container will do, then what will surprise."""
    pods = list(dict.fromkeys(one.pod for one in behaviours))
    for pod in pods:
        yield f"{pod}:"
        mine = [one for one in behaviours if one.pod == pod]
        wide = max(len(one.container) for one in mine)
        for one in mine:
            yield f"  {one.container:<{wide}}  {one.kind:<8} {one.text}"
    for finding in findings:
        yield ""
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        yield f"{place}: {finding.severity}: {finding.text} [{finding.check}, {finding.rule}]"
        yield f"    at   {finding.path}"
        yield f"    fix  {finding.fix}"
    yield ""
    yield _counts(findings)


def _counts(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing will surprise"
    parts: list[str] = []
    for severity in Severity:
        count = sum(one.severity is severity for one in findings)
        if count:
            parts.append(f"{count} {severity}{'s' * (count != 1)}")
    return ", ".join(parts)


def as_json(behaviours: Sequence[Behaviour], findings: Sequence[Finding]) -> dict[str, Any]:
    """Everything as plain JSON values."""
    return {
        "behaviours": [
            {"pod": one.pod, "container": one.container, "kind": one.kind, "text": one.text}
            for one in behaviours
        ],
        "findings": [
            {
                "check": one.check,
                "rule": one.rule,
                "sentence": sentence(one.rule),
                "severity": str(one.severity),
                "pod": one.pod,
                "path": one.path,
                "file": one.file,
                "line": one.line,
                "text": one.text,
                "fix": one.fix,
            }
            for one in findings
        ],
    }


def as_sarif(findings: Sequence[Finding], *, version: str) -> dict[str, Any]:
    """A SARIF 2.1.0 log, as code hosts read it."""
    used = list(dict.fromkeys(one.check for one in findings))
    rules = [
        {
            "id": check,
            "shortDescription": {"text": CHECKS[check]},
            "properties": {"rules": _rules(check, findings)},
        }
        for check in used
    ]
    results: list[dict[str, Any]] = []
    for one in findings:
        region = {"region": {"startLine": one.line}} if one.line else {}
        results.append(
            {
                "ruleId": one.check,
                "ruleIndex": used.index(one.check),
                "level": str(one.severity),
                "message": {"text": f"{one.text}. Fix: {one.fix}."},
                "locations": [
                    {
                        "physicalLocation": {"artifactLocation": {"uri": one.file}, **region},
                        "logicalLocations": [{"fullyQualifiedName": one.path}],
                    }
                ],
            }
        )
    driver = {"name": "kubelet-emu lint", "version": version, "rules": rules}
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _rules(check: str, findings: Sequence[Finding]) -> list[str]:
    return sorted({one.rule for one in findings if one.check == check})
