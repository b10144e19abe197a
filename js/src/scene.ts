/** All that is known when something is drawn; rebuilt only where a trait or the view has changed. */

import { type Palette, positionOf, type Rgb, unpack } from "./color";
import { cellsUnder, type Plot } from "./geometry";
import type { Layout } from "./layout";
import type { Cell, Generated, Labels, Tile, Window, WireColors } from "./model";
import type { Theme } from "./theme";
import { cellAt, counts, largest, locate, type Spot, type Survey, weightAt } from "./tile";
import type { Titles } from "./words";

/** A tile as it lies in the view. */
export interface Layer {
	tile: Tile;
	plot: Plot;
	survey: Survey;
}

export interface Scene {
	/** in view, fractions of tokens while that moves */
	view: Window;
	/** those drawn, one over the other: the coarse before the fine */
	layers: readonly Layer[];
	/** those that know a cell, in view or not: the finest first, the last knows all of them */
	known: readonly Layer[];
	queries: Labels;
	keys: Labels;
	titles: Titles;
	generated: Generated;
	colors: WireColors;
	palette: Palette;
	theme: Theme;
	layout: Layout;
}

/** The finest that there is in view. */
export function topLayer(scene: Scene): Layer {
	return scene.layers.at(-1) as Layer;
}

/** The whole grid, however coarse. */
export function baseLayer(scene: Scene): Layer {
	return scene.known.at(-1) as Layer;
}

/** Where a cell is best known. */
export function layerOf(scene: Scene, cell: Cell | null): Layer {
	return scene.known.find(({ tile }) => locate(tile, cell) !== null) ?? baseLayer(scene);
}

/** The cell drawn under a point of the plot; of several that share a pixel, the one that shows. */
export function pick(scene: Scene, x: number, y: number): Cell {
	const { plot } = scene.layout;
	const [q0, q1, k0, k1] = scene.view;
	const query = Math.floor(q0 + (y / plot.height) * (q1 - q0));
	const key = Math.floor(k0 + (x / plot.width) * (k1 - k0));
	const under = [...scene.layers].reverse().find(({ tile }) => locate(tile, [query, key]));
	const layer = under ?? (scene.layers[0] as Layer);
	return cellAt(layer.tile, spotUnder(layer, x, y));
}

function spotUnder({ tile, plot }: Layer, x: number, y: number): Spot {
	const [height, width] = tile.shape;
	const rows = cellsUnder(y, plot.height, plot.pixelHeight, plot.rows, plot.row0, height);
	const columns = cellsUnder(x, plot.width, plot.pixelWidth, plot.columns, plot.column0, width);
	if (rows[1] - rows[0] === 1 && columns[1] - columns[0] === 1) return [rows[0], columns[0]];
	return largest(tile, rows, columns) ?? [rows[0], columns[0]];
}

/** Where the weight of a spot is on the ramp, 0 to 1; null where it has no place there. */
export function rampPosition(tile: Tile, colors: WireColors, spot: Spot): number | null {
	const weight = weightAt(tile, spot);
	if (Number.isNaN(weight) || !counts(tile, spot)) return null;
	const top =
		colors.scale === "row" ? largest(tile, [spot[0], spot[0] + 1], [0, tile.shape[1]]) : null;
	return positionOf(colors, weight, top ? Math.abs(weightAt(tile, top)) : 0);
}

/** What the map shows for a cell of a grid that came whole. */
export function colorAt(scene: Scene, spot: Spot): Rgb | null {
	const position = rampPosition(baseLayer(scene).tile, scene.colors, spot);
	return position === null ? null : unpack(scene.palette[Math.round(position * 255)] ?? 0);
}
