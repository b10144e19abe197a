/** A model as a host hands it over, and states to fill it with. Always rectangular. */

import { interpolateBlues, interpolateRdBu, interpolateViridis } from "d3-scale-chromatic";
import type { Labels, State, WireColors, WireTile } from "../src/model";

/** What every host gives a widget, whatever its traits. */
interface Host<S> {
	get<K extends keyof S>(name: K): S[K];
	set<K extends keyof S>(name: K, value: S[K]): void;
	save_changes(): void;
}

export class FakeModel<S extends object = State> implements Host<S> {
	readonly listeners = new Map<string, Set<() => void>>();
	/** what was saved, in order */
	readonly sent: Partial<S>[] = [];
	private unsaved: Partial<S> = {};

	constructor(readonly state: S) {}

	get<K extends keyof S>(name: K): S[K] {
		return this.state[name];
	}

	set<K extends keyof S>(name: K, value: S[K]): void {
		this.unsaved[name] = value;
		this.change({ [name]: value } as unknown as Partial<S>);
	}

	save_changes(): void {
		this.sent.push(this.unsaved);
		this.unsaved = {};
	}

	on(event: string, callback: () => void): void {
		const known = this.listeners.get(event) ?? new Set();
		this.listeners.set(event, known.add(callback));
	}

	off(event: string, callback: () => void): void {
		this.listeners.get(event)?.delete(callback);
	}

	/** As when Python assigns: all values first, then an event for each. */
	change(values: Partial<S>): void {
		Object.assign(this.state, values);
		for (const name of Object.keys(values)) {
			for (const callback of [...(this.listeners.get(`change:${name}`) ?? [])]) callback();
		}
	}

	get listening(): number {
		return [...this.listeners.values()].reduce((n, callbacks) => n + callbacks.size, 0);
	}
}

export function labels(texts: string[], raw: (string | null)[] | null = null): Labels {
	return { labels: texts, raw, positions: null };
}

export function names(n: number, prefix = "t"): string[] {
	return Array.from({ length: n }, (_, i) => `${prefix}${i}`);
}

export function bytes(values: ArrayLike<number>): DataView {
	return new DataView(Float32Array.from(values).buffer);
}

export function tileOf(rows: number[][], states: number[][] | null = null): WireTile {
	const shape: [number, number] = [rows.length, rows[0]?.length ?? 0];
	return {
		size: shape,
		shape,
		window: [0, shape[0], 0, shape[1]],
		bin: [1, 1],
		data: bytes(rows.flat()),
		states: states && new DataView(Uint8Array.from(states.flat()).buffer),
		at: null,
	};
}

const RAMPS = { Blues: interpolateBlues, RdBu: interpolateRdBu, Viridis: interpolateViridis };

export function rampOf(scheme: keyof typeof RAMPS): DataView {
	const triples = Array.from({ length: 256 }, (_, i) => {
		const color = RAMPS[scheme](i / 255);
		const hex = /^#(..)(..)(..)$/.exec(color)?.slice(1);
		return hex ? hex.map((part) => Number.parseInt(part, 16)) : color.match(/\d+/g)?.map(Number);
	});
	return new DataView(Uint8Array.from(triples.flat() as number[]).buffer);
}

export function colorsOf(
	scheme: keyof typeof RAMPS = "Blues",
	given: Partial<WireColors> = {},
): WireColors {
	return {
		ramp: rampOf(scheme),
		diverging: scheme === "RdBu",
		range: [0, 1],
		scale: "linear",
		clips: [false, false],
		notes: [],
		...given,
	};
}

export function stateOf(rows: number[][], given: Partial<State> = {}): State {
	return {
		tokens: labels(names(rows[0]?.length ?? 0, "key")),
		queries: labels(names(rows.length, "query")),
		query_title: "Query",
		key_title: "Key",
		value_title: "weight",
		_room: null,
		weights: tileOf(rows),
		scheme: "Blues",
		show_values: null,
		generated: null,
		title: "",
		class_name: "",
		hover: null,
		selection: null,
		viewport: null,
		_detail: null,
		_top: null,
		error: "",
		status: "",
		_colors: colorsOf(),
		_checks: [],
		...given,
	};
}

/** Rows of weights that sum to 1, different in every cell, the same every time. */
export function softmaxRows(rows: number, columns: number, causal = false, peak = 3): number[][] {
	let seed = 7;
	const random = () => {
		seed = (seed * 1103515245 + 12345) % 2147483648;
		return seed / 2147483648;
	};
	return Array.from({ length: rows }, (_, row) => {
		const raw = Array.from({ length: columns }, (_, column) =>
			causal && column > row ? 0 : Math.exp(peak * random()),
		);
		const sum = raw.reduce((a, b) => a + b, 0);
		return raw.map((weight) => weight / sum);
	});
}

/** States of a causal map: "cannot look" above the diagonal. */
export function causalStates(rows: number, columns: number): number[][] {
	return Array.from({ length: rows }, (_, row) =>
		Array.from({ length: columns }, (_, column) => (column > row ? 3 : 0)),
	);
}
