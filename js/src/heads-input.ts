/** Pointer and keys on a grid of heads; what they mean is the grid's own business. */

import { leaveShortcuts } from "./keyboard";
import { listen } from "./listen";

export interface HeadsInput {
	/** the head at a point of the grid's visible part */
	at(x: number, y: number): number | null;
	/** null: the pointer is on none */
	point(head: number | null): void;
	choose(head: number): void;
	/** false: the key goes on to the host */
	key(key: string, control: boolean): boolean;
	/** by keyboard */
	focused(): void;
	left(): void;
	scrolled(): void;
}

export function listenToHeads(grid: HTMLElement, input: HeadsInput, signal: AbortSignal): void {
	let last: { clientX: number; clientY: number } | null = null;
	const find = ({ clientX, clientY }: { clientX: number; clientY: number }) => {
		const box = grid.getBoundingClientRect();
		const scale = box.width / grid.offsetWidth || 1;
		const [x, y] = [(clientX - box.left) / scale, (clientY - box.top) / scale];
		return x < grid.clientWidth && y < grid.clientHeight ? input.at(x, y) : null;
	};
	listen(grid, signal, {
		pointermove(event) {
			last = event;
			input.point(find(event));
		},
		pointerleave() {
			last = null;
			input.point(null);
		},
		click(event) {
			const head = find(event);
			if (head !== null) input.choose(head);
		},
		keydown(event) {
			if (event.altKey || event.shiftKey || event.isComposing) return;
			if (!input.key(event.key, event.ctrlKey || event.metaKey)) return;
			event.preventDefault();
			event.stopPropagation();
		},
		focus() {
			if (grid.matches(":focus-visible")) input.focused();
		},
		blur: () => input.left(),
		scroll() {
			// What is under a resting pointer has changed.
			if (last) input.point(find(last));
			input.scrolled();
		},
	});
	leaveShortcuts(grid, signal);
}
