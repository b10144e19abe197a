/**
 * One attention map: traits -> scene -> draw, in one direction. Knows no host: `model` is any
 * object with the traits of `State`. Everything it starts ends with `signal`.
 */

import { createAxes, createMeasure } from "./axes";
import { createPainter, valueFont } from "./canvas";
import { drawChecks } from "./checks";
import { paletteOf } from "./color";
import { describeGrid, placeFigure } from "./figure";
import { LIMITS } from "./geometry";
import { listenToKeys } from "./keyboard";
import { layoutMap, type Measure } from "./layout";
import { drawLegend } from "./legend";
import { type Cell, decodeTile, type Model, type State, sameCell, type Tile } from "./model";
import { drawOverlay, drawReadout, drawTip } from "./overlay";
import { listenToPointer, type Point } from "./pointer";
import { colorAt, pick, type Scene } from "./scene";
import { createStrip, STRIP_LIMIT } from "./strip";
import { detectTheme, type Theme, watchTheme } from "./theme";
import { cellAt, crop, isPooled, locate, type Spot, type Survey, survey } from "./tile";
import { buildView, line } from "./view";

const TOO_SMALL = ["cells are too small to write values in"];

export function createMap(host: HTMLElement, model: Model, signal: AbortSignal): void {
	if (signal.aborted) return;
	const view = buildView();
	const { root, grid } = view;
	host.append(root);

	const painter = createPainter(view.cells, view.values);
	const strip = createStrip(view.strip, signal);
	let family = "";
	let measure: Measure = () => 0;
	const axes = createAxes(view, (text) => measure(text));

	let whole: Tile | null = null;
	let tile: Tile | null = null;
	let found: Survey = { states: [], leaks: 0 };
	let theme: Theme = detectTheme(root);
	let scene: Scene | null = null;
	const stale = { whole: true, tile: true, layout: true, paint: true };
	let width = 0;
	let pending = 0;
	/** the last cell that was current, where the keyboard goes on from */
	let cursor: Spot = [0, 0];
	let byPointer = false;

	const schedule = () => {
		pending ||= requestAnimationFrame(frame);
	};
	const invalidate = (what: Partial<typeof stale>) => {
		Object.assign(stale, what);
		schedule();
	};

	const relayout = () => invalidate({ layout: true, paint: true });

	function frame(): void {
		pending = 0;
		if (width <= 0 || signal.aborted) return;
		refresh();
		if (scene === null) return;
		followPointer(scene);
		emphasize(scene);
	}

	/** Brings the scene up to date with the traits; draws only what depends on what has changed. */
	function refresh(): void {
		const wire = model.get("weights");
		const colors = model.get("_colors");
		if (!wire || !colors) return;
		if (stale.whole || whole === null) whole = decodeTile(wire);
		if (stale.tile || tile === null) {
			const next = visible(whole);
			stale.layout ||= tile === null || shapeOf(tile) !== shapeOf(next);
			tile = next;
			found = survey(next);
			stale.paint = true;
		}
		if (!stale.layout && !stale.paint) return;
		const keys = model.get("tokens");
		const queries = model.get("queries") ?? keys;
		const style = getComputedStyle(root);
		const font = Number.parseFloat(style.fontSize) || 13;
		if (family !== style.fontFamily) {
			family = style.fontFamily;
			measure = createMeasure(family);
		}
		let layout = scene?.layout;
		if (stale.layout || !layout) {
			theme = detectTheme(root);
			const labels = { rows: queries.labels, columns: keys.labels };
			layout = layoutMap(tile, width, font, devicePixelRatio || 1, labels, measure);
			placeFigure(view, layout, font);
			axes.draw(layout, queries, keys);
		}
		const palette = paletteOf(colors, theme.dark);
		scene = { tile, survey: found, queries, keys, colors, palette, theme, layout };
		paint(scene, font);
		Object.assign(stale, { whole: false, tile: false, layout: false, paint: false });
	}

	/** The window in view, from the detail as soon as that is of this window. */
	function visible(all: Tile): Tile {
		const view = model.get("viewport");
		const detail = model.get("_detail");
		const exact = detail && view && detail.window.join() === view.join();
		return exact ? decodeTile(detail) : crop(all, view);
	}

	function paint(current: Scene, font: number): void {
		applyTheme();
		const wanted = model.get("show_values") ?? current.tile.shape[1] <= LIMITS.valueColumns;
		const size = wanted ? valueFont(current.tile, current.layout.plot, font, measure) : 0;
		const refused = model.get("show_values") === true && size === 0;
		painter.cells(current);
		painter.values(current, size, family);
		describeGrid(view, current, model.get("title"));
		drawLegend(view.legend, current, refused ? TOO_SMALL : []);
		const [queries, keys] = current.tile.size;
		const readable = !isPooled(current.tile) && Math.max(queries, keys) <= STRIP_LIMIT;
		strip.draw({
			queries: current.queries,
			keys: current.keys,
			size: readable ? [queries, keys] : null,
			shade: (spot) => colorAt(current, spot),
		});
	}

	function applyTheme(): void {
		root.dataset.theme = theme.dark ? "dark" : "light";
		root.classList.toggle("attnmap-own-page", theme.own);
		root.style.setProperty("--attnmap-page", `rgb(${theme.page.join(" ")})`);
	}

	function emphasize(current: Scene): void {
		const hover = model.get("hover");
		const selection = model.get("selection");
		cursor = locate(current.tile, hover ?? selection) ?? cursor;
		const reading = drawOverlay(view, axes, current, hover, selection);
		drawReadout(view, reading, !byPointer);
		drawTip(view, current, byPointer && hover !== null ? reading : null);
		strip.follow(reading?.cell[0] ?? null);
	}

	function spotUnder(current: Scene, at: Point): Spot {
		const box = grid.getBoundingClientRect();
		const { plot } = current.layout;
		const x = ((at.x - box.left) / box.width) * plot.width;
		return pick(current, x, ((at.y - box.top) / box.height) * plot.height);
	}

	let moved = false;
	const pointer = listenToPointer(
		grid,
		{
			moved() {
				moved = true;
				schedule();
			},
			pressed(at) {
				if (scene) togglePin(cellAt(scene.tile, spotUnder(scene, at)));
			},
		},
		signal,
	);

	function followPointer(current: Scene): void {
		if (!moved) return;
		moved = false;
		const at = pointer();
		byPointer = at !== null;
		setCell("hover", at && cellAt(current.tile, spotUnder(current, at)));
	}

	/** Sends a cell only when it is another one; hosts also fire for what has not changed. */
	function setCell(name: "hover" | "selection", cell: Cell | null): void {
		if (sameCell(model.get(name), cell)) return;
		model.set(name, cell);
		model.save_changes();
		schedule();
	}

	function togglePin(cell: Cell): void {
		const pinned = scene && locate(scene.tile, model.get("selection"));
		const spot = scene && locate(scene.tile, cell);
		setCell("selection", pinned && sameCell(pinned, spot) ? null : cell);
	}

	function moveTo(spot: Spot): void {
		byPointer = false;
		if (tile) setCell("hover", cellAt(tile, spot));
	}

	const keys = {
		shape: () => tile?.shape ?? ([1, 1] as const),
		current: () => cursor,
		moveTo,
		pin(spot: Spot) {
			byPointer = false;
			if (tile) togglePin(cellAt(tile, spot));
		},
		clear() {
			const nothing = model.get("hover") === null && model.get("selection") === null;
			byPointer = false;
			setCell("hover", null);
			setCell("selection", null);
			return !nothing;
		},
	};
	listenToKeys(grid, keys, signal);
	const focus = () => {
		if (grid.matches(":focus-visible") && model.get("hover") === null) moveTo(cursor);
	};
	const blur = () => {
		if (pointer() === null) setCell("hover", null);
	};
	grid.addEventListener("focus", focus, { signal });
	grid.addEventListener("blur", blur, { signal });

	/** Runs now and whenever one of the traits changes. */
	function react(names: (keyof State)[], run: () => void): void {
		for (const name of names) {
			model.on(`change:${name}`, run);
			signal.addEventListener("abort", () => model.off(`change:${name}`, run));
		}
		run();
	}
	react(["weights"], () => invalidate({ whole: true, tile: true }));
	react(["viewport", "_detail"], () => invalidate({ tile: true }));
	react(["tokens", "queries"], relayout);
	react(["_colors", "show_values", "title"], () => invalidate({ paint: true }));
	react(["hover", "selection"], schedule);
	react(["error"], () => line(view.error, model.get("error") ?? ""));
	react(["status"], () => line(view.status, model.get("status") ?? ""));
	react(["_checks"], () => drawChecks(view.checks, model.get("_checks") ?? []));
	let extra: string[] = [];
	react(["class_name"], () => {
		root.classList.remove(...extra);
		extra = (model.get("class_name") ?? "").split(/\s+/).filter(Boolean);
		root.classList.add(...extra);
	});

	watchTheme(signal, relayout);
	const resized = new ResizeObserver(() => {
		const now = root.clientWidth;
		if (Math.abs(now - width) < 0.5) return;
		width = now;
		relayout();
	});
	resized.observe(root);
	window.addEventListener("resize", relayout, { signal });
	signal.addEventListener("abort", () => {
		resized.disconnect();
		cancelAnimationFrame(pending);
		root.remove();
	});

	width = root.clientWidth;
	applyTheme();
	frame();
}

function shapeOf(tile: Tile): string {
	return [tile.size, tile.shape, tile.window, tile.bin].join();
}
