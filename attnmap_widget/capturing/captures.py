"""``capture``: read the attention of any torch code that runs inside a with block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch
from torch import nn

from ..errors import CaptureError
from . import listening
from .calls import AttentionCall, as_index
from .diagnose import nothing_captured
from .gather import gathered
from .maps import Maps
from .recorder import Recorder
from .records import storage_bytes


class Capture(Maps):
    """Attention calls of one model, recorded inside ``with capture(model) as cap:``.

    The model runs as it would without: same backend, same mode, bit-identical output. Kept are
    its queries, keys and masks, from which any head's weights are rebuilt when they are read;
    whatever the model does with its own tensors later, these stay. Everything that reads raises
    CaptureError where nothing was captured, and ValueError, listing what there is, for a layer,
    head, kind, batch item or step that does not exist.
    """

    def __init__(self, model: nn.Module | None, layers: frozenset[int] | None) -> None:
        self._model = model
        self._layers = layers
        self._recorder: Recorder | None = None
        self._silence = self._left_out = ""
        self._open = False
        super().__init__()

    # ------------------------------------------------------------------ the with block

    def __enter__(self) -> Capture:
        if self._open or self._recorder is not None:
            raise RuntimeError("this capture was used already; call capture() again")
        self._recorder = Recorder(self._model, self._layers)
        listening.start(self._recorder)
        self._open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder = self._need()
        listening.stop(recorder)
        self._open = False
        self._silence = "" if recorder.finish() else self._why_nothing()
        self._left_out = recorder.left_out()
        # The model's modules are not kept: only names and tensors of the calls.
        recorder.close()
        self._model = None

    def gather(self, group: Any = None) -> None:
        """Get the heads that other processes computed, for a model sharded by tensor parallelism.

        A collective call: every process of the group (None: all) makes it after the with block.
        Before it, each process has its own heads; after it, all have all, in the model's order.
        """
        for call in self._calls():
            if call.sharded:
                call.record, call.sharded = gathered(call.record, group), False
        self._known.clear()

    def close(self) -> None:
        """Drop all records and the memory they hold."""
        if self._recorder is not None:
            self._recorder.calls.clear()
            self._recorder.inputs.clear()
            self._known.clear()
            self._silence = "this capture was closed and its records dropped"

    def __getstate__(self) -> dict[str, Any]:
        if self._open:
            raise TypeError("copy or pickle a capture after its with block")
        return {**self.__dict__, "_known": {}}  # whose keys are of objects of this process

    # ------------------------------------------------------------------ what there is

    @property
    def calls(self) -> list[AttentionCall]:
        """Every recorded call in the order of execution; empty where nothing was captured."""
        return [] if self._recorder is None else list(self._found())

    @property
    def layers(self) -> list[int]:
        """True block numbers with attention, sorted: [1, 3] in a mamba/attention hybrid."""
        return sorted({call.layer for call in self._calls()})

    def kinds(self, layer: int) -> list[str]:
        """Kinds of attention in a layer: "self", "cross", "encoder", "decoder" or a tower."""
        return list(dict.fromkeys(call.kind for call in self._of_layer(layer)))

    def find(self, layer: int, kind: str | None = None) -> list[AttentionCall]:
        """The calls of a layer, one per step; ``kind`` None is the only one the layer has.

        Where a model changes its weights after the softmax, None is the softmax, and the changed
        ones are kind "effective".
        """
        calls = self._of_layer(layer)
        kinds = list(dict.fromkeys(call.kind for call in calls))
        if kind is None:
            calls = [call for call in calls if not call.effective]
            if len({call.kind for call in calls}) > 1:
                raise ValueError(
                    f"layer {layer} has several kinds of attention, choose kind= from {kinds}"
                )
        if kind is not None and kind not in kinds:
            raise ValueError(f"kind {kind!r}: layer {layer} has {kinds}{self._left_out}")
        return [call for call in calls if kind is None or call.kind == kind]

    def heads(self, layer: int, kind: str | None = None) -> int:
        """How many heads the layer has."""
        return self.find(layer, kind)[0].shape[1]

    def batch_size(self, layer: int, kind: str | None = None) -> int:
        """How many batch items the layer's attention saw (windows, where it is windowed)."""
        return self.find(layer, kind)[0].shape[0]

    def steps(self, layer: int, kind: str | None = None) -> int:
        """How many forwards of the layer were recorded: 1, or one per token of a generate."""
        return len(self.find(layer, kind))

    @property
    def nbytes(self) -> int:
        """Bytes that the records keep alive, each storage counted once."""
        return storage_bytes([call.record for call in self.calls])

    # ------------------------------------------------------------------ as a whole

    def summary(
        self,
        tokens: Any = None,
        *,
        kind: str | None = None,
        batch: int = 0,
        step: int | None = None,
        padding: Any = None,
        delimiters: Any = None,
        query_offset: int | None = None,
        beam_indices: Any = None,
        progress: Callable[[float], None] | None = None,
    ) -> Any:
        """What kind of head each is: a `HeadSummary`, one row for each (layer, head).

        tokens: of the keys, a list or a list for each batch item; needed for delimiters and for
        what looks at repeated tokens. padding: bool (keys,) or (batch, keys), True = padding.
        query_offset: the position of the first row, where the capture cannot know it. beam_indices:
        as for `weights`. progress: is told the share that is done. Each weight is read once, in
        bands of rows: nothing of (queries × keys) is held. Layers without attention of this
        ``kind`` are left out.

        What each number means: `summary.columns`. Raises as all reading does, and ShapeError for
        tokens or padding of another length.
        """
        from ..heads.summarizing import of_capture

        return of_capture(
            self, tokens, kind=kind, batch=batch, step=step, padding=padding,
            delimiters=delimiters, query_offset=query_offset, beam_indices=beam_indices,
            progress=progress,
        )  # fmt: skip

    def explore(self, tokens: Any = None, **options: Any) -> Any:
        """An AttentionExplorer of this capture: dropdowns for layer and head above a map."""
        from ..exploring.explorer import AttentionExplorer

        return AttentionExplorer(self, tokens, **options)

    def __repr__(self) -> str:
        layers = sorted({call.layer for call in self.calls})
        return f"<Capture of {len(self.calls)} attention calls, layers {layers}>"

    # ------------------------------------------------------------------ inside

    def _need(self) -> Recorder:
        if self._recorder is None:
            raise CaptureError(
                "nothing ran yet: use it as `with capture(model) as cap: model(inputs)`"
            )
        return self._recorder

    def _found(self) -> list[AttentionCall]:
        recorder = self._need()
        return recorder.finish() if self._open else recorder.calls

    def _why_nothing(self) -> str:
        recorder = self._need()
        seen = sorted(recorder.layers_seen)
        if seen and self._layers is not None:
            return (
                f"layers={sorted(self._layers)} do not exist: attention was seen in layers {seen}"
            )
        return recorder.explain(
            lambda names: nothing_captured(names, recorder.problems, list(recorder.unmet))
        )

    def _calls(self) -> list[AttentionCall]:
        recorder, calls = self._need(), self._found()
        if not calls:
            raise CaptureError(self._silence or self._why_nothing())
        missing = sorted((self._layers or frozenset()) - recorder.layers_seen)
        if missing:
            seen = sorted(recorder.layers_seen)
            raise CaptureError(
                f"layers={missing} do not exist: attention was seen in layers {seen}"
            )
        return calls

    def _of_layer(self, layer: int) -> list[AttentionCall]:
        calls, number = self._calls(), as_index(layer)
        numbers = sorted({call.layer for call in calls})
        if number not in numbers:
            raise ValueError(
                f"layer {layer!r}: layers with attention are {', '.join(map(str, numbers))}"
                f"{self._left_out}"
            )
        return [call for call in calls if call.layer == number]


def capture(model: nn.Module | None = None, *, layers: Iterable[int] | None = None) -> Capture:
    """Record the attention of a model, or of any torch code, inside a with block.

    model: the torch module to watch; None watches all torch code of this thread, also code without
    any module. layers: true block numbers to keep; tensors of other layers are not held on to.

    Raises TypeError for a model that is no torch module, CaptureError for one that runs outside
    Python (TorchScript).
    """
    _refuse(model)
    if layers is None:
        return Capture(model, None)
    given = list(layers)
    numbers = [as_index(layer) for layer in given]
    wanted = frozenset(number for number in numbers if number is not None)
    if not given:
        raise ValueError("layers=[] would keep nothing; leave it out to keep every layer")
    if None in numbers:
        raise ValueError(f"layers={given!r}: give block numbers such as [0, 11]")
    return Capture(model, wanted)


def _refuse(model: object) -> None:
    """Raise for what is no module of torch's Python side, and say why and what would do."""
    if model is None:
        return
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise CaptureError(
            "a TorchScript module runs outside Python, where its attention cannot be read: capture "
            "the nn.Module it was made from"
        )
    if isinstance(model, nn.Module):
        return
    hint = ""
    if isinstance(getattr(model, "model", None), nn.Module):
        hint = "; its .model is one, capture that"
    elif "onnx" in type(model).__module__.lower():
        hint = ": ONNX runs outside torch, where attention cannot be read"
    raise TypeError(f"capture takes a torch.nn.Module, not {type(model).__name__}{hint}")
