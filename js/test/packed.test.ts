import { expect, test } from "vitest";
import { labelsOf } from "../src/labels";
import { type PageData, stateOf as pageState } from "../src/page";
import { fromBase64 } from "../src/page-model";
import { labels } from "./fixtures";

// What Python makes of six tokens; a test there holds the same text.
const TEXTS = "AAJhYgADwrdpdAEEdHJpZAAC8J+YgAAD8J+YgDEAAmFiAAPEoGl0AQR0cmlkAALwn5iAAAPwn5iBMQ==";
const IDS = "AQACAAMABAAAAAMA";

test("both sides of the wire mean the same", () => {
	const [texts, ids] = [fromBase64(TEXTS), fromBase64(IDS)];
	expect(labelsOf({ count: 6, texts, pairs: true, ids, positions: null })).toEqual({
		labels: ["·it", "·trid", "😀", "😀1", "ab", "😀"],
		raw: ["Ġit", "Ġtrid", null, "😁1", null, null],
		positions: null,
	});
});

test("a short list is taken as it is", () => {
	const given = labels(["a", "b"], ["A", null]);
	expect(labelsOf(given)).toBe(given);
});

test("positions have no texts", () => {
	const found = labelsOf({ count: 3, texts: null, pairs: false, ids: null, positions: null });
	expect(found).toEqual({ labels: ["0", "1", "2"], raw: null, positions: null });
});

const one = (shared: number, rest: string) =>
	String.fromCharCode(shared) + String.fromCharCode(rest.length) + rest;
const utf8 = (text: string) => new TextEncoder().encode(text);

test("each text adds to the one before; a list is unpacked once", () => {
	const texts = utf8(one(0, "token9") + one(5, "10") + one(7, "") + one(5, "é"));
	const wire = { count: 4, texts, pairs: false, ids: null, positions: null };
	expect(labelsOf(wire)).toEqual({
		labels: ["token9", "token10", "token10", "tokené"],
		raw: null,
		positions: null,
	});
	expect(labelsOf(wire)).toBe(labelsOf(wire));
});

test.each([16, 32] as const)(
	"tokens repeat, their numbers have %i bits, and raw follows label",
	(bits) => {
		const texts = utf8(one(0, "·it") + one(0, "the") + one(0, "Ġit") + one(0, "the"));
		const ids = new DataView(new ArrayBuffer((3 * bits) / 8));
		ids[`setUint${bits}`](bits / 8, 1, true);
		expect(labelsOf({ count: 3, texts, pairs: true, ids, positions: null })).toEqual({
			labels: ["·it", "the", "·it"],
			raw: ["Ġit", null, "Ġit"],
			positions: null,
		});
	},
);

test("characters beyond the basic plane count twice", () => {
	const texts = utf8(one(0, "a😀") + one(1, "😁b") + one(0, "\u{1f3f4}"));
	const { labels: found } = labelsOf({ count: 3, texts, pairs: false, ids: null, positions: null });
	expect(found).toEqual(["a😀", "a😁b", "🏴"]);
});

test("a page keeps them in its buffers", () => {
	const data = {
		buffers: [btoa(one(0, "ab") + one(1, "c")), btoa("\x01\x00\x00\x00\x01\x00")],
		labels: [{ count: 3, texts: 0, pairs: false, ids: 1, positions: null }],
		shared: { tokens: 0, queries: null, weights: { data: 0 }, _colors: { ramp: 0 }, _detail: null },
		maps: [{ choice: null, state: {} }],
	} as unknown as PageData;
	const weights = { data: 0, states: null, at: null, quantized: null };
	const shared = { ...data.shared, weights } as PageData["shared"];
	const state = pageState({ ...data, shared }, data.maps[0] as PageData["maps"][number]);
	expect(labelsOf(state.tokens).labels).toEqual(["ac", "ab", "ac"]);
});
