"""Numbers as the front end writes them (js/src/numbers.ts), so that files and screen agree.

The browser rounds an exact half up where Python's formats round it to even: 0.125 is "0.13".
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

_PLAIN_LIMIT = 1e15


def weight(value: float) -> str:
    """For read-outs: 0, 0.25, 0.0312, 1.23e-4, −0.10."""
    size = abs(value)
    if math.isnan(size):
        return "no weight"
    if size == 0:
        return "0"
    if size >= 1e6 or size < 1e-3:
        return _minus(value, _exponential(size, 3))
    return _minus(value, _significant(size, 3) if size < 0.1 else _fixed(size, 2))


def cell(value: float) -> str:
    """For cells: two decimals, and no minus before a rounded zero."""
    text = _fixed(abs(value), 2)
    return text if text == "0.00" else _minus(value, text)


def tick(value: float) -> str:
    """For the legend: 0, .25, .50, 1, 1.5, 1.2e-4."""
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-3 or size >= 1e5:
        return _minus(value, _exponential(size, 2).replace(".0e", "e"))
    text = _significant(size, 3 if size >= 100 else 2)
    if size < 1:
        text = text.removeprefix("0")
    elif text.endswith(".0"):
        text = text[:-2]
    return _minus(value, text)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    if 10 < number % 100 < 14:
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"


def count(number: int, one: str, many: str = "") -> str:
    """1 cell, 2 cells."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def every_nth(stride: int) -> str:
    """What an axis says on which not every label is written."""
    return f"every {ordinal(stride)} label" if stride > 1 else ""


def size_of(size: int) -> str:
    """Bytes as people say them: 640 kB, 1.2 MB, 91 GB."""
    for unit, digits in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.{1 if size < 10 * unit else 0}f} {digits}"
    return f"{max(1, round(size / 1000))} kB"


def _minus(value: float, text: str) -> str:
    return f"−{text}" if value < 0 else text


def _fixed(size: float, digits: int) -> str:
    if size >= _PLAIN_LIMIT:
        return _exponential(size, 3)
    return str(Decimal(size).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _rounded(size: float, digits: int) -> Decimal:
    """To so many significant digits; 9.996 has become 10.0 by then."""
    number = Decimal(size)
    for _ in range(2):
        number = number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1), ROUND_HALF_UP)
    return number


def _significant(size: float, digits: int) -> str:
    return f"{_rounded(size, digits):f}"


def _exponential(size: float, digits: int) -> str:
    number = _rounded(size, digits)
    exponent = number.adjusted()
    return f"{number.scaleb(-exponent):f}e{'+' if exponent >= 0 else '-'}{abs(exponent)}"
