"""The folder in which a node on sockets keeps them; it goes when the node goes."""

import shutil
import tempfile

from kubelet_emu.errors import CallerError, Problem
from trio_grpc.unix_path import check_length

__all__ = ["make_private_folder"]

_HINT = "set TMPDIR to a short, writable folder such as /tmp, or use transport memory"


def make_private_folder() -> str:
    """A new folder that has room for the runtime's socket. Raises ``CallerError`` if there cannot be one."""
    try:
        folder = tempfile.mkdtemp(prefix="kubelet-emu-")
    except OSError as error:
        problem = Problem(f"no folder for the node's sockets: {error.strerror or error}", hint=_HINT)
        raise CallerError([problem]) from None
    try:
        check_length(f"{folder}/cri.sock")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CallerError([Problem(error.strerror or str(error), hint=_HINT)]) from None
    return folder
