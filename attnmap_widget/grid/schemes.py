"""Colour schemes by their d3-scale-chromatic names, as tables the front end uses too."""

from __future__ import annotations

import difflib
import json
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import assets

SEQUENTIAL_DEFAULT = "Blues"
DIVERGING_DEFAULT = "RdBu"


class Scheme(NamedTuple):
    """One colour scheme."""

    name: str
    diverging: bool
    ramp: NDArray[np.uint8]
    """(256, 3) red, green, blue, from low to high."""


@cache
def _tables() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = json.loads(assets.text("schemes.json"))
    return tables


def find(name: str) -> Scheme:
    """The scheme of that name, whatever its case; ValueError with the close matches if unknown."""
    if not isinstance(name, str):
        raise TypeError(f"scheme: got {name!r}, expected the name of a scheme")
    by_lower = {known.lower(): known for known in _tables()}
    known = by_lower.get(name.lower())
    if known is None:
        close = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
        hint = ", ".join(by_lower[match] for match in close) or ", ".join(by_lower.values())
        raise ValueError(f"scheme: {name!r} is not known; {'close' if close else 'known'}: {hint}")
    return _scheme(known)


@cache
def _scheme(known: str) -> Scheme:
    table = _tables()[known]
    ramp = np.frombuffer(bytes.fromhex(table["ramp"]), dtype=np.uint8).reshape(256, 3)
    return Scheme(known, table["kind"] == "diverging", ramp)
