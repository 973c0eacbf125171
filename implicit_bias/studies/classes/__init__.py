"""Several classes at once, in the sense of the theory: descent's limit, and classifiers; experiments of our own."""

from implicit_bias.studies.collection import Collection

SOURCE = "this project: several classes in one margin problem"
NAMES = ("descent", "classifiers")
COLLECTION = Collection("classes", SOURCE, NAMES, images=True)
