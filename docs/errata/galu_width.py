"""Lemma 1's width, and the least width at which 19 of 20 layers of random gates fit all labels."""

import itertools

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.theory import expected_loss, memorisation_width

for m, d in ((10, 20), (50, 50), (100, 50), (200, 50)):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    lemma = memorisation_width(X, 0.05)

    def fits(k, X=X, rng=rng):
        """Whether 19 of 20 layers have features of rank m."""
        layers = (GatedFeatures(X, X @ rng.normal(size=(k, X.shape[1])).T > 0) for _ in range(20))
        return sum(expected_loss(features).rank == len(X) for features in layers) >= 19

    enough = next(k for k in itertools.count(-(-m // d)) if fits(k))
    print(f"m={m:3d}, d={d}: λ(X) {lemma.eigenvalue:.3f}, width by Lemma 1 {lemma.width:4d}, enough {enough:2d}")
