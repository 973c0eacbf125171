"""Theorem 2: how often m Gaussian samples of d inputs and k random gates have features of less than full rank."""

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import expected_loss

for m, d, k in ((60, 5, 3), (60, 5, 11), (60, 5, 12), (60, 5, 13), (60, 5, 18)):
    rng, found = np.random.default_rng(0), []
    for _ in range(1000):
        X, U = rng.normal(size=(m, d)), rng.normal(size=(k, d))
        found.append(expected_loss(GatedFeatures(X, (X @ U.T > 0).astype(float))))
    share, mean = np.mean([f.is_deficient for f in found]), np.mean([f.value for f in found])
    print(
        f"m={m}, d={d}, k={k:2d}: rank below min(m, kd) in {100 * share:4.1f} % of 1000 draws; "
        f"1 − min(m, kd)/m = {found[0].generic:.4f}, mean of 1 − rank/m = {mean:.4f}"
    )
