"""What a capture's maps hold: weights, norms, rollout and masks, rebuilt when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import aggregates
from ..errors import ShapeError
from . import assemble
from .calls import AttentionCall, Head
from .layer_rows import LayerRows
from .sequences import Sequences


class Maps(Sequences):
    """The part of a `Capture` that reads its maps."""

    @property
    def layers(self) -> list[int]:
        """See `Capture.layers`."""
        raise NotImplementedError

    def kinds(self, layer: int) -> list[str]:
        """See `Capture.kinds`."""
        raise NotImplementedError

    def batch_size(self, layer: int, kind: str | None = None) -> int:
        """See `Capture.batch_size`."""
        raise NotImplementedError

    def _of_layer(self, layer: int) -> list[AttentionCall]:
        raise NotImplementedError

    def weights(  # noqa: PLR0917 (the public signature)
        self,
        layer: int,
        head: Head,
        batch: int = 0,
        kind: str | None = None,
        step: int | None = None,
        queries: slice = slice(None),
        keys: slice = slice(None),
        *,
        beam_indices: Any = None,
    ) -> Tensor:
        """Softmax weights, float32 on the CPU: ([heads,] queries, keys).

        ``head``: a number, "mean" or "max" over the heads, or None for all. ``step``: one forward
        of several; None puts the steps of a generate into one map with true positions, where keys
        that did not exist yet are NaN, and refuses steps that make no common map (ValueError).
        Drafts that were rejected (assisted, prompt-lookup decoding) have no rows.

        ``beam_indices``: after beam search, what ``generate`` returned under that name. ``batch``
        is then a returned sequence, and each of its rows is taken from the beam that gave it.
        """
        turns = self._turns(layer, kind, step, batch, beam_indices)
        return self._read(AttentionCall.weights, turns, head, queries, keys)

    def value_norms(  # noqa: PLR0917 (as `weights`)
        self,
        layer: int,
        head: Head,
        batch: int = 0,
        kind: str | None = None,
        step: int | None = None,
        queries: slice = slice(None),
        keys: slice = slice(None),
        *,
        beam_indices: Any = None,
    ) -> Tensor:
        """‖αᵢⱼ·vⱼ‖, how much each key adds to the head's output; float32 ([heads,] queries, keys).

        Arguments are those of `weights`; see `AttentionCall.value_norms`.
        """
        turns = self._turns(layer, kind, step, batch, beam_indices)
        return self._read(AttentionCall.value_norms, turns, head, queries, keys)

    def rollout(
        self,
        batch: int = 0,
        kind: str | None = None,
        upto: int | None = None,
        *,
        beam_indices: Any = None,
    ) -> Tensor:
        """How much of each input position arrives at each position after the layers up to `upto`.

        Attention rollout (Abnar & Zuidema 2020) of the mean over each layer's heads: float32
        (queries, keys), rows sum to 1. `upto` None is the last layer, `kind`, `batch` and
        `beam_indices` are as for `weights`; layers without that kind are left out.

        Raises ValueError for a layer or kind that does not exist, and ShapeError for cross
        attention and other maps that are no square over one common list of tokens, and for rows
        without a valid key.
        """
        layers = [n for n in self.layers if kind is None or kind in self.kinds(n)]
        if not layers:
            self.find(self.layers[0], kind)  # says which kinds there are
        if upto is not None:
            self._of_layer(upto)
            layers = [layer for layer in layers if layer <= upto]
        if not layers:
            raise ValueError(f"upto={upto!r}: no layer up to it has kind {kind!r}")
        items = {layer: self.batch_size(layer, kind) for layer in layers}
        if len(set(items.values())) > 1:
            raise ShapeError(
                f"rollout: layers have different batch items ({items}), as windows do: their "
                "positions are not those of one common list"
            )
        found = aggregates.rollout(
            self._for_rollout(layer, batch, kind, beam_indices) for layer in layers
        )
        return torch.from_numpy(found)

    def _for_rollout(self, layer: int, batch: int, kind: str | None, beam_indices: Any) -> Any:
        calls = self.find(layer, kind)
        if calls[0].cross:
            raise ShapeError(
                f"rollout: layer {layer} is cross attention; its queries and keys are different "
                "lists, so layers cannot be multiplied up"
            )
        weights = self.weights(layer, "mean", batch, kind, beam_indices=beam_indices)
        if len(calls) > 1:  # a key that did not exist yet had no weight at that step
            some = ~weights.isnan().all(1, keepdim=True)
            weights = torch.where(some, weights.nan_to_num(), weights)
        return weights.numpy()

    def allowed(
        self,
        layer: int,
        head: int | str = 0,
        batch: int = 0,
        kind: str | None = None,
        step: int | None = None,
        *,
        beam_indices: Any = None,
    ) -> Tensor | None:
        """Where the model's own mask lets a query look at a key: bool (queries, keys), or None.

        None: not known, or nothing is masked. For "mean" and "max" it is the first head's. In a
        map of several steps, keys that did not exist yet count as allowed (their weight is NaN).
        """
        index = 0 if head in ("mean", "max") else head
        turns = self._turns(layer, kind, step, batch, beam_indices)
        if len(turns) == 1:
            call, item = turns[0]
            return call.allowed(index, item)  # type: ignore[arg-type]
        return assemble.assembled_mask(self._placed(turns), index)  # type: ignore[arg-type]

    def rows(
        self,
        layer: int,
        kind: str | None = None,
        batch: int = 0,
        step: int | None = None,
        *,
        beam_indices: Any = None,
    ) -> LayerRows:
        """All heads of one layer, to be read in bands of rows, with the positions of the rows."""
        turns = self._turns(layer, kind, step, batch, beam_indices)
        if len(turns) > 1:
            return LayerRows.assembled(self._placed(turns))
        whole = self._turns(layer, kind, None, batch, beam_indices)
        try:
            placed = self._placed(whole) if len(whole) > 1 else None
        except ValueError:  # runs of their own, which have no place in a common sequence
            placed = None
        return LayerRows.single(*turns[0], placed)

    def _read(
        self,
        read: Callable[..., Tensor],
        turns: list[assemble.Turn],
        head: Head,
        queries: slice,
        keys: slice,
    ) -> Tensor:
        if len(turns) == 1:
            call, item = turns[0]
            return read(call, head, item, queries, keys)
        return assemble.assembled(self._placed(turns), head, queries, keys, read)
