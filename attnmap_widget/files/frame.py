"""A pandas DataFrame as what a map takes, and a map as a DataFrame."""

from __future__ import annotations

from typing import Any

import numpy as np

from .figure import Figure


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


def to_frame(figure: Figure) -> Any:
    """The whole grid as a DataFrame of float32, tokens raw as given, NaN where there is no weight.

    ImportError without pandas.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("to_frame needs pandas, which is not installed") from None
    checked = figure.checked
    return pd.DataFrame(
        np.array(checked.values), index=list(checked.rows), columns=list(checked.tokens)
    )


def _token(label: Any) -> Any:
    return label if isinstance(label, (str, bytes, int, np.integer)) else str(label)
