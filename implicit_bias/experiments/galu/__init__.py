"""The figures of "Decoupling Gating from Linearity" (Fiat, Malach & Shalev-Shwartz): one module each."""

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
from implicit_bias.experiments.runner import Collection

SOURCE = 'Fiat, Malach & Shalev-Shwartz, "Decoupling Gating from Linearity"'
COLLECTION = Collection.of(
    "galu", SOURCE, memorisation, under_parametrised, outputs, filters, images, separable, noisy_labels, norms
)
