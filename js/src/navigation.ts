/** Everything one can do to a map with a pointer, a key or a button, led to camera and cells. */

import type { Camera } from "./camera";
import type { Cells } from "./cells";
import { listenToGestures } from "./gestures";
import { listenToKeys } from "./keyboard";
import { labelsOf } from "./labels";
import { listen } from "./listen";
import type { Cell, Model } from "./model";
import { listenToPointer, type Point } from "./pointer";
import { layerOf, pick, type Scene } from "./scene";
import { createSearch } from "./search";
import { createToolbar } from "./toolbar";
import type { View } from "./view";
import { contains, type Place, panBy } from "./zoom";

/** Larger maps show their buttons from the start. */
const LARGE = 40;

interface Given {
	view: View;
	model: Model;
	camera: Camera;
	cells: Cells;
	scene(): Scene | null;
	schedule(): void;
}

export interface Navigation {
	/** the current cell is where the pointer is, not where a key led */
	byPointer(): boolean;
	/** a gesture is under way, and no tooltip in its way */
	busy(): boolean;
	/** once per frame, at most */
	followPointer(scene: Scene): void;
	/** after a change of the view */
	draw(scene: Scene): void;
	/** the tokens are others */
	forget(): void;
}

export function createNavigation(given: Given, signal: AbortSignal): Navigation {
	const { view, model, camera, cells, scene, schedule } = given;
	const { grid } = view;
	let byPointer = false;
	let moved = false;
	/** what was pinned before the first click of a double click */
	let before: Cell | null = null;

	const byKey = (run: () => void) => {
		byPointer = false;
		run();
	};
	const cellUnder = (now: Scene, at: Point): Cell => {
		const box = grid.getBoundingClientRect();
		const { plot } = now.layout;
		const x = ((at.x - box.left) / box.width) * plot.width;
		return pick(now, x, ((at.y - box.top) / box.height) * plot.height);
	};
	/** Zooming by key or button is about the current cell where one is in view. */
	const zoom = (factor: number) => {
		const [q0, q1, k0, k1] = camera.goal();
		const cell = model.get("hover") ?? model.get("selection");
		const [query, key] = cell ?? [-1, -1];
		const place: Place = contains(camera.goal(), [query, key])
			? [(query + 0.5 - q0) / (q1 - q0), (key + 0.5 - k0) / (k1 - k0)]
			: [0.5, 0.5];
		camera.zoom(place, factor);
	};
	const reset = () => camera.go(null);

	const gestures = listenToGestures(view, camera, signal);
	const search = createSearch(
		view.toolbar,
		{
			labels: () => labelsOf(model.get("queries") ?? model.get("tokens")),
			row: () => cells.current()[0],
			jump: (row) => byKey(() => cells.toRow(row)),
			home: grid,
		},
		signal,
	);
	const toolbar = createToolbar(view.toolbar, { zoom, reset, search: search.open }, signal);

	const pointer = listenToPointer(
		grid,
		{
			moved() {
				moved = true;
				schedule();
			},
			pressed(at, clicks) {
				const now = scene();
				if (now === null) return;
				// The second click of a double click is part of a reset, not a click of its own.
				if (clicks > 1 && camera.zoomed()) return;
				before = model.get("selection");
				cells.togglePin(cellUnder(now, at));
			},
			doubled() {
				if (!camera.zoomed()) return;
				cells.pin(before);
				reset();
			},
		},
		signal,
	);

	listenToKeys(
		grid,
		{
			size: camera.size,
			step() {
				const now = scene();
				return now ? layerOf(now, cells.current()).tile.bin : [1, 1];
			},
			current: cells.current,
			moveTo: (cell) => byKey(() => cells.moveTo(cell)),
			pin: (cell) => byKey(() => cells.togglePin(cell)),
			clear() {
				byPointer = false;
				return cells.clear();
			},
			zoom,
			pan([down, across]) {
				const [q0, q1, k0, k1] = camera.goal();
				const step = (share: number, length: number) =>
					Math.sign(share) * Math.max(1, Math.round(Math.abs(share) * length));
				const by = [step(down, q1 - q0), step(across, k1 - k0)] as const;
				camera.go(panBy(camera.goal(), by, camera.size()));
			},
			reset,
			search: search.open,
		},
		signal,
	);
	const focus = () => {
		if (!grid.matches(":focus-visible") || model.get("hover") !== null) return;
		byKey(() => cells.moveTo(cells.current()));
	};
	const blur = () => {
		if (pointer() === null) cells.point(null);
	};
	listen(grid, signal, { focus, blur });
	const show = () => {
		byKey(() => cells.show(model.get("selection")));
		grid.focus();
	};
	listen(view.show, signal, { click: show });

	return {
		byPointer: () => byPointer,
		busy: gestures.busy,
		followPointer(now) {
			if (!moved || gestures.busy() || camera.moving()) return;
			moved = false;
			const at = pointer();
			byPointer = at !== null;
			cells.point(at && cellUnder(now, at));
		},
		draw() {
			const zoomed = camera.zoomed();
			const large = Math.max(...camera.size()) > LARGE;
			view.root.dataset.large = String(large);
			toolbar.show(large || zoomed, zoomed);
			// What is under a resting pointer has changed.
			if (byPointer && pointer() !== null) moved = true;
		},
		forget: search.forget,
	};
}
