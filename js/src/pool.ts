/**
 * Where cells are smaller than device pixels, each pixel gets the largest weight under it, so that
 * a lone spike is never lost; or their mean, where that was asked for.
 */

import { clamp, firstCell } from "./geometry";
import { State, type Tile } from "./model";
import { isLeak } from "./tile";

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

/** What is to be seen of a tile: NaN in padding and where nobody may look. */
export interface Seen {
	weights: Float32Array;
	/** the same numbers as integers */
	bits: Int32Array;
	/** no weight is negative, and every NaN is `UNSEEN`: then bits rank as weights do */
	plain: boolean;
}

/** The NaN whose bits are a negative integer: it ranks below every weight. */
const UNSEEN = 0xffc00000 | 0;
const INFINITE = 0x7f800000;

const bitsOf = (weights: Float32Array) =>
	new Int32Array(weights.buffer, weights.byteOffset, weights.length);

/** Without states these are the tile's own weights, else a copy, in the memory of `old` if it fits. */
export function seenOf(
	{ weights, states }: Omit<Source, "shape" | "pool">,
	old: Seen | null = null,
): Seen {
	const given = bitsOf(weights);
	const count = weights.length;
	let signs = 0;
	if (states === null) {
		let most = 0;
		for (let i = 0; i < count; i++) {
			const bits = given[i] as number;
			signs |= bits;
			if (bits > most) most = bits;
		}
		return { weights, bits: given, plain: signs >= 0 && most <= INFINITE };
	}
	const copy = old?.weights.length === count ? old.weights : new Float32Array(count);
	const bits = bitsOf(copy);
	for (let i = 0; i < count; i++) {
		const state = states[i] as number;
		const weight = weights[i] as number;
		const seen = state <= State.zero ? !Number.isNaN(weight) : isLeak(state, weight);
		const own = given[i] as number;
		bits[i] = seen ? own : UNSEEN;
		signs |= seen ? own : 0;
	}
	return { weights: copy, bits, plain: signs >= 0 };
}

/** Rows pooled at a time: a band stays in the processor's cache until it is coloured. */
const BAND = 16;

/** Hands over the pooled picture in bands of rows: `visit` gets the band and its first row's number. */
export function eachBand(
	tile: Source,
	seen: Seen,
	down: Uint32Array,
	across: Uint32Array,
	visit: (band: Source, row: number) => void,
): void {
	const height = down.length - 1;
	const width = across.length - 1;
	const columns = tile.shape[1];
	const weights = new Float32Array(BAND * width);
	const states = tile.states && new Uint8Array(weights.length);
	const line = new Float32Array(columns);
	const most = seen.plain
		? poolBits(seen.bits, bitsOf(line), bitsOf(weights))
		: poolWeights(seen.weights, line, weights);
	const pool = tile.pool === "mean" ? meansOfRows(seen.weights, weights) : most;
	for (let top = 0; top < height; top += BAND) {
		const rows = Math.min(BAND, height - top);
		for (let row = 0; row < rows; row++) {
			const from = down[top + row] as number;
			const to = down[top + row + 1] as number;
			if (to <= from) weights.fill(Number.NaN, row * width, (row + 1) * width);
			else pool(columns, from, to, across, row * width);
			if (states && to > from) {
				const last = (to - 1) * columns;
				statesOfRow(tile.states as Uint8Array, last, across, weights, states, row * width);
			}
		}
		const size = rows * width;
		const band = { weights: weights.subarray(0, size), states: states?.subarray(0, size) ?? null };
		visit({ shape: [rows, width], pool: tile.pool, ...band }, top);
	}
}

/** Pools the rows [from, to) into one line of pixels, which starts at `start`. */
type PoolRow = (
	columns: number,
	from: number,
	to: number,
	across: Uint32Array,
	start: number,
) => void;

/**
 * The hot loops: a million cells in a few milliseconds. The larger of two integers is found without
 * a branch, which could only be guessed; infinity - UNSEEN fits, so no difference overflows.
 */
function poolBits(seen: Int32Array, line: Int32Array, into: Int32Array): PoolRow {
	return (columns, from, to, across, start) => {
		const width = across.length - 1;
		let source = seen;
		let offset = from * columns;
		if (to - from > 1) {
			const [first, last] = [across[0] as number, across[width] as number];
			foldRow(seen, offset, seen, offset + columns, line, first, last);
			for (let row = from + 2; row < to; row++) {
				foldRow(line, 0, seen, row * columns, line, first, last);
			}
			source = line;
			offset = 0;
		}
		for (let pixel = 0; pixel < width; pixel++) {
			const begin = offset + (across[pixel] as number);
			const end = offset + (across[pixel + 1] as number);
			if (begin >= end) {
				into[start + pixel] = UNSEEN;
				continue;
			}
			let best = source[begin] as number;
			// Mostly there are one or two; a loop that does not run costs little.
			const short = (best - (source[end - 1] as number)) | 0;
			best -= short & (short >> 31);
			for (let at = begin + 1; at < end - 1; at++) {
				const short = (best - (source[at] as number)) | 0;
				best -= short & (short >> 31);
			}
			into[start + pixel] = best;
		}
	};
}

function foldRow(
	a: Int32Array,
	startA: number,
	b: Int32Array,
	startB: number,
	into: Int32Array,
	first: number,
	last: number,
): void {
	for (let column = first; column < last; column++) {
		const best = a[startA + column] as number;
		const short = (best - (b[startB + column] as number)) | 0;
		into[column] = best - (short & (short >> 31));
	}
}

/** The same by magnitude. NaN compares false, so it never replaces a weight and is always replaced. */
function poolWeights(seen: Float32Array, line: Float32Array, into: Float32Array): PoolRow {
	const larger = (weight: number, best: number) =>
		Math.abs(weight) > Math.abs(best) || Number.isNaN(best) ? weight : best;
	return (columns, from, to, across, start) => {
		const width = across.length - 1;
		const first = across[0] as number;
		const last = across[width] as number;
		line.set(seen.subarray(from * columns + first, from * columns + last), first);
		for (let row = from + 1; row < to; row++) {
			const begin = row * columns;
			for (let column = first; column < last; column++) {
				line[column] = larger(seen[begin + column] as number, line[column] as number);
			}
		}
		for (let pixel = 0; pixel < width; pixel++) {
			let best = Number.NaN;
			const end = across[pixel + 1] as number;
			for (let column = across[pixel] as number; column < end; column++) {
				best = larger(line[column] as number, best);
			}
			into[start + pixel] = best;
		}
	};
}

/** The mean of the weights under each pixel, NaN where there is none. */
function meansOfRows(seen: Float32Array, into: Float32Array): PoolRow {
	return (columns, from, to, across, start) => {
		for (let pixel = 0; pixel < across.length - 1; pixel++) {
			let sum = 0;
			let count = 0;
			const end = across[pixel + 1] as number;
			for (let row = from; row < to; row++) {
				for (let column = across[pixel] as number; column < end; column++) {
					const weight = seen[row * columns + column] as number;
					if (Number.isNaN(weight)) continue;
					sum += weight;
					count++;
				}
			}
			into[start + pixel] = count === 0 ? Number.NaN : sum / count;
		}
	};
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
