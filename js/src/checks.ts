/** What looks wrong, as one quiet line that opens. */

import { element } from "./view";

export function drawChecks(into: HTMLDetailsElement, checks: readonly string[]): void {
	const single = checks.length === 1;
	into.hidden = checks.length === 0;
	into.classList.toggle("attnmap-single", single);
	const title = single ? (checks[0] ?? "") : `${checks.length} things to check`;
	const items = single ? [] : checks.map((text) => element("li", "check", {}, [text]));
	const list = element("ul", "check-list", {}, items);
	into.replaceChildren(element("summary", "summary", {}, [title]), ...(single ? [] : [list]));
}
