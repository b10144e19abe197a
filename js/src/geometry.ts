/** Where things go: pure functions of sizes, in CSS pixels unless they say device pixels. */

import type { Tile, Window } from "./model";

export interface Rect {
	x: number;
	y: number;
	width: number;
	height: number;
}

/** The cells' area; it stays as it is while one zooms. */
export interface Box {
	width: number;
	height: number;
	/** device pixels per CSS pixel */
	ratio: number;
	/** size of the canvas in device pixels */
	pixelWidth: number;
	pixelHeight: number;
}

/** The cells in it, counted in those of one tile. Cells have no gap below `LIMITS.gapFrom`. */
export interface Plot extends Box {
	/** how many there are in view; a view may cut them anywhere */
	rows: number;
	columns: number;
	/** where the view starts in the tile; before it or after it where the tile does not reach */
	row0: number;
	column0: number;
	/** device pixels left free at the right and at the bottom of each cell */
	gapX: number;
	gapY: number;
}

export const LIMITS = {
	/** largest cell */
	cell: 40,
	/** tallest plot */
	height: 800,
	/** smallest cell with a gap, with a pattern, with round corners */
	gapFrom: 4,
	patternFrom: 6,
	roundFrom: 12,
	/** a very wide or tall map is at least so thick */
	thin: 24,
	/** a row of a few, or of a map that is much longer the other way, has room for its label */
	thinRow: 14,
	few: 4,
	fewOfMany: 40,
	/** how much longer that is */
	many: 3,
	/** columns that get their values written unless told otherwise */
	valueColumns: 12,
} as const;

export function clamp(value: number, low: number, high: number): number {
	return Math.min(Math.max(value, low), high);
}

/** The smallest of 1, 2, 5, 10, 20, 50, … that is at least `need`. */
export function niceStride(need: number): number {
	for (let power = 1; power < 1e9; power *= 10) {
		for (const step of [1, 2, 5]) if (step * power >= need - 1e-9) return step * power;
	}
	return 1e9;
}

/** Square cells up to 40 px in the space given; only a side too thin to use is stretched. */
export function fitPlot(
	rows: number,
	columns: number,
	space: { width: number; height: number },
	ratio: number,
): Plot {
	const cell = Math.min(LIMITS.cell, space.width / columns, space.height / rows);
	const across = stretch(cell, columns, rows, space.width);
	const down = stretch(cell, rows, columns, space.height);
	const [width, pixelWidth] = snap(across, columns, ratio);
	const [height, pixelHeight] = snap(down, rows, ratio);
	const box = { width, height, ratio, pixelWidth, pixelHeight };
	return plotOf(box, { window: [0, rows, 0, columns], bin: [1, 1] }, [0, rows, 0, columns]);
}

/**
 * A tile as it lies in the box while [q0, q1, k0, k1] is in view. Pooled cells have no gaps: they
 * are no cells, and what replaces them will be in the same place.
 */
export function plotOf(
	box: Box,
	{ window, bin }: Pick<Tile, "window" | "bin">,
	[q0, q1, k0, k1]: Window,
): Plot {
	const rows = (q1 - q0) / bin[0];
	const columns = (k1 - k0) / bin[1];
	return {
		...box,
		rows,
		columns,
		row0: (q0 - window[0]) / bin[0],
		column0: (k0 - window[2]) / bin[1],
		gapX: bin[1] > 1 ? 0 : gapOf(box.width / columns, box.ratio),
		gapY: bin[0] > 1 ? 0 : gapOf(box.height / rows, box.ratio),
	};
}

function gapOf(cell: number, ratio: number): number {
	return cell >= LIMITS.gapFrom ? Math.max(1, Math.round(ratio)) : 0;
}

/** The cells of a tile that are at least partly in view: rows [r0, r1), columns [c0, c1). */
export function cellsInView(plot: Plot, [rows, columns]: readonly [number, number]): Window {
	const first = (at: number) => Math.max(0, Math.floor(at + 1e-6));
	const last = (at: number, count: number) => Math.min(count, Math.ceil(at - 1e-6));
	return [
		first(plot.row0),
		last(plot.row0 + plot.rows, rows),
		first(plot.column0),
		last(plot.column0 + plot.columns, columns),
	];
}

function stretch(cell: number, count: number, others: number, space: number): number {
	const few = others >= LIMITS.many * count ? LIMITS.fewOfMany : LIMITS.few;
	const least = Math.max(LIMITS.thin, Math.min(count, few) * LIMITS.thinRow);
	return Math.max(cell * count, Math.min(least, count * LIMITS.cell, space));
}

/** Cells with gaps are whole device pixels, all alike; without gaps the whole side is. */
function snap(side: number, count: number, ratio: number): [css: number, device: number] {
	const whole = side / count >= LIMITS.gapFrom ? count : 1;
	const device = Math.max(1, Math.floor((side / whole) * ratio + 1e-6)) * whole;
	return [device / ratio, device];
}

/** The box of a cell without its gap. */
export function cellRect(plot: Plot, row: number, column: number): Rect {
	const width = plot.width / plot.columns;
	const height = plot.height / plot.rows;
	return {
		x: (column - plot.column0) * width,
		y: (row - plot.row0) * height,
		width: width - plot.gapX / plot.ratio,
		height: height - plot.gapY / plot.ratio,
	};
}

/** What of a rectangle is inside the box; null where nothing is. */
export function clip(rect: Rect | null, { width, height }: Box): Rect | null {
	if (rect === null) return null;
	const x = Math.max(0, rect.x);
	const y = Math.max(0, rect.y);
	const right = Math.min(width, rect.x + rect.width);
	const bottom = Math.min(height, rect.y + rect.height);
	const visible = right - x > 1e-6 && bottom - y > 1e-6;
	return visible ? { x, y, width: right - x, height: bottom - y } : null;
}

/** A rectangle around the same centre that is large enough to see. */
export function atLeast(rect: Rect, size: number): Rect {
	const width = Math.max(size, rect.width);
	const height = Math.max(size, rect.height);
	return {
		x: rect.x + (rect.width - width) / 2,
		y: rect.y + (rect.height - height) / 2,
		width,
		height,
	};
}

/**
 * The cells [from, to) drawn under position `at` of a side: one, or all that share its pixel
 * where there are more cells than pixels. `origin` is the cell that the side starts with, and
 * there are `total` of them.
 */
export function cellsUnder(
	at: number,
	side: number,
	pixels: number,
	count: number,
	origin = 0,
	total = count,
): [from: number, to: number] {
	const inside = clamp(at / side, 0, 1 - 1e-9);
	if (count <= pixels) {
		const cell = clamp(Math.floor(origin + inside * count), 0, total - 1);
		return [cell, cell + 1];
	}
	const pixel = Math.floor(inside * pixels);
	const from = Math.max(0, firstCell(pixel, pixels, count, origin));
	return [from, Math.min(total, firstCell(pixel + 1, pixels, count, origin))];
}

/** The first of the cells that share a pixel, where there are more cells than pixels. */
export function firstCell(pixel: number, pixels: number, count: number, origin = 0): number {
	return Math.ceil(origin + (pixel * count) / pixels);
}

/** Where the tooltip goes: beside the cell, off its row and column, inside the bounds. */
export function placeTip(
	cell: Rect,
	tip: { width: number; height: number },
	bounds: Rect,
	clear = 8,
): { x: number; y: number } {
	const right = cell.x + cell.width + clear;
	const left = cell.x - clear - tip.width;
	const below = cell.y + cell.height + clear;
	const above = cell.y - clear - tip.height;
	const places = [
		{ x: right, y: below },
		{ x: right, y: above },
		{ x: left, y: below },
		{ x: left, y: above },
	].map((place) => {
		const x = clamp(place.x, bounds.x, Math.max(bounds.x, bounds.x + bounds.width - tip.width));
		const y = clamp(place.y, bounds.y, Math.max(bounds.y, bounds.y + bounds.height - tip.height));
		return { x, y, moved: Math.abs(x - place.x) + Math.abs(y - place.y) };
	});
	const best = places.reduce((a, b) => (b.moved < a.moved ? b : a));
	return { x: best.x, y: best.y };
}
