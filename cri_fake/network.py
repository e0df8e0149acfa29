"""Addresses of sandboxes: which pod holds which, and which comes next (pure).

As the host-local plugin does, the next address after the last one given out is tried first, round the
range; so a freed address comes back late. On top of that a freed address rests for some seconds before it
may come back at all. ``.1`` is the gateway. Dual stack is one range a family; every sandbox gets one
address of each.
"""

import ipaddress
from collections.abc import Mapping, Sequence

from cri_fake.store.faults import Kind, Refused

__all__ = ["DEFAULT_POD_CIDR", "REST_SECONDS", "Ipam", "parse_cidrs"]

DEFAULT_POD_CIDR = "10.88.0.0/16"
REST_SECONDS = 1.0
"""How long a freed address is not given out again (CRI-032)."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_cidrs(text: str) -> tuple[_Network, ...]:
    """Read a comma-separated list of ranges, at most one a family.

    Raises:
        Refused: a range that is malformed, too small for one pod, or a second one of its family.
    """
    networks: list[_Network] = []
    for part in text.split(","):
        try:
            network = ipaddress.ip_network(part.strip(), strict=False)
        except ValueError as error:
            raise Refused(Kind.INVALID_ARGUMENT, f"invalid pod CIDR {part.strip()!r}: {error}") from None
        if network.num_addresses < 4:
            raise Refused(
                Kind.INVALID_ARGUMENT, f"pod CIDR {network} has no room for a pod: use /30 or larger"
            )
        if any(other.version == network.version for other in networks):
            raise Refused(Kind.INVALID_ARGUMENT, f"pod CIDRs {text!r}: more than one of IPv{network.version}")
        networks.append(network)
    return tuple(networks)


class _Range:
    """One family's range. The usable addresses are ``first`` to ``last``."""

    def __init__(self, network: _Network) -> None:
        self.network = network
        base = int(network.network_address)
        self.first = base + 2
        spare = 2 if network.version == 4 else 1
        self.last = base + network.num_addresses - spare
        self._next = self.first
        self._held: dict[int, str] = {}
        self._freed_at_seconds: dict[int, float] = {}

    def acquire(self, holder: str, now_seconds: float) -> str:
        self._forget_rested(now_seconds)
        busy = len(self._held) + len(self._freed_at_seconds)
        size = self.last - self.first + 1
        if busy < size:
            for offset in range(busy + 1):
                value = self.first + (self._next - self.first + offset) % size
                if value not in self._held and value not in self._freed_at_seconds:
                    self._next = value + 1
                    self._held[value] = holder
                    return str(self._address(value))
        raise Refused(
            Kind.UNKNOWN,
            'plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in '
            f"range set: {self._address(self.first - 1)}-{self._address(self.last)}",
            rule="CRI-201",
        )

    def _forget_rested(self, now_seconds: float) -> None:
        rested = [v for v, at in self._freed_at_seconds.items() if now_seconds - at >= REST_SECONDS]
        for value in rested:
            del self._freed_at_seconds[value]

    def release(self, holder: str, now_seconds: float) -> None:
        for value in [v for v, who in self._held.items() if who == holder]:
            del self._held[value]
            self._freed_at_seconds[value] = now_seconds

    def restored(self, address: str, holder: str) -> None:
        value = int(ipaddress.ip_address(address))
        if self.first <= value <= self.last:
            self._held[value] = holder

    @property
    def position(self) -> str:
        """The address that is tried next."""
        return str(self._address(self._next))

    def go_on(self, address: str) -> None:
        value = int(ipaddress.ip_address(address))
        if self.first <= value <= self.last + 1:
            self._next = value

    def holder(self, address: str) -> str | None:
        return self._held.get(int(ipaddress.ip_address(address)))

    def _address(self, value: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        return ipaddress.IPv4Address(value) if self.network.version == 4 else ipaddress.IPv6Address(value)


class Ipam:
    """Hands out pod addresses. ``cidrs`` is one range, or two of different families, primary first."""

    def __init__(self, cidrs: str = DEFAULT_POD_CIDR) -> None:
        self._ranges = [_Range(network) for network in parse_cidrs(cidrs)]
        self._retired: list[_Range] = []

    @property
    def cidrs(self) -> str:
        return ",".join(str(each.network) for each in self._ranges)

    def acquire(self, holder: str, *, now_seconds: float) -> tuple[str, ...]:
        """One address of each family for the holder, primary first.

        Raises:
            Refused: no address is left; nothing is held then.
        """
        taken: list[str] = []
        try:
            for each in self._ranges:
                taken.append(each.acquire(holder, now_seconds))
        except Refused:
            self.release(holder, now_seconds=now_seconds)
            raise
        return tuple(taken)

    def release(self, holder: str, *, now_seconds: float) -> None:
        """Take back what the holder has; nothing happens if it has nothing."""
        for each in (*self._ranges, *self._retired):
            each.release(holder, now_seconds)

    def restored(self, holder: str, addresses: Sequence[str]) -> None:
        """Let a sandbox have again what it had; addresses of other ranges than ours are in nobody's way."""
        for address in addresses:
            version = ipaddress.ip_address(address).version
            for each in self._ranges:
                if each.network.version == version:
                    each.restored(address, holder)

    @property
    def positions(self) -> dict[str, str]:
        """Which address is tried next, by range: what has to be kept so that a freed one comes back late."""
        return {str(each.network): each.position for each in self._ranges}

    def go_on(self, positions: Mapping[str, str]) -> None:
        """Go on where ``positions`` says."""
        for each in self._ranges:
            position = positions.get(str(each.network))
            if position is not None:
                each.go_on(position)

    def holder(self, address: str) -> str | None:
        """Who holds the address, None if nobody does."""
        for each in (*self._ranges, *self._retired):
            if ipaddress.ip_address(address).version == each.network.version:
                holder = each.holder(address)
                if holder is not None:
                    return holder
        return None

    def adopt(self, cidrs: str) -> None:
        """Use other ranges for sandboxes to come (UpdateRuntimeConfig, CRI-106); holders keep what they have.

        Raises:
            Refused: the ranges are malformed.
        """
        wanted: Sequence[_Network] = parse_cidrs(cidrs)
        known = {each.network: each for each in (*self._ranges, *self._retired)}
        ranges = [known.get(network) or _Range(network) for network in wanted]
        self._retired = [each for each in known.values() if each not in ranges]
        self._ranges = ranges
