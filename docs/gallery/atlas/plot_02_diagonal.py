"""
Diagonal networks: from ℓ2 to ℓ1 and below
==========================================

A diagonal network of depth L has the weights w = u^L − v^L. Gradient descent on the exponential loss converges to
stationary points of the max-margin problem of the quasi-norm ℓ_{2/L}: of the ℓ1 norm for depth 2 (Gunasekar et al.
2018). From a large scale α of the first weights it first passes near the ℓ2 solution (Moroshko et al. 2020).
"""

# %%
# Certified optima of the ℓ1 and of the ℓ2 margin. Inputs are blocks of one entry, so that a group is an entry.

import numpy as np

from implicit_bias import Frobenius, GroupLasso, KernelFeatures, MarginProblem, solve

rng = np.random.default_rng(1)
n, d = 20, 40
w = np.append([2.0, -1.5, 1.0], np.zeros(d - 3))
X = rng.normal(size=(n, d))
y = np.sign(X @ w)
norms = {"ℓ1": GroupLasso(range(d)), "ℓ2": Frobenius()}
optima = {name: solve(MarginProblem(KernelFeatures(X[:, :, None]), y, norm)) for name, norm in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})


# %%
# Train with steps of the gradient of log Σ exp(−margins), from u = v = α.


def path(depth, scale, steps, rate):
    u, v, found = np.full(d, scale), np.full(d, scale), []
    marks = np.unique(np.geomspace(1, steps, 80).astype(int))
    for t in range(1, steps + 1):
        margins = y * (X @ (u**depth - v**depth))
        p = np.exp(margins.min() - margins)
        slope = (p / p.sum() * y) @ X
        size = depth * rate / (np.abs(u).max() + np.abs(v).max()) ** (2 * depth - 2)
        u, v = u + size * slope * u ** (depth - 1), v - size * slope * v ** (depth - 1)
        if t in marks:
            W = u**depth - v**depth
            least = (y * (X @ W)).min()
            values = [norm.value(W[:, None]) / least / optima[name].objective for name, norm in norms.items()]
            found.append([t, *(values if least > 0 else (np.nan, np.nan))])
    return np.array(found)


settings = {
    "depth 2, α = 0.1": (2, 0.1, 60_000, 0.2),
    "depth 2, α = 10": (2, 10.0, 60_000, 20.0),
    "depth 3, α = 0.1": (3, 0.1, 60_000, 0.1),
}
paths = {name: path(*setting) for name, setting in settings.items()}
for name, found in paths.items():
    print(f"{name}: {found[-1, 1]:.3f} times the ℓ1 optimum, {found[-1, 2]:.3f} times the ℓ2 optimum")

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
