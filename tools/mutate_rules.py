"""Does a test fail when the code that cites a rule is changed? Tries it, one small change at a time.

::

    python tools/mutate_rules.py --coverage cov.db --out kubelet_emu/lab/data/rules/mutations.json

Every function, class or constant of ``kubelet_emu`` whose text cites a rule is changed in a few places: a
comparison turned round, ``and`` for ``or``, a condition negated, a number off by one, a text altered, an
element or a result dropped. For each change those tests run that execute the line, quickest first, in a
process of their own. Results are kept for each piece of code by a digest of its text, so that a second run
does only what has changed.

``--coverage`` is a database of ``coverage`` with one context a test (``tools/coverage_by_test.py`` is the
plugin that makes it). Takes an hour on one core; by hand, not in CI.
"""

import argparse
import ast
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CITATION = re.compile(r"\b((?:RST|STA)-\d+[a-z]?)(?:\s+to\s+((?:RST|STA)-\d+))?")
MUTANTS_MAX = 2
PIECES_FROM_ABOVE_MAX = 4
TESTS_MAX = 24
TIMEOUT_SECONDS = 90.0
COMPARISONS = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# What does not decide anything: reasons told to people, logging, typing.
IGNORED_CALLS = frozenset({"Why", "cast", "frozen", "define", "field", "TypeVar", "Problem"})


@dataclass
class Piece:
    """A function, class or constant that cites rules, with the lines it spans."""

    file: str
    name: str
    node: ast.AST
    first: int
    last: int
    digest: str
    rules: set[str] = field(default_factory=set)
    """What its own text cites."""
    above: set[str] = field(default_factory=set)
    """What only its class or its module cites."""


@dataclass
class Mutant:
    """One change: the file's new text, the line it is on, and what it is."""

    line: int
    what: str
    text: str


# -- who cites what --


def cited(text: str) -> set[str]:
    """All rule ids of a text; ``RST-101 to RST-105`` names those between as well."""
    found: set[str] = set()
    for first, last in CITATION.findall(text):
        found.add(first)
        if last:
            area, low = first.split("-")
            width = len(low)
            found |= {f"{area}-{n:0{width}d}" for n in range(int(low), int(last.split("-")[1]) + 1)}
    return found


def pieces(path: Path) -> list[Piece]:
    """The pieces of one module that cite rules, themselves or through their class or module."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[tuple[int, int], Piece] = {}

    def piece(node: ast.AST, name: str, last: int, rules: set[str], above: set[str]) -> None:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])  # type: ignore[attr-defined]
        text = "\n".join(lines[first - 1 : last])
        known = found.setdefault(
            (first, last),
            Piece(
                str(path.relative_to(ROOT)),
                name,
                node,
                first,
                last,
                hashlib.sha256(text.encode()).hexdigest()[:16],
            ),
        )
        known.rules |= rules
        known.above |= above - rules

    def walk(body: list[ast.stmt], prefix: str, above: set[str]) -> None:
        for index, node in enumerate(body):
            follows = body[index + 1] if index + 1 < len(body) else None
            last = node.end_lineno or node.lineno
            if _is_text(follows):
                last = follows.end_lineno or last  # type: ignore[union-attr]
            comment_from = node.lineno
            while comment_from > 1 and lines[comment_from - 2].lstrip().startswith("#"):
                comment_from -= 1
            text = "\n".join(lines[comment_from - 1 : last])
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                rules = cited(text)
                if rules or above:
                    piece(node, prefix + node.name, node.end_lineno or last, rules, above)
            elif isinstance(node, ast.ClassDef):
                inherited = above | cited(ast.get_docstring(node) or "")
                walk(node.body, f"{prefix}{node.name}.", inherited)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                rules = cited(text)
                if (rules or above) and node.value is not None and not ast.unparse(node).startswith("__"):
                    name = ast.unparse(node).split("=")[0].split(":")[0].strip()
                    piece(node, prefix + name, last, rules, above)

    tree = ast.parse(source)
    walk(tree.body, "", cited(ast.get_docstring(tree) or ""))
    return list(found.values())


def _is_text(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def all_pieces() -> list[Piece]:
    """Every piece of the package that is to be changed. Lists of rules (not code) are left out."""
    found: list[Piece] = []
    for path in sorted((ROOT / "kubelet_emu").rglob("*.py")):
        if not {"rules", "lab", "cli"} & set(path.relative_to(ROOT).parts):
            found += pieces(path)
    return narrowed(found)


def narrowed(found: list[Piece]) -> list[Piece]:
    """For each rule the pieces that cite it themselves; if none does, a few of what cites it from above."""
    direct = {rule for piece in found if list(_sites(piece.node)) for rule in piece.rules}
    taken: dict[str, int] = {}
    for piece in found:
        for rule in sorted(piece.above - direct):
            sites = len(list(_sites(piece.node)))
            if sites and taken.get(rule, 0) < PIECES_FROM_ABOVE_MAX:
                taken[rule] = taken.get(rule, 0) + 1
                piece.rules.add(rule)
    return [piece for piece in found if piece.rules]


# -- changes --


def mutants(piece: Piece, source: str, most: int = MUTANTS_MAX) -> list[Mutant]:
    """A few changes spread over a piece."""
    sites = list(_sites(piece.node))
    step = max(1, len(sites) / most)
    chosen = [sites[int(number * step)] for number in range(min(most, len(sites)))]
    made: list[Mutant] = []
    lines = source.splitlines(keepends=True)
    for node, new, what in chosen:
        text = _replaced(lines, node, new)
        try:
            compile(text, piece.file, "exec")
        except SyntaxError:
            continue
        if text != source:
            made.append(Mutant(node.lineno, what, text))
    return made


def _sites(root: ast.AST) -> Iterator[tuple[Any, str, str]]:
    """Expressions that can be changed: node, new text, description. In source order."""
    skipped: set[int] = set()
    found: list[tuple[Any, str, str]] = []
    for node in ast.walk(root):
        if id(node) in skipped:
            continue
        if _is_text(node) or _uninteresting(node):  # type: ignore[arg-type]
            skipped |= {id(inner) for inner in ast.walk(node)}
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in (node.args, node.returns, *node.decorator_list):
                if part is not None:
                    skipped |= {id(inner) for inner in ast.walk(part)}
        if isinstance(node, ast.Subscript):
            skipped |= {id(inner) for inner in ast.walk(node.slice)}
        if isinstance(node, ast.AnnAssign):
            skipped |= {id(inner) for inner in ast.walk(node.annotation)}
        new = _changed(node)
        if new is not None:
            found.append((node, *new))
    found.sort(key=lambda site: (site[0].lineno, site[0].col_offset))
    return iter(found)


def _uninteresting(node: ast.AST) -> bool:
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name in IGNORED_CALLS


def _changed(node: ast.AST) -> tuple[str, str] | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        new = ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
        return f"({ast.unparse(new)})", "comparison"
    if isinstance(node, ast.BoolOp):
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return f"({ast.unparse(ast.BoolOp(other, node.values))})", "and/or"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"(bool({ast.unparse(node.operand)}))", "not dropped"
    if isinstance(node, ast.IfExp):
        return f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})", "branches swapped"
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return str(not node.value), "truth value"
        if isinstance(node.value, (int, float)):
            return repr(node.value + 1), "number"
        if isinstance(node.value, str) and node.value:
            return repr(node.value + "?"), "text"
        return None
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(node.elts) > 1:
        if isinstance(getattr(node, "ctx", None), ast.Store) or len(node.elts) > 40:
            return None
        rest = ", ".join(ast.unparse(element) for element in node.elts[1:])
        open_, close = {ast.Tuple: "()", ast.List: "[]", ast.Set: "{}"}[type(node)]
        return f"{open_}{rest},{close}", "element dropped"
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        return "return None", "result dropped"
    return None


def _replaced(lines: list[str], node: Any, new: str) -> str:
    """The source with one node's text replaced; columns of ``ast`` count bytes."""
    start, end = node.lineno - 1, node.end_lineno - 1
    head = lines[start].encode()[: node.col_offset].decode()
    tail = lines[end].encode()[node.end_col_offset :].decode()
    kept_newlines = "".join("\n" for _ in range(0))
    return "".join(lines[:start]) + head + new + kept_newlines + tail + "".join(lines[end + 1 :])


# -- running --


class Tests:
    """Which tests execute which line, from a coverage database."""

    def __init__(self, database: str, without: list[str]) -> None:
        from coverage import CoverageData

        self._data = CoverageData(database)
        self._data.read()
        self._files = {file: file for file in self._data.measured_files()}
        self._without = without
        self._by_line: dict[str, dict[int, list[str]]] = {}

    def of(self, file: str, line: int) -> list[str]:
        """Tests that execute a line of a file, narrow ones first."""
        if file not in self._by_line:
            full = next((one for one in self._files if one.endswith("/" + file)), None)
            self._by_line[file] = {} if full is None else self._data.contexts_by_lineno(full)
        known = [name for name in self._by_line[file].get(line, []) if self._counts(name)]
        # Tests of whole nodes last: they take longest and say least about the place.
        return sorted(known, key=lambda name: ("golden" in name or "_on_node" in name, name))

    def _counts(self, name: str) -> bool:
        return bool(name) and not any(word in name for word in self._without)

    def near(self, piece: Piece, line: int) -> list[str]:
        """Tests that execute a line, those first that say they are about it: by a rule, then by the module.

        For a line that no test enters by itself (a constant), what runs its module.
        """
        found = self.of(piece.file, line)
        if not found:
            spread: dict[str, None] = {}
            for names in self._by_line[piece.file].values():
                spread.update(dict.fromkeys(name for name in names if self._counts(name)))
            found = sorted(spread)
        words = [rule.lower().replace("-", "_") for rule in piece.rules]
        if not self.of(piece.file, line):
            found = [*files_about(piece.rules), *found]
        stem = Path(piece.file).stem

        def rank(name: str) -> int:
            plain = name.lower().replace("-", "_")
            if "::" not in name or any(word in plain for word in words):
                return 0
            if "golden" in name or "_on_node" in name:
                return 3
            return 1 if stem in plain.partition("::")[0] else 2

        return sorted(found, key=rank)


def files_about(rules: set[str]) -> list[str]:
    """Test files that name one of these rules, as far as they are few enough to say something."""
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if rules & cited(path.read_text(encoding="utf-8").upper().replace("_", "-"))
    ]
    return found[:6] if len(found) <= 12 else []


def spread_over(names: list[str], most: int) -> list[str]:
    """At most so many of them, two of each test function before further parameters of one."""
    taken: dict[str, int] = {}
    first: list[str] = []
    later: list[str] = []
    for name in names:
        function = name.partition("[")[0]
        taken[function] = taken.get(function, 0) + 1
        (first if taken[function] <= 2 else later).append(name)
    return (first + later)[:most]


def survives(piece: Piece, mutant: Mutant, tests: list[str], copy: Path) -> str:
    """Run the tests with the change in a copy of the project; the first test that fails, or nothing."""
    target = copy / piece.file
    original = target.read_text(encoding="utf-8")
    target.write_text(mutant.text, encoding="utf-8")
    try:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            *tests,
        ]
        env = {
            **os.environ,
            "PYTHONPATH": f"{copy / 'proto'}{os.pathsep}{copy}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            done = subprocess.run(
                command,
                cwd=copy,
                env=env,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "(does not end)"
        if done.returncode in (0, 5):
            return ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed[1] if failed else "(does not load)"
    finally:
        target.write_text(original, encoding="utf-8")


def try_piece(piece: Piece, tests: Tests, copies: "list[Path]", most: int) -> dict[str, Any]:
    """All changes of a piece; the counts and the first test that saw each."""
    copy = copies.pop()
    try:
        source = (ROOT / piece.file).read_text(encoding="utf-8")
        (copy / piece.file).write_text(source, encoding="utf-8")
        seen: list[str] = []
        missed: list[str] = []
        for mutant in mutants(piece, source, most):
            names = spread_over(tests.near(piece, mutant.line), TESTS_MAX)
            killer = survives(piece, mutant, names, copy) if names else ""
            if killer:
                seen.append(killer)
            else:
                missed.append(f"{mutant.line}: {mutant.what}")
        return {"digest": piece.digest, "changes": len(seen) + len(missed), "seen": seen, "missed": missed}
    finally:
        copies.append(copy)


def _fired(path: Path | None) -> set[str]:
    return {rule for rules in json.loads(path.read_text()).values() for rule in rules} if path else set()


def main() -> None:
    """Try all pieces that have not been tried in their present form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--coverage", required=True, help="coverage database with a context a test")
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON with the results; read first if it is there"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only files whose path has this in it")
    parser.add_argument(
        "--without", action="append", default=[], help="leave out tests with this in their id"
    )
    parser.add_argument("--fired", type=Path, help="rules by scenario: those that fire are left out")
    parser.add_argument("--again", action="store_true", help="retry pieces of which no test saw a change")
    options = parser.parse_args()
    known: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    results: dict[str, Any] = {}
    todo: list[tuple[str, Piece]] = []
    fired = (
        {rule for rules in json.loads(options.fired.read_text()).values() for rule in rules}
        if options.fired
        else set()
    )
    for piece in all_pieces():
        if not piece.rules - fired:
            continue
        key = f"{piece.file}:{piece.name}"
        old = known.get(key)
        if old is not None and old["digest"] == piece.digest and not (options.again and not old["seen"]):
            results[key] = {**old, "rules": sorted(piece.rules)}
        elif options.only in piece.file:
            todo.append((key, piece))
    most = 4 * MUTANTS_MAX if options.again else MUTANTS_MAX
    tests = Tests(options.coverage, options.without)
    print(f"{len(results)} known, {len(todo)} to try", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copies: list[Path] = []
        for number in range(options.jobs):
            copies.append(Path(folder) / str(number))
            ignored = shutil.ignore_patterns(".git", "__pycache__", ".hypothesis", ".*_cache")
            shutil.copytree(ROOT, copies[-1], ignore=ignored)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            waiting = {
                pool.submit(try_piece, piece, tests, copies, most): (key, piece) for key, piece in todo
            }
            for future in concurrent.futures.as_completed(waiting):
                key, piece = waiting[future]
                results[key] = {**future.result(), "rules": sorted(piece.rules)}
                one = results[key]
                print(f"{len(one['seen'])}/{one['changes']}  {key}  {' '.join(one['missed'])}", flush=True)
                options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
