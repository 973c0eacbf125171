"""
Products of matrices: the nuclear norm
======================================

The model f(A) = ⟨UVᵀ, A⟩ is trained by gradient descent on the exponential loss. Its limit directions are stationary
points of the max-margin problem of the nuclear norm of W = UVᵀ (Lyu & Li 2020 for the factors; for the norm of W,
½‖U‖² + ½‖V‖² ≥ ‖W‖_*). Factors of rank 2 end near it, too, and W itself at the Frobenius optimum.
"""

# %%
# Samples with a rule of rank one, and certified optima of the nuclear and of the Frobenius norm.

import numpy as np

from implicit_bias import Frobenius, KernelFeatures, MarginProblem, NuclearNorm, solve

rng = np.random.default_rng(3)
n, d = 40, 8
A = rng.normal(size=(n, d, d))
y = np.sign(A[:, 0, 0] + 0.1)
norms = {"nuclear": NuclearNorm(), "Frobenius": Frobenius()}
optima = {name: solve(MarginProblem(KernelFeatures(A), y, norm)) for name, norm in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})


# %%
# Train the factors, or W itself, with steps of length :math:`t^{-1/2}` along the gradient.


def path(rank, steps=40_000):
    parts = [0.1 * rng.normal(size=(d, rank)), 0.1 * rng.normal(size=(d, rank))] if rank else [np.zeros((d, d))]
    marks, found = np.unique(np.geomspace(10, steps, 60).astype(int)), []
    for t in range(1, steps + 1):
        W = parts[0] @ parts[1].T if rank else parts[0]
        margins = y * np.tensordot(A, W, 2)
        p = np.exp(margins.min() - margins)
        G = np.tensordot(p / p.sum() * y, A, 1)
        slopes = [G @ parts[1], G.T @ parts[0]] if rank else [G]
        size = 0.3 * t**-0.5 / np.sqrt(sum(np.sum(slope**2) for slope in slopes))
        parts = [part + size * slope for part, slope in zip(parts, slopes, strict=True)]
        if t in marks:
            values = [norm.value(W) / margins.min() / optima[name].objective for name, norm in norms.items()]
            found.append([t, *(values if margins.min() > 0 else (np.nan, np.nan))])
    return np.array(found)


paths = {"U and V, full rank": path(d), "U and V, rank 2": path(2), "W itself": path(0)}
for name, found in paths.items():
    print(f"{name}: {found[-1, 1]:.3f} times the nuclear optimum, {found[-1, 2]:.3f} times the Frobenius optimum")

# %%
# Norm over margin as a multiple of the certified optimum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True)
for ax, (name, found) in zip(axes, paths.items(), strict=True):
    ax.loglog(found[:, 0], found[:, 1:], label=[*norms])
    ax.set(title=name, xlabel="steps", ylim=(0.97, 4))
axes[0].set_ylabel("times the optimum")
axes[0].legend()
plt.show()
