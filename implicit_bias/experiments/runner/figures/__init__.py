"""Figures of papers, drawn again: what one is, its cells as jobs, and its results as files.

`base.Experiment` is a figure, `collection.Collection` the figures of one command `reproduce NAME`; `galu`,
`localization` and `gram` beside this package have a module for each of theirs.
"""
