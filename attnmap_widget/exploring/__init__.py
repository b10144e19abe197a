"""Menus over many maps: sources, choices, what is shown of them and what is said."""
