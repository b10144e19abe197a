/**
 * What Python sends and what the browser sends back, as types, and the one place
 * where bytes become arrays. A test on the Python side compares the synced traits
 * with `State`, so a name cannot change on one side alone.
 */

/** A cell's state; the codes are those of `attnmap_widget.grid.states.State`. */
export const State = {
	weight: 0,
	zero: 1,
	empty: 2,
	cannotLook: 3,
	noValidKey: 4,
	padding: 5,
	notYet: 6,
} as const;

/** However the host hands over a binary buffer. */
export type Bytes = DataView | ArrayBuffer | Uint8Array;

/** Readable labels by index; `raw` is the token as given, where it reads differently. */
export interface Labels {
	labels: string[];
	raw: (string | null)[] | null;
	/** uint32 little-endian: where each stands in the sequence; null: at its index */
	positions: Bytes | null;
}

/** How a long list of labels travels: each text once, and of it what the one before lacks. */
export interface PackedLabels {
	count: number;
	/**
	 * UTF-8, for each text: the character with the code of how many UTF-16 units it shares with the
	 * text before, the same of how many follow, and these; null: labels are the positions
	 */
	texts: Bytes | null;
	/** all labels are followed by all raw tokens */
	pairs: boolean;
	/** of each position, which of the labels is its own: as `at` of a tile; null: one per position */
	ids: Bytes | null;
	/** as in `Labels` */
	positions: Bytes | null;
}

export type WireLabels = Labels | PackedLabels;

/** How several cells become one; where a tile does not say, its largest. */
export type Pool = "max" | "mean";

/** One window of the grid. `bin` > 1 in a direction means pooled cells. */
export interface WireTile {
	/** queries and keys of the whole grid */
	size: [number, number];
	/** rows and columns of this tile */
	shape: [number, number];
	/** [q0, q1, k0, k1] in tokens */
	window: [number, number, number, number];
	/** queries and keys per cell of the tile */
	bin: [number, number];
	pool?: Pool;
	/** float32 little-endian, row by row; NaN where there is no weight */
	data: Bytes;
	/**
	 * uint8 per cell, or null when every cell is a plain weight or zero; in a pooled tile two cells
	 * to a byte, the first in the low half
	 */
	states: Bytes | null;
	/**
	 * of a pooled tile, uint16 or uint32 little-endian: where the largest weight of each cell is,
	 * counted from the start of its bin: row * columns of the bin + column
	 */
	at: Bytes | null;
}

/** How a weight becomes a colour; all of it decided in Python. */
export interface WireColors {
	/** 256 RGB triples, low to high, as in a light theme */
	ramp: Bytes;
	diverging: boolean;
	/** what `0` and `1` of the ramp stand for; in a log scale low > 0 */
	range: [number, number];
	scale: "linear" | "log" | "row";
	/** true where weights lie beyond that end of the range */
	clips: [boolean, boolean];
	/** sentences for the legend: "key 0 is out of the scale" */
	notes: string[];
}

export type Cell = [query: number, key: number];
export type Generated = [key: number | null, query: number | null];
export type Window = [q0: number, q1: number, k0: number, k1: number];

/** The keys with the largest weights in one query's row, largest first. */
export interface TopKeys {
	query: number;
	keys: number[];
	weights: number[];
}

/** The synced traits. */
export interface State {
	tokens: WireLabels;
	/** null: the same as tokens, in the same places */
	queries: WireLabels | null;
	/** what the rows and the columns are: "Query", "Key" */
	query_title: string;
	key_title: string;
	/** what the numbers are: "weight" */
	value_title: string;
	weights: WireTile;
	scheme: string;
	show_values: boolean | null;
	/** [q0, q1, k0, k1] in tokens, ends not included; null: everything */
	viewport: Window | null;
	/** the viewport in more detail than `weights`, where that is pooled */
	_detail: WireTile | null;
	/** the largest weights of one row, for grids whose rows do not travel whole */
	_top: TopKeys | null;
	/** the first index that was generated on each axis; null: none is marked there */
	generated: Generated | null;
	/** labels beside which the map is laid out in place of its own, so that several line up */
	_room: Pick<State, "tokens" | "queries"> | null;
	title: string;
	class_name: string;
	hover: Cell | null;
	selection: Cell | null;
	error: string;
	status: string;
	_colors: WireColors;
	_checks: string[];
}

/** The second, where there are kernels that restart: this model has no other end any more. */
export type ModelEvent = `change:${keyof State}` | "comm_live_update";

/** The host's side of the widget protocol: all that a front end with these traits asks of it. */
export interface HostModel<Traits, Event extends string = `change:${keyof Traits & string}`> {
	get<K extends keyof Traits>(name: K): Traits[K];
	set<K extends keyof Traits>(name: K, value: Traits[K]): void;
	save_changes(): void;
	on(event: Event, callback: () => void): void;
	off(event: Event, callback: () => void): void;
}

export type Model = HostModel<State, ModelEvent>;

export function sameWindow(a: Window | null, b: Window | null): boolean {
	return a === b || (a !== null && b !== null && a.every((end, i) => end === b[i]));
}

/** A decoded tile. `weights` and `states` are row by row, `shape` long. */
export interface Tile {
	size: [number, number];
	shape: [number, number];
	window: [number, number, number, number];
	bin: [number, number];
	pool: Pool;
	weights: Float32Array;
	states: Uint8Array | null;
	/** see `WireTile` */
	at: Uint16Array | Uint32Array | null;
}

/** Where that token stands, for reading; what identifies it is the index. */
export function positionAt({ positions }: Labels, index: number): number {
	// A label that is about to go may ask for a place that the new tokens do not have.
	if (positions === null || 4 * index >= positions.byteLength) return index;
	const { buffer, byteOffset } = bytesOf(positions);
	return new DataView(buffer, byteOffset).getUint32(4 * index, true);
}

/** The bytes themselves, without a copy, wherever they start in their buffer. */
export function bytesOf(bytes: ArrayBuffer | ArrayBufferView): Uint8Array {
	return ArrayBuffer.isView(bytes)
		? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
		: new Uint8Array(bytes);
}

/** Wider numbers need an aligned start: copied only where the host's offset is not one. */
function aligned(bytes: Bytes): Uint8Array {
	const view = bytesOf(bytes);
	return view.byteOffset % 4 === 0 ? view : view.slice();
}

export function decodeTile(wire: WireTile): Tile {
	const data = aligned(wire.data);
	const count = wire.shape[0] * wire.shape[1];
	const states = wire.states && bytesOf(wire.states);
	return {
		size: wire.size,
		shape: wire.shape,
		window: wire.window,
		bin: wire.bin,
		pool: wire.pool ?? "max",
		weights: new Float32Array(data.buffer, data.byteOffset, data.byteLength >> 2),
		states: states && wire.at ? twoEach(states, count) : states,
		at: wire.at && integersOf(wire.at, count),
	};
}

function twoEach(bytes: Uint8Array, count: number): Uint8Array {
	return Uint8Array.from(
		{ length: count },
		(_, i) => ((bytes[i >> 1] as number) >> ((i & 1) * 4)) & 15,
	);
}

/** `count` numbers of 16 bits, or of 32 where one of them is not that small. */
export function integersOf(bytes: Bytes, count: number): Uint16Array | Uint32Array {
	const { buffer, byteOffset, byteLength } = aligned(bytes);
	return byteLength > 2 * count
		? new Uint32Array(buffer, byteOffset, byteLength >> 2)
		: new Uint16Array(buffer, byteOffset, byteLength >> 1);
}

export function sameCell(a: Cell | null, b: Cell | null): boolean {
	return a === b || (a !== null && b !== null && a[0] === b[0] && a[1] === b[1]);
}
