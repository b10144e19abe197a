/** The largest keys of the current query, as a short list. */

import { listen } from "./listen";
import { type Labels, positionAt, type Tile, type TopKeys } from "./model";
import { formatWeight } from "./numbers";
import { nameOf } from "./readout";
import { counts, hasWholeRows, weightAt } from "./tile";
import { element, line } from "./view";
import { type Titles, topWords } from "./words";

const SHOWN = 8;
const NOTHING = "Hover or pin a cell to see them";

/** Largest first, the first of equals first; null where the tile does not have the whole row. */
export function topOfRow(tile: Tile, query: number): TopKeys | null {
	const row = query - tile.window[0];
	if (!hasWholeRows(tile) || row < 0 || row >= tile.shape[0]) return null;
	const size = (key: number) => weightAt(tile, [row, key]);
	const keys: number[] = [];
	for (let key = 0; key < tile.shape[1]; key++) {
		const full = keys.length === SHOWN;
		if (full && size(key) <= size(keys[SHOWN - 1] as number)) continue;
		if (weightAt(tile, [row, key]) === 0 || !counts(tile, [row, key])) continue;
		if (full) keys.pop();
		let at = keys.length;
		while (at > 0 && size(keys[at - 1] as number) < size(key)) at--;
		keys.splice(at, 0, key);
	}
	return { query, keys, weights: keys.map((key) => weightAt(tile, [row, key])) };
}

export interface Top {
	/** `sent`: what Python says of a row that is not at hand */
	draw(query: number | null, tiles: readonly Tile[], sent: TopKeys | null, keys: Labels): void;
	/** where the list is of use at all, and what it is called */
	offer(offered: boolean, titles: Titles): void;
}

export function createTop(details: HTMLDetailsElement, signal: AbortSignal): Top {
	const list = element("ol", "top-list");
	const summary = element("summary", "summary");
	details.append(summary, list);
	let given: Parameters<Top["draw"]> | null = null;
	let shown: unknown[] = [];

	const draw = () => {
		if (!details.open || given === null) return;
		const [query, tiles, sent, keys] = given;
		const what = [query, sent, keys, ...tiles];
		if (what.length === shown.length && what.every((one, i) => one === shown[i])) return;
		shown = what;
		const items = query === null ? [] : itemsOf(query, tiles, sent, keys);
		list.replaceChildren(...(items.length > 0 ? items : [NOTHING]));
	};
	listen(details, signal, { toggle: draw });
	return {
		draw(...next) {
			given = next;
			draw();
		},
		offer(offered, titles) {
			line(summary, topWords(titles));
			details.hidden = !offered;
		},
	};
}

function itemsOf(query: number, tiles: readonly Tile[], sent: TopKeys | null, keys: Labels) {
	let top = sent?.query === query ? sent : null;
	for (const tile of tiles) top = topOfRow(tile, query) ?? top;
	const most = Math.max(...(top?.weights.map(Math.abs) ?? []));
	return (top?.keys ?? []).slice(0, SHOWN).map((key, n) => {
		const weight = top?.weights[n] ?? Number.NaN;
		const bar = element("span", "top-bar");
		bar.style.width = `${(Math.abs(weight) / most) * 4}em`;
		return element("li", "top-key", {}, [
			element("bdi", "top-token", {}, [nameOf(keys, key).label]),
			element("span", "muted", {}, [`(${positionAt(keys, key)})`]),
			element("span", "top-weight", {}, [formatWeight(weight)]),
			bar,
		]);
	});
}
