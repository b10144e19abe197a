/** The anywidget adapter of the grid of heads. Nothing else. */

import { createHeads } from "./heads-grid";
import type { HeadsModel } from "./heads-model";

interface Rendering {
	model: HeadsModel;
	el: HTMLElement;
	/** older hosts have none and call the returned function instead */
	signal?: AbortSignal;
}

export default {
	render({ model, el, signal }: Rendering): () => void {
		const life = new AbortController();
		if (signal?.aborted) life.abort();
		signal?.addEventListener("abort", () => life.abort());
		createHeads(el, model, life.signal);
		return () => life.abort();
	},
};
