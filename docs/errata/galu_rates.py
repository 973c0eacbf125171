"""Theorem 3 beside our bound: widths, and the bounds, for labels ⟨v, x⟩ with ‖v‖ = 1 on the sphere in 50 dimensions."""

import numpy as np

from implicit_bias.extensions.galu import generalisation_bound_a_priori, rkhs_bound

print("Theorem 3 bounds E½(f − y)² by C times its rate, and does not give C; halves of ours are given for comparison")
for m in (100, 300, 1000, 2000):
    X = np.random.default_rng(0).normal(size=(m, 50))
    X /= np.linalg.norm(X, axis=1)[:, None]
    ours, theirs = generalisation_bound_a_priori(X, X[:, 0], 1.0), rkhs_bound(X, X[:, 0], radius=2.0)
    print(
        f"m={m:4d}: norm of the labels {theirs.energy:.3f} ≤ M = 2; Theorem 3 {theirs.width:.0e} gates, rate "
        f"{theirs.rate:.2f}; ours {ours.width} gates, {ours.bound / 2:.2f}"
    )
