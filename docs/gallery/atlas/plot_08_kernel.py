"""
Wide networks: the least norm in the tangent kernel
===================================================

Gradient descent on the squared loss of a network of large width m or large scale α stays near its linearisation: the
interpolation of least norm in the tangent kernel at its start, for large m ``gram_matrix`` (Jacot, Gabriel & Hongler
2018; Chizat, Oyallon & Bach 2019). Here f(x) = α m^{-1/2} Σ a_j ⟨w_j, x⟩₊ with f = 0 at the start; w alone is trained.
"""

# %%
# Random points and targets, and the certified interpolations: in the tangent kernel, which is
# ``gram_matrix``, and in the kernel of a network whose readout alone is trained.

import numpy as np

from implicit_bias import Frobenius, KernelFeatures, interpolation, solve
from implicit_bias.extensions.infinite import InfiniteNetwork, gram_matrix

rng, n, d = np.random.default_rng(6), 12, 6
points = rng.normal(size=(212, d))
X, Z, t = points[:n], points[n:], rng.choice([-1.0, 1.0], n)
kernels = {
    "tangent kernel": gram_matrix(points, "relu").values,
    "kernel of the readout": InfiniteNetwork("relu", weight_variance=d).kernels(points).nngp.values,
}
optima, predicted = {}, {}
for name, kernel in kernels.items():
    features = KernelFeatures.from_kernels([kernel[:n, :n]])
    optima[name] = one = solve(interpolation(features, t, Frobenius()))
    predicted[name] = features.extended([kernel[n:, :n]]) @ one.weights
    print(name, round(one.objective, 4), f"gap {one.gap:.0e}, {one.seconds:.2f} s")


# %%
# Train to an interpolation. Compare the weights' distance from their start, times α, with the least norm, and the
# predictions at 200 points with both kernels'.


def train(width, scale, steps=4000):
    draw = np.random.default_rng(1)
    first, a = np.tile(draw.normal(size=(width // 2, d)), (2, 1)), np.repeat([1.0, -1.0], width // 2)
    w, unit = first.copy(), scale * a / width**0.5
    rate = 1 / (scale**2 * np.linalg.norm(X, 2) ** 2)
    for _ in range(steps):
        opened = X @ w.T > 0
        residual = t - (opened * (X @ w.T)) @ unit
        w += rate * unit[:, None] * ((opened.T * residual) @ X)
    ratio = scale * np.linalg.norm(w - first) / optima["tangent kernel"].objective
    f = np.maximum(Z @ w.T, 0) @ unit
    return ratio, *(np.linalg.norm(f - values) / np.linalg.norm(f) for values in predicted.values())


widths, scales = 2 ** np.arange(5, 13), 4.0 ** np.arange(-3, 4)
found = {
    "width m, for α = 1": (widths, [train(width, 1.0) for width in widths]),
    "scale α, for m = 1024": (scales, [train(1024, scale) for scale in scales]),
}

# %%
# Narrow networks and small scales leave the infinite limit.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
for ax, (name, (sizes, rows)) in zip(axes, found.items(), strict=True):
    print(name, sizes.tolist(), *(np.round(column, 3).tolist() for column in np.transpose(rows)), sep="\n")
    ax.loglog(sizes, np.array(rows) - [1, 0, 0], "o-", label=["distance / least norm − 1", *kernels])
    ax.set(xlabel=name)
axes[0].legend(fontsize=7)
plt.show()
