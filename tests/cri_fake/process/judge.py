"""The judge of the shell: random scripts, run here and by the real busybox ash.

    python tests/cri_fake/process/judge.py [--scripts N] [--seed S] [--busybox PATH] [--show N]

Each script runs in an empty folder with the same few files. Standard output, exit code and the tree of files
afterwards (kinds, contents, modes) have to be equal. Scripts on which busybox itself does not end within the
time limit are counted apart. Exit code 1 if one script differs.
"""

# ruff: noqa: E501 (tables of phrases)

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import trio

from cri_fake.process import ContainerFiles, ContainerProcesses, Programs
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run
from node_host.net import MemoryNet

LIMIT_SECONDS = 10
FOLDER = "/tmp/w"
FILES = {
    "data": "pear 3\napple 10\nfig 7\napple 2\n\nkiwi 5\n",
    "words": "one two three\nfour  five\n six\n",
    "nums": "3\n10\n2\n33\n1\n",
    "sub/inner": "inside\n",
    "sub/.dot": "hidden\n",
    "a b": "space\n",
    "x.txt": "text x\n",
    "y.txt": "text y\nmore\n",
}
_VALUES = [
    "a",
    "b c",
    "x*y",
    "",
    "-n",
    "1",
    "007",
    "it's",
    'q"q',
    "a:b:c",
    "  lead",
    "tail  ",
    "#h",
    "a/b/c.txt",
    "é",
]
_NAMES = ["v", "w", "list", "n"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class Script:
    """Grows one script from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.depth = 0
        self.loops = 0

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    # -- words ----------------------------------------------------------------------------------------------

    def number(self) -> str:
        if self.depth > 4 or self.rng.random() < 0.45:
            return self.pick("n", "$n", "0x1f", "010", *(str(self.rng.randrange(0, 50)) for _ in range(6)))
        self.depth += 1
        left, right = self.number(), self.number()
        self.depth -= 1
        kind = self.rng.randrange(12)
        if kind == 0:
            return f"({left} {self.pick('%', '/')} {self.rng.randrange(1, 9)})"
        if kind == 1:
            return f"({left} {self.pick('<<', '>>')} {self.rng.randrange(0, 6)})"
        if kind == 2:
            return f"({left} ? {right} : {self.rng.randrange(9)})"
        if kind == 3:
            return f"{self.pick('-', '!', '~', '+')}({left})"
        if kind == 4:
            return f"(n {self.pick('=', '+=', '-=', '*=')} {right})"
        if kind == 5:
            return self.pick("n++", "++n", "n--", "--n")
        return f"({left} {self.pick('+', '-', '*', '<', '>=', '==', '!=', '&', '|', '^', '&&', '||', ',')} {right})"

    def expansion(self) -> str:
        name = self.pick(*_NAMES, "1", "2", "u")
        kind = self.rng.randrange(14)
        if kind < 3:
            return f"${{{name}}}"
        if kind == 3:
            return f"${{#{name}}}"
        if kind < 7:
            word = self.pick("d", "x y", "*", "'q'", "$n", "${v}z", "~", '"a  b"')
            return f"${{{name}{self.pick(':-', '-', ':+', '+')}{word}}}"
        if kind == 7:
            return f"${{{self.pick('v', 'w', 'u')}{self.pick(':=', '=')}{self.pick('d', 'x y', '$n')}}}"
        if kind < 11:
            word = self.pick("*", "a*", "?", "[ab]", "b", "*:", "*/", ".*", "[!a]*", "'*'", "$n")
            return f"${{{name}{self.pick('#', '##', '%', '%%')}{word}}}"
        if kind == 11:
            return f"${{{name}:{self.rng.randrange(4)}{self.pick('', ':2', ':0', ':9')}}}"
        return f"${{{name}{self.pick('/', '//')}{self.pick('a', 'b', ':', ' ', '?', '[a-c]')}/{self.pick('', 'R', '<>')}}}"

    def word(self) -> str:
        kind = self.rng.randrange(14)
        if kind == 0:
            return quoted(self.rng.choice(_VALUES))
        if kind in (1, 2):
            return f'"{self.expansion()}"'
        if kind in (3, 4):
            return self.expansion()
        if kind == 5:
            return f"$(( {self.number()} ))"
        if kind in (6, 7) and self.depth < 3:
            self.depth += 1
            inner = self.pipeline()
            self.depth -= 1
            return self.pick(f'"$( {inner})"', f"$( {inner})")
        if kind == 8:
            return f'"{self.pick("$@", "$*", "x$@y", "$#", "$?")}"'
        if kind == 9:
            return self.pick("*", "*.txt", "s*/*", "[a-x]*", "no*such", "?ords", "*' '*", ".*t", "sub/.*t")
        return self.pick(
            "plain", "a=b", "x\\ y", "$#", "$?", "pre$n", '"a$v"b', "'$v'", "$*", "$@", "\\$v", "a\\\\b"
        )

    def words(self, low: int, high: int) -> str:
        return " ".join(self.word() for _ in range(self.rng.randrange(low, high)))

    # -- simple commands ------------------------------------------------------------------------------------

    def simple(self) -> str:
        makers = [self.print, self.print, self.print, self.assign, self.state, self.test, self.file, self.file,
                  self.applet, self.applet, self.builtin]  # fmt: skip
        return self.rng.choice(makers)()

    def print(self) -> str:
        kind = self.rng.randrange(6)
        if kind < 3:
            return f"printf '<%s>' x {self.words(1, 4)}; echo"
        if kind == 3:
            return f"echo {self.words(1, 4)}"
        form = self.pick(
            "%d|", "%5s|", "%-5s|", "%03d|", "%x|", "%c|", "%b|", "%%|", "%s\\n", "%.2s|", "%o ", "%i,"
        )
        return f"printf '{form}' {self.pick('12', '7 8', '-3', '0x10', '010')}"

    def assign(self) -> str:
        return f"{self.rng.choice(_NAMES[:3])}={self.word()}"

    def state(self) -> str:
        return self.pick(
            f"set -- {self.words(0, 4)}", f"n=$(( {self.number()} ))", "shift 2>/dev/null || echo noshift",
            "unset u", "unset w", "f a b", "g $v; echo $?", f"eval {quoted('echo ' + self.word())}",
            "export v; sh -c 'echo $v'", "v=temp sh -c 'echo $v'", "w=here f x", "local_test",
            "readonly r=1; (r=2) 2>/dev/null || echo ro", "echo ${u-unset}", "set -f", "set +f",
            "IFS=:", "IFS=' '", "unset IFS", "IFS=", "IFS=b:",
        )  # fmt: skip

    def test(self) -> str:
        left, right = quoted(self.rng.choice(_VALUES)), f'"${self.rng.choice(_NAMES)}"'
        return self.pick(
            f"[ {left} {self.pick('=', '!=')} {right} ]", f"test {self.pick('-z', '-n')} {right}",
            f"[ $n {self.pick('-lt', '-ge', '-eq', '-ne', '-gt', '-le')} {self.rng.randrange(20)} ]",
            f"[ {self.pick('-f', '-d', '-e', '-s', '-r', '-L', '-x')} {self.pick('data', 'sub', 'none', 'link')} ]",
            f"[ {left} = {left} {self.pick('-a', '-o')} ! -f data ]", f"! [ -d {self.pick('sub', 'x.txt')} ]",
            "true", "false", "! true", "(exit 3)", ":",
        ) + self.pick("", "; echo $?", " && echo yes", " || echo no")  # fmt: skip

    def file(self) -> str:
        name = self.pick("out", "out2", "sub/new", "n.txt", "'o p'")
        return self.pick(
            f"echo {self.word()} > {name}", f"echo more >> {name}", f"cat {name} 2>/dev/null", f"rm -f {name}",
            f"mkdir -p d/e/{self.pick('f', 'g')}", "rmdir d 2>/dev/null || echo full", f"touch {name} t2",
            f"cp data {name}", f"mv {name} moved 2>/dev/null; echo $?", "cp -r sub copy", "ln -s data link 2>/dev/null",
            "rm -rf sub copy", f"cat <<E\n{self.expansion()} $n\nE", f"cat <<'E' > {name}\n$v `x`\nE",
            "cat <<-E\n\ttab $v\n\tE", "ls", "ls sub", "ls -a sub", "wc -l < data", f"chmod {self.pick('600', 'u+x', 'a-w', '755')} data",
            f"{{ echo one; echo two >&2; }} > {name} 2>&1", "(cd sub && cat inner && echo in > made)",
            "exec 3> three; echo fd >&3; exec 3>&-", "exec 4< words; read -r x <&4; echo \"$x\"; exec 4<&-",
            f"dd if=data of={name} bs=4 count=2 2>/dev/null", "find . -type f | sort", "find . -name '*.txt' | sort",
            "test -e moved && cat moved", "tail -n 2 y.txt > tailed", f": > {name}", "ln data hard 2>/dev/null; ls",
        )  # fmt: skip

    def applet(self) -> str:
        source = self.pick(
            "cat data",
            "cat words",
            "cat nums",
            f"printf '%s\\n' {self.words(1, 4)}",
            "echo a:b:c",
            "cat y.txt",
            "seq 5",
        )
        stage = self.filter()
        return f"{source} | {stage}" + (f" | {self.filter()}" if self.rng.random() < 0.4 else "")

    def filter(self) -> str:
        return self.pick(
            "sort", "sort -r", "sort -n", "sort -u", "sort -k2 -n", "uniq", "sort | uniq -c", "wc -l", "wc -w", "wc -c",
            "head -n 2", "tail -n 2", "tail -n +2", "head -c 5", "cut -d' ' -f1", "cut -c2-4", "cut -d: -f2-", "tr a-z A-Z",
            "tr -d aeiou", "tr -s ' '", "sed 's/a/A/g'", "sed -n 2p", "sed '1d'", "sed -e 's/\\(.\\)\\(.\\)/\\2\\1/'", "sed '/p/d'",
            "sed -n '$p'", "sed 's/^/> /; $!s/$/;/'", "sed -E 's/([a-z]+) ([0-9]+)/\\2 \\1/'", "sed '2,3y/abc/xyz/'", "sed = ",
            "grep a", "grep -v a", "grep -c e", "grep -n e", "grep -i APPLE", "grep -E '[0-9]{2}'", "grep -o '[a-z]*'",
            "grep -w fig", "grep -F .", "awk '{print $2, $1}'", "awk 'NR==2'", "awk '{s+=$2} END {print s}'",
            "awk -F: '{print NF}'", "awk '/a/ {n++} END {print n+0}'", "awk '{print length($0)}'", "awk '{$1=\"x\"; print}'",
            "awk 'BEGIN{OFS=\"-\"} {print $1,$2}'", "awk '{printf \"%s|%d\\n\", $1, $2}'", "awk '{print toupper(substr($0,2,3))}'",
            "rev", "tac", "nl", "cat -n", "fold -w 4", "paste -s -d,", "xargs echo", "xargs -n 1 echo x", "tee .copy",
            "while read -r x y; do echo \"$y-$x\"; done", "while read x; do [ \"$x\" ] && echo \"[$x]\"; done", "od -c", "md5sum", "expand",
            "(read -r x; echo first $x; cat)", "{ cat; echo end; }", "cat > .piped; cat .piped", "base64", "shuf | sort",
        )  # fmt: skip

    def builtin(self) -> str:
        return self.pick(
            "type f >/dev/null && echo known", "command -v cat >/dev/null; echo $?", "command echo cmd",
            "kill -USR1 $$", "trap 'echo usr1' USR1; kill -USR1 $$; trap - USR1", "trap '' TERM; kill $$; echo alive; trap - TERM",
            "(trap 'echo sub exit' EXIT; exit 4); echo $?", "sleep 0.01 & wait; echo waited", "(exit 5) & wait $!; echo $?",
            "{ sleep 0.02; echo late; } & echo early; wait", "read -r x y < words; echo \"$x/$y\"",
            "echo 'a b c' | { read x y; echo \"$y\"; }", "read x < /dev/null; echo $?", "printf 'p\\\\q\\n' | while read x; do echo \"$x\"; done",
            "set -- -a -b val rest; while getopts ab: o; do echo $o$OPTARG; done; shift $((OPTIND-1)); echo $1; OPTIND=1",
            "(set -e; false; echo no); echo $?", "(set -u; echo $nope) 2>/dev/null; echo $?", "(set -e; if false; then :; fi; echo on)",
            ". ./lib; echo $libvar", "umask 077; touch masked; umask 022", "cd sub && pwd | sed 's/.*\\///'; cd ..", "echo $(( $(cat nums | wc -l) * 2 ))",
            "alias", "hash -r", "times >/dev/null; echo t", "false; echo $?; true; echo $?", "echo $- | grep -c h",
            "(sleep 5 & kill $!; wait $! 2>/dev/null; echo $?)", "sh -c 'echo $0 $1' name arg", "sh -c 'kill -TERM $$'; echo $?",
            "(trap 'echo int; exit 9' INT; kill -INT $$; sleep 1) ; echo $?", "test \"$(echo x; exit 3)\" = x; echo $?",
            "x=$(exit 7); echo $?", "timeout 5 echo in time", "env -i A=1 env", "expr 3 + 4", "expr abc : 'a\\(.\\)'", "basename a/b/c.txt .txt; dirname a/b/c",
        )  # fmt: skip

    # -- compound commands ----------------------------------------------------------------------------------

    def pipeline(self) -> str:
        kind = self.rng.randrange(5)
        if kind == 0:
            return self.applet()
        if kind == 1:
            return f"{self.print()} | {self.pick('cat', 'tr a-z A-Z', 'sed s/a/b/', 'wc -c')}"
        return self.simple()

    def command(self) -> str:
        self.depth += 1
        try:
            kind = self.rng.randrange(16) if self.depth < 4 else 0
            if kind < 6:
                return self.pipeline()
            if kind == 6:
                return f"if {self.command()}\nthen {self.command()}\nelse {self.command()}\nfi"
            if kind == 7:
                return f'for i in {self.words(1, 4)}; do echo "i=$i"\n{self.command()}\ndone'
            if kind == 8:
                pattern = self.pick("a*", "*[bc]*", "''", "?", "*", "'x*y'|1", "[!a]*", "$v", '"$v"', "a|b")
                return f"case {self.word()} in {pattern}) {self.command()}\n;; *) {self.command()}\n;; esac"
            if kind == 9:
                return f"{{ {self.command()}\n}} {self.pick('&&', '||')} {{ {self.command()}\n}}"
            if kind == 10:
                return f"( {self.command()}\n)"
            if kind == 11:
                self.loops += 1
                k = f"k{self.loops}"
                leave = self.pick(
                    "",
                    f"[ ${k} = 2 ] && break",
                    f"[ ${k} = 1 ] && continue",
                    "break",
                    "continue 2 2>/dev/null",
                )
                word, sign = self.rng.choice((("while", "-lt"), ("until", "-ge")))
                return f"{k}=0; {word} [ ${k} {sign} 3 ]; do {k}=$(({k}+1))\n{leave}\n{self.command()}\ndone"
            if kind == 12:
                return f"h() {{ local v=loc; {self.command()}\nreturn {self.rng.randrange(4)}; }}; h {self.words(0, 3)}; echo $?"
            if kind == 13:
                return (
                    f"{{ {self.command()}\n}} {self.pick('> out3', '2>/dev/null', '| cat', '< data', '2>&1')}"
                )
            if kind == 14:
                return f"{self.simple()} && {{ {self.command()}\n}}"
            return f'! {{ {self.command()}\n}}; echo "! $?"'
        finally:
            self.depth -= 1

    def text(self) -> str:
        head = (
            'f() { echo "f$#$1"; return 2; }; g() { [ "$1" ] && return 1; echo none; }\n'
            "local_test() { local v=in w; w=x; echo $v$w; }\n"
            "v='a:b c'; w=; list='x y  z'; n=3; unset u; set -- p1 'p 2'; echo libvar=lib > lib\n"
        )
        if self.rng.random() < 0.2:
            head += self.pick(
                "trap 'echo bye $?' EXIT\n", "set -f\n", "set -e\n", "trap 'echo t; exit 3' TERM\n"
            )
        body = "\n".join(self.command() for _ in range(self.rng.randrange(3, 8)))
        return f"{head}{body}\necho end $?\n"


# -- running it -------------------------------------------------------------------------------------------------


Result = tuple[int, bytes, dict[str, tuple[object, ...]]]


def run_real(busybox: str, path: str, script: str) -> Result | None:
    """What busybox does; None if it does not end in time."""
    with tempfile.TemporaryDirectory(prefix="ke-") as folder:
        for name, content in FILES.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
            file.chmod(0o644)
        Path(folder, "sub").chmod(0o755)
        command = [busybox, "sh", "-c", script]
        environment = {"HOME": "/root", "PATH": path, "LANG": "C"}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
            env=environment, start_new_session=True, umask=0o022,
        )  # fmt: skip
        try:
            out, _ = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return None
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        tree: dict[str, tuple[object, ...]] = {}
        for root, folders, files in os.walk(folder):
            for name in [*folders, *files]:
                file = Path(root, name)
                shown = str(file.relative_to(folder))
                mode = stat.S_IMODE(file.lstat().st_mode)
                if file.is_symlink():
                    tree[shown] = ("link", os.readlink(file))
                elif file.is_dir():
                    tree[shown] = ("dir", mode)
                else:
                    tree[shown] = ("file", mode, file.read_bytes())
        return code, out, tree


def run_here(script: str) -> Result:
    """What the emulated shell does, in virtual time."""

    async def main() -> Result:
        async with trio.open_nursery() as nursery:
            clock = NodeClock()
            files = ContainerFiles(MemoryFiles(now_ns=clock.now_ns), mounts=(), now_ns=clock.now_ns)
            for name in ("", "/sub"):
                files.make_dir(FOLDER + name)
            for name, content in FILES.items():
                files.write(f"{FOLDER}/{name}", content.encode())
            processes = ContainerProcesses(
                nursery=nursery, clock=clock, rng=random.Random(1), net=MemoryNet(nursery), fs=files,
                hostname="box", pod_ip="10.0.0.9", programs=Programs(), own_pid_namespace=False,
            )  # fmt: skip
            out = bytearray()
            handle = processes.start(
                ["sh", "-c", script], env={"HOME": "/root", "LANG": "C"}, cwd=FOLDER,
                stdout=out.extend, stderr=lambda _: None,
            )  # fmt: skip
            with trio.move_on_after(3600):
                code = await handle.wait()
                await handle.output_closed()
                nursery.cancel_scope.cancel()
                return code, bytes(out), tree_of(files, FOLDER)
            nursery.cancel_scope.cancel()
        return -1, b"does not end", {}

    return run(main, seed=1)


def tree_of(files: ContainerFiles, folder: str, under: str = "") -> dict[str, tuple[object, ...]]:
    """Everything below a folder."""
    tree: dict[str, tuple[object, ...]] = {}
    for name in files.list(folder):
        path, shown = f"{folder}/{name}", f"{under}{name}"
        info = files.stat(path, follow=False)
        if info.kind == "symlink":
            tree[shown] = ("link", files.read_link(path))
        elif info.kind == "dir":
            tree[shown] = ("dir", info.mode & 0o7777)
            tree |= tree_of(files, path, f"{shown}/")
        else:
            tree[shown] = ("file", info.mode & 0o7777, files.read(path))
    return tree


def applets_folder(busybox: str, folder: str) -> str:
    """A PATH on which every applet is busybox'."""
    for name in subprocess.run(
        [busybox, "--list"], capture_output=True, text=True, check=True
    ).stdout.split():
        Path(folder, name).symlink_to(busybox)
    return folder


def differences(real: Result, here: Result) -> str:
    """How two results differ, for people; empty if they do not."""
    said = []
    if real[0] != here[0]:
        said.append(f"exit code {here[0]} instead of {real[0]}")
    if real[1] != here[1]:
        said.append(f"output {here[1]!r}\ninstead of {real[1]!r}")
    for name in sorted({*real[2], *here[2]}):
        if real[2].get(name) != here[2].get(name):
            said.append(f"{name}: {here[2].get(name)} instead of {real[2].get(name)}")
    return "\n".join(said)


def judge(seeds: range, *, busybox: str, show: int = 3, say=print) -> tuple[int, int]:
    """How many scripts differ and how many busybox did not end; says how the first ones differ."""
    wrong = hung = 0
    with tempfile.TemporaryDirectory(prefix="ke-") as folder:
        path = applets_folder(busybox, folder)
        for seed in seeds:
            script = Script(seed).text()
            real = run_real(busybox, path, script)
            if real is None:
                hung += 1
                continue
            found = differences(real, run_here(script))
            if found:
                wrong += 1
                if wrong <= show:
                    say(f"=== seed {seed}\n{script}--- \n{found}\n")
    return wrong, hung


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--busybox", default=shutil.which("busybox"))
    parser.add_argument("--show", type=int, default=3)
    options = parser.parse_args()
    if not options.busybox:
        parser.error("there is no busybox on the PATH: give --busybox")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where this runs in the background
    seeds = range(options.seed, options.seed + options.scripts)
    wrong, hung = judge(seeds, busybox=str(Path(options.busybox).absolute()), show=options.show)
    print(
        f"{options.scripts - wrong - hung} of {options.scripts} scripts equal, {wrong} differ, busybox hung on {hung}"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
