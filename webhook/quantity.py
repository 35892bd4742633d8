"""Kubernetes quantities to integers in base units: milli-CPU, bytes, counts. No I/O here."""

import re
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache

# The grammar of k8s.io/apimachinery/pkg/api/resource: a signed decimal number, then a binary or
# decimal suffix or an exponent.
_PATTERN = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,3})?", re.ASCII
)
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MAX = 2**63 - 1
_LONGEST = 64
_EXACT = Context(prec=64, rounding=ROUND_CEILING)


class QuantityError(ValueError):
    """A text that is not a Kubernetes quantity."""


@lru_cache(maxsize=4096)
def milli(text: str) -> int:
    """Return thousandths of the quantity, rounded up as the scheduler's MilliValue does."""
    return _scaled(text, 3)


def nano(text: str) -> int:
    """Return billionths of the quantity, as finely as a use is told."""
    return _scaled(text, 9)


@lru_cache(maxsize=4096)
def whole(text: str) -> int:
    """Return the quantity as an integer, rounded up as the scheduler's Value does."""
    return _scaled(text, 0)


def milli_text(value: int) -> str:
    """Write thousandths as a quantity: 250m, 2."""
    return f"{value}m" if value % 1000 else str(value // 1000)


def bytes_text(value: float) -> str:
    """Write bytes as a quantity of three or four digits: 512Mi, 1.5Gi. It may be rounded."""
    for suffix, power in reversed(_BINARY.items()):
        if abs(value) >= 1024**power:
            amount = value / 1024**power
            return f"{amount:.4g}{suffix}" if amount < 1000 else f"{amount:.0f}{suffix}"
    return f"{value:.0f}"


def _scaled(text: str, exponent: int) -> int:
    match = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"expected a quantity such as 250m, 2 or 1.5Gi, found {text[:40]!r}")
    number, suffix = match.groups()
    value = Decimal(number)
    if suffix in _BINARY:
        value = _EXACT.multiply(value, Decimal(1024 ** _BINARY[suffix]))
    elif suffix in _DECIMAL:
        exponent += _DECIMAL[suffix]
    elif suffix:
        exponent += int(suffix[1:])
    # More digits than an int64 can hold saturate, as in the Go library.
    if value.adjusted() + exponent > 19:
        return _MAX if value > 0 else -_MAX
    scaled = int(_EXACT.scaleb(value, exponent).to_integral_value(rounding=ROUND_CEILING))
    return max(-_MAX, min(_MAX, scaled))
