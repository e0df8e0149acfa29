"""Runs the shell examples of the documentation, as written, and compares what they print.

    python docs/run_examples.py [PAGE.md ...]

A page's blocks run in order in one empty folder. In a ``console`` block a line after ``$`` is a command, and
the lines below it have to appear in its output, in this order; ``…`` stands for anything, and what is not
shown may be there too. ``(exits 1)`` as the last line means that the command has to exit with that code.
A ``yaml`` or ``python`` block that begins with ``# file: NAME`` is written to that file first.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT_SECONDS = 300
EXITS = re.compile(r"\(exits (\d+)\)")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a page that are to be executed: their language and content."""
    for match in BLOCK.finditer(text):
        language, content = match.groups()
        if language == "console" or content.startswith("# file: "):
            yield language, content


def commands(content: str) -> Iterator[tuple[str, list[str], int]]:
    """The commands of a console block, with what they have to print and their exit code."""
    command, expected, code = "", list[str](), 0
    for line in [*content.splitlines(), "$ "]:
        if line.startswith("$ "):
            if command:
                yield command, expected, code
            command, expected, code = line[2:], [], 0
        elif command.endswith("\\"):
            command += "\n" + line
        elif EXITS.fullmatch(line.strip()):
            code = int(EXITS.fullmatch(line.strip()).group(1))
        elif line.strip():
            expected.append(line.strip())


def matches(wanted: str, line: str) -> bool:
    """Whether a line of output holds what the page shows; blanks count as one."""
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in wanted.split("…"))
    return re.search(pattern, " ".join(line.split())) is not None


def missing(expected: list[str], output: str) -> str:
    """The first line that is not there, in this order; empty if all are."""
    whole = re.sub(r"\n {21}(?=\S)", " ", output)  # explain wraps long lines
    lines = iter(whole.splitlines())
    for wanted in expected:
        if wanted != "…" and not any(matches(wanted, line) for line in lines):
            return wanted
    return ""


def run_page(path: Path, *, environment: dict[str, str] | None = None) -> list[str]:
    """Run a page's examples; what went wrong, one entry each."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kubelet-emu-docs-") as folder:
        for language, content in blocks(path.read_text(encoding="utf-8")):
            if language != "console":
                name = content.partition("\n")[0].removeprefix("# file: ").strip()
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(content.partition("\n")[2], encoding="utf-8")
                continue
            for command, expected, code in commands(content):
                problems += [
                    f"{path.name}: {one}" for one in _run(command, expected, code, folder, environment)
                ]
    return problems


def _run(
    command: str, expected: list[str], code: int, folder: str, environment: dict[str, str] | None
) -> Iterator[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env=environment or os.environ,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    said = done.stdout + done.stderr
    if done.returncode != code:
        yield f"$ {command}\nexits with {done.returncode}, not {code}:\n{said}"
    lost = missing(expected, said)
    if lost:
        yield f"$ {command}\ndoes not print {lost!r} there, but:\n{said}"


def pages() -> list[Path]:
    """Every page with examples."""
    found = [*sorted(ROOT.glob("docs/course/*.md")), *sorted(ROOT.glob("docs/guides/*.md"))]
    return [path for path in found if "```console" in path.read_text(encoding="utf-8")]


def main() -> int:
    """Run the pages that are named, or all; exit code 1 if one of them is wrong."""
    failed = 0
    for path in [Path(name) for name in sys.argv[1:]] or pages():
        problems = run_page(path)
        print(
            f"{'FAILED' if problems else 'passed'}  {path.relative_to(ROOT) if path.is_absolute() else path}"
        )
        for problem in problems:
            print(problem)
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
