"""
Attention: the tokens that are chosen
=====================================

One layer of attention scores a token x_t by x_tᵀWz for the query z. Gradient descent on W converges in direction to
the separation of the best tokens from all others of least Frobenius norm; on W = KQᵀ, of least nuclear norm (Tarzanagh
et al. 2023). Token differences are gates and queries are inputs, so that this is a problem of gated linear features.
For Muon on W, the spectral norm follows in the same way (ours).
"""

# %%
# Five tokens a sample. The first entry of a token is its value: 1 for one token, 0 for the others.

import numpy as np

from implicit_bias import Frobenius, GatedFeatures, MarginProblem, NuclearNorm, TwoLayerNorm, solve

rng = np.random.default_rng(4)
n, tokens, d = 12, 5, 8
X, Z = rng.normal(size=(n, tokens, d)), rng.normal(size=(n, d))
X[:, :, 0] = np.eye(tokens)[rng.integers(0, tokens, n)]
D = (X[X[:, :, 0] == 1][:, None] - X)[X[:, :, 0] == 0].reshape(n, tokens - 1, d)
features = GatedFeatures(np.repeat(Z, tokens - 1, axis=0), D.reshape(-1, d))
norms = {"W": Frobenius(), "K and Q": NuclearNorm(), "Muon": TwoLayerNorm(range(d), "spectral", "l_inf")}
optima = {name: solve(MarginProblem(features, np.ones(features.n), norm)) for name, norm in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})

# %%
# Train by steps of length :math:`t^{-1/2}` along the gradient of Σ exp(−output), which is computed from logarithms.

marks = np.unique(np.geomspace(10, 40_000, 60).astype(int))
curves = {name: {other: [] for other in norms} for name in norms}
for name in norms:
    parts = [0.1 * rng.normal(size=(d, d)) for _ in range(2)] if name == "K and Q" else [np.zeros((d, d))]
    for t in range(1, marks[-1] + 1):
        W = parts[0] @ parts[1].T if len(parts) > 1 else parts[0]
        gains = (features @ W).reshape(n, tokens - 1)
        # The best token's weight is 1/(1 + Σ exp(−gains)), another token's exp(−gain) times as large.
        best = -np.log1p(np.exp(-gains).sum(axis=1, keepdims=True))
        logs = 2 * best - gains - np.exp(best)
        G = np.einsum("it,itd,ie->de", np.exp(logs - logs.max()), D, Z)
        slopes = [G @ parts[1], G.T @ parts[0]] if len(parts) > 1 else [G]
        if name == "Muon":
            U, _, V = np.linalg.svd(G)
            slopes = [U @ V]
        size = t**-0.5 / np.sqrt(sum(np.sum(slope**2) for slope in slopes))
        parts = [part + size * slope for part, slope in zip(parts, slopes, strict=True)]
        if t in marks:
            for other, norm in norms.items():
                ratio = norm.value(W) / gains.min() / optima[other].objective if gains.min() > 0 else np.nan
                curves[name][other].append(ratio)
    print(f"{name}: {(gains.min(axis=1) > 0).sum()} of {n} best tokens,", end=" ")
    print({other: round(float(each[-1]), 3) for other, each in curves[name].items()})

# %%
# Norm over margin as a multiple of the certified optimum, of three norms of W.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True)
for ax, name in zip(axes, norms, strict=True):
    for other, label in zip(norms, ("Frobenius", "nuclear", "spectral"), strict=True):
        ax.loglog(marks, curves[name][other], lw=3 if other == name else 1, label=label)
    ax.set(title=name, xlabel="steps", ylim=(0.97, 6))
axes[0].set_ylabel("times the optimum")
axes[0].legend()
plt.show()
