import { describe, expect, test } from "vitest";
import type { Labels, State } from "../src/model";
import { labels, names, softmaxRows, stateOf, tileOf } from "./fixtures";
import { frames, mount } from "./page";

const ROWS = softmaxRows(3, 5);

/** Labels at those positions; `offset` bytes into a longer buffer, as a host may hand it over. */
function placed(texts: string[], positions: number[], offset = 0): Labels {
	const bytes = new DataView(new ArrayBuffer(offset + 4 * positions.length));
	positions.forEach((position, i) => {
		bytes.setUint32(offset + 4 * i, position, true);
	});
	return { ...labels(texts), positions: new DataView(bytes.buffer, offset) };
}

const shifted = (given: Partial<State> = {}) =>
	stateOf(ROWS, {
		tokens: placed(names(5, "key"), [5, 6, 7, 8, 4_000_000_000], 3),
		queries: placed(names(3, "query"), [9, 11, 12]),
		...given,
	});

describe("positions", () => {
	test("are what is read, spoken and announced; the index is what is pinned", async () => {
		const map = await mount(shifted());
		await map.hover(1, 3);
		expect(map.find(".attnmap-readout").textContent).toContain("query1 (11) looks at key3 (8)");
		expect(map.find(".attnmap-cell").getAttribute("aria-label")).toMatch(
			/^query1 \(11\) → key3 \(8\): /,
		);
		await map.hover(2, 4);
		await map.click(2, 4);
		expect(map.model.get("selection")).toEqual([2, 4]);
		expect(map.find(".attnmap-readout").textContent).toContain("(12) looks at key4 (4000000000)");
		expect(map.find(".attnmap-cell").getAttribute("aria-colindex")).toBe("5");
	});

	test("name the part in view", async () => {
		const rows = softmaxRows(30, 50);
		const tokens = placed(
			names(50),
			Array.from({ length: 50 }, (_, i) => 100 + 2 * i),
		);
		const map = await mount(stateOf(rows, { tokens, viewport: [3, 13, 20, 40] }));
		expect(map.find(".attnmap-size").textContent).toBe(
			"30 queries × 50 keys, in view 3–12 × 140–178",
		);
	});

	test("may become fewer, with their tokens", async () => {
		const map = await mount(shifted());
		map.model.change({
			tokens: placed(["a", "b"], [3, 9]),
			queries: placed(["x"], [7]),
			weights: tileOf([[0.25, 0.75]]),
		});
		await map.hover(0, 1);
		expect(map.texts(".attnmap-column-label")).toEqual(["a", "b"]);
		expect(map.find(".attnmap-readout").textContent).toContain("x (7) looks at b (9) 0.75");
	});

	test("are those of the last labels that came", async () => {
		const map = await mount(shifted({ selection: [0, 0] }));
		map.model.change({ tokens: labels(names(5, "key")) });
		await map.hover(0, 2);
		expect(map.find(".attnmap-readout").textContent).toContain("query0 (9) looks at key2 (2)");
	});
});

describe("values of another kind", () => {
	test("are named in the legend, in the read-out and spoken", async () => {
		const map = await mount(stateOf(ROWS, { value_title: "difference" }));
		expect(map.find(".attnmap-legend-title").textContent).toBe("difference");
		await map.hover(2, 1);
		expect(map.find(".attnmap-readout").textContent).toContain(
			"query2 (2) looks at key1 (1): difference 0.",
		);
		expect(map.find(".attnmap-cell").getAttribute("aria-label")).toMatch(
			/^query2 \(2\) → key1 \(1\): difference 0\./,
		);
		map.model.change({ value_title: "‖αv‖" });
		await map.hover(0, 1);
		expect(map.find(".attnmap-legend-title").textContent).toBe("‖αv‖");
		expect(map.find(".attnmap-readout").textContent).toContain(": ‖αv‖ 0.");
	});

	test("are what is missing, and what is where none may be", async () => {
		const states = [
			[2, 3, 0, 0, 0],
			[0, 0, 0, 0, 0],
			[0, 0, 0, 0, 0],
		];
		const weights = { ...stateOf(ROWS).weights };
		weights.states = new DataView(Uint8Array.from(states.flat()).buffer);
		const map = await mount(stateOf(ROWS, { value_title: "score", weights }));
		expect(map.texts(".attnmap-legend-words")).toEqual([
			"empty (no score given)",
			"score where it cannot look (1 cell)",
		]);
	});
});

describe("maps beside each other", () => {
	test("stand at one height, whatever is above them, and are of one width", async () => {
		const beside = document.createElement("div");
		beside.className = "attnmap-beside";
		beside.style.width = "700px";
		document.body.append(beside);
		const given = [
			{ title: "short" },
			{ title: "a title that breaks into lines ".repeat(4) },
			{ title: "b", error: "a line or two of what is wrong here, in words" },
		];
		const maps = [];
		for (const one of given) {
			const host = document.createElement("div");
			beside.append(host);
			maps.push(await mount(stateOf(ROWS, one), { host }));
		}
		await frames(4);
		const boxes = maps.map((map) => map.find(".attnmap-cells").getBoundingClientRect());
		const [first, second, third] = boxes as [DOMRect, DOMRect, DOMRect];
		expect(second.top).toBeCloseTo(first.top, 0);
		expect(second.left).toBeGreaterThan(first.right);
		// There is room for two: the third goes below, as large as they are.
		expect(third.top).toBeGreaterThan(first.bottom);
		expect(third.left).toBeCloseTo(first.left, 0);
		for (const { width, height } of boxes) {
			expect([width, height]).toEqual([first.width, first.height]);
		}
	});
});

describe("room for other labels", () => {
	const long = ["a", "a rather long name", "c", "d", "e"];

	test("makes maps with other labels alike, and goes", async () => {
		const tokens = labels(names(5, "key"));
		const queries = labels(["x", "y", "another name that is long"]);
		const room = { tokens: labels(long), queries };
		const boxOf = ({ root }: { root: HTMLElement }) => {
			const [outer, cells] = [root, root.querySelector(".attnmap-cells") as HTMLElement].map(
				(element) => element.getBoundingClientRect(),
			);
			return [(cells?.left ?? 0) - (outer?.left ?? 0), cells?.width, cells?.height];
		};
		const wide = await mount(stateOf(ROWS, room), { width: 420 });
		const narrow = await mount(stateOf(ROWS, { tokens }), { width: 420 });
		expect(boxOf(narrow)).not.toEqual(boxOf(wide));
		narrow.model.change({ _room: room });
		await frames();
		expect(boxOf(narrow)).toEqual(boxOf(wide));
		expect(narrow.texts(".attnmap-rows > *")).toEqual(["query0", "query1", "query2"]);
	});
});

describe("axes of another kind", () => {
	const experts = { query_title: "Token", key_title: "Expert" };

	test("are named on the axes, in the read-out, spoken, and in the strip", async () => {
		const map = await mount(stateOf(ROWS, experts));
		expect(map.find(".attnmap-axis-query").textContent).toBe("Token");
		expect(map.find(".attnmap-axis-key").textContent).toBe("Expert");
		expect(map.find(".attnmap-size").textContent).toBe("3 × 5 (Token × Expert)");
		await map.hover(2, 1);
		expect(map.find(".attnmap-readout").textContent).toContain(
			"Token query2 (2) → Expert key1 (1) 0.",
		);
		expect(map.find(".attnmap-cell").getAttribute("aria-label")).toMatch(
			/^Token query2 \(2\) → Expert key1 \(1\): /,
		);
		map.find(".attnmap-strip").setAttribute("open", "");
		await map.hover(0, 0);
		expect(map.texts(".attnmap-strip-title")).toEqual(["Token", "Expert"]);
		map.model.change({ key_title: "Second" });
		await map.hover(0, 1);
		expect(map.texts(".attnmap-strip-title")).toEqual(["Token", "Second"]);
		expect(map.find(".attnmap-axis-key").textContent).toBe("Second");
	});

	test("do not look: the legend and the read-out say masked", async () => {
		const states = [
			[0, 3, 0, 0, 4],
			[0, 0, 0, 0, 4],
			[5, 5, 5, 5, 5],
		];
		const weights = { ...stateOf(ROWS).weights };
		weights.states = new DataView(Uint8Array.from(states.flat()).buffer);
		const map = await mount(stateOf(ROWS, { ...experts, weights }));
		expect(map.texts(".attnmap-legend-words")).toEqual([
			"no valid Expert",
			"padding",
			"weight where masked (1 cell)",
		]);
		await map.hover(2, 1);
		expect(map.find(".attnmap-readout").textContent).toContain("padding Token");
	});

	test("are cut in the middle where they are longer than the map", async () => {
		const map = await mount(stateOf(ROWS, { query_title: "A very long name of what looks" }));
		const title = map.find(".attnmap-axis-query");
		expect(title.textContent).toMatch(/^A.+….+s$/);
		expect(title.scrollHeight).toBeLessThanOrEqual(map.find(".attnmap-grid").offsetHeight);
	});

	test("as text, whatever the title holds", async () => {
		const map = await mount(stateOf(ROWS, { key_title: "<img src=x>" }));
		expect(map.find(".attnmap-axis-key").textContent).toBe("<img src=x>");
		expect(map.all("img")).toEqual([]);
	});
});
