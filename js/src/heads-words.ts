/** What is said of a head: its name and its numbers. */

import { type Column, Known } from "./heads-model";
import type { Sheet } from "./heads-sheet";
import { formatCell } from "./numbers";

/** The heads by index: [layer, head]. */
export type Names = readonly [layer: number, head: number][];

export function namesOf(rows: readonly (readonly [number, number])[]): Names {
	return rows.flatMap(([layer, heads]) =>
		Array.from({ length: heads }, (_, head): [number, number] => [layer, head]),
	);
}

export function fullName([layer, head]: readonly [number, number], named: boolean): string {
	return named ? `Layer ${layer} · Head ${head}` : `Head ${head}`;
}

export function shortName([layer, head]: readonly [number, number], named: boolean): string {
	return named ? `L${layer} H${head}` : `H${head}`;
}

/** "1.20", "–" for none. */
export function formatNumber(value: number): string {
	if (Number.isNaN(value)) return "–";
	return Math.abs(value) < 100 ? formatCell(value) : String(Math.round(value));
}

/** "bits", where the number's title does not say it. */
export function unitOf({ title, unit }: Column): string {
	const said = unit.startsWith("share") || title.toLowerCase().includes(unit);
	return said ? "" : unit;
}

export function numberOf(column: Column, value: number): string {
	const unit = unitOf(column);
	const text = `${column.title.toLowerCase()} ${formatNumber(value)}`;
	return unit && !Number.isNaN(value) ? `${text} ${unit}` : text;
}

/** The numbers that a head has, `first` before all others, there or not. */
export function numbersOf(
	sheet: Sheet,
	columns: readonly Column[],
	head: number,
	first: readonly string[],
): string[] {
	const at = (column: Column) => sheet.number(head, columns.indexOf(column));
	const wanted = columns.filter(({ name }) => first.includes(name));
	const others = columns.filter((column) => {
		return !first.includes(column.name) && !Number.isNaN(at(column));
	});
	return [...wanted, ...others].map((column) => numberOf(column, at(column)));
}

/** Why a head has no numbers, or what is to be known of them. */
export function remarkOf(sheet: Sheet, head: number, errors: ReadonlyMap<number, string>): string {
	const known = sheet.known(head);
	if (known === Known.nothing) return "not read yet";
	if (known === Known.error) return `could not be read: ${errors.get(head) ?? "see the map"}`;
	return known === Known.sample ? "by a sample of its queries" : "";
}
