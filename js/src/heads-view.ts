/** The elements of a grid of heads, empty. */

import { element } from "./view";

export interface HeadsView {
	root: HTMLElement;
	title: HTMLElement;
	size: HTMLElement;
	error: HTMLElement;
	sort: HTMLSelectElement;
	tint: HTMLSelectElement;
	range: HTMLSelectElement;
	busy: HTMLElement;
	bar: HTMLElement;
	busyText: HTMLElement;
	cancel: HTMLButtonElement;
	/** scrolls, has the focus, is the ARIA grid */
	grid: HTMLElement;
	/** as large as all of it, so that there is something to scroll */
	all: HTMLElement;
	canvas: HTMLCanvasElement;
	row: HTMLElement;
	cell: HTMLElement;
	legend: HTMLElement;
	readout: HTMLElement;
	status: HTMLElement;
	tooltip: HTMLElement;
	preview: HTMLCanvasElement;
	tipText: HTMLElement;
}

export function buildHeadsView(): HeadsView {
	const id = `attnmap-${Math.random().toString(36).slice(2)}`;
	const title = element("span", "title");
	const size = element("span", "size");
	const head = element("div", "head", {}, [element("div", "words", {}, [title, size])]);
	const error = element("div", "error", { role: "alert", hidden: "" });

	const menu = (name: string) => {
		// JupyterLab would take arrow keys and letters in a menu for its shortcuts.
		const select = element("select", "menu", { "data-lm-suppress-shortcuts": "true" });
		return { select, label: element("label", "choice", {}, [name, select]) };
	};
	const [sort, tint, range] = [menu("Sort by"), menu("Tint by"), menu("Colours")];
	const busyText = element("span", "busy-text");
	const bar = element("div", "busy-done");
	const cancel = element("button", "cancel", { type: "button" }, ["Cancel"]);
	const progress = element("div", "busy-bar", { role: "progressbar", "aria-label": "Reading" }, [
		bar,
	]);
	const busy = element("div", "busy", { hidden: "" }, [progress, busyText, cancel]);
	const controls = element("div", "controls", {}, [sort.label, tint.label, range.label, busy]);

	const canvas = element("canvas", "heads-canvas", { "aria-hidden": "true" });
	const cell = element("div", "cell", { role: "gridcell", id: `${id}-cell` });
	const row = element("div", "row", { role: "row" }, [cell]);
	const all = element("div", "heads-all", { role: "presentation" }, [canvas, row]);
	const grid = element("div", "heads-grid", { role: "grid", tabindex: "0" }, [all]);

	const legend = element("div", "legend", { role: "group", "aria-label": "Legend" });
	const readout = element("div", "readout", { role: "status", "aria-live": "polite" });
	const status = element("div", "status", { hidden: "" });
	const preview = element("canvas", "preview");
	const tipText = element("div", "tip-text");
	const tooltip = element("div", "tooltip", { "aria-hidden": "true", hidden: "" }, [
		preview,
		tipText,
	]);

	const root = document.createElement("div");
	root.className = "attnmap attnmap-heads";
	root.append(head, error, controls, grid, legend, readout, status, tooltip);
	return {
		root,
		title,
		size,
		error,
		sort: sort.select,
		tint: tint.select,
		range: range.select,
		busy,
		bar,
		busyText,
		cancel,
		grid,
		all,
		canvas,
		row,
		cell,
		legend,
		readout,
		status,
		tooltip,
		preview,
		tipText,
	};
}

/** Offers these values with their words, one of them chosen; nothing happens if all is as it was. */
export function offer(
	select: HTMLSelectElement,
	choices: readonly (readonly [value: string, words: string])[],
	chosen: string,
): void {
	const now = [...select.options].map((option) => `${option.value}\n${option.text}`).join("\n");
	if (now !== choices.map(([value, words]) => `${value}\n${words}`).join("\n")) {
		select.replaceChildren(...choices.map(([value, words]) => new Option(words, value)));
	}
	if (select.value !== chosen) select.value = chosen;
}
