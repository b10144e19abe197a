/** A saved page of all heads: the grid as in a notebook, from data that the page holds. */

import { createHeads } from "./heads-grid";
import type { HeadsState } from "./heads-model";
import { fromBase64, PageModel } from "./page-model";

/** The traits as Python wrote them: bytes are { base64: text }. */
export function headsOf(json: string): HeadsState {
	return JSON.parse(json, (_, value) =>
		typeof value?.base64 === "string" ? fromBase64(value.base64) : value,
	);
}

const stored = document.getElementById("attnmap-data");
const place = document.getElementById("attnmap");
if (stored && place) {
	createHeads(place, new PageModel(headsOf(stored.textContent)), new AbortController().signal);
}
