/** All that is known when something is drawn; rebuilt only where a trait has changed. */

import { type Palette, positionOf, type Rgb, unpack } from "./color";
import { cellsUnder } from "./geometry";
import type { Layout } from "./layout";
import type { Labels, Tile, WireColors } from "./model";
import type { Theme } from "./theme";
import { counts, largest, largestOfRow, type Spot, type Survey, weightAt } from "./tile";

export interface Scene {
	tile: Tile;
	survey: Survey;
	queries: Labels;
	keys: Labels;
	colors: WireColors;
	palette: Palette;
	theme: Theme;
	layout: Layout;
}

/** The spot drawn under a point of the plot; of several that share a pixel, the one that shows. */
export function pick({ tile, layout: { plot } }: Scene, x: number, y: number): Spot {
	const rows = cellsUnder(y, plot.height, plot.pixelHeight, plot.rows);
	const columns = cellsUnder(x, plot.width, plot.pixelWidth, plot.columns);
	if (rows[1] - rows[0] === 1 && columns[1] - columns[0] === 1) return [rows[0], columns[0]];
	return largest(tile, rows, columns) ?? [rows[0], columns[0]];
}

/** Where the weight of a spot is on the ramp, 0 to 1; null where it has no place there. */
export function rampPosition({ tile, colors }: Scene, spot: Spot): number | null {
	const weight = weightAt(tile, spot);
	if (Number.isNaN(weight) || !counts(tile, spot)) return null;
	const top = colors.scale === "row" ? largestOfRow(tile, spot[0]) : null;
	return positionOf(colors, weight, top ? Math.abs(weightAt(tile, top)) : 0);
}

export function colorAt(scene: Scene, spot: Spot): Rgb | null {
	const position = rampPosition(scene, spot);
	return position === null ? null : unpack(scene.palette[Math.round(position * 255)] ?? 0);
}
