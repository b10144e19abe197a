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
	/** between what was given and what was generated */
	keyRule: HTMLElement;
	queryRule: HTMLElement;
	largest: HTMLElement;
	pin: HTMLElement;
	/** the ARIA row and cell that stand for the current cell, and its outline */
	row: HTMLElement;
	cell: HTMLElement;
	legend: HTMLElement;
	/** the box that a drag draws */
	box: HTMLElement;
	minimap: HTMLElement;
	toolbar: HTMLElement;
	readout: HTMLElement;
	/** goes to the pinned cell, where that is out of view */
	show: HTMLButtonElement;
	status: HTMLElement;
	checks: HTMLDetailsElement;
	top: HTMLDetailsElement;
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
	const words = element("div", "words", {}, [title, size]);
	const toolbar = element("div", "toolbar", { role: "toolbar", "aria-label": "View" });
	const head = element("div", "head", {}, [words, toolbar]);
	const error = element("div", "error", { role: "alert", hidden: "" });

	const cells = element("canvas", "cells", silent);
	const values = element("canvas", "values", silent);
	const over = (name: string) => element("div", name, { ...silent, hidden: "" });
	const rowHair = over("crosshair");
	const columnHair = over("crosshair");
	rowHair.dataset.axis = "row";
	columnHair.dataset.axis = "column";
	const keyRule = over("rule");
	const queryRule = over("rule");
	const largest = over("largest");
	const pin = over("pin");
	const box = over("box");
	const cell = element("div", "cell", { role: "gridcell", id: `${id}-cell` });
	const row = element("div", "row", { role: "row" }, [cell]);
	const grid = element("div", "grid", { role: "grid", tabindex: "0" }, [
		cells,
		values,
		keyRule,
		queryRule,
		rowHair,
		columnHair,
		largest,
		pin,
		box,
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
	const minimap = element("div", "minimap", { ...silent, hidden: "" });
	const side = element("div", "side", {}, [legend, minimap]);
	const body = element("div", "body", {}, [figure, side]);

	const readout = element("div", "readout", { role: "status", "aria-live": "polite" });
	const show = element("button", "show", { type: "button" }, ["Show it"]);
	const status = element("div", "status", { hidden: "" });
	const checks = element("details", "checks", { hidden: "" });
	const top = element("details", "top", { hidden: "" });
	const strip = element("details", "strip", { hidden: "" });
	const tooltip = over("tooltip");

	const root = document.createElement("div");
	root.className = "attnmap";
	root.append(head, error, body, readout, status, checks, top, strip, tooltip);
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
		keyRule,
		queryRule,
		largest,
		pin,
		row,
		cell,
		legend,
		box,
		minimap,
		toolbar,
		readout,
		show,
		status,
		checks,
		top,
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

/** Puts a widget on the page: beside others in a row it takes its share, unless told otherwise. */
export function enter(host: HTMLElement, root: HTMLElement): void {
	host.append(root);
	host.style.flex ||= "1 1 auto";
	host.style.minWidth ||= "0";
}

/** Gives a widget the classes that its user names, now and in place of those before. */
export function classesOf(root: HTMLElement): (names: string) => void {
	let before: string[] = [];
	return (names) => {
		root.classList.remove(...before);
		before = names.split(/\s+/).filter(Boolean);
		root.classList.add(...before);
	};
}
