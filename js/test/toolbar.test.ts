import { describe, expect, test, vi } from "vitest";
import { FakeModel, labels, names, softmaxRows, stateOf, tileOf } from "./fixtures";
import { drag, point, rest, wheel } from "./gesture";
import { frames, type Mounted, mount } from "./page";

const ROWS = softmaxRows(120, 200);
const grid = (map: Mounted) => map.find(".attnmap-grid");
const viewport = (map: Mounted) => map.model.state.viewport;
const windows = (map: Mounted) =>
	map.model.sent.filter((one) => "viewport" in one).map((one) => one.viewport);
const large = () => mount(stateOf(ROWS));
const zoomed = async (window: [number, number, number, number]) => {
	const map = await mount(stateOf(ROWS, { viewport: window }));
	return map;
};

describe("the buttons", () => {
	const button = (map: Mounted, name: string) => map.find(`.attnmap-tool[aria-label^="${name}"]`);
	test("are there for a large map or a zoomed one, and keep their place", async () => {
		const small = await mount(stateOf(softmaxRows(20, 30)));
		const top = small.find(".attnmap-figure").getBoundingClientRect().top;
		expect(button(small, "Zoom in").checkVisibility({ visibilityProperty: true })).toBe(false);
		small.model.change({ viewport: [2, 9, 3, 20] });
		await frames();
		expect(button(small, "Zoom in").checkVisibility({ visibilityProperty: true })).toBe(true);
		expect(small.find(".attnmap-figure").getBoundingClientRect().top).toBe(top);
		const big = await large();
		expect(button(big, "Zoom in").checkVisibility({ visibilityProperty: true })).toBe(true);
		expect(button(big, "Whole map").getAttribute("aria-disabled")).toBe("true");
	});

	test("zoom in, zoom out, whole map", async () => {
		const map = await large();
		button(map, "Zoom in").click();
		await rest(map);
		const [q0, q1, k0, k1] = viewport(map) ?? [0, 0, 0, 0];
		expect([q0, q1, k1 - k0]).toEqual([20, 100, 133]);
		expect(Math.abs(k0 + k1 - 200)).toBe(1);
		button(map, "Zoom in").click();
		await rest(map);
		button(map, "Zoom out").click();
		await rest(map);
		await vi.waitFor(() => expect(viewport(map)?.[1]).toBeGreaterThan(90));
		button(map, "Whole map").click();
		await rest(map);
		await vi.waitFor(() => expect(viewport(map)).toBe(null));
	});
});

describe("one viewport, several hands", () => {
	test("set from Python it moves the view of every map of the model; nothing is sent back", async () => {
		const model = new FakeModel(stateOf(ROWS));
		const one = await mount(model);
		const two = await mount(model);
		model.change({ viewport: [10, 30, 20, 70] });
		await frames();
		for (const map of [one, two]) {
			expect(map.find(".attnmap-size").textContent).toContain("in view 10–29 × 20–69");
		}
		model.change({ viewport: [10, 30, 20, 70] });
		await frames();
		expect(model.sent).toEqual([]);
		await drag(two, grid(two), [
			[0, 0],
			[0.5, 0.5],
		]);
		expect(model.state.viewport).toEqual([10, 20, 20, 45]);
		await frames();
		expect(one.find(".attnmap-size").textContent).toContain("in view 10–19 × 20–44");
		expect(model.sent.filter((sent) => "viewport" in sent).length).toBe(1);
		one.close();
		model.change({ viewport: null });
		await frames();
		expect(two.find(".attnmap-size").textContent).not.toContain("in view");
	});

	test("another grid starts with the viewport that comes with it", async () => {
		const map = await zoomed([40, 60, 50, 90]);
		map.model.change({
			weights: tileOf(softmaxRows(30, 50)),
			tokens: labels(names(50)),
			queries: null,
			viewport: null,
		});
		await frames();
		expect(map.find(".attnmap-size").textContent).toBe("30 queries × 50 keys");
	});

	test("a gesture that is cut off by the end of its view leaves nothing behind", async () => {
		const map = await large();
		point(grid(map), "pointerdown", [0.2, 0.2], { shiftKey: true });
		wheel(map, [0.5, 0.5], -120);
		map.close();
		await new Promise((done) => setTimeout(done, 250));
		expect(map.model.listening).toBe(0);
		expect(windows(map).length).toBeLessThanOrEqual(1);
	});
});

describe("the small map", () => {
	test("hides no word, however narrow a small map is", async () => {
		const rows = softmaxRows(20, 30);
		const map = await mount(stateOf(rows, { viewport: [2, 9, 3, 20] }), { width: 330 });
		const small = map.find(".attnmap-minimap").getBoundingClientRect();
		expect(small.width).toBeGreaterThan(10);
		for (const words of map.all(".attnmap-readout, .attnmap-legend")) {
			const box = words.getBoundingClientRect();
			const apart = box.top >= small.bottom || box.right <= small.left;
			expect(apart, words.className).toBe(true);
		}
	});

	test("shows where the view is; dragging its frame pans", async () => {
		const map = await zoomed([30, 60, 50, 100]);
		const small = map.find(".attnmap-minimap");
		const inside = map.find(".attnmap-minimap-view").getBoundingClientRect();
		const box = small.getBoundingClientRect();
		expect((inside.top - box.top) / box.height).toBeCloseTo(0.25, 1);
		expect((inside.left - box.left) / box.width).toBeCloseTo(0.25, 1);
		expect(inside.width / box.width).toBeCloseTo(0.25, 1);
		await drag(map, small, [
			[0.3, 0.3],
			[0.8, 0.55],
		]);
		expect(viewport(map)).toEqual([90, 120, 100, 150]);
		point(small, "pointerdown", [0.1, 0.1]);
		point(small, "pointerup", [0.1, 0.1]);
		await rest(map);
		expect(viewport(map)).toEqual([0, 30, 0, 50]);
		map.model.change({ viewport: null });
		await frames();
		expect(small.hidden).toBe(true);
	});
});
