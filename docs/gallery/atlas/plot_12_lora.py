"""
Factors around a frozen matrix: the nuclear norm of the update
==============================================================

Low-rank adaptation trains W₀ + UVᵀ with a frozen W₀. On separable data UVᵀ grows without bound, so that we expect the
limit of factors without W₀: the largest margin in the nuclear norm (ours, without a proof). In regression UVᵀ
interpolates what W₀ leaves, from small factors near the least nuclear norm.
"""

# %%
# A frozen W₀, and certified optima of UVᵀ in the nuclear norm and, for W₀ + W with W itself, in the Frobenius norm.

import numpy as np
from scipy.special import softmax

from implicit_bias import Frobenius, KernelFeatures, MarginProblem, NuclearNorm, interpolation, solve

rng, n, d = np.random.default_rng(3), 40, 8
A = rng.normal(size=(n, d, d))
targets, frozen = A[:, 0, 0] + 0.5 * A[:, 1, 1], rng.normal(size=(d, d)) / d**0.5
labels, shift = np.sign(targets), np.tensordot(A, frozen, 2)
norms, features = {"nuclear": NuclearNorm(), "Frobenius": Frobenius()}, KernelFeatures(A)
optima = {
    "classes": {name: solve(MarginProblem(features, labels, norm)) for name, norm in norms.items()},
    "targets": {name: solve(interpolation(features, targets - shift, norm)) for name, norm in norms.items()},
}
for task, own in optima.items():
    print(
        task,
        {norm: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for norm, one in own.items()},
    )

# %%
# Train the factors: for classes by steps of length :math:`t^{-1/2}` along the gradient of log Σ exp(−margins).


def path(task, rank, steps=40_000):
    parts = [0.01 * rng.normal(size=(d, rank)) for _ in range(2)]
    marks, found = np.unique(np.geomspace(10, steps, 60).astype(int)), []
    for t in range(1, steps + 1):
        W = parts[0] @ parts[1].T
        outputs, size = np.tensordot(A, W, 2), 0.002
        pull = targets - shift - outputs if task == "targets" else labels * softmax(-labels * (shift + outputs))
        G = np.tensordot(pull, A, 1)
        slopes = G @ parts[1], G.T @ parts[0]
        if task == "classes":
            size = 0.3 * t**-0.5 / np.sqrt(sum(np.sum(slope**2) for slope in slopes))
        parts = [part + size * slope for part, slope in zip(parts, slopes, strict=True)]
        if t in marks:
            least = max((labels * outputs).min(), 1e-9) if task == "classes" else 1.0
            found.append([t, *(norm.value(W) / least / optima[task][name].objective for name, norm in norms.items())])
    return np.array(found)


paths = {(task, rank): path(task, rank) for task in optima for rank in (8, 4)}

# %%
# Norm, over the margin for classes, as a multiple of the certified optimum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True)
for ax, ((task, rank), found) in zip(axes, paths.items(), strict=True):
    print(f"{task}, rank {rank}:", dict(zip(norms, found[-1, 1:].round(3).tolist(), strict=True)))
    ax.loglog(found[:, 0], found[:, 1:], label=[*norms])
    ax.set(title=f"{task}, rank {rank}", xlabel="steps", ylim=(0.5, 4))
axes[0].legend()
plt.show()
