/** The quiet buttons above the figure. Hidden they keep their place, so nothing jumps. */

import { listen } from "./listen";
import { element } from "./view";

const ICONS = {
	search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3 14 14",
	closer: "M8 3v10M3 8h10",
	farther: "M3 8h10",
	whole: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
};

export interface Toolbar {
	/** shown where a map is large or zoomed */
	show(shown: boolean, zoomed: boolean): void;
}

export interface Commands {
	zoom(factor: number): void;
	reset(): void;
	search(): void;
}

export function createToolbar(into: HTMLElement, commands: Commands, signal: AbortSignal): Toolbar {
	const button = (icon: keyof typeof ICONS, name: string, run: () => void) => {
		const made = element("button", "tool", { type: "button", "aria-label": name, title: name });
		made.append(drawing(ICONS[icon]));
		listen(made, signal, { click: run });
		return made;
	};
	const search = button("search", "Find a token (/)", commands.search);
	const farther = button("farther", "Zoom out (−)", () => commands.zoom(1.5));
	const closer = button("closer", "Zoom in (+)", () => commands.zoom(1 / 1.5));
	const whole = button("whole", "Whole map (0)", commands.reset);
	into.append(search, farther, closer, whole);
	return {
		show(shown, zoomed) {
			into.style.visibility = shown ? "" : "hidden";
			// Not disabled: that would take the focus away from under the one who pressed it.
			for (const one of [farther, whole]) one.setAttribute("aria-disabled", String(!zoomed));
		},
	};
}

function drawing(path: string): SVGElement {
	const namespace = "http://www.w3.org/2000/svg";
	const svg = document.createElementNS(namespace, "svg");
	svg.setAttribute("viewBox", "0 0 16 16");
	svg.setAttribute("aria-hidden", "true");
	const line = document.createElementNS(namespace, "path");
	line.setAttribute("d", path);
	svg.append(line);
	return svg;
}
