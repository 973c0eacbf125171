"""Argument checks, files, memory, threads and rounding."""
