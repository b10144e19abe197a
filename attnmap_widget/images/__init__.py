"""Keys that are patches of a picture, and the picture itself."""
