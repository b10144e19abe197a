"""A pandas DataFrame as what a map takes."""

from __future__ import annotations

from typing import Any

import numpy as np


def inputs(frame: Any) -> dict[str, Any]:
    """tokens, queries and weights of a DataFrame: its columns, its index, its numbers.

    Missing numbers are cells without a weight. Where index and columns are the same, the map has
    one list of tokens. TypeError for what is no DataFrame.
    """
    if not (hasattr(frame, "columns") and hasattr(frame, "index") and hasattr(frame, "to_numpy")):
        raise TypeError(f"df: got {type(frame).__name__}, expected a pandas DataFrame")
    keys, queries = (list(map(_token, labels)) for labels in (frame.columns, frame.index))
    numbers = frame.to_numpy(dtype=np.float32, na_value=np.nan)
    weights = [[None if np.isnan(weight) else weight for weight in row] for row in numbers]
    return {"tokens": keys, "queries": None if queries == keys else queries, "weights": weights}


def _token(label: Any) -> Any:
    return label if isinstance(label, (str, bytes, int, np.integer)) else str(label)
