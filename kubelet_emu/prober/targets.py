"""Where a probe goes: commands, ports, hosts, URLs, headers (pure; PRB-20 to PRB-25)."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlsplit

from attrs import frozen

from kubelet_emu.api.types import Container, EnvVar, HTTPGetAction, HTTPHeader
from kubelet_emu.kuberuntime.gotext import go_quote

__all__ = [
    "HttpTarget",
    "TargetError",
    "expand_command",
    "http_target",
    "join_host_port",
    "request_headers",
    "resolve_port",
]


class TargetError(Exception):
    """Raised for a probe that names no usable target; its text is the kubelet's (PRB-20)."""


def resolve_port(port: int | str, container: Container) -> int:
    """The number of a port given as number, as name of a port of this container, or as digits (PRB-20)."""
    if isinstance(port, str):
        named = next((entry.container_port for entry in container.ports if entry.name == port), None)
        number = named if named is not None else _atoi(port)
    else:
        number = port
    if not 0 < number < 65536:
        raise TargetError(f"invalid port number: {number}")
    return number


def _atoi(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise TargetError(f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    return int(text)


def join_host_port(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@frozen(kw_only=True)
class HttpTarget:
    """A URL taken apart: ``request_target`` goes into the request line, ``url`` into error texts."""

    scheme: str
    host: str
    port: int
    request_target: str
    url: str

    @property
    def authority(self) -> str:
        return join_host_port(self.host, self.port)


def http_target(action: HTTPGetAction, container: Container, pod_ip: str) -> HttpTarget:
    """The target of an httpGet action (PRB-21, PRB-24, HOK-10); raises ``TargetError`` for a bad port."""
    port = resolve_port(action.port, container)
    host = action.host or pod_ip
    scheme = (action.scheme or "HTTP").lower()
    return make_target(scheme, host, port, action.path or "/")


def make_target(scheme: str, host: str, port: int, path: str) -> HttpTarget:
    """A target for a path that may carry a query and a fragment and need not begin with a slash."""
    parts = urlsplit(path if path.startswith("/") else f"/{path}")
    escaped = quote(parts.path, safe="/%:@!$&'()*+,;=~-._")
    request_target = escaped + (f"?{parts.query}" if parts.query else "")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    url = f"{scheme}://{join_host_port(host, port)}{request_target}{fragment}"
    return HttpTarget(scheme=scheme, host=host, port=port, request_target=request_target, url=url)


def request_headers(
    headers: Iterable[HTTPHeader], target: HttpTarget, user_agent: str
) -> tuple[tuple[str, str], ...]:
    """The headers of a probe's request, Host first (PRB-22).

    Repeated ones are kept, an empty Accept removes the default one, a Host header names the request's host.
    """
    given = [(header.name, header.value) for header in headers]
    names = {name.lower() for name, _ in given}
    host = next((value for name, value in given if name.lower() == "host"), "")
    default_port = 443 if target.scheme == "https" else 80
    plain = f"[{target.host}]" if ":" in target.host else target.host
    shown = plain if target.port == default_port else target.authority
    result = [("Host", host or shown)]
    if "user-agent" not in names:
        result.append(("User-Agent", user_agent))
    if "accept" not in names:
        result.append(("Accept", "*/*"))
    for name, value in given:
        low = name.lower()
        if low == "host" or (low == "accept" and not value):
            continue
        result.append((name, value))
    result.append(("Connection", "close"))
    return tuple(result)


def expand_command(command: Sequence[str], env: Sequence[EnvVar]) -> tuple[str, ...]:
    """``$(VAR)`` from literal environment entries; what is not known stays, ``$$`` is one dollar (PRB-25)."""
    values = {entry.name: entry.value or "" for entry in env if entry.value_from is None}
    return tuple(_expand(word, values) for word in command)


def _expand(text: str, values: dict[str, str]) -> str:
    out: list[str] = []
    place = 0
    while place < len(text):
        char = text[place]
        if char != "$" or place + 1 == len(text):
            out.append(char)
            place += 1
            continue
        following = text[place + 1]
        close = text.find(")", place + 2) if following == "(" else -1
        if following == "$":
            out.append("$")
            place += 2
        elif close >= 0:
            name = text[place + 2 : close]
            out.append(values.get(name, f"$({name})"))
            place = close + 1
        else:
            out.append(char + following)
            place += 2
    return "".join(out)
