# pyright: basic, reportAttributeAccessIssue=false
"""The cases of the CRI validation suite, and the table in docs/cri-support.md that follows from them.

``KE_WRITE_DOCS=1`` writes the table anew.
"""

import os
from pathlib import Path

import pytest

from cri_fake.profile import PROFILES
from tests.cri_fake.grpc_client import METHODS, Client, Served
from tests.cri_fake.validation import identity_cases as identity_cases  # adds its cases
from tests.cri_fake.validation.cases import CASES, Bench

TABLE = Path(__file__).parents[3] / "docs" / "cri-support.md"
HEAD = """# What the fake runtime serves

Made by `tests/cri_fake/validation`; do not edit. A plain grpcio client, in another process than the runtime
and with nothing of this project but the messages, was seen to make these calls over a unix socket. Cases have
the titles of the CRI validation suite where it has them.

| rpc | answered with | cases | not in |
| --- | --- | --- | --- |
"""


class Bank:
    """Cases that have been run, with the codes that each method answered."""

    def __init__(self, path, node):
        self.path = path
        self.node = node
        self.seen = {}

    def run(self, key):
        if key in self.seen:
            return
        with Client(self.path) as client:
            bench = Bench(client, self.node)
            try:
                CASES[key](bench)
            finally:
                calls = dict(client.called)
                bench.end()
            self.seen[key] = calls


@pytest.fixture(scope="module")
def bank():
    with Served("--latency", "x0.03", "--pod-cidr", "127.64.0.0/12", "--seed", "1") as served:
        yield Bank(served.path, served.node)


@pytest.mark.parametrize("key", CASES, ids=lambda key: f"{key[0]}: {key[1]}")
def test_case(bank, key):
    bank.run(key)


def table(seen):
    """One row a method: the codes, in how many cases, and which profiles do not have it."""
    rows = []
    for name in METHODS:
        calls = {key: codes for key, codes in seen.items() if any(method == name for method, _ in codes)}
        codes = sorted({code for found in calls.values() for method, code in found if method == name})
        titles = "; ".join(f"{group}: {title}" for group, title in list(calls)[:3])
        more = f" and {len(calls) - 3} more" if len(calls) > 3 else ""
        lacking = ", ".join(each.name for each in PROFILES.values() if name in each.missing_methods)
        rows.append(f"| {name} | {', '.join(codes)} | {titles.replace('|', ' or ')}{more} | {lacking} |")
    lines = [HEAD + "\n".join(rows), "", "## Cases", "", "| group | case |", "| --- | --- |"]
    lines += [f"| {group} | {title.replace('|', ' or ')} |" for group, title in CASES]
    return "\n".join(lines) + "\n"


def test_the_table_says_what_was_seen(bank):
    for key in CASES:
        bank.run(key)
    made = table(bank.seen)
    if os.environ.get("KE_WRITE_DOCS"):
        TABLE.write_text(made, encoding="utf-8")
    called = {method for codes in bank.seen.values() for method, _ in codes}
    assert set(METHODS) == called
    assert TABLE.read_text(encoding="utf-8") == made
