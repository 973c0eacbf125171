"""Distance of descent on deep chains to the best chains: an experiment of our own."""

from implicit_bias.studies.collection import Collection

SOURCE = "this project: the best chains of several layers, with a bound of all"
NAMES = ("limits",)
COLLECTION = Collection("deeper", SOURCE, NAMES, images=True)
