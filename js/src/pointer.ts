/** Pointer and touch over the grid. Moves are looked at once per animation frame. */

import { listen } from "./listen";

export interface Point {
	x: number;
	y: number;
}

export interface Pointing {
	/** the pointer has moved, or left */
	moved(): void;
	pressed(at: Point, clicks: number): void;
	doubled(): void;
}

/** The pointer's position in the client area, null while it is elsewhere. */
export function listenToPointer(
	grid: HTMLElement,
	pointing: Pointing,
	signal: AbortSignal,
): () => Point | null {
	let at: Point | null = null;
	const follow = (event: PointerEvent) => {
		at = { x: event.clientX, y: event.clientY };
		pointing.moved();
	};
	const leave = () => {
		at = null;
		pointing.moved();
	};
	const click = (event: MouseEvent) =>
		pointing.pressed({ x: event.clientX, y: event.clientY }, event.detail);
	listen(grid, signal, { pointermove: follow, pointerdown: follow });
	listen(grid, signal, { pointerleave: leave, pointercancel: leave });
	listen(grid, signal, { click, dblclick: pointing.doubled });
	return () => at;
}
