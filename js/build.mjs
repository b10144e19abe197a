// Builds everything in attnmap_widget/static: the bundle, its styles, the colour tables.
//   node build.mjs           once, minified
//   node build.mjs --watch   again on every change, readable, with source maps
import { fileURLToPath } from "node:url";
import { context } from "esbuild";
import { writeSchemes } from "./schemes.mjs";

const watch = process.argv.includes("--watch");
const outdir = new URL("../attnmap_widget/static/", import.meta.url);

const build = await context({
	absWorkingDir: import.meta.dirname,
	entryPoints: ["widget", "heads", "image"]
		.flatMap((name) => [`src/${name}.ts`, `src/${name}.css`])
		.concat("src/page.ts", "src/page-heads.ts"),
	outdir: fileURLToPath(outdir),
	bundle: true,
	format: "esm",
	target: "es2022",
	minify: !watch,
	sourcemap: watch ? "inline" : false,
	legalComments: "eof",
	logLevel: watch ? "info" : "warning",
});

await writeSchemes(new URL("schemes.json", outdir));
if (watch) {
	await build.watch();
} else {
	try {
		await build.rebuild();
	} catch {
		process.exitCode = 1; // esbuild has already said what is wrong, and where
	}
	await build.dispose();
}
