/** Everything that is put into words: caption, menus, the line under the grid, the tooltip. */

import { placeTip } from "./geometry";
import { boxOf, headsInView } from "./heads-layout";
import type { Column, HeadsModel } from "./heads-model";
import { type HeadsScene, paintPreview } from "./heads-paint";
import type { Sheet } from "./heads-sheet";
import { type HeadsView, offer } from "./heads-view";
import { fullName, type Names, numberOf, numbersOf, remarkOf } from "./heads-words";
import { count } from "./numbers";
import { visibleArea } from "./overlay";
import { element, line } from "./view";

const HINT = "Point at a head, or move with the arrow keys; a click or Enter shows it.";

export interface Told {
	names: Names;
	errors: ReadonlyMap<number, string>;
	/** not by keyboard, and not from Python */
	pointed: boolean;
}

const chosenBy = (model: HeadsModel): string[] =>
	[model.get("sort_by"), model.get("tint_by")].filter((name) => name !== null);

/** What all of it is, in sight and for screen readers. */
export function describeHeads(
	view: HeadsView,
	model: HeadsModel,
	{ sheet, layout, scroll, size }: HeadsScene,
): void {
	const layers = count(model.get("_rows").length, "layer");
	const seen = headsInView(layout, scroll, size);
	const all = count(sheet.heads, "head");
	// Where the grid scrolls, nothing but a cut would say so.
	const heads = seen < sheet.heads ? `${seen} of ${all} in view` : all;
	const said = [model.get("_named") ? `${layers} · ${heads}` : heads];
	const note = model.get("_note");
	if (note) said.push(note);
	const own = model.get("range") === "head";
	said.push(own ? "each head by its own colour range" : "one colour range for all heads");
	const sort = model.get("_columns").find(({ name }) => name === model.get("sort_by"));
	if (sort) said.push(`by ${sort.title.toLowerCase()}, largest first`);
	const title = model.get("title") ?? "";
	line(view.title, title);
	const { grid } = view;
	const words = said.join(" · ");
	if (view.size.textContent !== words) view.size.textContent = words;
	grid.setAttribute("aria-label", `${title || "All heads"}: ${said.join(", ")}`);
	grid.setAttribute("aria-rowcount", String(layout.lines.length));
	const across = Math.max(0, ...layout.lines.map((line) => line.length));
	grid.setAttribute("aria-colcount", String(across));
}

/** Columns that no head has are not offered, once that is known. */
export function offerMenus(view: HeadsView, model: HeadsModel, sheet: Sheet): void {
	const columns = model.get("_columns");
	const reading = model.get("_progress") !== null;
	const chosen = chosenBy(model);
	const there = (column: Column, at: number) => {
		if (reading || chosen.includes(column.name)) return true;
		for (let head = 0; head < sheet.heads; head++) {
			if (!Number.isNaN(sheet.number(head, at))) return true;
		}
		return false;
	};
	const choices = columns
		.filter(there)
		.map(({ name, title }): [string, string] => [name, title.toLowerCase()]);
	const menus = [
		[view.sort, "layer order", model.get("sort_by")],
		[view.tint, "nothing", model.get("tint_by")],
	] as const;
	for (const [select, nothing, name] of menus) {
		offer(select, [["", nothing], ...choices], name ?? "");
		select.title = columns.find((column) => column.name === name)?.text ?? "";
	}
	const ranges: [string, string][] = [
		["shared", "one range for all"],
		["head", "each head's own"],
	];
	offer(view.range, ranges, model.get("range"));
}

/** The line under the grid, and the ARIA cell that stands for the current head. */
export function sayHead(view: HeadsView, model: HeadsModel, scene: HeadsScene, told: Told): void {
	const { readout, grid, row, cell } = view;
	const head = scene.current ?? scene.selected;
	const name = head === null ? undefined : told.names[head];
	readout.setAttribute("aria-live", told.pointed ? "off" : "polite");
	if (head === null || name === undefined) {
		readout.replaceChildren(element("span", "muted", {}, [HINT]));
		grid.removeAttribute("aria-activedescendant");
		cell.removeAttribute("aria-label");
		return;
	}
	const full = fullName(name, model.get("_named"));
	const numbers = numbersOf(scene.sheet, model.get("_columns"), head, chosenBy(model));
	const remark = remarkOf(scene.sheet, head, told.errors);
	const said = [...(scene.atlas.spots[head] ? numbers : []), ...(remark ? [remark] : [])];
	const text = said.map((part) => ` · ${part}`).join("");
	if (readout.textContent !== full + text) {
		readout.replaceChildren(element("span", "strong", {}, [full]), text);
	}
	const [line = 0, place = 0] = scene.layout.places[head] ?? [];
	row.setAttribute("aria-rowindex", String(line + 1));
	cell.setAttribute("aria-colindex", String(place + 1));
	cell.setAttribute("aria-selected", String(head === scene.selected));
	cell.setAttribute("aria-label", full + text);
	grid.setAttribute("aria-activedescendant", cell.id);
	const box = boxOf(scene.layout, head);
	if (box === null) return;
	cell.style.translate = `${box.x}px ${box.y}px`;
	cell.style.width = `${box.width}px`;
	cell.style.height = `${box.height}px`;
}

/** The head that is pointed at, larger. */
export function showTip(view: HeadsView, model: HeadsModel, scene: HeadsScene, told: Told): void {
	const { root, grid, tooltip } = view;
	const head = told.pointed ? scene.current : null;
	const box = head === null ? null : boxOf(scene.layout, head);
	const name = head === null ? undefined : told.names[head];
	tooltip.hidden = box === null;
	if (head === null || box === null || name === undefined) return;
	view.preview.hidden = !paintPreview(view.preview, scene, head);
	const columns = model.get("_columns");
	const lines = columns
		.filter((column) => chosenBy(model).includes(column.name))
		.map((column) => numberOf(column, scene.sheet.number(head, columns.indexOf(column))));
	const remark = remarkOf(scene.sheet, head, told.errors);
	view.tipText.replaceChildren(
		element("span", "strong", {}, [fullName(name, model.get("_named"))]),
		...[...lines, ...(remark ? [remark] : [])].map((text) => element("div", "muted", {}, [text])),
	);
	const [outer, inner] = [root.getBoundingClientRect(), grid.getBoundingClientRect()];
	const scale = outer.width / root.offsetWidth || 1;
	const cell = {
		...box,
		x: (inner.left - outer.left) / scale + box.x - scene.scroll.x,
		y: (inner.top - outer.top) / scale + box.y - scene.scroll.y,
	};
	const size = { width: tooltip.offsetWidth, height: tooltip.offsetHeight };
	const at = placeTip(cell, size, visibleArea(outer, scale));
	tooltip.style.translate = `${at.x}px ${at.y}px`;
}
