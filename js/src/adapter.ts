/** What anywidget asks of a front end: hands the host's model, element and signal on. Nothing else. */

interface Rendering<Model> {
	model: Model;
	el: HTMLElement;
	/** older hosts have none and call the returned function instead */
	signal?: AbortSignal;
}

export function adapter<Model>(
	create: (host: HTMLElement, model: Model, signal: AbortSignal) => void,
) {
	return {
		render({ model, el, signal }: Rendering<Model>): () => void {
			const life = new AbortController();
			if (signal?.aborted) life.abort();
			signal?.addEventListener("abort", () => life.abort());
			create(el, model, life.signal);
			return () => life.abort();
		},
	};
}
