"""Saving and loading problems, solutions and networks; loading executes no code."""
