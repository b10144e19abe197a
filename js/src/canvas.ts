/** Paints the cells. Drawing twice gives the same pixels; hovering never comes here. */

import { alphaOf, css, DIMMED, inkOn, mix, unpack } from "./color";
import { type Box, cellsInView, LIMITS, type Plot } from "./geometry";
import { State } from "./model";
import { formatCell } from "./numbers";
import { patternOf } from "./patterns";
import { type Coloring, createPicture } from "./picture";
import { baseLayer, type Layer, type Scene, topLayer } from "./scene";
import { isLeak } from "./tile";

export const WARNING = { light: "#c2187a", dark: "#ff7ac6" };

type Pen = CanvasRenderingContext2D;

export interface Painter {
	cells(scene: Scene): void;
	/** px of the font, 0: clear them away */
	values(scene: Scene, font: number, family: string): void;
}

/** Without a canvas for values, as in the small map, there are just colours. */
export function createPainter(cells: HTMLCanvasElement, values: HTMLCanvasElement | null): Painter {
	const coarse = createPicture();
	const fine = createPicture();
	const pictureOf = (scene: Scene, layer: Layer) =>
		layer.tile === baseLayer(scene).tile ? coarse : fine;
	const coloring = (scene: Scene, { tile, plot }: Layer): Coloring => {
		const { colors, palette, theme } = scene;
		return {
			tile,
			colors,
			palette,
			dark: theme.dark,
			patterned: hasPatterns(plot),
		};
	};

	return {
		cells(scene) {
			const pen = cleared(cells, scene.layout.plot);
			if (!pen) return;
			const alone = scene.layers.length === 1;
			for (const layer of scene.layers) {
				pen.save();
				if (!alone) clipTo(pen, layer);
				const picture = pictureOf(scene, layer);
				const look = coloring(scene, layer);
				if (isRound(layer.plot)) paintRound(pen, layer, picture.pixels(look));
				else {
					picture.draw(pen, look, layer.plot, alone);
					cutGaps(pen, layer);
				}
				if (look.patterned) paintPatterns(pen, layer, scene.theme.dark);
				if (layer.survey.leaks > 0) outlineLeaks(pen, layer, scene.theme.dark);
				pen.restore();
			}
		},
		values(scene, font, family) {
			const pen = values && cleared(values, scene.layout.plot);
			if (!pen || font === 0) return;
			const layer = topLayer(scene);
			const { ratio } = layer.plot;
			const pixels = pictureOf(scene, layer).pixels(coloring(scene, layer));
			pen.font = `${font * ratio}px ${family}`;
			pen.textAlign = "center";
			pen.textBaseline = "middle";
			eachCell(layer, (i, x, y, width, height) => {
				const pixel = pixels[i] as number;
				if (alphaOf(pixel) === 0) return;
				const color = unpack(pixel);
				const seen = alphaOf(pixel) === 255 ? color : mix(color, scene.theme.page, DIMMED);
				pen.fillStyle = css(inkOn(seen));
				const text = formatCell(layer.tile.weights[i] as number);
				pen.fillText(text, x + width / 2, y + height / 2 + ratio * 0.5);
			});
		},
	};
}

/** Nothing of a layer is drawn outside its tile, and nothing of the coarser one shows inside. */
function clipTo(pen: Pen, { tile, plot }: Layer): void {
	const x = edge(0, plot.column0, plot.columns, plot.pixelWidth);
	const y = edge(0, plot.row0, plot.rows, plot.pixelHeight);
	const right = edge(tile.shape[1], plot.column0, plot.columns, plot.pixelWidth);
	const bottom = edge(tile.shape[0], plot.row0, plot.rows, plot.pixelHeight);
	pen.beginPath();
	pen.rect(x, y, right - x, bottom - y);
	pen.clip();
	pen.clearRect(x, y, right - x, bottom - y);
}

/** The device pixel where a cell starts: the one that enlarging without smoothing gives it. */
function edge(cell: number, origin: number, count: number, pixels: number): number {
	return Math.round(((cell - origin) / count) * pixels);
}

export function hasPatterns(plot: Plot): boolean {
	return cellsFrom(plot, LIMITS.patternFrom);
}

function isRound(plot: Plot): boolean {
	return cellsFrom(plot, LIMITS.roundFrom);
}

/** True cells, with gaps, of at least so many px. */
function cellsFrom(plot: Plot, size: number): boolean {
	const cell = Math.min(plot.width / plot.columns, plot.height / plot.rows);
	return plot.gapX > 0 && plot.gapY > 0 && cell >= size;
}

/** px of the largest font in which every value in view fits its cell, 0 where none does. */
export function valueFont(layer: Layer, font: number, em: (text: string) => number): number {
	const { tile, plot } = layer;
	const width = (plot.pixelWidth / plot.columns - plot.gapX) / plot.ratio - 4;
	const height = (plot.pixelHeight / plot.rows - plot.gapY) / plot.ratio - 4;
	const smallest = 8;
	if (Math.min(width, height) < smallest) return 0;
	let widest = 0;
	eachCell(layer, (i) => {
		const weight = tile.weights[i] as number;
		if (Number.isNaN(weight)) return;
		// Digits are equally wide, so there are only a few texts to measure.
		widest = Math.max(widest, em(formatCell(weight).replace(/\d/g, "0")));
	});
	const fits = Math.min(font * 0.85, height, widest > 0 ? width / widest : height);
	return fits >= smallest ? Math.floor(fits * 2) / 2 : 0;
}

/** Of the plot's size in device pixels, and empty. Setting the same size would cost new memory. */
function cleared(canvas: HTMLCanvasElement, box: Box): Pen | null {
	const pen = canvas.getContext("2d");
	if (canvas.width !== box.pixelWidth || canvas.height !== box.pixelHeight) {
		canvas.width = box.pixelWidth;
		canvas.height = box.pixelHeight;
	} else pen?.clearRect(0, 0, canvas.width, canvas.height);
	return pen;
}

/** The cells in view, in device pixels, without their gaps. */
function eachCell(
	{ tile, plot }: Layer,
	visit: (i: number, x: number, y: number, width: number, height: number) => void,
): void {
	const [r0, r1, c0, c1] = cellsInView(plot, tile.shape);
	const left = (column: number) => edge(column, plot.column0, plot.columns, plot.pixelWidth);
	const top = (row: number) => edge(row, plot.row0, plot.rows, plot.pixelHeight);
	for (let row = r0; row < r1; row++) {
		const y = top(row);
		const height = top(row + 1) - y - plot.gapY;
		for (let column = c0; column < c1; column++) {
			const x = left(column);
			const width = left(column + 1) - x - plot.gapX;
			visit(row * tile.shape[1] + column, x, y, width, height);
		}
	}
}

function paintRound(pen: Pen, layer: Layer, pixels: Int32Array): void {
	const radius = 2 * layer.plot.ratio;
	eachCell(layer, (i, x, y, width, height) => {
		const pixel = pixels[i] as number;
		if (alphaOf(pixel) === 0) return;
		pen.globalAlpha = alphaOf(pixel) / 255;
		pen.fillStyle = css(unpack(pixel));
		pen.beginPath();
		pen.roundRect(x, y, width, height, radius);
		pen.fill();
	});
	pen.globalAlpha = 1;
}

function cutGaps(pen: Pen, { tile, plot }: Layer): void {
	const [r0, r1, c0, c1] = cellsInView(plot, tile.shape);
	const { gapX, gapY, pixelWidth, pixelHeight } = plot;
	for (let column = c0 + 1; gapX > 0 && column <= c1; column++) {
		const end = edge(column, plot.column0, plot.columns, pixelWidth);
		pen.clearRect(end - gapX, 0, gapX, pixelHeight);
	}
	for (let row = r0 + 1; gapY > 0 && row <= r1; row++) {
		const end = edge(row, plot.row0, plot.rows, pixelHeight);
		pen.clearRect(0, end - gapY, pixelWidth, gapY);
	}
}

function paintPatterns(pen: Pen, layer: Layer, dark: boolean): void {
	const { tile, plot, survey } = layer;
	const { states, weights } = tile;
	const radius = isRound(plot) ? 2 * plot.ratio : 0;
	if (states === null || !survey.states.some((n, state) => n > 0 && state > State.zero)) return;
	const paths = new Map<number, Path2D>();
	eachCell(layer, (i, x, y, width, height) => {
		const state = states[i] as number;
		if (state <= State.zero || isLeak(state, weights[i] as number)) return;
		const path = paths.get(state) ?? new Path2D();
		paths.set(state, path);
		const inset = state === State.empty ? plot.ratio / 2 : 0;
		path.roundRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset, radius);
	});
	for (const [state, path] of paths) strokeOrFill(pen, path, state, dark, plot.ratio);
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
function outlineLeaks(pen: Pen, layer: Layer, dark: boolean): void {
	const { tile, plot } = layer;
	if (plot.gapX === 0 || plot.gapY === 0) return;
	const line = (hasPatterns(plot) ? 1.5 : 1) * plot.ratio;
	const radius = isRound(plot) ? 2 * plot.ratio : 0;
	pen.strokeStyle = WARNING[dark ? "dark" : "light"];
	pen.lineWidth = line;
	pen.beginPath();
	eachCell(layer, (i, x, y, width, height) => {
		if (!isLeak(tile.states?.[i] ?? State.weight, tile.weights[i] as number)) return;
		pen.roundRect(x + line / 2, y + line / 2, width - line, height - line, radius);
	});
	pen.stroke();
}
