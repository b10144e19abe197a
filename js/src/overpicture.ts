/**
 * One row of attention over a picture: traits -> draw, in one direction. Knows no host. Everything
 * it starts ends with `signal`.
 */

import { colorize, paletteOf } from "./color";
import {
	decodePlacing,
	decodeRow,
	type ImageModel,
	type ImageState,
	type Placing,
	type Row,
} from "./imagemodel";
import { buildFrames, buildImageView, type Frame, type ImageView, sizeFrames } from "./imageview";
import { leaveShortcuts, move } from "./keyboard";
import { ramp, ticks } from "./legend";
import { listen, reactTo } from "./listen";
import { bytesOf, type WireColors } from "./model";
import { count, formatWeight } from "./numbers";
import {
	bareWords,
	nameOfPatch,
	patchAt,
	patchUnder,
	placeOf,
	sentenceOf,
	spotOf,
} from "./patchgrid";
import { listenToPointer } from "./pointer";
import { type Piece, write } from "./readout";
import { detectTheme, watchTheme, wearTheme } from "./theme";
import { element, enter, line } from "./view";

const HINT = "hover a patch to read it";
const PICK = "; a click makes it the query, Escape lets go";

/** Of every state a pixel that is not seen: what is no weight lets the picture through. */
const CLEAR = new Array<number>(7).fill(0x00ffffff);

export function createImage(host: HTMLElement, model: ImageModel, signal: AbortSignal): void {
	if (signal.aborted) return;
	const view = buildImageView();
	enter(host, view.root);

	let placing: Placing | null = null;
	let frames: Frame[] = [];
	let row: Row | null = null;
	let pending = 0;
	/** the pointer or the keyboard is at work here */
	let pointed = false;
	let moved = false;
	let last = 0;

	const schedule = () => {
		pending ||= requestAnimationFrame(draw);
	};
	const pointer = listenToPointer(
		view.grid,
		{
			moved() {
				moved = true;
				schedule();
			},
			pressed(at) {
				const patch = under(at.x, at.y);
				if (patch !== null) pick(patch);
			},
			doubled() {},
		},
		signal,
	);

	function under(x: number, y: number): number | null {
		if (placing === null) return null;
		for (const [number, { box }] of frames.entries()) {
			const { left, top, width, height } = box.getBoundingClientRect();
			const [across, down] = [(x - left) / width, (y - top) / height];
			if (across >= 0 && across < 1 && down >= 0 && down < 1) {
				return patchUnder(placing, number, across, down);
			}
		}
		return null;
	}

	const patchOfKey = (key: number | null) => {
		const found = key === null || placing === null ? -1 : placing.keys.indexOf(key);
		return found < 0 ? null : found;
	};
	const keyOf = (patch: number | null) => {
		const key = patch === null ? -1 : (placing?.keys[patch] ?? -1);
		return key < 0 ? null : key;
	};
	/** A patch without a key (outside the window that is shown) is read here, and hovers no cell. */
	let outside: number | null = null;

	const point = (patch: number | null) => {
		const key = keyOf(patch);
		outside = key === null ? patch : null;
		if (patch !== null) last = patch;
		schedule();
		if (model.get("hover") === key) return;
		model.set("hover", key);
		model.save_changes();
	};
	const pick = (patch: number) => {
		const key = keyOf(patch);
		if (key === null || !placing?.square) return;
		model.set("_picked", [key]);
		model.save_changes();
	};
	const letGo = () => {
		model.set("_picked", []);
		model.save_changes();
	};

	function draw(): void {
		pending = 0;
		if (signal.aborted || placing === null || row === null) return;
		if (moved) {
			moved = false;
			const at = pointer();
			pointed = at !== null;
			point(at && under(at.x, at.y));
		}
		const patch = outside ?? patchOfKey(model.get("hover") ?? row.key);
		mark(view.patch, patch);
		mark(view.query, placing.square ? patchOfKey(row.query) : null);
		const pieces = sentenceOf(placing, row, patch);
		if (patch === null) pieces.push({ text: ` · ${HINT}`, kind: "muted" });
		if (patch === null && placing.square) pieces.push({ text: PICK, kind: "muted" });
		say(view, pieces, !pointed);
		describe(view, placing, row, patch);
	}

	function mark(outline: HTMLElement, patch: number | null): void {
		outline.hidden = patch === null;
		if (patch === null || placing === null) return;
		const { frame, x, y, width, height } = placeOf(placing, patch);
		frames[frame]?.box.append(outline);
		const style = { left: x, top: y, width, height };
		for (const [name, share] of Object.entries(style)) {
			outline.style.setProperty(name, `${share * 100}%`);
		}
	}

	function place(): void {
		placing = decodePlacing(model.get("_placing"));
		if (frames.length !== placing.frames) {
			frames = buildFrames(view, placing.frames);
			for (const [number, frame] of frames.entries()) show(frame, number);
		}
		sizeFrames(view, frames, placing);
		const each = `${placing.rows} × ${placing.columns} patches`;
		view.size.textContent = placing.frames > 1 ? `${placing.frames} frames of ${each}` : each;
		view.root.classList.toggle("attnmap-clickable", placing.square);
		last = Math.min(last, placing.keys.length - 1);
		outside = null;
	}

	function show({ box, picture }: Frame, number: number): void {
		const wire = model.get("_frames")[number];
		if (!wire) return;
		picture.width = wire.width;
		picture.height = wire.height;
		box.style.setProperty("--attnmap-aspect", String(wire.width / wire.height));
		// Decoded here rather than by an address: pages may forbid pictures from blobs.
		const blob = new Blob([bytesOf(wire.data).slice()], { type: "image/png" });
		createImageBitmap(blob).then((bitmap) => {
			if (!signal.aborted) picture.getContext("2d")?.drawImage(bitmap, 0, 0);
			bitmap.close();
			picture.dataset.ready = "true";
		});
	}

	function paint(): void {
		if (placing === null) return;
		row = decodeRow(model.get("_row"));
		const theme = detectTheme(view.root);
		wearTheme(view.root, theme);
		const colors = model.get("_colors");
		const palette = paletteOf(colors, theme.dark);
		const { rows, columns } = placing;
		const into = new Int32Array(row.weights.length);
		const shape: [number, number] = [placing.frames * rows, columns];
		const maxima = new Float32Array(shape[0]).fill(row.top);
		colorize({ ...row, shape }, colors, palette, CLEAR, into, maxima);
		for (const [number, { overlay }] of frames.entries()) {
			const image = new ImageData(columns, rows);
			const size = rows * columns;
			new Int32Array(image.data.buffer).set(into.subarray(number * size, (number + 1) * size));
			overlay.getContext("2d")?.putImageData(image, 0, 0);
		}
		drawLegend(view.legend, model.get("_value_title"), colors, palette, bareWords(placing, row));
		drawBeside(view.beside, row);
		schedule();
	}

	function dress(): void {
		const opacity = model.get("opacity");
		view.opacity.value = String(Math.round(opacity * 100));
		view.root.style.setProperty("--attnmap-opacity", String(opacity));
		view.root.dataset.bare = String(opacity === 0);
		view.root.dataset.smooth = String(model.get("smooth"));
	}

	const react = reactTo<ImageState>(model, signal);
	react(["_placing"], () => {
		place();
		if (row !== null) repaint();
	});
	react(["_row", "_colors", "_value_title", "smooth"], repaint);
	react(["opacity", "smooth"], dress);
	react(["hover"], () => {
		if (model.get("hover") !== null) outside = null;
		schedule();
	});
	react(["title", "_map_title"], () => {
		view.title.textContent = model.get("title") ?? model.get("_map_title");
		view.title.hidden = view.title.textContent === "";
		schedule();
	});
	react(["error"], () => line(view.error, model.get("error")));

	/** A row comes beside its placing, in either order: only both together are drawn. */
	function repaint(): void {
		const { frames, rows, columns } = model.get("_placing");
		if (bytesOf(model.get("_row").weights).byteLength === 4 * frames * rows * columns) paint();
	}

	const keys = (event: KeyboardEvent) => {
		if (placing === null || event.altKey || event.isComposing || event.shiftKey) return;
		const control = event.ctrlKey || event.metaKey;
		const size: [number, number] = [placing.frames * placing.rows, placing.columns];
		const current = outside ?? patchOfKey(model.get("hover") ?? row?.key ?? null) ?? last;
		const to = move(event.key, control, spotOf(placing, current), size);
		pointed = false;
		if (to !== null) point(patchAt(placing, to));
		else if (control) return;
		else if (event.key === "Enter" || event.key === " ") pick(current);
		else if (event.key === "Escape") letGo();
		else return;
		event.preventDefault();
		event.stopPropagation();
	};
	listen(view.grid, signal, {
		keydown: keys,
		focus: () => {
			if (!view.grid.matches(":focus-visible") || model.get("hover") !== null) return;
			pointed = false;
			point(patchOfKey(row?.key ?? null) ?? last);
		},
		blur: () => {
			if (pointer() === null) point(null);
		},
	});
	leaveShortcuts(view.grid, signal);
	listen(view.opacity, signal, {
		input: () => {
			model.set("opacity", Number(view.opacity.value) / 100);
			model.save_changes();
		},
	});
	watchTheme(signal, repaint);
	// Hosts may put the element on the page, and give it its background, only later.
	const resized = new ResizeObserver(repaint);
	resized.observe(view.root);
	signal.addEventListener("abort", () => {
		resized.disconnect();
		cancelAnimationFrame(pending);
		view.root.remove();
	});
}

/** Only what was not read by pointing is announced. */
function say({ readout }: ImageView, pieces: readonly Piece[], announce: boolean): void {
	readout.setAttribute("aria-live", announce ? "polite" : "off");
	if (readout.textContent !== pieces.map(({ text }) => text).join("")) write(readout, pieces);
}

function describe(view: ImageView, placing: Placing, row: Row, patch: number | null): void {
	const { grid, cell } = view;
	const name = `${view.title.textContent || "Attention"}, ${row.name} (${row.query}) over the picture`;
	grid.setAttribute("aria-label", `${name}: ${view.size.textContent}`);
	if (patch === null) {
		grid.removeAttribute("aria-activedescendant");
		cell.removeAttribute("aria-label");
		return;
	}
	const [down, across] = spotOf(placing, patch);
	view.row.setAttribute("aria-rowindex", String(down + 1));
	cell.setAttribute("aria-colindex", String(across + 1));
	cell.setAttribute("aria-selected", String(placing.keys[patch] === row.query && placing.square));
	const said = sentenceOf(placing, row, patch).map(({ text }) => text);
	cell.setAttribute("aria-label", `${nameOfPatch(placing, patch)}: ${said.join("")}`);
	grid.setAttribute("aria-activedescendant", cell.id);
}

function drawLegend(
	into: HTMLElement,
	value: string,
	colors: WireColors,
	palette: Int32Array,
	bare: readonly string[],
): void {
	const notes = bare.length > 0 ? [...colors.notes, `no colour: ${bare.join(", ")}`] : colors.notes;
	into.replaceChildren(
		element("div", "legend-title", {}, [
			value + (colors.scale === "log" ? " (log scale)" : ", as in the map"),
		]),
		ramp(palette, true),
		element("div", "image-ticks", {}, ticks(colors)),
		...notes.map((text) => element("p", "legend-note", {}, [text])),
		element("p", "smooth-note", {}, [`smoothed between patches; one ${value} a patch`]),
	);
}

/** The tokens that are no patch, so that no weight of the row is hidden. */
function drawBeside(into: HTMLElement, row: Row): void {
	const [more, weight] = row.left_out;
	const largest = Math.max(...row.others.map((one) => Math.abs(one[2] ?? 0)), 0);
	const items = row.others.map(([name, key, weight]) => {
		const bar = element("span", "beside-bar", { "aria-hidden": "true" });
		bar.style.width = `${largest > 0 ? (Math.abs(weight ?? 0) / largest) * 3.5 : 0}em`;
		return element("li", "beside-token", {}, [
			element("span", "beside-name", {}, [
				element("bdi", "token", {}, [name]),
				element("span", "muted", {}, [` (${key})`]),
			]),
			element("span", "beside-weight", {}, [formatWeight(weight ?? Number.NaN)]),
			bar,
		]);
	});
	const rest = `and ${count(more, "other")}, together ${formatWeight(weight)}`;
	into.replaceChildren(
		element("div", "beside-title", {}, [
			items.length > 0 ? "Not on the picture" : "Every key is a patch",
		]),
		element("ul", "beside-list", {}, items),
		...(more > 0 ? [element("div", "muted", {}, [rest])] : []),
	);
}
