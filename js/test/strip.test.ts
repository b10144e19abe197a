import { expect, test } from "vitest";
import { labels, names, softmaxRows, stateOf } from "./fixtures";
import { frames, mount } from "./page";

const state = () =>
	stateOf(
		[
			[0, 0.5, 1, 0.25],
			[1, 0, 0, 0],
			[0.1, 0.2, 0.3, 0.4],
		],
		{ tokens: labels(["a", "b", "c", "d"]), queries: labels(["x", "y", "z"]) },
	);

async function opened(given = state()) {
	const map = await mount(given);
	(map.find(".attnmap-strip") as HTMLDetailsElement).open = true;
	await frames(3);
	const token = (side: "query" | "key", index: number) =>
		map.find(`[data-side="${side}"] [data-index="${index}"]`);
	const shades = (side: "query" | "key") =>
		map.all(`[data-side="${side}"] .attnmap-strip-token`).map((it) => it.style.background);
	const fire = async (type: string, on: HTMLElement) => {
		on.dispatchEvent(new PointerEvent(type, { bubbles: type !== "pointerleave" }));
		await frames();
	};
	return { map, token, shades, fire };
}

const NONE = (n: number) => new Array<string>(n).fill("");

test("is closed at first, and not built", async () => {
	const map = await mount(state());
	expect((map.find(".attnmap-strip") as HTMLDetailsElement).open).toBe(false);
	expect(map.all(".attnmap-strip-token")).toEqual([]);
});

test("a query shades the keys by its row, a key the queries by its column", async () => {
	const { token, shades, fire } = await opened();
	expect([shades("query"), shades("key")]).toEqual([NONE(3), NONE(4)]);
	await fire("pointerover", token("query", 1));
	expect(shades("key")).toEqual([
		"rgb(8, 48, 107)",
		"rgb(247, 251, 255)",
		"rgb(247, 251, 255)",
		"rgb(247, 251, 255)",
	]);
	expect(shades("query")).toEqual(NONE(3));
	await fire("pointerover", token("key", 0));
	expect(shades("key")).toEqual(NONE(4));
	expect(shades("query")[1]).toBe("rgb(8, 48, 107)");
});

test("a click locks, another click on it lets go", async () => {
	const { map, token, shades, fire } = await opened();
	await fire("click", token("query", 0));
	const locked = shades("key");
	expect(locked).not.toEqual(NONE(4));
	await fire("pointerover", token("query", 1));
	await fire("pointerleave", map.find('[data-side="query"]'));
	expect(shades("key")).toEqual(locked);
	await fire("click", token("query", 0));
	expect(shades("key")).toEqual(NONE(4));
});

test("follows the current cell, so that the keyboard reaches it too", async () => {
	const { map, shades } = await opened();
	await map.press("ArrowDown");
	expect(shades("key")[0]).toBe("rgb(8, 48, 107)");
});

test("only for up to 512 tokens", async () => {
	const long = await mount(stateOf(softmaxRows(2, 513), { tokens: labels(names(513)) }));
	expect(long.find(".attnmap-strip").hidden).toBe(true);
});
