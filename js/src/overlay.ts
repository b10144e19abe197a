/** Emphasis over the cells: outlines, crosshair, bold labels, read-outs. Never their colours. */

import type { Axes } from "./axes";
import { atLeast, cellRect, placeTip, type Rect } from "./geometry";
import { type Cell, sameCell } from "./model";
import { type Reading, readCell, spoken, writeReading, writeTip } from "./readout";
import { rampPosition, type Scene } from "./scene";
import { largestOfRow, locate, type Spot } from "./tile";
import { place, type View } from "./view";

/** An outline must be seen around a cell of any size. */
const SEEN = 6;

export function drawOverlay(
	view: View,
	axes: Axes,
	scene: Scene,
	hover: Cell | null,
	selection: Cell | null,
): Reading | null {
	const { tile, layout, queries, keys } = scene;
	const { plot } = layout;
	const rectOf = (spot: Spot | null) => spot && cellRect(plot, spot[0], spot[1]);
	const pin = locate(tile, selection);
	const current = hover ?? selection;
	const spot = locate(tile, current);
	const rect = rectOf(spot);

	const top = spot && largestOfRow(tile, spot[0]);
	const topRect = rectOf(top);
	place(view.rowHair, rect && { x: 0, y: rect.y, width: plot.width, height: rect.height });
	place(view.columnHair, rect && { x: rect.x, y: 0, width: rect.width, height: plot.height });
	place(view.largest, topRect && !sameCell(top, spot) ? atLeast(topRect, SEEN) : null);
	const pinRect = rectOf(pin);
	place(view.pin, pinRect && atLeast(pinRect, SEEN));

	// The ARIA cell stays in the tree, or a screen reader loses its place.
	const reading = readCell(tile, queries, keys, current);
	const box = atLeast(rect ?? cellRect(plot, 0, 0), SEEN);
	place(view.cell, box);
	view.cell.classList.toggle("attnmap-idle", rect === null);
	describe(view, reading, pin !== null && sameCell(pin, spot));

	const shown = [hover, selection].filter((cell) => cell !== null && locate(tile, cell) !== null);
	axes.emphasize(shown as Cell[]);
	const position = spot && rampPosition(scene, spot);
	view.legend.style.setProperty("--attnmap-at", position === null ? "" : String(position));
	view.legend.classList.toggle("attnmap-marked", position !== null);
	return reading;
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
	view.readout.setAttribute("aria-live", announce ? "polite" : "off");
	writeReading(view.readout, reading);
}

export function drawTip(view: View, scene: Scene, reading: Reading | null): void {
	const spot = reading && locate(scene.tile, reading.cell);
	view.tooltip.hidden = spot === null;
	if (reading === null || spot === null) return;
	writeTip(view.tooltip, reading);
	const root = view.root.getBoundingClientRect();
	const grid = view.grid.getBoundingClientRect();
	const { plot } = scene.layout;
	const scale = root.width / view.root.offsetWidth || 1;
	const cell = atLeast(cellRect(plot, spot[0], spot[1]), SEEN);
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
