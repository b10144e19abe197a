"""`summarize`: what kind of head is it, over many texts, in one process or on a Dask cluster."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch

from ..exploring.running import run
from .moments import CorpusSummary, Moments
from .summarizing import of_capture
from .summary import HeadSummary

_OF_FIRST = ("self", "encoder")
"""Kinds whose keys are what a model takes first, where that has no name that says it is ids."""
_AT_ONCE = 8
"""Inputs that go to a worker together."""


def summarize(
    model: torch.nn.Module | Callable[[], torch.nn.Module],
    inputs: Iterable[Any],
    *,
    tokenizer: Any = None,
    kind: str | None = None,
    delimiters: Collection[Any] | None = None,
    client: Any = None,
) -> CorpusSummary:
    """What kind of head each is, over many texts: mean, spread and count of each number.

    Parameters
    ----------
    model:
        A torch model, or a function without arguments that loads one. It runs in eval mode without
        gradients, as `explore` does it.
    inputs:
        Any iterable, such as a list or a DataLoader, gone through once. Each entry is run alone: a
        string or a list of strings (with `tokenizer`), a mapping (`model(**inputs)`), a tensor, a
        tuple or list of tensors (`model(*inputs)`). Each item of a batch is one text, and each text
        counts the same, however long it is. What a mapping's `attention_mask` says is padding is
        left out.
    tokenizer:
        Names the tokens of `input_ids`, without which there are no delimiters.
    kind, delimiters:
        As for `Capture.summary`.
    client:
        A `dask.distributed.Client`: the texts are spread over its workers, each of which loads the
        model once, by calling `model`. The result is the same.

    Raises
    ------
    TypeError
        one text in place of many; strings without a tokenizer; a client with a model that is there
        already, which every worker would have to be sent.
    ValueError
        no texts; texts in which the model has different heads.
    CaptureError
        no attention was seen.
    """
    if isinstance(inputs, (str, bytes, Mapping, torch.Tensor)):
        raise TypeError(f"inputs: got one {type(inputs).__name__}, expected many; give a list")
    options = {"tokenizer": tokenizer, "kind": kind, "delimiters": delimiters}
    if client is None:
        loaded = model if isinstance(model, torch.nn.Module) else model()
        return _part(loaded, inputs, options).summary()
    if isinstance(model, torch.nn.Module):
        raise TypeError("summarize: on a cluster each worker loads the model: give a function")
    return _spread(model, inputs, options, client).summary()


def _part(model: torch.nn.Module, inputs: Iterable[Any], options: dict[str, Any]) -> Moments:
    found = Moments()
    for given in inputs:
        for summary in _texts(model, given, **options):
            found.add(summary)
    return found


def _texts(
    model: torch.nn.Module,
    given: Any,
    *,
    tokenizer: Any,
    kind: str | None,
    delimiters: Collection[Any] | None,
) -> Iterator[HeadSummary]:
    """One summary for each text of one run of the model."""
    if isinstance(given, (list, tuple)) and not given:
        raise ValueError("inputs: an empty batch, so there is no text to summarize")
    if isinstance(given, str) or (isinstance(given, list) and all(map(_is_text, given))):
        if tokenizer is None:
            raise TypeError("summarize: strings need tokenizer=…; or give the model's inputs")
        texts = [given] if isinstance(given, str) else given
        given = tokenizer(texts, return_tensors="pt", padding=len(texts) > 1)
        if not given["input_ids"].numel():
            raise ValueError(f"inputs: {texts[0]!r} is a text of no tokens; leave it out")
    given = tuple(given) if isinstance(given, list) else given  # as a DataLoader gives it
    given = _moved(given, next(model.parameters(), torch.empty(0)).device)
    cap, _ = run(model, given)
    layer = next((layer for layer in cap.layers if kind in cap.kinds(layer)), cap.layers[0])
    call = cap.find(layer, kind)[0]
    for item in range(call.shape[0]):
        ids: list[Any] | None = cap.ids(layer, item, kind)[call.kind == "decoder"]
        if ids is None and call.kind in _OF_FIRST:
            ids = _first(given, item, call.shape[3])
        tokens = ids
        if ids is not None and tokenizer is not None:
            tokens = tokenizer.convert_ids_to_tokens(ids)
        yield of_capture(
            cap, tokens, kind=kind, batch=item, delimiters=delimiters, own_padding=True
        )


def _is_text(item: Any) -> bool:
    return isinstance(item, str)


def _first(given: Any, item: int, keys: int) -> list[int] | None:
    """One text's ids, where they are what the model takes first, by whatever name."""
    ids = given[0] if isinstance(given, tuple) and given else given
    if not isinstance(ids, torch.Tensor) or ids.ndim != 2 or ids.is_floating_point():
        return None
    return ids[item].tolist() if ids.shape[1] == keys else None


def _moved(given: Any, device: torch.device) -> Any:
    if isinstance(given, torch.Tensor):
        return given.to(device)
    if isinstance(given, Mapping):
        return {name: _moved(value, device) for name, value in given.items()}
    return tuple(_moved(value, device) for value in given) if isinstance(given, tuple) else given


# -- on a cluster -----------------------------------------------------------------------------

_LOADED: dict[str, torch.nn.Module] = {}
"""In a worker: the model of the run it last took part in."""
_ONE_RUN = threading.Lock()
"""A worker may have threads; a run changes the model's mode for its time."""


def _spread(
    factory: Callable[[], torch.nn.Module],
    inputs: Iterable[Any],
    options: dict[str, Any],
    client: Any,
) -> Moments:
    """Parts to the workers, a few ahead; merged in order, so that the sums are always the same."""
    run_id, found = uuid.uuid4().hex, Moments()
    common = client.scatter((factory, options), broadcast=True, hash=False)
    remaining, waiting = iter(inputs), deque[Any]()
    ahead = 2 * max(1, sum(client.nthreads().values()))
    try:
        while True:
            while len(waiting) < ahead and (part := list(islice(remaining, _AT_ONCE))):
                waiting.append(client.submit(_on_worker, run_id, common, part, pure=False))
            if not waiting:
                return found
            found.merge(waiting.popleft().result())
    finally:
        client.cancel([*waiting])


def _on_worker(run_id: str, common: tuple[Any, dict[str, Any]], inputs: list[Any]) -> Moments:
    factory, options = common
    with _ONE_RUN:
        if run_id not in _LOADED:
            _LOADED.clear()
            _LOADED[run_id] = factory()
        return _part(_LOADED[run_id], inputs, options)
