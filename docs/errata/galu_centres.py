"""Lemma 3 at the printed d, for two centres by counting, and how small μ is for more; and its Hoeffding step."""

import math
from fractions import Fraction

import numpy as np

from implicit_bias.extensions.galu import cluster_dimension, gate_correlations

print("n=2: μ < 1/8 exactly if ⟨v_1, v_2⟩ > 1/√2; P by counting signs, against δ")
for delta in (1e-2, 1e-3, 1e-4, 1e-6):
    d = math.ceil(2 * math.log(8 / delta))
    few = Fraction(sum(math.comb(d, j) for j in range(d) if d > 2 * j and 2 * (d - 2 * j) ** 2 > d * d), 2**d)
    verdict = "too often" if few > Fraction(delta) else "seldom enough"
    print(f"δ={delta:.0e}, d={d}: P = {few} = {float(few):.2e}, {verdict}")

print("\nn>2: least μ of 1000 draws at the printed d, and at ours, for δ = 0.05")
rng = np.random.default_rng(0)
for n in (3, 5, 10, 20):
    least = []
    dimensions = math.ceil(n**2 / 2 * math.log(2 * n**2 / 0.05)), cluster_dimension(n)
    for d in dimensions:
        draws = (rng.integers(0, 2, size=(n, d)) * 2.0 - 1 for _ in range(1000))
        least.append(min(np.linalg.eigvalsh(gate_correlations(C))[0] for C in draws))
    print(f"n={n:2d}: d={dimensions[0]:4d} μ ≥ {least[0]:.3f}; d={dimensions[1]:4d} μ ≥ {least[1]:.3f}")

print("\nP(|⟨v_i, v_j⟩| ≥ 1/(2n)) for n=5 by counting, against 2exp(−8dε²), as printed, and 2exp(−dε²/2)")
for d in (50, 200):
    often = Fraction(sum(math.comb(d, j) for j in range(d + 1) if 10 * abs(d - 2 * j) >= d), 2**d)
    print(f"d={d:3d}: {float(often):.2e} {2 * math.exp(-8 * d / 100):.2e} {2 * math.exp(-d / 200):.2e}")
