/** Event listeners that end with their signal. */

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
