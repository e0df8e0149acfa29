"""The story of a pod in short sentences: what its processes did, what the kubelet made of it, by which rule.

Read from a trace. Each sentence of a decision ends with the ids of the rules that fired. (pure)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from kubelet_emu.lab.report.text import Line, Style, line, seconds_text, shorten
from kubelet_emu.trace.schema import Record, Trace

__all__ = ["Sentence", "story", "why_lines"]

SENTENCES_MAX = 40
"""Sentences that are shown; of a longer story its beginning and its end."""
SENTENCES_LAST = 10
REPEATS_MAX = 3
"""How often one kind of sentence about one container is told before it counts as more of the same."""

_ALWAYS = ("RST-030(kept)", "RST-032", "RST-042", "RST-045")
"""Rules that fire in nearly every sync and explain nothing by themselves."""


@frozen
class Sentence:
    """Something that happened at ``at`` seconds; ``rules`` is empty where nothing was decided."""

    at: float
    text: str
    rules: tuple[str, ...] = ()
    style: Style = ""
    key: str = ""
    """Sentences with one key say the same of different moments."""


@define
class _Narrator:
    """Takes records in order and tells."""

    sentences: list[Sentence] = field(factory=list[Sentence])
    _phase: str = ""
    _rules: tuple[str, ...] = ()
    _waiting: set[str] = field(factory=set[str])
    _stopped: set[str] = field(factory=set[str])
    _ended: set[str] = field(factory=set[str])

    def take(self, record: Record) -> None:
        """Take one record in."""
        tell = _TELLERS.get(record["k"])
        if tell is not None:
            tell(self, record)

    def say(
        self, record: Record, text: str, rules: Iterable[str] = (), style: Style = "", key: str = ""
    ) -> None:
        """Add a sentence."""
        self.sentences.append(Sentence(record["t"], text, tuple(dict.fromkeys(rules)), style, key or text))

    # -- kinds of records --

    def action(self, record: Record) -> None:
        if record["do"] not in ("create", "end"):
            self.say(record, f"from outside: {record['do']} {record.get('container') or ''}".rstrip())

    def pod(self, record: Record) -> None:
        phase = record["phase"]
        if phase != self._phase and self._phase:
            style: Style = {"Failed": "bad", "Succeeded": "good"}.get(phase, "")  # type: ignore[assignment]
            reason = f" ({record['reason']})" if record.get("reason") else ""
            self.say(record, f"phase {self._phase} -> {phase}{reason}", style=style)
        self._phase = phase
        if record.get("deleted"):
            self.say(record, "the pod object is removed")

    def event(self, record: Record) -> None:
        if record["reason"] not in ("Unhealthy", "FailedPreStopHook", "FailedPostStartHook", "FailedMount"):
            return
        on = record["on"].partition("{")[2].rstrip("}")
        self.say(record, f"{on + ': ' if on else ''}{record['message']}", style="warn")

    def process(self, record: Record) -> None:
        if record["do"] == "start":
            return
        self._exited(record, record["container"], record.get("code", 0))

    def _exited(self, record: Record, name: str, code: int) -> None:
        """Tell of an end once: the process tells of it before the kubelet can see it."""
        if name in self._ended:
            return
        self._ended.add(name)
        container, _, number = name.rpartition("#")
        how = "exited with"
        if record.get("reason") == "OOMKilled":
            how = "ran out of memory and was killed:"
        elif record.get("signal"):
            how = f"was ended by signal {record['signal']}:"
        text = f"{container}#{record.get('instance', number)} {how} {code}"
        self.say(record, text, style="good" if code == 0 else "bad", key=f"exit {container} {code}")

    def decision(self, record: Record) -> None:
        machine, outcome = record["machine"], record.get("outcome", {})
        if machine == "kuberuntime.actions":
            self._actions(record, outcome)
        elif machine == "kuberuntime.backoff":
            self._backoff(record, outcome)
        elif machine == "kuberuntime.kill":
            about = record["inputs"]
            grace = f"{outcome.get('graceSeconds', 0):g} s grace"
            reason = about.get("reason", "")
            why = f" ({reason})" if reason not in ("", "Unknown") else ""
            self.say(
                record,
                f"{about['container']} is stopped, {grace}{why}",
                record["rules"],
                key=f"stop {about['container']}",
            )
        elif machine == "admission" and outcome.get("refused"):
            self.say(record, f"refused by the kubelet: {outcome['refused']}", record["rules"], "bad")

    def _actions(self, record: Record, outcome: Mapping[str, Any]) -> None:
        self._rules = tuple(rule for rule in record["rules"] if rule not in _ALWAYS)
        if outcome.get("reset"):
            listed = ", ".join(str(name).rstrip("!") for name in outcome["reset"])
            text = f"restart of all containers in place, one after the other: {listed}"
            self.say(record, text, self._rules, "warn", "restart all")
        elif outcome.get("createSandbox"):
            known = bool(record["inputs"].get("sandboxes"))
            text = (
                "a new sandbox is needed: the old one and its containers go"
                if known
                else "a sandbox is needed"
            )
            self.say(record, text, self._rules)
        elif outcome.get("killPod"):
            self.say(record, "nothing is left to run: the pod is stopped", self._rules)

    def _backoff(self, record: Record, outcome: Mapping[str, Any]) -> None:
        name = record["inputs"]["container"]
        if not outcome.get("wait"):
            self._waiting.discard(name)
        elif name not in self._waiting:
            self._waiting.add(name)
            delay = f"{outcome.get('delaySeconds', 0):g} s"
            text = f"{name} has to wait: back-off {delay} since its end"
            self.say(record, text, record["rules"], "wait", f"backoff {name}")

    def cri(self, record: Record) -> None:
        method, failed = record["m"], bool(record.get("code"))
        name = record.get("container", "")
        container = name.rpartition("#")[0]
        if failed and method in ("RunPodSandbox", "CreateContainer", "StartContainer", "PullImage"):
            about = record.get("image") if method == "PullImage" else name or record.get("name", "")
            text = f"{method} {about} failed: {record.get('details', '')}".replace("  ", " ")
            self.say(record, text, style="bad", key=f"{method} {container} failed")
        elif method == "StartContainer":
            rules = [rule for rule in self._rules if rule.endswith(f"({container})")]
            self.say(record, f"{name} is started", rules, "run", f"start {container}")
        elif method == "ContainerStatus" and record.get("state") == "exited":
            self._exited(record, name, record.get("exitCode", 0))
        elif method == "StopPodSandbox" and record.get("sandbox") not in self._stopped:
            # It is stopped again whenever the pod is cleaned up; the first time is what ends it.
            self._stopped.add(record.get("sandbox", ""))
            self.say(record, "the sandbox is stopped")


_TELLERS: Mapping[str, Callable[[_Narrator, Record], None]] = {
    "action": _Narrator.action,
    "cri": _Narrator.cri,
    "decision": _Narrator.decision,
    "event": _Narrator.event,
    "pod": _Narrator.pod,
    "process": _Narrator.process,
}


def story(trace: Trace, pod: str) -> tuple[Sentence, ...]:
    """All sentences about one pod of a trace, in order of time."""
    narrator = _Narrator()
    several = len(trace.pods) > 1
    for record in trace.records:
        if record.get("pod", "" if several else pod) == pod:
            narrator.take(record)
    return tuple(narrator.sentences)


def why_lines(trace: Trace, pod: str, width: int) -> list[Line]:
    """The story as lines; what repeats is counted, what is too long is cut in the middle."""
    told = _without_repeats(story(trace, pod))
    cut = len(told) - SENTENCES_MAX
    lines = [_line(sentence, width) for sentence in told]
    if cut > 0:
        kept = SENTENCES_MAX - SENTENCES_LAST
        note = line((f"           {cut} sentences left out: see --trace", "dim"))
        lines = [*lines[:kept], note, *lines[-SENTENCES_LAST:]]
    return lines


def _without_repeats(sentences: Sequence[Sentence]) -> list[Sentence]:
    counts: dict[str, int] = {}
    totals: dict[str, int] = {}
    for sentence in sentences:
        totals[sentence.key] = totals.get(sentence.key, 0) + 1
    kept: list[Sentence] = []
    for sentence in sentences:
        number = counts[sentence.key] = counts.get(sentence.key, 0) + 1
        total = totals[sentence.key]
        # The first ones and the very last; the number tells how many there were in all.
        if number < REPEATS_MAX or total <= REPEATS_MAX:
            kept.append(sentence)
        elif number == total:
            text = f"{sentence.text}  (no. {total})"
            kept.append(Sentence(sentence.at, text, sentence.rules, sentence.style, sentence.key))
    return kept


def _line(sentence: Sentence, width: int) -> Line:
    rules = "  " + " ".join(sentence.rules) if sentence.rules else ""
    room = width - 11
    if len(sentence.text) + len(rules) > room:
        rules = shorten(rules, max(room - len(sentence.text), 0)) if len(sentence.text) < room - 12 else ""
    text = shorten(sentence.text.replace("\n", " "), room)
    return line(
        (f"  {seconds_text(max(sentence.at, 0.0)):>7}  ", "dim"), (text, sentence.style), (rules, "dim")
    )
