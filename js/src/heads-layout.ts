/** Where each head is: layers down and heads across, or in falling order of some number. Pure. */

import { clamp } from "./geometry";
import { Known } from "./heads-model";
import type { Sheet } from "./heads-sheet";

export interface Box {
	x: number;
	y: number;
	width: number;
	height: number;
}

export interface Lines {
	/** the heads of each line, by index */
	lines: number[][];
	/** the line and place of each head */
	places: [line: number, place: number][];
	/** whether lines are layers; else the heads flow, each with its own label */
	table: boolean;
}

export interface HeadsLayout extends Lines {
	/** of a thumbnail */
	box: { width: number; height: number };
	/** from one to the next */
	pitch: { x: number; y: number };
	/** where the first one is */
	left: number;
	top: number;
	/** of all of it */
	width: number;
	height: number;
	/** height of the bar under a thumbnail; 0 for none */
	bar: number;
	/** lines of text under a thumbnail */
	words: number;
	/** whether there is room for a frame around each */
	framed: boolean;
}

const GAP = 4;
const FLOWING = 8;
/** Between heads so small that a frame around each would be most of what is seen. */
const TIGHT = 1;
const FRAMED = 20;
const LARGEST = 84;
const SMALLEST = 9;
/** of one that flows */
const LARGE_ENOUGH = 64;

/** `order`: all heads, as they flow; null: by layers. */
export function linesOf(counts: readonly number[], order: readonly number[] | null): Lines {
	const lines: number[][] = [];
	const places: [number, number][] = [];
	if (order !== null) return { lines: [[...order]], places: [], table: false };
	let index = 0;
	for (const count of counts) {
		const line = Array.from({ length: count }, (_, i) => index + i);
		for (const place of line) places[place] = [lines.length, place - index];
		lines.push(line);
		index += count;
	}
	return { lines, places, table: true };
}

/** The longest first; a head without the number comes last, all others keep their order. */
export function orderBy(sheet: Sheet, column: number): number[] {
	const heads = Array.from({ length: sheet.heads }, (_, i) => i);
	const value = (head: number) => {
		const number = sheet.number(head, column);
		return Number.isNaN(number) ? Number.NEGATIVE_INFINITY : number;
	};
	return heads.sort((a, b) => value(b) - value(a) || a - b);
}

/** Width and height of the thumbnails, of 1: whatever the largest of them need. */
export function extent(sheet: Sheet): [width: number, height: number] {
	let [width, height] = [0, 0];
	for (let head = 0; head < sheet.heads; head++) {
		const [rows, columns] = sheet.shape(head);
		const longest = Math.max(rows, columns);
		if (longest === 0 || sheet.known(head) === Known.error) continue;
		width = Math.max(width, columns / longest);
		height = Math.max(height, rows / longest);
	}
	return width > 0 ? [width, height] : [1, 1];
}

export interface Room {
	/** of the widget */
	width: number;
	font: number;
	/** of the longest label of a line, and of one under a thumbnail */
	rowLabel: number;
	label: number;
	bar: boolean;
	/** lines of text under each that flows */
	words: number;
}

export function layoutHeads(given: Lines, [wide, high]: [number, number], room: Room): HeadsLayout {
	const across = Math.max(1, ...given.lines.map((line) => line.length));
	const bar = room.bar ? 4 : 0;
	const left = given.table ? Math.ceil(room.rowLabel) + 10 : 2;
	const top = given.table ? Math.ceil(room.font * 1.7) : 2;
	const space = room.width - left - 4;
	let side = given.table ? (space / across - GAP) / wide : LARGE_ENOUGH;
	const tight = given.table && side * wide < FRAMED;
	if (tight) side = (space / across - TIGHT) / wide;
	side = clamp(Math.floor(side), SMALLEST, given.table ? LARGEST : LARGE_ENOUGH);
	const box = { width: atLeast(side * wide, 6), height: atLeast(side * high, 6) };
	const gap = given.table ? (tight ? TIGHT : GAP) : FLOWING;
	const words = given.table ? 0 : room.words;
	const under = (bar > 0 ? bar + 1 : 0) + Math.ceil(words * room.font * 1.15);
	const pitch = {
		x: (given.table ? box.width : Math.max(box.width, Math.ceil(room.label))) + gap,
		y: box.height + under + gap,
	};
	let { lines, places } = given;
	if (!given.table) {
		const columns = Math.max(1, Math.floor((space + gap) / pitch.x));
		// All the width is used, but a few heads stay together.
		pitch.x = Math.floor(Math.min((space + gap) / columns, pitch.x * 1.4));
		const all = lines.flat();
		lines = Array.from({ length: Math.ceil(all.length / columns) }, (_, i) =>
			all.slice(i * columns, (i + 1) * columns),
		);
		places = [];
		all.forEach((head, i) => {
			places[head] = [Math.floor(i / columns), i % columns];
		});
	}
	const longest = Math.max(1, ...lines.map((line) => line.length));
	return {
		lines,
		places,
		table: given.table,
		box,
		pitch,
		left,
		top,
		width: left + longest * pitch.x,
		height: top + lines.length * pitch.y + 2,
		bar,
		words,
		framed: !tight,
	};
}

const atLeast = (size: number, least: number) => Math.max(least, Math.round(size));

/** Of the thumbnail itself, in the whole layout. */
export function boxOf(layout: HeadsLayout, head: number): Box | null {
	const place = layout.places[head];
	if (!place) return null;
	const { box, pitch, left, top } = layout;
	// Where labels need more room than pictures, pictures stand in its middle.
	const inset = layout.table ? 0 : Math.floor((pitch.x - FLOWING - box.width) / 2);
	return { x: left + place[1] * pitch.x + inset, y: top + place[0] * pitch.y, ...box };
}

/** How many heads have their middle in the part that is scrolled to; labels stay, over heads. */
export function headsInView(
	layout: HeadsLayout,
	scroll: { x: number; y: number },
	size: { width: number; height: number },
): number {
	const [left, top] = layout.table ? [layout.left, layout.top] : [0, 0];
	let found = 0;
	layout.places.forEach((_, head) => {
		const box = boxOf(layout, head);
		if (box === null) return;
		const x = box.x + box.width / 2 - scroll.x;
		const y = box.y + box.height / 2 - scroll.y;
		if (x >= left && x <= size.width && y >= top && y <= size.height) found++;
	});
	return found;
}

/** The head at a point of the layout; its gap belongs to it. */
export function headAt(layout: HeadsLayout, x: number, y: number): number | null {
	const line = Math.floor((y - layout.top + 1) / layout.pitch.y);
	const place = Math.floor((x - layout.left + 1) / layout.pitch.x);
	return layout.lines[line]?.[place] ?? null;
}

const STEPS: Partial<Record<string, readonly [down: number, across: number]>> = {
	ArrowUp: [-1, 0],
	ArrowDown: [1, 0],
	ArrowLeft: [0, -1],
	ArrowRight: [0, 1],
	PageUp: [-5, 0],
	PageDown: [5, 0],
};

/** Where a key leads from a head; null if it does not move. */
export function stepFrom(
	{ lines, places }: HeadsLayout,
	head: number,
	key: string,
	control: boolean,
): number | null {
	const [line, place] = places[head] ?? [0, 0];
	const at = (down: number, across: number): number | null => {
		const there = lines[clamp(down, 0, lines.length - 1)] ?? [];
		return there[clamp(across, 0, there.length - 1)] ?? null;
	};
	if (key === "Home") return at(control ? 0 : line, 0);
	if (key === "End") return at(control ? lines.length - 1 : line, Number.MAX_SAFE_INTEGER);
	const step = control ? undefined : STEPS[key];
	return step ? at(line + step[0], place + step[1]) : null;
}
