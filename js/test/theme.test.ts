import { afterEach, describe, expect, test } from "vitest";
import { contrast, luminance, type Rgb } from "../src/color";
import { detectTheme, parseColor } from "../src/theme";
import { softmaxRows, stateOf } from "./fixtures";
import { frames, hostOf, mount } from "./page";

afterEach(() => {
	document.body.removeAttribute("style");
	document.body.removeAttribute("class");
	document.documentElement.removeAttribute("style");
});

const settled = () => new Promise((done) => setTimeout(done, 320));

describe("which theme", () => {
	test("the nearest ancestor with an opaque background decides", async () => {
		document.body.style.background = "white";
		const host = hostOf();
		host.style.background = "rgb(20 20 25)";
		const inner = document.createElement("div");
		inner.style.background = "rgb(255 255 255 / 0.1)";
		host.append(inner);
		const map = await mount(stateOf(softmaxRows(3, 4)), { host: inner });
		expect(map.root.dataset.theme).toBe("dark");
		host.style.background = "white";
		expect(detectTheme(map.root).dark).toBe(false);
	});

	test.each([
		["#111518", true],
		["rgb(255, 250, 240)", false],
		["oklch(0.2 0.02 250)", true],
		["color(srgb 0.95 0.95 0.9)", false],
		["hsl(210 20% 15%)", true],
	])("background %s: dark %s", async (background, dark) => {
		document.body.style.background = background;
		const map = await mount(stateOf(softmaxRows(3, 4)));
		expect(map.root.dataset.theme).toBe(dark ? "dark" : "light");
	});

	test("without any background, light text means a dark page", async () => {
		document.body.style.color = "#ddd";
		const map = await mount(stateOf(softmaxRows(3, 4)));
		expect(map.root.dataset.theme).toBe("dark");
	});

	test("looks out of shadow roots", async () => {
		const host = hostOf();
		host.style.background = "black";
		const shadow = host.attachShadow({ mode: "open" });
		const inner = document.createElement("div");
		shadow.append(inner);
		const map = await mount(stateOf(softmaxRows(3, 4)), { host: inner });
		expect(map.root.dataset.theme).toBe("dark");
	});

	test("follows the host when it changes", async () => {
		document.body.style.background = "white";
		const map = await mount(stateOf(softmaxRows(3, 4)));
		const light = map.pixel(0, 0);
		document.body.style.background = "#111";
		await frames(3);
		expect(map.root.dataset.theme).toBe("dark");
		expect(map.pixel(0, 0)).not.toEqual(light);
		document.body.style.background = "white";
		await frames(3);
		expect(map.pixel(0, 0)).toEqual(light);
	});

	test("a stylesheet that arrives after the class is noticed", async () => {
		const map = await mount(stateOf(softmaxRows(3, 4)));
		document.body.classList.add("late");
		await frames();
		const style = document.createElement("style");
		style.textContent = ".late { background: #111 }";
		document.head.append(style);
		await settled();
		await frames();
		expect(map.root.dataset.theme).toBe("dark");
		style.remove();
	});
});

describe("readable in both", () => {
	test.each([
		["white", "#222"],
		["#111518", "#ddd"],
	])("on %s every text has 4.5 : 1", async (background, color) => {
		document.body.style.background = background;
		document.body.style.color = color;
		const map = await mount(
			stateOf(softmaxRows(30, 40), { title: "T", error: "e", status: "s", _checks: ["a", "b"] }),
		);
		await map.hover(3, 4);
		const [page] = parseColor(getComputedStyle(document.body).backgroundColor);
		for (const selector of [
			".attnmap-row-label",
			".attnmap-column-label",
			".attnmap-title",
			".attnmap-size",
			".attnmap-axis-query",
			".attnmap-legend-tick",
			".attnmap-readout",
			".attnmap-muted",
			".attnmap-status",
			".attnmap-error",
			".attnmap-checks",
			".attnmap-bold",
		]) {
			const [ink] = parseColor(getComputedStyle(map.find(selector)).color);
			expect(contrast(ink, page), selector).toBeGreaterThanOrEqual(4.5);
		}
	});

	test("zero recedes into the page", async () => {
		const near = async (background: string) => {
			document.body.style.background = background;
			const map = await mount(stateOf([[0, 1, 0.5]], { show_values: false }));
			const [zero, one] = [map.pixel(0, 0), map.pixel(0, 1)];
			return luminance(zero as unknown as Rgb) - luminance(one as unknown as Rgb);
		};
		expect(await near("white")).toBeGreaterThan(0.5);
		expect(await near("#111518")).toBeLessThan(-0.5);
	});

	test("the host's font and text size are used", async () => {
		const host = hostOf();
		host.style.font = "17px monospace";
		const map = await mount(stateOf(softmaxRows(3, 4)), { host });
		expect(getComputedStyle(map.find(".attnmap-readout")).fontSize).toBe("17px");
		expect(getComputedStyle(map.find(".attnmap-readout")).fontFamily).toBe("monospace");
	});
});
