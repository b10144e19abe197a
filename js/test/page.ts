/** A map on a page: mounting, waiting, looking at pixels, pointing. */

import { afterEach } from "vitest";
import "../src/widget.css";
import { createMap } from "../src/map";
import type { State } from "../src/model";
import { FakeModel } from "./fixtures";

export interface Mounted {
	model: FakeModel;
	host: HTMLElement;
	root: HTMLElement;
	find(selector: string): HTMLElement;
	all(selector: string): HTMLElement[];
	texts(selector: string): string[];
	/** RGBA of the pixel in the middle of a cell */
	pixel(row: number, column: number): number[];
	/** every pixel of the cells */
	picture(): Uint8ClampedArray;
	/** moves the pointer over a cell, and waits until that is drawn */
	hover(row: number, column: number): Promise<void>;
	click(row: number, column: number): Promise<void>;
	press(key: string, more?: KeyboardEventInit): Promise<boolean>;
	close(): void;
}

let open: { close(): void }[] = [];
afterEach(() => {
	for (const mounted of open) mounted.close();
	open = [];
	document.body.replaceChildren();
});

export async function frames(n = 2): Promise<void> {
	for (let i = 0; i < n; i++) await new Promise((done) => requestAnimationFrame(done));
}

export function hostOf(width = 760): HTMLElement {
	const host = document.createElement("div");
	host.style.width = `${width}px`;
	document.body.append(host);
	return host;
}

/** Mounts a map and waits until it is drawn. */
export async function mount(
	state: State | FakeModel,
	given: { width?: number; host?: HTMLElement } = {},
): Promise<Mounted> {
	const model = state instanceof FakeModel ? state : new FakeModel(state);
	const host = given.host ?? hostOf(given.width);
	const life = new AbortController();
	createMap(host, model, life.signal);
	const root = host.lastElementChild as HTMLElement;
	const find = (selector: string) => {
		const found = root.querySelector<HTMLElement>(selector);
		if (!found) throw new Error(`no ${selector}`);
		return found;
	};
	const all = (selector: string) => [...root.querySelectorAll<HTMLElement>(selector)];
	const canvas = find(".attnmap-cells") as HTMLCanvasElement;
	const pen = () => canvas.getContext("2d") as CanvasRenderingContext2D;
	const centre = (row: number, column: number, width: number, height: number) => {
		const [rows, columns] = model.state.weights.shape;
		return { x: ((column + 0.5) / columns) * width, y: ((row + 0.5) / rows) * height };
	};
	const point = async (type: string, row: number, column: number) => {
		const box = canvas.getBoundingClientRect();
		const { x, y } = centre(row, column, box.width, box.height);
		const where = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
		find(".attnmap-grid").dispatchEvent(new PointerEvent(type, where));
		await frames();
	};
	const mounted: Mounted = {
		model,
		host,
		root,
		find,
		all,
		texts: (selector) => all(selector).map((element) => element.textContent),
		pixel(row, column) {
			const { x, y } = centre(row, column, canvas.width, canvas.height);
			return [...pen().getImageData(Math.floor(x), Math.floor(y), 1, 1).data];
		},
		picture: () => pen().getImageData(0, 0, canvas.width, canvas.height).data,
		hover: (row, column) => point("pointermove", row, column),
		click: (row, column) => point("click", row, column),
		async press(key, more = {}) {
			const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
			find(".attnmap-grid").dispatchEvent(event);
			await frames();
			return event.defaultPrevented;
		},
		close() {
			life.abort();
			if (!given.host) host.remove();
		},
	};
	open.push(mounted);
	await frames(3);
	return mounted;
}
