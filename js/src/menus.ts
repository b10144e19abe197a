/** The menus that an explorer puts above its map belong to the host; here what they need of us. */

/**
 * Arrow keys and letters in a menu choose from it: JupyterLab would take them for its shortcuts,
 * and listens before the menu does. This attribute is how it is told.
 */
export function keepKeysInMenus(root: HTMLElement): void {
	const menus = root.closest(".attnmap-explorer")?.querySelectorAll("select") ?? [];
	for (const menu of menus) menu.toggleAttribute("data-lm-suppress-shortcuts", true);
}
