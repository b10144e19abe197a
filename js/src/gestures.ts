/** Wheel, drags and pinches over the cells and along the labels, as moves of the camera. */

import type { Camera } from "./camera";
import { clamp } from "./geometry";
import { listen } from "./listen";
import type { Window } from "./model";
import type { Point } from "./pointer";
import { place as put, type View } from "./view";
import { outward, type Place, panBy, windowIn, zoomAbout } from "./zoom";

export interface Gestures {
	/** one is under way: hovering waits */
	busy(): boolean;
}

/** px that a press may move and still be a click */
const STILL = 4;
const WHEEL = 0.008;
/** a notch of a mouse wheel is 100 or more, a step of a trackpad's pinch 1 to 10 */
const NOTCH = 40;

type Kind = "box" | "rows" | "columns" | "pan" | "pinch";
interface Drag {
	kind: Kind;
	pointer: number;
	/** the view when it began */
	view: Window;
	start: Place;
	at: Place;
	/** it has moved far enough not to be a click */
	moved: boolean;
	x: number;
	y: number;
}

export function listenToGestures(view: View, camera: Camera, signal: AbortSignal): Gestures {
	const { size } = camera;
	const { grid, rowLabels, columnLabels } = view;
	let drag: Drag | null = null;
	/** the click that follows a drag is none */
	let swallow = false;
	const fingers = new Map<number, Point>();
	let apart = 1;

	const placeAt = ({ x, y }: Point): Place => {
		const box = grid.getBoundingClientRect();
		return [(y - box.top) / box.height, (x - box.left) / box.width];
	};
	const within = ([down, across]: Place): Place => [clamp(down, 0, 1), clamp(across, 0, 1)];

	/** Wheel: only with Ctrl or ⌘, which is also how a trackpad's pinch arrives. */
	const wheel = (event: WheelEvent) => {
		if (!event.ctrlKey && !event.metaKey) return;
		event.preventDefault();
		event.stopPropagation();
		const lines = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : 16;
		const turn = clamp(event.deltaY * lines, -NOTCH, NOTCH);
		camera.zoom(within(placeAt(event)), Math.exp(turn * WHEEL));
	};

	const begin = (event: PointerEvent, kind: Kind) => {
		const start = placeAt(event);
		const { clientX: x, clientY: y, pointerId: pointer } = event;
		drag = { kind, pointer, view: camera.view(), start, at: start, moved: false, x, y };
		const target = event.currentTarget as HTMLElement;
		// What a script makes up cannot be captured.
		if (event.isTrusted) target.setPointerCapture(pointer);
	};

	/** The tokens that the box touches; along an axis, all of the other one in view. */
	const boxed = ({ kind, view: from, start, at }: Drag): Window => {
		const a = within(start);
		const b = within(at);
		if (kind === "rows") return outward(windowIn(from, [a[0], 0], [b[0], 1]), size());
		if (kind === "columns") return outward(windowIn(from, [0, a[1]], [1, b[1]]), size());
		return outward(windowIn(from, a, b), size());
	};
	const drawBox = (window: Window | null) => {
		if (window === null) return put(view.box, null);
		const [q0, q1, k0, k1] = camera.view();
		const { width, height } = grid.style;
		const across = Number.parseFloat(width) / (k1 - k0);
		const down = Number.parseFloat(height) / (q1 - q0);
		put(view.box, {
			x: (window[2] - k0) * across,
			y: (window[0] - q0) * down,
			width: (window[3] - window[2]) * across,
			height: (window[1] - window[0]) * down,
		});
	};

	const pressed = (event: PointerEvent) => {
		swallow = false;
		if (event.pointerType === "touch") return touched(event);
		if (event.button === 1 || (event.button === 0 && event.shiftKey)) begin(event, "pan");
		else if (event.button === 0) begin(event, "box");
	};
	const touched = (event: PointerEvent) => {
		fingers.set(event.pointerId, event);
		if (fingers.size !== 2) return;
		begin(event, "pinch");
		if (drag === null) return;
		drag.start = placeAt(middle());
		drag.moved = true;
		apart = distance();
	};
	const pair = () => [...fingers.values()] as [Point, Point];
	const middle = () => {
		const [a, b] = pair();
		return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
	};
	const distance = () => {
		const [a, b] = pair();
		return Math.max(8, Math.hypot(a.x - b.x, a.y - b.y));
	};

	const moved = (event: PointerEvent) => {
		if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
		if (drag === null) return;
		if (drag.kind === "pinch") return pinch(drag);
		if (event.pointerId !== drag.pointer) return;
		drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) >= STILL;
		if (!drag.moved) return;
		drag.at = placeAt(event);
		if (drag.kind === "pan") pan(drag, drag.view, drag.at);
		else drawBox(boxed(drag));
	};
	const pan = ({ start }: Drag, from: Window, at: Place) => {
		const down = (start[0] - at[0]) * (from[1] - from[0]);
		const across = (start[1] - at[1]) * (from[3] - from[2]);
		camera.drag(panBy(from, [down, across], size()));
	};
	const pinch = (current: Drag) => {
		if (fingers.size !== 2) return;
		current.at = placeAt(middle());
		const scaled = zoomAbout(current.view, current.start, apart / distance(), size());
		pan(current, scaled, current.at);
	};

	const released = (event: PointerEvent) => {
		fingers.delete(event.pointerId);
		const done = drag;
		if (done === null || (done.kind !== "pinch" && event.pointerId !== done.pointer)) return;
		drag = null;
		drawBox(null);
		if (!done.moved) return;
		swallow = done.kind !== "rows" && done.kind !== "columns";
		if (done.kind === "pan" || done.kind === "pinch") camera.settle(within(done.at));
		else if (event.type === "pointerup") camera.go(boxed(done));
	};
	/** Back to where it began; false: there is nothing to cancel. */
	const cancel = (): boolean => {
		if (!drag?.moved) return false;
		const { kind, view: before } = drag;
		drag = null;
		swallow = true;
		drawBox(null);
		if (kind === "pan" || kind === "pinch") camera.go(before);
		return true;
	};
	const click = (event: MouseEvent) => {
		if (!swallow) return;
		swallow = false;
		event.stopImmediatePropagation();
	};
	const still = (event: Event) => {
		// Two fingers zoom the map, not the page; one finger scrolls the page as always.
		if (event instanceof TouchEvent && event.touches.length > 1) event.preventDefault();
		// The middle button pans; the browser would start to scroll by itself.
		if (event instanceof MouseEvent && event.button === 1) event.preventDefault();
	};

	listen(grid, signal, { wheel, touchmove: still, mousedown: still }, { passive: false });
	listen(grid, signal, { pointerdown: pressed });
	listen(grid, signal, { click }, { capture: true });
	const along = (kind: "rows" | "columns") => (event: PointerEvent) => {
		if (event.button !== 0 || event.pointerType === "touch") return;
		event.preventDefault();
		begin(event, kind);
	};
	listen(rowLabels, signal, { pointerdown: along("rows") });
	listen(columnLabels, signal, { pointerdown: along("columns") });
	for (const target of [grid, rowLabels, columnLabels]) {
		const rest = { pointermove: moved, pointerup: released, pointercancel: released };
		listen(target, signal, rest);
	}
	// An axis' labels have no focus of their own to hear Escape.
	const escaped = (event: KeyboardEvent) => {
		if (event.key !== "Escape" || !cancel()) return;
		event.preventDefault();
		event.stopPropagation();
	};
	listen(document, signal, { keydown: escaped }, { capture: true });

	return { busy: () => drag?.moved ?? false };
}
