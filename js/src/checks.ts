/** What looks wrong, as one quiet line that opens. */

export function drawChecks(into: HTMLDetailsElement, checks: readonly string[]): void {
	into.hidden = checks.length === 0;
	into.classList.toggle("attnmap-single", checks.length === 1);
	const summary = document.createElement("summary");
	const list = document.createElement("ul");
	const only = checks.length === 1 ? checks[0] : undefined;
	summary.textContent = only ?? `${checks.length} things to check`;
	list.append(
		...checks.map((text) => {
			const item = document.createElement("li");
			item.textContent = text;
			return item;
		}),
	);
	into.replaceChildren(summary, ...(only === undefined ? [list] : []));
}
