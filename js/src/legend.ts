/** The ramp in use, its range, the states that occur and what else must be said about the scale. */

import { hasPatterns, strokeOrFill, WARNING } from "./canvas";
import { css, DIMMED, type Palette, unpack } from "./color";
import { State, type WireColors } from "./model";
import { count, formatTick } from "./numbers";
import { flatsOf } from "./patterns";
import { type Scene, topLayer } from "./scene";
import { isPooled, type Survey } from "./tile";
import { element } from "./view";
import { leakWords, stateWords } from "./words";

/** `more` is said after the scale's own notes. */
export function drawLegend(into: HTMLElement, scene: Scene, more: readonly string[]): void {
	const { colors, layout } = scene;
	const survey = surveyOf(scene);
	into.classList.toggle("attnmap-flat", layout.below);
	const { tile } = topLayer(scene);
	const mean = tile.pool === "mean" && isPooled(tile) ? "mean " : "";
	const log = colors.scale === "log" ? " (log scale)" : "";
	const words = mean + scene.titles.value + log;
	const title = element("div", "legend-title", {}, [words]);
	const scale = element("div", "legend-scale", {}, [
		ramp(scene.palette, layout.below),
		element("div", "legend-ticks", {}, ticks(colors)),
	]);
	const states = [...stateWords(scene.titles)].filter(([state]) => occurs(survey, state));
	const rows = states.map(([state, words]) => entry(words, state, swatch(scene, state)));
	if (survey.leaks > 0) {
		const words = `${leakWords(scene.titles)} (${count(survey.leaks, "cell")})`;
		rows.push(entry(words, "leak", swatch(scene, null)));
	}
	const notes = [...colors.notes, ...more].map((text) => element("p", "legend-note", {}, [text]));
	const list = element("div", "legend-states", {}, rows);
	into.replaceChildren(title, scale, list, ...notes);
}

/** Details show states that an overview leaves out. */
function surveyOf({ known }: Scene): Survey {
	const states = Array.from({ length: 7 }, (_, state) =>
		Math.max(...known.map(({ survey }) => survey.states[state] ?? 0)),
	);
	return { states, leaks: Math.max(...known.map(({ survey }) => survey.leaks)) };
}

/** A leak is listed on its own. */
function occurs(survey: Survey, state: number): boolean {
	const found = survey.states[state] ?? 0;
	return state === State.cannotLook ? found > survey.leaks : found > 0;
}

/** The colours from low to high: across where `flat`, else upwards. */
export function ramp(palette: Palette, flat: boolean): HTMLElement {
	const canvas = element("canvas", "legend-ramp", { "aria-hidden": "true" });
	canvas.width = flat ? 256 : 1;
	canvas.height = flat ? 1 : 256;
	const image = new ImageData(canvas.width, canvas.height);
	const pixels = new Int32Array(image.data.buffer);
	for (let i = 0; i < 256; i++) pixels[flat ? i : 255 - i] = palette[i] as number;
	canvas.getContext("2d")?.putImageData(image, 0, 0);
	return canvas;
}

/** Low, middle, high. */
export function ticks(colors: WireColors): HTMLElement[] {
	const [low, high] = colors.range;
	const middle = colors.scale === "log" ? Math.sqrt(low * high) : (low + high) / 2;
	const texts =
		colors.scale === "row"
			? [low < 0 ? "− largest of its row" : "0", low < 0 ? "0" : "half", "largest of its row"]
			: [
					(colors.clips[0] ? "≤ " : "") + formatTick(low),
					formatTick(middle),
					(colors.clips[1] ? "≥ " : "") + formatTick(high),
				];
	return texts.map((text) => element("span", "legend-tick", {}, [text]));
}

function entry(words: string, state: number | "leak", swatch: HTMLElement): HTMLElement {
	const label = element("span", "legend-words", {}, [words]);
	return element("div", "legend-state", { "data-state": String(state) }, [swatch, label]);
}

/** A cell of that state as the map draws it; null stands for a leak. */
function swatch(scene: Scene, state: number | null): HTMLElement {
	const { theme, palette } = scene;
	const { plot } = topLayer(scene);
	const { ratio } = plot;
	const canvas = element("canvas", "legend-swatch", { "aria-hidden": "true" });
	canvas.width = canvas.height = Math.round(13 * ratio);
	const pen = canvas.getContext("2d");
	if (!pen) return canvas;
	const path = new Path2D();
	path.roundRect(ratio / 2, ratio / 2, canvas.width - ratio, canvas.height - ratio, ratio);
	const patterned = hasPatterns(plot) || state === State.empty;
	const flat = patterned || state === null ? 0 : (flatsOf(theme.dark)[state] ?? 0);
	pen.fillStyle = css(unpack(flat || (palette[150] ?? 0)));
	pen.globalAlpha = patterned && state === State.padding ? DIMMED : 1;
	if (flat !== 0 || state === null || state === State.padding) pen.fill(path);
	pen.globalAlpha = 1;
	if (patterned && state !== null) strokeOrFill(pen, path, state, theme.dark, ratio);
	pen.strokeStyle = theme.dark ? "rgb(201 209 217 / .3)" : "rgb(60 66 74 / .25)";
	if (state === null) pen.strokeStyle = WARNING[theme.dark ? "dark" : "light"];
	pen.lineWidth = ratio;
	if (state !== State.empty) pen.stroke(path);
	return canvas;
}
