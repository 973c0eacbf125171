"""Every figure of the GaLU paper that is done again."""

from __future__ import annotations

from implicit_bias.experiments.galu import (
    filters,
    images,
    memorisation,
    noisy_labels,
    norms,
    outputs,
    separable,
    under_parametrised,
)
from implicit_bias.experiments.runner.experiment import Collection

MODULES = (memorisation, under_parametrised, outputs, filters, images, separable, noisy_labels, norms)
COLLECTION = Collection(
    name="galu",
    source='Fiat, Malach & Shalev-Shwartz, "Decoupling Gating from Linearity"',
    figures={module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES},
)
