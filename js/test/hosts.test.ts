import { describe, expect, test } from "vitest";
import type { WireTile } from "../src/model";
import widget from "../src/widget";
import { bytes, colorsOf, FakeModel, softmaxRows, stateOf, tileOf } from "./fixtures";
import { frames, hostOf, mount } from "./page";

describe("life in a host", () => {
	test("render A, clean up, render B into one element: only B, nothing listens on A", async () => {
		const host = hostOf();
		const a = new FakeModel(stateOf(softmaxRows(3, 4), { title: "A" }));
		const b = new FakeModel(stateOf(softmaxRows(2, 5), { title: "B" }));
		const life = new AbortController();
		widget.render({ model: a, el: host, signal: life.signal });
		await frames();
		expect(a.listening).toBeGreaterThan(0);
		life.abort();
		expect(a.listening).toBe(0);
		expect(host.childElementCount).toBe(0);
		const cleanup = widget.render({ model: b, el: host });
		await frames();
		expect(host.querySelectorAll(".attnmap").length).toBe(1);
		expect(host.querySelector(".attnmap-title")?.textContent).toBe("B");
		a.change({ title: "A again", hover: [1, 1] });
		await frames();
		expect(host.querySelector(".attnmap-title")?.textContent).toBe("B");
		cleanup();
		expect([host.childElementCount, b.listening]).toEqual([0, 0]);
	});

	test("a signal that has already ended draws nothing", () => {
		const host = hostOf();
		const model = new FakeModel(stateOf(softmaxRows(3, 4)));
		widget.render({ model, el: host, signal: AbortSignal.abort() });
		expect([host.childElementCount, model.listening]).toEqual([0, 0]);
	});

	test("rendered at width 0, then shown", async () => {
		const host = hostOf();
		host.style.display = "none";
		const map = await mount(stateOf(softmaxRows(3, 4)), { host });
		expect(map.find(".attnmap-cells").getBoundingClientRect().width).toBe(0);
		host.style.display = "";
		await frames(4);
		expect(map.find(".attnmap-cells").getBoundingClientRect().width).toBe(160);
		expect(map.pixel(1, 1)[3]).toBe(255);
	});

	test("rendered detached, attached, detached and attached again", async () => {
		const host = document.createElement("div");
		host.style.width = "600px";
		const map = await mount(stateOf(softmaxRows(3, 4)), { host });
		document.body.append(host);
		await frames(4);
		const before = map.picture().slice();
		expect(map.pixel(2, 3)[3]).toBe(255);
		host.remove();
		await frames();
		map.model.change({ weights: tileOf(softmaxRows(3, 4, true)) });
		document.body.append(host);
		await frames(4);
		expect(map.picture()).not.toEqual(before);
	});

	test("follows its width, down to narrow output areas", async () => {
		const host = hostOf(900);
		const map = await mount(stateOf(softmaxRows(12, 30)), { host });
		const wide = map.find(".attnmap-cells").getBoundingClientRect().width;
		host.style.width = "200px";
		await frames(4);
		const box = map.find(".attnmap-cells").getBoundingClientRect();
		expect(box.width).toBeLessThan(wide);
		expect(box.right).toBeLessThanOrEqual(host.getBoundingClientRect().right);
	});

	test("a change event for the same bytes: same pixels, no message back", async () => {
		const rows = softmaxRows(4, 6);
		const map = await mount(stateOf(rows));
		const before = map.picture().slice();
		map.model.change({ weights: tileOf(rows) });
		map.model.change({ weights: tileOf(rows) });
		map.model.change({ hover: null, selection: null });
		await frames();
		expect(map.picture()).toEqual(before);
		expect(map.model.sent).toEqual([]);
	});

	test("scheme, selection and hover never decode the matrix again", async () => {
		const rows = softmaxRows(4, 6);
		let reads = 0;
		const data = bytes(rows.flat());
		const weights: WireTile = {
			...tileOf(rows),
			get data() {
				reads++;
				return data;
			},
		};
		const map = await mount(stateOf(rows, { weights }));
		const once = reads;
		const before = map.picture().slice();
		map.model.change({ _colors: colorsOf("Viridis") });
		await frames();
		expect(map.picture()).not.toEqual(before);
		await map.hover(1, 2);
		await map.click(1, 2);
		map.model.change({ show_values: false, title: "x" });
		await frames();
		expect(reads).toBe(once);
	});

	test("hovering does not repaint the cells", async () => {
		const map = await mount(stateOf(softmaxRows(40, 50)));
		const canvas = map.find(".attnmap-cells") as HTMLCanvasElement;
		canvas.getContext("2d")?.clearRect(0, 0, canvas.width, canvas.height);
		await map.hover(3, 4);
		await map.click(5, 6);
		expect(map.picture().every((value) => value === 0)).toBe(true);
	});

	test("the module needs nothing but the model: no globals of a host, no network", async () => {
		for (const name of ["google", "Jupyter", "require", "IPython"]) {
			expect(name in globalThis).toBe(false);
		}
		const before = performance.getEntriesByType("resource").length;
		const map = await mount(stateOf(softmaxRows(3, 4)));
		await map.hover(1, 1);
		expect(performance.getEntriesByType("resource").length).toBe(before);
	});

	test("touches nothing outside its own root", async () => {
		const outside = document.createElement("p");
		outside.textContent = "host";
		document.body.append(outside);
		const style = () => JSON.stringify({ ...getComputedStyle(outside) });
		const before = style();
		await mount(stateOf(softmaxRows(3, 4)));
		expect(style()).toBe(before);
		for (const sheet of document.styleSheets)
			for (const rule of sheet.cssRules) {
				const inner = rule instanceof CSSMediaRule ? [...rule.cssRules] : [rule];
				for (const one of inner) {
					if (!(one instanceof CSSStyleRule) || !one.cssText.includes("attnmap")) continue;
					for (const selector of one.selectorText.split(",")) {
						// the second is what a comparison of ours puts around its maps
						expect(selector.trim()).toMatch(/^\.attnmap(-beside)?(?![\w-])/);
					}
				}
			}
	});
});

describe("large maps", () => {
	test("512 × 500: under 3000 elements", async () => {
		const rows = softmaxRows(512, 500);
		const state = stateOf(rows);
		const map = await mount(state);
		expect(map.root.querySelectorAll("*").length).toBeLessThan(3000);
		(map.find(".attnmap-strip") as HTMLDetailsElement).open = true;
		await frames(3);
		expect(map.all(".attnmap-strip-token").length).toBe(1012);
		expect(map.root.querySelectorAll("*").length).toBeLessThan(3000);
	});
});

describe("beside another map", () => {
	test("two in a row settle at every width, and share it", async () => {
		const row = document.createElement("div");
		row.style.display = "flex";
		document.body.append(row);
		const hosts = [0, 1].map(() => {
			const host = document.createElement("div");
			host.className = "jupyter-widgets";
			row.append(host);
			return host;
		});
		const maps = [];
		for (const host of hosts) maps.push(await mount(stateOf(softmaxRows(9, 9)), { host }));
		for (let width = 700; width <= 1600; width += 60) {
			row.style.width = `${width}px`;
			await frames(4);
			const before = maps.map((map) => map.root.clientWidth);
			await frames(4);
			expect(maps.map((map) => map.root.clientWidth)).toEqual(before);
			expect(Math.abs((before[0] as number) - (before[1] as number))).toBeLessThan(2);
			expect((before[0] as number) + (before[1] as number)).toBeGreaterThan(width - 4);
		}
	});

	test("what shrinks to fit has a usable width", async () => {
		const host = document.createElement("div");
		host.style.display = "inline-block";
		document.body.append(host);
		const map = await mount(stateOf(softmaxRows(5, 4)), { host });
		await frames(3);
		expect(map.root.clientWidth).toBeGreaterThan(300);
	});

	test("keys pressed in an explorer's menus are not the host's", async () => {
		const explorer = document.createElement("div");
		explorer.className = "attnmap-explorer";
		const menu = document.createElement("select");
		const host = document.createElement("div");
		explorer.append(menu, host);
		document.body.append(explorer);
		await mount(stateOf(softmaxRows(3, 4)), { host });
		await frames(3);
		expect(menu.hasAttribute("data-lm-suppress-shortcuts")).toBe(true);
	});
});
