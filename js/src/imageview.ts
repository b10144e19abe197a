/** The elements of a picture with attention over it, empty. */

import type { Placing } from "./imagemodel";
import { element } from "./view";

export interface Frame {
	box: HTMLElement;
	picture: HTMLCanvasElement;
	overlay: HTMLCanvasElement;
}

export interface ImageView {
	root: HTMLElement;
	title: HTMLElement;
	size: HTMLElement;
	error: HTMLElement;
	/** the ARIA grid of patches */
	grid: HTMLElement;
	/** outlines of the patch that looks and the patch that is looked at */
	query: HTMLElement;
	patch: HTMLElement;
	row: HTMLElement;
	cell: HTMLElement;
	legend: HTMLElement;
	beside: HTMLElement;
	opacity: HTMLInputElement;
	readout: HTMLElement;
}

export function buildImageView(): ImageView {
	const id = `attnmap-${Math.random().toString(36).slice(2)}`;
	const silent = { "aria-hidden": "true" };
	const title = element("span", "title");
	const size = element("span", "size");
	const words = element("div", "words", {}, [title, size]);
	const head = element("div", "head", {}, [words]);
	const error = element("div", "error", { role: "alert", hidden: "" });

	const query = element("div", "looking", { ...silent, hidden: "" });
	const patch = element("div", "looked-at", { ...silent, hidden: "" });
	const cell = element("div", "image-cell", { role: "gridcell", id: `${id}-cell` });
	const row = element("div", "image-row", { role: "row" }, [cell]);
	const grid = element("div", "frames", { role: "grid", tabindex: "0" }, [row]);

	const legend = element("div", "image-legend", { role: "group", "aria-label": "Legend" });
	const beside = element("div", "beside", { role: "group", "aria-label": "Not on the picture" });
	const opacity = element("input", "opacity", { type: "range", min: "0", max: "100", step: "5" });
	const label = element("label", "opacity-label", {}, ["Colours over the picture", opacity]);
	const side = element("div", "image-side", {}, [legend, beside, label]);
	const body = element("div", "body", {}, [grid, side]);
	const readout = element("div", "readout", { role: "status", "aria-live": "polite" });

	const root = document.createElement("div");
	root.className = "attnmap attnmap-image";
	root.append(head, error, body, readout);
	return {
		...{ root, title, size, error, grid, query, patch, row, cell, legend, beside },
		...{ opacity, readout },
	};
}

export function buildFrames(view: ImageView, count: number): Frame[] {
	const frames = Array.from({ length: count }, (_, number) => {
		const silent = { "aria-hidden": "true" };
		const picture = element("canvas", "picture", silent);
		const overlay = element("canvas", "overlay", silent);
		const box = element("div", "frame", { "data-frame": String(number) }, [picture, overlay]);
		return { box, picture, overlay };
	});
	view.root.dataset.frames = frames.length > 1 ? "several" : "one";
	view.grid.replaceChildren(...frames.map(({ box }) => box), view.row);
	return frames;
}

/** Gives each frame room for so many patches. */
export function sizeFrames(view: ImageView, frames: readonly Frame[], placing: Placing): void {
	for (const { overlay } of frames) {
		overlay.width = placing.columns;
		overlay.height = placing.rows;
	}
	view.grid.setAttribute("aria-rowcount", String(placing.frames * placing.rows));
	view.grid.setAttribute("aria-colcount", String(placing.columns));
}
