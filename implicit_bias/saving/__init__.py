"""Saving and loading of models, problems, solutions and networks; loading executes no code."""
