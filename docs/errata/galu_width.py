"""Table 1 with numbers: widths that fit m labels of unit samples, by Lemmas 1 and 2 and by trying; and Corollary 1."""

import itertools
import math

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import (
    corollary_samples,
    expected_loss,
    fitted_samples,
    memorisation_width,
    sphere_width,
)


def sphere(m, d, rng):
    """m points, uniform on the sphere."""
    X = rng.normal(size=(m, d))
    return X / np.linalg.norm(X, axis=1)[:, None]


def fits(X, k, rng):
    """True if at least 19 of 20 layers of k random gates have features of rank m."""
    layers = (GatedFeatures(X, X @ rng.normal(size=(X.shape[1], k)) > 0) for _ in range(20))
    return sum(expected_loss(features).rank == len(X) for features in layers) >= 19


print("δ = 0.05; orders of Table 1: Du m⁶, Arora m⁷, Oymak m²/d, GaLU m/d, constants and logarithms apart")
for m, d in ((30, 15), (200, 100), (100, 25), (200, 25)):
    rng = np.random.default_rng(0)
    X = sphere(m, d, rng)
    first, second = memorisation_width(X), sphere_width(X)
    enough = next(k for k in itertools.count(m // d) if fits(X, k, rng))
    print(
        f"m={m:3d}, d={d:3d}: λ(X) {first.eigenvalue:.3f} ≥ c₁²/2π {second.eigenvalue:.3f}, ‖X‖/√(m/d) "
        f"{second.spread:.2f}; m⁶ {m**6:.0e}, m²/d {m * m // d}, m/d {m // d}; Lemma 1 {first.width}, Lemma 2 "
        f"{math.ceil(64 * math.pi / second.c1**2 * m / d * math.log(m / 0.05))}, enough {enough}"
    )

print("\nCorollary 1: k gates, m=200 samples in d=20 dimensions; bounds of the mean least loss")
rng = np.random.default_rng(0)
X = sphere(200, 20, rng)
for k in (2, 8, 500, 3000):
    ours = fitted_samples(X, k)
    c1 = sphere_width(X[: max(20, ours.fitted)]).c1
    printed = corollary_samples(k, 20, c1, 0.5)
    exact = expected_loss(GatedFeatures(X, X @ rng.normal(size=(20, k)) > 0))
    print(
        f"k={k:4d}: exactly {exact.value:.3f}; from Lemma 1 {ours.loss:.3f} (m' = {ours.fitted}); printed m' {printed}"
    )

print("\n‖X‖ > 2√(m/d) in 200 draws (the proof of Lemma 2 gives it probability e^{−γd})")
for d in (50, 100, 200):
    shares = [
        np.mean([np.linalg.norm(sphere(m, d, rng), 2) > 2 * math.sqrt(m / d) for _ in range(200)]) for m in (d, 2 * d)
    ]
    print(f"d={d:3d}: {shares[0]:.3f} for m = d, {shares[1]:.3f} for m = 2d")
