"""What the front end takes to draw, beside one bare `putImageData`, in the machine's Chromium."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page
from where import STATIC

REDRAW = """async ([bundle, css, size, causal]) => {
    document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
    const blob = new Blob([bundle], { type: "text/javascript" });
    const { default: widget } = await import(URL.createObjectURL(blob));
    const listeners = new Map();
    let seed = 1;
    const tile = () => {
        const weights = new Float32Array(size * size);
        const states = causal ? new Uint8Array(size * size) : null;
        for (let i = 0; i < weights.length; i++) {
            const hidden = causal && i % size > Math.floor(i / size);
            if (hidden) states[i] = 3;
            else weights[i] = (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
        }
        return {
            size: [size, size], shape: [size, size], window: [0, size, 0, size], bin: [1, 1],
            data: new DataView(weights.buffer), states: states && new DataView(states.buffer),
            at: null,
        };
    };
    const ramp = Uint8Array.from({ length: 768 }, (_, i) => Math.floor(i / 3));
    const colors = (range) => ({
        ramp: new DataView(ramp.buffer), range, diverging: false, scale: "linear",
        clips: [false, false], notes: [],
    });
    const names = Array.from({ length: size }, (_, i) => `t${i}`);
    const labels = { labels: names, raw: null, positions: null };
    const state = {
        tokens: labels, queries: null, weights: tile(), show_values: null, title: "", error: "",
        class_name: "", hover: null, selection: null, viewport: null, _detail: null, _top: null,
        status: "", _colors: colors([0, 1]), _checks: [], query_title: "Query", key_title: "Key",
        value_title: "weight", generated: null, _room: null,
    };
    const model = {
        get: (name) => state[name],
        set: (name, value) => { state[name] = value; },
        save_changes() {},
        on: (name, run) => listeners.set(name, [...(listeners.get(name) ?? []), run]),
        off() {},
    };
    const host = document.body.appendChild(document.createElement("div"));
    host.style.width = "1000px";
    const frame = window.requestAnimationFrame;
    widget.render({ model, el: host, signal: new AbortController().signal });
    for (let n = 0; n < 5; n++) await new Promise((done) => frame(done));

    const due = [];
    window.requestAnimationFrame = (run) => due.push(run);
    const change = (name, value) => {
        state[name] = value;
        for (const run of listeners.get(`change:${name}`)) run();
        while (due.length) due.shift()(performance.now());
    };
    const bare = document.createElement("canvas");
    bare.width = bare.height = size;
    document.body.append(bare);
    const pen = bare.getContext("2d");
    const image = new ImageData(size, size);
    const pixels = new Int32Array(image.data.buffer);
    const palette = Int32Array.from({ length: 256 }, (_, i) => -16777216 | i);
    const grid = host.querySelector(".attnmap-grid");
    const box = grid.getBoundingClientRect();
    const point = (n) => {
        const at = { clientX: box.left + 50 + n, clientY: box.top + 60, bubbles: true };
        grid.dispatchEvent(new PointerEvent("pointermove", at));
        while (due.length) due.shift()(performance.now());
    };
    const tiles = Array.from({ length: 24 }, tile);
    const tasks = {
        bare: () => pen.putImageData(image, 0, 0),
        looked_up(n) {
            const weights = new Float32Array(tiles[n].data.buffer);
            for (let i = 0; i < weights.length; i++) pixels[i] = palette[(weights[i] * 255) | 0];
            pen.putImageData(image, 0, 0);
        },
        hover: point,
        again: () => change("title", String(performance.now())),
        colors: (n) => change("_colors", colors([0, 1 + n / 100])),
        weights: (n) => change("weights", tiles[n]),
    };
    const found = Object.fromEntries(Object.keys(tasks).map((name) => [name, []]));
    for (let n = 0; n < tiles.length; n++) {
        for (const [name, run] of Object.entries(tasks)) {
            const start = performance.now();
            run(n);
            found[name].push(performance.now() - start);
        }
        await new Promise((done) => setTimeout(done, 5));
    }
    window.requestAnimationFrame = frame;
    const said = host.querySelector(".attnmap-error");
    if (!said.hidden) throw new Error(said.textContent);  // what is not drawn is soon done
    const middle = (times) => times.sort((a, b) => a - b)[times.length >> 1];
    return Object.fromEntries(Object.entries(found).map(([name, times]) => [name, middle(times)]));
}"""


def redraw(page: Page, size: int, *, causal: bool) -> dict[str, float]:
    """Milliseconds of each task, the median of those taken in turns."""
    page.goto("about:blank")
    sources = [(STATIC / name).read_text(encoding="utf-8") for name in ("widget.js", "widget.css")]
    found: dict[str, float] = page.evaluate(REDRAW, [*sources, size, causal])
    return found


@pytest.mark.parametrize("causal", [False, True], ids=["plain", "causal"])
def test_a_redraw(page: Any, capsys: pytest.CaptureFixture[str], causal: bool) -> None:
    found = redraw(page, 1024, causal=causal)
    bare, least = found["bare"], found["looked_up"]
    with capsys.disabled():
        print(
            f"\n1024 × 1024, {'causal' if causal else 'plain'}: ÷ bare putImageData ({bare:.1f} ms)"
            f" drawn again {found['again'] / bare:.1f}, hover {found['hover'] / bare:.1f}, other"
            f" colours {found['colors'] / bare:.1f}, other weights {found['weights'] / bare:.1f};"
            f" other weights ÷ a loop that looks each up and puts them ({least:.1f} ms)"
            f" {found['weights'] / least:.1f}"
        )
    # To look at a million numbers one by one takes several times what copying them takes, so other
    # weights are measured by the shortest loop that does so; the rest of a frame is words and axes.
    assert found["weights"] <= (16 if causal else 8) * least
    assert found["hover"] <= found["weights"]
    assert found["again"] <= found["weights"]
