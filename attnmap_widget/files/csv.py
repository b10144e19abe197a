"""A map as a table: keys along the first line, a query a line."""

from __future__ import annotations

import csv
import io

import numpy as np

from ..grid import labels
from .figure import Figure


def to_csv(figure: Figure) -> str:
    """The whole grid as CSV, tokens raw as given, cells without a weight empty.

    Weights have as many digits as bring back the same float32. Line ends and quotes are those of
    RFC 4180, so tokens may hold commas, quotes and line breaks. The first field names the axes
    where they have names of their own.
    """
    checked = figure.checked
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    axes = checked.axes
    corner = "" if axes.attention else f"{axes.query_title} × {axes.key_title}"
    writer.writerow([corner, *map(labels.raw_text, checked.tokens)])
    for query, row in zip(checked.rows, checked.values, strict=True):
        cells = ["" if np.isnan(weight) else _digits(weight) for weight in row]
        writer.writerow([labels.raw_text(query), *cells])
    return out.getvalue()


def _digits(weight: np.float32) -> str:
    """The shortest text that reads back as this float32: 0.1, 1e-07, 0.33333334."""
    plain = weight == 0 or 1e-4 <= abs(weight) < 1e9
    shortest = np.format_float_positional if plain else np.format_float_scientific
    return shortest(weight, unique=True, trim="-")
