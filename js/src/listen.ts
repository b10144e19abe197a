/** Listeners, to the page and to the traits, that end with their signal. */

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

/** The host's side of the widget protocol, as far as traits are listened to. */
interface Observed<State> {
	on(event: `change:${keyof State & string}`, callback: () => void): void;
	off(event: `change:${keyof State & string}`, callback: () => void): void;
}

/** Runs a callback now and whenever one of the traits changes. */
export function reactTo<State>(model: Observed<State>, signal: AbortSignal) {
	return (traits: readonly (keyof State & string)[], run: () => void): void => {
		for (const name of traits) {
			model.on(`change:${name}`, run);
			signal.addEventListener("abort", () => model.off(`change:${name}`, run));
		}
		run();
	};
}
