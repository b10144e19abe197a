/** From a weight to its colour. Pure; a colour depends on nothing but the weight and the scale. */

import { clamp } from "./geometry";
import { bytesOf, State, type Tile, type WireColors } from "./model";
import { isLeak } from "./tile";

export type Rgb = readonly [red: number, green: number, blue: number];

export const WHITE: Rgb = [255, 255, 255];
/** As dark as it takes for one of the two inks to reach 4.5 : 1 on any colour. */
export const INK: Rgb = [5, 5, 5];
/** How much of its colour a padding cell keeps. */
export const DIMMED = 0.4;

export function luminance([red, green, blue]: Rgb): number {
	const linear = (channel: number) => {
		const c = channel / 255;
		return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	};
	return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

/** WCAG 2 contrast ratio, 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
	const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
	return (high + 0.05) / (low + 0.05);
}

export function inkOn(color: Rgb): Rgb {
	return contrast(WHITE, color) >= contrast(INK, color) ? WHITE : INK;
}

export const css = ([red, green, blue]: Rgb) => `rgb(${red} ${green} ${blue})`;

export function mix(over: Rgb, under: Rgb, share: number): Rgb {
	const blend = (a: number, b: number) => Math.round(a * share + b * (1 - share));
	return [blend(over[0], under[0]), blend(over[1], under[1]), blend(over[2], under[2])];
}

/**
 * 256 colours from the bottom of the range to its top, as RGBA pixels of ImageData. Signed, because
 * engines keep unsigned 32-bit numbers as floats, which doubles the cost of painting.
 */
export type Palette = Int32Array;

/** As given; in a dark theme a sequential ramp is turned so that zero is its dark end. */
export function paletteOf(colors: WireColors, dark: boolean): Palette {
	const ramp = bytesOf(colors.ramp);
	if (ramp.length !== 768) throw new RangeError(`${ramp.length} bytes of colours, not 768`);
	const triple = (i: number): Rgb => [ramp[3 * i] ?? 0, ramp[3 * i + 1] ?? 0, ramp[3 * i + 2] ?? 0];
	const turned = dark && !colors.diverging && luminance(triple(0)) > luminance(triple(255));
	return Int32Array.from({ length: 256 }, (_, i) => pack(triple(turned ? 255 - i : i)));
}

/** Little-endian, as every platform that runs a browser is. */
export function pack([red, green, blue]: Rgb, alpha = 255): number {
	return (alpha << 24) | (blue << 16) | (green << 8) | red;
}

export function unpack(pixel: number): Rgb {
	return [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
}

export const alphaOf = (pixel: number) => pixel >>> 24;

/** What becomes of a weight before it is looked up: 0 at the low end of the ramp, 1 at its top. */
export function positionOf(colors: WireColors, weight: number, rowMaximum: number): number {
	const [low, high] = colors.range;
	if (colors.scale === "log") {
		if (!(weight > 0)) return 0;
		return clamp(Math.log(weight / low) / Math.log(high / low), 0, 1);
	}
	const value = colors.scale === "row" ? (rowMaximum > 0 ? weight / rowMaximum : 0) : weight;
	return high > low ? clamp((value - low) / (high - low), 0, 1) : Number(value > low);
}

export const indexOf = (position: number) => Math.round(position * 255);

/** Flat colours by state for cells too small for a pattern; 0 leaves the page. */
export type Flats = readonly number[];

/**
 * One pixel per cell of the tile. States without a weight take their flat colour; padding keeps
 * its own colour, dimmed, unless there is a flat one for it. `maxima` are those of the rows, for
 * the row scale.
 */
export function colorize(
	tile: Pick<Tile, "shape" | "weights" | "states">,
	colors: WireColors,
	palette: Palette,
	flats: Flats,
	into: Int32Array,
	maxima: Float32Array | null = null,
): void {
	const [low, high] = colors.range;
	if (colors.scale === "linear" && high > low) linear(tile.weights, low, high, palette, into);
	else transformed(tile, colors, palette, into, maxima);
	const { states, weights } = tile;
	if (states === null) return;
	const dimmed = Math.round(DIMMED * 255) << 24;
	for (let i = 0; i < into.length; i++) {
		const state = states[i] as number;
		const weight = weights[i] as number;
		if (state <= State.zero || isLeak(state, weight)) continue;
		const flat = flats[state] ?? 0;
		const keeps = state === State.padding && flat === 0 && !Number.isNaN(weight);
		into[i] = keeps ? ((into[i] as number) & 0xffffff) | dimmed : flat;
	}
}

/** The hot loop: a million cells in a few milliseconds. */
function linear(
	weights: Float32Array,
	low: number,
	high: number,
	palette: Palette,
	into: Int32Array,
): void {
	const steps = 255 / (high - low);
	const shift = 0.5 - low * steps;
	const bottom = palette[0] as number;
	const top = palette[255] as number;
	const count = into.length;
	for (let i = 0; i < count; i++) {
		const step = (weights[i] as number) * steps + shift;
		// Both comparisons are false for NaN, which leaves the page.
		if (step >= 0) into[i] = step < 255 ? (palette[step | 0] as number) : top;
		else into[i] = step < 0 ? bottom : 0;
	}
}

function transformed(
	{ shape: [rows, columns], weights }: Pick<Tile, "shape" | "weights">,
	colors: WireColors,
	palette: Palette,
	into: Int32Array,
	maxima: Float32Array | null,
): void {
	for (let row = 0, i = 0; row < rows; row++) {
		const maximum = maxima?.[row] ?? 1;
		for (let column = 0; column < columns; column++, i++) {
			const weight = weights[i] as number;
			const index = indexOf(positionOf(colors, weight, maximum));
			into[i] = Number.isNaN(weight) ? 0 : (palette[index] as number);
		}
	}
}
