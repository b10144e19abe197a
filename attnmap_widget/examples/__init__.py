"""Small grids and small trained models to look at, none of which needs the network.

>>> from attnmap_widget import AttentionMap, examples
>>> print(AttentionMap(*examples.grid()))
      the  cat  sat
 the 1.00 0.00 0.00
 cat 0.30 0.70 0.00
 sat 0.10 0.60 0.30

Importing this package imports no torch; `lesson` and `induction` do when they are called.
"""

from __future__ import annotations

from .grids import Grid, grid, pronoun
from .lesson import Lesson, lesson
from .repeats import WORDS, Induction, induction

__all__ = ["WORDS", "Grid", "Induction", "Lesson", "grid", "induction", "lesson", "pronoun"]
