/** Pointer and touch over the grid. Moves are looked at once per animation frame. */

export interface Point {
	x: number;
	y: number;
}

export interface Pointing {
	/** the pointer has moved, or left */
	moved(): void;
	pressed(at: Point): void;
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
	grid.addEventListener("pointermove", follow, { signal });
	grid.addEventListener("pointerdown", follow, { signal });
	grid.addEventListener("pointerleave", leave, { signal });
	grid.addEventListener("pointercancel", leave, { signal });
	grid.addEventListener(
		"click",
		(event) => pointing.pressed({ x: event.clientX, y: event.clientY }),
		{ signal },
	);
	return () => at;
}
