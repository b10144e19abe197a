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

	test("states too; in a pooled tile two to a byte, and positions of 16 bits or of 32", () => {
		const states = new Uint8Array([9, 9, 0, 1, 2, 3, 4, 5]).subarray(2);
		const tile = decodeTile({ ...tileOf(ROWS), states });
		expect([...(tile.states ?? [])]).toEqual([0, 1, 2, 3, 4, 5]);
		for (const bits of [16, 32] as const) {
			const at = new DataView(new ArrayBuffer((bits / 8) * 6 + 1), 1);
			at[`setUint${bits}`](bits / 8, 77, true);
			const halves = new Uint8Array([0x10, 0x32, 0x54]);
			const pooled = decodeTile({ ...tileOf(ROWS), states: halves, at });
			expect([...(pooled.states ?? [])]).toEqual([0, 1, 2, 3, 4, 5]);
			expect([...(pooled.at ?? [])]).toEqual([0, 77, 0, 0, 0, 0]);
		}
	});

	test("an odd number of states ends in half a byte", () => {
		const wire = { ...tileOf([[1, 2, 3]]), states: new Uint8Array([0x30, 0x04]) };
		const pooled = decodeTile({ ...wire, at: new DataView(new ArrayBuffer(6)) });
		expect([...(pooled.states ?? [])]).toEqual([0, 3, 4]);
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
		at: new Uint16Array(6).fill(5 * 40 + 1),
	};
	expect(cellAt(tile, [1, 2])).toEqual([50, 81]);
	expect(locate(tile, [50, 81])).toEqual([1, 2]);
	expect(cellAt(tile, [0, 0])).toEqual([5, 1]);
	expect(isPooled(tile)).toBe(true);

	// Beyond 65 536 × 65 536 cells a position is still a whole number.
	const vast = { ...tile, size: [9e6, 8e6], window: [0, 9e6, 0, 8e6], bin: [3e4, 4e4] };
	const at = new Uint32Array(6).fill(29_999 * 4e4 + 39_999);
	expect(cellAt({ ...vast, at } as unknown as typeof tile, [1, 2])).toEqual([59_999, 119_999]);
});
