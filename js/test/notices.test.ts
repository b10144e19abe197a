import { afterEach, expect, test, vi } from "vitest";
import type { ModelEvent } from "../src/model";
import { COARSE, GONE } from "../src/notices";
import { FakeModel, labels, names, softmaxRows, stateOf } from "./fixtures";
import { tileOver } from "./gesture";
import { frames, type Mounted, mount } from "./page";

afterEach(() => vi.useRealTimers());

const status = (map: Mounted) => {
	const line = map.find(".attnmap-status");
	return line.hidden ? "" : line.textContent;
};
const fire = (model: FakeModel, event: ModelEvent) => {
	for (const callback of model.listeners.get(event) ?? []) callback();
};

test("the kernel is gone: said in place of its last status, and the map is read on", async () => {
	const model = new FakeModel(stateOf(softmaxRows(4, 6), { status: "reading 6 × 4: 40%" }));
	const map = await mount(model);
	expect(status(map)).toBe("reading 6 × 4: 40%");
	fire(model, "comm_live_update");
	expect(status(map)).toBe(GONE);
	await map.hover(2, 5);
	expect(map.find(".attnmap-readout").textContent).toContain("query2 (2) looks at key5 (5)");
	map.close();
	expect(model.listening).toBe(0);
});

const WINDOW: [number, number, number, number] = [100, 120, 200, 230];
const size = [400, 600] as const;
const pooled = () =>
	mount(
		stateOf([[0]], {
			tokens: labels(names(600, "k")),
			queries: labels(names(400, "q")),
			weights: tileOver(size, () => 0.5, 4),
			status: "240000 weights",
			show_values: false,
		}),
	);

test("no detail for a while: said, and taken back when it comes", async () => {
	const map = await pooled();
	vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
	map.model.change({ viewport: WINDOW });
	await frames();
	vi.advanceTimersByTime(2500);
	expect(status(map)).toBe("240000 weights");
	vi.advanceTimersByTime(600);
	expect(status(map)).toBe(`240000 weights · ${COARSE}`);
	map.model.change({ _detail: tileOver(size, () => 0.5, 1, WINDOW) });
	await frames();
	expect(status(map)).toBe("240000 weights");
});

test("an answer in time, or everything in view: nothing is said", async () => {
	const map = await pooled();
	vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
	map.model.change({ viewport: WINDOW });
	await frames();
	map.model.change({ _detail: tileOver(size, () => 0.5, 1, WINDOW) });
	await frames();
	vi.advanceTimersByTime(60_000);
	expect(status(map)).toBe("240000 weights");
	map.model.change({ viewport: [0, 20, 0, 30] });
	await frames();
	map.model.change({ viewport: null });
	await frames();
	vi.advanceTimersByTime(60_000);
	expect(status(map)).toBe("240000 weights");
});
