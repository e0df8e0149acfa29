"""Ids of fake devices: stable, in the shape of the real ones (pure).

An id depends on a serial text (by default the preset's name; give each node its own) and the device's place,
so it survives a restart of plugin, kubelet and machine (DEV-18I).
"""

import hashlib

__all__ = ["gpu_uuid", "mig_uuid", "uuid_of"]


def uuid_of(*parts: object) -> str:
    """A text in the shape of a random UUID that follows from the parts alone."""
    digits = hashlib.sha256("/".join(str(part) for part in parts).encode()).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def gpu_uuid(serial: str, index: int) -> str:
    """``GPU-<uuid>`` of the GPU with that index."""
    return f"GPU-{uuid_of(serial, 'gpu', index)}"


def mig_uuid(serial: str, gpu: int, profile: str, index: int) -> str:
    """``MIG-<uuid>`` of one slice of a GPU."""
    return f"MIG-{uuid_of(serial, 'mig', gpu, profile, index)}"
