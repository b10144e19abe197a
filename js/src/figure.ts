/** Puts the parts of the figure where the layout says. */

import type { Axis, Layout } from "./layout";
import { type Generated, positionAt, type Window } from "./model";
import { type Scene, topLayer } from "./scene";
import { place, type View } from "./view";
import { generatedWords, sizeWords } from "./words";

export function placeFigure(view: View, layout: Layout, font: number): void {
	const { left, top, plot, columns } = layout;
	const { style } = view.figure;
	style.width = `${left + plot.width + 4}px`;
	style.height = `${layout.height}px`;
	view.root.dataset.narrow = String(layout.width < 560);
	view.root.dataset.below = String(layout.below);
	view.root.style.setProperty("--attnmap-left", `${left}px`);
	view.root.style.setProperty("--attnmap-plot", `${plot.width}px`);
	const below = top + plot.height + 6;
	place(view.grid, { x: left, y: top, width: plot.width, height: plot.height });
	place(view.rowLabels, { x: 0, y: top, width: left - 8, height: plot.height });
	place(view.columnLabels, { x: left, y: below, width: plot.width, height: columns.height });
	place(view.queryTitle, { x: 0, y: top, width: font * 1.5, height: plot.height });
	const keyTop = below + columns.height + 4;
	place(view.keyTitle, { x: left, y: keyTop, width: plot.width, height: font * 1.5 });
}

/** A rule where the generated part begins, unless that is all there is. */
export function placeRules(view: View, layout: Layout, [key, query]: Generated): void {
	const { rows, columns, plot } = layout;
	const inside = (axis: Axis, from: number | null) =>
		from !== null && from > axis.from && from < axis.to ? (from - axis.from) * axis.pitch : null;
	const x = inside(columns, key);
	const y = inside(rows, query);
	place(view.keyRule, x === null ? null : { x: x - 1, y: 0, width: 1, height: plot.height });
	place(view.queryRule, y === null ? null : { x: 0, y: y - 1, width: plot.width, height: 1 });
}

/** The canvases' boxes are set in CSS (all of the grid); here everything that is said about them. */
export function describeGrid(
	view: View,
	scene: Scene,
	[q0, q1, k0, k1]: Window,
	title: string,
): void {
	const { tile } = topLayer(scene);
	const [queries, keys] = tile.size;
	const [rows, columns] = tile.bin;
	const size = sizeWords(scene.titles, queries, keys);
	const row = (index: number) => positionAt(scene.queries, index);
	const column = (index: number) => positionAt(scene.keys, index);
	const bins =
		rows > 1 || columns > 1
			? `, ${tile.pool === "mean" ? "mean of " : ""}${rows} × ${columns} per cell`
			: "";
	const part = q1 - q0 < queries || k1 - k0 < keys;
	const inView = part
		? `, in view ${row(q0)}–${row(q1 - 1)} × ${column(k0)}–${column(k1 - 1)}`
		: "";
	view.title.textContent = title;
	view.title.hidden = title === "";
	view.size.textContent = size + bins + inView;
	view.grid.setAttribute("aria-rowcount", String(queries));
	view.grid.setAttribute("aria-colcount", String(keys));
	const said = [size + bins + inView, ...generatedWords(scene, tile.size)].join(", ");
	view.grid.setAttribute("aria-label", `${title || "Attention map"}: ${said}`);
}
