import { expect, test } from "vitest";
import { firstCell } from "../src/geometry";
import { decodeTile, State, type Tile } from "../src/model";
import { eachBand, spansOf } from "../src/pool";
import { seenWeights } from "../src/tile";
import { softmaxRows, tileOf } from "./fixtures";

/** The plain way: the largest magnitude in each pixel's block. */
function plainly(rows: number[][], down: number, across: number): number[] {
	const pooled: number[] = [];
	for (let y = 0; y < down; y++)
		for (let x = 0; x < across; x++) {
			let best = Number.NaN;
			for (let r = firstCell(y, down, rows.length); r < firstCell(y + 1, down, rows.length); r++) {
				const columns = rows[r]?.length ?? 0;
				for (let c = firstCell(x, across, columns); c < firstCell(x + 1, across, columns); c++) {
					const weight = rows[r]?.[c] ?? Number.NaN;
					if (Math.abs(weight) > Math.abs(best) || Number.isNaN(best)) best = weight;
				}
			}
			pooled.push(Math.fround(best));
		}
	return pooled;
}

/** All bands, one after the other. */
function shrink(tile: Tile, down: number, across: number) {
	const weights: number[] = [];
	const states: number[] = [];
	let rows = 0;
	const [height, width] = tile.shape;
	const edges = [spansOf(0, height, down, height), spansOf(0, width, across, width)] as const;
	eachBand(tile, seenWeights(tile), edges[0].edges, edges[1].edges, (band, row) => {
		expect(row).toBe(rows);
		weights.push(...band.weights);
		states.push(...(band.states ?? []));
		rows += band.shape[0];
	});
	return { rows, weights, states };
}

test.each([
	[30, 50, 7, 11],
	[50, 30, 49, 29],
	[9, 200, 9, 60],
	[200, 9, 60, 9],
])("%i × %i in %i × %i pixels: as the plain way does it", (rows, columns, down, across) => {
	const weights = softmaxRows(rows, columns).map((row, r) =>
		row.map((weight, c) =>
			(r * 7 + c) % 5 === 0 ? Number.NaN : (r + c) % 3 === 0 ? -weight : weight,
		),
	);
	const pooled = shrink(decodeTile(tileOf(weights)), down, across);
	expect(pooled.rows).toBe(down);
	expect(pooled.weights).toEqual(plainly(weights, down, across));
});

test.each([
	[30, 50, 7, 11],
	[9, 200, 9, 60],
	[200, 9, 60, 9],
])(
	"%i × %i in %i × %i pixels: the mean of what is there, if so asked",
	(rows, columns, down, across) => {
		const weights = softmaxRows(rows, columns).map((row, r) =>
			row.map((weight, c) => ((r * 7 + c) % 3 === 0 ? Number.NaN : weight * ((r % 5) - 1))),
		);
		const states = weights.map((row, r) => row.map((_, c) => (c > r + 20 ? State.padding : 0)));
		const tile = decodeTile({ ...tileOf(weights, states), pool: "mean" });
		const found = shrink(tile, down, across).weights;
		for (let y = 0; y < down; y++)
			for (let x = 0; x < across; x++) {
				const there: number[] = [];
				for (let r = firstCell(y, down, rows); r < firstCell(y + 1, down, rows); r++)
					for (let c = firstCell(x, across, columns); c < firstCell(x + 1, across, columns); c++) {
						const weight = Math.fround(weights[r]?.[c] ?? Number.NaN);
						if (c <= r + 20 && !Number.isNaN(weight)) there.push(weight);
					}
				const mean = there.reduce((sum, weight) => sum + weight, 0) / there.length;
				if (there.length === 0) expect(found[y * across + x]).toBeNaN();
				else expect(found[y * across + x]).toBeCloseTo(mean, 6);
			}
	},
);

test("cells that fit are neither pooled nor lost at the edges of a view", () => {
	const spans = spansOf(2.5, 3, 40, 9);
	expect([...spans.edges]).toEqual([2, 3, 4, 5, 6]);
	expect([spans.from, spans.length, spans.pooled]).toEqual([0.5, 3, false]);
});

test.each([
	[0, 100, 100],
	[13.25, 50.5, 100],
	[-20, 90, 100],
	[40, 90, 100],
])("every cell of a view from %d, %d long, has one pixel", (origin, count, total) => {
	const { edges } = spansOf(origin, count, 37, total);
	expect(edges.length).toBe(38);
	expect(edges[0]).toBe(Math.max(0, Math.ceil(origin)));
	expect(edges[37]).toBe(Math.min(total, Math.ceil(origin + count)));
	for (let i = 1; i < edges.length; i++) expect(edges[i]).toBeGreaterThanOrEqual(edges[i - 1] ?? 0);
});

test("weights win over states, states are kept where there is nothing else", () => {
	const weights = Array.from({ length: 4 }, () => [0.1, 0, 0, 0.2, 0.9, 0.9, 0, 0.3]);
	const states = weights.map(() => [
		State.weight,
		State.cannotLook,
		State.cannotLook,
		State.cannotLook,
		State.padding,
		State.padding,
		State.notYet,
		State.noValidKey,
	]);
	const pooled = shrink(decodeTile(tileOf(weights, states)), 4, 4);
	expect(pooled.weights.slice(0, 4).map((w) => (Number.isNaN(w) ? null : w))).toEqual([
		Math.fround(0.1),
		Math.fround(0.2),
		null,
		null,
	]);
	expect(pooled.states.slice(0, 4)).toEqual([0, 0, State.padding, State.noValidKey]);
});
