/** Keys of the ARIA grid pattern, and those of the view. The others go on to the host untouched. */

import { clamp } from "./geometry";
import { listen } from "./listen";
import type { Cell } from "./model";
import type { Size } from "./zoom";

type Step = readonly [down: number, across: number];

const STEPS: Partial<Record<string, Step>> = {
	ArrowUp: [-1, 0],
	ArrowDown: [1, 0],
	ArrowLeft: [0, -1],
	ArrowRight: [0, 1],
	PageUp: [-10, 0],
	PageDown: [10, 0],
};

/** Where a key leads, or null if it does not move. A step goes over all tokens of a drawn cell. */
export function move(
	key: string,
	control: boolean,
	[query, at]: Cell,
	[queries, keys]: Size,
	[down, across]: Step = [1, 1],
): Cell | null {
	const last: Cell = [queries - 1, keys - 1];
	const to = (q: number, k: number): Cell => [clamp(q, 0, last[0]), clamp(k, 0, last[1])];
	if (key === "Home") return to(control ? 0 : query, 0);
	if (key === "End") return to(control ? last[0] : query, last[1]);
	const step = control ? undefined : STEPS[key];
	return step ? to(query + step[0] * down, at + step[1] * across) : null;
}

export interface Keys {
	size(): Size;
	/** tokens to a drawn cell, where the cursor is */
	step(): Step;
	current(): Cell;
	moveTo(cell: Cell): void;
	pin(cell: Cell): void;
	/** false: there was nothing to clear */
	clear(): boolean;
	zoom(factor: number): void;
	/** by shares of the view */
	pan(by: Step): void;
	reset(): void;
	search(): void;
}

const CLOSER = 2 / 3;
const PAN = 0.2;

export function listenToKeys(grid: HTMLElement, keys: Keys, signal: AbortSignal): void {
	const ofView = (event: KeyboardEvent): boolean => {
		const arrow = event.key.startsWith("Arrow") ? STEPS[event.key] : undefined;
		if (event.shiftKey && arrow) keys.pan([arrow[0] * PAN, arrow[1] * PAN]);
		// "+" and "/" need Shift on some keyboards and not on others.
		else if (event.key === "+" || event.key === "=") keys.zoom(CLOSER);
		else if (event.key === "-" || event.key === "_") keys.zoom(1 / CLOSER);
		else if (event.key === "/") keys.search();
		else if (event.key === "0") keys.reset();
		else return false;
		return true;
	};
	const ofGrid = (event: KeyboardEvent, control: boolean): boolean => {
		const cell = move(event.key, control, keys.current(), keys.size(), keys.step());
		if (cell !== null) keys.moveTo(cell);
		else if (control) return false;
		else if (event.key === "Enter" || event.key === " ") keys.pin(keys.current());
		else return event.key === "Escape" && keys.clear();
		return true;
	};
	const pressed = (event: KeyboardEvent) => {
		if (event.altKey || event.isComposing) return;
		const control = event.ctrlKey || event.metaKey;
		const handled = (!control && ofView(event)) || (!event.shiftKey && ofGrid(event, control));
		if (!handled) return;
		event.preventDefault();
		event.stopPropagation();
	};
	listen(grid, signal, { keydown: pressed });
	leaveShortcuts(grid, signal);
}

/**
 * JupyterLab sees keys before any widget does, and moves to another notebook cell at an arrow key.
 * It leaves alone what carries this attribute; with Ctrl or ⌘ held, its shortcuts are welcome.
 */
export function leaveShortcuts(grid: HTMLElement, signal: AbortSignal): void {
	const suppress = ({ ctrlKey, metaKey }: { ctrlKey?: boolean; metaKey?: boolean }) => {
		grid.toggleAttribute("data-lm-suppress-shortcuts", !ctrlKey && !metaKey);
	};
	suppress({});
	listen(grid, signal, { keydown: suppress, keyup: suppress, blur: () => suppress({}) });
}
