/** The lines of words about the map: what went wrong, and what the kernel does or does not do. */

import { type Model, sameWindow } from "./model";
import { isPooled } from "./tile";
import type { Tiles } from "./tiles";
import { line, type View } from "./view";

export const GONE =
	"The kernel that drew this is gone: what is here can still be read; run the cell again for more";
export const COARSE = "finer cells need a running kernel";
/** ms without an answer until that is said */
const PATIENCE = 3000;

export interface Notices {
	/** one sentence on what could not be drawn, or null */
	problem(text: string | null): void;
	/** the weights or the view are others */
	awaitDetail(tiles: Tiles): void;
}

export function createNotices(view: View, model: Model, signal: AbortSignal): Notices {
	let problem: string | null = null;
	let gone = false;
	let coarse = false;
	let timer = 0;

	const write = () => {
		const error = model.get("error") ?? "";
		const kept = problem && `${problem}; what was drawn before stays`;
		line(view.error, [error, kept].filter(Boolean).join(" · "));
		// With the kernel went the work that its last status speaks of.
		const status = gone
			? GONE
			: [model.get("status"), coarse && COARSE].filter(Boolean).join(" · ");
		line(view.status, status);
	};
	const lose = () => {
		gone = true;
		write();
	};
	const events = { "change:error": write, "change:status": write, comm_live_update: lose } as const;
	for (const [event, run] of Object.entries(events) as [keyof typeof events, () => void][]) {
		model.on(event, run);
		signal.addEventListener("abort", () => model.off(event, run));
	}
	signal.addEventListener("abort", () => clearTimeout(timer));
	write();

	return {
		problem(text) {
			if (text === problem) return;
			problem = text;
			write();
		},
		awaitDetail(tiles) {
			const whole = tiles.whole();
			const viewport = model.get("viewport") ?? null;
			const has = sameWindow(tiles.detail()?.window ?? null, viewport);
			const waits = whole !== null && isPooled(whole) && viewport !== null && !has;
			clearTimeout(timer);
			const say = (now: boolean) => {
				if (now === coarse) return;
				coarse = now;
				write();
			};
			if (waits) timer = window.setTimeout(say, PATIENCE, true);
			else say(false);
		},
	};
}
