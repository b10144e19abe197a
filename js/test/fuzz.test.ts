/** Bytes as a broken connection, another version or a bug would deliver them. */

import { expect, test } from "vitest";
import { faultOf } from "../src/fault";
import type { Bytes, WireTile } from "../src/model";
import { causalStates, colorsOf, labels, names, softmaxRows, stateOf, tileOf } from "./fixtures";
import { tileOver } from "./gesture";
import { frames, type Mounted, mount } from "./page";

const ROWS = 7;
const COLUMNS = 11;
const good = () => tileOf(softmaxRows(ROWS, COLUMNS, true), causalStates(ROWS, COLUMNS));

/** The same numbers each time. */
function dice(seed: number): (below: number) => number {
	let state = seed;
	return (below) => {
		state = (state * 1103515245 + 12345) % 2147483648;
		return Math.floor((state / 2147483648) * below);
	};
}

function noise(length: number, roll: (below: number) => number): Uint8Array {
	return Uint8Array.from({ length }, () => roll(256));
}

/** At an offset that no 4-byte number may start at. */
function misaligned(bytes: Bytes, offset: number): DataView {
	const source = bytes as DataView;
	const moved = new Uint8Array(offset + source.byteLength);
	moved.set(new Uint8Array(source.buffer, source.byteOffset, source.byteLength), offset);
	return new DataView(moved.buffer, offset);
}

/** One way of many to deliver a tile that does not fit. */
function broken(roll: (below: number) => number): WireTile {
	const wire = good();
	const cells = ROWS * COLUMNS;
	const length = roll(2) === 0 ? roll(4 * cells) : 4 * cells + 1 + roll(64);
	const ways: (() => Partial<WireTile>)[] = [
		() => ({ data: noise(length, roll) }),
		() => ({ data: new DataView(new ArrayBuffer(length)) }),
		() => ({ states: noise(length === cells ? length + 1 : length, roll) }),
		() => ({ at: noise(length, roll) }),
		() => ({ shape: [COLUMNS, ROWS] }),
		() => ({ shape: [ROWS + 1 + roll(9), COLUMNS] }),
		() => ({ shape: [0, COLUMNS] }),
		() => ({ shape: [-ROWS, -COLUMNS] }),
		() => ({ shape: [ROWS + 0.5, COLUMNS] }),
		() => ({ shape: [Number.NaN, COLUMNS] }),
		() => ({ shape: undefined as unknown as [number, number] }),
		() => ({ size: [1e9, 1e9] }),
		() => ({ size: [ROWS - 1, COLUMNS] }),
		() => ({ size: [ROWS, COLUMNS, 1] as unknown as [number, number] }),
		() => ({ window: [3, 3, 0, COLUMNS] }),
		() => ({ window: [0, ROWS + 1 + roll(9), 0, COLUMNS] }),
		() => ({ window: [0, ROWS, -1, COLUMNS - 1] }),
		() => ({ window: [0, ROWS] as unknown as WireTile["window"] }),
		() => ({ bin: [2 + roll(9), 1] }),
		() => ({ bin: [0, 0] }),
		() => ({ bin: [1e-9, 1] }),
		() => ({ data: null as unknown as DataView }),
		() => ({ data: "nan" as unknown as DataView }),
		() => ({ data: Array(cells).fill(0.5) as unknown as DataView }),
	];
	return { ...wire, ...ways[roll(ways.length)]?.() };
}

const sameAs = (before: Uint8ClampedArray, map: Mounted) =>
	map.picture().every((value, i) => value === before[i]);
const said = (map: Mounted) => {
	const line = map.find(".attnmap-error");
	return line.hidden ? "" : line.textContent;
};

test("a tile that does not fit is one line, and the map before stays and is read", async () => {
	const map = await mount(stateOf([[0]], { weights: good(), ...fitting() }));
	const before = map.picture().slice();
	const roll = dice(3);
	for (let n = 0; n < 120; n++) {
		const weights = broken(roll);
		map.model.change({ weights });
		await frames(1);
		expect([n, said(map)]).toEqual([n, `${faultOf(weights)}; what was drawn before stays`]);
		expect(said(map)).not.toMatch(/\n|undefined|NaN/);
	}
	expect(sameAs(before, map)).toBe(true);
	map.model.change({ weights: { ...good(), data: new DataView(new ArrayBuffer(8)) } });
	await map.hover(4, 2);
	expect(map.find(".attnmap-readout").textContent).toMatch(/q4 \(4\) looks at k2 \(2\) 0\.\d+/);
	map.model.change({ weights: good() });
	await frames();
	expect(said(map)).toBe("");
	expect(sameAs(before, map)).toBe(true);
});

test("whatever offset the host chose, the numbers are the same", async () => {
	const map = await mount(stateOf([[0]], { weights: good(), ...fitting() }));
	const before = map.picture().slice();
	for (const offset of [1, 2, 3, 4, 5, 7, 8]) {
		const { data, states, ...rest } = good();
		const moved = { data: misaligned(data, offset), states: misaligned(states as Bytes, offset) };
		map.model.change({ weights: { ...rest, ...moved } });
		await frames();
		expect(said(map)).toBe("");
		expect(sameAs(before, map)).toBe(true);
	}
});

test("bytes of the right length are drawn, whatever they say", async () => {
	const map = await mount(stateOf([[0]], { weights: good(), ...fitting() }));
	const roll = dice(11);
	for (let n = 0; n < 40; n++) {
		const cells = ROWS * COLUMNS;
		const at = roll(2) === 0 ? null : noise((roll(2) + 1) * 2 * cells, roll);
		const states = noise(at === null ? cells : Math.ceil(cells / 2), roll);
		const planes = { data: noise(4 * cells, roll), states };
		const scale = (["linear", "log", "row"] as const)[n % 3] ?? "linear";
		const range: [number, number] = [1e-3, roll(3) === 0 ? 1e-3 : 1e30];
		const _colors = colorsOf("RdBu", { scale, range });
		map.model.change({ weights: { ...good(), ...planes, at }, _colors });
		await frames(1);
		expect([n, said(map)]).toEqual([n, ""]);
		await map.hover(roll(ROWS), roll(COLUMNS));
		await map.press("ArrowRight");
	}
	expect(said(map)).toBe("");
});

test("tokens and colours that came with broken weights wait for good ones", async () => {
	const map = await mount(stateOf([[0]], { weights: good(), ...fitting() }));
	const before = map.picture().slice();
	const others = { tokens: labels(names(COLUMNS, "other")), queries: labels(names(ROWS, "row")) };
	const short = { ...good(), data: new DataView(new ArrayBuffer(8)) };
	map.model.change({ weights: short, ...others, _colors: colorsOf("Viridis") });
	await frames();
	expect(sameAs(before, map)).toBe(true);
	expect(map.texts(".attnmap-row-label")).toEqual(names(ROWS, "q"));
	map.model.change({ weights: good() });
	await frames();
	expect(sameAs(before, map)).toBe(false);
	expect(map.texts(".attnmap-row-label")).toEqual(names(ROWS, "row"));
});

test("nothing good came yet: the line alone, and the first good tile is drawn", async () => {
	const weights = { ...good(), data: new DataView(new ArrayBuffer(12)) };
	const map = await mount(stateOf([[0]], { weights, ...fitting() }));
	expect(said(map)).toContain("12 bytes instead of 308");
	map.model.change({ weights: good() });
	await frames();
	expect(said(map)).toBe("");
	expect(map.picture().some((value) => value > 0)).toBe(true);
});

test("a detail that does not fit leaves the overview and the detail before", async () => {
	const size = [400, 600] as const;
	const weight = (query: number, key: number) => ((query * 7 + key) % 10) / 10;
	const map = await mount(
		stateOf([[0]], {
			tokens: labels(names(600, "k")),
			queries: labels(names(400, "q")),
			weights: tileOver(size, weight, 4),
			viewport: [100, 120, 200, 230],
			_detail: tileOver(size, weight, 1, [100, 120, 200, 230]),
			show_values: false,
		}),
	);
	const before = map.picture().slice();
	const detail = tileOver(size, weight, 1, [100, 120, 200, 230]);
	map.model.change({ _detail: { ...detail, shape: [20, 29] } });
	await frames();
	expect(said(map)).toContain("20 × 29 cells for a window of another size");
	expect(sameAs(before, map)).toBe(true);
	map.model.change({ _detail: detail });
	await frames();
	expect(said(map)).toBe("");
});

test("other traits that cannot be drawn are one line too, until they can", async () => {
	const map = await mount(stateOf([[0]], { weights: good(), ...fitting() }));
	const before = map.picture().slice();
	const { tokens, _colors } = map.model.state;
	for (const odd of [
		{ tokens: { labels: null as unknown as string[], raw: null, positions: null } },
		{ _colors: { ..._colors, ramp: null as unknown as DataView } },
	]) {
		map.model.change(odd);
		await frames();
		expect(said(map)).toMatch(/^the map could not be drawn .*; what was drawn before stays$/);
		expect(sameAs(before, map)).toBe(true);
		await map.hover(3, 1);
		expect(map.model.state.hover).toEqual([3, 1]);
		map.model.change({ tokens, _colors });
		await frames();
		expect(said(map)).toBe("");
	}
});

function fitting() {
	return { tokens: labels(names(COLUMNS, "k")), queries: labels(names(ROWS, "q")) };
}
