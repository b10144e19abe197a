/** Labels along both sides. Those of the current and the pinned cell are always there, in bold. */

import { type Axis, centreOf, columnRoom, labelled, labelSpacing, type Measure } from "./layout";
import type { Cell } from "./model";
import { everyNth } from "./numbers";
import { nameOf } from "./readout";
import type { Scene } from "./scene";
import { element, type View } from "./view";

/** In em: what a title may take beside a map of few rows. */
const TITLE_ROOM = 7;

export interface Axes {
	/** after the layout or the labels have changed */
	draw(scene: Scene): void;
	/** the cells whose labels are bold */
	emphasize(cells: readonly Cell[]): void;
}

export function createAxes(view: View, measure: Measure): Axes {
	const rows = createSide(view.rowLabels, "row", measure);
	const columns = createSide(view.columnLabels, "column", measure);
	return {
		draw({ layout, queries, keys, titles, generated: [fromKey, fromQuery] }) {
			const slanted = layout.columns.slanted;
			view.columnLabels.dataset.slanted = String(slanted);
			const spacing = labelSpacing(layout.rows, false);
			rows.draw(layout.rows, spacing, (index, it) => {
				const room = layout.rows.room / layout.rows.font;
				it.textContent = elide(nameOf(queries, index).label, room, measure);
				it.style.top = `${centreOf(layout.rows, index)}px`;
				it.classList.toggle("attnmap-generated", fromQuery !== null && index >= fromQuery);
			});
			const apart = slanted ? labelSpacing(layout.columns, true) : null;
			columns.draw(layout.columns, apart, (index, it) => {
				const room = columnRoom(layout, index) / layout.columns.font;
				it.textContent = elide(nameOf(keys, index).label, room, measure);
				it.style.left = `${centreOf(layout.columns, index)}px`;
				it.classList.toggle("attnmap-generated", fromKey !== null && index >= fromKey);
			});
			const { plot, rows: axis } = layout;
			const cut = (title: string, side: number) =>
				elide(title, Math.max(TITLE_ROOM, side / axis.font), measure);
			caption(view.queryTitle, cut(titles.query, plot.height), axis.stride);
			caption(view.keyTitle, cut(titles.key, plot.width), layout.columns.stride);
		},
		emphasize(cells) {
			rows.emphasize(cells.map((cell) => cell[0]));
			columns.emphasize(cells.map((cell) => cell[1]));
		},
	};
}

function caption(into: HTMLElement, title: string, stride: number): void {
	const thinned = element("span", "thinned", {}, [everyNth(stride)]);
	into.replaceChildren(title, ...(stride > 1 ? [" ", thinned] : []));
}

type Fill = (index: number, label: HTMLElement) => void;

function createSide(container: HTMLElement, kind: "row" | "column", measure: Measure) {
	const labels = new Map<number, HTMLElement>();
	let regular = new Set<number>();
	let bold: readonly number[] = [];
	let axis: Axis | null = null;
	/** null: as much as the two labels' own widths take */
	let spacing: number | null = 0;
	let fill: Fill = () => {};

	const add = (index: number) => {
		const label = element("span", `${kind}-label`, { dir: "auto", "data-index": String(index) });
		fill(index, label);
		labels.set(index, label);
		container.append(label);
	};

	const update = () => {
		const current = axis;
		if (current === null) return;
		const shown = bold.filter((index) => index + 0.5 > current.from && index + 0.5 < current.to);
		for (const [index, label] of labels) {
			if (regular.has(index) || shown.includes(index)) continue;
			label.remove();
			labels.delete(index);
		}
		for (const index of shown) if (!labels.has(index)) add(index);
		const widthOf = (label: HTMLElement) => (measure(label.textContent) * current.font) / 2 + 2;
		const collide = (a: number, b: number) => {
			const [one, other] = [labels.get(a), labels.get(b)];
			const apart = spacing ?? (one && other ? widthOf(one) + widthOf(other) : 0);
			return Math.abs(centreOf(current, a) - centreOf(current, b)) < apart;
		};
		for (const [index, label] of labels) {
			const own = shown.includes(index);
			const covered = !own && shown.some((other) => collide(index, other));
			label.classList.toggle("attnmap-bold", own);
			label.classList.toggle("attnmap-covered", covered);
		}
	};

	return {
		draw(next: Axis, apart: number | null, how: Fill) {
			axis = next;
			fill = how;
			spacing = apart;
			container.style.fontSize = `${next.font}px`;
			regular = new Set(labelled(next));
			for (const [index, label] of labels) fill(index, label);
			for (const index of regular) if (!labels.has(index)) add(index);
			update();
			const inOrder = [...labels].sort(([a], [b]) => a - b);
			container.append(...inOrder.map(([, label]) => label));
		},
		emphasize(indices: readonly number[]) {
			if (bold.join() === indices.join()) return;
			bold = indices;
			update();
		},
	};
}

/** Cut in the middle, so that both ends stay readable. Never inside a character. */
export function elide(text: string, room: number, measure: Measure): string {
	if (measure(text) <= room) return text;
	const characters = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
	const cut = (kept: number) => {
		const head = Math.ceil(kept / 2);
		return `${characters.slice(0, head).join("")}…${characters.slice(characters.length - (kept - head)).join("")}`;
	};
	let fits = 0;
	let over = characters.length;
	while (over - fits > 1) {
		const kept = (fits + over) >> 1;
		if (measure(cut(kept)) <= room) fits = kept;
		else over = kept;
	}
	return cut(fits);
}

/** Widths of bold text in em, each measured once. */
export function createMeasure(family: string): Measure {
	const pen = new OffscreenCanvas(1, 1).getContext("2d") as OffscreenCanvasRenderingContext2D;
	const known = new Map<string, number>();
	pen.font = `bold 100px ${family}`;
	return (text) => {
		const width = known.get(text) ?? pen.measureText(text).width / 100;
		if (known.size < 20_000) known.set(text, width);
		return width;
	};
}
