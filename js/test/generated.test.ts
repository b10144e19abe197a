import { describe, expect, test } from "vitest";
import { labels, names, softmaxRows, stateOf } from "./fixtures";
import { frames, mount } from "./page";

const ROWS = softmaxRows(4, 9);
const given = { generated: [7, 1] as [number, number] };

function italic(map: { root: HTMLElement }, side: string): string[] {
	return [...map.root.querySelectorAll<HTMLElement>(`.attnmap-${side}-label`)]
		.filter((label) => getComputedStyle(label).fontStyle === "italic")
		.map((label) => label.textContent ?? "");
}

/** In cells from the plot's start; null where no rule is drawn. */
function rules(map: { root: HTMLElement; find(selector: string): HTMLElement }) {
	const grid = map.find(".attnmap-grid").getBoundingClientRect();
	const boxes = [...map.root.querySelectorAll<HTMLElement>(".attnmap-rule")].map((rule) =>
		rule.hidden ? null : rule.getBoundingClientRect(),
	);
	const [key, query] = boxes;
	return {
		key: key && ((key.right - grid.left) / grid.width) * 9,
		query: query && ((query.bottom - grid.top) / grid.height) * 4,
	};
}

describe("the generated part", () => {
	test("is set off by a rule and by its labels, each axis on its own", async () => {
		const map = await mount(stateOf(ROWS, given));
		expect(rules(map).key).toBeCloseTo(7, 1);
		expect(rules(map).query).toBeCloseTo(1, 1);
		expect(italic(map, "column")).toEqual(["key7", "key8"]);
		expect(italic(map, "row")).toEqual(["query1", "query2", "query3"]);
	});

	test("is said in the legend and to a screen reader", async () => {
		const map = await mount(stateOf(ROWS, given));
		const words = "generated from key 7 and query 1 on (in italics)";
		expect(map.find(".attnmap-legend").textContent).toContain(words);
		expect(map.find(".attnmap-grid").getAttribute("aria-label")).toContain(`, ${words}`);
	});

	test("may be all of an axis, or none of it", async () => {
		const map = await mount(stateOf(ROWS, { generated: [null, 0] }));
		expect(rules(map)).toEqual({ key: null, query: null });
		expect(italic(map, "column")).toEqual([]);
		expect(italic(map, "row")).toHaveLength(4);
		expect(map.find(".attnmap-legend").textContent).toContain("generated from query 0 on");
	});

	test("comes and goes with the trait", async () => {
		const map = await mount(stateOf(ROWS, given));
		map.model.change({ generated: null, tokens: labels(names(9)) });
		await frames();
		expect(rules(map)).toEqual({ key: null, query: null });
		expect(italic(map, "column")).toEqual([]);
		expect(map.find(".attnmap-legend").textContent).not.toContain("generated");
		map.model.change({ generated: [8, null] });
		await frames();
		expect(rules(map).key).toBeCloseTo(8, 1);
	});

	test("keeps its place when zoomed, and no rule is drawn out of view", async () => {
		const rows = softmaxRows(30, 50);
		const map = await mount(stateOf(rows, { generated: [30, 20], viewport: [3, 13, 20, 40] }));
		const box = map.find(".attnmap-grid").getBoundingClientRect();
		const [key, query] = map.all(".attnmap-rule");
		const right = key?.getBoundingClientRect().right ?? 0;
		expect((right - box.left) / box.width).toBeCloseTo(0.5, 2);
		expect(query?.hidden).toBe(true);
	});
});
