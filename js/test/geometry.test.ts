import { describe, expect, test } from "vitest";
import {
	atLeast,
	cellRect,
	cellsUnder,
	fitPlot,
	LIMITS,
	niceStride,
	placeTip,
} from "../src/geometry";

const SHAPES = [
	[1, 1],
	[3, 5],
	[5, 3],
	[12, 13],
	[1, 500],
	[500, 1],
	[3, 500],
	[60, 61],
	[199, 200],
	[512, 300],
	[1024, 900],
	[4, 100_000],
] as const;
const WIDTHS = [40, 180, 320, 501, 640, 1200];
const RATIOS = [1, 1.25, 1.5, 2, 3];

function* plots() {
	for (const [rows, columns] of SHAPES)
		for (const width of WIDTHS)
			for (const ratio of RATIOS) {
				yield {
					rows,
					columns,
					width,
					ratio,
					plot: fitPlot(rows, columns, { width, height: 800 }, ratio),
				};
			}
}

describe("fitPlot", () => {
	test("never leaves the space it is given", () => {
		for (const { plot, width } of plots()) {
			expect(plot.width).toBeLessThanOrEqual(width + 1e-6);
			expect(plot.height).toBeLessThanOrEqual(800 + 1e-6);
		}
	});

	test("has whole device pixels that are its size", () => {
		for (const { plot, ratio } of plots()) {
			expect(Number.isInteger(plot.pixelWidth)).toBe(true);
			expect(Number.isInteger(plot.pixelHeight)).toBe(true);
			expect(plot.pixelWidth).toBeCloseTo(plot.width * ratio, 6);
			expect(plot.pixelHeight).toBeCloseTo(plot.height * ratio, 6);
		}
	});

	test("cells are square up to 40 px, unless a side is too thin to use", () => {
		for (const { plot, rows, columns, ratio } of plots()) {
			const width = plot.width / columns;
			const height = plot.height / rows;
			expect(width).toBeLessThanOrEqual(LIMITS.cell + 1e-6);
			expect(height).toBeLessThanOrEqual(LIMITS.cell + 1e-6);
			const thin = Math.min(plot.width, plot.height) < 4 * LIMITS.thinRow + 1;
			if (!thin && width >= 4 && height >= 4) expect(width).toBeCloseTo(height, 6);
			if (!thin) expect(Math.abs(width - height)).toBeLessThan(1 / ratio + 0.01);
		}
	});

	test("cells with a gap are whole device pixels, so all are equal", () => {
		for (const { plot } of plots()) {
			if (plot.gapX > 0) expect(plot.pixelWidth % plot.columns).toBe(0);
			if (plot.gapY > 0) expect(plot.pixelHeight % plot.rows).toBe(0);
			if (plot.width / plot.columns < LIMITS.gapFrom) expect(plot.gapX).toBe(0);
		}
	});

	test("very wide and very tall maps stay at least 24 px thick", () => {
		expect(fitPlot(1, 500, { width: 520, height: 800 }, 1).height).toBeGreaterThanOrEqual(24);
		expect(fitPlot(500, 1, { width: 520, height: 800 }, 1).width).toBeGreaterThanOrEqual(24);
		// 17 words against 1500 moments: each word has room for its label
		expect(fitPlot(17, 1500, { width: 520, height: 800 }, 1).height).toBe(17 * LIMITS.thinRow);
		expect(fitPlot(30, 89, { width: 267, height: 800 }, 1).height).toBe(30 * 3);
	});

	test("fills the width where cells may grow", () => {
		for (const columns of [13, 30, 77, 301]) {
			const plot = fitPlot(20, columns, { width: 500, height: 800 }, 1);
			expect(plot.width).toBeGreaterThan(500 * 0.79);
		}
	});
});

test("the corner cells have equal areas, at any size", () => {
	for (const { plot, rows, columns, ratio } of plots()) {
		const corners = [
			cellRect(plot, 0, 0),
			cellRect(plot, 0, columns - 1),
			cellRect(plot, rows - 1, 0),
			cellRect(plot, rows - 1, columns - 1),
		];
		for (const { width, height } of corners) {
			expect(Math.abs(width - (corners[0]?.width ?? 0))).toBeLessThan(1 / ratio);
			expect(Math.abs(height - (corners[0]?.height ?? 0))).toBeLessThan(1 / ratio);
			expect(width).toBeGreaterThan(0);
		}
	}
});

describe("cellsUnder", () => {
	test("a cell's centre is that cell where cells are at least a pixel", () => {
		for (const { plot, columns } of plots()) {
			if (columns > plot.pixelWidth) continue;
			for (const cell of [0, columns >> 1, columns - 1]) {
				const x = ((cell + 0.5) / columns) * plot.width;
				expect(cellsUnder(x, plot.width, plot.pixelWidth, columns)).toEqual([cell, cell + 1]);
			}
		}
	});

	test("pixels share out the cells: each belongs to exactly one", () => {
		for (const [count, pixels] of [
			[1000, 700],
			[513, 512],
			[4096, 301],
		] as const) {
			let next = 0;
			for (let pixel = 0; pixel < pixels; pixel++) {
				const [from, to] = cellsUnder(pixel + 0.5, pixels, pixels, count);
				expect(from).toBe(next);
				expect(to).toBeGreaterThan(from);
				next = to;
			}
			expect(next).toBe(count);
		}
	});

	test("a point outside belongs to the nearest cell", () => {
		expect(cellsUnder(-5, 100, 100, 10)).toEqual([0, 1]);
		expect(cellsUnder(100, 100, 100, 10)).toEqual([9, 10]);
	});
});

test("strides are 1, 2, 5, 10, 20, 50, …", () => {
	expect([0.3, 1, 1.1, 2.5, 5.1, 11, 21, 51, 150].map(niceStride)).toEqual([
		1, 1, 2, 5, 10, 20, 50, 100, 200,
	]);
});

test("an outline is never too small to see, and keeps its centre", () => {
	const rect = atLeast({ x: 10, y: 20, width: 1, height: 8 }, 6);
	expect(rect).toEqual({ x: 7.5, y: 20, width: 6, height: 8 });
});

test("the tooltip is off the hovered row and column and inside its bounds", () => {
	const bounds = { x: 0, y: 0, width: 600, height: 500 };
	const tip = { width: 120, height: 50 };
	for (let x = 0; x < 560; x += 37)
		for (let y = 0; y < 460; y += 29) {
			const at = placeTip({ x, y, width: 38, height: 38 }, tip, bounds);
			expect(at.x).toBeGreaterThanOrEqual(0);
			expect(at.y).toBeGreaterThanOrEqual(0);
			expect(at.x + tip.width).toBeLessThanOrEqual(bounds.width);
			expect(at.y + tip.height).toBeLessThanOrEqual(bounds.height);
			expect(at.x >= x + 38 || at.x + tip.width <= x).toBe(true);
			expect(at.y >= y + 38 || at.y + tip.height <= y).toBe(true);
		}
});
