"""The figures of "Decoupling Gating from Linearity" (Fiat, Malach & Shalev-Shwartz): one module each."""

from implicit_bias.experiments.collection import Collection

SOURCE = 'Fiat, Malach & Shalev-Shwartz, "Decoupling Gating from Linearity"'
NAMES = ("memorisation", "under-parametrised", "outputs", "filters", "images", "separable", "clusters", "norms")
COLLECTION = Collection("galu", SOURCE, NAMES, images=True)
