/** What a saved page has in place of a host: a plain object that tells of its changes. */

import type { HostModel } from "./model";

export function fromBase64(text: string): Uint8Array {
	return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** All that the front end asks of a host, in the page itself. */
export class PageModel<State extends object> implements HostModel<State> {
	private readonly listeners = new Map<string, Set<() => void>>();

	constructor(private state: State) {}

	get<K extends keyof State>(name: K): State[K] {
		return this.state[name];
	}

	set<K extends keyof State>(name: K, value: State[K]): void {
		this.show({ ...this.state, [name]: value });
	}

	save_changes(): void {}

	on(event: string, callback: () => void): void {
		this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(callback));
	}

	off(event: string, callback: () => void): void {
		this.listeners.get(event)?.delete(callback);
	}

	/** Takes over another state; tells only of what is different, when all is in place. */
	show(next: State): void {
		const before = this.state;
		this.state = next;
		for (const name of Object.keys(next) as (keyof State)[]) {
			if (Object.is(before[name], next[name])) continue;
			for (const callback of [...(this.listeners.get(`change:${String(name)}`) ?? [])]) callback();
		}
	}
}
