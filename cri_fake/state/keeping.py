"""Between the stores and the journal: every change is noted, every answer waits, and a start finds all again.

Sandboxes are found as they were. The processes of containers were part of the program that ended, so those
that ran are found EXITED, as after a loss of power (CRI-045); created and exited ones are as they were.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from cri_fake.state.journal import CannotKeep, Journal
from cri_fake.state.values import BadValue, container_from, image_from, plain, sandbox_from
from cri_fake.store.containers import Container, Event, WireState, advance
from cri_fake.store.faults import Refused
from cri_fake.world import World
from trio_grpc import Call, Code, Handler, Method, StatusError
from trio_grpc.wrapping import wrapped

__all__ = ["answering_durably", "keep", "restore"]


def restore(world: World, journal: Journal) -> None:
    """Fill the stores with what the journal says.

    Raises:
        CannotKeep: another version wrote it.
    """
    try:
        for key, value in journal.values.items():
            kind, _, rest = key.partition("/")
            if kind == "sandbox":
                _restore_sandbox(world, value)
            elif kind == "container":
                _restore_container(world, container_from(value))
            elif kind == "image":
                world.images.restored(image_from(value))
            elif kind == "note":
                world.notes[rest] = value
    except BadValue as problem:
        raise CannotKeep(f"{journal.folder}: {problem}; move it away to begin anew") from None
    world.ipam.go_on(world.notes.get("ipam", {}))


def _restore_sandbox(world: World, value: Any) -> None:
    sandbox = sandbox_from(value)
    world.sandboxes.add(sandbox)
    world.sandbox_names.reserve(sandbox.reserved_name, sandbox.id)
    world.ipam.restored(sandbox.id, sandbox.ips)
    world.not_before(sandbox.created_at_ns)


def _restore_container(world: World, container: Container) -> None:
    if container.state in (WireState.RUNNING, WireState.UNKNOWN):
        profile = world.profile
        ended = advance(
            container,
            Event.EXIT,
            now_ns=world.clock.now_ns(),
            exit_code=profile.lost_exit_code,
            reason=profile.lost_reason,
        )
        assert ended is not None
        container = ended
    world.add_container(container)
    world.container_names.reserve(container.reserved_name, container.id)
    world.not_before(container.created_at_ns)


def keep(world: World, journal: Journal) -> None:
    """Note every change of the stores from now on, and how they stand where they differ from the journal."""
    world.sandboxes.watch = lambda key, value: journal.put(f"sandbox/{key}", plain(value))
    world.containers.watch = lambda key, value: journal.put(f"container/{key}", plain(value))
    world.images.watch = lambda key, value: journal.put(f"image/{key}", plain(value))
    world.keep_note = lambda key, value: journal.put(f"note/{key}", value)
    for container in world.containers.values:
        now = plain(container)
        if now != journal.values.get(f"container/{container.id}"):
            journal.put(f"container/{container.id}", now)
    if journal.fresh:
        for image in world.images.values:
            journal.put(f"image/{image.id}", plain(image))


def answering_durably(handler: Handler, journal: Journal) -> Handler:
    """The handler, each answer of which waits until what it tells is on disk; refusals too."""

    async def settled() -> None:
        if not journal.durable_now:
            try:
                await journal.durable()
            except Refused as refused:
                raise StatusError(Code[refused.kind.value], refused.text) from None

    def wrap(method: Method[Any, Any], serve: Callable[..., Any]) -> Callable[..., Any]:
        async def unary(request: Any, call: Call) -> Any:
            try:
                reply = await serve(request, call)
            except StatusError:
                await settled()
                raise
            await settled()
            return reply

        async def stream(request: Any, call: Call) -> AsyncIterator[Any]:
            async with aclosing(serve(request, call)) as items:
                async for item in items:
                    await settled()
                    yield item

        return stream if method.streaming else unary

    return wrapped(handler, wrap)
