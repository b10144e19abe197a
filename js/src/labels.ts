/** Labels as they travel -> a text for each position. */

import { bytesOf, integersOf, type Labels, type WireLabels } from "./model";

const known = new WeakMap<WireLabels, Labels>();

/** Long lists travel packed; each is unpacked once, however many look at it. */
export function labelsOf(wire: WireLabels): Labels {
	if ("labels" in wire) return wire;
	const found = known.get(wire) ?? unpacked(wire);
	known.set(wire, found);
	return found;
}

function unpacked({ count, texts, pairs, ids, positions }: Exclude<WireLabels, Labels>): Labels {
	if (texts === null) {
		const labels = Array.from({ length: count }, (_, index) => String(index));
		return { labels, raw: null, positions };
	}
	const list = frontDecoded(new TextDecoder().decode(bytesOf(texts)));
	const numbers = ids && integersOf(ids, count);
	const textsFrom = (first: number) =>
		Array.from({ length: count }, (_, index) => list[first + (numbers?.[index] ?? index)] ?? "");
	const labels = textsFrom(0);
	if (!pairs) return { labels, raw: null, positions };
	const raw = textsFrom(list.length / 2);
	const other = raw.map((token, index) => (token === labels[index] ? null : token));
	return { labels, raw: other, positions };
}

function frontDecoded(text: string): string[] {
	const list: string[] = [];
	let before = "";
	for (let at = 0; at < text.length; ) {
		const end = at + 2 + text.charCodeAt(at + 1);
		before = before.slice(0, text.charCodeAt(at)) + text.slice(at + 2, end);
		list.push(before);
		at = end;
	}
	return list;
}
