"""The interceptor for torch itself: SDPA, multi-head attention, and every spelling of softmax.

A function mode sees each torch function on its way in, whoever calls it and under whatever name it
was imported. It calls the function with the very same arguments, so results stay what they were.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.overrides import TorchFunctionMode

from . import emit, kernels, mixing
from . import functions as fn
from .provenance import Provenance, Scores
from .records import Copies
from .rules import RULES
from .session import SESSION


class CaptureMode(TorchFunctionMode):
    """Listens to torch functions in one thread for all captures that are open in it."""

    def __init__(self) -> None:
        super().__init__()
        self.provenance = Provenance(RULES)
        self.copies = Copies()

    def __torch_function__(
        self,
        func: fn.Function,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        handler = _flex if _is_flex(func) else _HANDLERS.get(func)
        busy = self.provenance.busy
        # Most calls are of no interest; they pass with two look-ups.
        if (handler is None and not busy and func not in _FOLLOWED) or not SESSION.listening:
            return func(*args, **kwargs)
        if busy:
            emit.guarded(lambda: self.provenance.settle(args, kwargs), "versions")
        if handler is not None:
            return handler(self, func, args, kwargs)
        out = func(*args, **kwargs)
        try:
            self.follow(func, args, kwargs, out)
        except Exception as error:  # noqa: BLE001 (the model must not notice)
            emit.note_problem(getattr(func, "__name__", ""), error)
        return out

    def follow(
        self, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Take note of what a function did to scores or weights."""
        self.provenance.follow(func, args, kwargs, out)
        mixing.follow(self.provenance, func, args, kwargs, out)

    def attention(self, scores: Scores, given: Tensor, formed: Tensor, turned: bool) -> None:
        """Softmax has formed weights from followed scores: attention, if they meet values.

        ``given``: the tensor that held the scores; ``turned``: weights are (…, keys, queries).
        """
        if not emit.recordable(formed, scores.queries, scores.keys):
            return
        doubtful = self.provenance.doubtful(given, *(tensor for tensor, _ in scores.seen))
        scores, weights = scores.checked(), formed.mT if turned else formed
        pending = emit.softmax(scores, weights, doubtful)
        if pending is not None:
            queries, keys = weights.shape[-2:]
            note = mixing.Formed((pending,), (queries, keys), turned)
            self.provenance.weights.put(formed, note)


def _softmax(
    mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    given = args[0] if args else kwargs.get("input")
    scores = mode.provenance.known(given)
    out = func(*args, **kwargs)
    if given is not None and scores is not None and scores.stage == "scores":
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        emit.guarded(lambda: _softmaxed(mode, scores, given, out, dim), "softmax")
    return out


def _softmaxed(
    mode: CaptureMode, scores: Scores, given: Tensor, out: Tensor, dim: int | None
) -> None:
    if dim is None or out.ndim < 2:
        return
    dim = dim % out.ndim
    if not scores.exact and not scores.upright():
        return  # heads or batch are on one of the last two axes
    if dim == out.ndim - 1:
        mode.attention(scores, given, out, turned=False)
    elif dim == out.ndim - 2:
        mode.attention(scores.transposed(), given, out, turned=True)


def _log_softmax(
    mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    scores = mode.provenance.known(args[0] if args else kwargs.get("input"))
    out = func(*args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if scores is not None and scores.stage == "scores" and dim in (-1, out.ndim - 1):
        emit.guarded(lambda: mode.provenance.mark(out, scores, "log"), "log_softmax")
    return out


def _exp(mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    scores = mode.provenance.known(args[0])
    out = func(*args, **kwargs)

    def note() -> None:
        if scores is not None and scores.stage == "log":
            mode.attention(scores, args[0], out, turned=False)
        else:
            mode.follow(func, args, kwargs, out)

    emit.guarded(note, "exp")
    return out


def _divide(
    mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    above, below = mode.provenance.known(args[0]), None
    if above is not None and above.stage == "exp":
        below = mode.provenance.known(args[1] if len(args) > 1 else kwargs.get("other"))
    out = func(*args, **kwargs)

    def note() -> None:
        if above is not None and below is not None and below.stage == "sum":
            mode.attention(above, args[0], out, turned=False)
        else:
            mode.follow(func, args, kwargs, out)

    emit.guarded(note, "div")
    return out


def _multi_head(
    mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Run the Python body of F.multi_head_attention_forward with this mode on.

    Within ``__torch_function__`` the mode is off, and the body would hand itself to the mode again
    if it were on. So the same code runs with a copy of its globals in which that question is
    answered with no: nothing is patched, and no other thread notices.
    """
    if not isinstance(func, types.FunctionType):
        return func(*args, **kwargs)
    names = {**func.__globals__, "has_torch_function": lambda tensors: False}
    body = types.FunctionType(
        func.__code__, names, func.__name__, func.__defaults__, func.__closure__
    )
    body.__kwdefaults__ = func.__kwdefaults__
    before = SESSION.heads, SESSION.cross
    query, key = (_at(args, kwargs, place, name) for place, name in ((0, "query"), (1, "key")))
    SESSION.heads, SESSION.cross = _at(args, kwargs, 4, "num_heads"), query is not key
    try:
        with mode:
            return body(*args, **kwargs)
    finally:
        SESSION.heads, SESSION.cross = before


def _at(args: Sequence[Any], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _sdpa(mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    out = func(*args, **kwargs)
    emit.guarded(lambda: kernels.record_sdpa(out, *args, **kwargs), "sdpa")
    return out


def _fused_layer(
    mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    out = func(*args, **kwargs)
    emit.guarded(lambda: kernels.record_layer(out, *args, **kwargs), "transformer encoder layer")
    return out


def _fused_multi_head(
    mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    out = func(*args, **kwargs)
    emit.guarded(
        lambda: kernels.record_multi_head(out, *args, **kwargs), "fused multi-head attention"
    )
    return out


def _nest(mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    out = func(*args, **kwargs)
    emit.guarded(lambda: kernels.remember_width(out, args[0]), "nested tensor")
    return out


def _flex(mode: CaptureMode, func: fn.Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    with SESSION.mute():
        out = func(*args, **kwargs)
    emit.guarded(lambda: kernels.record_flex(out, args, kwargs), "flex_attention")
    return out


def _is_flex(func: fn.Function) -> bool:
    """The operator beneath flex_attention; its module is imported only by those who use it."""
    if type(func) in _PLAIN_TYPES:  # nearly all; asking an abstract class takes longer
        return False
    return isinstance(func, HigherOrderOperator) and func.__name__ == "flex_attention"


_HANDLERS: dict[fn.Function, Any] = {
    **dict.fromkeys(fn.SDPA, _sdpa),
    **dict.fromkeys(fn.MULTI_HEAD, _multi_head),
    **dict.fromkeys(fn.FUSED_LAYER, _fused_layer),
    **dict.fromkeys(fn.FUSED_MULTI_HEAD, _fused_multi_head),
    **dict.fromkeys(fn.NEST, _nest),
    **dict.fromkeys(fn.SOFTMAX, _softmax),
    **dict.fromkeys(fn.LOG_SOFTMAX, _log_softmax),
    **dict.fromkeys(fn.EXP, _exp),
    **dict.fromkeys(fn.DIVIDE, _divide),
}

_PLAIN_TYPES = frozenset(
    {types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType}
    | {types.MethodWrapperType, types.WrapperDescriptorType, OpOverload}
)
_FOLLOWED = frozenset(RULES) | fn.WRITE | fn.ESCAPE | fn.ENTRYWISE
