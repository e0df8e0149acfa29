"""Scripts with the answers that busybox 1.35 gave to them: exit code and standard output.

Where ``busybox`` and the right to change the root are at hand, ``test_busybox_still_agrees`` (slow) checks
the answers themselves.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from attrs import frozen

from cri_fake.process.images import BUSYBOX_APPLETS

_FOLDER = Path(__file__).parent / "answers"
_BLOCK = re.compile(r"^### (.*)\n((?:.*\n)*?)--- code (\d+)\n--- out\n((?:(?!### ).*\n)*)", re.MULTILINE)


@frozen
class Answer:
    """One script and what busybox made of it."""

    name: str
    script: str
    code: int
    out: str


def _answers() -> list[Answer]:
    found: list[Answer] = []
    for path in sorted(_FOLDER.glob("*.txt")):
        for name, script, code, out in _BLOCK.findall(path.read_text()):
            out = out[:-2] if out.endswith("\\\n") else out  # a backslash alone ends output without a newline
            found.append(Answer(f"{path.stem}: {name}", script, int(code), out))
    return found


ANSWERS = _answers()


def test_there_are_answers():
    assert len(ANSWERS) > 200


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_same_answer_as_busybox(sh, answer):
    done = sh(answer.script)
    assert (done.code, done.out) == (answer.code, answer.out), done.err
    assert "program failed" not in done.err


def _root(at: Path) -> Path:
    for name in ("bin", "etc", "dev", "tmp", "proc", "root", "home", "usr/bin", "usr/sbin", "var"):
        (at / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", at / "bin/busybox")
    for name in set(BUSYBOX_APPLETS) - {"busybox"}:
        os.link(at / "bin/busybox", at / "bin" / name)
    (at / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
    )
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        os.mknod(at / "dev" / name, 0o20666, os.makedev(1, minor))
        os.chmod(at / "dev" / name, 0o666)
    return at


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("busybox") or os.geteuid() != 0, reason="needs busybox and root")
@pytest.mark.parametrize("answer", ANSWERS[::8], ids=lambda answer: answer.name)
def test_busybox_still_agrees(answer, tmp_path):
    """Slow because the real busybox gets a root of its own for every script; checks every eighth answer."""
    command = [
        "unshare",
        "--fork",
        "--pid",
        "chroot",
        str(_root(tmp_path / "root")),
        "sh",
        "-c",
        answer.script,
    ]
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "HOSTNAME": "box",
    }
    done = subprocess.run(command, env=env, input=b"", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.decode(errors="replace")) == (answer.code, answer.out)
