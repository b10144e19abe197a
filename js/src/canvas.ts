/** Paints the cells. Drawing twice gives the same pixels; hovering never comes here. */

import { alphaOf, colorize, css, DIMMED, inkOn, mix, unpack } from "./color";
import { LIMITS, type Plot } from "./geometry";
import { State, type Tile } from "./model";
import { formatCell } from "./numbers";
import { flatsOf, patternOf } from "./patterns";
import { eachBand } from "./pool";
import type { Scene } from "./scene";
import { isLeak } from "./tile";

export const WARNING = { light: "#c2187a", dark: "#ff7ac6" };

type Pen = CanvasRenderingContext2D;

/** Cell pixels are kept between the cells and their values, which need the colours for their ink. */
export interface Painter {
	/** null: the plot has no area, or the canvas is not available */
	cells(scene: Scene): void;
	/** px of the font, 0: clear them away */
	values(scene: Scene, font: number, family: string): void;
}

export function createPainter(cells: HTMLCanvasElement, values: HTMLCanvasElement): Painter {
	let image = new ImageData(1, 1);
	let pixels = new Int32Array(image.data.buffer);
	const scratch = document.createElement("canvas");

	return {
		cells(scene) {
			const { tile, colors, palette, theme } = scene;
			const { plot } = scene.layout;
			const pen = cleared(cells, plot);
			if (!pen) return;
			const rows = Math.min(plot.rows, plot.pixelHeight);
			const columns = Math.min(plot.columns, plot.pixelWidth);
			if (image.width !== columns || image.height !== rows) {
				image = new ImageData(columns, rows);
				pixels = new Int32Array(image.data.buffer);
			}
			const patterned = hasPatterns(plot);
			const flats = patterned ? [] : flatsOf(theme.dark);
			eachBand(tile, [rows, columns], (band, first) => {
				const into = pixels.subarray(first, first + band.shape[0] * columns);
				colorize(band, colors, palette, flats, into);
			});
			if (isRound(plot)) paintRound(pen, plot, pixels);
			else paintSquare(pen, plot, image, scratch);
			if (patterned) paintPatterns(pen, scene);
			if (scene.survey.leaks > 0) outlineLeaks(pen, scene);
		},
		values(scene, font, family) {
			const { tile, theme } = scene;
			const { plot } = scene.layout;
			const pen = cleared(values, plot);
			if (!pen || font === 0) return;
			pen.font = `${font * plot.ratio}px ${family}`;
			pen.textAlign = "center";
			pen.textBaseline = "middle";
			eachCell(plot, (i, x, y, width, height) => {
				const pixel = pixels[i] as number;
				if (alphaOf(pixel) === 0) return;
				const color = unpack(pixel);
				const seen = alphaOf(pixel) === 255 ? color : mix(color, theme.page, DIMMED);
				pen.fillStyle = css(inkOn(seen));
				const text = formatCell(tile.weights[i] as number);
				pen.fillText(text, x + width / 2, y + height / 2 + plot.ratio * 0.5);
			});
		},
	};
}

export function hasPatterns(plot: Plot): boolean {
	return Math.min(plot.width / plot.columns, plot.height / plot.rows) >= LIMITS.patternFrom;
}

function isRound(plot: Plot): boolean {
	return Math.min(plot.width / plot.columns, plot.height / plot.rows) >= LIMITS.roundFrom;
}

/** px of the largest font in which every value fits its cell, 0 where none does. */
export function valueFont(tile: Tile, plot: Plot, font: number, em: (text: string) => number) {
	const width = (plot.pixelWidth / plot.columns - plot.gapX) / plot.ratio - 4;
	const height = (plot.pixelHeight / plot.rows - plot.gapY) / plot.ratio - 4;
	const smallest = 8;
	if (Math.min(width, height) < smallest) return 0;
	let widest = 0;
	for (const weight of tile.weights) {
		if (Number.isNaN(weight)) continue;
		// Digits are equally wide, so there are only a few texts to measure.
		widest = Math.max(widest, em(formatCell(weight).replace(/\d/g, "0")));
	}
	const fits = Math.min(font * 0.85, height, widest > 0 ? width / widest : height);
	return fits >= smallest ? Math.floor(fits * 2) / 2 : 0;
}

/** Of the plot's size in device pixels, and empty. Setting the same size would cost new memory. */
function cleared(canvas: HTMLCanvasElement, plot: Plot): Pen | null {
	const pen = canvas.getContext("2d");
	if (canvas.width !== plot.pixelWidth || canvas.height !== plot.pixelHeight) {
		canvas.width = plot.pixelWidth;
		canvas.height = plot.pixelHeight;
	} else pen?.clearRect(0, 0, canvas.width, canvas.height);
	return pen;
}

function eachCell(
	plot: Plot,
	visit: (i: number, x: number, y: number, width: number, height: number) => void,
): void {
	const stepX = plot.pixelWidth / plot.columns;
	const stepY = plot.pixelHeight / plot.rows;
	for (let row = 0, i = 0; row < plot.rows; row++) {
		for (let column = 0; column < plot.columns; column++, i++) {
			visit(i, column * stepX, row * stepY, stepX - plot.gapX, stepY - plot.gapY);
		}
	}
}

function paintRound(pen: Pen, plot: Plot, pixels: Int32Array): void {
	eachCell(plot, (i, x, y, width, height) => {
		const pixel = pixels[i] as number;
		if (alphaOf(pixel) === 0) return;
		pen.globalAlpha = alphaOf(pixel) / 255;
		pen.fillStyle = css(unpack(pixel));
		pen.beginPath();
		pen.roundRect(x, y, width, height, 2 * plot.ratio);
		pen.fill();
	});
	pen.globalAlpha = 1;
}

/** The image of one pixel per cell, enlarged without smoothing, then the gaps cut out of it. */
function paintSquare(pen: Pen, plot: Plot, image: ImageData, scratch: HTMLCanvasElement): void {
	const { pixelWidth, pixelHeight, gapX, gapY, rows, columns } = plot;
	if (image.width === pixelWidth && image.height === pixelHeight) {
		pen.putImageData(image, 0, 0);
		return;
	}
	scratch.width = image.width;
	scratch.height = image.height;
	scratch.getContext("2d")?.putImageData(image, 0, 0);
	pen.imageSmoothingEnabled = false;
	pen.drawImage(scratch, 0, 0, pixelWidth, pixelHeight);
	cutGaps(pen, gapX > 0 ? columns : 0, gapX, pixelWidth, pixelHeight, false);
	cutGaps(pen, gapY > 0 ? rows : 0, gapY, pixelHeight, pixelWidth, true);
}

function cutGaps(
	pen: Pen,
	count: number,
	gap: number,
	side: number,
	across: number,
	down: boolean,
) {
	for (let n = 1; n <= count; n++) {
		const at = (side / count) * n - gap;
		if (down) pen.clearRect(0, at, across, gap);
		else pen.clearRect(at, 0, gap, across);
	}
}

function paintPatterns(pen: Pen, { tile, survey, theme, layout: { plot } }: Scene): void {
	const { states, weights } = tile;
	const radius = isRound(plot) ? 2 * plot.ratio : 0;
	if (states === null || !survey.states.some((n, state) => n > 0 && state > State.zero)) return;
	const paths = new Map<number, Path2D>();
	eachCell(plot, (i, x, y, width, height) => {
		const state = states[i] as number;
		if (state <= State.zero || isLeak(state, weights[i] as number)) return;
		const path = paths.get(state) ?? new Path2D();
		paths.set(state, path);
		const inset = state === State.empty ? plot.ratio / 2 : 0;
		path.roundRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset, radius);
	});
	for (const [state, path] of paths) strokeOrFill(pen, path, state, theme.dark, plot.ratio);
}

/** One state's look over a path, in device pixels. Also draws the legend's swatches. */
export function strokeOrFill(
	pen: Pen,
	path: Path2D,
	state: number,
	dark: boolean,
	ratio: number,
): void {
	if (state === State.empty) {
		pen.setLineDash([ratio, 2 * ratio]);
		pen.lineWidth = ratio;
		pen.strokeStyle = dark ? "rgb(201 209 217 / .5)" : "rgb(60 66 74 / .5)";
		pen.stroke(path);
		pen.setLineDash([]);
		return;
	}
	const pattern = patternOf(pen, state, dark, ratio);
	if (pattern === null) return;
	pen.fillStyle = pattern;
	pen.fill(path);
}

/** Only where there is room: a smaller leak keeps its colour, and the legend counts it. */
function outlineLeaks(pen: Pen, { tile, theme, layout: { plot } }: Scene): void {
	if (plot.gapX === 0 || plot.gapY === 0) return;
	const line = (hasPatterns(plot) ? 1.5 : 1) * plot.ratio;
	const radius = isRound(plot) ? 2 * plot.ratio : 0;
	pen.strokeStyle = WARNING[theme.dark ? "dark" : "light"];
	pen.lineWidth = line;
	pen.beginPath();
	eachCell(plot, (i, x, y, width, height) => {
		if (!isLeak(tile.states?.[i] ?? State.weight, tile.weights[i] as number)) return;
		pen.roundRect(x + line / 2, y + line / 2, width - line, height - line, radius);
	});
	pen.stroke();
}
