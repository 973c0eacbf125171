"""The figures of "Decoupling Gating from Linearity" (Fiat, Malach & Shalev-Shwartz): one module each."""

from implicit_bias.studies.collection import Collection

SOURCE = 'Fiat, Malach & Shalev-Shwartz, "Decoupling Gating from Linearity"'
NAMES = (
    "memorisation", "under-parametrised", "shallow-images", "separable",
    "images", "filters", "clusters", "norms", "outputs", "alternation",
)  # fmt: skip
COLLECTION = Collection("galu", SOURCE, NAMES, images=True)
