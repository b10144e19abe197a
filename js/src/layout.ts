/** The whole figure: label space, axes and plot for a given width. Pure. */

import { fitPlot, LIMITS, niceStride, type Plot } from "./geometry";
import type { Tile } from "./model";

/** Width of a text in its bold form, in em. */
export type Measure = (text: string) => number;

export interface Axis {
	/** font size in px */
	font: number;
	/** every n-th token has its label */
	stride: number;
	/** the tokens [from, to) of this axis, and how many share a cell */
	from: number;
	to: number;
	bin: number;
	/** px from the centre of one cell to the next */
	pitch: number;
	/** px that the longest label may take */
	room: number;
}

export interface Layout {
	width: number;
	/** the legend goes below the map, not beside it */
	below: boolean;
	/** left edge and top edge of the plot */
	left: number;
	top: number;
	plot: Plot;
	rows: Axis;
	columns: Axis & { slanted: boolean; height: number };
	height: number;
}

export const SLANT = (40 * Math.PI) / 180;
const LABEL_SHARE = 0.3;
const NARROW = 480;
const LEGEND = 148;
const LABEL_HEIGHT = 150;
const MARGIN = 4;
const SMALL = 10;
const MEASURED = 1024;

export function layoutMap(
	tile: Pick<Tile, "shape" | "window" | "bin">,
	width: number,
	font: number,
	ratio: number,
	labels: { rows: readonly string[]; columns: readonly string[] },
	measure: Measure,
): Layout {
	const below = width < NARROW || isStrip(tile.shape, width);
	const [q0, q1, k0, k1] = tile.window;
	const title = font * 1.5;
	const label = font * 0.95;
	const cap = Math.max(0, width * LABEL_SHARE - title - 8);
	const widest = widestOf(labels.rows, q0, q1, measure);
	const right = below ? MARGIN : LEGEND;
	let left = title + 8 + Math.min(widest * label, cap);
	let layout: Layout | null = null;
	// Smaller cells make smaller labels, which leave more room for the cells: settled in two passes.
	for (let pass = 0; pass < 2; pass++) {
		const space = { width: Math.max(16, width - left - right), height: LIMITS.height };
		const plot = fitPlot(tile.shape[0], tile.shape[1], space, ratio);
		const rows = rowAxis(plot, [q0, q1], tile.bin[0], label, Math.max(0, left - title - 8));
		const columns = columnAxis(plot, [k0, k1], tile.bin[1], label, labels.columns, measure, width);
		const top = MARGIN;
		const height = top + plot.height + 6 + columns.height + 8 + font * 1.5;
		layout = { width, below, left, top, plot, rows, columns, height };
		const overhang = columns.slanted ? overhangOf(columns, labels.columns, measure) : 0;
		const need = Math.max(Math.min(widest * rows.font, cap), Math.min(overhang - title, cap * 0.8));
		left = Math.ceil(title + 8 + need);
	}
	return layout as Layout;
}

/** A few rows of many columns: all of the width is needed, and there is no height for a legend. */
function isStrip([rows, columns]: readonly [number, number], width: number): boolean {
	return (
		columns > LIMITS.valueColumns && rows * Math.min(LIMITS.cell, (0.7 * width) / columns) < 100
	);
}

/** Where the centre of a token's cell is, in px from the start of the plot. */
export function centreOf(axis: Axis, index: number): number {
	return (Math.floor((index - axis.from) / axis.bin) + 0.5) * axis.pitch;
}

/** The tokens that carry a label when nothing is hovered: multiples of the stride. */
export function labelled(axis: Axis): number[] {
	const shown: number[] = [];
	const first = Math.ceil(axis.from / axis.stride) * axis.stride;
	for (let index = first; index < axis.to; index += axis.stride) shown.push(index);
	return shown;
}

/** px that the label of one column may take: a slanted one runs back to the figure's left edge. */
export function columnRoom(layout: Layout, index: number): number {
	const { columns, left } = layout;
	if (!columns.slanted) return columns.room;
	return Math.min(columns.room, (left + centreOf(columns, index) - 2) / Math.cos(SLANT));
}

/** How far apart the labels of an axis must be, in px along it. */
export function labelSpacing(axis: Axis, slanted: boolean): number {
	return slanted ? axis.font / Math.sin(SLANT) : axis.font * 1.15;
}

function rowAxis(
	plot: Plot,
	[from, to]: [number, number],
	bin: number,
	label: number,
	room: number,
): Axis {
	const pitch = plot.height / plot.rows;
	const perToken = pitch / bin;
	const font = Math.min(label, Math.max(SMALL, perToken / 1.15));
	const stride = niceStride((font * 1.15) / perToken);
	return { font, stride, from, to, bin, pitch, room };
}

function columnAxis(
	plot: Plot,
	[from, to]: [number, number],
	bin: number,
	label: number,
	labels: readonly string[],
	measure: Measure,
	width: number,
): Layout["columns"] {
	const pitch = plot.width / plot.columns;
	const perToken = pitch / bin;
	const across = perToken * Math.sin(SLANT);
	const font = Math.min(label, Math.max(SMALL, across));
	const axis = { font, from, to, bin, pitch };
	const slanted = niceStride(font / across);
	for (let stride = 1; stride <= slanted; stride = niceStride(stride + 1)) {
		const size = Math.min(label, Math.max(SMALL, perToken));
		const room = stride * perToken - 6;
		const shown = labelled({ ...axis, stride, room });
		if (shown.length > MEASURED || room < size) continue;
		if (shown.every((index) => measure(labels[index] ?? "") * size <= room)) {
			const own = { ...axis, font: size, stride };
			return { ...own, room: Math.max(room, width * 0.2), slanted: false, height: size * 1.3 };
		}
	}
	const tallest = Math.min(width * LABEL_SHARE, LABEL_HEIGHT);
	const room = tallest / Math.sin(SLANT);
	const longest = Math.min(room, widestOf(labels, from, to, measure) * font);
	const height = longest * Math.sin(SLANT) + font * 1.1;
	return { ...axis, stride: slanted, room, slanted: true, height };
}

/** How far left of the plot the slanted labels reach. */
function overhangOf(axis: Axis, labels: readonly string[], measure: Measure): number {
	return labelled(axis)
		.slice(0, 40)
		.reduce((most, index) => {
			const length = Math.min(axis.room, measure(labels[index] ?? "") * axis.font);
			return Math.max(most, length * Math.cos(SLANT) - centreOf(axis, index));
		}, 0);
}

/** In em; a very long axis is sampled. */
function widestOf(labels: readonly string[], from: number, to: number, measure: Measure): number {
	const step = Math.max(1, Math.floor((to - from) / MEASURED));
	let widest = 0;
	for (let index = from; index < to; index += step) {
		widest = Math.max(widest, measure(labels[index] ?? String(index)));
	}
	return widest;
}
