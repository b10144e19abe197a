/** The words for rows, columns and states, which follow from what the axes are called. */

import { type Generated, type Labels, positionAt, State } from "./model";

/** What the axes are called, and what a cell holds. */
export interface Titles {
	query: string;
	key: string;
	value: string;
}

export const ATTENTION: Titles = { query: "Query", key: "Key", value: "weight" };

/** Whether rows look at columns; else they are things of some other kind. */
export function isAttention({ query, key }: Titles): boolean {
	return query === ATTENTION.query && key === ATTENTION.key;
}

/** In the order of the legend; read-outs use them too. */
export function stateWords(titles: Titles): ReadonlyMap<number, string> {
	const attention = isAttention(titles);
	return new Map([
		[State.empty, `empty (no ${titles.value} given)`],
		[State.cannotLook, attention ? "cannot look" : "masked"],
		[State.noValidKey, `no valid ${inside(titles.key, "Key")}`],
		[State.padding, "padding"],
		[State.notYet, "not yet"],
	]);
}

export function leakWords(titles: Titles): string {
	return `${titles.value} where ${isAttention(titles) ? "it cannot look" : "masked"}`;
}

/** 3 queries × 8 keys; 3 × 8 (Token × Expert). */
export function sizeWords(titles: Titles, queries: number, keys: number): string {
	if (!isAttention(titles)) return `${queries} × ${keys} (${titles.query} × ${titles.key})`;
	return `${queries} ${queries === 1 ? "query" : "queries"} × ${keys} ${keys === 1 ? "key" : "keys"}`;
}

/** "generated from key 7 and query 7 on (in italics)", as a list of none or one. */
export function generatedWords(
	named: { titles: Titles; keys: Labels; queries: Labels; generated: Generated },
	[queries, keys]: readonly [number, number],
): string[] {
	const { titles, generated } = named;
	const [key, query] = generated;
	const from: string[] = [];
	if (key !== null && key < keys)
		from.push(`${inside(titles.key, "Key")} ${positionAt(named.keys, key)}`);
	if (query !== null && query < queries)
		from.push(`${inside(titles.query, "Query")} ${positionAt(named.queries, query)}`);
	return from.length > 0 ? [`generated from ${from.join(" and ")} on (in italics)`] : [];
}

/** "Largest keys of this query". */
export function topWords(titles: Titles): string {
	if (isAttention(titles)) return "Largest keys of this query";
	return `Largest of this row: ${titles.key}`;
}

/** A title in the middle of a sentence; one that was given keeps its capitals. */
export function inside(title: string, usual: string): string {
	return title === usual ? title.toLowerCase() : title;
}

/** "weight" needs no saying before each number; other values do. */
export function valueWords({ value }: Titles): string {
	return value === ATTENTION.value ? "" : `${value} `;
}
