"""The figures of the notes on localization in gated deep linear networks: one module each."""

from implicit_bias.experiments.collection import Collection

SOURCE = "the notes on localization and gated deep linear networks"
NAMES = ("gain", "fields", "scales", "flips", "frozen", "pixels", "pulses", "biases")
COLLECTION = Collection("localization", SOURCE, NAMES)
