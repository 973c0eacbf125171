"""Theorem 1's step with two of the paper's losses, and Corollary 1's bound where m' exceeds m."""

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import corollary_samples

rng = np.random.default_rng(0)
X, k = rng.normal(size=(20, 5)), 40
features, y = GatedFeatures(X, (X @ rng.normal(size=(5, k)) > 0).astype(float)), rng.normal(size=20)
step = 20 / (k * np.linalg.norm(X, 2) ** 2)
for name, factor in (("F = ‖X̄w − y‖²/2m", 1 / 20), ("L_S = ‖X̄w − y‖² ", 2.0)):
    w = np.zeros((k, 5))
    for _ in range(100):
        w = w - step * factor * features.adjoint(features @ w - y)
    print(f"{name}: ‖X̄w − y‖² {np.sum(y**2):.1f} at first, {np.sum((features @ w - y) ** 2):.3g} after 100 steps")

m, d, gates, c1, c2 = 100, 40, 30_000, 0.5, 0.125
printed = corollary_samples(gates, d, c1, c2)
bound = 1 - printed / m
print(
    f"Corollary 1, m={m}, d={d}, k={gates}, c₁={c1}, c₂={c2}: d ≤ m' = {printed} ≤ c₂d² = {c2 * d * d:.0f}, and the "
    f"bound is {bound:.1f}"
)
