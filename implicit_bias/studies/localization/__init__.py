"""Our figures on localization, after the notes on gated deep linear networks: one module each."""

from implicit_bias.studies.collection import Collection

SOURCE = "our study of localization, after the notes on gated deep linear networks"
NAMES = ("gain", "fields", "scales", "flips", "frozen", "pixels", "pulses", "biases", "tiling", "theory")
COLLECTION = Collection("localization", SOURCE, NAMES)
