/** axe-core in the page: it comes by a script tag, as it looks for a window of its own. */

import axeUrl from "axe-core/axe.min.js?url";

interface Axe {
	run(context: Element): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
}

export async function loadAxe(): Promise<void> {
	const script = document.createElement("script");
	script.src = axeUrl;
	const loaded = new Promise((done) => script.addEventListener("load", done));
	document.head.append(script);
	await loaded;
}

/** What axe finds wrong: the rule, and the elements that break it. */
export async function violations(root: Element): Promise<[string, string[]][]> {
	const { axe } = window as unknown as { axe: Axe };
	const found = await axe.run(root);
	return found.violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]);
}
