import { describe, expect, test } from "vitest";
import { move } from "../src/keyboard";
import type { Cell } from "../src/model";
import { HINT } from "../src/readout";
import { causalStates, FakeModel, labels, softmaxRows, stateOf, tileOf } from "./fixtures";
import { frames, hostOf, type Mounted, mount } from "./page";

const readout = (map: Mounted) => map.find(".attnmap-readout").textContent;
const rectOf = (element: HTMLElement) => element.getBoundingClientRect();

/** The box of a cell on the page. */
function cellBox(map: Mounted, row: number, column: number): DOMRect {
	const box = rectOf(map.find(".attnmap-cells"));
	const [rows, columns] = map.model.state.weights.shape;
	const width = box.width / columns;
	const height = box.height / rows;
	return new DOMRect(box.left + column * width, box.top + row * height, width, height);
}

const covers = (outer: DOMRect, inner: DOMRect, slack = 2) =>
	Math.abs(outer.left - inner.left) <= slack &&
	Math.abs(outer.top - inner.top) <= slack &&
	Math.abs(outer.right - inner.right) <= slack &&
	Math.abs(outer.bottom - inner.bottom) <= slack;

describe("hovering", () => {
	test("says query and key the right way round", async () => {
		const rows = [
			[0, 1, 0, 0],
			[0, 0, 1, 0],
			[1, 0, 0, 0],
		];
		const map = await mount(
			stateOf(rows, { tokens: labels(["a", "b", "c", "d"]), queries: labels(["p", "q", "r"]) }),
		);
		await map.hover(0, 1);
		expect(map.model.state.hover).toEqual([0, 1]);
		expect(readout(map)).toBe("p (0) looks at b (1) 1.00 · 1st of 4 in its row · row sums to 1.00");
		expect(map.find(".attnmap-tooltip").textContent).toBe("p → b1.00");
	});

	test("rank counts the row's weights that count, and equals share it", async () => {
		const rows = [[0.3, 0.1, 0.3, 0.2, Number.NaN, 0]];
		const map = await mount(stateOf(rows, { weights: tileOf(rows, [[0, 0, 0, 0, 2, 3]]) }));
		const ranks: string[] = [];
		for (const column of [0, 1, 2, 3]) {
			await map.hover(0, column);
			ranks.push(/\d+\w\w of \d+/.exec(readout(map))?.[0] ?? "");
		}
		expect(ranks).toEqual(["1st of 4", "4th of 4", "1st of 4", "3rd of 4"]);
		expect(readout(map)).toContain("row sums to 0.90");
	});

	test("draws a crosshair over the full row and column, and marks the row's largest", async () => {
		const rows = softmaxRows(5, 8);
		(rows[3] as number[])[6] = 0.9;
		const map = await mount(stateOf(rows));
		await map.hover(3, 1);
		const cells = rectOf(map.find(".attnmap-cells"));
		const row = rectOf(map.find('.attnmap-crosshair[data-axis="row"]'));
		const column = rectOf(map.find('.attnmap-crosshair[data-axis="column"]'));
		expect([row.left, row.width]).toEqual([cells.left, cells.width]);
		expect([column.top, column.height]).toEqual([cells.top, cells.height]);
		expect(covers(rectOf(map.find(".attnmap-largest")), cellBox(map, 3, 6))).toBe(true);
		expect(covers(rectOf(map.find(".attnmap-cell")), cellBox(map, 3, 1))).toBe(true);
	});

	test("sends each cell once, and null on leaving", async () => {
		const map = await mount(stateOf(softmaxRows(4, 6)));
		await map.hover(1, 2);
		await map.hover(1, 2);
		await map.hover(3, 5);
		map.find(".attnmap-grid").dispatchEvent(new PointerEvent("pointerleave"));
		await frames();
		expect(map.model.sent).toEqual([{ hover: [1, 2] }, { hover: [3, 5] }, { hover: null }]);
		expect(readout(map)).toBe(HINT);
		expect(map.find(".attnmap-tooltip").hidden).toBe(true);
	});

	test("sends at most one message an animation frame", async () => {
		const map = await mount(stateOf(softmaxRows(10, 12)));
		const box = rectOf(map.find(".attnmap-cells"));
		const grid = map.find(".attnmap-grid");
		for (let x = 1; x < box.width; x += 3) {
			const where = { clientX: box.left + x, clientY: box.top + 5 };
			grid.dispatchEvent(new PointerEvent("pointermove", where));
		}
		await frames();
		expect(map.model.sent.length).toBe(1);
		expect(map.model.state.hover).toEqual([0, 11]);
	});

	test("the tooltip stays off the hovered row and column and inside the map", async () => {
		const map = await mount(stateOf(softmaxRows(12, 11)));
		const tip = map.find(".attnmap-tooltip");
		for (const [row, column] of [
			[0, 0],
			[0, 10],
			[11, 0],
			[11, 10],
			[6, 5],
		] as const) {
			await map.hover(row, column);
			const box = rectOf(tip);
			const cell = cellBox(map, row, column);
			expect(box.left >= cell.right - 2 || box.right <= cell.left).toBe(true);
			expect(box.top >= cell.bottom - 2 || box.bottom <= cell.top).toBe(true);
			const root = rectOf(map.root);
			expect(box.left).toBeGreaterThanOrEqual(root.left - 0.5);
			expect(box.right).toBeLessThanOrEqual(root.right + 0.5);
			expect(box.bottom).toBeLessThanOrEqual(root.bottom + 0.5);
		}
	});

	test("the read-out keeps its height, whatever it says", async () => {
		const map = await mount(stateOf(softmaxRows(4, 9)), { width: 700 });
		const empty = rectOf(map.find(".attnmap-readout")).height;
		await map.hover(2, 2);
		expect(rectOf(map.find(".attnmap-readout")).height).toBe(empty);
	});

	test("a hover set elsewhere is drawn, without a tooltip", async () => {
		const map = await mount(stateOf(softmaxRows(4, 6)));
		map.model.change({ hover: [2, 4] });
		await frames();
		expect(covers(rectOf(map.find(".attnmap-cell")), cellBox(map, 2, 4))).toBe(true);
		expect(readout(map)).toContain("query2 (2) looks at key4 (4)");
		expect(map.find(".attnmap-tooltip").hidden).toBe(true);
		expect(map.model.sent).toEqual([]);
	});

	test("cells that do not exist are ignored", async () => {
		const map = await mount(stateOf(softmaxRows(4, 6), { hover: [9, 9], selection: [-1, 2] }));
		expect(readout(map)).toBe(HINT);
		expect(map.find(".attnmap-pin").hidden).toBe(true);
	});
});

describe("pinning", () => {
	test("a click pins, as plain numbers in one message; on the pinned cell it unpins", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7)));
		await map.click(2, 5);
		expect(map.model.sent).toEqual([{ selection: [2, 5] }]);
		expect(covers(rectOf(map.find(".attnmap-pin")), cellBox(map, 2, 5))).toBe(true);
		await map.click(2, 5);
		expect(map.model.sent).toEqual([{ selection: [2, 5] }, { selection: null }]);
		expect(map.find(".attnmap-pin").hidden).toBe(true);
	});

	test("the read-out falls back to the pinned cell, then to the hint", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7), { selection: [1, 6] }));
		expect(readout(map)).toContain("query1 (1) looks at key6 (6)");
		await map.hover(3, 0);
		expect(readout(map)).toContain("query3 (3) looks at key0 (0)");
		expect(map.find(".attnmap-pin").hidden).toBe(false);
		map.model.change({ hover: null, selection: null });
		await frames();
		expect(readout(map)).toBe(HINT);
	});

	test("two views of one model: a click in one pins in both, one message; closing one leaves the other", async () => {
		const model = new FakeModel(stateOf(softmaxRows(4, 7)));
		const one = await mount(model);
		const two = await mount(model);
		await one.click(3, 2);
		expect(model.sent).toEqual([{ selection: [3, 2] }]);
		expect(covers(rectOf(two.find(".attnmap-pin")), cellBox(two, 3, 2))).toBe(true);
		const listening = model.listening;
		one.close();
		expect(model.listening).toBe(listening / 2);
		await two.click(0, 1);
		expect(model.state.selection).toEqual([0, 1]);
	});
});

describe("keyboard", () => {
	test.each([
		["ArrowDown", false, [1, 2], [2, 2]],
		["ArrowUp", false, [0, 2], [0, 2]],
		["ArrowLeft", false, [1, 2], [1, 1]],
		["ArrowRight", false, [1, 29], [1, 29]],
		["Home", false, [1, 2], [1, 0]],
		["End", false, [1, 2], [1, 29]],
		["Home", true, [1, 2], [0, 0]],
		["End", true, [1, 2], [19, 29]],
		["PageDown", false, [1, 2], [11, 2]],
		["PageDown", false, [15, 2], [19, 2]],
		["PageUp", false, [15, 2], [5, 2]],
		["ArrowDown", true, [1, 2], null],
		["x", false, [1, 2], null],
	] as [string, boolean, Cell, Cell | null][])(
		"%s (control %s) leads from %j to %j",
		(key, control, from, to) => {
			expect(move(key, control, from, [20, 30])).toEqual(to);
		},
	);

	test("arrows move, Python sees it, Enter pins, Escape clears", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7)));
		await map.press("ArrowRight");
		await map.press("ArrowDown");
		expect(map.model.state.hover).toEqual([1, 1]);
		expect(readout(map)).toContain("query1 (1) looks at key1 (1)");
		await map.press("Enter");
		expect(map.model.state.selection).toEqual([1, 1]);
		await map.press(" ");
		expect(map.model.state.selection).toBe(null);
		await map.press("Enter");
		await map.press("End");
		expect(map.model.state.hover).toEqual([1, 6]);
		await map.press("Escape");
		expect([map.model.state.hover, map.model.state.selection]).toEqual([null, null]);
		expect(readout(map)).toBe(HINT);
	});

	test("reaches every weight of a causal map", async () => {
		const rows = softmaxRows(3, 4, true);
		const map = await mount(stateOf(rows, { weights: tileOf(rows, causalStates(3, 4)) }));
		const seen = new Set<string>();
		await map.press("Home", { ctrlKey: true });
		for (let row = 0; row < 3; row++) {
			await map.press("Home");
			for (let column = 0; column < 4; column++) {
				seen.add(/query\d \(\d\)|key\d \(\d\)/g[Symbol.match](readout(map))?.join() ?? "");
				await map.press("ArrowRight");
			}
			await map.press("ArrowDown");
		}
		expect(seen.size).toBe(12);
	});

	test("handled keys do not reach the host; others do, untouched", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7)));
		const heard: string[] = [];
		map.host.addEventListener("keydown", (event) => heard.push(event.key));
		expect(await map.press("Escape")).toBe(false);
		expect(await map.press("ArrowDown")).toBe(true);
		expect(await map.press("Enter")).toBe(true);
		expect(await map.press("a")).toBe(false);
		expect(await map.press("Enter", { shiftKey: true })).toBe(false);
		expect(await map.press("Enter", { ctrlKey: true })).toBe(false);
		expect(heard).toEqual(["Escape", "a", "Enter", "Enter"]);
	});

	test("the grid follows the ARIA pattern", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7), { title: "Layer 1" }));
		const grid = map.find(".attnmap-grid");
		expect(grid.getAttribute("aria-label")).toBe("Layer 1: 4 queries × 7 keys");
		expect([grid.getAttribute("aria-rowcount"), grid.getAttribute("aria-colcount")]).toEqual([
			"4",
			"7",
		]);
		await map.press("ArrowDown");
		await map.press("Enter");
		const cell = document.getElementById(grid.getAttribute("aria-activedescendant") ?? "");
		expect(cell?.getAttribute("role")).toBe("gridcell");
		expect(cell?.getAttribute("aria-colindex")).toBe("1");
		expect(cell?.parentElement?.getAttribute("role")).toBe("row");
		expect(cell?.parentElement?.getAttribute("aria-rowindex")).toBe("2");
		expect(cell?.getAttribute("aria-selected")).toBe("true");
		expect(cell?.getAttribute("aria-label")).toMatch(/^query1 \(1\) → key0 \(0\): 0\.\d+$/);
	});

	test("keys are announced, pointing is not", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7)));
		const live = () => map.find(".attnmap-readout").getAttribute("aria-live");
		await map.hover(1, 1);
		expect(live()).toBe("off");
		await map.press("ArrowRight");
		expect(live()).toBe("polite");
		expect(map.find(".attnmap-readout").getAttribute("role")).toBe("status");
	});

	test("goes on from the pinned cell, and leaves nothing behind on blur", async () => {
		const map = await mount(stateOf(softmaxRows(4, 7), { selection: [2, 3] }));
		await map.press("ArrowRight");
		expect(map.model.state.hover).toEqual([2, 4]);
		map.find(".attnmap-grid").dispatchEvent(new FocusEvent("blur"));
		await frames();
		expect(map.model.state.hover).toBe(null);
		expect(map.model.state.selection).toEqual([2, 3]);
	});
});

test("the first view shows a one-line hint", async () => {
	const map = await mount(stateOf(softmaxRows(3, 5)), { host: hostOf(600) });
	expect(readout(map)).toBe(HINT);
	for (const word of ["Hover", "Enter", "arrows", "Escape"]) expect(HINT).toContain(word);
	expect(rectOf(map.find(".attnmap-readout")).height).toBeLessThan(36);
});
