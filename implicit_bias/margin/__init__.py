"""Margin problems of gated linear features, their constraints and formulations, and the results of solving them."""
