"""All heads of one layer, read in bands of rows: for what looks at every weight, but once."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from . import assemble
from .calls import AttentionCall


@dataclass(frozen=True, slots=True)
class LayerRows:
    """One batch item of a layer: one call, or the steps of a generation in one map."""

    call: AttentionCall
    """The only call, or the first of `placed`."""
    item: int
    """Of the call's batch."""
    shape: tuple[int, int]
    """(queries, keys), without drafts that were rejected."""
    query_offset: int | None
    """Position of row 0 in the sequence; None where it is not known, and for cross attention."""
    key_offset: int = 0
    """Position of key 0."""
    placed: list[assemble.Placed] | None = None
    """Several calls with their positions."""

    @classmethod
    def assembled(cls, placed: list[assemble.Placed]) -> LayerRows:
        """The rows of all steps, each at its position."""
        first, rows = placed[0], assemble.rows_of(placed)
        shape = len(rows), len(assemble.keys_of(placed))
        return cls(
            first.call, first.item, shape, None if first.call.cross else rows.start, 0, placed
        )

    @classmethod
    def single(
        cls, call: AttentionCall, item: int, placed: list[assemble.Placed] | None
    ) -> LayerRows:
        """The rows of one call; `placed` are all steps of its layer, where they make a map."""
        shape = call.shape[2:]
        if call.cross:
            return cls(call, item, shape, None)
        for step in placed or ():
            if step.call is call:
                # A sliding cache holds the last keys only; empty slots may come before the first.
                return cls(call, item, (step.rows, step.keys), step.query, step.key)
        return cls(call, item, shape, _offset(call, item))

    def weights(self, head: int, rows: slice) -> Tensor:
        """(rows, keys) float32 on the CPU, NaN where there is no weight."""
        if self.placed is None:
            return self.call.weights(head, self.item, rows, slice(self.shape[1]))
        return assemble.assembled(self.placed, head, rows, slice(None))

    def allowed(self, head: int, rows: slice) -> Tensor | None:
        """Where the mask lets these rows look: bool (rows, keys); None: not known, or anywhere."""
        if self.placed is None:
            found = self.call.allowed(head, self.item, rows)
            return None if found is None else found[:, : self.shape[1]]
        return assemble.assembled_mask(self.placed, head, rows)


def _offset(call: AttentionCall, batch: int) -> int | None:
    """Where the rows of one call begin among its keys, if there is no doubt.

    More keys than queries may be a cache that precedes them, or extra keys at the end (a bias, a
    zero): a causal mask tells.
    """
    _, _, queries, keys = call.shape
    ahead = keys - queries
    if not ahead:
        return 0
    if ahead < 0 or queries == 1:
        return None
    for row in (0, queries - 1):
        allowed = call.allowed(0, batch, slice(row, row + 1))
        if allowed is None and row == queries - 1:
            continue  # the last row may look everywhere
        if allowed is None or not allowed[0, row + ahead] or allowed[0, row + ahead + 1 :].any():
            return None
    return ahead
