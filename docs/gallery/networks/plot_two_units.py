"""
Two units, four regions
=======================

The example with which Lippl, Abbott & Chung (2022) begin, panels b to g of their Figure 1 (a is a sketch of the
network): a GLN with two hidden units in the plane. The weights of the first unit depend on the sign of x₁, those of the
second on the sign of x₂; together they make a linear predictor for each of the four quadrants. The four are not free:
β₂₁ − β₂₂ = β₁₁ − β₁₂ (their eq. 16). The data are ours, labelled by such a network.
"""

# %%
# Points in the square, labelled by a linear function in each quadrant that satisfies eq. 16. Points near a boundary are
# omitted. ``restore`` gives the gates their hyperplanes, x₁ = 0 and x₂ = 0.

import numpy as np

from implicit_bias import HyperplaneGates, solve, svm_gln

rng = np.random.default_rng(1)
points = np.column_stack([rng.uniform(-1, 1, size=(400, 2)), np.ones(400)])
gates = HyperplaneGates(units=2, contexts=2)
gates.restore(directions_=np.eye(2, 3), cutoffs_=np.zeros(2), n_features_in_=3)
truth = np.array([[1.0, 0.6, 0.4], [-0.8, 0.3, 0.5], [0.5, 0.9, 0.3], [0.4, -1.2, 0.3]])
scores = (gates.transform(points) @ truth * points).sum(axis=1)
kept = np.abs(scores) > 0.12
X, y = points[kept], np.sign(scores[kept])

# %%
# The limit of gradient descent is SVM-GLN. Its weights ζ have one row for each context of each unit.

problem = svm_gln(X, y, gates)
solution = solve(problem)
print(solution)
beta = np.array([[solution.weights[a] + solution.weights[2 + b] for b in (0, 1)] for a in (0, 1)])
print("eq. 16 holds to", np.abs(beta[1, 0] - beta[1, 1] - beta[0, 0] + beta[0, 1]).max())

# %%
# Top: the contexts and the data. Bottom: the outputs of the units and of the network; white is 0.

import matplotlib.pyplot as plt

u, v = np.meshgrid(np.linspace(-1, 1, 301), np.linspace(-1, 1, 301))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
active = gates.transform(grid)
units = [(active[:, 2 * h : 2 * h + 2] @ solution.weights[2 * h : 2 * h + 2] * grid).sum(axis=1) for h in (0, 1)]

figure, axes = plt.subplots(2, 3, figsize=(9, 6.2), sharex=True, sharey=True, layout="constrained")
for h, ax in enumerate(axes[0, :2]):
    ax.pcolormesh(u, v, active[:, 2 * h].reshape(u.shape), cmap="Greys", vmin=-1, vmax=3, rasterized=True)
    ax.set_title(f"{'bc'[h]}  contexts of unit {h + 1}")
for sign, colour, marker in ((1, "#0072B2", "o"), (-1, "#D55E00", "s")):
    axes[0, 2].scatter(*X[y == sign, :2].T, s=9, c=colour, marker=marker)
axes[0, 2].set_title("d  data")
for ax, values, title in zip(
    axes[1], [*units, units[0] + units[1]], ("e  unit 1", "f  unit 2", "g  output"), strict=True
):
    size = np.abs(values).max()
    ax.pcolormesh(u, v, values.reshape(u.shape), cmap="RdBu", vmin=-size, vmax=size, rasterized=True)
    ax.contour(u, v, values.reshape(u.shape), levels=[0], colors="0.2", linewidths=0.8)
    ax.set_title(title)
for ax in axes.flat:
    ax.axhline(0, color="0.6", linewidth=0.5)
    ax.axvline(0, color="0.6", linewidth=0.5)
    ax.set(xticks=[], yticks=[], aspect="equal")
plt.show()
