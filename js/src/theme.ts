/** Whether the page around the widget is dark, and word of it when that changes. */

import { luminance, type Rgb, WHITE } from "./color";
import { listen } from "./listen";

export interface Theme {
	dark: boolean;
	/** what shows between the cells */
	page: Rgb;
	/** no background to go by was found: the widget brings its own */
	own: boolean;
}

const DARK_PAGE: Rgb = [17, 21, 24];
const SETTLED = 250;

export function detectTheme(element: Element): Theme {
	for (let at: Element | null = element.parentElement ?? hostOf(element); at; ) {
		const [color, alpha] = parseColor(getComputedStyle(at).backgroundColor);
		if (alpha > 0.5) return { dark: luminance(color) < 0.2, page: color, own: false };
		at = at.parentElement ?? hostOf(at);
	}
	// Transparent all the way up, as in some editors' web views: light text means a dark page.
	const [text] = parseColor(getComputedStyle(element.parentElement ?? element).color);
	if (luminance(text) > 0.4) return { dark: true, page: DARK_PAGE, own: false };
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	return { dark, page: dark ? DARK_PAGE : WHITE, own: dark };
}

/** Tells the style sheets. */
export function wearTheme(root: HTMLElement, theme: Theme): void {
	root.dataset.theme = theme.dark ? "dark" : "light";
	root.classList.toggle("attnmap-own-page", theme.own);
	root.style.setProperty("--attnmap-page", `rgb(${theme.page.join(" ")})`);
}

function hostOf(element: Element): Element | null {
	const root = element.getRootNode();
	return root instanceof ShadowRoot ? root.host : null;
}

/** Any CSS colour: a canvas knows them all. */
export function parseColor(color: string): [color: Rgb, alpha: number] {
	const pen = new OffscreenCanvas(1, 1).getContext("2d") as OffscreenCanvasRenderingContext2D;
	pen.fillStyle = color;
	pen.fillRect(0, 0, 1, 1);
	const [red = 0, green = 0, blue = 0, alpha = 0] = pen.getImageData(0, 0, 1, 1).data;
	return [[red, green, blue], alpha / 255];
}

/** Calls back when the host may have changed its theme. Its styles may load a little later. */
export function watchTheme(signal: AbortSignal, changed: () => void): void {
	let timer = 0;
	const check = () => {
		changed();
		clearTimeout(timer);
		timer = window.setTimeout(changed, SETTLED);
	};
	const observer = new MutationObserver(check);
	for (const element of [document.documentElement, document.body]) {
		observer.observe(element, { attributes: true });
	}
	const queries = ["(prefers-color-scheme: dark)", "(forced-colors: active)"];
	for (const query of queries) listen(matchMedia(query), signal, { change: check });
	signal.addEventListener("abort", () => {
		observer.disconnect();
		clearTimeout(timer);
	});
}
