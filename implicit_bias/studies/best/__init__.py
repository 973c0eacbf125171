"""Distance of networks and max-margin problems to the best two-layer ReLU network: an experiment of our own."""

from implicit_bias.studies.collection import Collection

SOURCE = "this project: the best two-layer ReLU network, with proof"
NAMES = ("planar", "images", "pairs")
COLLECTION = Collection("best", SOURCE, NAMES, images=True)
