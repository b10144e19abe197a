/** Draws the heads that are in view: pictures, bars, labels, outlines. */

import { css, unpack } from "./color";
import type { Atlas } from "./heads-atlas";
import type { Bars } from "./heads-bars";
import { type Box, boxOf, type HeadsLayout } from "./heads-layout";
import { Known } from "./heads-model";
import type { Sheet } from "./heads-sheet";
import { State } from "./model";
import { flatsOf, patternOf } from "./patterns";

type Pen = CanvasRenderingContext2D;

export interface Inks {
	ink: string;
	muted: string;
	line: string;
	accent: string;
	alarm: string;
	page: string;
	family: string;
	/** px of labels */
	font: number;
}

export interface HeadsScene {
	sheet: Sheet;
	layout: HeadsLayout;
	atlas: Atlas;
	dark: boolean;
	inks: Inks;
	bars: Bars | null;
	/** of each line, where lines are layers */
	lineLabels: readonly string[];
	/** what stands under a head that flows */
	words(head: number): string[];
	selected: number | null;
	current: number | null;
	scroll: { x: number; y: number };
	size: { width: number; height: number };
	ratio: number;
}

/** A picture smaller than this shows a flat grey where others have a pattern. */
export const PATTERN_FROM = 28;

/**
 * All heads at once, where they are so small that thousands are in view: while one scrolls, this is
 * copied as a whole. Null where they are drawn one by one.
 */
export function paintAll(scene: HeadsScene): HTMLCanvasElement | null {
	const { layout, ratio } = scene;
	if (layout.framed) return null;
	const canvas = document.createElement("canvas");
	canvas.width = Math.ceil(layout.width * ratio);
	canvas.height = Math.ceil(layout.height * ratio);
	const pen = canvas.getContext("2d");
	if (!pen) return null;
	pen.setTransform(ratio, 0, 0, ratio, 0, 0);
	pen.imageSmoothingEnabled = false;
	pen.textBaseline = "middle";
	for (const head of layout.lines.flat()) drawHead(pen, scene, head, null);
	return canvas;
}

/** `all` is what `paintAll` has made of the same scene. */
export function paintHeads(
	canvas: HTMLCanvasElement,
	scene: HeadsScene,
	all: HTMLCanvasElement | null,
): void {
	const { size, ratio, scroll, layout } = scene;
	const width = Math.max(1, Math.round(size.width * ratio));
	const height = Math.max(1, Math.round(size.height * ratio));
	const pen = canvas.getContext("2d");
	if (!pen) return;
	if (canvas.width !== width || canvas.height !== height) {
		canvas.width = width;
		canvas.height = height;
	}
	pen.setTransform(ratio, 0, 0, ratio, 0, 0);
	pen.clearRect(0, 0, size.width, size.height);
	pen.imageSmoothingEnabled = false;
	pen.textBaseline = "middle";

	pen.save();
	pen.beginPath();
	// Labels of lines stay where they are; heads pass behind them.
	const [left, top] = layout.table ? [layout.left - 4, layout.top - 4] : [0, 0];
	pen.rect(left, top, size.width, size.height);
	pen.clip();
	pen.translate(-scroll.x, -scroll.y);
	const hatch = layout.box.width < PATTERN_FROM ? null : pattern(pen, scene);
	if (all) pen.drawImage(all, 0, 0, all.width / ratio, all.height / ratio);
	else for (const head of inView(scene)) drawHead(pen, scene, head, hatch);
	outline(pen, scene, scene.selected, scene.inks.accent, 2.5);
	if (scene.current !== scene.selected) outline(pen, scene, scene.current, scene.inks.ink, 1.5);
	pen.restore();

	if (layout.table) drawTableLabels(pen, scene);
}

/** Its context stays at one device pixel, as patterns do. */
function pattern(pen: Pen, { dark, ratio }: HeadsScene): CanvasPattern | null {
	const found = patternOf(pen, State.cannotLook, dark, ratio);
	found?.setTransform(new DOMMatrix().scale(1 / ratio));
	return found;
}

export function* inView({ layout, scroll, size }: HeadsScene): Generator<number> {
	const { pitch, left, top, lines } = layout;
	const first = Math.max(0, Math.floor((scroll.y - top) / pitch.y));
	const last = Math.ceil((scroll.y + size.height - top) / pitch.y);
	const from = Math.max(0, Math.floor((scroll.x - left) / pitch.x));
	const to = Math.ceil((scroll.x + size.width - left) / pitch.x);
	for (const line of lines.slice(first, Math.max(first, last))) {
		yield* line.slice(from, Math.max(from, to));
	}
}

function drawHead(pen: Pen, scene: HeadsScene, head: number, hatch: CanvasPattern | null): void {
	const box = boxOf(scene.layout, head);
	if (box === null) return;
	const { atlas, inks, dark } = scene;
	const spot = atlas.spots[head];
	if (spot) {
		const at = fitted(box, spot);
		if (spot.open) {
			pen.fillStyle = css(unpack(flatsOf(dark)[State.cannotLook] ?? 0));
			pen.fillRect(at.x, at.y, at.width, at.height);
			if (hatch) fillAt(pen, at, hatch);
		}
		const { x, y, width, height } = at;
		pen.drawImage(atlas.canvas, spot.x, spot.y, spot.width, spot.height, x, y, width, height);
		if (scene.layout.framed) frame(pen, at, inks.line);
	} else if (scene.sheet.known(head) === Known.error) {
		frame(pen, box, inks.alarm);
		write(pen, "!", box.x + box.width / 2, box.y + box.height / 2, inks.alarm, inks, "center", 700);
	} else {
		pen.setLineDash([2, 2]);
		frame(pen, box, inks.line);
		pen.setLineDash([]);
	}
	drawBar(pen, scene, head, box);
	drawWords(pen, scene, head, box);
}

/** The pattern begins at the corner of the picture, so that it moves with it. */
function fillAt(pen: Pen, { x, y, width, height }: Box, fill: CanvasPattern): void {
	pen.save();
	pen.translate(x, y);
	pen.fillStyle = fill;
	pen.fillRect(0, 0, width, height);
	pen.restore();
}

/** As large as the box lets it be, in its middle. */
function fitted(box: Box, cells: { width: number; height: number }): Box {
	const scale = Math.min(box.width / cells.width, box.height / cells.height);
	const width = Math.max(1, cells.width * scale);
	const height = Math.max(1, cells.height * scale);
	return {
		x: box.x + (box.width - width) / 2,
		y: box.y + (box.height - height) / 2,
		width,
		height,
	};
}

function frame(pen: Pen, { x, y, width, height }: Box, color: string): void {
	pen.strokeStyle = color;
	pen.lineWidth = 1;
	pen.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
}

function drawBar(pen: Pen, scene: HeadsScene, head: number, box: Box): void {
	const { bars, layout, inks } = scene;
	if (bars === null || layout.bar === 0) return;
	const share = bars.shares[head] ?? Number.NaN;
	const y = box.y + box.height + 2;
	const height = layout.bar - 1;
	if (Number.isNaN(share)) {
		pen.fillStyle = inks.muted;
		pen.fillRect(box.x + box.width / 2 - 3, y + height / 2 - 0.5, 6, 1);
		return;
	}
	pen.fillStyle = inks.line;
	pen.fillRect(box.x, y, box.width, height);
	pen.fillStyle = css(unpack(bars.palette[Math.round(share * 255)] as number));
	pen.fillRect(box.x, y, Math.max(1, share * box.width), height);
}

function drawWords(pen: Pen, scene: HeadsScene, head: number, box: Box): void {
	const { layout, inks } = scene;
	if (layout.words === 0) return;
	const x = box.x + box.width / 2;
	// Two pixels lower, or the outline of the chosen head would cut into its name.
	let y = box.y + box.height + (layout.bar > 0 ? layout.bar + 1 : 0) + inks.font * 0.75 + 2;
	const bold = head === scene.selected || head === scene.current;
	scene.words(head).forEach((words, line) => {
		const color = line === 0 ? inks.ink : inks.muted;
		write(pen, words, x, y, color, inks, "center", bold && line === 0 ? 700 : 400);
		y += inks.font * 1.15;
	});
}

function outline(pen: Pen, scene: HeadsScene, head: number | null, color: string, line: number) {
	const box = head === null ? null : boxOf(scene.layout, head);
	if (box === null) return;
	const bar = scene.layout.bar > 0 ? scene.layout.bar + 1 : 0;
	const grown = (by: number): [number, number, number, number] => [
		box.x - by,
		box.y - by,
		box.width + 2 * by,
		box.height + bar + 2 * by,
	];
	pen.lineWidth = line + 2;
	pen.strokeStyle = scene.inks.page;
	pen.strokeRect(...grown(line / 2 + 0.5));
	pen.lineWidth = line;
	pen.strokeStyle = color;
	pen.strokeRect(...grown(line / 2 + 0.5));
}

/** Layers at the left and head numbers on top: as many as there is room for. */
function drawTableLabels(pen: Pen, scene: HeadsScene): void {
	const { layout, inks, scroll, size, lineLabels } = scene;
	const { pitch, left, top, box, lines } = layout;
	const bold = [scene.selected, scene.current].flatMap((head) =>
		head === null ? [] : [layout.places[head] ?? [-1, -1]],
	);
	const across = Math.max(...lines.map((line) => line.length));
	const widest = String(across - 1).length * inks.font * 0.62 + 4;
	const everyColumn = Math.max(1, Math.ceil(widest / pitch.x));
	for (let place = 0; place < across; place++) {
		const x = left + place * pitch.x + box.width / 2 - scroll.x;
		const strong = bold.some(([, at]) => at === place);
		if (x < left - 2 || x > size.width) continue;
		if (!strong && (place % everyColumn !== 0 || crowded(place, bold, 1, everyColumn))) continue;
		const color = strong ? inks.ink : inks.muted;
		write(pen, String(place), x, top / 2, color, inks, "center", strong ? 700 : 400);
	}
	const everyLine = Math.max(1, Math.ceil((inks.font * 1.1) / pitch.y));
	lines.forEach((_, line) => {
		const y = top + line * pitch.y + box.height / 2 - scroll.y;
		const strong = bold.some(([at]) => at === line);
		if (y < top - 2 || y > size.height) return;
		if (!strong && (line % everyLine !== 0 || crowded(line, bold, 0, everyLine))) return;
		const color = strong ? inks.ink : inks.muted;
		write(pen, lineLabels[line] ?? "", left - 8, y, color, inks, "right", strong ? 700 : 400);
	});
}

/** Whether a bold label needs the room of this one. */
function crowded(at: number, bold: readonly (readonly number[])[], axis: 0 | 1, stride: number) {
	return stride > 1 && bold.some((place) => Math.abs((place[axis] ?? -9) - at) < stride);
}

function write(
	pen: Pen,
	text: string,
	x: number,
	y: number,
	color: string,
	{ family, font }: Inks,
	align: CanvasTextAlign,
	weight: number,
): void {
	pen.font = `${weight} ${font}px ${family}`;
	pen.textAlign = align;
	pen.fillStyle = color;
	pen.fillText(text, x, y);
}

/** One head as large as a canvas is: what a tooltip shows. */
export function paintPreview(canvas: HTMLCanvasElement, scene: HeadsScene, head: number): boolean {
	const spot = scene.atlas.spots[head];
	if (!spot) return false;
	const scale = 128 / Math.max(spot.width, spot.height);
	canvas.style.width = `${Math.max(1, Math.round(spot.width * scale))}px`;
	canvas.style.height = `${Math.max(1, Math.round(spot.height * scale))}px`;
	canvas.width = spot.width;
	canvas.height = spot.height;
	const pen = canvas.getContext("2d");
	if (!pen) return false;
	pen.fillStyle = css(unpack(flatsOf(scene.dark)[State.cannotLook] ?? 0));
	if (spot.open) pen.fillRect(0, 0, spot.width, spot.height);
	const { x, y, width, height } = spot;
	pen.drawImage(scene.atlas.canvas, x, y, width, height, 0, 0, width, height);
	return true;
}
