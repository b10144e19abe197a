import { describe, expect, test, vi } from "vitest";
import * as colors from "../src/color";
import type { State } from "../src/model";
import * as wire from "../src/model";
import { findTokens } from "../src/search";
import { topOfRow } from "../src/top";
import { colorsOf, labels, names, softmaxRows, stateOf, tileOf } from "./fixtures";
import { cellAt, drag, point, rest, tileOver, wheel } from "./gesture";
import { frames, type Mounted, mount } from "./page";

/** 400 × 600 tokens in cells of 4 × 4; the spike in each is at (4r + 3, 4c + 1). */
const SIZE = [400, 600] as const;
const weight = (query: number, key: number) =>
	query % 4 === 3 && key % 4 === 1 ? ((query * 7 + key * 3) % 90) / 100 + 0.1 : 0.01;
const overview = tileOver(SIZE, weight, 4);
const detailOf = (window: wire.Window) => tileOver(SIZE, weight, 1, window);
const WINDOW: wire.Window = [100, 120, 200, 230];

const pooled = (given: Partial<State> = {}) =>
	mount(
		stateOf([[0]], {
			tokens: labels(names(600, "k")),
			queries: labels(names(400, "q")),
			weights: overview,
			show_values: false,
			...given,
		}),
	);
const readout = (map: Mounted) => map.find(".attnmap-readout").textContent;
const filled = (map: Mounted) => map.picture().every((value, i) => i % 4 !== 3 || value === 255);

describe("detail on its way", () => {
	test("the overview stays and is sharpened in place: same labels, same figure, never a blank", async () => {
		const map = await pooled({ viewport: WINDOW });
		expect(map.find(".attnmap-size").textContent).toContain("4 × 4 per cell, in view 100–119");
		expect(filled(map)).toBe(true);
		const places = () =>
			map.all(".attnmap-row-label, .attnmap-column-label").map((it) => it.style.cssText);
		const before = places();
		const box = map.find(".attnmap-cells").getBoundingClientRect();
		expect(await cellAt(map, [0.5, 0.5])).toEqual([111, 213]);
		expect(readout(map)).toContain("· largest of 4 × 4 cells");
		map.model.change({ _detail: detailOf(WINDOW) });
		await frames();
		expect(map.find(".attnmap-size").textContent).not.toContain("per cell");
		expect(places()).toEqual(before);
		expect(map.find(".attnmap-cells").getBoundingClientRect()).toEqual(box);
		expect(await cellAt(map, [0.51, 0.51])).toEqual([110, 215]);
		expect(readout(map)).toContain("q110 (110) looks at k215 (215) 0.0100");
	});

	test("the last request wins: a detail of another window is not drawn, whenever it comes", async () => {
		const map = await pooled({ viewport: WINDOW });
		const before = map.picture().slice();
		map.model.change({ _detail: detailOf([0, 20, 0, 30]) });
		await frames();
		expect(map.picture()).toEqual(before);
		map.model.change({ viewport: [200, 220, 300, 330] });
		map.model.change({ _detail: detailOf(WINDOW) });
		await frames();
		expect(map.find(".attnmap-size").textContent).toContain("per cell");
		map.model.change({ _detail: detailOf([200, 220, 300, 330]) });
		await frames();
		expect(map.find(".attnmap-size").textContent).not.toContain("per cell");
	});

	test("what was sharp stays sharp in its place while one pans on", async () => {
		const map = await pooled({ viewport: WINDOW, _detail: detailOf(WINDOW) });
		await drag(
			map,
			map.find(".attnmap-grid"),
			[
				[0.5, 0.5],
				[0.25, 0.5],
			],
			{ shiftKey: true },
		);
		expect(map.model.state.viewport).toEqual([105, 125, 200, 230]);
		expect(await cellAt(map, [0.325, 0.31])).toEqual([111, 209]);
		expect(readout(map)).toContain("in view");
		expect(await cellAt(map, [0.925, 0.31])).toEqual([123, 209]);
		expect(readout(map)).toContain("largest of 4 × 4 cells");
	});

	test("other weights take the old detail with them", async () => {
		const map = await pooled({ viewport: WINDOW, _detail: detailOf(WINDOW) });
		map.model.change({ weights: tileOver(SIZE, () => 0.5, 4), _detail: null });
		await frames();
		expect(map.find(".attnmap-size").textContent).toContain("per cell");
		const shown = new Set<number>();
		const picture = map.picture();
		for (let i = 0; i < picture.length; i += 4) shown.add(picture[i] ?? 0);
		expect(shown.size).toBe(1);
	});

	test("colours do not change by zooming", async () => {
		const map = await pooled();
		const at = [0.5, 0.5] as const;
		const middle = () => {
			const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
			const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
			return [...pen.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data];
		};
		const ticks = map.texts(".attnmap-legend-tick");
		const before = middle();
		for (let n = 0; n < 4; n++) wheel(map, at, -120);
		await rest(map);
		expect(middle()).toEqual(before);
		expect(map.texts(".attnmap-legend-tick")).toEqual(ticks);
	});
});

describe("work that is done once", () => {
	test("hovering, panning and zooming neither decode nor colour a tile again", async () => {
		const rows = softmaxRows(150, 260);
		const map = await mount(stateOf(rows, { viewport: [10, 90, 20, 120] }));
		const put = vi.spyOn(CanvasRenderingContext2D.prototype, "putImageData");
		let decoded = 0;
		const { weights } = map.model.state;
		const { data } = weights;
		Object.defineProperty(weights, "data", {
			get() {
				decoded++;
				return data;
			},
		});
		await map.hover(20, 30);
		await map.hover(40, 50);
		await drag(
			map,
			map.find(".attnmap-grid"),
			[
				[0.5, 0.5],
				[0.6, 0.7],
			],
			{ shiftKey: true },
		);
		wheel(map, [0.5, 0.5], -6);
		await rest(map);
		expect([decoded, put.mock.calls.length]).toEqual([0, 0]);
		map.model.change({ _colors: colorsOf("Viridis") });
		await frames();
		expect(decoded).toBe(0);
		expect(put.mock.calls.length).toBeGreaterThan(0);
		vi.restoreAllMocks();
	});
});

describe("labels", () => {
	test("appear as soon as they fit", async () => {
		const map = await mount(stateOf(softmaxRows(150, 260)));
		expect(map.all(".attnmap-row-label").length).toBeLessThan(80);
		map.model.change({ viewport: [60, 72, 100, 118] });
		await frames();
		expect(map.texts(".attnmap-row-label")).toEqual(names(150, "query").slice(60, 72));
		expect(map.texts(".attnmap-column-label")).toEqual(names(260, "key").slice(100, 118));
		const cells = map.find(".attnmap-cells").getBoundingClientRect();
		map.all(".attnmap-row-label").forEach((label, row) => {
			const box = label.getBoundingClientRect();
			const middle = cells.top + ((row + 0.5) / 12) * cells.height;
			expect(Math.abs((box.top + box.bottom) / 2 - middle)).toBeLessThan(1);
		});
	});
});

describe("a pinned cell out of view", () => {
	test("is said quietly, with a way to go there", async () => {
		const rows = softmaxRows(120, 200);
		const map = await mount(stateOf(rows, { viewport: [0, 20, 0, 30], selection: [90, 150] }));
		expect(map.find(".attnmap-pin").hidden).toBe(true);
		expect(readout(map)).toContain("pinned cell out of view");
		const show = map.find(".attnmap-show");
		expect(show.tagName).toBe("BUTTON");
		show.focus();
		await frames();
		expect(document.activeElement).toBe(show);
		show.click();
		await rest(map);
		const [q0, q1, k0, k1] = map.model.state.viewport ?? [0, 0, 0, 0];
		expect(q0 <= 90 && q1 > 90 && k0 <= 150 && k1 > 150).toBe(true);
		expect([q1 - q0, k1 - k0]).toEqual([20, 30]);
		expect(map.find(".attnmap-pin").hidden).toBe(false);
		expect(readout(map)).not.toContain("out of view");
	});
});

describe("finding a token", () => {
	const tokens = labels(
		names(120).map((name, i) => (i % 7 === 3 ? "Suitcase" : i === 50 ? "·x" : name)),
		names(120).map((_, i) => (i === 50 ? "ĠLongSuit" : null)),
	);

	test("matches labels and raw tokens, whatever the case", () => {
		expect(findTokens(tokens, "suit").length).toBe(18);
		expect(findTokens(tokens, "longsuit")).toEqual([50]);
		expect(findTokens(tokens, "")).toEqual([]);
		expect(findTokens(tokens, "nowhere")).toEqual([]);
	});

	const searching = async (given: Partial<State> = {}) => {
		const rows = softmaxRows(120, 90);
		const map = await mount(stateOf(rows, { queries: tokens, ...given }));
		map.find(".attnmap-grid").focus();
		await map.press("/");
		const input = map.find(".attnmap-search-text") as HTMLInputElement;
		const type = (text: string) => {
			input.value = text;
			input.dispatchEvent(new InputEvent("input", { bubbles: true }));
		};
		const press = async (key: string, shiftKey = false) => {
			const event = { key, shiftKey, bubbles: true, cancelable: true };
			input.dispatchEvent(new KeyboardEvent("keydown", event));
			await rest(map);
		};
		return { map, rows, input, type, press };
	};
	const said = (map: Mounted) => map.find(".attnmap-search-count").textContent;

	test("/ opens it, Enter goes on, Shift+Enter back, around the ends; Escape returns", async () => {
		const { map, rows, input, type, press } = await searching();
		expect(document.activeElement).toBe(input);
		type("SUIT");
		expect(said(map)).toBe("18 found");
		await press("Enter");
		expect([said(map), map.model.state.hover?.[0]]).toEqual(["1 of 18", 3]);
		const row = rows[3] ?? [];
		expect(map.model.state.hover?.[1]).toBe(row.indexOf(Math.max(...row)));
		await press("Enter");
		expect([said(map), map.model.state.hover?.[0]]).toEqual(["2 of 18", 10]);
		await press("Enter", true);
		await press("Enter", true);
		expect([said(map), map.model.state.hover?.[0]]).toEqual(["18 of 18", 115]);
		type("nowhere");
		await press("Enter");
		expect([said(map), map.model.state.hover?.[0]]).toEqual(["not found", 115]);
		await press("Escape");
		expect(map.find(".attnmap-search").hidden).toBe(true);
		expect(document.activeElement).toBe(map.find(".attnmap-grid"));
		expect(map.model.state.hover?.[0]).toBe(115);
	});

	test("brings the row into view", async () => {
		const { map, type, press } = await searching({ viewport: [0, 20, 0, 20] });
		type("longsuit");
		await press("Enter");
		const [q0, q1, k0, k1] = map.model.state.viewport ?? [0, 0, 0, 0];
		const [query, key] = map.model.state.hover ?? [0, 0];
		expect(query).toBe(50);
		expect(q0 <= query && query < q1 && k0 <= key && key < k1).toBe(true);
		expect([q1 - q0, k1 - k0]).toEqual([20, 20]);
		expect(readout(map)).toContain("“ĠLongSuit” (50)");
	});

	test("other tokens: found anew", async () => {
		const { map, type, press } = await searching();
		type("suit");
		await press("Enter");
		map.model.change({ queries: labels(names(120, "suit")) });
		await press("Enter");
		expect(said(map)).toMatch(/ of 120$/);
	});
});

describe("largest keys", () => {
	const list = (map: Mounted) => map.texts(".attnmap-top-key");
	const opened = async (map: Mounted) => {
		(map.find(".attnmap-top") as HTMLDetailsElement).open = true;
		await frames(3);
	};

	test("are the eight largest that count, largest first, the first of equals first", () => {
		const row = [0.1, 0, 0.3, 0.05, 0.3, 0.02, 0.9, 0.01, 0.03, 0.04, 0.06, -0.5];
		const states = row.map((_, key) => (key === 6 ? wire.State.padding : 0));
		const tile = wire.decodeTile(tileOf([row, row], [states, states]));
		const top = topOfRow(tile, 1);
		expect(top?.keys).toEqual([2, 4, 0, 10, 3, 9, 8, 5]);
		expect(top?.weights[0]).toBeCloseTo(0.3);
		expect(topOfRow(tile, 2)).toBe(null);
	});

	test("follow the current query: token, position, weight, bar", async () => {
		const rows = softmaxRows(20, 30);
		(rows[4] as number[])[17] = 0.75;
		const map = await mount(stateOf(rows));
		await opened(map);
		expect(map.find(".attnmap-top").textContent).toContain("Hover or pin");
		await map.hover(4, 2);
		expect(list(map).length).toBe(8);
		expect(list(map)[0]).toBe("key17(17)0.75");
		const bars = map.all(".attnmap-top-bar").map((bar) => bar.getBoundingClientRect().width);
		expect(bars).toEqual([...bars].sort((a, b) => b - a));
		await map.hover(5, 2);
		expect(list(map)[0]).not.toContain("0.75");
	});

	test("of a pooled grid are Python's, and only for their query", async () => {
		const _top = { query: 103, keys: [201, 5], weights: [0.7, 0.2] };
		const map = await pooled({ selection: [103, 201], _top });
		await opened(map);
		expect(list(map)).toEqual(["k201(201)0.70", "k5(5)0.20"]);
		map.model.change({ hover: [7, 9] });
		await frames();
		expect(list(map)).toEqual([]);
		map.model.change({ _top: { query: 7, keys: [1], weights: [0.5] } });
		await frames();
		expect(list(map)).toEqual(["k1(1)0.50"]);
	});
});

test("a row scale looks the same zoomed in", async () => {
	const rows = softmaxRows(60, 90);
	const map = await mount(
		stateOf(rows, { _colors: colorsOf("Blues", { scale: "row" }), show_values: false }),
	);
	map.model.change({ viewport: [10, 20, 30, 45] });
	await frames();
	const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
	const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
	const palette = colors.paletteOf(colorsOf(), false);
	for (const [row, column] of [
		[0, 0],
		[3, 9],
		[9, 14],
	] as const) {
		const weights = (rows[10 + row] ?? []).map(Math.fround);
		const share = (weights[30 + column] ?? 0) / Math.max(...weights);
		const x = ((column + 0.5) / 15) * canvas.width;
		const y = ((row + 0.5) / 10) * canvas.height;
		const drawn = [...pen.getImageData(x, y, 1, 1).data].slice(0, 3);
		expect(drawn).toEqual([...colors.unpack(palette[Math.round(share * 255)] ?? 0)]);
	}
	point(map.find(".attnmap-grid"), "pointerleave", [0, 0]);
});
