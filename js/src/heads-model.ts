/** What Python sends of a grid of heads, and what the browser sends back, as types. */

import type { Bytes, HostModel } from "./model";

export type Head = [layer: number, head: number];

/** As `attnmap_widget.heads.sheet.Known`. */
export const Known = { nothing: 0, all: 1, sample: 2, error: 3 } as const;

/**
 * Heads by index, or (`at`) some of them. `data` holds, one after the other: numbers (float32,
 * heads × columns, NaN = none), ranges (float32, heads × 2), known (uint8, heads), shapes (uint8,
 * heads × 2), levels (uint8, heads × slot), all little-endian.
 */
export interface WireSheet {
	heads: number;
	slot: number;
	columns: number;
	at: Bytes | null;
	data: Bytes;
}

/** One number that is known of each head. */
export interface Column {
	name: string;
	title: string;
	unit: string;
	/** its definition */
	text: string;
}

/** The synced traits. A test on the Python side compares them with these names. */
export interface HeadsState {
	selection: Head | null;
	range: "shared" | "head";
	/** the name of a column, or null */
	sort_by: string | null;
	tint_by: string | null;
	title: string;
	class_name: string;
	status: string;
	error: string;
	_sheet: WireSheet;
	/** heads that were read since `_sheet` was sent */
	_part: WireSheet | null;
	/** layers, and how many heads each has */
	_rows: [layer: number, heads: number][];
	/** false: one stack of heads that nobody called a layer */
	_named: boolean;
	_columns: Column[];
	/** 256 RGB triples, as in a light theme */
	_colors: { ramp: Bytes; diverging: boolean };
	_tint: Bytes;
	/** how many heads have been read, of how many; null when that is over */
	_progress: [read: number, all: number] | null;
	/** messages, each with the heads it belongs to */
	_errors: [message: string, heads: number[]][];
	_note: string;
	/** counts how often somebody asked to stop */
	_cancels: number;
}

export type HeadsModel = HostModel<HeadsState>;
