"""From captures and explorers to a `HeadSummary`: head after head, each in bands of rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ShapeError
from ..exploring import captions
from ..exploring.combined import layers_of
from ..exploring.sources import CaptureSource, Choice, Extraction
from ..exploring.steps import padding_of, rows_of
from ..grid import axes
from ..grid.states import forbidden_cells
from ..grid.weights import BoolGrid, shape_of
from ..passes import Progress
from .measuring import Measuring, bands, measure
from .places import Places, offsets
from .summary import HeadSummary

if TYPE_CHECKING:
    from ..capturing import Capture
    from ..exploring.explorer import AttentionExplorer
    from ..grid.options import Options
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
    beam_indices: Any = None,
    own_padding: bool = False,
    progress: Progress | None = None,
) -> HeadSummary:
    """See `Capture.summary`. `own_padding`: what the model's own mask says is padding."""
    from ..capturing.workers import one_thread_for

    tokens = captions.listed(tokens)
    layers = [layer for layer in cap.layers if kind is None or kind in cap.kinds(layer)]
    if not layers:
        cap.find(cap.layers[0], kind)  # it says which there are
    if len(getattr(padding, "shape", ())) == 2:
        padding = padding[batch]
    tell = _Told(progress, sum(cap.heads(layer, kind) for layer in layers))
    rows = []
    for layer in layers:
        where = {"batch": batch, "kind": kind, "step": step, "beam_indices": beam_indices}
        part = cap.rows(layer, **where)
        if own_padding:
            padding = padding_of(cap.padding(layer, **where), part.shape)
        keys = None
        if tokens is not None:
            choice = Choice(layer, 0, part.call.kind, batch, step)
            seen = Extraction(part, at=CaptureSource(cap, beam_indices).positions(choice))
            rows_too = None if part.call.cross else tokens
            keys = captions.key_tokens(
                CaptureSource(cap, beam_indices), choice, seen, tokens, rows_too
            )
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
        with one_thread_for(math.prod(part.shape)):
            for head in range(cap.heads(layer, kind)):
                measuring = Measuring(places)
                for band in bands(part.shape):
                    allowed = part.allowed(head, band)
                    mask = None if allowed is None else allowed.numpy()
                    measuring.add(band, part.weights(head, band).numpy(), mask)
                    tell(band.stop / part.shape[0])
                rows.append({"layer": layer, "head": head, **measuring.result()})
    return HeadSummary.from_rows(rows)


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
    options = explorer._options
    tokens, queries = tokens_of(explorer)
    if isinstance(source, CaptureSource):
        own_padding = padding is None and explorer._drawn.own_padding
        return of_capture(
            source.capture,
            queries if choice.kind == "decoder" else tokens,
            kind=choice.kind,
            batch=choice.batch,
            step=choice.step,
            padding=padding if own_padding or padding is not None else _padding(options),
            delimiters=delimiters,
            query_offset=options.query_offset or None,
            beam_indices=source.beam_indices,
            own_padding=own_padding,
            progress=progress,
        )
    padding = _padding(options) if padding is None else padding
    heads = [
        choice._replace(layer=layer, head=head)
        for layer in layers_of(source, choice.kind)
        for head in range(source.offer(layer, choice.kind).heads)
    ]
    tell, rows = _Told(progress, len(heads)), []
    for here in heads:
        seen = source.read(here, held=True)
        numbers = measure(
            seen.weights,
            captions.key_tokens(source, here, seen, tokens, queries),
            mask=_mask(options, shape_of(seen.weights)),
            padding=padding,
            delimiters=delimiters,
            progress=tell,
            **where_it_stands(here, seen, options, padding, own_rows=queries is not None),
        )
        rows.append({"layer": here.layer, "head": here.head, **numbers})
    return HeadSummary.from_rows(rows)


def tokens_of(explorer: AttentionExplorer) -> tuple[Any, Any]:
    """Its (tokens, queries) for what is chosen, given or by the ids that ran."""
    ran = rows_of(explorer._source, explorer._choice)
    return explorer._named(explorer._choice, ran[-1].stop if ran else None)


def where_it_stands(
    choice: Choice, seen: Extraction, options: Options | Look, padding: Any, *, own_rows: bool
) -> dict[str, Any]:
    """What `measure` has to know of positions, where no capture says it."""
    told = options.causal or options.query_offset > 0
    if seen.at is not None and not told:
        at = seen.at
        offset = None if choice.crossing else at.rows.start
        return {"query_offset": offset, "key_offset": at.keys.start, "cross": choice.crossing}
    keys, rows = options.positions or (None, None)
    told = told or rows is not None
    if keys is None and not told:
        # Rows with tokens of their own are of another sequence, unless it is said where.
        return {"query_offset": None, "cross": own_rows}
    queries, count = shape_of(seen.weights)
    found = offsets(placed(options, (queries, count)), (queries, count), padding)
    return {**found, "cross": found["cross"] or (own_rows and not told)}


def placed(options: Options | Look, shape: tuple[int, ...]) -> axes.Axes:
    """Where rows and columns stand; ShapeError if it was said of another number of them."""
    for name, given, count in zip(
        ("keys", "queries"), options.positions or (), shape[::-1], strict=False
    ):
        if given is not None and len(given) != count:
            raise ShapeError(f"positions: the map has {len(given)} of {name}, a head has {count}")
    return axes.resolve(options.positions, options.query_offset, shape[0])


def _padding(options: Options) -> Any:
    if options.padding is None or options.padding[1] is not None:
        return options.padding
    return options.padding[0]


def _mask(options: Options, shape: tuple[int, ...]) -> Callable[[slice], BoolGrid] | None:
    """Where the map's options let a query look, a band of rows at a time; None: everywhere."""
    mask = options.mask
    if mask is not None and mask.shape != shape:
        raise ShapeError(f"mask: got shape {mask.shape}, a head has {shape}")
    if mask is None and not options.causal:
        return None
    at = placed(options, shape) if options.causal else axes.PLAIN
    positions = np.arange(shape[0]) if at.queries is None else at.queries

    def allowed(rows: slice) -> BoolGrid:
        forbidden = forbidden_cells(
            (len(positions[rows]), shape[1]),
            mask=None if mask is None else mask[rows],
            causal=options.causal,
            query_positions=positions[rows],
            key_positions=at.keys,
        )
        assert forbidden is not None
        return ~forbidden

    return allowed


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
