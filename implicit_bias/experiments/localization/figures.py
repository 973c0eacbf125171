"""Every figure of the study of localization."""

from __future__ import annotations

from implicit_bias.experiments.localization import biases, fields, flips, frozen, gain, pixels, pulses, scales
from implicit_bias.experiments.runner.experiment import Collection

MODULES = (gain, fields, scales, flips, frozen, pixels, pulses, biases)
COLLECTION = Collection(
    name="localization",
    source="the notes on localization and gated deep linear networks",
    figures={module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES},
)
