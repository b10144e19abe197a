"""The figures of `bench_peers.py` as a section of the README. Pure."""

from __future__ import annotations

import re
from pathlib import Path

Found = dict[tuple[str, int], dict[str, float]]
"""By tool and tokens; a figure that did not come is left out, and so is what was not tried."""

OURS = "attnmap live"
NAMES = {
    "attnmap live": "**attnmap_widget** in a notebook",
    "attnmap page": "attnmap_widget, saved page, all heads",
    "bertviz head_view": "BertViz 1.4.1 `head_view`",
    "bertviz model_view": "BertViz 1.4.1 `model_view`",
    "circuitsvis": "CircuitsVis 1.43.3, one layer",
    "attnview": "attnview 0.5.1, cards and a table",
    "plotly": "plotly, one head",
    "matplotlib": "matplotlib, one head, all labels",
}
FIGURES = {
    "bytes": ("MB to the browser", 1e6, 2),
    "cpu": ("Python, processor seconds", 1, 2),
    "paint": ("first paint, s from page load", 1, 2),
    "switch": ("another layer or head, s", 1, 2),
    "nodes": ("DOM nodes", 1, 0),
    "heap": ("JavaScript heap, MB", 1e6, 0),
}


def tables(found: Found, sizes: list[int], patience: float) -> list[str]:
    """One Markdown table per figure: a row per tool, a column per length."""
    made = []
    for figure, (words, unit, digits) in FIGURES.items():
        lines = [
            f"| {words} | {' | '.join(map(str, sizes))} |",
            f"| --- |{' --- |' * len(sizes)}",
        ]
        for tool, name in NAMES.items():
            cells = []
            for tokens in sizes:
                figures = found.get((tool, tokens))
                value = None if figures is None else figures.get(figure)
                if value is not None:
                    cells.append(f"{value / unit:.{digits}f}")
                elif figures is not None and figure == "paint" and "refused" in figures:
                    cells.append("refused: too large")
                elif figures is not None and figure in ("cpu", "paint") and "paint" not in figures:
                    late = figure == "paint" or not {"cpu", "refused"} & figures.keys()
                    cells.append(f"none in {patience:g} s" if late else "")
                else:
                    cells.append("")
            lines.append(f"| {name} | {' | '.join(cells)} |")
        made.append("\n".join(lines))
    return made


def largest(found: Found, tool: str, sizes: list[int]) -> int | None:
    painted = [tokens for tokens in sizes if "paint" in found.get((tool, tokens), {})]
    return max(painted, default=None)


def ratios(found: Found, sizes: list[int]) -> str:
    """Each tool ÷ ours, at the greatest length up to 128 that both painted."""
    lines = [
        "| ÷ attnmap_widget in a notebook | at N | bytes | Python | first paint | switch | heap |"
        " largest N painted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for tool, name in NAMES.items():
        if tool.startswith("attnmap"):
            continue
        both = [n for n in sizes if n <= 128 and {tool, OURS} <= painted_at(found, n)]
        if not both:
            continue
        theirs, ours = found[tool, both[-1]], found[OURS, both[-1]]
        cells = [
            f"{theirs[figure] / ours[figure]:.2g}" if figure in theirs and ours.get(figure) else ""
            for figure in ("bytes", "cpu", "paint", "switch", "heap")
        ]
        most = largest(found, tool, sizes)
        lines.append(f"| {name} | {both[-1]} | {' | '.join(map(plain, cells))} | {most} |")
    return "\n".join(lines)


def plain(number: str) -> str:
    """Without an exponent: 1.2e+03 is 1200."""
    return f"{float(number):,.0f}".replace(",", " ") if "e+" in number else number


def painted_at(found: Found, tokens: int) -> set[str]:
    return {tool for (tool, n), figures in found.items() if n == tokens and "paint" in figures}


def better(found: Found, sizes: list[int]) -> list[str]:
    """Where another tool is ahead of ours, in words; empty when nowhere."""
    said = []
    for tool, name in NAMES.items():
        if tool.startswith("attnmap"):
            continue
        parts = []
        for figure, (words, _, _) in FIGURES.items():
            at = [
                tokens
                for tokens in sizes
                if figure in found.get((tool, tokens), {})
                and found[tool, tokens][figure] < found.get((OURS, tokens), {}).get(figure, 0)
            ]
            if at:
                parts.append(f"{words} at N = {', '.join(map(str, at))}")
        if parts:
            said.append(f"- {name}: {'; '.join(parts)}")
    return said


def section(found: Found, sizes: list[int], patience: float) -> str:
    """The whole section."""
    ahead = better(found, sizes) or ["- nowhere"]
    return "\n\n".join(
        [
            "12 × 12 heads of random causal weights over N tokens, one tool after the other on one"
            " machine in a headless Chromium without a GPU (`make bench-peers`). Read the ratios:"
            " seconds are those of two busy cores. What a tool loads from a CDN was served from"
            " local copies. attnview shows cards and a table, no map; plotly and matplotlib show"
            " one head, and another means running the cell again; CircuitsVis shows one layer."
            " A notebook gets one head of ours, and the next when it is chosen. The wait for a"
            " matplotlib picture is its Python, not its paint.",
            ratios(found, sizes),
            "Where another tool is ahead:",
            "\n".join(ahead),
            "<details>\n<summary>All figures</summary>",
            f"Empty: not tried, as nothing was painted within {patience:g} s at a smaller N, or not"
            " there (no switch without running Python again).",
            "\n\n".join(tables(found, sizes, patience)),
            "</details>",
        ]
    )


def write_between(file: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`; ValueError without them."""
    before = file.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    after, count = pattern.subn(lambda match: f"{match[1]}{text}\n{match[2]}", before)
    if count != 1:
        raise ValueError(f"{file} needs one <!-- {name} --> and, after it, one <!-- /{name} -->")
    file.write_text(after, encoding="utf-8")
