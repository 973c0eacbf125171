"""
Hard and soft margins
=====================

A hard margin requires :math:`y_i (\\Phi W)_i \\ge 1` for every sample. The samples with λ_i > 0, the support vectors,
have a margin of exactly 1 at the solution. A soft margin penalises violations with C,

.. math:: \\text{minimise} \\quad \\|W\\| + C \\sum_i \\max(0,\\ 1 - y_i (\\Phi W)_i)

and some margins are below 1, or negative. Unlike in most textbooks the norm is not squared, so W = 0 is the exact
solution for small C.
"""

# %%
# 500 digits and SVM-GLN with 20 units. ``margin_path`` solves the soft margin for several C, each from the previous
# solution.

import numpy as np

from implicit_bias import HyperplaneGates, load_binary, margin_path, svm_gln
from implicit_bias.metrics import error

task = load_binary("digits", train_size=500)
gates = HyperplaneGates(units=20, contexts=2, seed=1).fit(task.X_pool)
problem = svm_gln(task.X_train, task.y_train, gates)
prices = [0.0001, 0.003, 0.02, np.inf]
path = margin_path(problem, C=prices)
for C, solution in zip(prices, path, strict=True):
    print(
        f"C = {C:<7g} {solution.status.name}  gap {solution.gap:.0e}  ‖W‖ = {problem.norm.value(solution.weights):.4f}"
    )

# %%
# Samples on the margin, below it and misclassified, for all C but the smallest, for which all weights are zero.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(3, 1, figsize=(8, 6.6), sharex=True, sharey=True)
bins = np.arange(-1.1, 4.0, 0.1)
colours = ("#D55E00", "#E69F00", "#56B4E9", "#0072B2")
for ax, C, solution in zip(axes, prices[1:], path[1:], strict=True):
    m = solution.margins
    parts = [m[m < 0], m[(m >= 0) & (m < 1 - 1e-4)], m[abs(m - 1) <= 1e-4], m[m > 1 + 1e-4]]
    names = ["wrong side", "slack", "on the margin", "beyond"]
    bottom = np.zeros(len(bins) - 1)
    for name, part, colour in zip(names, parts, colours, strict=True):
        count = np.histogram(part + 1e-3 * (name == "on the margin"), bins)[0]
        ax.bar(bins[:-1], count, 0.092, bottom, align="edge", color=colour, label=f"{name} ({len(part)})")
        bottom += count
    wrong = 100 * error(problem.decision_function(solution.weights, task.X_val), task.y_val)
    margin = "hard margin" if np.isinf(C) else f"soft margin, C = {C:g}"
    ax.set(ylabel="samples", title=f"{margin}: validation error {wrong:.1f} %")
    ax.legend(loc="upper right")
axes[-1].set_xlabel(r"margin $y_i\,(\Phi W)_i$")
plt.show()

# %%
# ``plot_margins`` and ``plot_gates`` draw one solution on given or new axes: margins, and norms of the gates' weights.

figure, axes = plt.subplots(1, 2, figsize=(8, 3))
path[2].plot_margins(axes[0])
path[2].plot_gates(axes[1])
plt.show()
