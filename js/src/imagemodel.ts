/** What Python sends for a picture, as types; and the one place where its bytes become arrays. */

import { type Bytes, bytesOf, type HostModel, type WireColors } from "./model";

/** One picture, or one frame of a video. */
export interface WireFrame {
	/** as PNG */
	data: Bytes;
	width: number;
	height: number;
}

/** Which key is which patch. */
export interface WirePlacing {
	frames: number;
	/** patches down and across one frame */
	rows: number;
	columns: number;
	/** int32 little-endian per patch, row by row, frame by frame; -1 where the map has no key for it */
	keys: Bytes;
	/** whether a patch can be the query */
	square: boolean;
}

/** One query's weights as they lie on the picture. */
export interface WireRow {
	query: number;
	name: string;
	/** of the current cell, which need not be a patch */
	key: number | null;
	/** float32 little-endian per patch; NaN where there is no weight */
	weights: Bytes;
	/** uint8 per patch, or null when every one is a plain weight or zero */
	states: Bytes | null;
	/** the row's largest magnitude, for a scale by rows */
	top: number;
	/** the weights on patches, and all of them, added up */
	on: number;
	total: number;
	/** tokens that are no patch */
	others: [name: string, key: number, weight: number | null][];
	/** how many more, and their weights added up */
	left_out: [count: number, weight: number];
}

/** The synced traits. */
export interface ImageState {
	_frames: WireFrame[];
	_placing: WirePlacing;
	_row: WireRow;
	_colors: WireColors;
	_map_title: string;
	/** what the map's numbers are: "weight" */
	_value_title: string;
	/** the key under the pointer here */
	hover: number | null;
	/** the key that shall be the query; none: let go of it */
	_picked: number[] | null;
	opacity: number;
	smooth: boolean;
	/** null: the map's */
	title: string | null;
	error: string;
}

export type ImageModel = HostModel<ImageState>;

export interface Placing {
	frames: number;
	rows: number;
	columns: number;
	keys: Int32Array;
	square: boolean;
}

export interface Row extends Omit<WireRow, "weights" | "states"> {
	weights: Float32Array;
	states: Uint8Array | null;
}

/** A copy, as hosts give any offset and 4-byte numbers need an aligned start. */
const copied = (bytes: Bytes) => bytesOf(bytes).slice().buffer;

export function decodePlacing(wire: WirePlacing): Placing {
	return { ...wire, keys: new Int32Array(copied(wire.keys)) };
}

export function decodeRow(wire: WireRow): Row {
	const states = wire.states && bytesOf(wire.states);
	return { ...wire, weights: new Float32Array(copied(wire.weights)), states };
}
