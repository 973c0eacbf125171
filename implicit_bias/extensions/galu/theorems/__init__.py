"""The theorems of Fiat, Malach & Shalev-Shwartz (2019) on GaLU layers as functions; docs/galu_proofs.md proves them.

Throughout, `delta` is a probability of failure δ, strictly between 0 and 1, X (m, d) are samples, and k is the number
of gates 1(⟨u_j, x⟩ > 0) with independent u_j ~ N(0, I).
"""
