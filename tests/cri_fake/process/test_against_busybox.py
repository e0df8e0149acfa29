"""Random scripts, run here and by the real ``busybox ash``: the same output and the same exit code.

The slow lane of the shell's tests: it needs busybox on the PATH and is skipped without. What the scripts use
is pure shell, no files but /dev/null, so nothing has to be shielded from them.
"""

import random
import shutil
import subprocess

import pytest

_WORDS = [
    "a",
    "b c",
    "x*y",
    "",
    "-n",
    "1",
    "007",
    "$",
    "it's",
    'q"q',
    "a:b:c",
    "  lead",
    "tail  ",
    "back\\slash",
    "#h",
]
_NAMES = ["v", "w", "list", "n"]


class _Script:
    """Grows one script from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.depth = 0

    def quoted(self, text: str) -> str:
        return "'" + text.replace("'", "'\\''") + "'"

    def number(self) -> str:
        choice = self.rng.randrange(7)
        if choice < 3 or self.depth > 3:
            return str(self.rng.randrange(-9, 50))
        self.depth += 1
        left, right = self.number(), self.number()
        self.depth -= 1
        operator = self.rng.choice(["+", "-", "*", "<", ">=", "==", "&", "|", "^", "<<", "%"])
        if operator == "%":
            right = str(self.rng.randrange(1, 9))
        if operator == "<<":
            right = str(self.rng.randrange(0, 6))
        return f"({left} {operator} {right})" if choice < 6 else f"(n {operator} {right})"

    def expansion(self) -> str:
        name = self.rng.choice(_NAMES)
        word = self.rng.choice(["d", "x y", "*", "a*", "?", "[ab]", "b", ":", "'q'", "$n"])
        operator = self.rng.choice(["", "", ":-", "-", ":+", "+", "#", "##", "%", "%%", "/", "//"])
        if operator in ("/", "//"):
            word = word.replace("*", "y")  # busybox never ends on ${v//*/R}
            return f"${{{name}{operator}{word}/R}}"
        return f"${{{name}{operator}{word if operator else ''}}}"

    def word(self) -> str:
        kinds = self.rng.randrange(8)
        if kinds == 0:
            return self.quoted(self.rng.choice(_WORDS))
        if kinds == 1:
            return f'"{self.expansion()}"'
        if kinds == 2:
            return self.expansion()
        if kinds == 3:
            return f"$(( {self.number()} ))"
        if kinds == 4 and self.depth < 2:
            self.depth += 1
            inner = self.simple()
            self.depth -= 1
            return f'"$({inner})"' if self.rng.random() < 0.5 else f"$({inner})"
        if kinds == 5:
            return f'"$@"{self.rng.choice(["", "x"])}'
        return self.rng.choice(["plain", "a=b", "x\\ y", "$#", "$?", "pre$n", '"a$v"b'])

    def words(self, low: int, high: int) -> str:
        return " ".join(self.word() for _ in range(self.rng.randrange(low, high)))

    def simple(self) -> str:
        kind = self.rng.randrange(9)
        if kind < 3:
            return f"printf '<%s>' x {self.words(1, 4)}; echo"
        if kind == 3:
            return f"{self.rng.choice(_NAMES)}={self.word()}"
        if kind == 4:
            return f"set -- {self.words(0, 4)}"
        if kind == 5:
            return f"n=$(( {self.number()} ))"
        if kind == 6:
            return self.rng.choice(["true", "false", "! true", "(exit 3)", ":", "f a b", "shift 2>/dev/null"])
        if kind == 7:
            left, operator = self.quoted(self.rng.choice(_WORDS)), self.rng.choice(["=", "!="])
            return f'[ {left} {operator} "${self.rng.choice(_NAMES)}" ]'
        return f'echo {self.quoted(self.rng.choice(_WORDS))} | while read -r v w; do echo "$w|$v"; done'

    def command(self) -> str:
        self.depth += 1
        try:
            kind = self.rng.randrange(12) if self.depth < 4 else 0
            if kind < 5:
                return self.simple()
            if kind == 5:
                return f"if {self.command()}; then {self.command()}; else {self.command()}; fi"
            if kind == 6:
                return f"for i in {self.words(1, 4)}; do {self.command()}; done"
            if kind == 7:
                pattern = self.rng.choice(["a*", "*[bc]*", "''", "?", "*", "'x*y'|1", "[!a]*"])
                return f"case {self.word()} in {pattern}) {self.command()};; *) {self.command()};; esac"
            if kind == 8:
                return f"{{ {self.command()}; }} {self.rng.choice(['&&', '||'])} {self.simple()}"
            if kind == 9:
                return f"( {self.command()} )"
            if kind == 10:
                k = f"k{self.depth}"
                return f"{k}=0; while [ ${k} -lt 2 ]; do {k}=$(({k}+1)); {self.command()}; done"
            return f"IFS={self.quoted(self.rng.choice([':', ' ', '', ': ', 'b']))}; {self.simple()}"
        finally:
            self.depth -= 1

    def text(self) -> str:
        head = "f() { echo \"f$#$1\"; return 2; }; v='a:b c'; w=; list='x y  z'; n=3; unset u; set -f\n"
        return head + "\n".join(self.command() for _ in range(self.rng.randrange(3, 9))) + "\necho end $?\n"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("busybox"), reason="needs busybox")
@pytest.mark.parametrize("chunk", range(4))
def test_random_scripts_agree_with_busybox(sh, chunk):
    """Slow because each script is a process of the real shell."""
    for seed in range(chunk * 50, chunk * 50 + 50):
        script = _Script(seed).text()
        command = ["busybox", "sh", "-c", script]
        try:
            real = subprocess.run(
                command, input=b"", capture_output=True, timeout=5, cwd="/", env={"HOME": "/root"}
            )
        except subprocess.TimeoutExpired:
            continue  # it hangs on some substitutions
        done = sh(script, stdin=b"")
        expected = (real.returncode, real.stdout.decode("utf-8", "replace"))
        assert (done.code, done.out) == expected, f"seed {seed}\n{script}\n{real.stderr.decode()}\n{done.err}"
