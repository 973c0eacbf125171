"""
Three classes with shared or separate units
===========================================

In experiments, gradient descent on the softmax loss converges to a margin problem over all classes. Its norm depends on
the network: a group lasso if every output has separate units, a sum of nuclear norms if the outputs share them. This
script solves both with a certificate and compares them with trained networks."""

# %%
# Sixty points in three clusters, and a constant.

import numpy as np
from sklearn.datasets import make_blobs

from implicit_bias import (
    GatedLinearNetwork,
    HyperplaneGates,
    LossScaled,
    ParallelNetwork,
    descend_to_limit,
    solve,
    svm_classes,
)
from implicit_bias.gates import FunctionContexts

points, y = make_blobs(60, centers=[[-1.0, 0.0], [1.0, 0.2], [0.1, 1.3]], cluster_std=0.25, random_state=1)
X = np.column_stack([points, np.ones(60)])
gates = HyperplaneGates(4, 2, seed=1).fit(X)
problems = {name: svm_classes(X, y, gates, shared=name == "shared units") for name in ("own units", "shared units")}
solutions = {name: solve(problem) for name, problem in problems.items()}
for name, solution in solutions.items():
    print(f"{name}: {solution}")

# %%
# Two networks over these gates: one with separate units for each output, one with three shared units behind every gate.
# ½‖w‖² divided by the minimum margin is never below the certified bound of their problem, and close to it in the limit.

behind = FunctionContexts(lambda X: np.tile(gates.contexts_of(X), (1, 3)), 2).fit(X)
networks = {
    "own units": ParallelNetwork([GatedLinearNetwork(gates, seed=seed) for seed in range(3)]),
    "shared units": GatedLinearNetwork(behind, outputs=3, seed=1),
}
for name, network in networks.items():
    descent = descend_to_limit(network, X, y, LossScaled(tolerance=3e-3))
    norm = 0.5 / descent.table.normalised_margin.iloc[-1]
    print(f"{name}: limit of descent {norm:.4f}, {norm / solutions[name].lower_bound:.4f} times the certified bound")

# %%
# Top: the certified solutions. Bottom: the limits of descent. They differ between the clusters, because two of the
# gates agree on all sixty points and the problem does not determine which of them gets the weights.

import matplotlib.pyplot as plt

u, v = np.meshgrid(np.linspace(-2, 2, 241), np.linspace(-1, 2.2, 241))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
colours = ["#0072B2", "#D55E00", "#009E73"]
figure, axes = plt.subplots(2, 2, figsize=(7.5, 6.4), sharex=True, sharey=True, layout="constrained")
for column, name in zip(axes.T, problems, strict=True):
    scores = problems[name].decision_function(solutions[name].weights, grid), networks[name].decision_function(grid)
    for ax, each, title in zip(column, scores, (f"{name}: certified", f"{name}: limit of descent"), strict=True):
        ax.contourf(u, v, each.argmax(axis=1).reshape(u.shape), levels=[-0.5, 0.5, 1.5, 2.5], colors=colours, alpha=0.3)
        for c, colour in enumerate(colours):
            ax.scatter(*points[y == c].T, s=12, c=colour, edgecolors="white", linewidths=0.4)
        ax.set(title=title, aspect="equal", xticks=[], yticks=[])
plt.show()
