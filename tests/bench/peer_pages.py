"""What each tool makes of 12 × 12 heads of N tokens: `peer_pages.py TOOL N FOLDER`.

Run in a process of its own, so that a tool can be stopped. Writes FOLDER/page.html and prints one
line of JSON: Python's processor seconds, the bytes that a notebook would get, and what is said.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LAYERS = HEADS = 12
CDN = "https://cdn.plot.ly/plotly-bench.min.js"


def causal(tokens: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(layers, heads, queries, keys): random rows that sum to 1 and never look ahead."""
    random = np.random.default_rng(0)
    weights = random.exponential(size=(LAYERS, HEADS, tokens, tokens)).astype(np.float32)
    weights *= np.tri(tokens, dtype=np.float32)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def names(tokens: int) -> list[str]:
    return [f"w{i}" for i in range(tokens)]


def torch_layers(weights: Any) -> list[Any]:
    import torch

    return [torch.from_numpy(layer)[None] for layer in weights]


def bertviz_head_view(weights: Any, tokens: list[str]) -> str:
    from bertviz import head_view

    return str(head_view(torch_layers(weights), tokens, html_action="return").data)


def bertviz_model_view(weights: Any, tokens: list[str]) -> str:
    from bertviz import model_view

    return str(model_view(torch_layers(weights), tokens, html_action="return").data)


def circuitsvis(weights: Any, tokens: list[str]) -> str:
    """One layer: it has no more."""
    from circuitsvis.attention import attention_heads

    return str(attention_heads(attention=weights[0], tokens=tokens).local_src)


def attnview(weights: Any, tokens: list[str]) -> str:
    import attnview as tool

    cache = {f"blocks.{n}.attn.hook_pattern": layer[None] for n, layer in enumerate(weights)}
    study = tool.AttentionStudy.from_cache(cache, tokens=tokens)
    return str(tool.render_html(study))


def plotly(weights: Any, tokens: list[str]) -> str:
    """One head; places as coordinates, since it would merge rows of one name."""
    import plotly.graph_objects as go

    ticks = {"tickvals": list(range(len(tokens))), "ticktext": tokens}
    figure = go.Figure(go.Heatmap(z=weights[0, 0], colorscale="Blues"))
    figure.update_layout(width=900, height=900, xaxis=ticks)
    figure.update_yaxes(autorange="reversed", **ticks)
    return str(figure.to_html(include_plotlyjs=CDN))


def matplotlib(weights: Any, tokens: list[str]) -> str:
    """One head with all its labels, as the inline backend sends it: a PNG."""
    import base64
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 9))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(weights[0, 0], cmap="Blues")
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=5)
    axes.set_yticks(range(len(tokens)), tokens, fontsize=5)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return f'<img src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def attnmap_page(weights: Any, tokens: list[str]) -> str:
    """All heads in one file that needs no kernel; above 16 MB of weights with 8 bits for each."""
    from attnmap_widget import AttentionExplorer

    explorer = AttentionExplorer(tuple(weights[:, None]), tokens)
    return explorer.to_html(quantize=weights.nbytes > 16e6)


def attnmap_live(weights: Any, tokens: list[str]) -> tuple[str, int, float]:
    """What a notebook gets, and a page of two heads that draws and switches with the same code."""
    from attnmap_widget import AttentionExplorer

    start = time.process_time()
    explorer = AttentionExplorer(tuple(weights[:, None]), tokens)
    size = state_bytes(explorer) + len(json.dumps(explorer._repr_mimebundle_(), default=str))
    seconds = time.process_time() - start
    return explorer.to_html(layers=[0, 1], heads=[0]), size, seconds


def state_bytes(explorer: Any) -> int:
    """Bytes of all that travels when the explorer is displayed."""
    from ipywidgets.widgets.widget import _remove_buffers

    total = 0
    widgets = [explorer]
    while widgets:
        widget = widgets.pop()
        widgets += [
            *getattr(widget, "children", ()),
            *filter(None, [getattr(widget, "layout", None)]),
        ]
        state, _, buffers = _remove_buffers(widget.get_state())
        total += len(json.dumps(state)) + sum(memoryview(buffer).nbytes for buffer in buffers)
    return total


TOOLS: dict[str, Callable[..., Any]] = {
    "attnmap live": attnmap_live,
    "attnmap page": attnmap_page,
    "bertviz head_view": bertviz_head_view,
    "bertviz model_view": bertviz_model_view,
    "circuitsvis": circuitsvis,
    "attnview": attnview,
    "plotly": plotly,
    "matplotlib": matplotlib,
}


def main(tool: str, tokens: int, folder: Path) -> None:
    weights = causal(tokens)
    TOOLS[tool](causal(8), names(8))  # what is imported at the first use
    start = time.process_time()
    made = TOOLS[tool](weights, names(tokens))
    seconds = time.process_time() - start
    if isinstance(made, tuple):
        html, size, seconds = made
    else:
        html, size = made, len(made.encode())
    if not html.lstrip().lower().startswith("<!doctype"):
        html = f'<!doctype html><meta charset="utf-8"><body>{html}'
    (folder / "page.html").write_text(html, encoding="utf-8")
    print(json.dumps({"cpu": seconds, "bytes": size}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
