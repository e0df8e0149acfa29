"""What is on the wire between two ends in one process, so that virtual time does not run ahead of a message.

A message is on the wire from the moment one end hands it to grpcio until the other end has it in the
loop's thread. As long as any is, the virtual clock is held. Calls in flight do not count: a handler may
rightly sleep. Nor do items that a reader has no room for: it may be asleep itself, and only time can
wake it.

Both ends of a call find the same ``Wire`` through a number in the call's metadata. A peer in another
process sends none or does not know ours; then the request counts as on the wire until its answer is
here, for nobody can say more.
"""

import itertools

from node_host.loop import VirtualClock

__all__ = ["METADATA_KEY", "Wire", "find_wire", "open_wire"]

METADATA_KEY = "x-node-wire"

_numbers = itertools.count(1)
_wires: dict[str, "Wire"] = {}


class Wire:
    """The wire of one call. All methods belong to the loop's thread."""

    def __init__(self, clock: VirtualClock, number: str) -> None:
        self.number = number
        self.deadline = float("inf")
        self.attached = False
        """Whether the other end has the call: only then will it say that it saw a cancellation."""
        self.abandoned = False
        """Whether the reader has given up. Read by a thread of the other end."""
        self.terminated = False
        """Whether grpcio has told the other end that the call is over. Written by a thread of the other
        end.
        """
        self._clock = clock
        self._under_way = 0
        self._room = True
        self._held = False
        self._closed = False

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return ((METADATA_KEY, self.number),)

    def sent(self) -> None:
        """A message has been handed over."""
        self._under_way += 1
        self._update()

    def received(self) -> None:
        """A message has arrived."""
        self._under_way -= 1
        self._update()

    def set_room(self, room: bool) -> None:
        """Whether the reader would take another item."""
        self._room = room
        self._update()

    def abandon(self) -> None:
        """The reader gives up. Where the other end has the call, the cancellation is on the wire until
        it closes.

        ``abandoned`` is set before ``terminated`` is read here, and the other way round at the other
        end, so that one of the two always learns of the other.
        """
        self.abandoned = True
        if self.attached and not self.terminated:
            self._room = True
            self.sent()
        else:
            self.close()

    def close(self) -> None:
        """Nothing more will arrive, or nobody waits for it any more."""
        self._closed = True
        _wires.pop(self.number, None)
        self._update()

    def _update(self) -> None:
        hold = self._under_way > 0 and self._room and not self._closed
        if hold and not self._held:
            self._clock.hold()
        elif self._held and not hold:
            self._clock.release()
        self._held = hold


def open_wire(clock: VirtualClock | None) -> Wire | None:
    """A new wire; None in real time, which waits for nobody."""
    if clock is None:
        return None
    wire = Wire(clock, str(next(_numbers)))
    _wires[wire.number] = wire
    return wire


def find_wire(number: str, clock: VirtualClock | None) -> Wire | None:
    """The wire with that number, if it is one of this very run."""
    wire = _wires.get(number)
    return wire if wire is not None and wire._clock is clock else None
