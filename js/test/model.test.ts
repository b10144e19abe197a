import { describe, expect, test } from "vitest";
import { type Bytes, decodeTile, sameCell } from "../src/model";
import { cellAt, isPooled, locate } from "../src/tile";
import { bytes, tileOf } from "./fixtures";

const ROWS = [
	[0.25, Number.NaN, -1],
	[0, 0.5, 1e-7],
];

/** The same bytes, `offset` into a longer buffer. */
function shifted(offset: number): Uint8Array {
	const given = new Uint8Array(bytes(ROWS.flat()).buffer);
	const longer = new Uint8Array(given.length + offset + 3).fill(255);
	longer.set(given, offset);
	return longer.subarray(offset, offset + given.length);
}

describe("however the host hands the bytes over, it is the same matrix", () => {
	const view = (offset: number) => {
		const part = shifted(offset);
		return new DataView(part.buffer, part.byteOffset, part.byteLength);
	};
	const kinds: [string, Bytes][] = [
		["DataView", bytes(ROWS.flat())],
		["DataView with an aligned offset", view(4)],
		["DataView with an odd offset", view(3)],
		["ArrayBuffer", bytes(ROWS.flat()).buffer as ArrayBuffer],
		["Uint8Array", shifted(0)],
		["Uint8Array with an odd offset", shifted(5)],
	];
	test.each(kinds)("%s", (_, data) => {
		const tile = decodeTile({ ...tileOf(ROWS), data });
		expect([...tile.weights]).toEqual(ROWS.flat().map(Math.fround));
	});

	test("states and positions too", () => {
		const at = new Uint8Array(4 * 6 + 1);
		new DataView(at.buffer).setUint32(1, 77, true);
		const states = new Uint8Array([9, 9, 0, 1, 2, 3, 4, 5]).subarray(2);
		const tile = decodeTile({ ...tileOf(ROWS), states, at: at.subarray(1) });
		expect([...(tile.states ?? [])]).toEqual([0, 1, 2, 3, 4, 5]);
		expect(tile.at?.[0]).toBe(77);
	});
});

test("cells are compared by value, null is no cell", () => {
	expect(sameCell([1, 2], [1, 2])).toBe(true);
	expect(sameCell([1, 2], [2, 1])).toBe(false);
	expect(sameCell(null, [0, 0])).toBe(false);
	expect(sameCell(null, null)).toBe(true);
});

test("spots and cells agree, in windows and in pooled tiles", () => {
	const base = decodeTile({ ...tileOf(ROWS), size: [90, 120], window: [10, 12, 20, 23] });
	expect(cellAt(base, [1, 2])).toEqual([11, 22]);
	expect(locate(base, [11, 22])).toEqual([1, 2]);
	expect(locate(base, [9, 22])).toBe(null);
	expect(locate(base, [11, 23])).toBe(null);
	expect(isPooled(base)).toBe(false);

	const pooled = { ...base, window: [0, 90, 0, 120] as [number, number, number, number] };
	const tile = {
		...pooled,
		bin: [45, 40] as [number, number],
		at: new Uint32Array(6).fill(50 * 120 + 81),
	};
	expect(cellAt(tile, [1, 2])).toEqual([50, 81]);
	expect(locate(tile, [50, 81])).toEqual([1, 2]);
	expect(isPooled(tile)).toBe(true);
});
