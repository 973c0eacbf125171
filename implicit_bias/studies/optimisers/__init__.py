"""Optimisers and the margin problems of their norms; experiments of our own."""

from implicit_bias.studies.collection import Collection

SOURCE = "this project: the margin problem of every optimiser"
NAMES = ("ratios", "width", "batches", "classes", "learned", "decay", "errors")
COLLECTION = Collection("optimisers", SOURCE, NAMES, images=True)
