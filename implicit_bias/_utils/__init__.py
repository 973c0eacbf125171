"""Argument checks, files, memory, threads, rounding."""
