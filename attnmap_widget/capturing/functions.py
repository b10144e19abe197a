"""The many names under which torch offers each step of attention, grouped by what they do.

Exported graphs call the overloads of ``torch.ops.aten`` directly, so these are listed too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Function = Callable[..., Any]
_aten = torch.ops.aten


def _group(*functions: Any) -> frozenset[Function]:
    return frozenset(functions)


def _getter(name: str) -> Function:
    """How a function mode names the reading of an attribute such as ``tensor.mT``."""
    getter: Function = getattr(Tensor, name).__get__
    return getter


def _setter(name: str) -> Function:
    setter: Function = getattr(Tensor, name).__set__
    return setter


SDPA = _group(F.scaled_dot_product_attention, _aten.scaled_dot_product_attention.default)
MULTI_HEAD = _group(F.multi_head_attention_forward)
FUSED_LAYER = _group(torch._transformer_encoder_layer_fwd)
FUSED_MULTI_HEAD = _group(torch._native_multi_head_attention)
NEST = _group(torch._nested_tensor_from_mask)

SOFTMAX = _group(
    torch.softmax, Tensor.softmax, F.softmax, torch.special.softmax,
    _aten.softmax.int, _aten._softmax.default,
)  # fmt: skip
LOG_SOFTMAX = _group(
    torch.log_softmax, Tensor.log_softmax, F.log_softmax, torch.special.log_softmax,
    _aten.log_softmax.int, _aten._log_softmax.default,
)  # fmt: skip
EXP = _group(torch.exp, Tensor.exp, Tensor.exp_, _aten.exp.default)
SUM = _group(torch.sum, Tensor.sum, _aten.sum.dim_IntList)

MATMUL = _group(
    torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.linalg.matmul, torch.bmm, Tensor.bmm,
    torch.mm, Tensor.mm, torch.mv, Tensor.mv,
    _aten.matmul.default, _aten.bmm.default, _aten.mm.default,
)  # fmt: skip
BADDBMM = _group(
    torch.baddbmm, Tensor.baddbmm, torch.addmm, Tensor.addmm, _aten.baddbmm.default,
    _aten.addmm.default,
)  # fmt: skip
EINSUM = _group(torch.einsum)
INNER = _group(torch.inner, Tensor.inner)

MULTIPLY = _group(
    torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, Tensor.mul_, Tensor.__imul__,
    torch.multiply, Tensor.multiply, Tensor.multiply_, _aten.mul.Tensor, _aten.mul.Scalar,
)  # fmt: skip
DIVIDE = _group(
    torch.div, Tensor.div, Tensor.__truediv__, Tensor.div_, Tensor.__itruediv__, torch.divide,
    Tensor.divide, torch.true_divide, Tensor.true_divide, _aten.div.Tensor, _aten.div.Scalar,
)  # fmt: skip
ADD = _group(
    torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__,
    _aten.add.Tensor, _aten.add.Scalar, _aten.add_.Tensor,
)  # fmt: skip
SUBTRACT = _group(
    torch.sub, Tensor.sub, Tensor.__sub__, Tensor.sub_, Tensor.__isub__, torch.subtract,
    Tensor.subtract, _aten.sub.Tensor, _aten.sub.Scalar,
)  # fmt: skip
MASKED_FILL = _group(
    torch.masked_fill, Tensor.masked_fill, Tensor.masked_fill_, _aten.masked_fill.Scalar,
    _aten.masked_fill.Tensor, _aten.masked_fill_.Scalar,
)  # fmt: skip
WHERE = _group(torch.where, Tensor.where, _aten.where.self, _aten.where.ScalarOther)
TANH = _group(torch.tanh, Tensor.tanh, Tensor.tanh_, F.tanh, _aten.tanh.default)
CLAMP = _group(torch.clamp, Tensor.clamp, Tensor.clamp_, torch.clip, Tensor.clip)
MAXIMUM = _group(torch.max, Tensor.max, torch.maximum, Tensor.maximum)
CAST = _group(
    Tensor.float, Tensor.half, Tensor.bfloat16, Tensor.double, Tensor.to, Tensor.type,
    Tensor.type_as, _aten.to.dtype, _aten._to_copy.default,
)  # fmt: skip
SAME = _group(
    Tensor.contiguous, Tensor.clone, torch.clone, Tensor.detach, torch.detach, _aten.clone.default,
    torch.nan_to_num, Tensor.nan_to_num,
)  # fmt: skip
VIEW = _group(
    Tensor.view, Tensor.reshape, torch.reshape, Tensor.unsqueeze, torch.unsqueeze, Tensor.squeeze,
    torch.squeeze, Tensor.flatten, torch.flatten, Tensor.unflatten, torch.unflatten,
    Tensor.view_as, Tensor.reshape_as, _aten.view.default, _aten.unsqueeze.default,
    _aten.squeeze.dim, _aten._unsafe_view.default,
)  # fmt: skip
TRANSPOSE = _group(
    torch.transpose, Tensor.transpose, torch.permute, Tensor.permute, torch.swapaxes,
    Tensor.swapaxes, Tensor.t, torch.t, _getter("T"), _getter("mT"),
    _aten.transpose.int, _aten.permute.default, _aten.t.default,
)  # fmt: skip
INDEX = _group(Tensor.__getitem__, torch.narrow, Tensor.narrow)
ELEMENTWISE = _group(
    torch.neg, Tensor.neg, Tensor.__neg__, torch.abs, Tensor.abs, torch.pow, Tensor.pow,
    Tensor.__pow__,
    torch.sigmoid, Tensor.sigmoid, torch.relu, Tensor.relu, F.relu, torch.square, Tensor.square,
    torch.roll, Tensor.roll, torch.flip, Tensor.flip, Tensor.masked_scatter, F.pad,
    torch.addcmul, Tensor.addcmul, torch.clamp_min, Tensor.clamp_min, F.softplus,
)  # fmt: skip
LINEAR = _group(F.linear)
CONVOLUTION = _group(F.conv2d, torch.conv2d)
CONCATENATE = _group(torch.cat, torch.concat, torch.concatenate, _aten.cat.default)
DROPOUT = _group(F.dropout, torch.dropout, torch.dropout_)
PARTS = INDEX | _group(
    torch.unbind, Tensor.unbind, torch.split, Tensor.split, torch.chunk, Tensor.chunk,
    torch.select, Tensor.select, torch.index_select, Tensor.index_select, torch.topk, Tensor.topk,
)  # fmt: skip
# What changes single entries of a learned matrix, or puts them in other places: it stays learned.
ENTRYWISE = (
    CAST | SAME | VIEW | TRANSPOSE | PARTS | ELEMENTWISE | MULTIPLY | DIVIDE | ADD | SUBTRACT
    | CLAMP | TANH | SUM | _group(
        F.normalize, torch.norm, Tensor.norm, torch.linalg.norm, torch.linalg.vector_norm,
        torch.sqrt, Tensor.sqrt, torch.rsqrt, Tensor.rsqrt, torch.mean, Tensor.mean, Tensor.expand,
        Tensor.cpu, Tensor.cuda,
    )
)  # fmt: skip
# Results that have the shape of an argument and nothing of its values, or its values elsewhere.
UNRELATED = _group(
    torch.zeros_like, torch.ones_like, torch.full_like, torch.empty_like, torch.rand_like,
    torch.randn_like, torch.bernoulli, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full,
    Tensor.new_empty, torch.sort, Tensor.sort, torch.cumsum, Tensor.cumsum,
)  # fmt: skip
# In-place writes of new content: a tensor written like this may be a cache.
WRITE = _group(
    Tensor.__setitem__, Tensor.index_copy_, Tensor.copy_, Tensor.scatter_, Tensor.index_put_,
    Tensor.index_add_, Tensor.masked_scatter_, Tensor.zero_, Tensor.fill_,
)  # fmt: skip
# Parts put back into a whole.
SCATTER = WRITE | _group(
    torch.scatter, Tensor.scatter, torch.masked_scatter, Tensor.masked_scatter, torch.index_put,
    Tensor.index_put, torch.select_scatter, Tensor.select_scatter,
)  # fmt: skip
# After these a tensor can be written to without its version telling.
ESCAPE = _group(
    _getter("data"), _setter("data"), Tensor.numpy, Tensor.__array__, Tensor.__dlpack__,
    Tensor.data_ptr, Tensor.untyped_storage, Tensor.set_,
)  # fmt: skip
