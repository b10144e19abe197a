import { expect, test } from "vitest";
import { count, everyNth, formatCell, formatTick, formatWeight, ordinal } from "../src/numbers";

test("read-outs are sensible at every size", () => {
	const said = (weight: number) => formatWeight(Math.fround(weight));
	expect([0.25, 0.0312, 1.23e-4, 1, 0, -0.1, 0.1, 12.5, 3.2e7].map(said)).toEqual([
		"0.25",
		"0.0312",
		"1.23e-4",
		"1.00",
		"0",
		"−0.10",
		"0.10",
		"12.50",
		"3.20e+7",
	]);
	expect(formatWeight(Number.NaN)).toBe("no weight");
	expect(formatWeight(-Infinity)).toBe("−Infinity");
});

test("cells have two decimals, and no negative zero", () => {
	expect([0.414, -0.1, 1, 0.001, -0.001].map(formatCell)).toEqual([
		"0.41",
		"−0.10",
		"1.00",
		"0.00",
		"0.00",
	]);
});

test("ticks are short", () => {
	expect([0, 0.5, 0.25, 1, 1.5, -0.8, 0.05, 0.00012, 120, 1234.5].map(formatTick)).toEqual([
		"0",
		".50",
		".25",
		"1",
		"1.5",
		"−.80",
		".050",
		"1.2e-4",
		"120",
		"1230",
	]);
});

test("words for counts", () => {
	expect([1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal)).toEqual([
		"1st",
		"2nd",
		"3rd",
		"4th",
		"11th",
		"12th",
		"13th",
		"21st",
		"102nd",
		"111th",
	]);
	expect(count(1, "query", "queries")).toBe("1 query");
	expect(count(0, "key")).toBe("0 keys");
	expect([1, 2, 5].map(everyNth)).toEqual(["", "every 2nd label", "every 5th label"]);
});
