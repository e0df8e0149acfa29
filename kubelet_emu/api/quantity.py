"""Resource quantities with the exact grammar, rounding and text of the API. (pure)

A value is a whole number of nano-units, so no float is ever involved; what is finer is rounded away from zero
(API-192). The format (decimal, binary, exponent) is remembered and decides the text (API-193). Text that the
API server would echo unchanged although it is not canonical is kept (API-194); arithmetic drops it.
API-190 to API-197.
"""

import re
from enum import StrEnum
from typing import Any, Final

from kubelet_emu.errors import CallerError

__all__ = ["Quantity", "QuantityError", "QuantityFormat"]

_FORMAT_MESSAGE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX_MESSAGE = "unable to parse quantity's suffix"
_NUMERIC_MESSAGE = "unable to parse numeric part of quantity"

_NANO: Final = 10**9
_MAX_BINARY_NANOS: Final = (2**63 - 1) * _NANO
_SCANNER = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*(?:[-+]?[0-9]*))")
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)")
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_FAST_DIGITS: Final = 18
_MAX_EXPONENT: Final = 10_000
"""A bound on decimal exponents; without one, a short text could ask for a number of any size."""


class QuantityFormat(StrEnum):
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(CallerError):
    """Raised for a text that is no quantity (API-191)."""


def _away_from_zero(numerator: int, denominator: int) -> int:
    quotient = -(-abs(numerator) // denominator)
    return -quotient if numerator < 0 else quotient


def _interpret(suffix: str) -> tuple[int, int, QuantityFormat]:
    """(base, exponent, format) of a suffix."""
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], QuantityFormat.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(int(match[1])) > _MAX_EXPONENT:
        raise QuantityError(_SUFFIX_MESSAGE)
    return 10, int(match[1]), QuantityFormat.DECIMAL_EXPONENT


def _echoed(digits: str, fraction: str, base: int, exponent: int) -> bool:
    """Whether the parser keeps the text as it was written (API-194)."""
    if base == 2:
        precision = 15 - len(digits) - exponent * 3 // 10 - 1
        return not fraction and precision >= 0 and int(digits) % 8 != 0
    if len(digits) + len(fraction) > _MAX_FAST_DIGITS:
        return False
    scale = exponent - len(fraction)
    shifted = digits + fraction
    return scale >= -9 and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


def _parse(text: str) -> tuple[int, QuantityFormat, str]:
    """(nanos, format, echoed text or empty)."""
    if not text:
        raise QuantityError(_FORMAT_MESSAGE)
    match = _SCANNER.fullmatch(text)
    if match is None:
        raise QuantityError(_FORMAT_MESSAGE)
    sign, digits, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    base, exponent, kind = _interpret(suffix)
    echoed = text if _echoed(digits, fraction, base, exponent) else ""
    shifted = int(digits + fraction)
    if base == 2:
        nanos = _away_from_zero((shifted << exponent) * _NANO, 10 ** len(fraction))
        nanos = min(nanos, _MAX_BINARY_NANOS)
        if 0 < nanos < _NANO:
            kind = QuantityFormat.DECIMAL_SI
    else:
        power = exponent - len(fraction) + 9
        nanos = shifted * 10**power if power >= 0 else _away_from_zero(shifted, 10**-power)
    return (-nanos if sign == "-" else nanos), kind, echoed


class Quantity:
    """An exact amount of a resource. Equality, order and hash are those of the value; format does not count.

    ``Quantity("1.5Gi")`` and ``Quantity(2)`` make one; malformed text raises ``QuantityError``. Immutable.
    """

    __slots__ = ("_text", "format", "nanos")

    nanos: int
    """The value in units of 10^-9."""
    format: QuantityFormat
    _text: str

    def __init__(
        self, value: "str | int | Quantity" = 0, format: QuantityFormat = QuantityFormat.DECIMAL_SI
    ) -> None:
        if isinstance(value, str):
            nanos, format, text = _parse(value)
        elif isinstance(value, Quantity):
            nanos, format, text = value.nanos, value.format, value._text
        else:
            nanos, text = value * _NANO, ""
        object.__setattr__(self, "nanos", nanos)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "_text", text)

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """The quantity that ``text`` denotes; raises ``QuantityError`` if it denotes none."""
        return cls(text)

    @classmethod
    def from_nanos(cls, nanos: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> "Quantity":
        """The quantity of ``nanos`` units of 10^-9."""
        made = cls(0, format)
        object.__setattr__(made, "nanos", nanos)
        return made

    @classmethod
    def from_milli(cls, milli: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> "Quantity":
        """The quantity of ``milli`` units of 10^-3."""
        return cls.from_nanos(milli * 10**6, format)

    @classmethod
    def from_json(cls, value: object) -> "Quantity":
        """Read a JSON string, number or null (API-195); raises ``QuantityError`` for anything else."""
        if value is None:
            return cls(0)
        if isinstance(value, str):
            return cls(value.strip(" \t\r\n"))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise QuantityError(_FORMAT_MESSAGE)
        return cls(str(value) if isinstance(value, int) else repr(value))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Quantity cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Quantity cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return Quantity, (self._text,) if self._text else (str(self),)

    @property
    def sign(self) -> int:
        return (self.nanos > 0) - (self.nanos < 0)

    def value(self) -> int:
        """Whole units, rounded away from zero (API-196)."""
        return _away_from_zero(self.nanos, _NANO)

    def milli_value(self) -> int:
        """Thousandths, rounded away from zero (API-196)."""
        return _away_from_zero(self.nanos, 10**6)

    def scaled_value(self, scale: int) -> int:
        """Units of 10^scale, rounded away from zero; ``scale`` is -9 or more."""
        return _away_from_zero(self.nanos, 10 ** (scale + 9))

    def round_up(self, scale: int) -> "Quantity":
        """Rounded away from zero to a multiple of 10^scale; itself if it already is one (API-196)."""
        unit = 10 ** (scale + 9)
        if self.nanos % unit == 0:
            return self
        return Quantity.from_nanos(_away_from_zero(self.nanos, unit) * unit, self.format)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: "Quantity") -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: "Quantity") -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: "Quantity") -> bool:
        return self.nanos >= other.nanos

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity.from_nanos(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity.from_nanos(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity.from_nanos(-self.nanos, self.format)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity.from_nanos(self.nanos * factor, self.format)

    def __str__(self) -> str:
        return self._text or self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def canonical(self) -> str:
        """The canonical text of value and format (API-193)."""
        if self.nanos == 0:
            return "0"
        whole, rest = divmod(self.nanos, _NANO)
        if self.format is QuantityFormat.BINARY_SI and rest == 0 and abs(whole) >= 1024:
            power = 0
            while power < 6 and whole % 1024 == 0:
                whole //= 1024
                power += 1
            return f"{whole}{_BINARY_NAMES[power]}"
        number, exponent = self.nanos, -9
        exponential = self.format is QuantityFormat.DECIMAL_EXPONENT
        while number % 1000 == 0 and (exponential or exponent < 18):
            number //= 1000
            exponent += 3
        if exponential:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_NAMES[exponent]}"
