"""Limits of gradient descent, compared with the solutions of margin problems."""
