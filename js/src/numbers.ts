/** Numbers as text, sensible at every size. */

const minus = (text: string) => text.replace(/^-/, "−");

/** For read-outs: 0, 0.25, 0.0312, 1.23e-4, 1.00, −0.10. */
export function formatWeight(weight: number): string {
	const size = Math.abs(weight);
	if (Number.isNaN(weight)) return "no weight";
	if (size === 0) return "0";
	if (size >= 1e6 || size < 1e-3) return minus(weight.toExponential(2));
	return minus(size < 0.1 ? weight.toPrecision(3) : weight.toFixed(2));
}

/** For cells: two decimals, and no minus before a rounded zero. */
export function formatCell(weight: number): string {
	return minus(weight.toFixed(2).replace(/^-(?=0\.00$)/, ""));
}

/** For the legend: 0, .25, .50, 1, 1.5, 1.2e-4. */
export function formatTick(value: number): string {
	if (value === 0) return "0";
	const size = Math.abs(value);
	if (size < 1e-3 || size >= 1e5) return minus(value.toExponential(1).replace(".0e", "e"));
	const text = value.toPrecision(size >= 100 ? 3 : 2);
	const plain = size < 1 ? text.replace(/^(-?)0\./, "$1.") : text.replace(/\.0$/, "");
	return minus(size >= 100 ? String(Number(text)) : plain);
}

/** 1st, 2nd, 3rd, 4th, 11th, 21st. */
export function ordinal(n: number): string {
	const tens = n % 100;
	const suffix = tens > 10 && tens < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
	return `${n}${suffix}`;
}

export function count(n: number, one: string, many = `${one}s`): string {
	return `${n} ${n === 1 ? one : many}`;
}

/** "every 2nd label", for an axis that is thinned; nothing for one that is not. */
export function everyNth(stride: number): string {
	return stride > 1 ? `every ${ordinal(stride)} label` : "";
}
