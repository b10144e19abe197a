/**
 * The tokens as running text. A query shades the keys by its row, a key shades the queries by its
 * column; a click locks that. With nothing pointed at it follows the current cell of the map.
 */

import { css, inkOn, type Rgb } from "./color";
import { listen } from "./listen";
import type { Labels } from "./model";
import { nameOf } from "./readout";
import type { Spot } from "./tile";
import { element } from "./view";
import type { Titles } from "./words";

export interface StripInput {
	queries: Labels;
	keys: Labels;
	titles: Titles;
	/** queries and keys; null: too many to read along */
	size: readonly [number, number] | null;
	/** what the map shows for a cell; null where it has no colour */
	shade(spot: Spot): Rgb | null;
}

export interface Strip {
	draw(input: StripInput): void;
	/** the query of the map's current cell */
	follow(query: number | null): void;
}

type Side = "query" | "key";
interface Target {
	side: Side;
	index: number;
}

export const STRIP_LIMIT = 512;

export function createStrip(details: HTMLDetailsElement, signal: AbortSignal): Strip {
	let input: StripInput | null = null;
	let hovered: Target | null = null;
	let locked: Target | null = null;
	let followed: number | null = null;
	let built = false;
	const tokens: Record<Side, HTMLElement[]> = { query: [], key: [] };

	const summary = element("summary", "summary", {}, ["Read along the tokens"]);
	const lines: Record<Side, HTMLElement> = {
		query: element("div", "strip-line", { "data-side": "query" }),
		key: element("div", "strip-line", { "data-side": "key" }),
	};
	details.append(summary, lines.query, lines.key);

	const build = (side: Side, caption: string, labels: Labels, count: number) => {
		tokens[side] = Array.from({ length: count }, (_, index) => {
			const attributes = { dir: "auto", "data-index": String(index) };
			return element("span", "strip-token", attributes, [nameOf(labels, index).label]);
		});
		lines[side].replaceChildren(element("span", "strip-title", {}, [caption]), ...tokens[side]);
	};

	const shade = () => {
		if (!details.open || input?.size == null) return;
		if (!built) {
			build("query", input.titles.query, input.queries, input.size[0]);
			build("key", input.titles.key, input.keys, input.size[1]);
			built = true;
		}
		const fallback: Target | null = followed === null ? null : { side: "query", index: followed };
		const target = locked ?? hovered ?? fallback;
		for (const side of ["query", "key"] as const) {
			tokens[side].forEach((token, index) => {
				const own = target?.side === side;
				const spot: Spot | null =
					target === null || own
						? null
						: side === "key"
							? [target.index, index]
							: [index, target.index];
				const color = spot && (input?.shade(spot) ?? null);
				token.style.background = color ? css(color) : "";
				token.style.color = color ? css(inkOn(color)) : "";
				token.classList.toggle("attnmap-bold", own && target.index === index);
				token.classList.toggle("attnmap-locked", own && locked?.index === index);
			});
		}
	};

	const targetOf = (event: Event): Target | null => {
		const token = (event.target as Element).closest<HTMLElement>(".attnmap-strip-token");
		const side = token?.parentElement?.dataset.side;
		if (!token || (side !== "query" && side !== "key")) return null;
		return { side, index: Number(token.dataset.index) };
	};
	const point = (event: Event) => {
		hovered = event.type === "pointerleave" ? null : targetOf(event);
		shade();
	};
	const lock = (event: Event) => {
		const target = targetOf(event);
		if (target === null) return;
		const same = locked?.side === target.side && locked.index === target.index;
		locked = same ? null : target;
		shade();
	};
	for (const side of ["query", "key"] as const) {
		listen(lines[side], signal, { pointerover: point, pointerleave: point, click: lock });
	}
	listen(details, signal, { toggle: shade });

	return {
		draw(next) {
			const [rows, columns] = next.size ?? [0, 0];
			if (input?.queries !== next.queries || input.keys !== next.keys) built = false;
			if (input?.titles.query !== next.titles.query) built = false;
			if (input?.titles.key !== next.titles.key) built = false;
			if (tokens.query.length !== rows || tokens.key.length !== columns) built = false;
			if (!built) locked = hovered = null;
			input = next;
			details.hidden = next.size === null;
			shade();
		},
		follow(query) {
			if (query === followed) return;
			followed = query;
			shade();
		},
	};
}
