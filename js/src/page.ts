/**
 * A saved page: the map, or an explorer's maps behind two menus, from data that the page holds.
 * There is no kernel and no network; a plain object stands in for the host's model.
 */

import { createMap } from "./map";
import type { Labels, Model, PackedLabels, State, WireLabels, WireTile } from "./model";
import { fromBase64, PageModel } from "./page-model";

/** 8-bit weights: 0 is no weight, any other code is (code − zero) · step. */
interface Quantized {
	zero: number;
	step: number;
}

/** A tile whose bytes are numbers of `PageData.buffers`. */
type StoredTile = Omit<WireTile, "data" | "states" | "at"> & {
	data: number;
	states: number | null;
	at: number | null;
	quantized: Quantized | null;
};

/** Likewise of labels. */
type Stored<L> = {
	[K in keyof L]: K extends "texts" | "ids" | "positions" ? number | null : L[K];
};
type StoredLabels = Stored<Labels> | Stored<PackedLabels>;

export interface StoredState
	extends Omit<
		State,
		"tokens" | "queries" | "_room" | "weights" | "_detail" | "_colors" | "hover"
	> {
	/** numbers of `PageData.labels` */
	tokens: number;
	queries: number | null;
	_room: { tokens: number; queries: number | null } | null;
	weights: StoredTile;
	_detail: StoredTile | null;
	_colors: Omit<State["_colors"], "ramp"> & { ramp: number };
}

type PartOfState = Partial<Omit<StoredState, "weights" | "_colors">> & {
	weights?: Partial<StoredState["weights"]>;
	_colors?: Partial<StoredState["_colors"]>;
};

interface StoredMap {
	/** what the menus say; a page of one map has none */
	choice: { layer: string; head: string } | null;
	state: PartOfState;
}

/** What Python writes into the page; each buffer and list of labels once. */
export interface PageData {
	/** base64 */
	buffers: string[];
	labels: StoredLabels[];
	/** what is the same in all maps; each of them has the rest */
	shared: PartOfState;
	maps: StoredMap[];
	/** which of them is shown first */
	first: number;
	/** all are shown; a pointer, a pin and a zoom are in all of them */
	linked: boolean;
	/** how large the page is, and how exact */
	note: string;
}

/** The float32 bytes that a tile has. */
export function dequantize(codes: Uint8Array, { zero, step }: Quantized): ArrayBuffer {
	const weights = new Float32Array(codes.length);
	codes.forEach((code, i) => {
		weights[i] = code === 0 ? Number.NaN : (code - zero) * step;
	});
	return weights.buffer;
}

/** Labels of several maps are one object, so that changing heads leaves them as they are. */
const decoded = new WeakMap<StoredLabels, WireLabels>();

/** The traits of one map, as a host would hand them over. Only what is looked at is decoded. */
export function stateOf(data: PageData, map: StoredMap): State {
	const state = {
		...data.shared,
		...map.state,
		weights: { ...data.shared.weights, ...map.state.weights },
		_colors: { ...data.shared._colors, ...map.state._colors },
	} as StoredState;
	const buffer = (index: number) => fromBase64(data.buffers[index] ?? "");
	const labels = (index: number): WireLabels => {
		const stored = data.labels[index] as StoredLabels;
		const known = decoded.get(stored);
		if (known) return known;
		const bytes = (part: number | null) => (part === null ? null : buffer(part));
		const positions = bytes(stored.positions);
		const made: WireLabels =
			"labels" in stored
				? { ...stored, positions }
				: { ...stored, positions, texts: bytes(stored.texts), ids: bytes(stored.ids) };
		decoded.set(stored, made);
		return made;
	};
	const wire = ({ quantized, ...tile }: StoredTile): WireTile => {
		const data = buffer(tile.data);
		return {
			...tile,
			data: quantized ? dequantize(data, quantized) : data,
			states: tile.states === null ? null : buffer(tile.states),
			at: tile.at === null ? null : buffer(tile.at),
		};
	};
	const named = ({ tokens, queries }: Pick<StoredState, "tokens" | "queries">) => ({
		tokens: labels(tokens),
		queries: queries === null ? null : labels(queries),
	});
	return {
		...state,
		...named(state),
		_room: state._room && named(state._room),
		weights: wire(state.weights),
		_detail: state._detail && wire(state._detail),
		_colors: { ...state._colors, ramp: buffer(state._colors.ramp) },
		hover: null,
	};
}

/** Whether a pinned cell of the map that is shown is a cell of the next one too. */
function sameShape(model: Model, next: State): boolean {
	const [rows, columns] = model.get("weights").size;
	return next.weights.size[0] === rows && next.weights.size[1] === columns;
}

export function openPage(into: HTMLElement, data: PageData, signal: AbortSignal): void {
	const first = data.maps[data.first] ?? data.maps[0];
	if (!first) return;
	if (data.linked) openLinked(into, data, signal);
	else openOne(into, data, first, signal);
	if (data.note) {
		const note = document.createElement("p");
		note.className = "note";
		note.textContent = data.note;
		into.append(note);
	}
}

function openLinked(into: HTMLElement, data: PageData, signal: AbortSignal): void {
	const row = document.createElement("div");
	row.className = "attnmap-beside";
	into.append(row);
	const models = data.maps.map((map) => new PageModel<State>(stateOf(data, map)));
	link(models);
	for (const model of models) {
		const host = document.createElement("div");
		row.append(host);
		createMap(host, model, signal);
	}
}

/** What is pointed at, pinned or zoomed to in one is so in all. */
export function link(models: readonly PageModel<State>[]): void {
	for (const name of ["hover", "selection", "viewport"] as const) {
		for (const one of models) {
			one.on(`change:${name}`, () => {
				// The others hear of it in turn; they hold the same value then, which ends it.
				for (const other of models) other.set(name, one.get(name));
			});
		}
		// What was pinned or zoomed to before the page was saved may be so in one of them only.
		const first = models.map((model) => model.get(name)).find((value) => value !== null);
		if (first !== undefined) for (const model of models) model.set(name, first);
	}
}

function openOne(into: HTMLElement, data: PageData, first: StoredMap, signal: AbortSignal): void {
	const model = new PageModel<State>(stateOf(data, first));
	const show = (map: StoredMap) => {
		const next = stateOf(data, map);
		model.show(sameShape(model, next) ? { ...next, selection: model.get("selection") } : next);
	};
	if (first.choice) into.append(menusFor(data.maps, first, show, signal));
	const host = document.createElement("div");
	into.append(host);
	createMap(host, model, signal);
}

/** Layer and head; heads are those of the layer, and the chosen one is kept where it exists. */
function menusFor(
	maps: readonly StoredMap[],
	first: StoredMap,
	show: (map: StoredMap) => void,
	signal: AbortSignal,
): HTMLElement {
	const menus = document.createElement("div");
	menus.className = "menus";
	const layer = menu(menus, "Layer");
	const head = menu(menus, "Head");
	const headsOf = (chosen: string) =>
		maps.filter(({ choice }) => choice?.layer === chosen).map(({ choice }) => choice?.head ?? "");
	const choose = () => {
		offer(head, headsOf(layer.value), head.value);
		const found = maps.find(
			({ choice }) => choice?.layer === layer.value && choice.head === head.value,
		);
		if (found) show(found);
	};
	const layers = [...new Set(maps.map(({ choice }) => choice?.layer ?? ""))];
	offer(layer, layers, first.choice?.layer ?? "");
	offer(head, headsOf(layer.value), first.choice?.head ?? "");
	for (const select of [layer, head]) select.addEventListener("change", choose, { signal });
	return menus;
}

function menu(into: HTMLElement, name: string): HTMLSelectElement {
	const label = document.createElement("label");
	const select = document.createElement("select");
	label.append(`${name} `, select);
	into.append(label);
	return select;
}

function offer(select: HTMLSelectElement, values: readonly string[], wanted: string): void {
	select.replaceChildren(...values.map((value) => new Option(value, value)));
	select.value = values.includes(wanted) ? wanted : (values[0] ?? "");
}

const stored = document.getElementById("attnmap-data");
const place = document.getElementById("attnmap");
if (stored && place) {
	openPage(place, JSON.parse(stored.textContent) as PageData, new AbortController().signal);
}
