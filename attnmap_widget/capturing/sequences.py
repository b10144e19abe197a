"""Where the rows and keys of a capture's maps stand in their texts, and which tokens these are."""

from __future__ import annotations

from typing import Any

from ..exploring.beams import chains
from . import assemble, beams, inputs
from .calls import AttentionCall, as_index
from .recorder import Recorder


class Sequences:
    """The part of a `Capture` that knows of steps, beams, token ids and padding."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, int], ...], list[assemble.Placed]] = {}

    def find(self, layer: int, kind: str | None = None) -> list[AttentionCall]:
        """See `Capture.find`."""
        raise NotImplementedError

    def _need(self) -> Recorder:
        raise NotImplementedError

    def _calls(self) -> list[AttentionCall]:
        raise NotImplementedError

    def positions(
        self,
        layer: int,
        batch: int = 0,
        kind: str | None = None,
        step: int | None = None,
        *,
        beam_indices: Any = None,
    ) -> tuple[range, range] | None:
        """Positions in their sequences of the rows and of the keys that ``weights`` gives.

        The keys of a sliding cache are the last ones; the row of a step of generate is the token
        it was given. None: one step of several that have no common order, and not a whole text.
        """
        turns = self._turns(layer, kind, step, batch, beam_indices)
        whole = self._turns(layer, kind, None, batch, beam_indices)
        if len(whole) == 1:
            return range(turns[0][0].shape[2]), range(turns[0][0].shape[3])
        try:
            placed = self._placed(whole)
        except ValueError:
            if len(turns) == len(whole):
                raise
            _, _, queries, keys = turns[0][0].shape
            alone = queries == keys and not turns[0][0].cross
            return (range(queries), range(keys)) if alone else None
        if len(turns) == len(whole):
            return assemble.rows_of(placed), assemble.keys_of(placed)
        one = next(found for found in placed if found.call is turns[0][0])
        _, _, rows, keys = one.call.shape
        return range(one.query, one.query + rows), range(one.key, one.key + keys)

    def step_rows(
        self, layer: int, batch: int = 0, kind: str | None = None, *, beam_indices: Any = None
    ) -> list[range]:
        """Positions of the rows of each step; empty where there is one, or no common order.

        Without drafts that were rejected, which ``weights`` of that step alone still has.
        """
        turns = self._turns(layer, kind, None, batch, beam_indices)
        try:
            placed = self._placed(turns) if len(turns) > 1 else []
        except ValueError:
            return []
        return [range(step.query, step.query + step.rows) for step in placed]

    def ids(
        self,
        layer: int,
        batch: int = 0,
        kind: str | None = None,
        step: int | None = None,
        *,
        beam_indices: Any = None,
    ) -> tuple[list[int | None] | None, list[int | None] | None]:
        """Token ids by position, (of the inputs, of what a decoder was given), as they were run.

        Of all steps, also those after ``step``; of that step alone where there is no common order.
        None where the model was given none, or no tokens make this kind of attention. The token
        that was generated last is not among them: it was never run.
        """
        turns = self._turns(layer, kind, None, batch, beam_indices)
        found: list[list[int | None] | None] = []
        for name, rows in inputs.names_of(turns[0][0], self._inputs):
            if name is None:
                found.append(None)
            elif not rows or len(turns) == 1:
                call = turns[0][0]
                count = call.shape[2 if rows and call.cross else 3]
                found.append(inputs.row(self._inputs, name, turns[0], count))
            else:
                try:
                    placed = self._placed(turns)
                except ValueError:
                    turn = self._turns(layer, kind, step, batch, beam_indices)[0]
                    keys = turn[0].shape[3]
                    alone = step is not None
                    ids = inputs.row(self._inputs, name, turn, keys, step) if alone else None
                    found.append(ids)
                else:
                    found.append(inputs.ids_of_steps(self._inputs, name, placed))
        return found[0], found[1]

    def padding(
        self,
        layer: int,
        batch: int = 0,
        kind: str | None = None,
        step: int | None = None,
        *,
        beam_indices: Any = None,
    ) -> tuple[list[bool] | None, list[bool] | None]:
        """(of the keys, of the queries) True where the model's attention mask says padding.

        None where no mask was given, or one without padding.
        """
        at = self.positions(layer, batch, kind, step, beam_indices=beam_indices)
        if at is None:
            return None, None
        turns = self._turns(layer, kind, None, batch, beam_indices)
        call = turns[0][0]
        keys, rows = inputs.masks_of(call, self._inputs)
        try:
            placed = self._placed(turns)
            ends = {one.call.step: one.query + one.call.shape[2] for one in placed}
        except ValueError:
            ends = {one.step: one.shape[3] for one, _ in turns if one.shape[2] == one.shape[3]}
        # Of the inputs a mask is given once, or with every step; of the own text it grows.
        one_text = keys == rows == inputs.MASK and len(turns) == 1
        whole = {one.step: call.shape[3] for one in self._inputs}
        lengths = whole if one_text or call.cross else ends
        return (
            inputs.padding(self._inputs, keys, turns[0], at[1], lengths),
            inputs.padding(self._inputs, rows, turns[0], at[0], ends),
        )

    @property
    def _inputs(self) -> list[inputs.Inputs]:
        return self._need().inputs

    def _turns(
        self, layer: int, kind: str | None, step: int | None, batch: int, beam_indices: Any
    ) -> list[assemble.Turn]:
        """The calls of a layer, one per step, each with the item of its batch to read."""
        calls = self.find(layer, kind)
        if beam_indices is None:
            item = calls[0]._index("batch item", batch, calls[0].shape[0])
            turns = [(call, item) for call in calls]
        else:
            most = max(call.shape[0] for call in self._calls())
            turns = beams.follow(calls, chains(beam_indices), batch, most)
        if step is None:
            return turns
        chosen = [turn for turn in turns if turn[0].step == as_index(step)]
        if not chosen:
            raise ValueError(f"step {step!r}: layer {layer} has {[c.step for c, _ in turns]}")
        return chosen

    def _placed(self, turns: list[assemble.Turn]) -> list[assemble.Placed]:
        """Positions of the steps, worked out once."""
        known = tuple((id(call), item) for call, item in turns)
        if known not in self._known:
            self._known[known] = self._place(turns)
        return self._known[known]

    def _place(self, turns: list[assemble.Turn]) -> list[assemble.Placed]:
        first = turns[0][0]
        title = f"layer {first.layer} ({first.kind})"
        if len({call.step for call, _ in turns}) < len(turns):
            raise ValueError(f"{title} has several calls in one step; read them from cap.calls")
        if not first.cross or len(turns) == 1:
            return assemble.place(turns, title)
        # Rows of the same steps of the same tower: what holds for its own keys holds here.
        own = [
            call for call in self._calls()
            if call.layer == first.layer and call.tower == first.tower
            and not call.cross and not call.effective and call.part == first.part
        ]  # fmt: skip
        by_step = {call.step: (call, item) for call, item in turns}
        if len({call.name for call in own}) != 1 or not by_step.keys() <= {c.step for c in own}:
            return assemble.place(turns, title)
        same = [(call, by_step[call.step][1]) for call in own if call.step in by_step]
        return assemble.beside(assemble.place(same, title), turns, title)
