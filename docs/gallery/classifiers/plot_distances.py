"""
How far is the decision boundary?
=================================

In the region of x, a gated linear classifier is affine, with the gradient β = Σ_j g_j(x) w_j. In every norm ‖·‖_p, the
distance from its boundary there follows from the dual norm of β:

.. math:: \\min \\{ \\|z\\|_p : f(x) + \\langle \\beta, z \\rangle = 0 \\} = |f(x)| / \\|\\beta\\|_q, \\; 1/p + 1/q = 1

p = ∞ is the norm of adversarial perturbations that are bounded in each pixel. The distance is local. If the nearest
point has the gates of x, the distance from the whole boundary is at most as large. The latter is always at least the
smaller of the local distance and the distance of the nearest hyperplane of the gates, the border of the region.
"""

# %%
# SVM-GLN on digits, with 10 units of two contexts. The last input is the constant 1, which no perturbation changes.

import numpy as np

from implicit_bias import HyperplaneGates, MarginModel, load_binary, solve, svm_gln

task = load_binary("digits", train_size=500)
gates = HyperplaneGates(units=10, contexts=2, seed=1).fit(task.X_pool)
problem = svm_gln(task.X_train, task.y_train, gates)
solution = solve(problem)
model = MarginModel([problem], [solution], constant=True)
print(solution)

X = task.X_val
scores = problem.decision_function(solution.weights, X)
slopes = (gates.transform(X) @ solution.weights)[:, :-1]
normals = gates.directions_[:, :-1]
offsets = X @ gates.directions_.T - gates.cutoffs_

# %%
# Distances by ``MarginModel.distances``, those of the borders, and z of least norm, which moves x onto the boundary.

DUAL = {1: np.inf, 2: 2, np.inf: 1}


def nearest(p):
    """Return the vectors z (n, p) of least ‖z‖_p with f(x) + ⟨β, z⟩ = 0."""
    if p == 1:
        directions = np.where(abs(slopes) == abs(slopes).max(axis=1, keepdims=True), np.sign(slopes), 0.0)
        directions /= abs(directions).sum(axis=1, keepdims=True)
    else:
        directions = slopes if p == 2 else np.sign(slopes)
    return -(scores / (directions * slopes).sum(axis=1))[:, None] * directions


found = {}
for p, q in DUAL.items():
    distances = model.distances(X[:, :-1], order=p)
    borders = (abs(offsets) / np.linalg.norm(normals, q, axis=1)).min(axis=1)
    moved = nearest(p)
    assert np.allclose(np.linalg.norm(moved, p, axis=1), distances)
    beyond = np.hstack([X[:, :-1] + (1 + 1e-6) * moved, X[:, -1:]])
    inside = (gates.transform(beyond) == gates.transform(X)).all(axis=1)
    crossed = np.sign(problem.decision_function(solution.weights, beyond)) != np.sign(scores)
    found[p] = distances, np.minimum(distances, borders)
    print(
        f"p = {p}: median distance {np.median(distances):.3f}, proved at least {np.median(found[p][1]):.3f}; "
        f"nearest point in the region {inside.mean():.0%}, all of these of the other class: {crossed[inside].all()}"
    )

# %%
# Shares of digits within a distance: the local one, and the lower bound that is proved for the whole boundary.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
for ax, (p, (local, proved)) in zip(axes, found.items(), strict=True):
    shares = np.arange(1, len(local) + 1) / len(local)
    ax.plot(np.sort(local), 100 * shares, color="#0072B2", label="local distance")
    ax.plot(np.sort(proved), 100 * shares, "--", color="#D55E00", label="proved lower bound")
    ax.set(xscale="log", xlim=(1e-4, None), xlabel=f"distance, p = {p}".replace("inf", "∞"))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("validation digits (%)")
axes[0].legend(frameon=False)
plt.show()
