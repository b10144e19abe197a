import { beforeAll, expect, test } from "vitest";
import { loadAxe, violations } from "./axe";
import { causalStates, labels, softmaxRows, stateOf, tileOf } from "./fixtures";
import { frames, mount } from "./page";

beforeAll(loadAxe);

test.each([
	["light", "#fff", "#222"],
	["dark", "#111518", "#ddd"],
])(
	"axe finds nothing in a %s theme: at rest, hovered, by keyboard, everything open",
	async (_, background, color) => {
		document.body.style.background = background;
		document.body.style.color = color;
		const rows = softmaxRows(12, 13, true);
		const map = await mount(
			stateOf(rows, {
				title: "Layer 1",
				tokens: labels(["the", "cat", ..."abcdefghijk"]),
				weights: tileOf(rows, causalStates(12, 13)),
				show_values: true,
				error: "boom",
				status: "busy",
				_checks: ["one", "two"],
			}),
		);
		const clean = async () => {
			expect(await violations(map.root)).toEqual([]);
		};
		await clean();
		await map.hover(3, 2);
		await clean();
		await map.press("ArrowDown");
		await map.press("Enter");
		for (const details of map.all("details")) (details as HTMLDetailsElement).open = true;
		await frames(3);
		await clean();
		map.model.change({ viewport: [1, 6, 0, 5], hover: null, selection: [9, 2] });
		await map.press("/");
		const input = map.find(".attnmap-search-text") as HTMLInputElement;
		input.value = "query";
		input.dispatchEvent(new InputEvent("input"));
		await frames(3);
		expect(map.find(".attnmap-minimap").checkVisibility()).toBe(true);
		expect(map.find(".attnmap-show").checkVisibility()).toBe(true);
		await clean();
	},
	60_000,
);

test("every control can be reached and named", async () => {
	const map = await mount(stateOf(softmaxRows(3, 4), { _checks: ["one", "two"] }));
	const focusable = map.all('[tabindex="0"], summary, button, input');
	for (const element of focusable) {
		expect(element.getAttribute("aria-label") ?? element.textContent).not.toBe("");
	}
	map.find(".attnmap-grid").focus({ focusVisible: true } as FocusOptions);
	await frames();
	const outline = getComputedStyle(map.find(".attnmap-grid"));
	expect(outline.outlineStyle).toBe("solid");
	expect(map.model.state.hover).toEqual([0, 0]);
});
