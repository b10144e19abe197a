/** The whole map, small, with a frame around what is in view. Dragging the frame pans. */

import type { Camera } from "./camera";
import { createPainter } from "./canvas";
import { type Box, plotOf } from "./geometry";
import { listen } from "./listen";
import { baseLayer, type Scene } from "./scene";
import { element } from "./view";
import { contains, type Place, panBy, type Size, wholeOf } from "./zoom";

const SIDE = 104;
const SMALL_SIDE = 56;
const THIN = 14;
const SEEN = 5;

export interface Minimap {
	/** null: everything is in view */
	draw(scene: Scene | null): void;
}

export function createMinimap(into: HTMLElement, camera: Camera, signal: AbortSignal): Minimap {
	const canvas = element("canvas", "minimap-cells");
	const frame = element("div", "minimap-view");
	into.append(canvas, frame);
	const painter = createPainter(canvas, null);
	let painted: unknown[] = [];
	/** where in the frame it is held */
	let held: Place | null = null;

	const placeAt = (event: PointerEvent): Place => {
		const size = camera.size();
		const box = into.getBoundingClientRect();
		return [
			((event.clientY - box.top) / box.height) * size[0],
			((event.clientX - box.left) / box.width) * size[1],
		];
	};
	const follow = (event: PointerEvent) => {
		if (held === null) return;
		const [query, key] = placeAt(event);
		const [q0, , k0] = camera.view();
		camera.drag(panBy(camera.view(), [query - held[0] - q0, key - held[1] - k0], camera.size()));
	};
	const hold = (event: PointerEvent) => {
		if (event.button !== 0) return;
		event.preventDefault();
		const [query, key] = placeAt(event);
		const [q0, q1, k0, k1] = camera.view();
		held = contains(camera.view(), [query, key])
			? [query - q0, key - k0]
			: [(q1 - q0) / 2, (k1 - k0) / 2];
		if (event.isTrusted) into.setPointerCapture(event.pointerId);
		follow(event);
	};
	const release = () => {
		if (held === null) return;
		held = null;
		camera.settle();
	};
	const handlers = { pointermove: follow, pointerup: release, pointercancel: release };
	listen(into, signal, { pointerdown: hold, ...handlers });

	return {
		draw(scene) {
			into.hidden = scene === null;
			if (scene === null) return;
			const base = baseLayer(scene);
			const size = camera.size();
			const box = boxOf(size, scene.layout.below ? SMALL_SIDE : SIDE, scene.layout.plot.ratio);
			const { colors, theme } = scene;
			const what = [base.tile, colors, theme.dark, box.width, box.height, box.ratio];
			if (what.some((one, i) => one !== painted[i])) {
				painted = what;
				into.style.width = `${box.width}px`;
				into.style.height = `${box.height}px`;
				const plot = { ...plotOf(box, base.tile, wholeOf(size)), gapX: 0, gapY: 0 };
				const layer = { ...base, plot };
				const layout = { ...scene.layout, plot: box };
				painter.cells({ ...scene, layers: [layer], known: [layer], layout });
			}
			const [q0, q1, k0, k1] = scene.view;
			const { style } = frame;
			style.left = `${(k0 / size[1]) * 100}%`;
			style.top = `${(q0 / size[0]) * 100}%`;
			style.width = `max(${SEEN}px, ${((k1 - k0) / size[1]) * 100}%)`;
			style.height = `max(${SEEN}px, ${((q1 - q0) / size[0]) * 100}%)`;
		},
	};
}

function boxOf([queries, keys]: Size, side: number, ratio: number): Box {
	const scale = side / Math.max(queries, keys);
	const pixels = (count: number) => Math.round(Math.max(THIN, count * scale) * ratio);
	const [pixelWidth, pixelHeight] = [pixels(keys), pixels(queries)];
	return { width: pixelWidth / ratio, height: pixelHeight / ratio, ratio, pixelWidth, pixelHeight };
}
