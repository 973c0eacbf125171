"""Margin problems of several classes: the limit of descent, and classifiers; experiments of our own."""

from implicit_bias.studies.collection import Collection

SOURCE = "this project: several classes in one margin problem"
NAMES = ("descent", "classifiers")
COLLECTION = Collection("classes", SOURCE, NAMES, images=True)
