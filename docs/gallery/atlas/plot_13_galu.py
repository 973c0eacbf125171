"""
Gated linear units: least squares, and two layers
=================================================

A GaLU layer multiplies trained linear units by fixed gates (Fiat, Malach & Shalev-Shwartz 2019). Its squared loss is
convex in the effective weights W, and descent on W from 0 converges to the interpolation of least Frobenius norm. With
a trained readout, W_j = v_j u_j, descent from small weights ends near the least Σ‖W_j‖, and from large ones elsewhere
(ours; a limit of small weights is proved only in special cases, such as units of one entry).
"""

# %%
# A layer of 12 units, and certified interpolations in both norms. ``least_squares`` has its own bound.

import numpy as np

from implicit_bias import Frobenius, GroupLasso, interpolation, solve
from implicit_bias.extensions.galu import GaLUNetwork, least_squares

rng, n, d, units = np.random.default_rng(8), 25, 5, 12
X = rng.normal(size=(n, d))
t = abs(X[:, 0]) - 0.5 * X[:, 1]
features = GaLUNetwork(d, units, seed=1).gates()(X)
norms = {"Σ‖W_j‖": GroupLasso(range(units)), "Frobenius": Frobenius()}
optima = {name: solve(interpolation(features, t, norm)) for name, norm in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})
print(
    f"least squares: {least_squares(features, t).norm / optima['Frobenius'].objective:.9f} times the Frobenius optimum"
)

# %%
# Descend on W, and on both layers from the scale α.

rate, W = 1 / np.linalg.norm(features.dense().reshape(n, -1), 2) ** 2, np.zeros((units, d))
for _ in range(50_000):
    W += rate * features.adjoint(t - features @ W)
print(f"descent on W: {norms['Frobenius'].value(W) / optima['Frobenius'].objective:.6f} times the Frobenius optimum")


def two_layers(scale, steps=100_000):
    U, v = scale * rng.normal(size=(units, d)), scale * rng.choice([-1.0, 1.0], units) * d**0.5
    for _ in range(steps):
        G = features.adjoint(t - features @ (v[:, None] * U))
        size = 0.3 * rate / max(abs(v).max(), np.linalg.norm(U, axis=1).max(), 1.0) ** 2
        U, v = U + size * v[:, None] * G, v + size * (U * G).sum(axis=1)
    return v[:, None] * U


scales = np.geomspace(1e-3, 3, 6)
ends = [two_layers(scale) for scale in scales]

# %%
# Norms of the ends of two layers as multiples of the certified optima.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(5, 2.8))
for name, norm in norms.items():
    ratios = [norm.value(W) / optima[name].objective for W in ends]
    print(name, np.round(ratios, 3).tolist())
    ax.loglog(scales, ratios, "o-", label=name)
ax.set(xlabel="scale α", ylabel="times the optimum")
ax.legend()
plt.show()
