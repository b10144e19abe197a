/**
 * Where cells are smaller than device pixels, each pixel gets the largest weight under it, so that
 * a lone spike is never lost; or their mean, where that was asked for.
 */

import { clamp, firstCell } from "./geometry";
import type { Tile } from "./model";

export type Source = Pick<Tile, "shape" | "weights" | "states" | "pool">;

/** One direction of a picture: its pixels, and which cells of the tile each of them stands for. */
export interface Spans {
	/** pixel n stands for the cells [edges[n], edges[n + 1]); one more than there are pixels */
	edges: Uint32Array;
	/** the part of the picture that is in view, in pixels of the picture */
	from: number;
	length: number;
	pooled: boolean;
}

/** `count` cells from `origin` on, of `total`, shown in so many device pixels. */
export function spansOf(origin: number, count: number, pixels: number, total: number): Spans {
	const within = (cell: number) => clamp(cell, 0, total);
	if (count > pixels) {
		const edge = (_: unknown, n: number) => within(firstCell(n, pixels, count, origin));
		const edges = Uint32Array.from({ length: pixels + 1 }, edge);
		return { edges, from: 0, length: pixels, pooled: true };
	}
	const first = within(Math.floor(origin));
	const last = Math.max(first, within(Math.ceil(origin + count)));
	const edges = Uint32Array.from({ length: last - first + 1 }, (_, n) => first + n);
	return { edges, from: origin - first, length: count, pooled: false };
}

/** Rows pooled at a time: a band stays in the processor's cache until it is coloured. */
const BAND = 16;

/**
 * Hands over the pooled picture in bands of rows: `visit` gets the band and the number of its
 * first row. `seen` are the tile's weights without those that are not to be seen.
 */
export function eachBand(
	tile: Source,
	seen: Float32Array,
	down: Uint32Array,
	across: Uint32Array,
	visit: (band: Source, row: number) => void,
): void {
	const height = down.length - 1;
	const width = across.length - 1;
	const weights = new Float32Array(BAND * width);
	const states = tile.states && new Uint8Array(weights.length);
	const line = new Float32Array(tile.shape[1]);
	for (let top = 0; top < height; top += BAND) {
		const rows = Math.min(BAND, height - top);
		for (let row = 0; row < rows; row++) {
			const from = down[top + row] as number;
			const to = down[top + row + 1] as number;
			const pool = tile.pool === "mean" ? meansOfRow : poolRow;
			pool(seen, tile.shape[1], from, to, across, line, weights, row * width);
			if (states && to > from) {
				const last = (to - 1) * tile.shape[1];
				statesOfRow(tile.states as Uint8Array, last, across, weights, states, row * width);
			}
		}
		const size = rows * width;
		const band = { weights: weights.subarray(0, size), states: states?.subarray(0, size) ?? null };
		visit({ shape: [rows, width], pool: tile.pool, ...band }, top);
	}
}

/** The hot loop: a million cells in two or three milliseconds. */
function poolRow(
	seen: Float32Array,
	columns: number,
	from: number,
	to: number,
	across: Uint32Array,
	line: Float32Array,
	into: Float32Array,
	start: number,
): void {
	const width = across.length - 1;
	if (to <= from) {
		into.fill(Number.NaN, start, start + width);
		return;
	}
	const first = across[0] as number;
	const last = across[width] as number;
	let source = seen;
	let offset = from * columns;
	if (to - from > 1) {
		line.set(seen.subarray(offset + first, offset + last), first);
		for (let row = from + 1; row < to; row++) {
			const begin = row * columns;
			for (let column = first; column < last; column++) {
				const weight = seen[begin + column] as number;
				const best = line[column] as number;
				// NaN compares false, so it never replaces a weight and is always replaced.
				if (Math.abs(weight) > Math.abs(best) || Number.isNaN(best)) line[column] = weight;
			}
		}
		source = line;
		offset = 0;
	}
	for (let pixel = 0; pixel < width; pixel++) {
		const begin = across[pixel] as number;
		const end = across[pixel + 1] as number;
		let best = begin < end ? (source[offset + begin] as number) : Number.NaN;
		for (let column = begin + 1; column < end; column++) {
			const weight = source[offset + column] as number;
			if (Math.abs(weight) > Math.abs(best) || Number.isNaN(best)) best = weight;
		}
		into[start + pixel] = best;
	}
}

/** As `poolRow`: the mean of the weights under each pixel, NaN where there is none. */
function meansOfRow(
	seen: Float32Array,
	columns: number,
	from: number,
	to: number,
	across: Uint32Array,
	_: Float32Array,
	into: Float32Array,
	start: number,
): void {
	for (let pixel = 0; pixel < across.length - 1; pixel++) {
		let sum = 0;
		let count = 0;
		for (let row = from; row < to; row++) {
			for (let column = across[pixel] as number; column < (across[pixel + 1] as number); column++) {
				const weight = seen[row * columns + column] as number;
				if (Number.isNaN(weight)) continue;
				sum += weight;
				count++;
			}
		}
		into[start + pixel] = count === 0 ? Number.NaN : sum / count;
	}
}

/** Weights win over states; a pixel without any shows the state of its last cell. */
function statesOfRow(
	states: Uint8Array,
	last: number,
	across: Uint32Array,
	weights: Float32Array,
	into: Uint8Array,
	start: number,
): void {
	const width = across.length - 1;
	for (let pixel = 0; pixel < width; pixel++) {
		const weight = weights[start + pixel] as number;
		const end = across[pixel + 1] as number;
		const bare = Number.isNaN(weight) && end > (across[pixel] as number);
		into[start + pixel] = bare ? (states[last + end - 1] as number) : 0;
	}
}
