/** What the colours, the bars and the states mean. */

import { css, type Palette, unpack } from "./color";
import type { Atlas } from "./heads-atlas";
import type { Bars } from "./heads-bars";
import { ramp } from "./legend";
import { formatTick } from "./numbers";
import { flatsOf } from "./patterns";
import { element } from "./view";
import { ATTENTION, stateWords } from "./words";

export interface Explained {
	atlas: Atlas;
	palette: Palette;
	diverging: boolean;
	dark: boolean;
	bars: Bars | null;
}

export function drawHeadsLegend(into: HTMLElement, given: Explained): void {
	const { atlas, palette, diverging, dark, bars } = given;
	const own = diverging ? ["− its largest", "0", "its largest"] : ["0", "the head's largest"];
	const ends = atlas.range
		? [atlas.range[0], (atlas.range[0] + atlas.range[1]) / 2, atlas.range[1]].map(formatTick)
		: own;
	const words = atlas.range ? "weight" : "weight, each head by its own range";
	const parts = [scale(words, palette, ends)];
	if (bars !== null) parts.push(scale(bars.words, bars.palette, [bars.low, bars.high]));
	const states = [...stateWords(ATTENTION)].filter(([state]) => atlas.states.has(state));
	const entries = states.map(([state, words]) => {
		const swatch = element("span", "legend-swatch", { "aria-hidden": "true" });
		const flat = flatsOf(dark)[state] ?? 0;
		if (flat !== 0) swatch.style.background = css(unpack(flat));
		return element("div", "legend-state", { "data-state": String(state) }, [
			swatch,
			element("span", "legend-words", {}, [words]),
		]);
	});
	parts.push(element("div", "legend-states", {}, entries));
	into.classList.add("attnmap-flat");
	into.replaceChildren(...parts);
}

function scale(words: string, palette: Palette, ends: readonly string[]): HTMLElement {
	const ticks = ends.map((text) => element("span", "legend-tick", {}, [text]));
	return element("div", "legend-part", {}, [
		element("div", "legend-title", {}, [words]),
		element("div", "legend-scale", {}, [
			ramp(palette, true),
			element("div", "legend-ticks", {}, ticks),
		]),
	]);
}
