"""The figures of the notes on localization in gated deep linear networks: one module each."""

from implicit_bias.experiments.localization import biases, fields, flips, frozen, gain, pixels, pulses, scales
from implicit_bias.experiments.runner import Collection

SOURCE = "the notes on localization and gated deep linear networks"
COLLECTION = Collection.of("localization", SOURCE, gain, fields, scales, flips, frozen, pixels, pulses, biases)
