"""Limits of gradient descent, compared with the margin problem's solution."""
