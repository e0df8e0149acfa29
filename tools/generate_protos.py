"""Regenerate everything that is derived from proto/k8s_proto/*.proto.

    python tools/generate_protos.py            # write
    python tools/generate_protos.py --check    # exit 1 and name the files that would change

Needs the dev dependencies grpcio-tools and mypy-protobuf. Three kinds of files come out:

- ``k8s_proto/*_pb2.py``: what protoc writes, with two changes. The version check against the protobuf
  runtime is dropped, because protoc stamps the compiler's own version as the lower bound although the code
  it writes uses nothing newer than protobuf 6.30. And the descriptors go into a pool of our own
  (``k8s_proto._pool``), because packages called ``v1`` or ``runtime.v1`` would collide with anyone
  else's in the process-wide one.
- ``k8s_proto/*_pb2.pyi``: typed stubs.
- ``trio_grpc/services/*.py``: typed clients and handler base classes, one module a contract.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"

_VERSION_CHECK = re.compile(r"_runtime_version\.ValidateProtobufRuntimeVersion\(.*?\n\)\n", re.DOTALL)
_DROPPED_LINES = (
    "# NO CHECKED-IN PROTOBUF GENCODE\n",
    "from google.protobuf import runtime_version as _runtime_version\n",
    "from google.protobuf import symbol_database as _symbol_database\n",
    "from google.protobuf import descriptor_pool as _descriptor_pool\n",
    "_sym_db = _symbol_database.Default()\n",
)


def contracts() -> list[str]:
    """Module stems of all contracts, sorted: ``runtime_v1`` …"""
    return sorted(path.stem for path in (PROTO / "k8s_proto").glob("*.proto"))


def neutral(text: str) -> str:
    """protoc's Python module without its version stamp and with the descriptors in our own pool."""
    text = _VERSION_CHECK.sub("", text)
    text = re.sub(r"# Protobuf Python Version: .*\n", "", text)
    for line in _DROPPED_LINES:
        text = text.replace(line, "")
    builder = "from google.protobuf.internal import builder as _builder\n"
    text = text.replace(builder, builder + "\nfrom k8s_proto._pool import POOL as _pool\n")
    text = text.replace("_descriptor_pool.Default()", "_pool")
    return re.sub(r"\n{3,}", "\n\n", text)


def messages(out: Path) -> None:
    """Compile all contracts into ``out/k8s_proto``. Raises CalledProcessError with protoc's own words."""
    tool_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(PROTO)]
    command += [f"--python_out={out}", f"--mypy_out=quiet:{out}"]
    command += [f"k8s_proto/{stem}.proto" for stem in contracts()]
    subprocess.run(command, check=True, cwd=PROTO, env={**os.environ, "PATH": tool_path})
    for path in (out / "k8s_proto").glob("*_pb2.py"):
        path.write_text(neutral(path.read_text()))
    for path in (out / "k8s_proto").glob("*_pb2.pyi"):
        path.write_text(path.read_text().rstrip() + "\n")


def generate(out: Path) -> None:
    """Write all generated files below ``out``, laid out as below ``proto/``."""
    messages(out)


def main() -> int:
    """Write the files, or compare them under --check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        generate(out)
        stale: list[str] = []
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            target = PROTO / path.relative_to(out)
            if target.exists() and target.read_bytes() == path.read_bytes():
                continue
            stale.append(str(target.relative_to(ROOT)))
            if not arguments.check:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
    for name in stale:
        print(("stale: " if arguments.check else "wrote: ") + name)
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
