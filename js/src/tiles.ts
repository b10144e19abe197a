/** The tiles at hand: the whole grid, and the best detail that came for a view. */

import { faultOf } from "./fault";
import type { Box } from "./geometry";
import { plotOf } from "./geometry";
import { decodeTile, type Model, sameWindow, type Tile, type Window, type WireTile } from "./model";
import type { Layer } from "./scene";
import { isPooled, type Survey, survey } from "./tile";

interface Known {
	tile: Tile;
	survey: Survey;
}

export interface Tiles {
	/** looks at the traits; false: there is no other tile, and nothing was decoded */
	refresh(): boolean;
	/** null until there are weights */
	whole(): Tile | null;
	/** the best detail that came, whatever its window */
	detail(): Tile | null;
	/** what is wrong with the weights and with the detail that came last, or null */
	readonly faults: Readonly<Record<"whole" | "detail", string | null>>;
	layers(box: Box, view: Window): { layers: Layer[]; known: Layer[] };
}

export function createTiles(model: Model): Tiles {
	let wire: WireTile | null = null;
	let whole: Known | null = null;
	let detailWire: WireTile | null = null;
	let detail: Known | null = null;
	const faults: Record<keyof Tiles["faults"], string | null> = { whole: null, detail: null };

	/** What does not fit is not drawn: the tile before stays. */
	const know = (from: WireTile, name: keyof typeof faults, before: Known | null): Known | null => {
		faults[name] = faultOf(from);
		if (faults[name] !== null) return before;
		const tile = decodeTile(from);
		return { tile, survey: survey(tile) };
	};
	const forgetDetail = () => {
		detail = detailWire = faults.detail = null;
	};

	return {
		refresh() {
			const before = [whole, detail];
			const next = model.get("weights");
			if (next && next !== wire) {
				wire = next;
				const known = know(next, "whole", whole);
				if (known !== whole) forgetDetail();
				whole = known;
			}
			const offered = model.get("_detail");
			const viewport = model.get("viewport");
			if (!offered || !whole || !isPooled(whole.tile)) forgetDetail();
			// One for another window comes too late. One that was asked for stays, in its own place,
			// until a newer one comes: the view sharpens and never goes back to blocks.
			else if (offered !== detailWire && viewport && sameWindow(offered.window, viewport)) {
				detailWire = offered;
				detail = know(offered, "detail", detail);
			}
			return before[0] !== whole || before[1] !== detail;
		},
		whole: () => whole?.tile ?? null,
		detail: () => detail?.tile ?? null,
		faults,
		layers(box, view) {
			const put = (one: Known): Layer => ({ ...one, plot: plotOf(box, one.tile, view) });
			const base = put(whole as Known);
			if (detail === null) return { layers: [base], known: [base] };
			const fine = put(detail);
			const [q0, q1, k0, k1] = detail.tile.window;
			const apart = q1 <= view[0] || q0 >= view[1] || k1 <= view[2] || k0 >= view[3];
			const covers = q0 <= view[0] && q1 >= view[1] && k0 <= view[2] && k1 >= view[3];
			const layers = covers ? [fine] : apart ? [base] : [base, fine];
			return { layers, known: [fine, base] };
		},
	};
}
