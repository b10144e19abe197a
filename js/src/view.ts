/** The elements of one map, empty. Everything later only fills, places and hides them. */

export interface View {
	root: HTMLElement;
	title: HTMLElement;
	size: HTMLElement;
	error: HTMLElement;
	figure: HTMLElement;
	rowLabels: HTMLElement;
	columnLabels: HTMLElement;
	queryTitle: HTMLElement;
	keyTitle: HTMLElement;
	grid: HTMLElement;
	cells: HTMLCanvasElement;
	values: HTMLCanvasElement;
	rowHair: HTMLElement;
	columnHair: HTMLElement;
	largest: HTMLElement;
	pin: HTMLElement;
	/** the ARIA row and cell that stand for the current cell, and its outline */
	row: HTMLElement;
	cell: HTMLElement;
	legend: HTMLElement;
	readout: HTMLElement;
	status: HTMLElement;
	checks: HTMLDetailsElement;
	strip: HTMLDetailsElement;
	tooltip: HTMLElement;
}

/** Strings among the children become text, never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
	tag: K,
	name: string,
	attributes: Record<string, string> = {},
	children: readonly (HTMLElement | string)[] = [],
): HTMLElementTagNameMap[K] {
	const made = document.createElement(tag);
	made.className = `attnmap-${name}`;
	for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
	made.append(...children);
	return made;
}

export function buildView(): View {
	// Unlike randomUUID this also works on plain http.
	const id = `attnmap-${Math.random().toString(36).slice(2)}`;
	const silent = { "aria-hidden": "true" };

	const title = element("span", "title");
	const size = element("span", "size");
	const head = element("div", "head", {}, [title, size]);
	const error = element("div", "error", { role: "alert", hidden: "" });

	const cells = element("canvas", "cells", silent);
	const values = element("canvas", "values", silent);
	const over = (name: string) => element("div", name, { ...silent, hidden: "" });
	const rowHair = over("crosshair");
	const columnHair = over("crosshair");
	rowHair.dataset.axis = "row";
	columnHair.dataset.axis = "column";
	const largest = over("largest");
	const pin = over("pin");
	const cell = element("div", "cell", { role: "gridcell", id: `${id}-cell` });
	const row = element("div", "row", { role: "row" }, [cell]);
	const grid = element("div", "grid", { role: "grid", tabindex: "0" }, [
		cells,
		values,
		rowHair,
		columnHair,
		largest,
		pin,
		row,
	]);

	const rowLabels = element("div", "rows", silent);
	const columnLabels = element("div", "columns", silent);
	const queryTitle = element("div", "axis-query");
	const keyTitle = element("div", "axis-key");
	const figure = element("div", "figure", {}, [
		queryTitle,
		rowLabels,
		grid,
		columnLabels,
		keyTitle,
	]);
	const legend = element("div", "legend", { role: "group", "aria-label": "Legend" });
	const body = element("div", "body", {}, [figure, legend]);

	const readout = element("div", "readout", { role: "status", "aria-live": "polite" });
	const status = element("div", "status", { hidden: "" });
	const checks = element("details", "checks", { hidden: "" });
	const strip = element("details", "strip", { hidden: "" });
	const tooltip = over("tooltip");

	const root = document.createElement("div");
	root.className = "attnmap";
	root.append(head, error, body, readout, status, checks, strip, tooltip);
	return {
		root,
		title,
		size,
		error,
		figure,
		rowLabels,
		columnLabels,
		queryTitle,
		keyTitle,
		grid,
		cells,
		values,
		rowHair,
		columnHair,
		largest,
		pin,
		row,
		cell,
		legend,
		readout,
		status,
		checks,
		strip,
		tooltip,
	};
}

/** Shows a line, or takes it away when there is nothing to say. */
export function line(into: HTMLElement, text: string): void {
	if (into.textContent !== text) into.textContent = text;
	into.hidden = text === "";
}

/** Puts an element over a rectangle, or hides it. */
export function place(
	it: HTMLElement,
	rect: { x: number; y: number; width: number; height: number } | null,
): void {
	it.hidden = rect === null;
	if (rect === null) return;
	it.style.translate = `${rect.x}px ${rect.y}px`;
	it.style.width = `${rect.width}px`;
	it.style.height = `${rect.height}px`;
}
