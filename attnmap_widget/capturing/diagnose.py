"""What to say when a capture saw no attention."""

from __future__ import annotations

import re

import torch

from .naming import ModuleNames

# Mixers that never form weights from one token to another.
_NO_WEIGHTS = re.compile(
    r"mamba|rwkv|linear_?attn|linear_?attention|deltanet|gatedlinear|hyena|retnet|retention|fnet|"
    r"performer|nystrom|reformer|lsh|yoso|mra|rglru|recurrent|shortconv|lightning",
    re.IGNORECASE,
)
_LISTED = 6


def nothing_captured(names: ModuleNames | None, problems: list[str], unmet: list[str]) -> str:
    """Say that nothing was seen, which modules look like attention, and the likely reasons."""
    lines = ["no attention was captured"]
    if names is None:
        lines.append(
            "no torch module ran and no softmax of q·kᵀ was seen: run the code inside the with "
            "block, in the thread that opened it"
        )
        return ": ".join(lines)
    if names.windowed:
        lines.append(windows(names))
    without = [(n, c) for n, c in _blocks(names) if _NO_WEIGHTS.search(c) or _NO_WEIGHTS.search(n)]
    explained = [*without, *names.windowed]
    looks = [(n, c) for n, c in names.attention_like if (n, c) not in explained and n]
    if looks:
        lines.append(f"modules that look like attention: {_list(looks)}")
    elif not names.windowed:
        lines.append(f"no module of this {names.root} looks like attention")
    if without:
        lines.append(f"these mix tokens without a softmax and have no weights: {_list(without)}")
    scripted = [n for m, n in names.modules.items() if isinstance(m, torch.jit.ScriptModule)]
    if unmet:
        lines.append(
            "a softmax whose weights meet no values (weights @ v) is not taken for attention, "
            "unless its module is called so: "
            f"{', '.join(name or names.root for name in unmet[:_LISTED])}"
        )
    if scripted:
        lines.append(
            f"TorchScript runs outside Python and cannot be watched: {', '.join(scripted[:3])}"
        )
    if problems:
        lines.append("recording failed: " + "; ".join(dict.fromkeys(problems[:3])))
    elif looks:
        lines.append(
            "was the model run inside the with block, in the same thread? Attention that forms no "
            "softmax of q·kᵀ in torch (a custom kernel) cannot be read"
        )
    return "; ".join(lines)


def windows(names: ModuleNames) -> str:
    """Say which modules attend in windows and why they give no map."""
    return (
        "not captured, because they attend to windows of gathered keys, where a column is no token "
        f"position: {_list(names.windowed)}"
    )


def _blocks(names: ModuleNames) -> list[tuple[str, str]]:
    """(name, class) of modules with parts of their own: blocks and mixers, not Linear."""
    return [
        (name, type(module).__name__)
        for module, name in names.modules.items()
        if name and any(True for _ in module.children())
    ]


def _list(found: list[tuple[str, str]]) -> str:
    named = [f"{name} ({cls})" for name, cls in found]
    more = "" if len(named) <= _LISTED else f" and {len(named) - _LISTED} more"
    return ", ".join(named[:_LISTED]) + more
