/** Wheels, drags and fingers, as a browser reports them; and waiting until a view has come to rest. */

import type { WireTile } from "../src/model";
import { bytes } from "./fixtures";
import { frames, type Mounted } from "./page";

/** 0 to 1 from the top and from the left of an element. */
export type At = readonly [down: number, across: number];

export function pointAt(element: Element, [down, across]: At) {
	const box = element.getBoundingClientRect();
	return { clientX: box.left + across * box.width, clientY: box.top + down * box.height };
}

/** Wheels have whole px only. */
function pixelAt(element: Element, at: At) {
	const { clientX, clientY } = pointAt(element, at);
	return { clientX: Math.round(clientX), clientY: Math.round(clientY) };
}

/** Until nothing glides: three frames that look alike. */
export async function rest(map: Mounted): Promise<void> {
	const look = () =>
		map
			.all(".attnmap-row-label, .attnmap-column-label, .attnmap-minimap-view")
			.map((it) => [it.textContent, it.style.cssText]);
	let before = "";
	for (let alike = 0, n = 0; alike < 4 && n < 300; n++) {
		await frames(1);
		const now = JSON.stringify(look());
		alike = now === before ? alike + 1 : 0;
		before = now;
	}
}

export function wheel(map: Mounted, at: At, deltaY: number, more: WheelEventInit = {}): boolean {
	const grid = map.find(".attnmap-grid");
	const event = new WheelEvent("wheel", {
		...pixelAt(grid, at),
		deltaY,
		ctrlKey: true,
		bubbles: true,
		cancelable: true,
		...more,
	});
	grid.dispatchEvent(event);
	return event.defaultPrevented;
}

export function point(element: Element, type: string, at: At, more: PointerEventInit = {}): void {
	const given = { pointerId: 1, button: 0, bubbles: true, cancelable: true, ...more };
	element.dispatchEvent(new PointerEvent(type, { ...pointAt(element, at), ...given }));
}

/** Down, along and up, and the click that a browser makes of it. */
export async function drag(
	map: Mounted,
	element: Element,
	[from, to]: readonly [At, At],
	more: PointerEventInit = {},
): Promise<void> {
	point(element, "pointerdown", from, more);
	for (const share of [0.3, 0.7, 1]) {
		const along = (n: 0 | 1) => from[n] + (to[n] - from[n]) * share;
		point(element, "pointermove", [along(0), along(1)], more);
		await frames(1);
	}
	point(element, "pointerup", to, more);
	if ((more.button ?? 0) === 0) point(element, "click", to, { ...more, detail: 1 });
	await rest(map);
}

/** The cell under a place of the figure, as hovering says it. */
export async function cellAt(map: Mounted, at: At): Promise<number[] | null> {
	const grid = map.find(".attnmap-grid");
	grid.dispatchEvent(new PointerEvent("pointermove", pixelAt(grid, at)));
	await frames(2);
	return map.model.state.hover;
}

/** A grid of `weight(query, key)`, pooled by `bin` × `bin`, or a window of it as it is. */
export function tileOver(
	size: readonly [number, number],
	weight: (query: number, key: number) => number,
	bin: number,
	window: [number, number, number, number] = [0, size[0], 0, size[1]],
): WireTile {
	const [q0, q1, k0, k1] = window;
	const shape: [number, number] = [Math.ceil((q1 - q0) / bin), Math.ceil((k1 - k0) / bin)];
	const data = new Float32Array(shape[0] * shape[1]).fill(-1);
	const at = new Uint16Array(data.length);
	for (let query = q0; query < q1; query++)
		for (let key = k0; key < k1; key++) {
			const cell = Math.floor((query - q0) / bin) * shape[1] + Math.floor((key - k0) / bin);
			if (weight(query, key) <= (data[cell] ?? 0)) continue;
			data[cell] = weight(query, key);
			at[cell] = ((query - q0) % bin) * bin + ((key - k0) % bin);
		}
	return {
		size: [size[0], size[1]],
		shape,
		window,
		bin: [bin, bin],
		data: bytes(data),
		states: null,
		at: bin > 1 ? new DataView(at.buffer) : null,
	};
}
