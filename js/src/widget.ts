/** The anywidget adapter: hands the host's model, element and signal to the map. Nothing else. */

import { createMap } from "./map";
import type { Model } from "./model";

interface Rendering {
	model: Model;
	el: HTMLElement;
	/** older hosts have none and call the returned function instead */
	signal?: AbortSignal;
}

export default {
	render({ model, el, signal }: Rendering): () => void {
		const life = new AbortController();
		if (signal?.aborted) life.abort();
		signal?.addEventListener("abort", () => life.abort());
		createMap(el, model, life.signal);
		return () => life.abort();
	},
};
