/** What is wrong with a tile as it arrived: a host may cut or lose what Python sent. Pure. */

import type { WireTile } from "./model";

const MOST_CELLS = 2 ** 32;

/** One sentence, or null when every number that drawing relies on fits. */
export function faultOf(wire: WireTile): string | null {
	const { size, shape, window, bin } = wire;
	if (![size, shape, bin].every((pair) => isWhole(pair, 2, 1)) || !isWhole(window, 4, 0)) {
		return "weights arrived without their shape";
	}
	const [q0, q1, k0, k1] = window;
	const inside = q0 < q1 && q1 <= size[0] && k0 < k1 && k1 <= size[1];
	const rows = Math.ceil((q1 - q0) / bin[0]);
	const columns = Math.ceil((k1 - k0) / bin[1]);
	if (!inside || size[0] * size[1] > MOST_CELLS || rows !== shape[0] || columns !== shape[1]) {
		return `weights arrived as ${shape.join(" × ")} cells for a window of another size`;
	}
	const cells = rows * columns;
	const planes: [string, unknown, number][] = [
		["weights", wire.data, 4],
		["states", wire.states ?? new Uint8Array(cells), 1],
		["positions", wire.at ?? new Uint32Array(cells), 4],
	];
	for (const [name, bytes, each] of planes) {
		const length = (bytes as DataView | null | undefined)?.byteLength;
		if (length === cells * each) continue;
		return `${name} arrived with ${length ?? "no"} bytes instead of ${cells * each}`;
	}
	return null;
}

function isWhole(given: unknown, length: number, least: number): boolean {
	const fits = (n: unknown) => Number.isSafeInteger(n) && (n as number) >= least;
	return Array.isArray(given) && given.length === length && given.every(fits);
}
