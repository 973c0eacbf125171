"""
Sparsity of units
=================

The norm of SVM-GLN, :math:`\\sum_h \\|\\zeta_h\\|_2`, is a group lasso with one group per unit: it is not smooth where
a whole unit is zero, so its solution uses only some units. The Frobenius norm
:math:`(\\sum_h \\|\\zeta_h\\|_2^2)^{1/2}` is smooth there, and its solution uses all units.

On this split the sparse solution has the lower error. :doc:`Means over MNIST </findings>` do not confirm that.
"""

# %%
# The same 200 digits and the same 100 units for both norms.

import numpy as np

from implicit_bias import Frobenius, HyperplaneGates, MarginProblem, load_binary, solve, svm_gln
from implicit_bias.metrics import error

task = load_binary("digits", train_size=200)
gates = HyperplaneGates(units=100, contexts=2, seed=1).fit(task.X_pool)
problems = {
    "group lasso": svm_gln(task.X_train, task.y_train, gates),
    "Frobenius": MarginProblem(gates(task.X_train), task.y_train, Frobenius(), gates=gates),
}

# %%
# ‖ζ_h‖ over the two contexts of each unit. A unit counts as used if its norm is above 10⁻⁶ of the largest.

sizes, titles = {}, {}
for name, problem in problems.items():
    solution = solve(problem, tol=1e-8)
    zeta = solution.weights.reshape(gates.units, -1)
    sizes[name] = np.sort(np.linalg.norm(zeta, axis=1))[::-1]
    used = int(np.sum(sizes[name] > 1e-6 * sizes[name][0]))
    wrong = 100 * error(problem.decision_function(solution.weights, task.X_val), task.y_val)
    titles[name] = f"{name}: {used} of {gates.units} units, validation error {wrong:.1f} %"
    print(solution.status.name, titles[name])

# %%
# The norms of the units in descending order, in both solutions as shares of their sum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 1, figsize=(8, 5.6), sharex=True, sharey=True)
for ax, (name, values), colour in zip(axes, sizes.items(), ("#0072B2", "#009E73"), strict=True):
    ax.bar(np.arange(1, len(values) + 1), 100 * values / values.sum(), width=0.85, color=colour)
    ax.set(ylabel=r"$\|\zeta_h\|$, % of the sum", title=titles[name])
axes[1].set_xlabel("unit $h$, by size")
axes[1].margins(x=0.01)
plt.show()
