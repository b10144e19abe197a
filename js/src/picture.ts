/**
 * One pixel per cell of a tile, or one device pixel for several cells. What was coloured once is
 * kept: zooming and panning only copy it, and a frame needs no new memory of its size.
 */

import { colorize, type Palette } from "./color";
import type { Plot } from "./geometry";
import type { Tile, WireColors } from "./model";
import { flatsOf } from "./patterns";
import { eachBand, type Seen, type Spans, seenOf, spansOf } from "./pool";
import { rowMaxima } from "./tile";

/** All that a colour depends on. */
export interface Coloring {
	tile: Tile;
	colors: WireColors;
	palette: Palette;
	dark: boolean;
	/** states show as patterns, so they have no flat colour */
	patterned: boolean;
}

export interface Picture {
	/** the cells of a plot, without gaps, over what is there already */
	draw(pen: CanvasRenderingContext2D, coloring: Coloring, plot: Plot, alone: boolean): void;
	/** the pixel of each cell of the tile */
	pixels(coloring: Coloring): Int32Array;
}

export function createPicture(): Picture {
	const whole = createSheet();
	const pooled = createSheet();
	let done: Coloring | null = null;
	let shown: { coloring: Coloring; view: string } | null = null;
	/** made from the tile once, where they are needed at all */
	let derived: { tile: Tile; seen: Seen | null; maxima: Float32Array | null } | null = null;
	let memory: Seen | null = null;

	const of = (tile: Tile) => {
		if (derived?.tile !== tile) derived = { tile, seen: null, maxima: null };
		return derived;
	};
	const flats = ({ patterned, dark }: Coloring) => (patterned ? [] : flatsOf(dark));
	const maximaOf = ({ tile, colors }: Coloring) => {
		if (colors.scale !== "row") return null;
		const known = of(tile);
		known.maxima ??= rowMaxima(tile);
		return known.maxima;
	};

	/** The whole tile, coloured. */
	const all = (coloring: Coloring) => {
		const { tile, colors, palette } = coloring;
		if (done !== null && same(done, coloring)) return;
		done = coloring;
		whole.resize(tile.shape[1], tile.shape[0]);
		colorize(tile, colors, palette, flats(coloring), whole.pixels, maximaOf(coloring));
		whole.stale();
		whole.put();
	};

	/** The part in view, several cells to a pixel. */
	const part = (coloring: Coloring, rows: Spans, columns: Spans, view: string) => {
		if (shown !== null && shown.view === view && same(shown.coloring, coloring)) return;
		shown = { coloring, view };
		const { tile, colors, palette } = coloring;
		const width = columns.edges.length - 1;
		pooled.resize(width, rows.edges.length - 1);
		const known = of(tile);
		if (known.seen === null) {
			known.seen = seenOf(tile, memory);
			memory = tile.states && known.seen;
		}
		const maxima = maximaOf(coloring);
		const grey = flats(coloring);
		eachBand(tile, known.seen, rows.edges, columns.edges, (band, row) => {
			const into = pooled.pixels.subarray(row * width, (row + band.shape[0]) * width);
			const tops = maxima && pooledMaxima(maxima, rows.edges, row, band.shape[0]);
			colorize(band, colors, palette, grey, into, tops);
		});
		pooled.stale();
	};

	return {
		draw(pen, coloring, plot, alone) {
			const { shape } = coloring.tile;
			const { pixelWidth, pixelHeight } = plot;
			const rows = spansOf(plot.row0, plot.rows, pixelHeight, shape[0]);
			const columns = spansOf(plot.column0, plot.columns, pixelWidth, shape[1]);
			pen.imageSmoothingEnabled = false;
			if (!rows.pooled && !columns.pooled) {
				all(coloring);
				const { row0, column0 } = plot;
				blit(pen, whole.canvas, [column0, row0, plot.columns, plot.rows], plot);
				return;
			}
			const { row0, column0 } = plot;
			const view = [row0, plot.rows, pixelHeight, column0, plot.columns, pixelWidth].join();
			part(coloring, rows, columns, view);
			if (rows.pooled && columns.pooled && alone) {
				pen.putImageData(pooled.image(), 0, 0);
				return;
			}
			pooled.put();
			blit(pen, pooled.canvas, [columns.from, rows.from, columns.length, rows.length], plot);
		},
		pixels(coloring) {
			all(coloring);
			return whole.pixels;
		},
	};
}

function same(a: Coloring, b: Coloring): boolean {
	return (
		a.tile === b.tile && a.colors === b.colors && a.dark === b.dark && a.patterned === b.patterned
	);
}

/** The source's part over all of the plot; what lies outside the source leaves its place free. */
function blit(
	pen: CanvasRenderingContext2D,
	source: HTMLCanvasElement,
	[x, y, width, height]: [number, number, number, number],
	plot: Plot,
): void {
	pen.drawImage(source, x, y, width, height, 0, 0, plot.pixelWidth, plot.pixelHeight);
}

function pooledMaxima(maxima: Float32Array, edges: Uint32Array, row: number, count: number) {
	return Float32Array.from({ length: count }, (_, n) => {
		let most = 0;
		const end = edges[row + n + 1] as number;
		for (let i = edges[row + n] as number; i < end; i++) most = Math.max(most, maxima[i] as number);
		return most;
	});
}

/** Pixels and a canvas that holds them; both are used again as long as their size allows. */
function createSheet() {
	const canvas = document.createElement("canvas");
	let image: ImageData | null = null;
	let on = false;
	const sheet = {
		canvas,
		pixels: new Int32Array(0),
		image: () => image as ImageData,
		resize(width: number, height: number) {
			if (image?.width === width && image.height === height) return;
			image = new ImageData(Math.max(1, width), Math.max(1, height));
			sheet.pixels = new Int32Array(image.data.buffer);
		},
		stale() {
			on = false;
		},
		/** Onto the canvas, unless it is there. */
		put() {
			if (on || image === null) return;
			on = true;
			if (canvas.width !== image.width) canvas.width = image.width;
			if (canvas.height !== image.height) canvas.height = image.height;
			canvas.getContext("2d")?.putImageData(image, 0, 0);
		},
	};
	return sheet;
}
