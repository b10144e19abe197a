import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** CHROMIUM, then the PATH, else undefined: the runner's own. tests/e2e/conftest.py looks the same way. */
function chromium(): string | undefined {
	if (process.env.CHROMIUM) return process.env.CHROMIUM;
	const folders = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
	return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(existsSync);
}

const executablePath = chromium();

export default defineConfig({
	test: {
		include: ["test/**/*.test.ts"],
		allowOnly: false,
		browser: {
			enabled: true,
			headless: true,
			screenshotFailures: false,
			instances: [{ browser: "chromium" }],
			provider: playwright({
				launchOptions: {
					...(executablePath === undefined ? {} : { executablePath }),
					args: [
						"--no-sandbox",
						"--disable-gpu",
						"--disable-quic",
						"--no-first-run",
						"--disable-background-networking",
						"--disable-component-update",
						"--disable-sync",
					],
				},
			}),
		},
	},
});
