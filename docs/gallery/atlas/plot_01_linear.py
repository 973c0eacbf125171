"""
One layer: four descents, four norms
====================================

A linear model of matrices, f(A) = ⟨W, A⟩, is trained by steepest descent in four norms on the exponential loss. Each
converges in direction to the max-margin weights in the norm of its own steps.

* Gradient descent: the Frobenius norm (Soudry et al. 2018).
* Coordinate descent, as in AdaBoost: the sum of all entries' sizes (Telgarsky 2013; Gunasekar et al. 2018).
* Sign descent: the largest size of an entry (Gunasekar et al. 2018).
* Muon: the largest singular value (Fan, Schmidt & Thrampoulidis, arXiv 2502.04664).
"""

# %%
# The problems and their certified optima.

import numpy as np

from implicit_bias import Frobenius, KernelFeatures, MarginProblem, TwoLayerNorm, solve

rng = np.random.default_rng(0)
A, y = rng.normal(size=(30, 6, 6)), np.repeat([1.0, -1.0], 15)
A += 0.4 * y[:, None, None] * rng.normal(size=(6, 6))
norms = {
    "gradient descent": Frobenius(),
    "coordinate descent": TwoLayerNorm(range(6), "l1", "l_inf"),
    "sign descent": TwoLayerNorm(range(6), "entries", "l_inf"),
    "Muon": TwoLayerNorm(range(6), "spectral", "l_inf"),
}
optima = {name: solve(MarginProblem(KernelFeatures(A), y, norm)) for name, norm in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})

# %%
# The descents: steps of length :math:`t^{-1/2}` along the steepest direction of each norm.


def steepest(name, G):
    if name == "Muon":
        U, _, V = np.linalg.svd(G)
        return U @ V
    largest = abs(G) == abs(G).max()
    return {"gradient": G / np.linalg.norm(G), "coordinate": np.sign(G) * largest, "sign": np.sign(G)}[name.split()[0]]


marks = np.unique(np.geomspace(10, 30_000, 60).astype(int))
ratios = {name: {other: [] for other in norms} for name in norms}
for name in norms:
    W = np.zeros((6, 6))
    for t in range(1, marks[-1] + 1):
        margins = y * np.tensordot(A, W, 2)
        W = W + t**-0.5 * steepest(name, np.tensordot(np.exp(margins.min() - margins) * y, A, 1))
        if t in marks:
            least = (y * np.tensordot(A, W, 2)).min()
            for other, norm in norms.items():
                ratios[name][other].append(norm.value(W) / (max(least, 0) or np.nan) / optima[other].objective)
    print(name, {other: round(float(each[-1]), 3) for other, each in ratios[name].items()})

# %%
# Norm over margin, as a multiple of the certified optimum, of each descent's own norm (thick) and of the others.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 2, figsize=(8, 5.6), sharex=True, sharey=True, layout="constrained")
for ax, name in zip(axes.flat, norms, strict=True):
    for other in norms:
        ax.semilogx(marks, ratios[name][other], lw=3.5 if other == name else 1.2, label=f"norm of {other}")
    ax.set(title=name, ylim=(1, 2.5), xlabel="steps")
axes[0, 0].legend()
figure.supylabel("norm over margin ÷ certified optimum")
plt.show()
