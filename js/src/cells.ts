/** The hovered, the pinned and the current cell: all that is said to Python about cells. */

import type { Camera } from "./camera";
import { clamp } from "./geometry";
import { type Cell, type Model, sameCell } from "./model";
import { baseLayer, layerOf, type Scene } from "./scene";
import { cellAt, isPooled, largestOfRow, locate } from "./tile";
import { contains, reveal, wholeOf } from "./zoom";

export interface Cells {
	/** the last cell that was current, where the keyboard goes on from */
	current(): Cell;
	/** the pointer is over this cell, or has left */
	point(cell: Cell | null): void;
	/** by keyboard: the largest of what is drawn there, brought into view */
	moveTo(cell: Cell): void;
	/** to a row: its largest key where that is known, else the column where one is */
	toRow(query: number): void;
	/** brings a cell into view */
	show(cell: Cell | null): void;
	togglePin(cell: Cell): void;
	pin(cell: Cell | null): void;
	/** false: there was nothing to clear */
	clear(): boolean;
}

export function createCells(
	model: Model,
	camera: Camera,
	scene: () => Scene | null,
	schedule: () => void,
): Cells {
	let last: Cell = [0, 0];

	/** Sends a cell only when it is another one; hosts also fire for what has not changed. */
	const set = (name: "hover" | "selection", cell: Cell | null) => {
		if (sameCell(model.get(name), cell)) return;
		model.set(name, cell);
		model.save_changes();
		schedule();
	};
	const cells: Cells = {
		current() {
			const given = model.get("hover") ?? model.get("selection");
			if (given && contains(wholeOf(camera.size()), given)) last = given;
			// From out of view the keyboard goes on at the nearest cell in view.
			const [q0, q1, k0, k1] = camera.goal();
			return [clamp(last[0], q0, q1 - 1), clamp(last[1], k0, k1 - 1)];
		},
		point: (cell) => set("hover", cell),
		moveTo(cell) {
			const now = scene();
			if (now === null) return;
			const { tile } = layerOf(now, cell);
			const spot = locate(tile, cell);
			// A drawn cell of several tokens is its largest.
			const to = spot ? cellAt(tile, spot) : cell;
			set("hover", to);
			if (!contains(camera.goal(), to)) camera.go(reveal(camera.goal(), to, camera.size()), false);
		},
		toRow(query) {
			const now = scene();
			if (now === null) return;
			const { tile } = baseLayer(now);
			const top = isPooled(tile) ? null : largestOfRow(tile, query);
			const cell: Cell = top ? cellAt(tile, top) : [query, cells.current()[1]];
			set("hover", cell);
			cells.show(cell);
		},
		show(cell) {
			if (cell === null || contains(camera.goal(), cell)) return;
			camera.go(reveal(camera.goal(), cell, camera.size(), 0.25));
		},
		togglePin(cell) {
			const now = scene();
			const pinned = model.get("selection");
			if (now === null) return;
			const { tile } = layerOf(now, cell);
			const same = pinned !== null && sameCell(locate(tile, pinned), locate(tile, cell));
			set("selection", same ? null : cell);
		},
		pin: (cell) => set("selection", cell),
		clear() {
			const nothing = model.get("hover") === null && model.get("selection") === null;
			set("hover", null);
			set("selection", null);
			return !nothing;
		},
	};
	return cells;
}
