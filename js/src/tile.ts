/** Questions about a decoded tile. A "spot" is [row, column] of the tile, a cell [query, key]. */

import { type Cell, State, type Tile } from "./model";

export type Spot = [row: number, column: number];

/** A weight where nobody may look: drawn, outlined and reported, never hidden. */
export function isLeak(state: number, weight: number): boolean {
	return state === State.cannotLook && weight !== 0 && !Number.isNaN(weight);
}

export function weightAt(tile: Tile, [row, column]: Spot): number {
	return tile.weights[row * tile.shape[1] + column] ?? Number.NaN;
}

export function stateAt(tile: Tile, spot: Spot): number {
	const weight = weightAt(tile, spot);
	const state = tile.states?.[spot[0] * tile.shape[1] + spot[1]] ?? State.weight;
	if (state > State.zero) return state;
	if (Number.isNaN(weight)) return State.empty;
	return weight === 0 ? State.zero : State.weight;
}

/** Whether a cell takes part in ranks, largest weights and row scales. */
export function counts(tile: Tile, spot: Spot): boolean {
	const state = stateAt(tile, spot);
	return state <= State.zero || isLeak(state, weightAt(tile, spot));
}

/** The true cell that a spot stands for; in a pooled tile that of its largest weight. */
export function cellAt(tile: Tile, [row, column]: Spot): Cell {
	const position = tile.at?.[row * tile.shape[1] + column];
	if (position !== undefined) {
		const keys = tile.size[1];
		return [Math.floor(position / keys), position % keys];
	}
	return [tile.window[0] + row * tile.bin[0], tile.window[2] + column * tile.bin[1]];
}

/** Where a cell is drawn, or null when it is out of the window (or no cell at all). */
export function locate(tile: Tile, cell: Cell | null): Spot | null {
	if (cell === null) return null;
	const row = Math.floor((cell[0] - tile.window[0]) / tile.bin[0]);
	const column = Math.floor((cell[1] - tile.window[2]) / tile.bin[1]);
	const inside = row >= 0 && column >= 0 && row < tile.shape[0] && column < tile.shape[1];
	return inside ? [row, column] : null;
}

export function isPooled(tile: Tile): boolean {
	return tile.bin[0] > 1 || tile.bin[1] > 1;
}

/** Whether each row of the tile is a whole row of the grid, so that sums and ranks are true. */
export function hasWholeRows(tile: Tile): boolean {
	return !isPooled(tile) && tile.window[2] === 0 && tile.window[3] === tile.size[1];
}

/** The spot of largest magnitude among those that count; the first of equals. */
export function largest(
	tile: Tile,
	rows: readonly [number, number],
	columns: readonly [number, number],
): Spot | null {
	let best: Spot | null = null;
	let size = -1;
	for (let row = rows[0]; row < rows[1]; row++) {
		for (let column = columns[0]; column < columns[1]; column++) {
			const spot: Spot = [row, column];
			const magnitude = Math.abs(weightAt(tile, spot));
			if (magnitude > size && counts(tile, spot)) {
				best = spot;
				size = magnitude;
			}
		}
	}
	return best;
}

/** The largest weight of a row, as `leans()` has it: -1 is smaller than 0.5. */
export function largestOfRow(tile: Tile, row: number): Spot | null {
	let best: Spot | null = null;
	for (let column = 0; column < tile.shape[1]; column++) {
		const spot: Spot = [row, column];
		if (!counts(tile, spot)) continue;
		if (best === null || weightAt(tile, spot) > weightAt(tile, best)) best = spot;
	}
	return best && weightAt(tile, best) !== 0 ? best : null;
}

/** Each row's largest magnitude, for the row scale. */
export function rowMaxima({ shape: [rows, columns], weights, states }: Tile): Float32Array {
	const maxima = new Float32Array(rows);
	for (let i = 0; i < rows * columns; i++) {
		const size = Math.abs(weights[i] as number);
		const row = Math.floor(i / columns);
		const state = states?.[i] ?? State.weight;
		if (size > (maxima[row] as number) && (state <= State.zero || isLeak(state, size))) {
			maxima[row] = size;
		}
	}
	return maxima;
}

/** The weights that are to be seen, NaN elsewhere: in padding and where nobody may look. */
export function seenWeights({ weights, states }: Pick<Tile, "weights" | "states">): Float32Array {
	if (states === null) return weights;
	const seen = weights.slice();
	for (let i = 0; i < seen.length; i++) {
		const state = states[i] as number;
		if (state > State.zero && !isLeak(state, seen[i] as number)) seen[i] = Number.NaN;
	}
	return seen;
}

export interface Survey {
	/** how many cells are in each state, by code */
	states: number[];
	leaks: number;
}

/** Which states occur. Without a plane of states every cell is a plain weight: nothing to count. */
export function survey({ states, weights }: Tile): Survey {
	const found = new Array<number>(7).fill(0);
	let leaks = 0;
	const count = states?.length ?? 0;
	for (let i = 0; i < count; i++) {
		const state = (states as Uint8Array)[i] as number;
		if (state === State.weight) continue;
		found[state] = (found[state] as number) + 1;
		if (state === State.cannotLook && isLeak(state, weights[i] as number)) leaks++;
	}
	found[State.weight] = count - found.reduce((sum, n) => sum + n, 0);
	return { states: found, leaks };
}

/** Which side makes a padding cell padding: its key's column, its query's row; null: both. */
export function paddingSide(tile: Tile, [row, column]: Spot): "query" | "key" | null {
	const [rows, columns] = tile.shape;
	const clear = (spots: Iterable<Spot>) => {
		for (const spot of spots) if (stateAt(tile, spot) <= State.zero) return false;
		return true;
	};
	const query = clear(Array.from({ length: columns }, (_, c): Spot => [row, c]));
	const key = clear(Array.from({ length: rows }, (_, r): Spot => [r, column]));
	if (query === key) return null;
	return query ? "query" : "key";
}
