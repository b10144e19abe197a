import { expect, test } from "vitest";
import { headsOf } from "../src/page-heads";
import { PageModel } from "../src/page-model";
import { fiveHeads, mountOn, stateOf } from "./heads-page";
import { frames } from "./page";

/** As Python writes the traits into a page. */
function written(): string {
	const base64 = (bytes: ArrayBufferView) =>
		btoa(String.fromCharCode(...new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
	return JSON.stringify(stateOf(fiveHeads()), (_, value) =>
		ArrayBuffer.isView(value) ? { base64: base64(value) } : value,
	);
}

test("a saved page has the same heads, and its menus work without a host", async () => {
	const state = headsOf(written());
	expect(state._sheet.data).toBeInstanceOf(Uint8Array);
	const model = new PageModel(state);
	const page = await mountOn(model);
	const [x, y] = page.middle(0, 0);
	expect(page.pixel(x, y)[0]).toBeGreaterThan(200);
	await page.point("pointermove", ...page.middle(1, 1));
	expect(page.reading()).toContain("Layer 3 · Head 1 · entropy 1.00 bits");
	await page.point("click", ...page.middle(1, 1));
	expect(model.get("selection")).toEqual([3, 1]);
	const [sort, tint] = page.root.querySelectorAll("select");
	for (const menu of [sort, tint] as HTMLSelectElement[]) {
		menu.value = "entropy";
		menu.dispatchEvent(new Event("change"));
	}
	await frames(2);
	expect(page.text(".attnmap-size")).toContain("by entropy, largest first");
	expect(page.text(".attnmap-legend")).toContain("bar: entropy (bits)");
});
