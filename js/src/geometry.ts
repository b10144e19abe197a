/** Where things go: pure functions of sizes, in CSS pixels unless they say device pixels. */

export interface Rect {
	x: number;
	y: number;
	width: number;
	height: number;
}

/** The cells' area. Cells have no gap below `LIMITS.gapFrom`. */
export interface Plot {
	rows: number;
	columns: number;
	width: number;
	height: number;
	/** device pixels per CSS pixel */
	ratio: number;
	/** size of the canvas in device pixels */
	pixelWidth: number;
	pixelHeight: number;
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
	/** a row of a few is at least so thick that each can have its label */
	thinRow: 14,
	/** columns that get their values written unless told otherwise */
	valueColumns: 12,
} as const;

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
	const [width, pixelWidth] = snap(stretch(cell, columns, space.width), columns, ratio);
	const [height, pixelHeight] = snap(stretch(cell, rows, space.height), rows, ratio);
	const gap = Math.max(1, Math.round(ratio));
	return {
		rows,
		columns,
		width,
		height,
		ratio,
		pixelWidth,
		pixelHeight,
		gapX: width / columns >= LIMITS.gapFrom ? gap : 0,
		gapY: height / rows >= LIMITS.gapFrom ? gap : 0,
	};
}

function stretch(cell: number, count: number, space: number): number {
	const least = Math.max(LIMITS.thin, Math.min(count, 4) * LIMITS.thinRow);
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
		x: column * width,
		y: row * height,
		width: width - plot.gapX / plot.ratio,
		height: height - plot.gapY / plot.ratio,
	};
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
 * where there are more cells than pixels.
 */
export function cellsUnder(
	at: number,
	side: number,
	pixels: number,
	count: number,
): [from: number, to: number] {
	const inside = Math.min(Math.max(at / side, 0), 1 - 1e-9);
	if (count <= pixels) {
		const cell = Math.floor(inside * count);
		return [cell, cell + 1];
	}
	const pixel = Math.floor(inside * pixels);
	return [firstCell(pixel, pixels, count), firstCell(pixel + 1, pixels, count)];
}

/** The first of the cells that share a pixel, where there are more cells than pixels. */
export function firstCell(pixel: number, pixels: number, count: number): number {
	return Math.ceil((pixel * count) / pixels);
}

/** The pixel that each cell falls into where there are more cells than pixels. */
export function pixelOf(count: number, pixels: number): Uint32Array {
	return Uint32Array.from({ length: count }, (_, cell) => Math.floor((cell * pixels) / count));
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
		const x = Math.max(bounds.x, Math.min(place.x, bounds.x + bounds.width - tip.width));
		const y = Math.max(bounds.y, Math.min(place.y, bounds.y + bounds.height - tip.height));
		return { x, y, moved: Math.abs(x - place.x) + Math.abs(y - place.y) };
	});
	const best = places.reduce((a, b) => (b.moved < a.moved ? b : a));
	return { x: best.x, y: best.y };
}
