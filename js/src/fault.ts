/** What is wrong with a tile as it arrived: a host may cut or lose what Python sent. Pure. */

import type { WireTile } from "./model";

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
	if (
		!inside ||
		size[0] * size[1] > Number.MAX_SAFE_INTEGER ||
		rows !== shape[0] ||
		columns !== shape[1]
	) {
		return `weights arrived as ${shape.join(" × ")} cells for a window of another size`;
	}
	const cells = rows * columns;
	// Pooled tiles have two states to a byte, and positions of 2 or of 4 bytes.
	const perState = wire.at === null ? 1 : 0.5;
	const planes: [string, unknown, number[]][] = [
		["weights", wire.data, [4]],
		["states", wire.states, [perState]],
		["positions", wire.at, [2, 4]],
	];
	for (const [name, bytes, each] of planes) {
		if (bytes === null && name !== "weights") continue;
		const length = (bytes as DataView | null | undefined)?.byteLength;
		const lengths = each.map((size) => Math.ceil(cells * size));
		if (length !== undefined && lengths.includes(length)) continue;
		return `${name} arrived with ${length ?? "no"} bytes instead of ${lengths.join(" or ")}`;
	}
	return null;
}

function isWhole(given: unknown, length: number, least: number): boolean {
	const fits = (n: unknown) => Number.isSafeInteger(n) && (n as number) >= least;
	return Array.isArray(given) && given.length === length && given.every(fits);
}
