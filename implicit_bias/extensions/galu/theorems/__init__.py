"""The theorems on GaLU layers as functions, after Fiat, Malach & Shalev-Shwartz (2019)."""
