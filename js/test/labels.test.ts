import { describe, expect, test } from "vitest";
import { elide } from "../src/axes";
import { labels, names, softmaxRows, stateOf } from "./fixtures";
import { frames, type Mounted, mount } from "./page";

const visible = (map: Mounted, selector: string) =>
	map.all(selector).filter((label) => getComputedStyle(label).visibility === "visible");

const indices = (elements: HTMLElement[]) =>
	elements.map((label) => Number(label.dataset.index)).sort((a, b) => a - b);

const overlaps = (elements: HTMLElement[]) => {
	const boxes = elements
		.map((label) => label.getBoundingClientRect())
		.sort((a, b) => a.top - b.top);
	return boxes.some((box, i) => {
		const next = boxes[i + 1];
		return next !== undefined && next.top < box.bottom - 1.5;
	});
};

describe("one label per position", () => {
	test("rows at the left from the top, keys along the bottom from the left", async () => {
		const queries = ["uno", "dos", "tres"];
		const tokens = ["a", "b", "c", "d", "e"];
		const map = await mount(
			stateOf(softmaxRows(3, 5), { queries: labels(queries), tokens: labels(tokens) }),
		);
		expect(map.texts(".attnmap-row-label")).toEqual(queries);
		expect(map.texts(".attnmap-column-label")).toEqual(tokens);
		const cells = map.find(".attnmap-cells").getBoundingClientRect();
		map.all(".attnmap-row-label").forEach((label, row) => {
			const box = label.getBoundingClientRect();
			expect(box.right).toBeLessThanOrEqual(cells.left);
			expect((box.top + box.bottom) / 2).toBeCloseTo(cells.top + (row + 0.5) * 40, -0.5);
		});
		map.all(".attnmap-column-label").forEach((label, column) => {
			const box = label.getBoundingClientRect();
			expect(box.top).toBeGreaterThanOrEqual(cells.bottom);
			expect((box.left + box.right) / 2).toBeCloseTo(cells.left + (column + 0.5) * 40, -0.5);
		});
	});

	test("repeated tokens keep their own rows, columns and read-outs", async () => {
		const tokens = labels(["the", "cat", "the", "mat"]);
		const map = await mount(stateOf(softmaxRows(4, 4), { tokens, queries: null }));
		expect(map.texts(".attnmap-row-label")).toEqual(["the", "cat", "the", "mat"]);
		await map.hover(3, 0);
		const said = map.find(".attnmap-readout").textContent;
		expect(said).toMatch(/^mat \(3\) looks at the \(0\) /);
		await map.hover(3, 2);
		expect(map.find(".attnmap-readout").textContent).toMatch(/^mat \(3\) looks at the \(2\) /);
	});
});

describe("text is text", () => {
	const hostile = [
		"<s>",
		"<|endoftext|>",
		"&amp;",
		"a<b",
		'"><img src=x onerror=alert(1)>',
		"</script>",
		"שלום",
		"你好",
	];

	test("hostile tokens are inert and shown as they are", async () => {
		const map = await mount(
			stateOf(softmaxRows(3, 8), {
				tokens: labels(hostile, hostile),
				queries: labels(hostile.slice(3, 6)),
				title: "<b>x</b>",
				_checks: ["<img src=y>", "<i>"],
			}),
			{ width: 1400 },
		);
		(map.find(".attnmap-strip") as HTMLDetailsElement).open = true;
		for (let column = 0; column < 8; column++) {
			await map.hover(1, column);
			expect(map.find(".attnmap-readout").textContent).toContain(hostile[column]);
			expect(map.find(".attnmap-tooltip").textContent).toContain(hostile[column]);
			const label = map.find(`.attnmap-column-label[data-index="${column}"]`);
			expect(label.textContent).toBe(hostile[column]);
		}
		expect(map.all("img, script, i, s")).toEqual([]);
	});

	test("right-to-left words stay logical, and isolated", async () => {
		const map = await mount(stateOf(softmaxRows(2, 3), { tokens: labels(["שלום", "a", "b"]) }));
		const label = map.find('.attnmap-column-label[data-index="0"]');
		expect(label.textContent).toBe("שלום");
		expect(label.dir).toBe("auto");
		expect(getComputedStyle(label).unicodeBidi).toContain("isolate");
	});

	test("the token as given is in the read-out where it reads differently", async () => {
		const tokens = labels(["The", "·trophy"], [null, "Ġtrophy"]);
		const map = await mount(stateOf(softmaxRows(3, 2), { tokens }));
		await map.hover(2, 1);
		expect(map.find(".attnmap-readout").textContent).toContain("·trophy “Ġtrophy” (1)");
		await map.hover(2, 0);
		expect(map.find(".attnmap-readout").textContent).toContain("looks at The (0)");
	});
});

describe("long labels", () => {
	const tokens = ["internationalisation_a", "internationalisation_b", "x".repeat(300)];

	test("are cut in the middle, whole in read-out and tooltip", async () => {
		const map = await mount(stateOf(softmaxRows(3, 3), { tokens: labels(tokens), queries: null }), {
			width: 420,
		});
		const shown = map.texts(".attnmap-row-label");
		expect(new Set(shown).size).toBe(3);
		expect(shown[2]).toMatch(/^x+…x+$/);
		await map.hover(2, 1);
		expect(map.find(".attnmap-readout").textContent).toContain("x".repeat(300));
		expect(map.find(".attnmap-readout").textContent).toContain("internationalisation_b");
		expect(map.find(".attnmap-tooltip").textContent).toContain("x".repeat(300));
	});

	test("take at most 30 % of the width", async () => {
		for (const width of [320, 500, 760, 1200]) {
			const map = await mount(
				stateOf(softmaxRows(12, 13), {
					queries: labels(names(12, "a very long label indeed ")),
					tokens: labels(names(13, "another even longer label ")),
				}),
				{ width },
			);
			const cells = map.find(".attnmap-cells").getBoundingClientRect();
			expect(cells.left - map.root.getBoundingClientRect().left).toBeLessThanOrEqual(
				0.3 * width + 1,
			);
			for (const label of map.all(".attnmap-row-label, .attnmap-column-label")) {
				const box = label.getBoundingClientRect();
				expect(box.left).toBeGreaterThanOrEqual(map.root.getBoundingClientRect().left - 2);
				expect(box.bottom - cells.bottom).toBeLessThanOrEqual(0.3 * width + 20);
			}
		}
	});

	test("elide keeps both ends and whole characters", () => {
		const measure = (text: string) => Array.from(text).length;
		expect(elide("abcdefghij", 10, measure)).toBe("abcdefghij");
		expect(elide("abcdefghij", 5, measure)).toBe("ab…ij");
		expect(elide("😀😁😂🤣😃😄", 4, measure)).toBe("😀😁…😄");
		expect(elide("abc", 0, measure)).toBe("…");
		const family = "👩‍👩‍👧";
		const wide = (text: string) => [...new Intl.Segmenter().segment(text)].length;
		expect(elide(`${family}e\u0301xye\u0301`, 4, wide)).toBe(`${family}e\u0301…e\u0301`);
	});
});

describe("thinning", () => {
	test.each([
		[60, 40],
		[120, 130],
		[300, 500],
	])("%i × %i: every n-th, no two overlap, and the axes say so", async (rows, columns) => {
		const map = await mount(stateOf(softmaxRows(rows, columns)));
		for (const [selector, axis] of [
			[".attnmap-row-label", ".attnmap-axis-query"],
			[".attnmap-column-label", ".attnmap-axis-key"],
		] as const) {
			const shown = indices(visible(map, selector));
			const stride = (shown[1] ?? 0) - (shown[0] ?? 0);
			expect(shown[0]).toBe(0);
			expect(String(stride)).toMatch(/^[125]0*$/);
			expect(shown).toEqual(shown.map((_, n) => n * stride));
			const said = map.find(axis).textContent;
			if (stride > 1) expect(said).toMatch(new RegExp(`every ${stride}(nd|th) label`));
			else expect(said).not.toContain("every");
		}
		expect(overlaps(visible(map, ".attnmap-row-label"))).toBe(false);
	});

	test("labels of the hovered and the pinned cell are always there, bold, and clear of others", async () => {
		const map = await mount(stateOf(softmaxRows(300, 200), { selection: [203, 101] }));
		await map.hover(77, 33);
		const bold = (selector: string) =>
			indices(
				visible(map, selector).filter((label) => getComputedStyle(label).fontWeight === "700"),
			);
		expect(bold(".attnmap-row-label")).toEqual([77, 203]);
		expect(bold(".attnmap-column-label")).toEqual([33, 101]);
		expect(overlaps(visible(map, ".attnmap-row-label"))).toBe(false);
		map.model.change({ hover: null, selection: null });
		await frames();
		expect(bold(".attnmap-row-label")).toEqual([]);
		expect(map.all('.attnmap-row-label[data-index="77"]')).toEqual([]);
	});

	test("stay upright where they fit, slanted where not", async () => {
		const short = await mount(stateOf(softmaxRows(4, 6), { tokens: labels([..."abcdef"]) }));
		expect(short.find(".attnmap-columns").dataset.slanted).toBe("false");
		const long = await mount(stateOf(softmaxRows(4, 6), { tokens: labels(names(6, "suitcase")) }));
		expect(long.find(".attnmap-columns").dataset.slanted).toBe("true");
	});
});
