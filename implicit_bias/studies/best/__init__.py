"""How far networks and max-margin problems are from the best two-layer ReLU network: an experiment of our own."""

from implicit_bias.studies.collection import Collection

SOURCE = "this project: the best two-layer ReLU network, with proof"
NAMES = ("planar", "images", "pairs")
COLLECTION = Collection("best", SOURCE, NAMES, images=True)
