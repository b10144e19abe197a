import { describe, expect, test } from "vitest";
import { paletteOf, unpack } from "../src/color";
import { State } from "../src/model";
import { colorsOf, names, softmaxRows, stateOf, tileOf } from "./fixtures";
import { frames, mount } from "./page";

const colorOf = (weight: number, colors = colorsOf()) =>
	unpack(paletteOf(colors, false)[Math.round(Math.fround(weight) * 255)] ?? 0);

describe("states", () => {
	const N = Number.NaN;
	const rows = [
		[0.5, 0, N, 0, N],
		[N, 0.2, N, 0.3, 0.4],
	];
	const states = [
		[State.weight, State.zero, State.empty, State.cannotLook, State.noValidKey],
		[State.notYet, State.padding, State.empty, State.cannotLook, State.weight],
	];
	const given = { weights: tileOf(rows, states), show_values: false };

	test("the legend names those that occur, and only those", async () => {
		const map = await mount(stateOf(rows, given));
		expect(map.texts(".attnmap-legend-state")).toEqual([
			"empty (no weight given)",
			"cannot look",
			"no valid key",
			"padding",
			"not yet",
			"weight where it cannot look (1 cell)",
		]);
		map.model.change({ weights: tileOf(rows) });
		await frames();
		expect(map.all(".attnmap-legend-state")).toEqual([]);
	});

	test("each looks different, in grey too", async () => {
		const map = await mount(stateOf(rows, given));
		const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
		const look = (row: number, column: number) => {
			const image = canvas.getContext("2d")?.getImageData(column * 40, row * 40, 39, 39);
			const grey: number[] = [];
			const data = image?.data ?? [];
			for (let i = 0; i < data.length; i += 4) {
				grey.push(Math.round((data[i] ?? 0) * 0.3 + (data[i + 1] ?? 0) * 0.6) + (data[i + 3] ?? 0));
			}
			return grey.join();
		};
		const looks = [
			look(0, 0),
			look(0, 1),
			look(0, 2),
			look(0, 3),
			look(0, 4),
			look(1, 0),
			look(1, 1),
		];
		expect(new Set(looks).size).toBe(looks.length);
		expect(map.pixel(0, 2)[3]).toBe(0);
		expect(map.pixel(0, 1).slice(0, 3)).toEqual([...colorOf(0)]);
	});

	test("at tiny cells they are flat greys, all different", async () => {
		const wide = Array.from({ length: 100 }, () => names(140).map((_, c) => Math.floor(c / 20)));
		const weights = wide.map((row) => row.map((state) => (state < 2 ? 0.5 * (1 - state) : N)));
		const map = await mount(stateOf(weights, { weights: tileOf(weights, wide) }));
		const colors = [0, 1, 2, 3, 4, 5, 6].map((state) => map.pixel(50, state * 20 + 10).join());
		expect(new Set(colors).size).toBe(7);
	});

	test("weight where nobody may look keeps its colour and is outlined", async () => {
		const map = await mount(stateOf(rows, given));
		expect(map.pixel(1, 3).slice(0, 3)).toEqual([...colorOf(0.3)]);
		const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
		const edge = canvas.getContext("2d")?.getImageData(3 * 40 + 20, 40, 1, 1).data ?? [];
		expect([...edge].slice(0, 3)).not.toEqual([...colorOf(0.3)]);
	});

	test("padding keeps its colour, weaker", async () => {
		const map = await mount(stateOf(rows, given));
		const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
		const box = canvas.getContext("2d")?.getImageData(42, 42, 30, 30).data ?? [];
		const alphas = new Set(Array.from({ length: 900 }, (_, i) => box[4 * i + 3] ?? 0));
		expect([...alphas].some((alpha) => alpha > 80 && alpha < 130)).toBe(true);
	});

	test("the read-out has the same words", async () => {
		const map = await mount(stateOf(rows, given));
		const read = async (row: number, column: number) => {
			await map.hover(row, column);
			return map.find(".attnmap-readout").textContent;
		};
		expect(await read(0, 2)).toBe("query0 (0) → key2 (2) · empty (no weight given)");
		expect(await read(0, 3)).toBe("query0 (0) → key3 (3) · cannot look");
		expect(await read(0, 4)).toBe("query0 (0) → key4 (4) · no valid key");
		expect(await read(1, 0)).toBe("query1 (1) → key0 (0) · not yet");
		expect(await read(1, 1)).toBe("query1 (1) looks at key1 (1) 0.20 · padding");
		expect(await read(1, 3)).toBe(
			"query1 (1) looks at key3 (3) 0.30 · weight where it cannot look · 2nd of 2 in its row · row sums to 0.90",
		);
	});

	test("padding says which side it is on", async () => {
		const weights = softmaxRows(3, 4);
		const padded = [
			[0, 0, 5, 0],
			[0, 0, 5, 0],
			[5, 5, 5, 5],
		];
		const map = await mount(stateOf(weights, { weights: tileOf(weights, padded) }));
		await map.hover(0, 2);
		expect(map.find(".attnmap-readout").textContent).toContain("· padding key");
		await map.hover(2, 0);
		expect(map.find(".attnmap-readout").textContent).toContain("· padding query");
		await map.hover(2, 2);
		expect(map.find(".attnmap-readout").textContent).toMatch(/· padding$/);
	});

	test("a bidirectional map keeps its upper triangle", async () => {
		const weights = softmaxRows(4, 5);
		const map = await mount(stateOf(weights));
		expect(map.pixel(0, 4)[3]).toBe(255);
		expect(map.all(".attnmap-legend-state")).toEqual([]);
	});
});

describe("legend", () => {
	test("states its range, its middle and where it clips", async () => {
		const _colors = colorsOf("Blues", { range: [0, 0.5], clips: [false, true] });
		const map = await mount(stateOf(softmaxRows(3, 4), { _colors }));
		expect(map.texts(".attnmap-legend-tick")).toEqual(["0", ".25", "≥ .50"]);
		expect(map.find(".attnmap-legend-title").textContent).toBe("weight");
	});
	test("log, row and diverging scales say so", async () => {
		const map = await mount(
			stateOf(softmaxRows(3, 4), {
				_colors: colorsOf("Blues", { range: [0.01, 1], scale: "log" }),
			}),
		);
		expect(map.find(".attnmap-legend-title").textContent).toContain("log");
		expect(map.texts(".attnmap-legend-tick")).toEqual([".010", ".10", "1"]);
		map.model.change({ _colors: colorsOf("Blues", { scale: "row" }) });
		await frames();
		expect(map.texts(".attnmap-legend-tick").at(-1)).toBe("largest of its row");
		const notes = ["diverging scheme around 0"];
		map.model.change({
			_colors: colorsOf("RdBu", { range: [-0.8, 0.8], clips: [true, false], notes }),
		});
		await frames();
		expect(map.texts(".attnmap-legend-tick")).toEqual(["≤ −.80", "0", ".80"]);
		expect(map.texts(".attnmap-legend-note")).toEqual(notes);
	});
	test("goes below the map when it is narrow", async () => {
		const wide = await mount(stateOf(softmaxRows(12, 13)), { width: 700 });
		const narrow = await mount(stateOf(softmaxRows(12, 13)), { width: 320 });
		const place = (map: typeof wide) => {
			const legend = map.find(".attnmap-legend").getBoundingClientRect();
			const figure = map.find(".attnmap-figure").getBoundingClientRect();
			return [legend.left >= figure.right, legend.top >= figure.bottom];
		};
		expect(place(wide)).toEqual([true, false]);
		expect(place(narrow)).toEqual([false, true]);
	});
});
