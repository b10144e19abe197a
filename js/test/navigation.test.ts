import { describe, expect, test, vi } from "vitest";
import { softmaxRows, stateOf } from "./fixtures";
import { type At, cellAt, drag, point, pointAt, rest, wheel } from "./gesture";
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

describe("wheel", () => {
	test.each([
		[0.31, 0.77],
		[0.9, 0.12],
		[0.503, 0.504],
	] as At[])("zooms about the pointer at %f, %f: the same token stays under it", async (...at) => {
		const map = await large();
		const before = await cellAt(map, at);
		for (let notch = 0; notch < 12; notch++) {
			expect(wheel(map, at, -120)).toBe(true);
			await frames(2);
			expect(await cellAt(map, at)).toEqual(before);
		}
		await rest(map);
		expect(await cellAt(map, at)).toEqual(before);
		const [q0, q1, k0, k1] = viewport(map) ?? [0, 0, 0, 0];
		expect([q1 - q0, k1 - k0]).toEqual([4, expect.any(Number)]);
		expect(k1 - k0).toBeLessThan(12);
		for (let notch = 0; notch < 20; notch++) wheel(map, at, 120);
		await rest(map);
		await vi.waitFor(() => expect(viewport(map)).toBe(null));
	});

	test("without Ctrl or ⌘ it is the page's; steps of a trackpad's pinch are small", async () => {
		const map = await large();
		expect(wheel(map, [0.5, 0.5], -120, { ctrlKey: false })).toBe(false);
		await rest(map);
		expect(windows(map)).toEqual([]);
		expect(wheel(map, [0.5, 0.5], -4, { ctrlKey: false, metaKey: true })).toBe(true);
		await rest(map);
		const [q0, q1] = viewport(map) ?? [0, 0];
		expect(q1 - q0).toBeGreaterThan(110);
		expect(q1 - q0).toBeLessThan(120);
	});

	test("what is sent is whole, small and at most ten a second; the last is where it stays", async () => {
		const map = await large();
		const start = performance.now();
		for (let step = 0; step < 40; step++) {
			wheel(map, [0.3, 0.6], -6);
			await frames(1);
		}
		await rest(map);
		const shown = map.find(".attnmap-size").textContent;
		await vi.waitFor(() => {
			const [q0 = 0, q1 = 0, k0 = 0, k1 = 0] = viewport(map) ?? [];
			expect(shown).toContain(`in view ${q0}–${q1 - 1} × ${k0}–${k1 - 1}`);
		});
		const sent = windows(map);
		expect(sent.length).toBeLessThanOrEqual((performance.now() - start) / 100 + 2);
		for (const window of sent) expect(window?.every(Number.isInteger)).toBe(true);
		for (const one of map.model.sent) expect(JSON.stringify(one).length).toBeLessThan(1000);
		expect(new Set(sent.map(String)).size).toBe(sent.length);
	});

	test("with less motion wanted it is there at once", async () => {
		const map = await large();
		const real = window.matchMedia;
		window.matchMedia = (query) =>
			query.includes("reduced-motion") ? ({ matches: true } as MediaQueryList) : real(query);
		wheel(map, [0.5, 0.5], -120);
		await frames(1);
		window.matchMedia = real;
		const labelled = map.texts(".attnmap-row-label");
		await rest(map);
		expect(map.texts(".attnmap-row-label")).toEqual(labelled);
		expect(map.find(".attnmap-size").textContent).toContain("in view");
	});
});

describe("a drag over the cells", () => {
	test("draws a box and zooms to the tokens that it touches; nothing is pinned", async () => {
		const map = await large();
		point(grid(map), "pointerdown", [0.25, 0.25]);
		point(grid(map), "pointermove", [0.5, 0.75]);
		await frames(1);
		expect(map.find(".attnmap-box").hidden).toBe(false);
		expect(map.find(".attnmap-tooltip").hidden).toBe(true);
		point(grid(map), "pointerup", [0.5, 0.75]);
		point(grid(map), "click", [0.5, 0.75]);
		await rest(map);
		expect(map.find(".attnmap-box").hidden).toBe(true);
		expect(viewport(map)).toEqual([30, 60, 50, 150]);
		expect(map.model.state.selection).toBe(null);
		expect(windows(map).length).toBe(1);
	});

	test("a press that hardly moves is a click, and pins", async () => {
		const map = await large();
		const { clientX, clientY } = pointAt(grid(map), [0.504, 0.504]);
		const press = (type: string, by: number) => {
			const where = { clientX: clientX + by, clientY, bubbles: true, button: 0, pointerId: 1 };
			grid(map).dispatchEvent(new PointerEvent(type, where));
		};
		press("pointerdown", 0);
		press("pointermove", 2);
		press("pointerup", 2);
		press("click", 2);
		await frames();
		expect(map.model.state.selection).toEqual([60, 101]);
		expect(windows(map)).toEqual([]);
	});

	test("Escape takes the box away, and only that", async () => {
		const map = await mount(stateOf(ROWS, { selection: [3, 4] }));
		point(grid(map), "pointerdown", [0.2, 0.2]);
		point(grid(map), "pointermove", [0.6, 0.6]);
		await frames(1);
		await map.press("Escape");
		expect(map.find(".attnmap-box").hidden).toBe(true);
		point(grid(map), "pointerup", [0.6, 0.6]);
		point(grid(map), "click", [0.6, 0.6]);
		await rest(map);
		expect([viewport(map), map.model.state.selection]).toEqual([null, [3, 4]]);
	});

	test("a box smaller than four tokens gives four, at the corners too", async () => {
		for (const [from, to] of [
			[
				[0.001, 0.001],
				[0.012, 0.012],
			],
			[
				[0.985, 0.985],
				[0.999, 0.999],
			],
		] as [At, At][]) {
			const map = await large();
			await drag(map, grid(map), [from, to]);
			const [q0, q1, k0, k1] = viewport(map) ?? [0, 0, 0, 0];
			expect([q1 - q0, k1 - k0]).toEqual([4, 4]);
			expect([q0 === 0, q1 === 120, k0 === 0, k1 === 200]).toEqual(
				from[0] < 0.5 ? [true, false, true, false] : [false, true, false, true],
			);
		}
	});

	test.each([
		["Shift", { shiftKey: true }],
		["the middle button", { button: 1 }],
	])("with %s pans, the tokens under the pointer", async (_, more) => {
		const map = await zoomed([40, 60, 50, 90]);
		await drag(
			map,
			grid(map),
			[
				[0.5, 0.5],
				[0.75, 0.25],
			],
			more,
		);
		expect(viewport(map)).toEqual([35, 55, 60, 100]);
		await drag(
			map,
			grid(map),
			[
				[0.1, 0.1],
				[9, 9],
			],
			more,
		);
		expect(viewport(map)).toEqual([0, 20, 0, 40]);
		expect(map.model.state.selection).toBe(null);
		const sent = windows(map).filter((window) => !window?.every(Number.isInteger));
		expect(sent).toEqual([]);
	});
});

describe("touch", () => {
	const finger = (map: Mounted, type: string, pointerId: number, at: At) =>
		point(grid(map), type, at, { pointerId, pointerType: "touch" });

	test("a tap pins", async () => {
		const map = await large();
		const at: At = [0.504, 0.253];
		finger(map, "pointerdown", 5, at);
		finger(map, "pointerup", 5, at);
		finger(map, "pointerleave", 5, at);
		point(grid(map), "click", at, { pointerType: "touch" });
		await frames();
		expect(map.model.state.selection).toEqual([60, 50]);
		expect(map.find(".attnmap-readout").textContent).toContain("query60 (60) looks at key50 (50)");
	});

	test("two fingers zoom, what is between them stays there; no click comes of it", async () => {
		const map = await large();
		finger(map, "pointerdown", 5, [0.5, 0.4]);
		finger(map, "pointerdown", 6, [0.5, 0.6]);
		for (const away of [0.15, 0.25, 0.4]) {
			finger(map, "pointermove", 5, [0.5, 0.5 - away]);
			finger(map, "pointermove", 6, [0.5, 0.5 + away]);
			await frames(1);
		}
		finger(map, "pointerup", 5, [0.5, 0.1]);
		finger(map, "pointerup", 6, [0.5, 0.9]);
		point(grid(map), "click", [0.5, 0.9]);
		await rest(map);
		expect(viewport(map)).toEqual([45, 75, 75, 125]);
		expect(map.model.state.selection).toBe(null);
	});

	test("one finger is left to the page", async () => {
		const map = await large();
		expect(getComputedStyle(grid(map)).touchAction).toBe("pan-x pan-y");
		finger(map, "pointerdown", 5, [0.2, 0.2]);
		finger(map, "pointermove", 5, [0.8, 0.8]);
		finger(map, "pointercancel", 5, [0.8, 0.8]);
		await rest(map);
		expect([viewport(map), map.find(".attnmap-box").hidden]).toEqual([null, true]);
	});
});

describe("along the labels", () => {
	test("of the queries a drag picks rows, of the keys columns", async () => {
		const map = await large();
		await drag(map, map.find(".attnmap-rows"), [
			[0.5, 0.5],
			[0.25, 0.5],
		]);
		expect(viewport(map)).toEqual([30, 60, 0, 200]);
		await drag(map, map.find(".attnmap-columns"), [
			[0.5, 0.25],
			[0.5, 0.5],
		]);
		expect(viewport(map)).toEqual([30, 60, 50, 100]);
		expect(map.model.state.selection).toBe(null);
	});

	test("a click there does nothing, and Escape gives up", async () => {
		const map = await large();
		const rows = map.find(".attnmap-rows");
		point(rows, "pointerdown", [0.5, 0.5]);
		point(rows, "pointerup", [0.5, 0.5]);
		point(rows, "pointerdown", [0.2, 0.5]);
		point(rows, "pointermove", [0.6, 0.5]);
		await frames(1);
		expect(map.find(".attnmap-box").hidden).toBe(false);
		document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
		point(rows, "pointerup", [0.6, 0.5]);
		await rest(map);
		expect([viewport(map), map.find(".attnmap-box").hidden]).toEqual([null, true]);
	});
});

describe("keys", () => {
	test("+ and − zoom about the current cell, 0 shows everything", async () => {
		const map = await mount(stateOf(ROWS, { selection: [30, 150] }));
		expect(await map.press("+", { shiftKey: true })).toBe(true);
		await rest(map);
		const [q0, q1, k0, k1] = viewport(map) ?? [0, 0, 0, 0];
		expect([q1 - q0, k1 - k0]).toEqual([80, 133]);
		expect(Math.abs((30.5 - q0) / 80 - 30.5 / 120)).toBeLessThan(1 / 80);
		expect(Math.abs((150.5 - k0) / 133 - 150.5 / 200)).toBeLessThan(1 / 133);
		await map.press("-");
		await rest(map);
		await vi.waitFor(() => expect(viewport(map)).toBe(null));
		await map.press("=");
		await map.press("0");
		await rest(map);
		await vi.waitFor(() => expect(viewport(map)).toBe(null));
		expect(map.find(".attnmap-minimap").hidden).toBe(true);
	});

	test("Ctrl with them is the browser's", async () => {
		const map = await large();
		for (const key of ["+", "-", "0", "/"]) {
			expect(await map.press(key, { ctrlKey: true })).toBe(false);
		}
		expect(windows(map)).toEqual([]);
	});

	test("Shift+arrows pan; arrows beyond the edge take the view along", async () => {
		const map = await zoomed([40, 60, 50, 90]);
		await map.press("ArrowRight", { shiftKey: true });
		await rest(map);
		await vi.waitFor(() => expect(viewport(map)).toEqual([40, 60, 58, 98]));
		map.model.change({ hover: [59, 58] });
		await frames();
		await map.press("ArrowDown");
		expect(map.model.state.hover).toEqual([60, 58]);
		await vi.waitFor(() => expect(viewport(map)).toEqual([41, 61, 58, 98]));
		await map.press("ArrowLeft");
		await vi.waitFor(() => expect(viewport(map)).toEqual([41, 61, 57, 97]));
		expect(map.find(".attnmap-readout").textContent).toContain("query60 (60) looks at key57 (57)");
		await map.press("End");
		await vi.waitFor(() => expect(viewport(map)).toEqual([41, 61, 160, 200]));
		await map.press("Home", { ctrlKey: true });
		await vi.waitFor(() => expect(viewport(map)).toEqual([0, 20, 0, 40]));
		await map.press("ArrowUp");
		expect(map.model.state.hover).toEqual([0, 0]);
	});

	test("from out of view the keyboard goes on in view", async () => {
		const map = await zoomed([40, 60, 50, 90]);
		await map.press("ArrowDown");
		expect(map.model.state.hover).toEqual([41, 50]);
		expect(viewport(map)).toEqual([40, 60, 50, 90]);
	});

	test("a host's single-key shortcuts are kept off, those with Ctrl are not", async () => {
		const map = await large();
		const kept = () => grid(map).hasAttribute("data-lm-suppress-shortcuts");
		expect(kept()).toBe(true);
		await map.press("Control", { ctrlKey: true });
		expect(kept()).toBe(false);
		grid(map).dispatchEvent(new KeyboardEvent("keyup", { key: "Control" }));
		expect(kept()).toBe(true);
	});
});

describe("back to everything", () => {
	test("a double click resets, and leaves the pin as it was", async () => {
		const map = await mount(stateOf(ROWS, { viewport: [40, 60, 50, 90], selection: [45, 55] }));
		for (const detail of [1, 2]) {
			const where = { ...pointAt(grid(map), [0.5, 0.5]), bubbles: true, detail };
			grid(map).dispatchEvent(new PointerEvent("click", where));
		}
		grid(map).dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
		await rest(map);
		expect([viewport(map), map.model.state.selection]).toEqual([null, [45, 55]]);
	});
});
