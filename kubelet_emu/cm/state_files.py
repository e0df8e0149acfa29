"""Files of the resource managers: read whole, written to a temporary file and renamed."""

from node_host.files import Files

__all__ = ["read_state", "write_state"]


def read_state(files: Files, path: str) -> bytes | None:
    """The content, None if there is no file. Raises ``OSError``."""
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


def write_state(files: Files, path: str, content: bytes) -> None:
    """Replace a file in one step. Raises ``OSError``."""
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}"
    files.write(temporary, content, mode=0o600)
    files.rename(temporary, path)
