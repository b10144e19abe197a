/** Patches by number, place and pixel. Pure. A patch's number counts row by row, frame by frame. */

import { clamp } from "./geometry";
import type { Placing, Row } from "./imagemodel";
import { State } from "./model";
import { formatWeight } from "./numbers";
import type { Piece } from "./readout";
import { isLeak } from "./tile";
import { ATTENTION, leakWords, stateWords } from "./words";

type Grid = Pick<Placing, "frames" | "rows" | "columns">;

/** [row over all frames, column] */
export type Spot = [row: number, column: number];

export function spotOf({ columns }: Grid, patch: number): Spot {
	return [Math.floor(patch / columns), patch % columns];
}

export const patchAt = ({ columns }: Grid, [row, column]: Spot) => row * columns + column;

/** The patch under a point, in shares of its frame. */
export function patchUnder(grid: Grid, frame: number, x: number, y: number): number {
	const row = clamp(Math.floor(y * grid.rows), 0, grid.rows - 1);
	const column = clamp(Math.floor(x * grid.columns), 0, grid.columns - 1);
	return patchAt(grid, [frame * grid.rows + row, column]);
}

/** Where a patch is in its frame, in shares of it. */
export function placeOf({ rows, columns }: Grid, patch: number) {
	const [down, across] = spotOf({ frames: 1, rows, columns }, patch);
	const frame = Math.floor(down / rows);
	const y = (down % rows) / rows;
	return { frame, x: across / columns, y, width: 1 / columns, height: 1 / rows };
}

/** "r3c4", in a video "f2 r3c4": as Python names it. */
export function nameOfPatch(grid: Grid, patch: number): string {
	const [down, column] = spotOf(grid, patch);
	const lead = grid.frames > 1 ? `f${Math.floor(down / grid.rows)} ` : "";
	return `${lead}r${down % grid.rows}c${column}`;
}

/** What a patch is when it is no plain weight. */
export function wordsOfPatch(placing: Placing, row: Row, patch: number): string | null {
	if ((placing.keys[patch] ?? -1) < 0) return "outside this window";
	const state = row.states?.[patch] ?? State.weight;
	if (isLeak(state, row.weights[patch] ?? 0)) return leakWords(ATTENTION);
	return stateWords(ATTENTION).get(state) ?? null;
}

/** Why patches let the picture through, each reason once. */
export function bareWords(placing: Placing, row: Row): string[] {
	const found = new Set<string>();
	for (let patch = 0; patch < placing.keys.length; patch++) {
		const leak = isLeak(row.states?.[patch] ?? State.weight, row.weights[patch] ?? 0);
		const words = leak ? null : wordsOfPatch(placing, row, patch);
		if (words !== null) found.add(words);
	}
	return [...found];
}

/** As the map reads a cell: NaN where nobody may look, unless there is weight all the same. */
function weightOfPatch(row: Row, patch: number): number {
	const weight = row.weights[patch] ?? Number.NaN;
	const state = row.states?.[patch] ?? State.weight;
	const read = state <= State.zero || state === State.padding || isLeak(state, weight);
	return read ? weight : Number.NaN;
}

/** "CLS (0) looks at r3c4 (57) 0.12 · 0.83 of its 1.00 on the picture" */
export function sentenceOf(placing: Placing, row: Row, patch: number | null): Piece[] {
	const pieces: Piece[] = [
		{ text: row.name, kind: "token" },
		{ text: ` (${row.query})`, kind: "muted" },
	];
	if (patch !== null) {
		const weight = weightOfPatch(row, patch);
		const words = wordsOfPatch(placing, row, patch);
		const key = placing.keys[patch] ?? -1;
		pieces.push({ text: Number.isNaN(weight) ? " → " : " looks at ", kind: "plain" });
		pieces.push({ text: nameOfPatch(placing, patch), kind: "token" });
		if (key >= 0) pieces.push({ text: ` (${key})`, kind: "muted" });
		if (!Number.isNaN(weight)) pieces.push({ text: ` ${formatWeight(weight)}`, kind: "strong" });
		if (words !== null) pieces.push({ text: ` · ${words}`, kind: "muted" });
	}
	const sums = `${formatWeight(row.on)} of its ${formatWeight(row.total)} on the picture`;
	pieces.push({ text: ` · ${sums}`, kind: "muted" });
	return pieces;
}
