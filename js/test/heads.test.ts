import { beforeAll, expect, test } from "vitest";
import { headAt, headsInView, layoutHeads, linesOf, stepFrom } from "../src/heads-layout";
import { FIRST, MIDDLE, openSheet, shrink } from "../src/heads-sheet";
import { loadAxe, violations } from "./axe";
import { fiveHeads, type Given, mount, sheetOf, stateOf, TOP } from "./heads-page";
import { frames } from "./page";

// ---- pictures ------------------------------------------------------------------------------------

test("a head has its own picture, and what cannot be looked at is no zero", async () => {
	const page = await mount(stateOf(fiveHeads()));
	const at = (line: number, place: number, row: number, column: number) => {
		const [x, y] = page.middle(line, place);
		return page.pixel(x + (column - 1) * 28, y + (row - 0.5) * 28);
	};
	const zero = at(0, 0, 0, 1);
	expect(at(0, 0, 1, 2)).toEqual(zero);
	expect(at(1, 1, 0, 0)[0]).toBeLessThan(20); // the largest of all: full colour
	expect(at(1, 1, 0, 1)).toEqual(zero);
	const [red, green, blue] = at(0, 0, 1, 1) as [number, number, number];
	expect(Math.max(red, green, blue) - Math.min(red, green, blue)).toBeLessThan(8); // grey
	expect([red, green, blue]).not.toEqual(zero.slice(0, 3));
	expect(page.text('.attnmap-legend [data-state="3"]')).toBe("cannot look");
});

test("colours are by one range for all, or by each head's own, and the caption says which", async () => {
	const page = await mount(stateOf(fiveHeads()));
	const largest = () => {
		const [x, y] = page.middle(0, 0);
		return page.pixel(x - 28, y - 14)[0] as number;
	};
	expect(page.text(".attnmap-size")).toBe(
		"2 layers · 5 heads · 2 × 3 weights each · one colour range for all heads",
	);
	const shared = largest(); // 0.2 of 1
	expect(shared).toBeGreaterThan(150);
	const menu = page.root.querySelectorAll("select")[2] as HTMLSelectElement;
	menu.value = "head";
	menu.dispatchEvent(new Event("change"));
	await frames();
	expect(page.model.sent).toEqual([{ range: "head" }]);
	expect(largest()).toBeLessThan(20);
	expect(page.text(".attnmap-size")).toContain("each head by its own colour range");
	expect(page.text(".attnmap-legend")).toContain("the head's largest");
});

test("in a narrow page each scale of the legend keeps its name beside it", async () => {
	const page = await mount(stateOf(fiveHeads(), { tint_by: "entropy" }));
	page.root.style.width = "330px";
	await frames(2);
	const titles = [...page.root.querySelectorAll<HTMLElement>(".attnmap-legend-title")];
	expect(titles.map((title) => title.textContent)).toEqual(["weight", "bar: entropy (bits)"]);
	for (const title of titles) {
		const [one, scale] = [title, title.nextElementSibling as HTMLElement].map((it) =>
			it.getBoundingClientRect(),
		) as [DOMRect, DOMRect];
		expect(Math.abs(one.top - scale.top)).toBeLessThan(10);
		expect(scale.left).toBeGreaterThan(one.right);
	}
});

test("shrunk, a head keeps its peak, and a state gives way to any weight", () => {
	const small = {
		rows: 3,
		columns: 4,
		levels: Uint8Array.from([3, 8, 2, 2, 8, 254, 2, 2, 9, 3, 3, 2]),
	};
	expect(shrink(small, 3, 4, false)).toBe(small);
	const half = shrink(small, 2, 2, false);
	expect([half.rows, half.columns, ...half.levels]).toEqual([2, 2, 254, 2, 9, 3]);
	const signed = { rows: 1, columns: 4, levels: Uint8Array.from([MIDDLE + 4, MIDDLE - 9, 2, 8]) };
	expect([...shrink(signed, 1, 2, true).levels]).toEqual([MIDDLE - 9, 8]);
});

// ---- pointing and choosing -----------------------------------------------------------------------

test("pointing names the head and its numbers; a click chooses it, once", async () => {
	const page = await mount(stateOf(fiveHeads()));
	expect(page.reading()).toContain("Point at a head");
	await page.point("pointermove", ...page.middle(1, 1));
	expect(page.reading()).toBe("Layer 3 · Head 1 · entropy 1.00 bits · previous token 0.10");
	expect(page.find(".attnmap-tooltip").hidden).toBe(false);
	expect(page.find(".attnmap-readout").getAttribute("aria-live")).toBe("off");
	await page.point("click", ...page.middle(1, 1));
	await page.point("click", ...page.middle(1, 1));
	expect(page.model.sent).toEqual([{ selection: [3, 1] }]);
	await page.point("click", ...page.middle(1, 2)); // there is no such head
	const [x, y] = page.middle(0, 0);
	await page.point("click", x - 60, y); // a label
	expect(page.model.sent.length).toBe(1);
	await page.point("pointerleave", 0, 0);
	expect(page.find(".attnmap-tooltip").hidden).toBe(true);
	expect(page.reading()).toContain("Layer 3 · Head 1"); // the chosen one
});

test("keys reach every head, and what is not theirs goes on to the host", async () => {
	const page = await mount(stateOf(fiveHeads(), { selection: [1, 1] }));
	const walk = async (...keys: string[]) => {
		for (const key of keys) await page.press(key);
		return page.reading().split(" · ").slice(0, 2).join(" ");
	};
	expect(await walk("ArrowRight")).toBe("Layer 1 Head 2");
	expect(await walk("ArrowRight")).toBe("Layer 1 Head 2");
	expect(await walk("ArrowDown")).toBe("Layer 3 Head 1"); // a shorter line
	expect(await walk("Home")).toBe("Layer 3 Head 0");
	expect(await walk("ArrowUp", "End")).toBe("Layer 1 Head 2");
	await page.press("End", { ctrlKey: true });
	expect(page.reading()).toContain("Layer 3 · Head 1");
	expect(page.model.sent).toEqual([]);
	expect(await page.press("Enter")).toBe(true);
	expect(page.model.sent).toEqual([{ selection: [3, 1] }]);
	const cell = page.find("[role=gridcell]");
	expect(cell.getAttribute("aria-label")).toBe(page.reading());
	expect(cell.getAttribute("aria-selected")).toBe("true");
	expect(page.find("[role=row]").getAttribute("aria-rowindex")).toBe("2");
	expect(page.grid.getAttribute("aria-activedescendant")).toBe(cell.id);
	expect(page.find(".attnmap-readout").getAttribute("aria-live")).toBe("polite");
	expect(await page.press("Escape")).toBe(true);
	expect(await page.press("Escape")).toBe(false);
	expect(await page.press("a")).toBe(false);
	expect(await page.press("ArrowLeft", { altKey: true })).toBe(false);
});

test("a choice made elsewhere moves the outline, into view if need be", async () => {
	const rows = Array.from({ length: 60 }, (_, layer): [number, number] => [layer, 2]);
	const heads = Array.from({ length: 120 }, () => ({ levels: [[TOP, 8, 9]] }));
	const page = await mount(stateOf(heads, { _rows: rows }));
	expect(page.grid.scrollHeight).toBeGreaterThan(page.grid.clientHeight);
	page.model.change({ selection: [55, 1] });
	await frames(3);
	expect(page.grid.scrollTop).toBeGreaterThan(100);
	expect(page.reading()).toContain("Layer 55 · Head 1");
	const canvas = page.find(".attnmap-heads-canvas").getBoundingClientRect();
	expect(canvas.top).toBeCloseTo(page.grid.getBoundingClientRect().top, 0);
});

// ---- order and bars ------------------------------------------------------------------------------

test("sorted, heads flow from the largest, with their names; those without come last", async () => {
	const page = await mount(stateOf(fiveHeads(), { sort_by: "previous", tint_by: "previous" }));
	const names: string[] = [];
	await page.press("Home", { ctrlKey: true });
	for (let i = 0; i < 5; i++) {
		names.push(page.reading().split(" · ").slice(0, 3).join(" "));
		await page.press("ArrowRight");
	}
	expect(names).toEqual([
		"Layer 1 Head 1 previous token 0.90",
		"Layer 3 Head 0 previous token 0.50",
		"Layer 1 Head 0 previous token 0.20",
		"Layer 3 Head 1 previous token 0.10",
		"Layer 1 Head 2 previous token –",
	]);
	expect(page.text(".attnmap-size")).toContain("by previous token, largest first");
	await page.press("Home");
	await page.press("Enter");
	expect(page.model.sent).toEqual([{ selection: [1, 1] }]); // the head, not the place
	expect(page.text(".attnmap-legend")).toContain("bar: previous token0.100.90");
});

test("menus offer the columns that some head has", async () => {
	const page = await mount(stateOf(fiveHeads()));
	const [sort, tint] = [...page.root.querySelectorAll("select")] as HTMLSelectElement[];
	const offered = (menu: HTMLSelectElement | undefined) =>
		[...(menu?.options ?? [])].map((option) => option.text);
	expect(offered(sort)).toEqual(["layer order", "entropy", "previous token"]);
	expect(offered(tint)).toEqual(["nothing", "entropy", "previous token"]);
	if (sort) sort.value = "entropy";
	sort?.dispatchEvent(new Event("change"));
	await frames();
	expect(page.model.sent).toEqual([{ sort_by: "entropy" }]);
	page.model.change({ sort_by: null, tint_by: "entropy" });
	await frames();
	expect([sort?.value, tint?.value]).toEqual(["", "entropy"]);
	expect(tint?.title).toBe("how spread");
	const bar = (place: number, along: number) => {
		const [x, y] = page.middle(0, place);
		return page.pixel(x - 42 + along * 84, y + 28 + 3);
	};
	expect(bar(0, 0.95)).not.toEqual(bar(1, 0.95)); // 1 of 1 beside 3 of 4
	expect(bar(1, 0.95)).toEqual(bar(2, 0.95));
});

// ---- filling in ----------------------------------------------------------------------------------

test("heads that come later are filled in, for other views and saved states too", async () => {
	const nothing = Array.from({ length: 5 }, () => ({ known: 0 }));
	const page = await mount(stateOf(nothing, { _progress: [0, 5] }));
	expect(page.text(".attnmap-busy-text")).toBe("0 of 5 heads");
	await page.point("pointermove", ...page.middle(0, 1));
	expect(page.reading()).toBe("Layer 1 · Head 1 · not read yet");
	const all = fiveHeads();
	page.model.change({
		_part: sheetOf([all[4] as Given, all[1] as Given], [4, 1]),
		_progress: [2, 5],
	});
	await frames();
	expect(page.reading()).toContain("Layer 1 · Head 1 · entropy 1.75 bits · previous token 0.90");
	const second = await mount(page.model);
	await second.press("End", { ctrlKey: true });
	expect(second.reading()).toBe("Layer 3 · Head 1 · entropy 1.00 bits · previous token 0.10");
	const saved = openSheet(page.model.state._sheet);
	expect([0, 1, 2, 3, 4].map((head) => saved.known(head))).toEqual([0, 1, 0, 0, 1]);
	expect([...saved.levels(4)]).toEqual(all[4]?.levels?.flat());
	page.find(".attnmap-cancel").click();
	expect(page.model.sent).toEqual([{ _cancels: 1 }]);
	page.model.change({ _progress: null, status: "stopped: 2 of 5 heads were read" });
	await frames();
	expect(page.find(".attnmap-busy").hidden).toBe(true);
	expect(page.text(".attnmap-status")).toContain("stopped");
});

test("a part of another sheet is left alone", () => {
	const sheet = openSheet(sheetOf(fiveHeads()));
	expect(sheet.merge(sheetOf([{ levels: [[9]] }], [5]))).toBe(false);
	expect(sheet.merge(sheetOf([{ levels: [[9]] }], [0], 7))).toBe(false);
	expect([...sheet.levels(0)]).toEqual([TOP, FIRST, FIRST, FIRST, 3, FIRST]);
});

test("an error is told where it happened", async () => {
	const heads = fiveHeads();
	heads[3] = { known: 3 };
	const page = await mount(stateOf(heads, { _errors: [["boom", [3]]] }));
	await page.point("pointermove", ...page.middle(1, 0));
	expect(page.reading()).toBe("Layer 3 · Head 0 · could not be read: boom");
});

// ---- layout --------------------------------------------------------------------------------------

test("every point of a picture is its head's, in both orders", () => {
	const room = { width: 500, font: 11, rowLabel: 50, label: 40, bar: true, words: 2 };
	for (const order of [null, [4, 2, 0, 1, 3]]) {
		const layout = layoutHeads(linesOf([3, 2], order), [1, 0.5], room);
		const found = layout.lines.flat();
		expect([...found].sort()).toEqual([0, 1, 2, 3, 4]);
		for (const head of found) {
			const [line = 0, place = 0] = layout.places[head] ?? [];
			const x = layout.left + place * layout.pitch.x;
			const y = layout.top + line * layout.pitch.y;
			expect(headAt(layout, x + 1, y + 1)).toBe(head);
			expect(headAt(layout, x + layout.box.width - 1, y + layout.box.height - 1)).toBe(head);
		}
		expect(headAt(layout, layout.width + 500, layout.top + 1)).toBe(null);
		expect(stepFrom(layout, found[0] as number, "x", false)).toBe(null);
	}
});

test("64 heads fit where there is room for them, and far ones are drawn when they come", async () => {
	const rows = Array.from({ length: 80 }, (_, layer): [number, number] => [layer, 64]);
	const levels = [
		[TOP, 8, 8],
		[8, 8, 8],
		[8, 8, 8],
	];
	const heads = Array.from({ length: 80 * 64 }, () => ({ levels }));
	const state = stateOf([], { _rows: rows, _sheet: sheetOf(heads, null, 9) });
	const page = await mount(state, 760);
	expect(page.grid.scrollWidth).toBeLessThanOrEqual(page.grid.clientWidth);
	expect(page.grid.scrollHeight).toBeGreaterThan(page.grid.clientHeight);
	await page.press("End", { ctrlKey: true });
	expect(page.reading()).toBe("Layer 79 · Head 63");
	const [x = 0, y = 0] = page
		.find(".attnmap-cell")
		.style.translate.split(" ")
		.map(Number.parseFloat);
	const seen = (across: number) => page.pixel(x + across, y + 1 - page.grid.scrollTop)[0] as number;
	expect(page.grid.scrollTop).toBeGreaterThan(0);
	expect(seen(1)).toBeLessThan(20); // its largest weight
	expect(seen(4)).toBeGreaterThan(230); // its zero
	expect(page.root.querySelectorAll("*").length).toBeLessThan(120);
});

test("a grid that scrolls says how many heads are in view, also to a screen reader", async () => {
	const rows = Array.from({ length: 40 }, (_, layer): [number, number] => [layer, 5]);
	const levels = [
		[TOP, 8, 8],
		[8, 8, 8],
	];
	const heads = Array.from({ length: 200 }, () => ({ levels }));
	const state = stateOf([], { _rows: rows, _sheet: sheetOf(heads) });
	const page = await mount(state);
	const { grid } = page;
	/** by the grid's own numbers: 24 pixels of labels, layers of 56 + 4 pixels */
	const top = Number.parseFloat(page.find(".attnmap-cell").style.translate.split(" ")[1] ?? "");
	const lines = (from: number) =>
		rows.filter((_, line) => {
			const middle = first + line * 60 + 28 - from;
			return middle >= first && middle <= grid.clientHeight;
		}).length;
	const first = top;
	expect(lines(0)).toBeLessThan(20);
	const told = (seen: number) => `40 layers · ${seen} of 200 heads in view · 2 × 3 weights each`;
	expect(page.text(".attnmap-size")).toContain(told(5 * lines(0)));
	grid.scrollTop = 100;
	await frames(3);
	expect(page.text(".attnmap-size")).toContain(told(5 * lines(100)));
	expect(grid.getAttribute("aria-label")).toContain(`${5 * lines(100)} of 200 heads in view`);
	grid.style.maxHeight = "none";
	await frames(3);
	expect(page.text(".attnmap-size")).toContain("40 layers · 200 heads · 2 × 3");
	expect(grid.getAttribute("aria-label")).not.toContain("in view");
});

test("heads are in view by their middle, and not behind the labels", () => {
	const room = { width: 400, font: 10, rowLabel: 30, label: 20, bar: false, words: 1 };
	const table = layoutHeads(linesOf([4, 4, 4], null), [1, 0.5], room);
	const { left, top, pitch, box } = table;
	const all = { width: table.width, height: table.height };
	expect(headsInView(table, { x: 0, y: 0 }, all)).toBe(12);
	expect(headsInView(table, { x: 0, y: box.height / 2 + 1 }, all)).toBe(8);
	expect(headsInView(table, { x: pitch.x + box.width / 2 + 1, y: 0 }, all)).toBe(6);
	const small = { width: left + pitch.x + box.width / 2 - 1, height: top + pitch.y };
	expect(headsInView(table, { x: 0, y: 0 }, small)).toBe(1);
	const flowing = layoutHeads(linesOf([9], [8, 0, 1, 2, 3, 4, 5, 6, 7]), [1, 1], room);
	const across = flowing.lines[0]?.length ?? 0;
	const one = { width: 400, height: flowing.box.height };
	expect(headsInView(flowing, { x: 0, y: 0 }, one)).toBe(across);
});

// ---- the page ------------------------------------------------------------------------------------

test("nothing is left behind", async () => {
	const page = await mount(stateOf(fiveHeads()));
	page.life.abort();
	expect(page.host.childElementCount).toBe(0);
	expect([...page.model.listeners.values()].every((callbacks) => callbacks.size === 0)).toBe(true);
});

beforeAll(loadAxe);

test.each([
	["light", "#fff", "#222"],
	["dark", "#111518", "#ddd"],
])(
	"axe finds nothing in a %s theme, and zero recedes into the page",
	async (theme, background, color) => {
		document.body.style.background = background;
		document.body.style.color = color;
		const page = await mount(
			stateOf(fiveHeads(), {
				_progress: [3, 5],
				error: "boom",
				status: "busy",
				selection: [1, 0],
				tint_by: "entropy",
			}),
		);
		expect(page.root.dataset.theme).toBe(theme);
		const [x, y] = page.middle(0, 0);
		const zero = page.pixel(x, y - 14)[0] as number;
		expect(theme === "dark" ? zero < 60 : zero > 200).toBe(true);
		for (const act of [() => page.press("ArrowRight"), () => page.point("pointermove", x, y)]) {
			await act();
			expect(await violations(page.root)).toEqual([]);
		}
		page.grid.focus({ focusVisible: true } as FocusOptions);
		expect(getComputedStyle(page.grid).outlineStyle).toBe("solid");
	},
	60_000,
);
