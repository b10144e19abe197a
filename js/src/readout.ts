/** What a cell says: a reading is worked out once, then written, tipped or spoken. */

import { type Cell, type Labels, positionAt, State, sameCell, type Tile } from "./model";
import { formatWeight, ordinal } from "./numbers";
import {
	cellAt,
	counts,
	hasWholeRows,
	isLeak,
	isPooled,
	locate,
	paddingSide,
	type Spot,
	stateAt,
	weightAt,
} from "./tile";
import { inside, isAttention, leakWords, stateWords, type Titles, valueWords } from "./words";

export interface Name {
	/** where it stands in the sequence */
	position: number;
	label: string;
	/** the token as given, where the label reads differently */
	raw: string | null;
}

export interface Reading {
	cell: Cell;
	titles: Titles;
	query: Name;
	key: Name;
	/** NaN: there is none */
	weight: number;
	/** what the cell is when it is no plain weight */
	words: string | null;
	/** the rest of the line */
	notes: string[];
	/** the pinned cell, out of view: there is a way to go there */
	away: boolean;
}

export const HINT = "Hover a cell to read it; click or Enter pins, arrows move, Escape clears";
/** For maps that one does not see at a glance. */
export const LARGE_HINT =
	"Hover a cell to read it, click pins; a drag or Ctrl/⌘+wheel zooms, Shift+drag pans, / finds a token";

export function nameOf(labels: Labels, index: number): Name {
	const label = labels.labels[index] ?? String(index);
	const raw = labels.raw?.[index] ?? null;
	return { position: positionAt(labels, index), label, raw: raw === label ? null : raw };
}

/** Null where there is no such cell in the grid. */
export function readCell(
	tile: Tile,
	queries: Labels,
	keys: Labels,
	titles: Titles,
	cell: Cell | null,
): Reading | null {
	if (cell === null) return null;
	const [query, key] = cell;
	if (query < 0 || key < 0 || query >= tile.size[0] || key >= tile.size[1]) return null;
	const places = { query: nameOf(queries, query), key: nameOf(keys, key) };
	const names = { cell, titles, ...places, away: false };
	const spot = locate(tile, cell);
	if (spot === null) return { ...names, weight: Number.NaN, words: null, notes: [] };

	const weight = weightAt(tile, spot);
	const bin = isPooled(tile) ? `${tile.bin[0]} × ${tile.bin[1]} cells` : "";
	const top = cellAt(tile, spot);
	if (bin && tile.pool === "mean")
		return { ...names, ...meanOf(tile, spot, cell, bin, queries, keys, titles) };
	if (bin && !sameCell(top, cell)) {
		const at = `${positionAt(queries, top[0])}, ${positionAt(keys, top[1])}`;
		const words = `among ${bin}, largest ${formatWeight(weight)} at (${at})`;
		return { ...names, weight: Number.NaN, words, notes: [] };
	}
	const counted = counts(tile, spot);
	const shown = counted || stateAt(tile, spot) === State.padding ? weight : Number.NaN;
	const row = counted ? rowNotes(tile, spot[0], weight) : [];
	const notes = bin ? [`largest of ${bin}`] : row;
	return { ...names, weight: shown, words: wordsOf(tile, titles, spot, weight), notes };
}

/** A mean is no cell's weight: it is said as what it is, and where the largest of them is. */
function meanOf(
	tile: Tile,
	spot: Spot,
	cell: Cell,
	bin: string,
	queries: Labels,
	keys: Labels,
	titles: Titles,
) {
	const mean = weightAt(tile, spot);
	const words = wordsOf(tile, titles, spot, mean);
	if (!counts(tile, spot)) return { weight: Number.NaN, words, notes: [] };
	const top = cellAt(tile, spot);
	const at = `${positionAt(queries, top[0])}, ${positionAt(keys, top[1])}`;
	const where = sameCell(top, cell) ? "here" : `at (${at})`;
	const said = `mean ${formatWeight(mean)} of the weights in ${bin}, the largest is ${where}`;
	return { weight: Number.NaN, words: words === null ? said : `${said} · ${words}`, notes: [] };
}

function wordsOf(tile: Tile, titles: Titles, spot: Spot, weight: number): string | null {
	const state = stateAt(tile, spot);
	if (isLeak(state, weight)) return leakWords(titles);
	if (state !== State.padding) return stateWords(titles).get(state) ?? null;
	const side = paddingSide(tile, spot);
	if (side === null) return "padding";
	return `padding ${side === "query" ? inside(titles.query, "Query") : inside(titles.key, "Key")}`;
}

/** Rank among the weights of the row, equals sharing it, and the row's sum as Python gives it. */
function rowNotes(tile: Tile, row: number, weight: number): string[] {
	let larger = 0;
	let of = 0;
	let sum = 0;
	for (let column = 0; column < tile.shape[1]; column++) {
		const other = weightAt(tile, [row, column]);
		if (!Number.isNaN(other)) sum += other;
		if (!counts(tile, [row, column])) continue;
		of++;
		if (other > weight) larger++;
	}
	const whole = hasWholeRows(tile);
	const rank = `${ordinal(larger + 1)} of ${of} in ${whole ? "its row" : "view"}`;
	return whole ? [rank, `row sums to ${formatWeight(Math.abs(sum) < 1e-6 ? 0 : sum)}`] : [rank];
}

export interface Piece {
	text: string;
	kind: "strong" | "muted" | "plain" | "token";
}

function tokenPieces(title: string, name: Name): Piece[] {
	const pieces: Piece[] = [{ text: name.label, kind: "token" }];
	if (title) pieces.unshift({ text: `${title} `, kind: "muted" });
	if (name.raw !== null) pieces.push({ text: ` “${name.raw}”`, kind: "muted" });
	return [...pieces, { text: ` (${name.position})`, kind: "muted" }];
}

/**
 * "it (9) looks at trophy (1) 0.41 · 1st of 10 in its row · row sums to 1.00"; where the axes have
 * names of their own, "Token it (9) → Expert 3 (3) 0.41 · …"; where the value has one,
 * "it (9) looks at trophy (1): difference −0.41 · …"
 */
export function sentence(reading: Reading): Piece[] {
	const weighted = !Number.isNaN(reading.weight);
	const attention = isAttention(reading.titles);
	const { query, key } = attention ? { query: "", key: "" } : reading.titles;
	const pieces = tokenPieces(query, reading.query);
	pieces.push({ text: weighted && attention ? " looks at " : " → ", kind: "plain" });
	pieces.push(...tokenPieces(key, reading.key));
	const value = valueWords(reading.titles);
	if (weighted && value) pieces.push({ text: `: ${value.trimEnd()}`, kind: "plain" });
	if (weighted) pieces.push({ text: ` ${formatWeight(reading.weight)}`, kind: "strong" });
	const rest = reading.words === null ? reading.notes : [reading.words, ...reading.notes];
	for (const note of rest) pieces.push({ text: ` · ${note}`, kind: "muted" });
	return pieces;
}

/** The same, briefly, for the focused cell of the grid. */
export function spoken(reading: Reading): string {
	const { weight } = reading;
	const value = Number.isNaN(weight) ? "" : valueWords(reading.titles) + formatWeight(weight);
	const said = [value, reading.words ?? ""].filter(Boolean).join(", ");
	const { query, key, titles } = reading;
	const [a, b] = isAttention(titles) ? ["", ""] : [`${titles.query} `, `${titles.key} `];
	return `${a}${query.label} (${query.position}) → ${b}${key.label} (${key.position}): ${said}`;
}

/** Writes pieces of text; whatever a token holds, it stays text. */
export function write(into: HTMLElement, pieces: readonly Piece[]): void {
	into.replaceChildren(
		...pieces.map(({ text, kind }) => {
			if (kind === "plain") return document.createTextNode(text);
			const tag = kind === "token" ? "bdi" : kind === "strong" ? "b" : "span";
			const element = document.createElement(tag);
			element.className = `attnmap-${kind}`;
			element.textContent = text;
			return element;
		}),
	);
}

/** `show` leads to a pinned cell that is out of view. What is written already is left alone. */
export function writeReading(
	into: HTMLElement,
	reading: Reading | null,
	show: HTMLElement,
	hint: string,
): void {
	const pieces: Piece[] = reading ? sentence(reading) : [{ text: hint, kind: "muted" }];
	const text = pieces.map((piece) => piece.text).join("");
	const away = reading?.away ?? false;
	if (into.textContent === text + (away ? show.textContent : "")) return;
	write(into, pieces);
	if (away) into.append(show);
}

export function writeTip(into: HTMLElement, reading: Reading): void {
	const said = Number.isNaN(reading.weight) ? (reading.words ?? "") : formatWeight(reading.weight);
	write(into, [
		{ text: reading.query.label, kind: "token" },
		{ text: " → ", kind: "muted" },
		{ text: reading.key.label, kind: "token" },
		{ text: said, kind: "strong" },
	]);
}
