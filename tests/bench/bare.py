"""Code of the benches' notebooks: sources of weights, and the least that could show their bytes."""

from __future__ import annotations

from typing import Any

import anywidget
import ipywidgets
import numpy as np
import torch
import traitlets
from torch.nn import functional as F

from attnmap_widget import AttentionExplorer, capture


class Bare(anywidget.AnyWidget):
    """Bytes as pixels, 512 a row."""

    _esm = """
    export default {
        render({ model, el }) {
            const canvas = document.createElement("canvas");
            el.className = "bare";
            el.append(canvas);
            const draw = () => requestAnimationFrame(() => {
                const { buffer, byteOffset, byteLength } = model.get("data");
                canvas.width = 512;
                canvas.height = byteLength / 2048;
                const pixels = new Uint8ClampedArray(buffer, byteOffset, byteLength);
                canvas.getContext("2d").putImageData(new ImageData(pixels, 512), 0, 0);
            });
            model.on("change:data", draw);
            draw();
        },
    };
    """
    data = traitlets.Bytes().tag(sync=True)


def bare(explorer: AttentionExplorer, heads: int) -> ipywidgets.VBox:
    """A menu of heads, and the very bytes that the explorer's map sends for each."""
    sent = []
    for head in range(heads):
        explorer.head = head
        wire = explorer.map._checked.tile.to_wire()
        sent.append(b"".join(wire[name] or b"" for name in ("data", "states", "at")))
    explorer.head = 0
    widget = Bare(data=sent[0])
    menu = ipywidgets.Dropdown(options=range(heads), description="Bare")
    menu.observe(lambda change: setattr(widget, "data", sent[change["new"]]), names="value")
    return ipywidgets.VBox([menu, widget])


def stack(tokens: int, heads: int) -> Any:
    """Random causal weights of one layer."""
    weights = np.random.default_rng(0).random((heads, tokens, tokens), dtype=np.float32)
    weights *= np.tri(tokens, dtype=np.float32)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def captured(tokens: int, heads: int) -> Any:
    """q and k of random causal heads."""
    q, k = torch.randn(2, 1, heads, tokens, 64).unbind()
    with torch.no_grad(), capture() as cap:
        F.scaled_dot_product_attention(q, k, k, is_causal=True)
    return cap
