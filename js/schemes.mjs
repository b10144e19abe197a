// Writes the colour tables that Python and the front end share. They are computed here, once,
// so that the bundle carries no colour library.
import { mkdir, writeFile } from "node:fs/promises";
import * as chromatic from "d3-scale-chromatic";

const SEQUENTIAL = [
	// one hue
	...["Blues", "Greens", "Greys", "Oranges", "Purples", "Reds"],
	// several hues
	...["BuGn", "BuPu", "GnBu", "OrRd", "PuBu", "PuBuGn", "PuRd", "RdPu"],
	...["YlGn", "YlGnBu", "YlOrBr", "YlOrRd"],
	...["Cividis", "Viridis", "Inferno", "Magma", "Plasma", "Turbo"],
	...["Warm", "Cool", "CubehelixDefault"],
];
const DIVERGING = ["BrBG", "PRGn", "PiYG", "PuOr", "RdBu", "RdGy", "RdYlBu", "RdYlGn", "Spectral"];
const STEPS = 256;

/** "rgb(8, 48, 107)" or "#08306b" as "08306b". */
function hex(color) {
	if (/^#[0-9a-f]{6}$/i.test(color)) return color.slice(1).toLowerCase();
	const parts = /^rgb\((\d+), (\d+), (\d+)\)$/.exec(color);
	if (parts === null) throw new Error(`not an opaque RGB colour: ${color}`);
	return parts
		.slice(1)
		.map((part) => Number(part).toString(16).padStart(2, "0"))
		.join("");
}

function ramp(name) {
	// biome-ignore lint/performance/noDynamicNamespaceImportAccess: runs at build time, never bundled
	const interpolate = chromatic[`interpolate${name}`];
	return Array.from({ length: STEPS }, (_, i) => hex(interpolate(i / (STEPS - 1)))).join("");
}

/** `{name: {kind, ramp}}`: a ramp is 256 RGB triples, low to high, in hexadecimal. */
export function schemes() {
	const tables = (kind, names) => names.map((name) => [name, { kind, ramp: ramp(name) }]);
	return Object.fromEntries([
		...tables("sequential", SEQUENTIAL),
		...tables("diverging", DIVERGING),
	]);
}

export async function writeSchemes(url) {
	await mkdir(new URL(".", url), { recursive: true });
	await writeFile(url, `${JSON.stringify(schemes(), null, "\t")}\n`);
}
