"""All heads at once: thumbnails, and numbers that say what each does."""
