/** The looks of the cells that are no plain weight: patterns that survive print and grey. */

import { type Flats, pack, type Rgb } from "./color";
import { State } from "./model";

interface Look {
	/** side of the repeated square in CSS pixels */
	side: number;
	/** lines from and to, in that square */
	lines: number[][];
	/** strength of the ink, of 1 */
	ink: number;
	/** the flat grey in a light and a dark theme */
	flat: [number, number];
}

const LOOKS: ReadonlyMap<number, Look> = new Map([
	[State.cannotLook, look(7, [...diagonal(7)], 0.17, [0xf2, 0x20])],
	[State.noValidKey, look(5, [...diagonal(5), ...back(5)], 0.36, [0xb4, 0x5c])],
	[State.padding, look(6, [[2.4, 3, 3.6, 3]], 0.7, [0xcc, 0x46])],
	[State.notYet, look(4, [[0, 2, 4, 2]], 0.4, [0xe2, 0x32])],
]);

function look(side: number, lines: number[][], ink: number, flat: [number, number]): Look {
	return { side, lines, ink, flat };
}

function diagonal(side: number): number[][] {
	return [-side, 0, side].map((x) => [x - 1, side + 1, x + side + 1, -1]);
}

function back(side: number): number[][] {
	return diagonal(side).map(([x0 = 0, y0 = 0, x1 = 0, y1 = 0]) => [side - x0, y0, side - x1, y1]);
}

/** The flat greys by state, for cells too small for patterns. */
export function flatsOf(dark: boolean): Flats {
	const flats = new Array<number>(7).fill(0);
	for (const [state, { flat }] of LOOKS) {
		const grey = flat[dark ? 1 : 0];
		flats[state] = pack([grey, grey, grey]);
	}
	return flats;
}

export function patternInk(dark: boolean): Rgb {
	return dark ? [201, 209, 217] : [60, 66, 74];
}

/** A repeating fill in device pixels; null for a state without a pattern. */
export function patternOf(
	context: CanvasRenderingContext2D,
	state: number,
	dark: boolean,
	ratio: number,
): CanvasPattern | null {
	const found = LOOKS.get(state);
	if (!found) return null;
	const side = Math.max(1, Math.round(found.side * ratio));
	const square = new OffscreenCanvas(side, side);
	const pen = square.getContext("2d") as OffscreenCanvasRenderingContext2D;
	const scale = side / found.side;
	pen.scale(scale, scale);
	const [red, green, blue] = patternInk(dark);
	pen.strokeStyle = `rgb(${red} ${green} ${blue} / ${found.ink})`;
	pen.lineWidth = state === State.padding ? 1.2 : 1;
	pen.beginPath();
	for (const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] of found.lines) {
		pen.moveTo(x0, y0);
		pen.lineTo(x1, y1);
	}
	pen.stroke();
	return context.createPattern(square, "repeat");
}
