"""`explore`: from a model and its inputs to an explorer in one line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ipywidgets
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from ..capturing import Capture, capture
from ..errors import Stopped
from ..images.patches import Patches
from ..passes import Cancelled, Pass, Progress
from .explorer import AttentionExplorer
from .generated import Generated, completed, returned
from .tokenized import Encoded, known, refuse_too_long


def explore(
    model: torch.nn.Module,
    inputs: str | Mapping[str, Any] | torch.Tensor | tuple[Any, ...] | Callable[[], Any],
    *,
    tokenizer: Any = None,
    tokens: Any = None,
    queries: Any = None,
    patches: Any = None,
    **options: Any,
) -> AttentionExplorer:
    """Run `model` on `inputs` once and explore its attention.

    Parameters
    ----------
    model:
        Any torch model, on any attention backend. It runs in eval mode without gradients and gets
        its mode back.
    inputs:
        A string (with `tokenizer`), a mapping (`model(**inputs)`), a tensor or tuple
        (`model(*inputs)`), or a function that runs the model (`lambda: model.generate(**inputs)`).
        If it returns what `generate` returned, that is used as `generated=` is: for the token
        generated last, the beams, and the mark where the generated part begins.
    tokenizer:
        Gives the tokens of the ids that were run: `input_ids`, and `decoder_input_ids` for the
        rows of a decoder. With a string there is also a text box: a new sentence captures again.
        What it knows of words and special tokens is behind two boxes.
    patches:
        As for `AttentionExplorer`; True for what `Patches.from_model` makes of the inputs' pixels.
    tokens, queries, **options:
        As for `AttentionExplorer`; words=True shows words at once.

    Raises
    ------
    TypeError
        a model that is no module; a string without a tokenizer, or for an encoder-decoder model
        that needs decoder inputs.
    ValueError
        a sentence that is longer than the model takes; words=True where the tokenizer does not say
        which pieces make a word.
    CaptureError
        no attention was seen.
    """
    if not hasattr(model, "parameters"):
        raise TypeError(
            f"explore: model is {type(model).__name__}, expected a torch module, such as "
            "AutoModel.from_pretrained(…); of a pipeline, its .model"
        )
    if isinstance(inputs, str) and tokenizer is None:
        raise TypeError(
            "explore: a string needs tokenizer=…, such as AutoTokenizer.from_pretrained(…); "
            "or give the model's inputs"
        )
    encoded = _encode(model, inputs, tokenizer) if isinstance(inputs, str) else inputs
    if patches is True:
        patches = Patches.from_model(model, _pixels(encoded))
    try:
        cap, found = run(model, encoded)
    except Exception as failure:
        refuse_too_long(model, encoded, failure)
        decodes = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        if isinstance(inputs, str) and decodes:
            raise TypeError(
                "explore: an encoder-decoder model needs more than a sentence: give a mapping with "
                "decoder_input_ids, or lambda: model.generate(**inputs)"
            ) from failure
        raise
    text = inputs if isinstance(inputs, str) else None
    if tokens is None and queries is None:
        options = _with_known(options, known(tokenizer, encoded, text))
    if options.get("generated") is None:
        options["generated"] = returned_of(cap, found)
    explorer = AttentionExplorer(
        cap, tokens, queries, tokenizer=tokenizer, patches=patches, **options
    )
    if isinstance(inputs, str):
        _TextBox(explorer, model, inputs, tokenizer)
    return explorer


def run(
    model: torch.nn.Module, inputs: Any, cancelled: Cancelled = lambda: False
) -> tuple[Capture, Any]:
    """Capture one run of `model` on `inputs`, in eval mode and without gradients.

    Also gives what the run returned. `cancelled` is asked before each module runs; once it says
    True the run ends with `Stopped`.
    """
    with _evaluating(model), _stopping(cancelled), torch.no_grad(), capture(model) as cap:
        if isinstance(inputs, Mapping):
            returned = model(**inputs)
        elif isinstance(inputs, tuple):
            returned = model(*inputs)
        elif callable(inputs) and not isinstance(inputs, torch.Tensor):
            returned = inputs()
        else:
            returned = model(inputs)
    return cap, returned


def returned_of(cap: Capture, found: Any) -> Generated | None:
    """What a run returned, as far as it is the generation that was captured; None if it is not."""
    generated = returned(found)
    if generated.sequences is None:
        return None
    kinds = {call.kind for call in cap.calls}
    kind = next((kind for kind in ("self", "decoder") if kind in kinds), None)
    layer = next((call.layer for call in cap.calls if call.kind == kind), None)
    if kind is None or layer is None or (generated.beams and generated.beam_indices is None):
        return None
    try:
        for item in range(len(generated.sequences)):
            where = {"batch": item, "kind": kind, "beam_indices": generated.beam_indices}
            at = cap.positions(layer, **where)
            ids = cap.ids(layer, **where)
            if at is None:
                return None
            completed(ids[kind == "decoder"], at[0].stop, generated, item)
    except (ValueError, TypeError):
        return None
    return generated


@contextmanager
def _stopping(cancelled: Cancelled) -> Iterator[None]:
    """Ask before each module of this thread runs.

    A global hook: hooks of the modules' own would push torch's encoder off its fused path.
    """
    thread = threading.get_ident()

    def ask(module: torch.nn.Module, args: Any) -> None:
        if threading.get_ident() == thread and cancelled():
            raise Stopped

    hook = register_module_forward_pre_hook(ask)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode for every part; each gets its own mode back, whatever the parts had."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _encode(model: torch.nn.Module, text: str, tokenizer: Any) -> Encoded:
    if not text.strip():  # special tokens alone are no sentence
        raise ValueError(f"explore: {text!r} is no text; type a sentence")
    encoded = tokenizer(text, return_tensors="pt")
    if not len(encoded["input_ids"][0]):
        raise ValueError("explore: the tokenizer makes no tokens of this text; give it some words")
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return Encoded(encoded, device)


def _pixels(inputs: Any) -> Any:
    """The pixels among a model's inputs; a function that runs the model does not show them."""
    if isinstance(inputs, Mapping) and "pixel_values" in inputs:
        return inputs["pixel_values"]
    if isinstance(inputs, tuple) and inputs:
        return inputs[0]
    if isinstance(inputs, torch.Tensor):
        return inputs
    raise TypeError("explore: patches=True needs pixel_values among the inputs; or give Patches")


def _with_known(options: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Options of an explorer; what the user says of words and special tokens goes before."""
    words = options.get("words")
    if words is True and found["words"] is None and found["query_words"] is None:
        return {**found, **options}  # let the pieces' marks speak, or say why they cannot
    if words is None or isinstance(words, bool):
        options = {"merged": bool(words), **options}
        options.pop("words", None)
    return {**found, **options}


class _TextBox:
    """A sentence above an explorer; a new one runs the model beside the notebook."""

    def __init__(
        self, explorer: AttentionExplorer, model: torch.nn.Module, text: str, tokenizer: Any
    ) -> None:
        self._explorer, self._model, self._tokenizer = explorer, model, tokenizer
        self._pass: Pass | None = None
        # A run changes the model's mode for its time, so there is one at a time.
        self._one_run = threading.Lock()
        # Beside other menus, as in a comparison, its width would be that of a word or two; there
        # it leaves room for a name before it.
        box = ipywidgets.Text(
            value=text,
            description="Text",
            continuous_update=False,
            layout={"width": "auto", "min_width": "min(100% - 6em, 40em)"},
            style={"description_width": "initial"},
        )
        box.observe(self._again, names="value")
        explorer.children = (box, *explorer.children)

    def _again(self, change: dict[str, Any]) -> None:
        if self._pass is not None:
            self._pass.cancel()  # this sentence takes the place of the one before
        text = change["new"]
        if not text.strip():
            self._failed(ValueError("type a sentence"))
            return

        def work(progress: Progress, cancelled: Cancelled) -> tuple[Capture, Any, str]:
            with self._one_run:
                encoded = _encode(self._model, text, self._tokenizer)
                try:
                    return run(self._model, encoded, cancelled)[0], encoded, text
                except Exception as failure:
                    refuse_too_long(self._model, encoded, failure)
                    raise

        self._explorer.map.status = "running the model…"
        self._pass = Pass(work, progress=lambda _: None, done=self._done, failed=self._failed)

    def _done(self, found: tuple[Capture, Any, str]) -> None:
        cap, encoded, text = found
        try:
            self._explorer.use(cap, **known(self._tokenizer, encoded, text))
        except Exception as failure:  # noqa: BLE001 - the last good map stays, with the reason
            self._failed(failure)

    def _failed(self, failure: Exception) -> None:
        self._explorer.error = self._explorer.map.error = str(failure) or repr(failure)
        self._explorer.map.status = self._explorer._status
