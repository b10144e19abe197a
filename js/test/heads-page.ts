/** A grid of heads on a page: states to fill it with, mounting, pointing, looking at pixels. */

import { afterEach } from "vitest";
import "../src/heads.css";
import { createHeads } from "../src/heads-grid";
import type { HeadsModel, HeadsState, WireSheet } from "../src/heads-model";
import { FIRST, STEPS } from "../src/heads-sheet";
import { FakeModel, rampOf } from "./fixtures";
import { frames } from "./page";

/** The level of a head's largest weight. */
export const TOP = FIRST + STEPS;
const COLUMNS = [
	{ name: "entropy", title: "Entropy", unit: "bits", text: "how spread" },
	{ name: "previous", title: "Previous token", unit: "share of a row", text: "just before" },
	{ name: "padding", title: "Padding", unit: "share of a row", text: "on padding" },
];

export interface Given {
	known?: number;
	range?: [number, number];
	levels?: number[][];
	numbers?: number[];
}

/** As `Sheet.to_wire` writes it. */
export function sheetOf(heads: Given[], at: number[] | null = null, slot = 6): WireSheet {
	const floats = [
		...heads.flatMap(({ numbers = [Number.NaN, Number.NaN, Number.NaN] }) => numbers),
		...heads.flatMap(({ range = [0, 1] }) => range),
	];
	const bytes = [
		...heads.map(({ known = 1 }) => known),
		...heads.flatMap(({ levels = [] }) => [levels.length, levels[0]?.length ?? 0]),
		...heads.flatMap(({ levels = [] }) => {
			const flat = levels.flat();
			return [...flat, ...new Array<number>(slot - flat.length).fill(0)];
		}),
	];
	const data = new Uint8Array(3 + 4 * floats.length + bytes.length);
	// An odd start, as some hosts hand buffers over.
	data.set(new Uint8Array(Float32Array.from(floats).buffer), 3);
	data.set(bytes, 3 + 4 * floats.length);
	return {
		heads: heads.length,
		slot,
		columns: 3,
		at: at && new DataView(Uint32Array.from(at).buffer),
		data: new DataView(data.buffer, 3),
	};
}

/** Layers 1 and 3 of 3 and 2 heads, each of 2 × 3 cells and no two alike. */
export function fiveHeads(): Given[] {
	return [0, 1, 2, 3, 4].map((head) => ({
		range: [0, (head + 1) / 5],
		levels: [
			[TOP, FIRST, FIRST + 40 * head],
			[FIRST, 3, FIRST],
		],
		numbers: [2 - head / 4, [0.2, 0.9, Number.NaN, 0.5, 0.1][head] as number, Number.NaN],
	}));
}

export function stateOf(heads: Given[], given: Partial<HeadsState> = {}): HeadsState {
	return {
		selection: null,
		range: "shared",
		sort_by: null,
		tint_by: null,
		title: "All heads",
		class_name: "",
		status: "",
		error: "",
		_sheet: sheetOf(heads),
		_part: null,
		_rows: [
			[1, 3],
			[3, 2],
		],
		_named: true,
		_columns: COLUMNS,
		_colors: { ramp: rampOf("Blues"), diverging: false },
		_tint: rampOf("Viridis"),
		_progress: null,
		_errors: [],
		_note: "2 × 3 weights each",
		_cancels: 0,
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

export const mount = (state: HeadsState | FakeModel<HeadsState>, width = 700) =>
	mountOn(state instanceof FakeModel ? state : new FakeModel<HeadsState>(state), width);

export async function mountOn<Host extends HeadsModel>(model: Host, width = 700) {
	const host = document.createElement("div");
	host.style.width = `${width}px`;
	document.body.append(host);
	const life = new AbortController();
	lives.push(life);
	createHeads(host, model, life.signal);
	const root = host.lastElementChild as HTMLElement;
	const find = (selector: string) => {
		const found = root.querySelector<HTMLElement>(selector);
		if (!found) throw new Error(`no ${selector}`);
		return found;
	};
	const grid = find(".attnmap-heads-grid");
	const canvas = find(".attnmap-heads-canvas") as HTMLCanvasElement;
	const ratio = devicePixelRatio || 1;
	const mounted = {
		model,
		host,
		life,
		root,
		find,
		grid,
		text: (selector: string) => find(selector).textContent,
		/** the middle of a head, on the canvas, where heads of 2 × 3 cells stand by layers */
		middle(line: number, place: number): [number, number] {
			const { x, y } = firstBox();
			return [x + place * (84 + 4) + 42, y + line * (56 + 4) + 28];
		},
		point(type: string, x: number, y: number) {
			const box = grid.getBoundingClientRect();
			const where = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
			grid.dispatchEvent(new PointerEvent(type, where));
			return frames();
		},
		async press(key: string, more: KeyboardEventInit = {}) {
			const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
			grid.dispatchEvent(event);
			await frames();
			return event.defaultPrevented;
		},
		pixel(x: number, y: number): number[] {
			const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
			return [...pen.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data];
		},
		reading: () => find(".attnmap-readout").textContent ?? "",
	};
	/** Where the ARIA cell of the first head is. */
	function firstBox(): { x: number; y: number } {
		const [x = "0", y = "0"] = first.split(" ");
		return { x: Number.parseFloat(x), y: Number.parseFloat(y) };
	}
	await frames(3);
	grid.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", ctrlKey: true, bubbles: true }));
	await frames();
	const first = find(".attnmap-cell").style.translate;
	grid.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
	await frames();
	return mounted;
}
