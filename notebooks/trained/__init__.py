"""Trained models whose weights come as Python packages: no notebook here needs a network."""
