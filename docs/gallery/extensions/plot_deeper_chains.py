"""
The best network with more layers
=================================

The cost of a chain of L linear units behind the same gate is :math:`\\|\\zeta\\|^{2/L}`. For two layers that is a norm,
and the optimum uses many units. For more layers it is concave, and the optimum uses few. Such a problem has many local
optima: reweighted group lassos find a candidate, and branch and bound certifies it.
"""

# %%
# Sixty points on two half-moons with a constant input. Gates: four half-spaces, and one that is always open.

import numpy as np
from sklearn.datasets import make_moons

from implicit_bias import RandomHalfSpaces
from implicit_bias.extensions.best_networks import best_chains

points, labels = make_moons(60, noise=0.15, random_state=1)
X, y = np.column_stack([points, np.ones(60)]), np.where(labels, 1.0, -1.0)
gates = RandomHalfSpaces(4, seed=3, cutoff=(0.2, 0.8), always_on=True).fit(X)

depths = (2, 3, 4)
best = {layers: best_chains(X, y, gates, layers, gated=1, starts=5, tol=0.02) for layers in depths}
for layers, found in best.items():
    print(f"L = {layers}: {found}, convex bound {found.convex_bound:.4g}")

# %%
# Top: the decision boundary, with margins of ±1 dashed. Bottom: the norm of every unit's weights.

import matplotlib.pyplot as plt

u, v = np.meshgrid(np.linspace(-2, 3, 201), np.linspace(-1.5, 2, 201))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
figure, axes = plt.subplots(2, 3, figsize=(9, 5), height_ratios=(2.2, 1), layout="constrained")
for (above, below), (layers, found) in zip(axes.T, best.items(), strict=True):
    scores = found.network.decision_function(grid).reshape(u.shape)
    above.pcolormesh(u, v, scores, cmap="RdBu", vmin=-3, vmax=3, rasterized=True)
    above.contour(u, v, scores, levels=[-1, 0, 1], colors="black", linewidths=(0.6, 1.4, 0.6))
    for sign, colour, marker in ((1, "#0072B2", "o"), (-1, "#D55E00", "s")):
        above.scatter(*X[y == sign, :2].T, s=12, c=colour, marker=marker, edgecolors="white", linewidths=0.4)
    above.set(title=f"{layers} layers", xticks=[], yticks=[])
    lengths = np.linalg.norm(found.weights, axis=1)
    below.bar(range(1, len(lengths) + 1), lengths, color="0.4")
    below.set(xlabel="unit", ylabel=r"$\Vert\zeta_h\Vert$" if layers == 2 else "")
plt.show()
