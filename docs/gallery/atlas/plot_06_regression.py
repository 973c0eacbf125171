"""
Regression: which interpolation
===============================

Descent chooses among the minimisers of the squared loss. It converges

* from 0, on a linear model, to the least ℓ2 norm;
* on w = u² − v² from the scale α, to norms from ℓ2 to ℓ1 as α falls (Woodworth et al. 2020);
* on W = UVᵀ from small weights, near the least nuclear norm (a conjecture of Gunasekar et al. 2017), but not to it:
  descent rather lowers the rank (Li, Luo & Lyu 2021).
"""

# %%
# Certified interpolations. Inputs are blocks of one entry, so that a group of the group lasso is an entry.

import numpy as np

from implicit_bias import Frobenius, GroupLasso, KernelFeatures, NuclearNorm, interpolation, solve

rng, d = np.random.default_rng(5), 40
X = rng.normal(size=(20, d))
t = X @ np.append([1.0, -1.0, 1.0], np.zeros(d - 3))
A = rng.normal(size=(30, 8, 8))
s = A[:, 0, 0] + 0.5 * A[:, 1, 1]
norms = {"ℓ1": GroupLasso(range(d)), "ℓ2": Frobenius(), "nuclear": NuclearNorm(), "Frobenius": Frobenius()}
samples = {"ℓ1": (X[:, :, None], t), "ℓ2": (X[:, :, None], t), "nuclear": (A, s), "Frobenius": (A, s)}
optima = {name: solve(interpolation(KernelFeatures(a), b, norms[name])) for name, (a, b) in samples.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})

# %%
# Descend to an interpolation.
w = np.zeros(d)
for _ in range(5000):
    w += 0.01 * X.T @ (t - X @ w)
print(f"gradient descent from 0: {np.linalg.norm(w) / optima['ℓ2'].objective:.6f} times the ℓ2 optimum")


def diagonal(scale):
    u, v, rate = np.full(d, scale), np.full(d, scale), 0.003 / max(1.0, scale**2)
    for _ in range(200_000):
        slope = X.T @ (t - X @ (u * u - v * v))
        u, v = u + rate * slope * u, v - rate * slope * v
    return (u * u - v * v)[:, None]


def factors(scale):
    (U, V), rate = scale * rng.normal(size=(2, 8, 8)), 0.002 / max(1.0, 20 * scale**2)
    for _ in range(50_000):
        slope = np.tensordot(s - np.tensordot(A, U @ V.T, 2), A, 1)
        U, V = U + rate * slope @ V, V + rate * slope.T @ U
    return U @ V.T


# %%
# Norms of the ends as multiples of the certified optima, by the scale of the first weights.

import matplotlib.pyplot as plt

scales = np.geomspace(1e-3, 3, 6)
figure, axes = plt.subplots(1, 2, figsize=(8, 2.8))
models = {"u² − v²": (diagonal, "ℓ1", "ℓ2"), "UVᵀ": (factors, "nuclear", "Frobenius")}
for ax, (model, (train, *own)) in zip(axes, models.items(), strict=True):
    ends = [train(scale) for scale in scales]
    for name in own:
        ratios = [norms[name].value(W) / optima[name].objective for W in ends]
        print(model, name, np.round(ratios, 3).tolist())
        ax.loglog(scales, ratios, "o-", label=name)
    ax.set(title=model, xlabel="scale α", ylabel="times the optimum")
    ax.legend()
plt.show()
