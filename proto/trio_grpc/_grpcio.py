"""The one door to grpcio, opened by the first socket: importing it costs more than this whole package."""

import importlib
from typing import Any

__all__ = ["grpcio"]


def grpcio() -> Any:
    """The grpc module. Its own annotations are partial, so it is taken as untyped."""
    return importlib.import_module("grpc")
