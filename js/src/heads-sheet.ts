/** The block of bytes that holds all heads: reading it, and filling in what comes later. */

import type { WireSheet } from "./heads-model";
import { bytesOf } from "./model";

/** As in `attnmap_widget.heads.thumbnails`: levels below FIRST are states, the others weights. */
export const FIRST = 8;
export const STEPS = 246;
export const MIDDLE = FIRST + STEPS / 2;

export interface Sheet {
	heads: number;
	columns: number;
	known(head: number): number;
	/** NaN where there is none */
	number(head: number, column: number): number;
	/** the weights at the ends of its levels */
	range(head: number): [low: number, high: number];
	/** rows and columns */
	shape(head: number): [number, number];
	levels(head: number): Uint8Array;
	/** False if the part does not fit, because it is of another sheet. */
	merge(part: WireSheet): boolean;
}

export function openSheet(wire: WireSheet): Sheet {
	const { heads, slot, columns } = wire;
	const bytes = bytesOf(wire.data);
	const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	const places = partsOf(heads, slot, columns);
	const { ranges, known, shapes, levels } = places;
	const shapeOf = (head: number): [number, number] => [
		bytes[shapes.from + 2 * head] ?? 0,
		bytes[shapes.from + 2 * head + 1] ?? 0,
	];
	return {
		heads,
		columns,
		known: (head) => bytes[known.from + head] ?? 0,
		number: (head, column) => view.getFloat32(4 * (head * columns + column), true),
		range: (head) => [
			view.getFloat32(ranges.from + 8 * head, true),
			view.getFloat32(ranges.from + 8 * head + 4, true),
		],
		shape: shapeOf,
		levels(head) {
			const [rows, across] = shapeOf(head);
			const from = levels.from + head * slot;
			return bytes.subarray(from, from + rows * across);
		},
		/**
		 * Writes into the bytes of the model itself: another view of it, and a host that saves it,
		 * then have the part too. Doing it twice changes nothing.
		 */
		merge(part) {
			if (part.at === null || part.slot !== slot || part.columns !== columns) return false;
			const at = bytesOf(part.at).slice();
			const indices = new Uint32Array(at.buffer);
			const given = bytesOf(part.data);
			const from = partsOf(part.heads, slot, columns);
			if (indices.some((head) => head >= heads)) return false;
			for (const name of ["numbers", "ranges", "shapes", "levels", "known"] as const) {
				const { size } = places[name];
				indices.forEach((head, i) => {
					const start = from[name].from + i * size;
					bytes.set(given.subarray(start, start + size), places[name].from + head * size);
				});
			}
			return true;
		},
	};
}

/** Where each part begins, and the bytes of one head in it. */
function partsOf(heads: number, slot: number, columns: number) {
	let from = 0;
	const next = (size: number) => {
		const part = { from, size };
		from += heads * size;
		return part;
	};
	return {
		numbers: next(4 * columns),
		ranges: next(8),
		known: next(1),
		shapes: next(2),
		levels: next(slot),
	};
}

export interface Small {
	rows: number;
	columns: number;
	levels: Uint8Array;
}

/**
 * At most so many rows and columns, each the level of largest magnitude in its bin: drawn smaller
 * than it is, a picture would lose its peaks. States are below all weights, so they give way.
 */
export function shrink(small: Small, rows: number, columns: number, signed: boolean): Small {
	const down = Math.ceil(small.rows / Math.max(1, rows));
	const across = Math.ceil(small.columns / Math.max(1, columns));
	if (down <= 1 && across <= 1) return small;
	const made = {
		rows: Math.ceil(small.rows / down),
		columns: Math.ceil(small.columns / across),
	};
	const levels = new Uint8Array(made.rows * made.columns);
	const rank = (level: number) => {
		if (level < FIRST) return level - FIRST;
		return signed ? Math.abs(level - MIDDLE) : level;
	};
	for (let row = 0, i = 0; row < small.rows; row++) {
		for (let column = 0; column < small.columns; column++, i++) {
			const to = Math.floor(row / down) * made.columns + Math.floor(column / across);
			const level = small.levels[i] as number;
			if (rank(level) > rank(levels[to] as number)) levels[to] = level;
		}
	}
	return { ...made, levels };
}
