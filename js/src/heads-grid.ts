/**
 * All heads at a glance: traits -> scene -> draw, in one direction. Knows no host: `model` is any
 * object with the traits of `HeadsState`. Everything it starts ends with `signal`.
 */

import { type Atlas, buildAtlas } from "./heads-atlas";
import { type Bars, barsOf, rampOf } from "./heads-bars";
import { listenToHeads } from "./heads-input";
import {
	boxOf,
	extent,
	type HeadsLayout,
	headAt,
	layoutHeads,
	linesOf,
	orderBy,
	stepFrom,
} from "./heads-layout";
import { drawHeadsLegend } from "./heads-legend";
import type { HeadsModel, HeadsState } from "./heads-model";
import { type HeadsScene, type Inks, PATTERN_FROM, paintAll, paintHeads } from "./heads-paint";
import { describeHeads, offerMenus, sayHead, showTip } from "./heads-say";
import { openSheet, type Sheet } from "./heads-sheet";
import { buildHeadsView } from "./heads-view";
import { formatNumber, type Names, namesOf, shortName } from "./heads-words";
import { listen, reactTo } from "./listen";
import { flatsOf } from "./patterns";
import { detectTheme, type Theme, watchTheme, wearTheme } from "./theme";
import { classesOf, enter, line } from "./view";

export function createHeads(host: HTMLElement, model: HeadsModel, signal: AbortSignal): void {
	if (signal.aborted) return;
	const view = buildHeadsView();
	const { root, grid } = view;
	enter(host, root);

	let theme: Theme = detectTheme(root);
	let sheet: Sheet | null = null;
	let names: Names = [];
	let layout: HeadsLayout | null = null;
	let atlas: Atlas | null = null;
	let pictures: HTMLCanvasElement | null = null;
	let bars: Bars | null = null;
	let inks: Inks | null = null;
	let errors: ReadonlyMap<number, string> = new Map();
	let current: number | null = null;
	let pointed = false;
	let reveal = false;
	const stale = { layout: true, paint: true };
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
	const columnOf = (name: string | null): number =>
		model.get("_columns").findIndex((column) => column.name === name);
	const indexOf = (head: HeadsState["selection"]): number | null => {
		if (!head) return null;
		const found = names.findIndex(([layer, at]) => layer === head[0] && at === head[1]);
		return found < 0 ? null : found;
	};
	const selected = () => indexOf(model.get("selection"));

	function set<K extends keyof HeadsState>(name: K, value: HeadsState[K]): void {
		if (JSON.stringify(model.get(name)) === JSON.stringify(value)) return;
		model.set(name, value);
		model.save_changes();
	}

	function frame(): void {
		pending = 0;
		if (width <= 0 || signal.aborted || sheet === null) return;
		if (stale.layout || layout === null) {
			theme = detectTheme(root);
			applyTheme();
			layout = makeLayout(sheet, measureInks());
			view.all.style.width = `${layout.width}px`;
			view.all.style.height = `${layout.height}px`;
			stale.paint = true;
		}
		if (stale.paint) makeColors(sheet, layout);
		Object.assign(stale, { layout: false, paint: false });
		if (reveal) scrollTo(selected(), layout);
		reveal = false;
		draw(sheet, layout);
	}

	function makeLayout(all: Sheet, { font, family }: Inks): HeadsLayout {
		const rows = model.get("_rows");
		names = namesOf(rows);
		const sorted = columnOf(model.get("sort_by"));
		const single = rows.length === 1 ? names.map((_, head) => head) : null;
		const order = sorted < 0 ? single : orderBy(all, sorted);
		const pen = new OffscreenCanvas(1, 1).getContext("2d");
		if (pen) pen.font = `700 ${font}px ${family}`;
		const measure = (text: string) => pen?.measureText(text).width ?? text.length * font * 0.6;
		const widest = (texts: string[]) => Math.max(0, ...texts.map(measure));
		const lastHead = Math.max(...rows.map(([, heads]) => heads)) - 1;
		const labels = rows.map(([layer]) => shortName([layer, lastHead], model.get("_named")));
		return layoutHeads(
			linesOf(
				rows.map(([, heads]) => heads),
				order,
			),
			extent(all),
			{
				// the grid's margins
				width: width - 8,
				font,
				rowLabel: widest(rows.map(([layer]) => lineLabel(layer))),
				label: widest(labels),
				bar: columnOf(model.get("tint_by")) >= 0,
				words: sorted < 0 ? 1 : 2,
			},
		);
	}

	const lineLabel = (layer: number) => (model.get("_named") ? `Layer ${layer}` : "");

	function measureInks(): Inks {
		const style = getComputedStyle(root);
		const read = (name: string) => style.getPropertyValue(`--attnmap-${name}`).trim();
		const size = Number.parseFloat(style.fontSize) || 13;
		inks = {
			ink: read("ink") || style.color,
			muted: read("muted") || style.color,
			line: theme.dark ? "rgb(230 237 243 / .22)" : "rgb(31 35 40 / .2)",
			accent: read("accent"),
			alarm: read("alarm"),
			page: `rgb(${theme.page.join(" ")})`,
			family: style.fontFamily,
			font: Math.round(size * 0.85 * 2) / 2,
		};
		return inks;
	}

	/** Everything that has a colour. */
	function makeColors(all: Sheet, placed: HeadsLayout): void {
		const ratio = devicePixelRatio || 1;
		const { ramp, diverging } = model.get("_colors");
		const palette = rampOf(ramp, diverging, theme.dark);
		const room = {
			width: Math.round(placed.box.width * ratio),
			height: Math.round(placed.box.height * ratio),
		};
		const own = model.get("range") === "head";
		const flats = flatsOf(theme.dark);
		const patterned = placed.box.width >= PATTERN_FROM;
		const looks = { palette, diverging, flats, page: theme.page, own, patterned };
		atlas = buildAtlas(all, room, looks);
		pictures = null;
		const tints = rampOf(model.get("_tint"), false, theme.dark);
		bars = barsOf(all, model.get("_columns"), model.get("tint_by"), tints);
		drawHeadsLegend(view.legend, { atlas, palette, diverging, dark: theme.dark, bars });
		offerMenus(view, model, all);
	}

	function draw(all: Sheet, placed: HeadsLayout): void {
		if (atlas === null || inks === null) return;
		const sorted = columnOf(model.get("sort_by"));
		const named = model.get("_named");
		const scene: HeadsScene = {
			sheet: all,
			layout: placed,
			atlas,
			dark: theme.dark,
			inks,
			bars,
			lineLabels: model.get("_rows").map(([layer]) => lineLabel(layer)),
			words: (head) => {
				const name = shortName(names[head] ?? [0, 0], named);
				return sorted < 0 ? [name] : [name, formatNumber(all.number(head, sorted))];
			},
			selected: selected(),
			current,
			scroll: { x: grid.scrollLeft, y: grid.scrollTop },
			size: { width: grid.clientWidth, height: grid.clientHeight },
			ratio: devicePixelRatio || 1,
		};
		view.canvas.style.width = `${scene.size.width}px`;
		view.canvas.style.height = `${scene.size.height}px`;
		pictures ??= paintAll(scene);
		paintHeads(view.canvas, scene, pictures);
		describeHeads(view, model, scene);
		const told = { names, errors, pointed };
		sayHead(view, model, scene, told);
		showTip(view, model, scene, told);
	}

	function scrollTo(head: number | null, placed: HeadsLayout): void {
		const box = head === null ? null : boxOf(placed, head);
		if (box === null) return;
		const [left, top] = placed.table ? [placed.left, placed.top] : [0, 0];
		const right = box.x + box.width + 6 - grid.clientWidth;
		const bottom = box.y + placed.pitch.y + 2 - grid.clientHeight;
		grid.scrollLeft = Math.max(right, Math.min(grid.scrollLeft, box.x - left - 4));
		grid.scrollTop = Math.max(bottom, Math.min(grid.scrollTop, box.y - top - 4));
	}

	function applyTheme(): void {
		wearTheme(root, theme);
		root.style.setProperty("--attnmap-left", "0px");
	}

	function choose(head: number): void {
		const name = names[head];
		current = head;
		if (name) set("selection", [name[0], name[1]]);
		schedule();
	}

	listenToHeads(
		grid,
		{
			at: (x, y) => {
				const inside = layout?.table !== true || (x >= layout.left - 2 && y >= layout.top - 2);
				return layout && inside ? headAt(layout, x + grid.scrollLeft, y + grid.scrollTop) : null;
			},
			point(head) {
				if (pointed === (head !== null) && current === head) return;
				pointed = head !== null;
				current = head;
				schedule();
			},
			choose,
			key(key, control) {
				if (layout === null) return false;
				const from = current ?? selected();
				if (key === "Enter" || key === " ") {
					if (from !== null && !control) choose(from);
					return from !== null && !control;
				}
				if (key === "Escape") {
					const shown = current !== null;
					current = null;
					pointed = false;
					schedule();
					return shown;
				}
				const first = layout.lines[0]?.[0] ?? 0;
				const moved = stepFrom(layout, from ?? first, key, control);
				if (moved === null) return false;
				const to = from === null && key !== "Home" && key !== "End" ? first : moved;
				current = to;
				pointed = false;
				scrollTo(to, layout);
				schedule();
				return true;
			},
			focused() {
				current ??= selected() ?? layout?.lines[0]?.[0] ?? null;
				schedule();
			},
			left() {
				current = null;
				schedule();
			},
			scrolled: schedule,
		},
		signal,
	);
	listen(view.sort, signal, { change: () => set("sort_by", view.sort.value || null) });
	listen(view.tint, signal, { change: () => set("tint_by", view.tint.value || null) });
	listen(view.range, signal, {
		change: () => set("range", view.range.value === "head" ? "head" : "shared"),
	});
	listen(view.cancel, signal, {
		click: () => set("_cancels", (model.get("_cancels") ?? 0) + 1),
	});

	const react = reactTo<HeadsState>(model, signal);
	react(["_sheet"], () => {
		const wire = model.get("_sheet");
		sheet = wire ? openSheet(wire) : null;
		relayout();
	});
	react(["_part"], () => {
		const part = model.get("_part");
		if (part && sheet?.merge(part)) relayout();
	});
	react(["_rows", "_named", "sort_by", "tint_by"], relayout);
	react(["range", "_colors", "_note", "title", "_columns"], () => invalidate({ paint: true }));
	react(["selection"], () => {
		reveal = selected() !== current;
		schedule();
	});
	react(["error"], () => line(view.error, model.get("error") ?? ""));
	react(["status"], () => line(view.status, model.get("status") ?? ""));
	react(["_errors"], () => {
		errors = new Map(
			(model.get("_errors") ?? []).flatMap(([message, heads]) =>
				heads.map((head): [number, string] => [head, message]),
			),
		);
		schedule();
	});
	react(["_progress"], () => {
		const progress = model.get("_progress");
		view.busy.hidden = !progress;
		if (!progress) return invalidate({ paint: true });
		const [read, all] = progress;
		view.bar.style.width = `${(100 * read) / all}%`;
		view.busyText.textContent = `${read} of ${all} heads`;
		view.bar.parentElement?.setAttribute("aria-valuenow", String(Math.round((100 * read) / all)));
	});
	const wearClasses = classesOf(root);
	react(["class_name"], () => wearClasses(model.get("class_name") ?? ""));

	watchTheme(signal, relayout);
	const resized = new ResizeObserver(() => {
		const now = root.clientWidth;
		if (Math.abs(now - width) < 0.5) return schedule();
		width = now;
		relayout();
	});
	resized.observe(root);
	resized.observe(grid);
	signal.addEventListener("abort", () => {
		resized.disconnect();
		cancelAnimationFrame(pending);
		root.remove();
	});
	width = root.clientWidth;
	applyTheme();
	frame();
}
