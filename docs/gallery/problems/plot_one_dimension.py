"""
Gated linear features on a line
===============================

In one dimension every part is visible. Gates g(x) open and close as x changes. The features :math:`\\Phi(x) = g(x)
\\otimes (x, 1)` contain a copy of the input for every open gate, so :math:`f(x) = \\langle W, \\Phi(x) \\rangle` is
linear between the steps of the gates. The margin problem finds the smallest W with :math:`y_i f(x_i) \\ge 1`.
"""

# %%
# Fourteen samples on a line and three units, each with one step (two contexts).

import numpy as np

from implicit_bias import BinaryTask, HyperplaneGates, solve, svm_gln

x = np.array([-2.8, -2.5, -2.1, -1.6, -1.2, -0.9, -0.3, 0.1, 0.4, 1.1, 1.5, 1.9, 2.4, 2.8])
labels = np.array([1, 1, 1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, 1])
task = BinaryTask.from_arrays(x[:, None], labels)
steps = np.array([-1.0, 0.6, 2.6])
gates = HyperplaneGates.from_hyperplanes([[1.0, 0.0]] * 3, steps, contexts=2)

# %%
# ``callback`` receives a lower and an upper bound on the optimum after every iteration.

bounds = []
problem = svm_gln(task.X_train, task.y_train, gates)
solution = solve(problem, tol=1e-9, callback=lambda p: bounds.append((p.iteration, p.lower_bound, p.objective)))
print(solution)
print(np.linalg.norm(solution.weights.reshape(3, -1), axis=1).round(4), "= ‖ζ_h‖ of the three units")

# %%
# Top: the open side of each unit's step. Middle: f and the samples; all lie outside the grey band, and the
# support vectors (ringed) on its edge. Bottom: the bounds. There is no upper bound until some W separates the samples.

import matplotlib.pyplot as plt

BLUE, ORANGE = "#0072B2", "#D55E00"
figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(8, 7.4), height_ratios=(1, 3, 2))
t = np.linspace(-3.1, 3.1, 2001)
X = np.column_stack([t, np.ones_like(t)])
for h, values in enumerate(gates.transform(X).T[1::2]):
    top.fill_between(t, h, h + 0.8 * values, step="mid", color="0.6", linewidth=0)
top.set(yticks=[0.4, 1.4, 2.4], yticklabels=["unit 1", "unit 2", "unit 3"], xlim=(-3.1, 3.1))
top.set_title("Gates: each unit is on one side of its step or on the other")

middle.axhspan(-1, 1, color="0.92", zorder=0)
f = gates(X) @ solution.weights
f[1:][np.any(np.diff(gates.transform(X), axis=0) != 0, axis=1)] = np.nan
middle.plot(t, f, color="0.35", linewidth=2)
for sign, colour, marker in ((1, BLUE, "o"), (-1, ORANGE, "s")):
    chosen = labels == sign
    middle.scatter(x[chosen], sign * solution.margins[chosen], 35, color=colour, marker=marker, zorder=3)
carry = solution.dual > 1e-6
middle.scatter(x[carry], (labels * solution.margins)[carry], 130, facecolor="none", edgecolor="0.2", zorder=3)
middle.set(xlim=(-3.1, 3.1), xlabel="x", ylabel="f(x)")
middle.set_title("f is linear between steps; every sample has a margin of at least 1")

iteration, lower, upper = np.array(bounds).T
bottom.plot(iteration, upper, "v-", color=ORANGE, label="upper bound, ‖W‖/margin")
bottom.plot(iteration, lower, "^-", color=BLUE, label="lower bound, from λ")
bottom.set(xlabel="iteration", ylabel="norm", title="The optimum lies between the bounds of every iteration")
bottom.legend()
plt.show()
