"""
Outliers with custom gates
==========================

If all samples have the same label, the margin problem finds the smallest W that keeps every f(x_i) away from zero:

.. math::

   \\text{minimise} \\quad \\|W\\| + C \\sum_i \\xi_i \\qquad
   \\text{subject to} \\quad (\\Phi W)_i \\ge 1 - \\xi_i, \\quad \\xi \\ge 0

An input with f(x) = ⟨W, Φ(x)⟩ below 1 is an outlier. f decreases away from the samples only if the gates close there.
The soft gates used here are bumps around 36 points.
"""

# %%
# Samples from a half-moon, and six outliers.

import numpy as np
from sklearn.datasets import make_moons

rng = np.random.default_rng(2)
moon = make_moons(300, noise=0.07, random_state=0)
points = np.vstack([moon[0][moon[1] == 0][:114], rng.uniform([-1.4, -0.9], [1.4, 1.4], (6, 2))])
X = np.column_stack([points, np.ones(len(points))])

# %%
# ``FunctionGates`` takes any function from inputs (n, d) to gate values (n, k). Every bump is a unit, so the group
# lasso selects bumps.

from implicit_bias import FunctionGates, GroupLasso, MarginProblem, solve

places = np.stack(np.meshgrid(np.linspace(-1.5, 1.5, 6), np.linspace(-1.0, 1.5, 6)), axis=-1).reshape(-1, 2)


def bumps(X):
    squares = ((np.asarray(X)[:, None, :2] - places) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * 0.35**2))


gates = FunctionGates(bumps).fit(X)
norm = GroupLasso(gates.groups)
problems = {
    "Hard margin: every sample is in": MarginProblem(gates(X), np.ones(len(X)), norm, gates=gates),
    "Soft margin, C = 0.3: outliers stay out": MarginProblem(gates(X), np.ones(len(X)), norm, C=0.3, gates=gates),
}
solutions = {name: solve(problem) for name, problem in problems.items()}
for name, solution in solutions.items():
    print(f"{name:40} {solution.status.name}  {np.sum(solution.margins < 1 - 1e-5)} samples with slack")

# %%
# The line is f = 1, and shades show the value of f. Orange samples have slack. Crosses mark bumps with nonzero weights.

import matplotlib.pyplot as plt

u, v = np.meshgrid(np.linspace(-1.9, 1.9, 300), np.linspace(-1.3, 1.8, 300))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.3), sharex=True, sharey=True)
for ax, (name, solution) in zip(axes, solutions.items(), strict=True):
    f = problems[name].decision_function(solution.weights, grid).reshape(u.shape)
    shades = ["#FFFFFF", "#EEF5FA", "#DCEBF5", "#C9E1F0", "#9CC8E3"]
    ax.contourf(u, v, f, levels=[-9, 0.25, 0.5, 0.75, 1, 9], colors=shades)
    ax.contour(u, v, f, levels=[1], colors="#0072B2", linewidths=1.8)
    inside = solution.margins >= 1 - 1e-5
    ax.scatter(*points[inside].T, s=14, color="0.2", linewidth=0)
    ax.scatter(*points[~inside].T, s=34, color="#D55E00", marker="s", linewidth=0)
    used = np.linalg.norm(solution.weights, axis=1) > 1e-5 * np.linalg.norm(solution.weights)
    ax.scatter(*places[used].T, s=40, color="#009E73", marker="x")
    ax.set_title(name)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
plt.show()
