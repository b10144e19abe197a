import { describe, expect, test } from "vitest";
import { paletteOf, unpack } from "../src/color";
import {
	bytes,
	causalStates,
	colorsOf,
	FakeModel,
	labels,
	names,
	softmaxRows,
	stateOf,
	tileOf,
} from "./fixtures";
import { frames, mount } from "./page";

const colorOf = (weight: number, colors = colorsOf()) =>
	unpack(paletteOf(colors, false)[Math.round(Math.fround(weight) * 255)] ?? 0);

describe("cells", () => {
	test("each cell has the colour of its weight: rows from the top, columns from the left", async () => {
		const rows = [
			[0, 0.1, 0.2, 0.3, 0.4],
			[0.5, 0.6, 0.7, 0.8, 0.9],
			[1, 0.95, 0.85, 0.75, 0.65],
		];
		const map = await mount(stateOf(rows));
		rows.forEach((row, r) => {
			row.forEach((weight, c) => {
				expect(map.pixel(r, c).slice(0, 3)).toEqual([...colorOf(weight)]);
			});
		});
	});

	test("the canvas covers exactly the cells, 40 px each at most", async () => {
		const map = await mount(stateOf(softmaxRows(3, 5)));
		const box = map.find(".attnmap-cells").getBoundingClientRect();
		expect([box.width, box.height]).toEqual([200, 120]);
	});

	test.each([
		[3, 5],
		[13, 9],
		[61, 60],
		[90, 40],
		[300, 200],
	])("%i × %i: corners are drawn alike, ±1 px", async (rows, columns) => {
		const grid = Array.from({ length: rows }, () => new Array<number>(columns).fill(1));
		const map = await mount(stateOf(grid));
		const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
		const data = map.picture();
		const drawn = (x: number, y: number) => (data[4 * (y * canvas.width + x) + 3] ?? 0) > 128;
		const pitch = [canvas.width / columns, canvas.height / rows] as const;
		const sizes = [0, columns - 1].flatMap((column) =>
			[0, rows - 1].map((row) => {
				const y = Math.floor((row + 0.5) * pitch[1]);
				const x = Math.floor((column + 0.5) * pitch[0]);
				let width = 0;
				let height = 0;
				for (let i = 0; i < Math.floor(pitch[0]); i++)
					if (drawn(Math.floor(column * pitch[0]) + i, y)) width++;
				for (let i = 0; i < Math.floor(pitch[1]); i++)
					if (drawn(x, Math.floor(row * pitch[1]) + i)) height++;
				return [width, height] as const;
			}),
		);
		for (const [width, height] of sizes) {
			expect(Math.abs(width - (sizes[0]?.[0] ?? 0))).toBeLessThanOrEqual(1);
			expect(Math.abs(height - (sizes[0]?.[1] ?? 0))).toBeLessThanOrEqual(1);
			expect(width).toBeGreaterThan(0);
		}
	});

	test("there is a 1 px gap from 4 px up, and none below", async () => {
		const row = (columns: number) => [new Array<number>(columns).fill(1)];
		const wide = await mount(stateOf([...row(6), ...row(6), ...row(6)]));
		const canvas = wide.find(".attnmap-cells") as HTMLCanvasElement;
		const across = wide.picture().subarray(4 * 20 * canvas.width, 4 * 21 * canvas.width);
		const clear = Array.from({ length: canvas.width }, (_, x) => x).filter(
			(x) => across[4 * x + 3] === 0,
		);
		expect(clear).toEqual([39, 79, 119, 159, 199, 239]);
		const tight = await mount(stateOf(Array.from({ length: 150 }, () => row(300)[0] ?? [])));
		expect(tight.picture().every((value, i) => i % 4 !== 3 || value === 255)).toBe(true);
	});

	test("a lone spike is seen however small the cells", async () => {
		const rows = Array.from({ length: 900 }, () => new Array<number>(1100).fill(0));
		(rows[777] as number[])[13] = 1;
		const map = await mount(stateOf(rows));
		const full = colorOf(1);
		const data = map.picture();
		let spots = 0;
		for (let i = 0; i < data.length; i += 4) {
			if (full.every((channel, n) => data[i + n] === channel)) spots++;
		}
		expect(spots).toBe(1);
		await map.hover(777, 13);
		expect(map.model.state.hover).toEqual([777, 13]);
		expect(map.find(".attnmap-readout").textContent).toContain("1.00");
	});

	test("a mean is said to be one, and where the largest of its weights is", async () => {
		const map = await mount(
			stateOf([[0]], {
				tokens: labels(names(30, "k")),
				queries: labels(names(20, "q")),
				weights: {
					...tileOf([
						[0, 0, 0],
						[0, 0.25, 0],
					]),
					size: [20, 30],
					window: [0, 20, 0, 30],
					bin: [10, 10],
					pool: "mean",
					states: new Uint8Array([0, 0, 0x30]),
					at: new DataView(new Uint16Array([0, 1, 2, 3, 57, 5]).buffer),
				},
			}),
		);
		const readout = () => map.find(".attnmap-readout").textContent;
		await map.hover(1, 1);
		expect(map.model.state.hover).toEqual([15, 17]);
		const said = "mean 0.25 of the weights in 10 × 10 cells, the largest is";
		expect(readout()).toBe(`q15 (15) → k17 (17) · ${said} here`);
		map.model.change({ hover: [11, 12] });
		await frames();
		expect(readout()).toBe(`q11 (11) → k12 (12) · ${said} at (15, 17)`);
		map.model.change({ hover: [11, 22] });
		await frames();
		expect(readout()).toBe("q11 (11) → k22 (22) · cannot look");
		expect(map.find(".attnmap-size").textContent).toContain("mean of 10 × 10 per cell");
		expect(map.find(".attnmap-legend-title").textContent).toBe("mean weight");
	});

	test("a pooled tile reads out the true query and key of its largest weight", async () => {
		const shape: [number, number] = [2, 3];
		const at = new Uint16Array([0, 1, 2, 3, 57, 5]);
		const map = await mount(
			stateOf([[0]], {
				tokens: labels(names(30, "k")),
				queries: labels(names(20, "q")),
				weights: {
					size: [20, 30],
					shape,
					window: [0, 20, 0, 30],
					bin: [10, 10],
					data: bytes([0, 0, 0, 0, 0.9, 0]),
					states: null,
					at: new DataView(at.buffer),
				},
			}),
		);
		await map.hover(1, 1);
		expect(map.model.state.hover).toEqual([15, 17]);
		expect(map.find(".attnmap-readout").textContent).toBe(
			"q15 (15) looks at k17 (17) 0.90 · largest of 10 × 10 cells",
		);
		expect(map.find(".attnmap-size").textContent).toContain("20 queries × 30 keys");
		map.model.change({ selection: [12, 19], hover: null });
		await frames();
		expect(map.find(".attnmap-pin").style.translate).toBe(
			map.find(".attnmap-cell").style.translate,
		);
		expect(map.find(".attnmap-readout").textContent).toContain("among 10 × 10 cells");
	});

	test("colours do not change on hover, focus or selection", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7)));
		const before = map.picture().slice();
		await map.hover(2, 3);
		await map.click(2, 3);
		map.find(".attnmap-grid").focus();
		await frames();
		expect(map.picture()).toEqual(before);
	});

	test("very wide and very tall maps stay usable", async () => {
		for (const [rows, columns] of [
			[1, 500],
			[500, 1],
		] as const) {
			const map = await mount(stateOf(softmaxRows(rows, columns)));
			const box = map.find(".attnmap-cells").getBoundingClientRect();
			expect(Math.min(box.width, box.height)).toBeGreaterThanOrEqual(24);
			expect(box.height).toBeLessThanOrEqual(800);
			await map.hover(rows - 1, columns - 1);
			expect(map.model.state.hover).toEqual([rows - 1, columns - 1]);
		}
	});

	test("nothing is wider than the space given", async () => {
		for (const width of [240, 320, 500, 900]) {
			const map = await mount(stateOf(softmaxRows(12, 70)), { width });
			expect(map.root.scrollWidth).toBeLessThanOrEqual(width);
		}
	});
});

describe("values", () => {
	const written = (map: { find(selector: string): HTMLElement }) => {
		const canvas = map.find(".attnmap-values") as HTMLCanvasElement;
		const data = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data;
		return data?.some((value) => value > 0) ?? false;
	};
	test.each([
		[12, null, true],
		[13, null, false],
		[13, true, true],
		[3, false, false],
	])("%i columns, show_values %s: written %s", async (columns, show_values, expected) => {
		const map = await mount(stateOf(softmaxRows(4, columns), { show_values }));
		expect(written(map)).toBe(expected);
	});

	test("where they were asked for but cannot fit, the legend says so", async () => {
		const map = await mount(stateOf(softmaxRows(4, 90), { show_values: true }));
		expect(written(map)).toBe(false);
		expect(map.find(".attnmap-legend").textContent).toContain("too small to write values");
		map.model.change({ show_values: null });
		await frames();
		expect(map.find(".attnmap-legend").textContent).not.toContain("too small");
	});

	test("the ink stands out from its cell", async () => {
		const map = await mount(stateOf([[0, 0.5, 1]]));
		const canvas = map.find(".attnmap-values") as HTMLCanvasElement;
		const third = canvas.width / 3;
		const inks = [0, 1, 2].map((n) => {
			const data = canvas.getContext("2d")?.getImageData(third * n, 0, third, canvas.height).data;
			let strongest = 0;
			for (let i = 0; data && i < data.length; i += 4) {
				if ((data[i + 3] ?? 0) > (data[strongest + 3] ?? 0)) strongest = i;
			}
			return data?.[strongest];
		});
		expect(inks[0]).toBeLessThan(20);
		expect(inks[2]).toBe(255);
	});
});

describe("words around the map", () => {
	test("title, size, axis titles", async () => {
		const map = await mount(stateOf(softmaxRows(1, 5), { title: "Layer 5 · Head 3" }));
		expect(map.find(".attnmap-title").textContent).toBe("Layer 5 · Head 3");
		expect(map.find(".attnmap-size").textContent).toBe("1 query × 5 keys");
		expect(map.find(".attnmap-axis-query").textContent).toBe("Query");
		expect(map.find(".attnmap-axis-key").textContent).toBe("Key");
		const box = (selector: string) => map.find(selector).getBoundingClientRect();
		expect(box(".attnmap-axis-query").right).toBeLessThan(box(".attnmap-cells").left);
		expect(box(".attnmap-axis-key").top).toBeGreaterThan(box(".attnmap-cells").bottom);
	});

	test("error is an alert, and the map stays", async () => {
		const map = await mount(stateOf(softmaxRows(3, 4)));
		const before = map.picture().slice();
		expect(map.find(".attnmap-error").hidden).toBe(true);
		map.model.change({ error: "boom <b>" });
		await frames();
		expect(map.find(".attnmap-error").hidden).toBe(false);
		expect(map.find(".attnmap-error").getAttribute("role")).toBe("alert");
		expect(map.find(".attnmap-error").textContent).toBe("boom <b>");
		expect(map.picture()).toEqual(before);
		map.model.change({ error: "" });
		expect(map.find(".attnmap-error").hidden).toBe(true);
	});

	test("status is one line", async () => {
		const map = await mount(stateOf(softmaxRows(3, 4), { status: "overview of 5000 tokens" }));
		expect(map.find(".attnmap-status").textContent).toBe("overview of 5000 tokens");
		expect(map.find(".attnmap-status").checkVisibility()).toBe(true);
	});

	test("checks: none, one, several", async () => {
		const map = await mount(stateOf(softmaxRows(3, 4)));
		const checks = map.find(".attnmap-checks") as HTMLDetailsElement;
		expect(checks.checkVisibility()).toBe(false);
		map.model.change({ _checks: ["row 3 sums to 0.4"] });
		expect(checks.textContent).toBe("row 3 sums to 0.4");
		map.model.change({ _checks: ["a", "b"] });
		expect(checks.querySelector("summary")?.textContent).toBe("2 things to check");
		expect(checks.open).toBe(false);
		checks.open = true;
		expect(map.texts(".attnmap-checks li")).toEqual(["a", "b"]);
	});

	test("class_name goes on the root, and comes off again", async () => {
		const map = await mount(stateOf(softmaxRows(3, 4), { class_name: "mine  other" }));
		expect(map.root.className).toBe("attnmap mine other");
		map.model.change({ class_name: "third" });
		expect(map.root.className).toBe("attnmap third");
	});
});

test("new weights of another shape come with their labels", async () => {
	const model = new FakeModel(stateOf(softmaxRows(3, 4)));
	const map = await mount(model);
	const rows = softmaxRows(5, 2);
	model.change({
		weights: tileOf(rows, causalStates(5, 2)),
		tokens: labels(["x", "y"]),
		queries: labels(names(5, "row")),
	});
	await frames();
	expect(map.texts(".attnmap-row-label")).toEqual(names(5, "row"));
	expect(map.texts(".attnmap-column-label")).toEqual(["x", "y"]);
	expect(map.find(".attnmap-size").textContent).toBe("5 queries × 2 keys");
});

describe("viewport", () => {
	const rows = softmaxRows(20, 30);

	test("shows the window that Python sets: its cells, labels and read-outs, true indices", async () => {
		const map = await mount(stateOf(rows, { viewport: [5, 9, 10, 17], show_values: false }));
		const box = map.find(".attnmap-cells").getBoundingClientRect();
		// The figure keeps its size: what is in view fills it.
		expect([box.width, box.height]).toEqual([510, 340]);
		expect(map.texts(".attnmap-row-label")).toEqual(["query5", "query6", "query7", "query8"]);
		expect(map.texts(".attnmap-column-label").at(-1)).toBe("key16");
		expect(map.find(".attnmap-size").textContent).toContain("in view 5–8 × 10–16");
		map.model.change({ hover: [8, 16] });
		await frames();
		expect(map.find(".attnmap-readout").textContent).toContain("query8 (8) looks at key16 (16)");
		const shown = unpack(paletteOf(colorsOf(), false)[Math.round((rows[8]?.[16] ?? 0) * 255)] ?? 0);
		const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
		const drawn =
			canvas.getContext("2d")?.getImageData((6.5 / 7) * 510, (3.5 / 4) * 340, 1, 1).data ?? [];
		expect([...drawn].slice(0, 3)).toEqual([...shown]);
		map.model.change({ viewport: null });
		await frames();
		expect(map.all(".attnmap-row-label").length).toBe(20);
	});

	test("a selection out of view is kept, read out, and comes back", async () => {
		const map = await mount(stateOf(rows, { viewport: [0, 4, 0, 4], selection: [12, 13] }));
		expect(map.find(".attnmap-pin").hidden).toBe(true);
		expect(map.find(".attnmap-readout").textContent).toMatch(
			/^query12 \(12\) looks at key13 \(13\) 0\.\d+ · .* · pinned cell out of viewShow it$/,
		);
		map.model.change({ viewport: [10, 14, 11, 16] });
		await frames();
		expect(map.find(".attnmap-pin").hidden).toBe(false);
		expect(map.model.sent).toEqual([]);
	});

	test("a pooled overview is cut at once, and replaced by the detail of the same window", async () => {
		const pooled = {
			...tileOf([
				[0.1, 0.2, 0.3],
				[0.4, 0.5, 0.6],
			]),
			bin: [10, 10] as [number, number],
		};
		const weights = { ...pooled, size: [20, 30], window: [0, 20, 0, 30] } as typeof pooled;
		const map = await mount(
			stateOf(rows, { weights, viewport: [10, 20, 10, 30], show_values: false }),
		);
		expect(map.pixel(0, 0)[3]).toBe(255);
		expect(map.find(".attnmap-size").textContent).toContain(
			"10 × 10 per cell, in view 10–19 × 10–29",
		);
		const exact = rows.slice(10, 20).map((row) => row.slice(10, 30));
		const _detail = {
			...tileOf(exact),
			size: weights.size,
			window: [10, 20, 10, 30],
		} as typeof pooled;
		map.model.change({ _detail: { ..._detail, window: [0, 10, 10, 30] } });
		await frames();
		expect(map.find(".attnmap-size").textContent).toContain("per cell");
		map.model.change({ _detail });
		await frames();
		expect(map.find(".attnmap-size").textContent).not.toContain("per cell");
		expect(map.all(".attnmap-row-label").length).toBe(10);
	});
});
