"""Pod and host addresses in a status: order, families, host network (pure)."""

import ipaddress
from collections.abc import Sequence

__all__ = ["host_network_ips", "is_ipv6", "parse_address", "primary_family", "sort_pod_ips"]


def parse_address(text: str) -> str | None:
    """The canonical form of an address, or None. Leading zeros of IPv4 parts mean nothing (STA-1219)."""
    if "." in text and ":" not in text:
        parts = text.split(".")
        if len(parts) != 4 or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        numbers = [int(part) for part in parts]
        return ".".join(map(str, numbers)) if all(number <= 255 for number in numbers) else None
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        return None


def is_ipv6(address: str) -> bool:
    """Whether a canonical address is IPv6."""
    return ":" in address


def primary_family(node_ips: Sequence[str]) -> bool:
    """Whether the first node address is IPv6; IPv4 where none is configured (STA-901)."""
    first = parse_address(node_ips[0]) if node_ips else None
    return first is not None and is_ipv6(first)


def sort_pod_ips(runtime_ips: Sequence[str], node_ips: Sequence[str]) -> tuple[str, ...]:
    """The first address of the node's primary family, then the first of the other one (STA-901, STA-902).

    One address that cannot be parsed voids the whole list.
    """
    parsed = [parse_address(ip) for ip in runtime_ips]
    addresses = [ip for ip in parsed if ip is not None]
    if len(addresses) != len(parsed):
        return ()
    six_first = primary_family(node_ips)
    chosen: list[str] = []
    for want_six in (six_first, not six_first):
        chosen += [ip for ip in addresses if is_ipv6(ip) == want_six][:1]
    return tuple(chosen)


def host_network_ips(pod_ips: Sequence[str], host_ips: Sequence[str]) -> tuple[str, ...]:
    """Addresses of a pod in the host's network: what it has, filled up from the host's (STA-903)."""
    ips = list(pod_ips)
    if not ips and host_ips:
        ips = [host_ips[0]]
    if len(ips) == 1 and len(host_ips) == 2 and is_ipv6(ips[0]) != is_ipv6(host_ips[1]):
        ips.append(host_ips[1])
    return tuple(ips)
