"""
The best ReLU network, with proof
=================================

Which two-layer ReLU network, of any width, separates given points with margins of 1 and the smallest weights? The
problem is convex over all activation patterns, so the answer can be certified. Gradient descent solves a nonconvex
problem; this script compares its limit with the certified optimum.
"""

# %%
# Forty points on two rings. The constant input gives each unit a bias.

import numpy as np
from sklearn.datasets import make_circles

from implicit_bias import LossScaled, ReLUNetwork, descend_to_limit
from implicit_bias.extensions.best_networks import activation_patterns, best_network

points, labels = make_circles(40, noise=0.08, factor=0.5, random_state=1)
X, y = np.column_stack([points, np.ones(40)]), np.where(labels, 1.0, -1.0)
print(len(activation_patterns(X)), "activation patterns")

best = best_network(X, y)
print(best)
print(best.table[["round", "patterns", "objective", "lower_bound"]].round(4).to_string(index=False))

# %%
# Gradient descent from a random start to its limit. Its norm is Σ|a|‖w‖ divided by the minimum margin.

network = ReLUNetwork(inputs=3, units=32, seed=1)
descent = descend_to_limit(network, X, y, LossScaled(tolerance=0.02, max_steps=3000))
weights = np.linalg.norm(network.effective_weights(), axis=1)
norm = weights.sum() / (y * network.decision_function(X)).min()
print(f"limit of descent: norm {norm:.4g}, {norm / best.objective:.3f} times the best network's")

# %%
# Left: the limit of descent. Right: the best network. Thin lines are the hyperplanes of the units, thick lines f = 0.

import matplotlib.pyplot as plt

u, v = np.meshgrid(np.linspace(-1.5, 1.5, 241), np.linspace(-1.5, 1.5, 241))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
figure, axes = plt.subplots(1, 2, figsize=(8, 4.2), sharex=True, sharey=True, layout="constrained")
for ax, own, title in zip(axes, (network, best.network), ("limit of descent", "best network"), strict=True):
    scores = own.decision_function(grid) / (y * own.decision_function(X)).min()
    ax.pcolormesh(u, v, scores.reshape(u.shape), cmap="RdBu", vmin=-3, vmax=3, rasterized=True)
    sizes = np.linalg.norm(own.effective_weights(), axis=1)
    for hidden in own.layers[0].detach().double().numpy()[sizes > 0.01 * sizes.max()]:
        ax.contour(u, v, (grid @ hidden).reshape(u.shape), levels=[0], colors="0.5", linewidths=0.5)
    ax.contour(u, v, scores.reshape(u.shape), levels=[-1, 0, 1], colors="black", linewidths=(0.6, 1.4, 0.6))
    for sign, colour, marker in ((1, "#0072B2", "o"), (-1, "#D55E00", "s")):
        ax.scatter(*X[y == sign, :2].T, s=12, c=colour, marker=marker, edgecolors="white", linewidths=0.4)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
plt.show()
