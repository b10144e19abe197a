"""From captures and explorers to a `HeadSummary`: head after head, each in bands of rows."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import axes, captions
from .errors import ShapeError
from .measuring import Measuring, bands, measure
from .passes import Progress
from .places import Places, offsets
from .sources import CaptureSource
from .states import forbidden_cells
from .summary import HeadSummary
from .weights import BoolGrid, shape_of

if TYPE_CHECKING:
    from .capturing import Capture
    from .checked import Options
    from .explorer import AttentionExplorer
    from .filling import Look

_BETWEEN_REPORTS = 0.2
"""Seconds; more often nobody reads."""


def of_capture(
    cap: Capture,
    tokens: Any = None,
    *,
    kind: str | None = None,
    batch: int = 0,
    step: int | None = None,
    padding: Any = None,
    delimiters: Collection[Any] | None = None,
    query_offset: int | None = None,
    progress: Progress | None = None,
) -> HeadSummary:
    """See `Capture.summary`."""
    tokens = captions.listed(tokens)
    layers = [layer for layer in cap.layers if kind is None or kind in cap.kinds(layer)]
    if not layers:
        cap.find(cap.layers[0], kind)  # it says which there are
    if len(getattr(padding, "shape", ())) == 2:
        padding = padding[batch]
    tell = _Told(progress, sum(cap.heads(layer, kind) for layer in layers))
    rows = []
    for layer in layers:
        part = cap.rows(layer, kind, batch, step)
        keys = captions.of_item(tokens, batch)
        if keys is not None and cap.steps(layer, kind) > 1 and not part.call.cross:
            keys = _generated(keys, part.key_offset, part.shape[1], one_step=step is not None)
        offset = part.query_offset if query_offset is None else query_offset
        places = Places.of(
            part.shape,
            keys,
            padding=padding,
            delimiters=delimiters,
            query_offset=offset,
            key_offset=part.key_offset,
            cross=part.call.cross,
        )
        for head in range(cap.heads(layer, kind)):
            measuring = Measuring(places)
            for band in bands(part.shape):
                allowed = part.allowed(head, band)
                mask = None if allowed is None else allowed.numpy()
                measuring.add(band, part.weights(head, band).numpy(), mask)
                tell(band.stop / part.shape[0])
            rows.append({"layer": layer, "head": head, **measuring.result()})
    return HeadSummary.from_rows(rows)


def _generated(tokens: list[Any], start: int, keys: int, *, one_step: bool) -> list[Any]:
    """The keys' part of a generation's tokens: a sliding cache begins later than they do.

    What comes after one step is not in it; after all of them it is at most the token that was
    generated last and never looked.
    """
    there = tokens[start:]
    return there[:keys] if one_step or len(there) == keys + 1 else there


def of_explorer(
    explorer: AttentionExplorer,
    *,
    padding: Any = None,
    delimiters: Collection[Any] | None = None,
    progress: Progress | None = None,
) -> HeadSummary:
    """See `AttentionExplorer.summary`."""
    if progress is None:
        with _in_view(explorer) as shown:
            return of_explorer(explorer, padding=padding, delimiters=delimiters, progress=shown)
    source, choice = explorer._source, explorer._choice
    options = explorer.map._checked.options
    if padding is None and options.padding is not None:
        keys, queries = options.padding
        padding = keys if queries is None else (keys, queries)
    tokens = explorer._queries if choice.kind == "decoder" else explorer._tokens
    if isinstance(source, CaptureSource):
        return of_capture(
            source.capture,
            tokens,
            kind=choice.kind,
            batch=choice.batch,
            step=choice.step,
            padding=padding,
            delimiters=delimiters,
            query_offset=options.query_offset or None,
            progress=progress,
        )
    rows_of = explorer._queries
    heads = [
        choice._replace(layer=layer, head=head)
        for layer in source.layers
        for head in range(source.offer(layer, choice.kind).heads)
    ]
    tell, rows = _Told(progress, len(heads)), []
    for here in heads:
        weights = source.read(here, held=True).weights
        shape = shape_of(weights)
        numbers = measure(
            weights,
            None if tokens is None else captions.labels(source, here, shape, tokens, rows_of)[0],
            mask=_mask(options, shape),
            padding=padding,
            delimiters=delimiters,
            **standing(options, shape, padding, own_rows=rows_of is not None),
        )
        tell(1)
        rows.append({"layer": here.layer, "head": here.head, **numbers})
    return HeadSummary.from_rows(rows)


def standing(
    options: Options | Look, shape: tuple[int, ...], padding: Any, *, own_rows: bool
) -> dict[str, Any]:
    """What `measure` has to know of positions, from what a map was told of them."""
    keys, rows = options.positions or (None, None)
    told = options.causal or options.query_offset > 0 or rows is not None
    if keys is None and not told:
        # Rows with tokens of their own are of another sequence, unless it is said where.
        return {"query_offset": None, "cross": own_rows}
    found = offsets(placed(options, shape), (shape[0], shape[1]), padding)
    return {**found, "cross": found["cross"] or (own_rows and not told)}


def placed(options: Options | Look, shape: tuple[int, ...]) -> axes.Axes:
    """Where rows and columns stand; ShapeError if it was said of another number of them."""
    for name, given, count in zip(
        ("keys", "queries"), options.positions or (), shape[::-1], strict=False
    ):
        if given is not None and len(given) != count:
            raise ShapeError(f"positions: the map has {len(given)} of {name}, a head has {count}")
    return axes.resolve(options.positions, options.query_offset, shape[0])


def _mask(options: Options, shape: tuple[int, ...]) -> BoolGrid | None:
    """Where the map's options let a query look."""
    if options.mask is not None and options.mask.shape != shape:
        raise ShapeError(f"mask: got shape {options.mask.shape}, a head has {shape}")
    at = placed(options, shape)
    forbidden = forbidden_cells(
        shape,
        mask=options.mask,
        causal=options.causal,
        query_positions=at.queries,
        key_positions=at.keys,
    )
    return None if forbidden is None else ~forbidden


@contextmanager
def _in_view(explorer: AttentionExplorer) -> Iterator[Progress]:
    """Progress in the quiet line of the explorer's map, which then says what it said before."""
    before, told = explorer.map.status, time.monotonic()

    def tell(share: float) -> None:
        nonlocal told
        if time.monotonic() - told >= _BETWEEN_REPORTS:
            told = time.monotonic()
            explorer.map.status = f"measuring all heads: {share:.0%}"

    try:
        yield tell
    finally:
        explorer.map.status = before


class _Told:
    """Progress over all heads, from that of one head after the other."""

    def __init__(self, progress: Progress | None, heads: int) -> None:
        self._progress, self._heads, self._done = progress, heads, 0

    def __call__(self, of_head: float) -> None:
        if self._progress is not None:
            self._progress((self._done + of_head) / self._heads)
        self._done += of_head == 1
