/** Keys of the ARIA grid pattern. Keys that are not handled go on to the host untouched. */

import type { Spot } from "./tile";

const STEPS: Partial<Record<string, Spot>> = {
	ArrowUp: [-1, 0],
	ArrowDown: [1, 0],
	ArrowLeft: [0, -1],
	ArrowRight: [0, 1],
	PageUp: [-10, 0],
	PageDown: [10, 0],
};

/** Where a key leads, or null if it does not move. */
export function move(
	key: string,
	control: boolean,
	[row, column]: Spot,
	[rows, columns]: readonly [number, number],
): Spot | null {
	const last: Spot = [rows - 1, columns - 1];
	const to = (r: number, c: number): Spot => [
		Math.min(Math.max(r, 0), last[0]),
		Math.min(Math.max(c, 0), last[1]),
	];
	if (key === "Home") return to(control ? 0 : row, 0);
	if (key === "End") return to(control ? last[0] : row, last[1]);
	const step = control ? undefined : STEPS[key];
	return step ? to(row + step[0], column + step[1]) : null;
}

export interface Keys {
	shape(): readonly [number, number];
	current(): Spot;
	moveTo(spot: Spot): void;
	pin(spot: Spot): void;
	/** false: there was nothing to clear */
	clear(): boolean;
}

export function listenToKeys(grid: HTMLElement, keys: Keys, signal: AbortSignal): void {
	grid.addEventListener(
		"keydown",
		(event) => {
			if (event.altKey || event.shiftKey || event.isComposing) return;
			const control = event.ctrlKey || event.metaKey;
			const spot = move(event.key, control, keys.current(), keys.shape());
			if (spot !== null) keys.moveTo(spot);
			else if (!control && (event.key === "Enter" || event.key === " ")) keys.pin(keys.current());
			else if (event.key !== "Escape" || control || !keys.clear()) return;
			event.preventDefault();
			event.stopPropagation();
		},
		{ signal },
	);
}
