"""Handlers with something in between: every method of a handler, wrapped by one function."""

from collections.abc import Callable
from typing import Any, ClassVar

from trio_grpc.method import Handler, Method, Service

__all__ = ["wrapped"]

Wrap = Callable[[Method[Any, Any], Callable[..., Any]], Callable[..., Any]]


def wrapped(handler: Handler, wrap: Wrap) -> Handler:
    """A handler that serves the same contract; ``wrap(method, function)`` gives what serves each method."""
    service: Service = type(handler).SERVICE

    class Wrapped(Handler):
        SERVICE: ClassVar[Service] = service

    found = Wrapped()
    for method in service.methods:
        setattr(found, method.name, wrap(method, getattr(handler, method.name)))
    return found
