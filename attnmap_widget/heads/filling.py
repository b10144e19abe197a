"""Reading all heads one by one: of each, once, a thumbnail and its numbers."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..exploring import captions, choosing, steps
from ..exploring.sources import CaptureSource, Choice, Extraction, Source, StackSource
from ..grid.arrays import ArraySource, Masks, is_mapped
from ..grid.axes import PLAIN, Given
from ..grid.long import LongHead
from ..grid.states import State, StateGrid, cell_states, forbidden_cells
from ..grid.weights import BoolGrid, FloatGrid, accept, shape_of
from ..passes import Cancelled
from .measuring import COLUMNS, Measuring, bands, measure
from .places import Places
from .sheet import Known, Sheet
from .summarizing import placed, tokens_of, where_it_stands
from .summary import HeadSummary
from .thumbnails import Thumbnail, side, thumbnail

if TYPE_CHECKING:
    from ..exploring.explorer import AttentionExplorer

_WHOLE = 1 << 24
"""Cells of a head that is read whole; of a longer one a sample of the queries is."""


class Look(NamedTuple):
    """How all heads are to be looked at: what an explorer or its map was told."""

    tokens: Any = None
    queries: Any = None
    own_mask: bool = True
    """Whether each head is read with the mask that the model used."""
    mask: BoolGrid | None = None
    causal: bool = False
    query_offset: int = 0
    positions: Given | None = None
    padding: tuple[BoolGrid, BoolGrid | None] | None = None
    own_padding: bool = False
    """Whether each head is read with the padding that the model was told of."""
    exclude_keys: tuple[int, ...] = ()


class Seen(NamedTuple):
    """One head as it was read."""

    small: Thumbnail
    numbers: dict[str, float]
    known: Known


class Filling:
    """The heads of one kind, batch item and step of a source, and those that have been read.

    Any thread may ask for the next head; they take turns.
    """

    def __init__(
        self, source: Source, kind: str | None, batch: int, step: int | None, look: Look
    ) -> None:
        self.source, self.look = source, look
        self.kind, self.batch, self.step = kind, batch, step
        self.rows = [
            (layer, source.offer(layer, kind).heads)
            for layer in source.layers
            if kind is None or kind in source.offer(layer, None).kinds
        ]
        self.heads = [(layer, head) for layer, heads in self.rows for head in range(heads)]
        self.places = {place: index for index, place in enumerate(self.heads)}
        self.sheet = Sheet(len(self.heads), list(COLUMNS))
        self.errors: dict[int, str] = {}
        self.shapes: set[tuple[int, int]] = set()
        self.pooled: tuple[int, int] = (1, 1)
        """The coarsest of all thumbnails."""
        self._longest = side(len(self.heads))
        self._left = deque(range(len(self.heads)))
        self._turn = threading.Lock()
        self._fresh: deque[int] = deque()
        self.whole = threading.Event()
        """Set once all heads have been read."""

    @property
    def done(self) -> int:
        """How many heads have been read."""
        return len(self.heads) - len(self._left)

    @property
    def sampled(self) -> bool:
        """Whether some heads are so long that only a part of them was read."""
        return bool((self.sheet.known == Known.SAMPLE).any())

    def read_next(self, cancelled: Cancelled = lambda: False) -> bool:
        """Read one more head; False if there was none left, or it was cancelled."""
        with self._turn:
            if not self._left or cancelled():
                return False
            index = self._left[0]
            try:
                seen = self._see(*self.heads[index])
            except Exception as failure:  # noqa: BLE001 - it belongs in that head's place
                self.errors[index] = str(failure) or repr(failure)
                self.sheet.known[index] = Known.ERROR
            else:
                if cancelled():
                    return False
                self.sheet.put(index, *seen)
                self.shapes.add(seen.small.shape)
                self.pooled = max(self.pooled, seen.small.pooled)
            self._left.popleft()
            self._fresh.append(index)
            if not self._left:
                self.whole.set()
            return True

    @contextmanager
    def in_one_thread(self) -> Iterator[None]:
        """Read the heads of a capture as `one_thread_for` does; those of others as they are."""
        if not isinstance(self.source, CaptureSource):
            yield
            return
        from ..capturing.workers import one_thread_for

        with one_thread_for(self._largest(self.source)):
            yield

    def _largest(self, source: CaptureSource) -> int:
        """Cells of the largest head."""
        calls = (source.capture.find(layer, self.kind) for layer, _ in self.rows)
        return max(math.prod(map(int, call.shape[2:])) for found in calls for call in found)

    def take_fresh(self) -> list[int]:
        """The heads that were read since the last time."""
        return [self._fresh.popleft() for _ in range(len(self._fresh))]

    def same_as(self, other: Filling) -> bool:
        """Whether these are the same heads, looked at in the same way."""
        one, two = ((f.source, f.kind, f.batch, f.step, *f.look[2:]) for f in (self, other))
        return all(map(_same, one, two))

    def summary(self) -> HeadSummary:
        """The numbers of all heads; those that were not read are NaN."""
        layers, heads = zip(*self.heads, strict=True)
        values = {name: self.sheet.numbers[:, at] for at, name in enumerate(COLUMNS)}
        return HeadSummary(layers, heads, values)

    # -- one head -------------------------------------------------------------------------------

    def _see(self, layer: int, head: int) -> Seen:
        offer = self.source.offer(layer, self.kind)
        if self.batch >= offer.items:
            raise ValueError(f"layer {layer} has {offer.items} batch items, no item {self.batch}")
        choice = Choice(layer, head, self.kind, self.batch, self.step)
        found = self.source.read(choice)
        if isinstance(found.weights, LongHead):
            return self._see_long(choice, found.weights)
        shape = shape_of(found.weights)
        if len(shape) != 2:
            raise ShapeError(f"weights: got shape {shape}, expected one grid (queries, keys)")
        if is_mapped(found.weights):
            masks = self._masks(found, (shape[0], shape[1]))
            return self._see_long(choice, ArraySource(np.asarray(found.weights), masks))
        values, missing = accept(found.weights, *shape)
        states = self._states(choice, found, values, missing)
        small = thumbnail(values, states, self._longest, exclude_keys=self._excluded(shape))
        numbers = measure(values, mask=self._mask(found, shape), **self._where(choice, found))
        return Seen(small, numbers, Known.ALL)

    def _states(
        self, choice: Choice, found: Extraction, values: FloatGrid, missing: BoolGrid
    ) -> StateGrid:
        not_yet = None
        if self.look.own_mask and self.step is None and found.at is not None:
            not_yet = captions.not_yet(values)
        masks = self._masks(found, (values.shape[0], values.shape[1]))
        return cell_states(
            values,
            missing,
            mask=masks.mask,
            causal=masks.causal,
            query_positions=masks.query_positions,
            key_positions=masks.key_positions,
            padding=masks.padding,
            not_yet=not_yet,
        )

    def _masks(self, found: Extraction, shape: tuple[int, int]) -> Masks:
        """What decides a cell's state beside its weight."""
        look, mask = self.look, self.look.mask
        if look.own_mask:
            mask = None if found.allowed is None else np.asarray(found.allowed, dtype=bool)
        elif mask is not None and mask.shape != shape:
            raise ShapeError(f"mask: got shape {mask.shape}, this head has {shape}")
        padding = self._padding(found)
        _refuse_misfit(padding, shape)
        at = placed(look, shape) if look.causal else PLAIN
        return Masks(mask, look.causal, padding, at.queries, at.keys)

    def _mask(self, found: Extraction, shape: tuple[int, ...]) -> BoolGrid | None:
        """Where the numbers let a query look: as the model did, else as the map was told."""
        if isinstance(self.source, CaptureSource):
            return None if found.allowed is None else np.asarray(found.allowed, dtype=bool)
        look = self.look
        at = placed(look, shape) if look.causal else PLAIN
        forbidden = forbidden_cells(
            shape,
            mask=look.mask,
            causal=look.causal,
            query_positions=at.queries,
            key_positions=at.keys,
        )
        return None if forbidden is None else ~forbidden

    def _padding(self, found: Extraction) -> tuple[Any, Any] | None:
        """Of the (keys, queries): bool, True = padding; None for a side that has none."""
        if not self.look.own_padding:
            return self.look.padding
        padding = found.padding
        return padding and steps.padding_of(padding, shape_of(found.weights))

    def _where(self, choice: Choice, found: Extraction) -> dict[str, Any]:
        """What `Places.of` has to know of the rows and columns, as `explorer.summary()` has it."""
        look, source = self.look, self.source
        padding = self._padding(found)
        where: dict[str, Any] = {
            "tokens": captions.key_tokens(source, choice, found, look.tokens, look.queries),
            "padding": padding[0] if padding is not None and padding[1] is None else padding,
        }
        if isinstance(source, CaptureSource):
            part = source.rows(choice)
            offsets = {"query_offset": part.query_offset, "key_offset": part.key_offset}
            return {**where, **offsets, "cross": part.call.cross}
        own_rows = look.queries is not None
        stands = where_it_stands(choice, found, look, where["padding"], own_rows=own_rows)
        return {**where, **stands}

    def _excluded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(key for key in self.look.exclude_keys if key < shape[1])

    def _see_long(self, choice: Choice, head: LongHead | ArraySource) -> Seen:
        """A head that is not held: whole up to `_WHOLE` cells, else a sample of its queries."""
        queries, keys = head.shape
        found = Extraction(head if isinstance(head, LongHead) else head.array)
        measuring = Measuring(Places.of(head.shape, **self._where(choice, found)))
        if math.prod(head.shape) <= _WHOLE:
            values, states = head.window((0, queries, 0, keys))
            excluded = self._excluded(head.shape)
            small = thumbnail(values, states, self._longest, exclude_keys=excluded)
            for rows in bands(head.shape):
                measuring.add(rows, values[rows], states[rows] != State.CANNOT_LOOK)
            return Seen(small, measuring.result(), Known.ALL)
        look = head.first_look()
        tile = look.survey.overview
        small = thumbnail(tile.values, tile.states, self._longest, scale=tile.bin)
        step = round(1 / look.survey.read)
        for row in range((queries - 1) % step, queries, step):
            values, states = head.window((row, row + 1, 0, keys))
            measuring.add(slice(row, row + 1), values, states != State.CANNOT_LOOK)
        return Seen(small._replace(shape=head.shape), measuring.result(), Known.SAMPLE)


def _refuse_misfit(padding: tuple[Any, Any] | None, shape: tuple[int, ...]) -> None:
    if padding is None:
        return
    keys, queries = padding
    if len(keys) != shape[1] or (queries is not None and len(queries) != shape[0]):
        raise ShapeError(f"padding: the map's does not fit this head of {shape}")


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return one is two or (one is not None and two is not None and np.array_equal(one, two))
    return bool(one is two or one == two)


def of_explorer(explorer: AttentionExplorer) -> Filling:
    """The heads of the kind, item and step that it shows, looked at as its map was told."""
    options = explorer._options
    own_mask = explorer._own_mask and isinstance(explorer._source, CaptureSource)
    look = Look(
        *tokens_of(explorer),
        own_mask=own_mask,
        mask=None if own_mask else options.mask,
        causal=options.causal,
        query_offset=options.query_offset,
        positions=options.positions,
        padding=options.padding,
        own_padding=explorer._drawn.own_padding,
        exclude_keys=options.exclude_keys,
    )
    return Filling(explorer._source, explorer.kind, explorer.batch, explorer.step, look)


def of_source(source: Source, look: Look, wanted: dict[str, Any]) -> Filling:
    """The heads of the kind, item and step that are wanted; raises as an explorer does."""
    choice = choosing.choose(source, wanted)
    if isinstance(source, StackSource):
        captions.refuse_misfit(source, choice, look.tokens, look.queries)
    return Filling(source, choice.kind, choice.batch, choice.step, look)
