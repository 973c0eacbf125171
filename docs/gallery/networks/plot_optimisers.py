"""
Which margin problem does an optimiser solve?
=============================================

Gradient descent, sign descent (to which Adam without ε tends) and Muon are steepest descents in different norms of the
weights. Their limits are stationary points of the margin problem in that norm.

``svm_of_optimiser`` states the problem for two layers with fixed gates. ``ProjectedDescent`` searches a network for its
stationary points; it is faster than the optimiser and takes another path. From the same start behind the same gates,
every network ends at the certified optimum of its own problem, and at no other.
"""

# %%
# Two half-moons that hyperplane gates separate.

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons

from implicit_bias import BinaryTask, HyperplaneGates

points, labels = make_moons(40, noise=0.1, random_state=3)
task = BinaryTask.from_arrays(points, labels)  # appends the constant input 1
X, y = task.X_train, task.y_train
gates = HyperplaneGates(units=4, contexts=2, seed=2, cutoff=(0.05, 0.95)).fit(X)

# %%
# Solve the four problems, and drive the same network to the limit of each optimiser. A row of the table is a network
# with a least margin of 1, a column a norm, and the entry the network's norm as a multiple of the certified optimum.

from implicit_bias import GatedLinearNetwork, descend_to_limit, solve, svm_of_optimiser
from implicit_bias.training import ProjectedDescent

optimisers = ["gd", "sign", "muon", "muon-sign"]
problems = {name: svm_of_optimiser(X, y, gates, name) for name in optimisers}
optima = {name: solve(problem) for name, problem in problems.items()}
ends = {}
for name in optimisers:
    network = GatedLinearNetwork(gates)
    descend_to_limit(network, X, y, ProjectedDescent(name, tolerance=0.003))
    weights = network.effective_weights()
    ends[name] = weights / (y * (gates(X) @ weights)).min()
ratios = {b: {a: problems[b].norm.value(ends[a]) / optima[b].objective for a in optimisers} for b in optimisers}
print(pd.DataFrame(ratios).round(3))

# %%
# Lines are the decision boundaries of the networks, dashes those of the certified optima.

import matplotlib.pyplot as plt

low, high = points.min(axis=0) - 0.3, points.max(axis=0) + 0.3
u, v = np.meshgrid(np.linspace(low[0], high[0], 300), np.linspace(low[1], high[1], 300))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), sharex=True, sharey=True, layout="constrained")
for ax, name in zip(axes.flat, optimisers, strict=True):
    for sign, colour, marker in ((1, "#0072B2", "o"), (-1, "#D55E00", "s")):
        ax.scatter(*points[y == sign].T, s=16, c=colour, marker=marker, edgecolor="white", linewidth=0.5)
    for W, style, colour in ((ends[name], "-", "0.6"), (optima[name].weights, "--", "black")):
        scores = (gates(grid) @ W).reshape(u.shape)
        ax.contour(u, v, scores, levels=[0], linestyles=style, colors=colour, linewidths=3 if style == "-" else 1.3)
    ax.set(xticks=[], yticks=[], title=f"{name}: {ratios[name][name]:.3f} times the optimum")
    ax.spines[:].set_visible(False)
plt.show()
