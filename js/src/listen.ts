/** Listeners, to the page and to the traits, that end with their signal. */

import type { HostModel } from "./model";

type Handlers = {
	[K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void;
};

export function listen(
	target: EventTarget,
	signal: AbortSignal,
	handlers: Handlers,
	more: AddEventListenerOptions = {},
): void {
	for (const [type, run] of Object.entries(handlers)) {
		target.addEventListener(type, run as EventListener, { ...more, signal });
	}
}

/** Runs a callback now and whenever one of the traits changes. */
export function reactTo<Traits>(model: Pick<HostModel<Traits>, "on" | "off">, signal: AbortSignal) {
	return (names: readonly (keyof Traits & string)[], run: () => void): void => {
		for (const name of names) {
			model.on(`change:${name}`, run);
			signal.addEventListener("abort", () => model.off(`change:${name}`, run));
		}
		run();
	};
}
