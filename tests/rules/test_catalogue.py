"""Every rule id that the code can name has a sentence.

Goal: no explanation ever meets an id it cannot explain. Method: read all string literals of the packages.
"""

import ast
from pathlib import Path

import pytest

import cri_fake
import devices
import kubelet_emu
from kubelet_emu.rules import AREAS, RULE_ID, RULES, Fired, parse_fired, sentence
from kubelet_emu.why import Why

PACKAGES = [Path(package.__file__).parent for package in (kubelet_emu, cri_fake, devices)]


def _named_in_code() -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in PACKAGES:
        for path in sorted(folder.rglob("*.py")):
            if path.parent.name == "rules":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and RULE_ID.fullmatch(text) and text.partition("-")[0] in AREAS:
                    found.setdefault(text, f"{path.name}:{node.lineno}")
    return found


def test_every_rule_in_the_code_has_a_sentence():
    missing = {rule: place for rule, place in _named_in_code().items() if rule not in RULES}
    assert not missing, f"add one sentence each to kubelet_emu/rules: {missing}"


@pytest.mark.parametrize("rule", RULES)
def test_sentences_read_well(rule):
    text = sentence(rule)
    assert RULE_ID.fullmatch(rule)
    assert text.endswith(".")
    assert text[0].isupper()
    assert 30 <= len(text) <= 220
    assert ". " not in text


def test_a_sentence_says_one_thing_only_once():
    assert len(set(RULES.values())) == len(RULES)


@pytest.mark.parametrize(
    "why", [Why("RST-045"), Why("RST-045", "main"), Why("STA-204", "stopped, final (2)")]
)
def test_rules_are_read_back_as_they_were_written(why):
    assert parse_fired(str(why)) == Fired(why.rule, why.about)


def test_unknown_rules_have_no_sentence():
    assert sentence("RST-999") == ""
