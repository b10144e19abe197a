/** All thumbnails in colour, side by side on one canvas, from which they are copied. */

import { type Flats, type Palette, pack, type Rgb } from "./color";
import { Known } from "./heads-model";
import { FIRST, type Sheet, STEPS, shrink } from "./heads-sheet";
import { State } from "./model";

export interface Spot {
	x: number;
	y: number;
	width: number;
	height: number;
	/** some cells cannot be looked at: these are left out, for a pattern to show through */
	open: boolean;
}

export interface Atlas {
	canvas: OffscreenCanvas;
	spots: (Spot | null)[];
	/** the states that occur */
	states: Set<number>;
	/** what the ends of the ramp stand for; null: each head has its own */
	range: [number, number] | null;
}

export interface Looks {
	palette: Palette;
	diverging: boolean;
	flats: Flats;
	page: Rgb;
	/** each head by its own range */
	own: boolean;
	/** whether there is room for a pattern; else "cannot look" is a flat grey like the others */
	patterned: boolean;
}

/** `room`: device pixels that each has; what has more cells is pooled. */
export function buildAtlas(
	sheet: Sheet,
	room: { width: number; height: number },
	looks: Looks,
): Atlas {
	const heads = Array.from({ length: sheet.heads }, (_, head) => head);
	const known = heads.filter((head) => isRead(sheet, head));
	const smalls = new Map(
		known.map((head) => {
			const [rows, columns] = sheet.shape(head);
			const whole = { rows, columns, levels: sheet.levels(head) };
			const signed = sheet.range(head)[0] < 0;
			return [head, shrink(whole, room.height, room.width, signed)];
		}),
	);
	let [wide, high] = [1, 1];
	for (const { rows, columns } of smalls.values()) {
		wide = Math.max(wide, columns);
		high = Math.max(high, rows);
	}
	const across = Math.max(1, Math.min(known.length, Math.floor(4096 / wide)));
	const width = across * wide;
	const height = Math.max(1, Math.ceil(known.length / across)) * high;
	const image = new ImageData(width, height);
	const pixels = new Int32Array(image.data.buffer);
	const shared = sharedRange(sheet, known, looks.diverging);
	const states = new Set<number>();
	const spots = new Array<Spot | null>(sheet.heads).fill(null);
	const table = new Int32Array(256);
	known.forEach((head, i) => {
		const small = smalls.get(head);
		if (!small) return;
		colorTable(table, sheet.range(head), looks.own ? null : shared, looks);
		const spot = {
			x: (i % across) * wide,
			y: Math.floor(i / across) * high,
			width: small.columns,
			height: small.rows,
			open: false,
		};
		for (let row = 0, from = 0; row < small.rows; row++) {
			let to = (spot.y + row) * width + spot.x;
			for (let column = 0; column < small.columns; column++, from++, to++) {
				const level = small.levels[from] as number;
				pixels[to] = table[level] as number;
				if (level >= FIRST) continue;
				states.add(level);
				spot.open ||= looks.patterned && level === State.cannotLook;
			}
		}
		spots[head] = spot;
	});
	const canvas = new OffscreenCanvas(width, height);
	canvas.getContext("2d")?.putImageData(image, 0, 0);
	return { canvas, spots, states, range: looks.own ? null : shared };
}

export function isRead(sheet: Sheet, head: number): boolean {
	const known = sheet.known(head);
	return known === Known.all || known === Known.sample;
}

function sharedRange(sheet: Sheet, known: number[], diverging: boolean): [number, number] {
	let [low, high] = [0, 0];
	for (const head of known) {
		const [bottom, top] = sheet.range(head);
		low = Math.min(low, bottom);
		high = Math.max(high, top);
	}
	return around([low, high], diverging);
}

/** A diverging ramp has zero in its middle. */
function around([low, high]: [number, number], diverging: boolean): [number, number] {
	const largest = Math.max(-low, high);
	return diverging ? [-largest, largest] : [low, high];
}

/** The pixel of each level of a head. */
function colorTable(
	into: Int32Array,
	own: [number, number],
	shared: [number, number] | null,
	{ palette, diverging, flats, page, patterned }: Looks,
): void {
	for (let state = 0; state < FIRST; state++) into[state] = flats[state] || pack(page);
	if (patterned) into[State.cannotLook] = 0;
	const [bottom, top] = shared ?? around(own, diverging);
	const span = top - bottom || 1;
	for (let level = FIRST; level < 256; level++) {
		const weight = own[0] + ((level - FIRST) / STEPS) * (own[1] - own[0]);
		const index = Math.round(Math.min(1, Math.max(0, (weight - bottom) / span)) * 255);
		into[level] = palette[index] as number;
	}
}
