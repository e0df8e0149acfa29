"""Chance, handed down: named streams of random numbers that follow from one seed."""

import hashlib
import random

__all__ = ["Randoms", "new_id", "new_uid"]


class Randoms:
    """Named, independent random streams from one seed.

    A stream depends only on the seed and its name, neither on Python's hash seed nor on which streams others
    have asked for or how much they drew. Asking again for a name gives the same stream, further on.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """The stream of that name, such as ``"cri_fake/ids"``."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(self._start(name))
        return found

    def reseed(self, seed: int) -> None:
        """Have every stream, those that were handed out too, go on from its start under another seed."""
        self.seed = seed
        for name, stream in self._streams.items():
            stream.seed(self._start(name))

    def _start(self, name: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{name}".encode()).digest(), "big")


def new_id(rng: random.Random, hex_digits: int = 64) -> str:
    """A lower-case hexadecimal id, as container runtimes give."""
    return f"{rng.getrandbits(4 * hex_digits):0{hex_digits}x}"


def new_uid(rng: random.Random) -> str:
    """An id in the shape of a random UUID (version 4), as the API server gives to objects."""
    digits = new_id(rng, 32)
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
