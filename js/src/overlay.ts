/** Emphasis over the cells: outlines, crosshair, bold labels, read-outs. Never their colours. */

import type { Axes } from "./axes";
import { atLeast, cellRect, clip, placeTip, type Rect } from "./geometry";
import { type Cell, sameCell } from "./model";
import {
	HINT,
	LARGE_HINT,
	type Reading,
	readCell,
	spoken,
	writeReading,
	writeTip,
} from "./readout";
import { layerOf, rampPosition, type Scene } from "./scene";
import { largestOfRow, locate } from "./tile";
import { place, type View } from "./view";

/** An outline must be seen around a cell of any size. */
const SEEN = 6;

/** What is said about the current cell: the hovered one, else the pinned one. */
export function drawOverlay(
	view: View,
	axes: Axes,
	scene: Scene,
	hover: Cell | null,
	selection: Cell | null,
): Reading | null {
	const box = scene.layout.plot;
	const current = hover ?? selection;
	const { tile, plot } = layerOf(scene, current);
	const spot = locate(tile, current);
	const rect = rectIn(scene, current);
	const pinned = rectIn(scene, selection);

	const top = spot && largestOfRow(tile, spot[0]);
	const topRect = top && !sameCell(top, spot) ? clip(cellRect(plot, top[0], top[1]), box) : null;
	place(view.rowHair, rect && { x: 0, y: rect.y, width: box.width, height: rect.height });
	place(view.columnHair, rect && { x: rect.x, y: 0, width: rect.width, height: box.height });
	place(view.largest, rect && topRect && atLeast(topRect, SEEN));
	place(view.pin, pinned && atLeast(pinned, SEEN));

	// The ARIA cell stays in the tree, or a screen reader loses its place.
	const reading = readCell(tile, scene.queries, scene.keys, scene.titles, current);
	place(view.cell, atLeast(rect ?? { x: 0, y: 0, width: SEEN, height: SEEN }, SEEN));
	view.cell.classList.toggle("attnmap-idle", rect === null);
	describe(view, reading, spot !== null && sameCell(locate(tile, selection), spot));
	if (reading !== null && rect === null) {
		reading.away = hover === null;
		reading.notes.push(reading.away ? "pinned cell out of view" : "out of view");
	}

	const shown = [hover, selection].filter((cell) => rectIn(scene, cell) !== null);
	axes.emphasize(shown as Cell[]);
	const position = spot && rampPosition(tile, scene.colors, spot);
	view.legend.style.setProperty("--attnmap-at", position === null ? "" : String(position));
	view.legend.classList.toggle("attnmap-marked", position !== null);
	return reading;
}

/** Where a cell is in the plot, as far as it is in view. */
function rectIn(scene: Scene, cell: Cell | null): Rect | null {
	const { tile, plot } = layerOf(scene, cell);
	const spot = locate(tile, cell);
	return clip(spot && cellRect(plot, spot[0], spot[1]), scene.layout.plot);
}

function describe(view: View, reading: Reading | null, pinned: boolean): void {
	const { grid, row, cell } = view;
	if (reading === null) {
		grid.removeAttribute("aria-activedescendant");
		cell.removeAttribute("aria-label");
		return;
	}
	row.setAttribute("aria-rowindex", String(reading.cell[0] + 1));
	cell.setAttribute("aria-colindex", String(reading.cell[1] + 1));
	cell.setAttribute("aria-selected", String(pinned));
	cell.setAttribute("aria-label", spoken(reading));
	grid.setAttribute("aria-activedescendant", cell.id);
}

/** The line under the map. Only what was not read by pointing is announced. */
export function drawReadout(view: View, reading: Reading | null, announce: boolean): void {
	const large = view.root.dataset.large === "true";
	view.readout.setAttribute("aria-live", announce ? "polite" : "off");
	writeReading(view.readout, reading, view.show, large ? LARGE_HINT : HINT);
}

export function drawTip(view: View, scene: Scene, reading: Reading | null): void {
	const rect = reading && rectIn(scene, reading.cell);
	view.tooltip.hidden = rect === null;
	if (reading === null || rect === null) return;
	writeTip(view.tooltip, reading);
	const root = view.root.getBoundingClientRect();
	const grid = view.grid.getBoundingClientRect();
	const scale = root.width / view.root.offsetWidth || 1;
	const cell = atLeast(rect, SEEN);
	const x = (grid.left - root.left) / scale + cell.x;
	const y = (grid.top - root.top) / scale + cell.y;
	const tip = { width: view.tooltip.offsetWidth, height: view.tooltip.offsetHeight };
	const at = placeTip({ ...cell, x, y }, tip, visibleArea(root, scale));
	view.tooltip.style.translate = `${at.x}px ${at.y}px`;
}

/** The part of the root that is on screen, seen from its own corner. */
function visibleArea(root: DOMRect, scale: number): Rect {
	const left = Math.max(0, -root.left);
	const top = Math.max(0, -root.top);
	const right = Math.min(root.width, innerWidth - root.left);
	const bottom = Math.min(root.height, innerHeight - root.top);
	return {
		x: left / scale,
		y: top / scale,
		width: (right - left) / scale,
		height: (bottom - top) / scale,
	};
}
