import { describe, expect, test } from "vitest";
import {
	colorize,
	contrast,
	DIMMED,
	inkOn,
	luminance,
	mix,
	paletteOf,
	positionOf,
	type Rgb,
	unpack,
} from "../src/color";
import { decodeTile } from "../src/model";
import { rowMaxima } from "../src/tile";
import { colorsOf, tileOf } from "./fixtures";

const at = (palette: Int32Array, i: number) => unpack(palette[i] ?? 0);

describe("text in cells", () => {
	test("reaches 4.5 : 1 on every colour there is", () => {
		let worst = 21;
		for (let red = 0; red < 256; red += 5)
			for (let green = 0; green < 256; green += 5)
				for (let blue = 0; blue < 256; blue += 5) {
					const color: Rgb = [red, green, blue];
					worst = Math.min(worst, contrast(color, inkOn(color)));
				}
		expect(worst).toBeGreaterThanOrEqual(4.5);
	});

	test.each(["Blues", "RdBu", "Viridis"] as const)("%s, in both themes, dimmed too", (scheme) => {
		for (const dark of [false, true]) {
			const page: Rgb = dark ? [17, 21, 24] : [255, 255, 255];
			for (let i = 0; i < 256; i++) {
				const color = at(paletteOf(colorsOf(scheme), dark), i);
				expect(contrast(color, inkOn(color))).toBeGreaterThanOrEqual(4.5);
				const dimmed = mix(color, page, DIMMED);
				expect(contrast(dimmed, inkOn(dimmed))).toBeGreaterThanOrEqual(4.5);
			}
		}
	});

	test("is light on dark and dark on light", () => {
		expect(inkOn([8, 48, 107])).toEqual([255, 255, 255]);
		expect(luminance(inkOn([247, 251, 255]))).toBeLessThan(0.01);
	});
});

describe("orientation", () => {
	test("in a dark theme a sequential ramp starts at its dark end", () => {
		for (const scheme of ["Blues", "Viridis"] as const) {
			const palette = paletteOf(colorsOf(scheme), true);
			expect(luminance(at(palette, 0))).toBeLessThan(luminance(at(palette, 255)));
		}
	});
	test("in a light theme, and when diverging, it is as given", () => {
		const light = paletteOf(colorsOf("Blues"), false);
		expect(at(light, 0)).toEqual([247, 251, 255]);
		expect(paletteOf(colorsOf("RdBu"), true)).toEqual(paletteOf(colorsOf("RdBu"), false));
	});
});

describe("positions on the ramp", () => {
	test("linear, clamped, never divided by zero", () => {
		const colors = colorsOf("Blues", { range: [0, 0.5] });
		expect([0, 0.25, 0.5, 0.9, -1].map((w) => positionOf(colors, w, 0))).toEqual([0, 0.5, 1, 1, 0]);
		const flat = colorsOf("Blues", { range: [0, 0] });
		expect([0, 0.25].map((w) => positionOf(flat, w, 0))).toEqual([0, 1]);
	});
	test("log, with zero at the bottom", () => {
		const colors = colorsOf("Blues", { range: [0.001, 1], scale: "log" });
		expect(positionOf(colors, 0.1, 0)).toBeCloseTo(2 / 3);
		expect([0, 0.001, 1].map((w) => positionOf(colors, w, 0))).toEqual([0, 0, 1]);
	});
	test("row: each row's largest is full colour, an all-zero row stays zero", () => {
		const colors = colorsOf("Blues", { scale: "row" });
		const tile = decodeTile(
			tileOf([
				[0.1, 0.2, 0.05],
				[0, 0, 0],
			]),
		);
		const pixels = new Int32Array(6);
		const palette = paletteOf(colors, false);
		colorize(tile, colors, palette, [], pixels, rowMaxima(tile));
		expect(pixels[1]).toBe(palette[255]);
		expect(pixels[0]).toBe(palette[128]);
		expect([...pixels.subarray(3)]).toEqual([palette[0], palette[0], palette[0]]);
	});
	test("diverging: zero is the middle", () => {
		const colors = colorsOf("RdBu", { range: [-0.8, 0.8] });
		expect([-0.8, 0, 0.8].map((w) => positionOf(colors, w, 0))).toEqual([0, 0.5, 1]);
	});
	test("every weight takes the colour of its position, whichever loop paints it", () => {
		const weights = [0, 0.1, 0.2, 0.33, 0.5, 0.77];
		const colors = colorsOf("Viridis", { range: [0, 0.5] });
		const palette = paletteOf(colors, false);
		const pixels = new Int32Array(6);
		colorize(
			decodeTile(tileOf([weights.slice(0, 3), weights.slice(3)])),
			colors,
			palette,
			[],
			pixels,
		);
		const expected = weights.map((w) => palette[Math.round(positionOf(colors, w, 0) * 255)]);
		expect([...pixels]).toEqual(expected);
	});
});
