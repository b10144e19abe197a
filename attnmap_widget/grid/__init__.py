"""What one map is made of: weights, labels, states, colours, tiles. Neither torch nor a widget."""
