/**
 * The view: a window of tokens that glides in the browser, and the `viewport` trait that follows
 * it in whole tokens, at most ten times a second.
 */

import { type Model, sameWindow, type Window } from "./model";
import {
	between,
	clampWindow,
	isWhole,
	outward,
	type Place,
	type Size,
	snapAbout,
	wholeOf,
	zoomAbout,
} from "./zoom";

const GLIDE = 160;
const APART = 100;
const MIDDLE: Place = [0.5, 0.5];

export interface Camera {
	/** queries and keys of the whole grid */
	size(): Size;
	/** what is in view now; fractions on the way */
	view(): Window;
	/** where it is going, in whole tokens */
	goal(): Window;
	zoomed(): boolean;
	moving(): boolean;
	/** the grid's size, at each frame: another one starts afresh */
	fit(size: Size): void;
	/** takes a step of a glide; false: there was none to take */
	step(now: number): boolean;
	/** `factor` times as much in view, about a place that stays */
	zoom(place: Place, factor: number): void;
	/** glides or jumps to whole tokens; null: everything */
	go(window: Window | null, glide?: boolean): void;
	/** follows a gesture at once */
	drag(window: Window): void;
	/** the gesture is over: on to whole tokens */
	settle(place?: Place): void;
}

export function createCamera(model: Model, changed: () => void, signal: AbortSignal): Camera {
	let size: Size = [0, 0];
	let now: Window = [0, 0, 0, 0];
	let goal = now;
	/** what zooming adds up to before it is rounded */
	let wish = now;
	let glide: { from: Window; start: number | null } | null = null;

	/** the viewport as this view knows it */
	let known = model.get("viewport") ?? null;
	let wanted: Window | null = known;
	let sent = Number.NEGATIVE_INFINITY;
	let timer = 0;

	const send = () => {
		clearTimeout(timer);
		timer = 0;
		if (sameWindow(wanted, known)) return;
		known = wanted;
		sent = performance.now();
		model.set("viewport", wanted);
		model.save_changes();
	};
	/** The last request wins; those before it are not sent at all. */
	const request = (next: Window) => {
		wanted = isWhole(next, size) ? null : next;
		const wait = sent + APART - performance.now();
		if (wait <= 0) send();
		else timer ||= window.setTimeout(send, wait);
	};
	const jump = (window: Window) => {
		now = goal = wish = window;
		glide = null;
		changed();
	};
	const glideTo = (window: Window) => {
		goal = window;
		const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
		if (still || sameWindow(now, goal)) jump(goal);
		else glide = { from: now, start: null };
		changed();
	};
	/** Where the trait says, without a glide: it may be one of many steps of another view. */
	const follow = () => {
		const viewport = model.get("viewport") ?? null;
		if (sameWindow(viewport, known)) return;
		clearTimeout(timer);
		timer = 0;
		known = wanted = viewport;
		jump(viewport === null ? wholeOf(size) : outward(viewport, size));
	};
	model.on("change:viewport", follow);
	signal.addEventListener("abort", () => {
		model.off("change:viewport", follow);
		clearTimeout(timer);
	});

	return {
		size: () => size,
		view: () => now,
		goal: () => goal,
		zoomed: () => !isWhole(goal, size) || !isWhole(now, size),
		moving: () => glide !== null,
		fit(next) {
			if (next[0] === size[0] && next[1] === size[1]) return;
			size = next;
			known = wanted = model.get("viewport") ?? null;
			now = goal = wish = known === null ? wholeOf(size) : outward(known, size);
			glide = null;
		},
		step(time) {
			if (glide === null) return false;
			glide.start ??= time;
			const share = Math.min(1, (time - glide.start) / GLIDE);
			now = between(glide.from, goal, 1 - (1 - share) ** 3);
			if (share === 1) {
				now = goal;
				glide = null;
			}
			changed();
			return true;
		},
		zoom(place, factor) {
			wish = zoomAbout(wish, place, factor, size);
			const window = snapAbout(wish, place, size);
			if (sameWindow(window, goal)) return;
			glideTo(window);
			request(window);
		},
		go(window, smooth = true) {
			const next = window === null ? wholeOf(size) : outward(window, size);
			wish = next;
			if (smooth) glideTo(next);
			else jump(next);
			request(next);
		},
		drag(window) {
			jump(clampWindow(window, size));
			goal = snapAbout(now, MIDDLE, size);
			request(goal);
		},
		settle(place = MIDDLE) {
			wish = snapAbout(now, place, size);
			glideTo(wish);
			wanted = isWhole(wish, size) ? null : wish;
			send();
		},
	};
}
