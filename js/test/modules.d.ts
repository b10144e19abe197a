declare module "d3-scale-chromatic" {
	type Interpolate = (t: number) => string;
	export const interpolateBlues: Interpolate;
	export const interpolateRdBu: Interpolate;
	export const interpolateViridis: Interpolate;
}

declare module "*.css";

declare module "*?url" {
	const url: string;
	export default url;
}
