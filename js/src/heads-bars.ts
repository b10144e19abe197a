/** The bars under the heads: one number of each, between the smallest and the largest. */

import { type Palette, paletteOf } from "./color";
import type { Column, HeadsState } from "./heads-model";
import type { Sheet } from "./heads-sheet";
import { formatNumber, unitOf } from "./heads-words";

export interface Bars {
	/** 0 … 1, NaN where a head has no such number */
	shares: Float32Array;
	palette: Palette;
	/** for the legend */
	words: string;
	low: string;
	high: string;
}

export function barsOf(
	sheet: Sheet,
	columns: readonly Column[],
	name: string | null,
	palette: Palette,
): Bars | null {
	const at = columns.findIndex((column) => column.name === name);
	const column = columns[at];
	if (!column) return null;
	const values = Array.from({ length: sheet.heads }, (_, head) => sheet.number(head, at));
	let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
	for (const value of values) {
		if (Number.isNaN(value)) continue;
		low = Math.min(low, value);
		high = Math.max(high, value);
	}
	const unit = unitOf(column);
	return {
		// Where all are the same they are all full.
		shares: Float32Array.from(values, (value) =>
			high > low ? (value - low) / (high - low) : value - low + 1,
		),
		palette,
		words: `bar: ${column.title.toLowerCase()}${unit && ` (${unit})`}`,
		low: formatNumber(low <= high ? low : Number.NaN),
		high: formatNumber(low <= high ? high : Number.NaN),
	};
}

/** 256 colours for this theme. */
export function rampOf(ramp: HeadsState["_tint"], diverging: boolean, dark: boolean): Palette {
	const clips: [boolean, boolean] = [false, false];
	return paletteOf({ ramp, diverging, range: [0, 1], scale: "linear", clips, notes: [] }, dark);
}
