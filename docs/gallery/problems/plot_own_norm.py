"""
A custom norm
=============

``ExpressionNorm`` accepts any norm that can be written in CVXPY. Here a linear classifier separates threes from eights
in images of 8 × 8 pixels under three norms: the Frobenius norm, the sum of absolute values, and one that penalises
differences between neighbouring pixels.
"""

# %%
# The threes and eights of the digits. A single gate that is always open gives the linear model.

import cvxpy as cp
import numpy as np

from implicit_bias import ConstantGate, ExpressionNorm, Frobenius, MarginProblem, load_binary, solve
from implicit_bias.metrics import error

task = load_binary("digits", train_size=200, positive=[3], negative=[8])
gate = ConstantGate().fit(task.X_pool)

# %%
# W is a CVXPY expression of shape (k, d), here (1, 65); its last entry belongs to the constant input. With a formula
# for the dual norm the lower bound does not depend on a solver. Without one CLARABEL computes the dual norm.


def smooth(W):
    """Differences between neighbours (total variation), and a tenth of the Frobenius norm."""
    return cp.tv(cp.reshape(W[0, :-1], (8, 8), order="C")) + 0.1 * cp.norm(W[0], 2)


norms = {
    "Frobenius: all pixels a little": Frobenius(),
    "ℓ1: few pixels": ExpressionNorm(lambda W: cp.norm1(W), dual=lambda V: np.abs(V).max(), name="l1"),
    "Total variation: whole areas": ExpressionNorm(smooth, name="total variation"),
}
weights, errors = {}, {}
for name, norm in norms.items():
    problem = MarginProblem(gate(task.X_train), task.y_train, norm, gates=gate)
    solution = solve(problem, tol=1e-5)
    weights[name] = solution.weights
    errors[name] = error(problem.decision_function(solution.weights, task.X_val), task.y_val)
    print(f"{norm!r:32} {solution.status.name}  {solution.solver:8}  gap {solution.gap:.0e}")

# %%
# The weights of the pixels: blue indicates a three, orange an eight.

import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

colours = LinearSegmentedColormap.from_list("weights", ["#D55E00", "#FFFFFF", "#0072B2"])
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6))
for ax, (name, W) in zip(axes, weights.items(), strict=True):
    image = W[0, :-1].reshape(8, 8)
    largest = np.abs(image).max()
    ax.pcolormesh(image[::-1], cmap=colours, vmin=-largest, vmax=largest, edgecolor="0.85", linewidth=0.5)
    used = np.sum(np.abs(image) > 1e-4 * largest)
    ax.set_title(name)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.set_xlabel(f"{used} of 64 pixels, validation error {100 * errors[name]:.1f} %")
    ax.spines[:].set_visible(False)
plt.show()
