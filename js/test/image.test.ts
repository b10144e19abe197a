import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { loadAxe, violations } from "./axe";
import "../src/image.css";
import { paletteOf, unpack } from "../src/color";
import type { ImageModel, ImageState } from "../src/imagemodel";
import { createImage } from "../src/overpicture";
import { nameOfPatch, patchAt, patchUnder, placeOf, spotOf } from "../src/patchgrid";
import { bytes, colorsOf, FakeModel } from "./fixtures";
import { frames, hostOf } from "./page";

/** A plain picture of one colour. */
async function png(width: number, height: number, color: string): Promise<DataView> {
	const canvas = new OffscreenCanvas(width, height);
	const pen = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D;
	pen.fillStyle = color;
	pen.fillRect(0, 0, width, height);
	return new DataView(await (await canvas.convertToBlob()).arrayBuffer());
}

const ints = (values: number[]) => new DataView(Int32Array.from(values).buffer);
/** CLS (0), then 2 × 3 patches */
const WEIGHTS = [0.02, 0.1, 0.2, 0.05, 0.4, 0.08];

async function stateOf(given: Partial<ImageState> = {}): Promise<ImageState> {
	return {
		_frames: [{ data: await png(60, 40, "rgb(200 40 40)"), width: 60, height: 40 }],
		_placing: { frames: 1, rows: 2, columns: 3, keys: ints([1, 2, 3, 4, 5, 6]), square: true },
		_row: {
			query: 0,
			name: "CLS",
			key: null,
			weights: bytes(WEIGHTS),
			states: null,
			top: 0.4,
			on: 0.85,
			total: 1,
			others: [["CLS", 0, 0.15]],
			left_out: [0, 0],
		},
		_colors: colorsOf("Blues", { range: [0, 0.5] }),
		_map_title: "Layer 8 · Head 4",
		_value_title: "weight",
		hover: null,
		_picked: null,
		opacity: 0.6,
		smooth: false,
		title: null,
		error: "",
		...given,
	};
}

let lives: AbortController[] = [];
afterEach(() => {
	for (const life of lives) life.abort();
	lives = [];
	document.body.replaceChildren();
	document.body.removeAttribute("style");
});

async function mount(given: Partial<ImageState> = {}, host = hostOf(760)) {
	const model = new FakeModel<ImageState>(await stateOf(given));
	const life = new AbortController();
	lives.push(life);
	createImage(host, model as ImageModel, life.signal);
	const root = host.lastElementChild as HTMLElement;
	const find = <E extends HTMLElement = HTMLElement>(selector: string) => {
		const found = root.querySelector<E>(selector);
		if (!found) throw new Error(`no ${selector}`);
		return found;
	};
	const all = (selector: string) => [...root.querySelectorAll<HTMLElement>(selector)];
	const ready = () => all(".attnmap-picture").every(({ dataset }) => dataset.ready === "true");
	for (let tries = 0; tries < 100 && !ready(); tries++) await frames(1);
	await frames(3);
	const grid = find(".attnmap-frames");
	return {
		...{ model, life, host, root, find, all, grid },
		/** RGBA of a patch as drawn over a frame */
		patch(row: number, column: number, frame = 0): number[] {
			const canvas = all(".attnmap-overlay")[frame] as HTMLCanvasElement;
			const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
			return [...pen.getImageData(column, row, 1, 1).data];
		},
		async point(type: string, x: number, y: number, frame = 0) {
			const box = all(".attnmap-frame")[frame]?.getBoundingClientRect() as DOMRect;
			const at = { clientX: box.left + x * box.width, clientY: box.top + y * box.height };
			grid.dispatchEvent(new PointerEvent(type, { ...at, bubbles: true }));
			await frames();
		},
		async press(key: string) {
			const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
			grid.dispatchEvent(event);
			await frames();
			return event.defaultPrevented;
		},
		readout: () => find(".attnmap-readout").textContent,
	};
}

describe("places", () => {
	test("patch, spot and point agree, in every frame", () => {
		const grid = { frames: 3, rows: 4, columns: 5 };
		for (let patch = 0; patch < 60; patch++) {
			expect(patchAt(grid, spotOf(grid, patch))).toBe(patch);
			const { frame, x, y, width, height } = placeOf(grid, patch);
			expect(patchUnder(grid, frame, x + width / 2, y + height / 2)).toBe(patch);
			expect(patchUnder(grid, frame, x + 0.01, y + 0.01)).toBe(patch);
		}
		expect(nameOfPatch(grid, 2 * 20 + 3 * 5 + 4)).toBe("f2 r3c4");
		expect(nameOfPatch({ ...grid, frames: 1 }, 9)).toBe("r1c4");
		expect(patchUnder(grid, 1, 1, 1)).toBe(39);
	});
});

describe("drawing", () => {
	test("each patch has the colour of its weight in the map, one block each", async () => {
		const image = await mount();
		const palette = paletteOf(colorsOf(), false);
		WEIGHTS.forEach((weight, patch) => {
			const index = Math.floor((weight / 0.5) * 255 + 0.5);
			const [row, column] = [Math.floor(patch / 3), patch % 3];
			const color = unpack(palette[index] ?? 0);
			const drawn = image.patch(row, column);
			for (const i of [0, 1, 2])
				expect(Math.abs((drawn[i] ?? 0) - (color[i] ?? 0))).toBeLessThan(3);
			expect(drawn[3]).toBe(255);
		});
		const style = getComputedStyle(image.find(".attnmap-overlay"));
		expect([style.imageRendering, style.opacity]).toEqual(["pixelated", "0.6"]);
		image.model.change({ smooth: true });
		await frames();
		expect(style.imageRendering).toBe("auto");
		expect(image.find(".attnmap-smooth-note").checkVisibility()).toBe(true);
	});

	test("the picture is drawn as it came, in its own proportions", async () => {
		const image = await mount();
		const canvas = image.find<HTMLCanvasElement>(".attnmap-picture");
		const data = canvas.getContext("2d")?.getImageData(30, 20, 1, 1).data;
		expect([...(data ?? [])]).toEqual([200, 40, 40, 255]);
		const { width, height } = image.find(".attnmap-frame").getBoundingClientRect();
		expect(width / height).toBeCloseTo(1.5, 1);
		expect(getComputedStyle(canvas).filter).toBe("grayscale(1)");
		image.model.change({ opacity: 0 });
		expect(getComputedStyle(canvas).filter).toBe("none");
	});

	test("patches without a weight let the picture through, and say why", async () => {
		const base = (await stateOf())._row;
		const states = new DataView(Uint8Array.from([0, 3, 2, 0, 0, 0]).buffer);
		const weights = bytes([0.02, 0, Number.NaN, 0.05, 0.4, 0.08]);
		const keys = ints([1, 2, 3, -1, 5, 6]);
		const placing = { ...(await stateOf())._placing, keys };
		const image = await mount({ _row: { ...base, weights, states }, _placing: placing });
		expect([0, 1, 2].map((column) => image.patch(0, column)[3])).toEqual([255, 0, 0]);
		expect(image.find(".attnmap-image-legend").textContent).toContain(
			"no colour: cannot look, empty (no weight given), outside this window",
		);
		await image.point("pointermove", 0.5, 0.25);
		expect(image.readout()).toBe(
			"CLS (0) → r0c1 (2) · cannot look · 0.85 of its 1.00 on the picture",
		);
		await image.point("pointermove", 0.9, 0.25);
		expect(image.readout()).toContain("r0c2 (3) · empty (no weight given)");
		await image.point("pointermove", 0.1, 0.75);
		expect(image.readout()).toContain("r1c0");
		expect(image.readout()).toContain("outside this window");
		expect(image.model.state.hover).toBe(null);
	});

	test("a weight where nobody may look is read as the map reads it, and drawn", async () => {
		const base = (await stateOf())._row;
		const states = new DataView(Uint8Array.from([0, 3, 0, 0, 0, 0]).buffer);
		const image = await mount({ _row: { ...base, states } });
		expect(image.patch(0, 1)[3]).toBe(255);
		await image.point("pointermove", 0.5, 0.25);
		expect(image.readout()).toContain("looks at r0c1 (2) 0.10 · weight where it cannot look");
	});

	test("the legend says what the numbers are", async () => {
		const image = await mount({ _value_title: "‖αv‖" });
		const title = () => image.find(".attnmap-legend-title").textContent;
		expect(title()).toBe("‖αv‖, as in the map");
		image.model.change({ _value_title: "logit", _colors: colorsOf("Blues", { scale: "log" }) });
		await frames();
		expect(title()).toBe("logit (log scale)");
	});

	test("a scale by rows takes the row's largest, though it is not on the picture", async () => {
		const base = (await stateOf())._row;
		const colors = colorsOf("Blues", { scale: "row" });
		const image = await mount({ _row: { ...base, top: 0.8 }, _colors: colors });
		const half = unpack(paletteOf(colorsOf(), false)[128] ?? 0);
		for (const i of [0, 1, 2]) {
			expect(Math.abs((image.patch(1, 1)[i] ?? 0) - (half[i] ?? 0))).toBeLessThan(3);
		}
	});

	test("what lies on no patch is listed with its weight", async () => {
		const base = (await stateOf())._row;
		const others: [string, number, number | null][] = [
			["CLS", 0, 0.1],
			["</b><img src=x>", 7, null],
		];
		const image = await mount({ _row: { ...base, others, left_out: [12, 0.04] } });
		expect(image.all(".attnmap-beside-token").map((item) => item.textContent)).toEqual([
			"CLS (0)0.10",
			"</b><img src=x> (7)no weight",
		]);
		expect(image.find(".attnmap-beside").textContent).toContain("12 others, together 0.0400");
	});

	test("frames stand in a strip, each with its own patches", async () => {
		const data = await png(60, 40, "gray");
		const frame = { data, width: 60, height: 40 };
		const weights = bytes(Array.from({ length: 12 }, (_, i) => i / 24));
		const keys = ints(Array.from({ length: 12 }, (_, i) => i));
		const base = (await stateOf())._row;
		const image = await mount({
			_frames: [frame, frame],
			_placing: { frames: 2, rows: 2, columns: 3, keys, square: true },
			_row: { ...base, weights, others: [] },
		});
		expect(image.find(".attnmap-size").textContent).toBe("2 frames of 2 × 3 patches");
		expect(image.patch(1, 2, 1)[2]).not.toBe(image.patch(1, 2, 0)[2]);
		await image.point("pointermove", 0.5, 0.75, 1);
		expect(image.model.state.hover).toBe(10);
		expect(image.readout()).toContain("f1 r1c1");
		expect(image.find(".attnmap-beside").textContent).toBe("Every key is a patch");
	});

	test("another layer may have another grid: the picture stays", async () => {
		const image = await mount();
		const picture = image.find(".attnmap-picture");
		const base = image.model.state._row;
		image.model.change({
			_placing: {
				frames: 1,
				rows: 4,
				columns: 6,
				keys: ints(new Array(24).fill(-1)),
				square: true,
			},
			_row: { ...base, weights: bytes(new Array(24).fill(0.25)) },
		});
		await frames();
		expect(image.find(".attnmap-picture")).toBe(picture);
		expect(image.find<HTMLCanvasElement>(".attnmap-overlay").width).toBe(6);
		expect(image.patch(3, 5)[3]).toBe(255);
	});

	test("the theme is that of the page, also when it comes later", async () => {
		const host = hostOf(0);
		host.remove();
		const model = new FakeModel<ImageState>(await stateOf());
		const life = new AbortController();
		lives.push(life);
		createImage(host, model as ImageModel, life.signal);
		document.body.style.background = "#fff";
		host.style.width = "700px";
		document.body.append(host);
		await frames(3);
		const root = host.lastElementChild as HTMLElement;
		expect(root.dataset.theme).toBe("light");
		document.body.style.background = "#111";
		document.body.setAttribute("data-x", "1");
		await frames(3);
		expect(root.dataset.theme).toBe("dark");
	});
});

describe("pointing", () => {
	test("hovering reads a patch and tells its key, once", async () => {
		const image = await mount();
		await image.point("pointermove", 0.5, 0.75);
		await image.point("pointermove", 0.52, 0.7);
		expect(image.model.sent).toEqual([{ hover: 5 }]);
		expect(image.readout()).toBe(
			"CLS (0) looks at r1c1 (5) 0.40 · 0.85 of its 1.00 on the picture",
		);
		const box = image.find(".attnmap-frame").getBoundingClientRect();
		const mark = image.find(".attnmap-looked-at").getBoundingClientRect();
		expect((mark.left - box.left) / box.width).toBeCloseTo(1 / 3, 2);
		expect((mark.top - box.top) / box.height).toBeCloseTo(1 / 2, 2);
		await image.point("pointerleave", 0.5, 0.75);
		expect(image.model.sent.at(-1)).toEqual({ hover: null });
		expect(image.readout()).toContain("hover a patch to read it");
	});

	test("the map's own cell is marked while the pointer is elsewhere", async () => {
		const image = await mount();
		const base = image.model.state._row;
		image.model.change({ _row: { ...base, query: 3, name: "r0c2", key: 6 } });
		await frames();
		expect(image.readout()).toContain("r0c2 (3) looks at r1c2 (6) 0.0800");
		expect(image.find(".attnmap-looking").checkVisibility()).toBe(true);
		image.model.change({ _row: { ...base, key: 0 } });
		await frames();
		expect(image.find(".attnmap-looked-at").hidden).toBe(true);
		expect(image.find(".attnmap-looking").hidden).toBe(true);
	});

	test("a click asks for a patch as the query, where patches can be queries", async () => {
		const image = await mount();
		await image.point("click", 0.9, 0.1);
		expect(image.model.sent).toEqual([{ _picked: [3] }]);
		const words = await mount({ _placing: { ...(await stateOf())._placing, square: false } });
		await words.point("click", 0.9, 0.1);
		expect(words.model.sent).toEqual([]);
		expect(words.readout()).not.toContain("click");
	});

	test("the keyboard reaches all of it", async () => {
		const image = await mount();
		expect(await image.press("ArrowRight")).toBe(true);
		await image.press("ArrowDown");
		expect(image.model.state.hover).toBe(5);
		await image.press("End");
		expect(image.model.state.hover).toBe(6);
		const cell = image.find(".attnmap-image-cell");
		expect(image.grid.getAttribute("aria-activedescendant")).toBe(cell.id);
		expect(cell.getAttribute("aria-label")).toContain("CLS (0) looks at r1c2 (6) 0.0800");
		expect([
			cell.parentElement?.getAttribute("aria-rowindex"),
			cell.getAttribute("aria-colindex"),
		]).toEqual(["2", "3"]);
		expect(image.find(".attnmap-readout").getAttribute("aria-live")).toBe("polite");
		await image.press("Enter");
		expect(image.model.sent.at(-1)).toEqual({ _picked: [6] });
		await image.press("Escape");
		expect(image.model.sent.at(-1)).toEqual({ _picked: [] });
		expect(await image.press("x")).toBe(false);
	});

	test("the slider sets how strong the colours are", async () => {
		const image = await mount();
		const slider = image.find<HTMLInputElement>(".attnmap-opacity");
		slider.value = "25";
		slider.dispatchEvent(new InputEvent("input"));
		expect(image.model.sent).toEqual([{ opacity: 0.25 }]);
		expect(getComputedStyle(image.find(".attnmap-overlay")).opacity).toBe("0.25");
	});

	test("an error is shown, and taken away", async () => {
		const image = await mount({ error: "5 keys: 1 CLS + 2 × 3 = 7" });
		expect(image.find(".attnmap-error").checkVisibility()).toBe(true);
		image.model.change({ error: "" });
		expect(image.find(".attnmap-error").hidden).toBe(true);
	});

	test("all of it ends with its signal", async () => {
		const image = await mount();
		image.life.abort();
		expect(image.model.listening).toBe(0);
		expect(image.host.childElementCount).toBe(0);
	});
});

describe("accessibility", () => {
	beforeAll(loadAxe);

	test.each([
		["light", "#fff", "#222"],
		["dark", "#111518", "#ddd"],
	])(
		"axe finds nothing in a %s theme",
		async (theme, background, color) => {
			document.body.style.background = background;
			document.body.style.color = color;
			const image = await mount({ smooth: true, error: "boom" });
			expect(image.root.dataset.theme).toBe(theme);
			await image.press("ArrowRight");
			expect(await violations(image.root)).toEqual([]);
		},
		60_000,
	);
});
