"""
A proof of inseparability
=========================

If no weights W give every sample a positive margin, there are λ ≥ 0, not all zero, with

.. math:: \\Phi^\\top (\\lambda \\circ y) = 0

Such a λ is a proof (Farkas): every W has :math:`\\sum_i \\lambda_i y_i (\\Phi W)_i = 0`, so not all margins :math:`y_i
(\\Phi W)_i` are positive. With 0/1 gates and a constant input the proof is visible: in each context of each unit the
λ-weighted samples of both classes have the same mass and the same centre.
"""

# %%
# A checkerboard of three by three fields and two hyperplanes, one per unit. ``solve`` finds that no weights separate
# the samples, and returns a verified λ.

import numpy as np

from implicit_bias import BinaryTask, HyperplaneGates, solve, svm_gln

rng = np.random.default_rng(3)
points = rng.uniform(-1, 1, (40, 2))
task = BinaryTask.from_arrays(points, np.sign(np.cos(4 * points[:, 0]) * np.cos(4 * points[:, 1])))
X, y = task.X_train, task.y_train
gates = HyperplaneGates.from_hyperplanes([[1.0, 0.35, 0.0], [-0.35, 1.0, 0.0]], [0.25, 0.2], contexts=2)
solution = solve(svm_gln(X, y, gates))
print(solution)

# %%
# For the constant input, Φᵀ(λ∘y) = 0 means that the masses of the two classes agree in every context. For the other
# inputs it means that their centres agree.

weights = solution.dual  # sums to 1
sides = gates.transform(X).T > 0
for name, side in zip(("unit 1, left", "unit 1, right", "unit 2, below", "unit 2, above"), sides, strict=True):
    for sign in (1, -1):
        part = weights * (side & (y == sign))
        print(f"{name:14} class {sign:+}:  mass {part.sum():.4f}  centre {np.round(part @ points / part.sum(), 4)}")

# %%
# The solver's λ uses all samples. A vertex of the linear program λ ≥ 0, 1ᵀλ = 1, Φᵀ(λ∘y) = 0 is a smaller proof.
# ``certify`` verifies any weights and λ, whatever their source.

from scipy.optimize import linprog

from implicit_bias import certify

problem = svm_gln(X, y, gates)
balance = np.vstack([problem.features.dense().T * y, np.ones(len(y))])
vertex = linprog(rng.uniform(size=len(y)), A_eq=balance, b_eq=[*np.zeros(len(balance) - 1), 1.0]).x
proof = certify(problem, weights=np.zeros((problem.features.k, problem.features.d)), dual=vertex)
few = np.flatnonzero(proof.dual)
print(f"{len(few)} samples prove it, in rational arithmetic: {not proof.separable}")

# %%
# Left: the solver's λ as areas, with the four centres of each class: rings for class +1 (dashed for unit 2), squares
# for class −1. Right: four samples of one region suffice, because the segments between equal labels cross.

import matplotlib.pyplot as plt

BLUE, ORANGE = "#0072B2", "#D55E00"
LOOK = {1: {"color": BLUE, "marker": "o"}, -1: {"color": ORANGE, "marker": "s"}}

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.9), sharex=True, sharey=True)
for ax, lam in zip(axes, (solution.dual, proof.dual), strict=True):
    for unit, style in enumerate(("-", "--")):
        (a, b, _), cutoff = gates.directions_[unit], gates.cutoffs_[unit]
        foot = np.array([a, b]) * cutoff / (a * a + b * b)
        ax.plot(*(foot[:, None] + np.outer([-b, a], [-2, 2])), style, color="0.35", linewidth=1.2, zorder=1)
    for sign, look in LOOK.items():
        ax.scatter(*points[y == sign].T, s=9, linewidth=0, **look)
        ax.scatter(*points[y == sign].T, s=2500 * lam[y == sign], alpha=0.4, linewidth=0, **look)
    ax.text(-0.03, -1.0, "unit 1", color="0.35")
    ax.text(0.72, 0.66, "unit 2", color="0.35")
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(True)
for number, side in enumerate(sides):
    for sign, look in LOOK.items():
        part = weights * (side & (y == sign))
        ring = {
            "s": 260,
            "facecolor": "none",
            "edgecolor": BLUE,
            "linewidth": 2,
            "linestyle": "--" if number > 1 else "-",
        }
        kind = ring if sign == 1 else {"s": 45, "color": ORANGE}
        axes[0].scatter(*(part @ points / part.sum()), marker=look["marker"], zorder=3, **kind)
for sign, look in LOOK.items():
    axes[1].plot(*points[few[y[few] == sign]].T, color=look["color"], linewidth=1.5)
axes[0].set_title("The solver's λ (areas): the centres of the classes agree")
axes[1].set_title(f"A proof by {len(few)} samples of one region: the segments cross")
plt.show()
