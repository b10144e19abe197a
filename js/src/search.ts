/** Finds a token among the queries and goes from one row that has it to the next. */

import { listen } from "./listen";
import type { Labels } from "./model";
import { element } from "./view";

/** The positions whose label or raw token has the text in it, whatever the case. */
export function findTokens({ labels, raw }: Labels, text: string): number[] {
	const wanted = text.toLowerCase();
	const found: number[] = [];
	if (wanted === "") return found;
	labels.forEach((label, index) => {
		const has = (given: string | null | undefined) => given?.toLowerCase().includes(wanted);
		if (has(label) || has(raw?.[index])) found.push(index);
	});
	return found;
}

export interface SearchWorld {
	labels(): Labels;
	/** the row to go on from */
	row(): number;
	jump(row: number): void;
	/** where the focus goes when it closes */
	home: HTMLElement;
}

export interface Search {
	open(): void;
	/** other tokens: what was found is not true any more */
	forget(): void;
}

export function createSearch(into: HTMLElement, world: SearchWorld, signal: AbortSignal): Search {
	const input = element("input", "search-text", {
		type: "text",
		"aria-label": "Find a token",
		placeholder: "Find a token",
		autocomplete: "off",
		spellcheck: "false",
	});
	const said = element("span", "search-count", { role: "status" });
	const panel = element("div", "search", { role: "search", hidden: "" }, [input, said]);
	into.append(panel);
	let found: number[] | null = null;
	/** which of them was gone to; -1: none yet */
	let at = -1;

	const say = () => {
		const n = found?.length ?? 0;
		const none = input.value === "" ? "" : "not found";
		said.textContent = n === 0 ? none : at < 0 ? `${n} found` : `${at + 1} of ${n}`;
	};
	const look = () => {
		found = findTokens(world.labels(), input.value);
		at = -1;
		say();
	};
	const go = (by: 1 | -1) => {
		if (found === null) look();
		const rows = found ?? [];
		if (rows.length === 0) return;
		if (at >= 0) at = (at + by + rows.length) % rows.length;
		else {
			const here = rows.findIndex((row) => row >= world.row());
			at = by === 1 ? Math.max(0, here) : (here < 0 ? rows.length : here) - 1;
			if (at < 0) at = rows.length - 1;
		}
		world.jump(rows[at] as number);
		say();
	};
	const close = () => {
		panel.hidden = true;
		world.home.focus();
	};
	const pressed = (event: KeyboardEvent) => {
		if (event.isComposing) return;
		event.stopPropagation();
		if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
		else if (event.key === "Escape") close();
		else return;
		event.preventDefault();
	};
	listen(input, signal, { input: look });
	listen(panel, signal, { keydown: pressed });

	return {
		open() {
			panel.hidden = false;
			input.focus();
			input.select();
		},
		forget() {
			found = null;
			at = -1;
			say();
		},
	};
}
