/** The anywidget adapter of a picture: hands the host's model, element and signal on. Nothing else. */

import type { ImageModel } from "./imagemodel";
import { createImage } from "./overpicture";

interface Rendering {
	model: ImageModel;
	el: HTMLElement;
	/** older hosts have none and call the returned function instead */
	signal?: AbortSignal;
}

export default {
	render({ model, el, signal }: Rendering): () => void {
		const life = new AbortController();
		if (signal?.aborted) life.abort();
		signal?.addEventListener("abort", () => life.abort());
		createImage(el, model, life.signal);
		return () => life.abort();
	},
};
