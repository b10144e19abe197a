/** The whole figure: label space, axes and plot for a given width. Pure. */

import { type Box, fitPlot, LIMITS, niceStride } from "./geometry";
import type { Window } from "./model";
import type { Size } from "./zoom";

/** Width of a text in its bold form, in em. */
export type Measure = (text: string) => number;

export interface Axis {
	/** font size in px */
	font: number;
	/** every n-th token has its label */
	stride: number;
	/** the tokens [from, to) in view, fractions while that moves */
	from: number;
	to: number;
	/** px from the centre of one token to the next */
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
	plot: Box;
	/** em of the widest label of each side */
	widest: readonly [rows: number, columns: number];
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

export interface LabelTexts {
	rows: readonly string[];
	columns: readonly string[];
}

/** With everything in view. The plot keeps this box whatever part of the map it shows. */
export function layoutMap(
	size: Size,
	width: number,
	font: number,
	ratio: number,
	labels: LabelTexts,
	measure: Measure,
): Layout {
	const below = width < NARROW || isStrip(size, width);
	const title = font * 1.5;
	const label = font * 0.95;
	const cap = Math.max(0, width * LABEL_SHARE - title - 8);
	const widest = [
		widestOf(labels.rows, size[0], measure),
		widestOf(labels.columns, size[1], measure),
	] as const;
	const right = below ? MARGIN : LEGEND;
	let left = title + 8 + Math.min(widest[0] * label, cap);
	let layout: Layout | null = null;
	// Smaller cells make smaller labels, which leave more room for the cells: settled in two passes.
	for (let pass = 0; pass < 2; pass++) {
		const space = { width: Math.max(16, width - left - right), height: LIMITS.height };
		const plot = fitPlot(size[0], size[1], space, ratio);
		const rows = rowAxis(plot, [0, size[0]], label, Math.max(0, left - title - 8));
		const longest = (shown: number[]) =>
			shown.reduce((most, index) => Math.max(most, measure(labels.columns[index] ?? "")), 0);
		const columns = columnAxis(plot, [0, size[1]], label, widest[1], longest, width);
		// Crowded labels are small; zoomed in they are not, and the figure keeps its height.
		if (columns.stride > 1) columns.height *= label / columns.font;
		const top = MARGIN;
		const height = heightOf(top, plot, columns, font);
		layout = { width, below, left, top, plot, widest, rows, columns, height };
		const overhang = columns.slanted ? overhangOf(columns, labels.columns, measure) : 0;
		const need = Math.max(Math.min(widest[0] * label, cap), Math.min(overhang - title, cap * 0.8));
		left = Math.ceil(title + 8 + need);
	}
	return layout as Layout;
}

/**
 * The same with a part in view: only the axes change. Labels stand upright where the widest of all
 * would, not the widest in view, so that panning does not turn them.
 */
export function layoutView(whole: Layout, [q0, q1, k0, k1]: Window, font: number): Layout {
	const label = font * 0.95;
	const { plot, widest } = whole;
	const rows = rowAxis(plot, [q0, q1], label, whole.rows.room);
	const columns = columnAxis(plot, [k0, k1], label, widest[1], () => widest[1], whole.width);
	columns.height = Math.max(columns.height, whole.columns.height);
	return { ...whole, rows, columns, height: heightOf(whole.top, plot, columns, font) };
}

function heightOf(top: number, plot: Box, columns: { height: number }, font: number): number {
	return top + plot.height + 6 + columns.height + 8 + font * 1.5;
}

/** A few rows of many columns: all of the width is needed, and there is no height for a legend. */
function isStrip([rows, columns]: Size, width: number): boolean {
	return (
		columns > LIMITS.valueColumns && rows * Math.min(LIMITS.cell, (0.7 * width) / columns) < 100
	);
}

/** Where the centre of a token is, in px from the start of the plot. */
export function centreOf(axis: Axis, index: number): number {
	return (index + 0.5 - axis.from) * axis.pitch;
}

/** The tokens that carry a label when nothing is hovered: multiples of the stride. */
export function labelled(axis: Axis): number[] {
	const shown: number[] = [];
	const first = Math.ceil((axis.from - 0.5) / axis.stride) * axis.stride;
	for (let index = first; index + 0.5 < axis.to; index += axis.stride) shown.push(index);
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

function rowAxis(plot: Box, [from, to]: [number, number], label: number, room: number): Axis {
	const pitch = plot.height / (to - from);
	const font = Math.min(label, Math.max(SMALL, pitch / 1.15));
	const stride = niceStride((font * 1.15) / pitch);
	return { font, stride, from, to, pitch, room };
}

function columnAxis(
	plot: Box,
	[from, to]: [number, number],
	label: number,
	widest: number,
	/** em of the widest of those labels */
	longest: (shown: number[]) => number,
	width: number,
): Layout["columns"] {
	const pitch = plot.width / (to - from);
	const across = pitch * Math.sin(SLANT);
	const font = Math.min(label, Math.max(SMALL, across));
	const axis = { font, from, to, pitch };
	const slanted = niceStride(font / across);
	for (let stride = 1; stride <= slanted; stride = niceStride(stride + 1)) {
		const size = Math.min(label, Math.max(SMALL, pitch));
		const room = stride * pitch - 6;
		const shown = labelled({ ...axis, stride, room });
		if (shown.length > MEASURED || room < size) continue;
		if (longest(shown) * size <= room) {
			const own = { ...axis, font: size, stride };
			return { ...own, room: Math.max(room, width * 0.2), slanted: false, height: size * 1.3 };
		}
	}
	const tallest = Math.min(width * LABEL_SHARE, LABEL_HEIGHT);
	const room = tallest / Math.sin(SLANT);
	const height = Math.min(room, widest * font) * Math.sin(SLANT) + font * 1.1;
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
function widestOf(labels: readonly string[], count: number, measure: Measure): number {
	const step = Math.max(1, Math.floor(count / MEASURED));
	let widest = 0;
	for (let index = 0; index < count; index += step) {
		widest = Math.max(widest, measure(labels[index] ?? String(index)));
	}
	return widest;
}
