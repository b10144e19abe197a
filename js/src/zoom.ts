/** Windows of tokens: clamped, zoomed, panned, snapped. Pure; ends may be fractions on the way. */

import { clamp } from "./geometry";
import type { Cell, Window } from "./model";

export type Size = readonly [queries: number, keys: number];
/** A place in the plot, 0 to 1 from its top and from its left. */
export type Place = readonly [down: number, across: number];
type Span = [from: number, to: number];

/** The smallest window, in tokens. */
const LEAST = 4;

export const wholeOf = ([queries, keys]: Size): Window => [0, queries, 0, keys];

export function isWhole([q0, q1, k0, k1]: Window, [queries, keys]: Size): boolean {
	return q0 <= 0 && k0 <= 0 && q1 >= queries && k1 >= keys;
}

function bothWays(
	[q0, q1, k0, k1]: Window,
	size: Size,
	change: (span: Span, count: number, axis: 0 | 1) => Span,
): Window {
	return [...change([q0, q1], size[0], 0), ...change([k0, k1], size[1], 1)];
}

/** Neither too small nor past the ends; what is moved in from an end keeps its length. */
export function clampWindow(window: Window, size: Size): Window {
	return bothWays(window, size, (span, count) => clampSpan(span, count));
}

function clampSpan([from, to]: Span, count: number): Span {
	const length = clamp(to - from, Math.min(LEAST, count), count);
	const start = length === to - from ? from : (from + to - length) / 2;
	const moved = clamp(start, 0, count - length);
	return [moved, moved + length];
}

/** `factor` times as much in view; what is at `place` stays there. */
export function zoomAbout(window: Window, place: Place, factor: number, size: Size): Window {
	return bothWays(window, size, ([from, to], count, axis) => {
		const length = clamp((to - from) * factor, Math.min(LEAST, count), count);
		const start = from + place[axis] * (to - from - length);
		return clampSpan([start, start + length], count);
	});
}

export function panBy(window: Window, [down, across]: readonly [number, number], size: Size) {
	const by = [down, across] as const;
	return bothWays(window, size, ([from, to], count, axis) =>
		clampSpan([from + by[axis], to + by[axis]], count),
	);
}

/** The window of whole tokens nearest to it in which the token at `place` is still there. */
export function snapAbout(window: Window, place: Place, size: Size): Window {
	return bothWays(window, size, ([from, to], count, axis) => {
		const share = place[axis];
		const token = from + share * (to - from);
		const length = Math.max(Math.min(LEAST, count), Math.round(to - from));
		const ideal = token - share * length;
		const low = Math.floor(ideal);
		const start = Math.floor(low + share * length) === Math.floor(token) ? low : low + 1;
		const moved = clamp(start, 0, Math.max(0, count - length));
		return [moved, Math.min(count, moved + length)];
	});
}

/** All tokens that a window touches. */
export function outward(window: Window, size: Size): Window {
	const grown = bothWays(window, size, ([from, to]) => [Math.floor(from), Math.ceil(to)]);
	// Grown to the smallest length it may start between two tokens.
	return clampWindow(grown, size).map(Math.floor) as Window;
}

export function contains([q0, q1, k0, k1]: Window, [query, key]: Cell): boolean {
	return query >= q0 && query < q1 && key >= k0 && key < k1;
}

/** Moved as little as it takes to have a cell in view, a little off the edge where `margin` asks. */
export function reveal(window: Window, cell: Cell, size: Size, margin = 0): Window {
	return bothWays(window, size, ([from, to], count, axis) => {
		const room = Math.floor(Math.min(margin * (to - from), (to - from - 1) / 2));
		const at = cell[axis];
		if (at >= from && at + 1 <= to) return [from, to];
		const by = at < from ? at - room - from : at + 1 + room - to;
		return clampSpan([from + by, to + by], count);
	});
}

/** On the way from one to the other. Straight, so that what both have in one place stays there. */
export function between(a: Window, b: Window, share: number): Window {
	const at = (i: 0 | 1 | 2 | 3) => a[i] + (b[i] - a[i]) * share;
	return [at(0), at(1), at(2), at(3)];
}

/** The window that a rectangle of places, each 0 to 1, encloses. */
export function windowIn([q0, q1, k0, k1]: Window, a: Place, b: Place): Window {
	const query = (share: number) => q0 + share * (q1 - q0);
	const key = (share: number) => k0 + share * (k1 - k0);
	return [
		query(Math.min(a[0], b[0])),
		query(Math.max(a[0], b[0])),
		key(Math.min(a[1], b[1])),
		key(Math.max(a[1], b[1])),
	];
}
