"""Every figure of the study of localisation."""

from __future__ import annotations

from implicit_bias.experiments.figures.collection import Collection
from implicit_bias.experiments.localization import fields, gain, pixels, scales

MODULES = (gain, fields, scales, pixels)
COLLECTION = Collection(
    name="localization",
    source="the notes on localisation and gated deep linear networks",
    figures={module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES},
)
