"""The theorems of Fiat, Malach & Shalev-Shwartz (2019) on GaLU layers as functions; docs/galu_theory.md proves them."""
