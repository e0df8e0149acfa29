"""Formats of names and what is wrong with one that does not fit, in the API server's words. (pure)

Each ``…_problems`` function returns messages; none means that the value is good. Lengths are bytes. The two
blanks in ``'a',  or 'b'`` are the server's own. API-050, API-051, API-121, API-123, API-127.
"""

import re
from typing import Final

__all__ = [
    "config_key_problems",
    "env_name_problems",
    "header_name_problems",
    "ip_problems",
    "label_problems",
    "label_value_problems",
    "port_name_problems",
    "port_number_problems",
    "qualified_name_problems",
    "range_problem",
    "search_domain_problems",
    "subdomain_problems",
]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER: Final = "[-A-Za-z0-9]+"
_UNDERSCORED: Final = "[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?"
_SEARCH: Final = rf"{_UNDERSCORED}(\.{_UNDERSCORED})*"
_PORT_CHARS = re.compile("[-a-z0-9]+")
_ENV_NAME = re.compile("[ -<>-~]+")

_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253
_MAX_PORT_NAME: Final = 15

_NAME_CHARS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _pattern_message(message: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{pattern}')"


def range_problem(low: int, high: int) -> str:
    """``must be between low and high, inclusive``."""
    return f"must be between {low} and {high}, inclusive"


def label_problems(text: str) -> list[str]:
    """RFC 1123 label: names of containers and volumes, hostnames, namespaces."""
    problems: list[str] = []
    if _size(text) > _MAX_LABEL:
        problems.append(f"must be no more than {_MAX_LABEL} characters")
    if not _matches(_LABEL, text):
        if _matches(_SUBDOMAIN, text):
            problems.append("must not contain dots")
        else:
            message = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                "and must start and end with an alphanumeric character"
            )
            problems.append(_pattern_message(message, _LABEL, "my-name", "123-abc"))
    return problems


def subdomain_problems(text: str) -> list[str]:
    """RFC 1123 subdomain: names of pods, nodes, secrets, config maps, accounts."""
    problems: list[str] = []
    if _size(text) > _MAX_SUBDOMAIN:
        problems.append(f"must be no more than {_MAX_SUBDOMAIN} characters")
    if not _matches(_SUBDOMAIN, text):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        problems.append(_pattern_message(message, _SUBDOMAIN, "example.com"))
    return problems


def search_domain_problems(text: str) -> list[str]:
    """An entry of ``dnsConfig.searches``: a subdomain that may have underscores, a final dot, or be ``.``."""
    name = text if text == "." else text.removesuffix(".")
    if name == ".":
        return []
    problems: list[str] = []
    if _size(name) > _MAX_SUBDOMAIN:
        problems.append(f"must be no more than {_MAX_SUBDOMAIN} characters")
    if not _matches(_SEARCH, name):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-', '_' or "
            "'.', and must start and end with an alphanumeric character"
        )
        problems.append(_pattern_message(message, _SEARCH, "example.com"))
    return problems


def label_value_problems(text: str) -> list[str]:
    """Value of a label."""
    problems: list[str] = []
    if _size(text) > _MAX_LABEL:
        problems.append(f"must be no more than {_MAX_LABEL} bytes")
    if not _matches(_LABEL_VALUE, text):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        problems.append(_pattern_message(message, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return problems


def qualified_name_problems(text: str) -> list[str]:
    """``[prefix/]name``: keys of labels and annotations, gates, condition types, resources."""
    pattern = _pattern_message(f"{_NAME_CHARS} character", _QUALIFIED, "MyName", "my.name", "123-abc")
    parts = text.split("/")
    if len(parts) > 2:
        with_prefix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {pattern}{with_prefix}"]
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {message}" for message in subdomain_problems(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _size(name) > _MAX_LABEL:
        problems.append(f"name part must be no more than {_MAX_LABEL} bytes")
    if not _matches(_QUALIFIED, name):
        problems.append(f"name part {pattern}")
    return problems


def port_name_problems(text: str) -> list[str]:
    """Name of a container port (API-121)."""
    problems: list[str] = []
    if _size(text) > _MAX_PORT_NAME:
        problems.append(f"must be no more than {_MAX_PORT_NAME} characters")
    if not _PORT_CHARS.fullmatch(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number_problems(number: int) -> list[str]:
    """Number of a port."""
    return [] if 1 <= number <= 65535 else [range_problem(1, 65535)]


def env_name_problems(text: str) -> list[str]:
    """Name of an environment variable: any printable ASCII but ``=`` (API-123)."""
    if _ENV_NAME.fullmatch(text):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def config_key_problems(text: str) -> list[str]:
    """Key of a config map or a secret."""
    problems: list[str] = []
    if _size(text) > _MAX_SUBDOMAIN:
        problems.append(f"must be no more than {_MAX_SUBDOMAIN} characters")
    if not _matches(_CONFIG_KEY, text):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(_pattern_message(message, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def header_name_problems(text: str) -> list[str]:
    """Name of an HTTP header."""
    if _matches(_HEADER, text):
        return []
    message = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [_pattern_message(message, _HEADER, "X-Header-Name")]


def ip_problems(text: str) -> list[str]:
    """An IP address in canonical form (API-155)."""
    import ipaddress

    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text) and any(
        len(part) > 1 and part[0] == "0" for part in text.split(".")
    ):
        return ["must not have leading 0s"]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []
