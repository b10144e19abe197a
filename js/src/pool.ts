/**
 * Where cells are smaller than device pixels, each pixel gets the largest weight under it, so that
 * a lone spike is never lost.
 */

import { pixelOf } from "./geometry";
import { State, type Tile } from "./model";
import { isLeak } from "./tile";

export type Source = Pick<Tile, "shape" | "weights" | "states">;

/** Rows pooled at a time: a band stays in the processor's cache until it is coloured. */
const BAND = 16;

/**
 * Hands over the tile in bands of rows, pooled where it has more rows or columns than pixels:
 * `visit` gets the band and the number of its first cell among all that are drawn.
 */
export function eachBand(
	tile: Tile,
	[down, across]: readonly [number, number],
	visit: (band: Source, first: number) => void,
): void {
	const [rows, columns] = tile.shape;
	if (down >= rows && across >= columns) {
		visit(tile, 0);
		return;
	}
	const toRow = pixelOf(rows, Math.min(down, rows));
	const toColumn = pixelOf(columns, Math.min(across, columns));
	const width = (toColumn[columns - 1] as number) + 1;
	const room = new Float32Array(BAND * width);
	const states = tile.states && new Uint8Array(room.length);
	for (let row = 0; row < rows; ) {
		const top = toRow[row] as number;
		let end = row;
		while (end < rows && (toRow[end] as number) < top + BAND) end++;
		const height = (toRow[end - 1] as number) + 1 - top;
		room.fill(Number.NaN);
		for (; row < end; row++) {
			const start = ((toRow[row] as number) - top) * width;
			if (states) poolStates(tile, row, toColumn, start, room, states);
			else poolWeights(tile.weights, row * columns, toColumn, start, room);
		}
		const size = height * width;
		const band = { weights: room.subarray(0, size), states: states?.subarray(0, size) ?? null };
		visit({ shape: [height, width], ...band }, top * width);
	}
}

/** The hot loop: a million cells in a few milliseconds. */
function poolWeights(
	weights: Float32Array,
	from: number,
	toColumn: Uint32Array,
	start: number,
	into: Float32Array,
): void {
	const columns = toColumn.length;
	for (let column = 0; column < columns; column++) {
		const to = start + (toColumn[column] as number);
		const weight = weights[from + column] as number;
		const best = into[to] as number;
		if (Math.abs(weight) > Math.abs(best) || Number.isNaN(best)) into[to] = weight;
	}
}

/** Weights that are to be seen win; a pixel without any shows the state of its last cell. */
function poolStates(
	tile: Tile,
	row: number,
	toColumn: Uint32Array,
	start: number,
	into: Float32Array,
	states: Uint8Array,
): void {
	for (let column = 0, i = row * toColumn.length; column < toColumn.length; column++, i++) {
		const to = start + (toColumn[column] as number);
		const weight = tile.weights[i] as number;
		const state = tile.states?.[i] as number;
		const best = into[to] as number;
		if (state > State.zero && !isLeak(state, weight)) {
			if (Number.isNaN(best)) states[to] = state;
		} else if (Math.abs(weight) > Math.abs(best) || Number.isNaN(best)) {
			into[to] = weight;
			states[to] = State.weight;
		}
	}
}
