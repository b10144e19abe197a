/**
 * One attention map: traits -> scene -> draw, in one direction. Knows no host: `model` is any
 * object with the traits of `State`. Everything it starts ends with `signal`.
 */

import { createAxes, createMeasure } from "./axes";
import { createCamera } from "./camera";
import { createPainter, hasPatterns, valueFont } from "./canvas";
import { createCells } from "./cells";
import { drawChecks } from "./checks";
import { paletteOf } from "./color";
import { describeGrid, placeFigure, placeRules } from "./figure";
import { LIMITS } from "./geometry";
import { labelsOf } from "./labels";
import { type Layout, layoutMap, layoutView, type Measure } from "./layout";
import { drawLegend } from "./legend";
import { listen, reactTo } from "./listen";
import { keepKeysInMenus } from "./menus";
import { createMinimap } from "./minimap";
import type { Model, State } from "./model";
import { createNavigation } from "./navigation";
import { createNotices } from "./notices";
import { drawOverlay, drawReadout, drawTip } from "./overlay";
import { baseLayer, colorAt, type Scene, topLayer } from "./scene";
import { createStrip, STRIP_LIMIT } from "./strip";
import { detectTheme, type Theme, watchTheme, wearTheme } from "./theme";
import { isPooled } from "./tile";
import { createTiles } from "./tiles";
import { createTop } from "./top";
import { buildView, classesOf, enter } from "./view";
import { ATTENTION, generatedWords } from "./words";

const TOO_SMALL = ["cells are too small to write values in"];

export function createMap(host: HTMLElement, model: Model, signal: AbortSignal): void {
	if (signal.aborted) return;
	const view = buildView();
	const { root } = view;
	enter(host, root);

	const painter = createPainter(view.cells, view.values);
	const strip = createStrip(view.strip, signal);
	const top = createTop(view.top, signal);
	const tiles = createTiles(model);
	const notices = createNotices(view, model, signal);
	let family = "";
	let font = 13;
	let measure: Measure = () => 0;
	const axes = createAxes(view, (text) => measure(text));

	let theme: Theme = detectTheme(root);
	let scene: Scene | null = null;
	/** the layout with everything in view */
	let whole: Layout | null = null;
	let size = "";
	/** what the legend depends on beside the colours */
	let explained: unknown[] = [];
	const stale = { tile: true, layout: true, paint: true, view: true };
	let width = 0;
	let pending = 0;

	const schedule = () => {
		pending ||= requestAnimationFrame(frame);
	};
	const invalidate = (what: Partial<typeof stale>) => {
		Object.assign(stale, what);
		schedule();
	};
	const relayout = () => invalidate({ layout: true, paint: true });

	const camera = createCamera(model, () => invalidate({ view: true }), signal);
	const cells = createCells(model, camera, () => scene, schedule);
	const minimap = createMinimap(view.minimap, camera, signal);
	const navigation = createNavigation(
		{ view, model, camera, cells, scene: () => scene, schedule },
		signal,
	);

	function frame(now: number): void {
		pending = 0;
		if (width <= 0 || signal.aborted) return;
		const failed = [() => refresh(now), () => scene && pointAt(scene)].map(attempt);
		const { whole, detail } = tiles.faults;
		notices.problem(whole ?? detail ?? failed.find(Boolean) ?? null);
		if (camera.moving()) schedule();
	}

	/** Whatever a host delivers, the frames go on, and what was drawn can be read. */
	function attempt(run: () => void): string | null {
		try {
			run();
			return null;
		} catch (failure) {
			return `the map could not be drawn (${String(failure)})`;
		}
	}

	function pointAt(current: Scene): void {
		navigation.followPointer(current);
		emphasize(current);
	}

	/** Brings the scene up to date with the traits; draws only what depends on what has changed. */
	function refresh(now: number): void {
		const colors = model.get("_colors");
		if (stale.tile) {
			stale.paint = tiles.refresh() || stale.paint;
			notices.awaitDetail(tiles);
		}
		const tile = tiles.whole();
		// Tokens and colours came with the weights: those of other weights are not put on these.
		if (!tile || !colors || tiles.faults.whole !== null) return;
		stale.layout ||= size !== tile.size.join();
		size = tile.size.join();
		camera.fit(tile.size);
		camera.step(now);
		stale.tile = false;
		if (!stale.layout && !stale.paint && !stale.view) return;
		const keys = labelsOf(model.get("tokens"));
		const queries = labelsOf(model.get("queries") ?? model.get("tokens"));
		const titles = {
			query: model.get("query_title"),
			key: model.get("key_title"),
			value: model.get("value_title") ?? ATTENTION.value,
		};
		const generated = model.get("generated") ?? [null, null];
		if (stale.layout || whole === null) {
			const style = getComputedStyle(root);
			font = Number.parseFloat(style.fontSize) || 13;
			if (family !== style.fontFamily) {
				family = style.fontFamily;
				measure = createMeasure(family);
			}
			theme = detectTheme(root);
			const room = model.get("_room");
			const texts = {
				rows: room ? labelsOf(room.queries ?? room.tokens).labels : queries.labels,
				columns: room ? labelsOf(room.tokens).labels : keys.labels,
			};
			whole = layoutMap(tile.size, width, font, devicePixelRatio || 1, texts, measure);
		}
		const inView = camera.view();
		const layout = camera.zoomed() ? layoutView(whole, inView, font) : whole;
		const palette = !stale.paint && scene ? scene.palette : paletteOf(colors, theme.dark);
		const drawn = tiles.layers(layout.plot, inView);
		const named = { queries, keys, titles, generated };
		scene = { ...drawn, ...named, view: inView, colors, palette, theme, layout };
		if (stale.layout || stale.view) {
			placeFigure(view, layout, font);
			placeRules(view, layout, generated);
			axes.draw(scene);
		}
		paint(scene);
		if (stale.layout || stale.paint) explain(scene);
		Object.assign(stale, { layout: false, paint: false, view: false });
	}

	/** What changes with every frame of a zoom. */
	function paint(current: Scene): void {
		const layer = topLayer(current);
		const across = current.view[3] - current.view[2];
		const few = across / layer.tile.bin[1] <= LIMITS.valueColumns;
		const wanted = model.get("show_values") ?? few;
		const letters = wanted ? valueFont(layer, font, measure) : 0;
		painter.cells(current);
		painter.values(current, letters, family);
		minimap.draw(camera.zoomed() ? current : null);
		navigation.draw(current);
		describeGrid(view, current, camera.goal(), model.get("title"));
		const refused = model.get("show_values") === true && letters === 0;
		const legend = [refused, hasPatterns(layer.plot), ...current.known.map(({ tile }) => tile)];
		if (!stale.layout && !stale.paint && legend.every((one, i) => one === explained[i])) return;
		explained = legend;
		const noted = generatedWords(current, layer.tile.size);
		drawLegend(view.legend, current, [...noted, ...(refused ? TOO_SMALL : [])]);
	}

	/** What changes only with the weights and the colours. */
	function explain(current: Scene): void {
		wearTheme(root, theme);
		const { tile } = baseLayer(current);
		const [queries, keys] = tile.size;
		const readable = !isPooled(tile) && Math.max(queries, keys) <= STRIP_LIMIT;
		top.offer(keys > LIMITS.valueColumns, current.titles);
		strip.draw({
			queries: current.queries,
			keys: current.keys,
			titles: current.titles,
			size: readable ? [queries, keys] : null,
			shade: (spot) => colorAt(current, spot),
		});
	}

	function emphasize(current: Scene): void {
		const hover = model.get("hover");
		const reading = drawOverlay(view, axes, current, hover, model.get("selection"));
		const pointed = navigation.byPointer();
		drawReadout(view, reading, !pointed);
		const tipped = pointed && hover !== null && !navigation.busy();
		drawTip(view, current, tipped ? reading : null);
		const query = reading?.cell[0] ?? null;
		strip.follow(query);
		const known = current.known.map(({ tile }) => tile);
		top.draw(query, known, model.get("_top") ?? null, current.keys);
	}

	const react = reactTo<State>(model, signal);
	react(["weights", "viewport", "_detail"], () => invalidate({ tile: true }));
	react(["tokens", "queries", "query_title", "key_title", "value_title", "generated"], () => {
		navigation.forget();
		relayout();
	});
	react(["_room"], relayout);
	react(["_colors", "show_values"], () => invalidate({ paint: true }));
	react(["title"], () => invalidate({ view: true }));
	react(["hover", "selection", "_top"], schedule);
	react(["_checks"], () => drawChecks(view.checks, model.get("_checks") ?? []));
	const wearClasses = classesOf(root);
	react(["class_name"], () => wearClasses(model.get("class_name") ?? ""));

	watchTheme(signal, relayout);
	const resized = new ResizeObserver(() => {
		keepKeysInMenus(root);
		const now = root.clientWidth;
		if (Math.abs(now - width) < 0.5) return;
		width = now;
		relayout();
	});
	resized.observe(root);
	listen(window, signal, { resize: relayout });
	signal.addEventListener("abort", () => {
		resized.disconnect();
		cancelAnimationFrame(pending);
		root.remove();
	});

	width = root.clientWidth;
	wearTheme(root, theme);
	frame(performance.now());
}
