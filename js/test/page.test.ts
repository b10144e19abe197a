import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { labelsOf } from "../src/labels";
import { positionAt } from "../src/model";
import { dequantize, link, openPage, type PageData, stateOf } from "../src/page";
import { fromBase64, PageModel } from "../src/page-model";
import { colorsOf, stateOf as fakeState, labels, names, rampOf, softmaxRows } from "./fixtures";
import { frames, hostOf } from "./page";

const base64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
const floats = (rows: number[][]) => new Uint8Array(Float32Array.from(rows.flat()).buffer);
const bytesOf = (view: DataView) => new Uint8Array(view.buffer);

const ROWS = 3;
const COLUMNS = 5;

/** As Python writes it: two layers, the second with one head less. */
function pageOf(
	choices: [string, string][] = [
		["0", "0"],
		["0", "1"],
		["1", "0"],
	],
): PageData {
	const { tokens, queries, _room, weights, hover, _colors, _detail, ...plain } = fakeState([[1]]);
	const { ramp, ...colors } = colorsOf();
	const grids = choices.map((_, n) => softmaxRows(ROWS, COLUMNS, false, n + 1));
	return {
		buffers: [base64(bytesOf(rampOf("Blues"))), ...grids.map((rows) => base64(floats(rows)))],
		labels: [
			{ ...labels(names(COLUMNS, "key")), positions: null },
			{ ...labels(names(ROWS, "query")), positions: null },
		],
		shared: {
			...plain,
			tokens: 0,
			queries: 1,
			_room: null,
			weights: {
				size: [ROWS, COLUMNS],
				shape: [ROWS, COLUMNS],
				window: [0, ROWS, 0, COLUMNS],
				bin: [1, 1],
				states: null,
				at: null,
				quantized: null,
			},
			_detail: null,
			_colors: { ...colors, ramp: 0 },
		},
		maps: choices.map(([layer, head], n) => ({
			choice: { layer, head },
			state: {
				title: `Layer ${layer} · Head ${head}`,
				weights: { data: n + 1 },
			},
		})),
		first: 1,
		linked: false,
		note: "3 maps, 2 kB in all",
	};
}

let life: AbortController;
let host: HTMLElement;
beforeEach(() => {
	life = new AbortController();
	host = hostOf();
});
afterEach(() => {
	life.abort();
	host.remove();
});

async function open(data: PageData): Promise<void> {
	openPage(host, data, life.signal);
	await frames(3);
}

const menu = (name: string) => {
	const label = [...host.querySelectorAll("label")].find((it) => it.textContent?.startsWith(name));
	return label?.querySelector("select") as HTMLSelectElement;
};

async function choose(name: string, value: string): Promise<void> {
	menu(name).value = value;
	menu(name).dispatchEvent(new Event("change", { bubbles: true }));
	await frames();
}

const title = () => host.querySelector(".attnmap-title")?.textContent;

describe("what the page holds", () => {
	it("reads bytes back", () => {
		expect([...fromBase64(btoa("\x00\x7f\x80\xff"))]).toEqual([0, 127, 128, 255]);
	});

	it("reads 8-bit weights back, zero exactly, gaps as gaps", () => {
		const weights = new Float32Array(
			dequantize(Uint8Array.from([0, 1, 3, 255]), { zero: 3, step: 0.5 }),
		);
		expect([...weights]).toEqual([Number.NaN, -1, 0, 126]);
	});

	it("puts shared and own traits together, arrays decoded", () => {
		const data = pageOf();
		const state = stateOf(data, data.maps[2] as PageData["maps"][number]);
		expect(state.title).toBe("Layer 1 · Head 0");
		expect(labelsOf(state.tokens).labels).toEqual(names(COLUMNS, "key"));
		expect(state.queries).toEqual(labels(names(ROWS, "query")));
		expect(state.weights.data).toEqual(floats(softmaxRows(ROWS, COLUMNS, false, 3)));
		expect(state._colors.ramp).toEqual(bytesOf(rampOf("Blues")));
		expect(state.hover).toBeNull();
	});

	it("reads positions back, once for all maps that share them", () => {
		const data = pageOf();
		const places = new Uint8Array([9, 0, 0, 0, 44, 1, 0, 0, 13, 0, 0, 0]);
		const number = data.buffers.push(base64(places)) - 1;
		data.labels[1] = { ...labels(names(ROWS, "query")), positions: number };
		const [one, other] = [0, 2].map((n) => stateOf(data, data.maps[n] as PageData["maps"][number]));
		expect(one?.queries && positionAt(labelsOf(one.queries), 1)).toBe(300);
		expect(one?.tokens && positionAt(labelsOf(one.tokens), 1)).toBe(1);
		expect(other?.queries).toBe(one?.queries);
	});
});

describe("the model of a page", () => {
	it("tells only of what has changed, when all of it has", () => {
		const model = new PageModel(fakeState([[1]], { title: "a" }));
		const seen: string[] = [];
		model.on("change:title", () => seen.push(`${model.get("title")} ${model.get("status")}`));
		model.on("change:error", () => seen.push("error"));
		model.show({ ...fakeState([[1]]), title: "b", status: "c", error: "" });
		model.set("title", "b");
		expect(seen).toEqual(["b c"]);
	});

	it("forgets a listener that is taken off", () => {
		const model = new PageModel(fakeState([[1]]));
		let calls = 0;
		const count = () => calls++;
		model.on("change:title", count);
		model.off("change:title", count);
		model.set("title", "other");
		expect(calls).toBe(0);
	});
});

describe("the menus", () => {
	it("start at the map that was shown", async () => {
		await open(pageOf());
		expect([menu("Layer").value, menu("Head").value]).toEqual(["0", "1"]);
		expect(title()).toBe("Layer 0 · Head 1");
		expect(host.querySelector(".note")?.textContent).toBe("3 maps, 2 kB in all");
	});

	it("switch the map", async () => {
		await open(pageOf());
		await choose("Head", "0");
		expect(title()).toBe("Layer 0 · Head 0");
	});

	it("offer only the heads that the layer has, and keep the chosen one where they can", async () => {
		await open(pageOf());
		await choose("Layer", "1");
		expect([...menu("Head").options].map((option) => option.value)).toEqual(["0"]);
		expect(title()).toBe("Layer 1 · Head 0");
		await choose("Layer", "0");
		expect(title()).toBe("Layer 0 · Head 0");
	});

	it("keep a pinned cell, which means the same in every head", async () => {
		await open(pageOf());
		const grid = host.querySelector(".attnmap-grid") as HTMLElement;
		grid.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
		await frames();
		grid.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
		await frames();
		const read = () => host.querySelector(".attnmap-readout")?.textContent ?? "";
		expect(read()).toContain("query0 (0) looks at key1 (1)");
		const before = read();
		await choose("Head", "0");
		expect(read()).toContain("query0 (0) looks at key1 (1)");
		expect(read()).not.toBe(before);
	});

	it("are missing on a page of one map", async () => {
		const data = pageOf([["0", "0"]]);
		await open({ ...data, first: 0, maps: data.maps.map((map) => ({ ...map, choice: null })) });
		expect(host.querySelector("select")).toBeNull();
		expect(title()).toBe("Layer 0 · Head 0");
	});

	it("stop listening at the end", async () => {
		await open(pageOf());
		const [layer, before] = [menu("Layer"), host.innerHTML];
		life.abort();
		layer.dispatchEvent(new Event("change"));
		await frames();
		expect(host.querySelector(".attnmap")).toBeNull();
		expect(before).toContain("attnmap");
	});
});

describe("linked maps", () => {
	const maps = () => [...host.querySelectorAll<HTMLElement>(".attnmap")];
	const readouts = () =>
		maps().map((map) => map.querySelector(".attnmap-readout")?.textContent ?? "");
	const press = async (map: number, key: string) => {
		const grid = maps()[map]?.querySelector(".attnmap-grid");
		grid?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
		await frames(3);
	};

	it("are all there, without menus", async () => {
		await open({ ...pageOf(), linked: true });
		const titles = maps().map((map) => map.querySelector(".attnmap-title")?.textContent);
		expect(titles).toEqual(["Layer 0 · Head 0", "Layer 0 · Head 1", "Layer 1 · Head 0"]);
		expect(host.querySelector("select")).toBeNull();
	});

	it("point at, pin and zoom to the same cell, whichever is used", async () => {
		await open({ ...pageOf(), linked: true });
		for (const [used, key] of ["ArrowRight", "ArrowDown", "Enter"].entries())
			await press(used, key);
		expect(new Set(readouts()).size).toBe(3);
		for (const text of readouts()) expect(text).toContain("query1 (1) looks at key1 (1)");
		const pins = maps().map((map) => map.querySelector<HTMLElement>(".attnmap-pin")?.hidden);
		expect(pins).toEqual([false, false, false]);
		const counts = () => maps().map((map) => map.querySelector("[role=grid]")?.ariaLabel ?? "");
		const before = counts();
		await press(1, "+");
		await vi.waitFor(() => {
			const after = counts();
			expect(after.every((text, n) => text !== before[n])).toBe(true);
		});
	});

	it("tell each other once, and end", () => {
		const models = [0, 1, 2].map(() => new PageModel(fakeState([[1, 2, 3]])));
		link(models);
		const told = models.map(() => 0);
		for (const [n, model] of models.entries()) {
			model.on("change:hover", () => {
				told[n] = (told[n] ?? 0) + 1;
			});
		}
		models[2]?.set("hover", [0, 1]);
		expect(told).toEqual([1, 1, 1]);
		expect(models.map((model) => model.get("hover"))).toEqual([
			[0, 1],
			[0, 1],
			[0, 1],
		]);
		models[0]?.set("hover", null);
		expect(told).toEqual([2, 2, 2]);
	});
});
