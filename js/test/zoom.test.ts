import { describe, expect, test } from "vitest";
import type { Window } from "../src/model";
import {
	clampWindow,
	contains,
	isWhole,
	outward,
	type Place,
	panBy,
	reveal,
	type Size,
	snapAbout,
	windowIn,
	zoomAbout,
} from "../src/zoom";

const SIZES: Size[] = [
	[512, 300],
	[3, 500],
	[500, 2],
	[4096, 8191],
];
const PLACES: Place[] = [
	[0, 0],
	[0.31, 0.77],
	[0.5, 0.5],
	[1, 1],
];
const lengths = ([q0, q1, k0, k1]: Window) => [q1 - q0, k1 - k0] as const;
const at = ([q0, q1, k0, k1]: Window, [down, across]: Place) =>
	[q0 + down * (q1 - q0), k0 + across * (k1 - k0)] as const;

function expectInside(window: Window, size: Size) {
	const [q0, q1, k0, k1] = window;
	expect(Math.min(q0, k0)).toBeGreaterThanOrEqual(0);
	expect(q1).toBeLessThanOrEqual(size[0]);
	expect(k1).toBeLessThanOrEqual(size[1]);
	expect(q1 - q0).toBeGreaterThanOrEqual(Math.min(4, size[0]) - 1e-9);
	expect(k1 - k0).toBeGreaterThanOrEqual(Math.min(4, size[1]) - 1e-9);
}

describe("however far one zooms", () => {
	test("a window stays inside, at least 4 × 4 or the whole, and what is under the pointer stays", () => {
		for (const size of SIZES)
			for (const place of PLACES) {
				let window: Window = [0, size[0], 0, size[1]];
				for (let step = 0; step < 40; step++) {
					const before = at(window, place);
					window = zoomAbout(window, place, 0.8, size);
					expectInside(window, size);
					for (const axis of [0, 1] as const) {
						expect(at(window, place)[axis]).toBeCloseTo(before[axis], 6);
					}
				}
				expect(lengths(window)[0]).toBeCloseTo(Math.min(4, size[0]), 6);
				for (let step = 0; step < 60; step++) window = zoomAbout(window, place, 1.3, size);
				expect(isWhole(window, size)).toBe(true);
			}
	});

	test("rounded to whole tokens, the token under the pointer is the same", () => {
		for (const size of SIZES)
			for (const place of PLACES.slice(1, 3)) {
				let window: Window = [0, size[0], 0, size[1]];
				for (let step = 0; step < 40; step++) {
					window = zoomAbout(window, place, 0.83, size);
					const snapped = snapAbout(window, place, size);
					expect(snapped.every(Number.isInteger)).toBe(true);
					expectInside(snapped, size);
					expect(at(snapped, place).map(Math.floor)).toEqual(at(window, place).map(Math.floor));
				}
			}
	});
});

test("panning keeps the lengths, also at the ends", () => {
	const size: Size = [100, 60];
	expect(panBy([10, 20, 30, 50], [5, -5], size)).toEqual([15, 25, 25, 45]);
	expect(panBy([10, 20, 30, 50], [-50, 50], size)).toEqual([0, 10, 40, 60]);
	expect(clampWindow([-5, 1, 58, 59], size)).toEqual([0, 6, 56, 60]);
});

test("a box takes in all tokens that it touches", () => {
	const size: Size = [100, 60];
	expect(outward([10.2, 19.9, 30.5, 50.1], size)).toEqual([10, 20, 30, 51]);
	expect(outward([10.2, 10.4, 59.5, 60], size).map(Number.isInteger)).toEqual([
		true,
		true,
		true,
		true,
	]);
	expect(contains(outward([10.2, 10.4, 59.5, 60], size), [10, 59])).toBe(true);
	expect(windowIn([0, 100, 0, 60], [0.5, 0.25], [0.1, 0.5])).toEqual([10, 50, 15, 30]);
});

test("a cell out of view is reached by moving as little as it takes", () => {
	const size: Size = [100, 60];
	expect(reveal([10, 20, 30, 50], [15, 40], size)).toEqual([10, 20, 30, 50]);
	expect(reveal([10, 20, 30, 50], [20, 29], size)).toEqual([11, 21, 29, 49]);
	expect(reveal([10, 20, 30, 50], [99, 0], size, 0.25)).toEqual([90, 100, 0, 20]);
	for (const cell of [
		[0, 0],
		[99, 59],
		[50, 2],
	] as [number, number][]) {
		expect(contains(reveal([10, 20, 30, 50], cell, size, 0.25), cell)).toBe(true);
	}
});
