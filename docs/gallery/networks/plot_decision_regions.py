"""
Decision regions of a gated linear network
==========================================

A unit of a gated linear network (GLN) is a linear function that changes when x crosses the unit's hyperplane. The
hyperplanes cut the plane into regions. Within a region the network is linear, and its decision boundary is straight.

The figure shows the regions, the network trained by gradient descent, and two max-margin solutions with the same
contexts: SVM-GLN, which is the limit according to the theory, and SVM-L2, which penalises the predictors of all regions
alike (after Figure 1 of Lippl, Abbott & Chung, 2022).
"""

# %%
# Two half-moons, and eight units with a hyperplane each. The cutoffs are random quantiles of the data between 5 %
# and 95 %. With the published choice, the median, all hyperplanes would pass through the centre.

import numpy as np
from sklearn.datasets import make_moons

from implicit_bias import BinaryTask, HyperplaneGates

points, labels = make_moons(120, noise=0.12, random_state=1)
task = BinaryTask.from_arrays(points, labels)  # appends the constant input 1
X, y = task.X_train, task.y_train
gates = HyperplaneGates(units=8, contexts=2, seed=1, cutoff=(0.05, 0.95)).fit(X)

# %%
# Train the network as published, and solve the two margin problems. ``solve`` certifies both.

from implicit_bias import GatedLinearNetwork, solve, svm_gln, svm_l2, train
from implicit_bias.metrics import inconsistency

network = GatedLinearNetwork(gates)
train(network, X, y)
problems = {"SVM-GLN": svm_gln(X, y, gates), "SVM-L2": svm_l2(X, y, gates)}
solutions = {name: solve(problem) for name, problem in problems.items()}
for name, solution in solutions.items():
    print(f"{name:8} {solution}")

# %%
# Scores on a grid. The inconsistency of two models is the share of the grid on which their predictions differ. This is
# one draw after 3200 steps, far from the limit. In 21 of 31 such draws SVM-GLN is closer to the network than SVM-L2.
# :doc:`plot_path_to_the_limit` continues to the limit itself.

low, high = points.min(axis=0) - 0.35, points.max(axis=0) + 0.35
u, v = np.meshgrid(np.linspace(low[0], high[0], 400), np.linspace(low[1], high[1], 400))
grid = np.column_stack([u.ravel(), v.ravel(), np.ones(u.size)])
scores = {"GD-GLN": network.decision_function(grid)}
for name, problem in problems.items():
    scores[name] = problem.decision_function(solutions[name].weights, grid)
regions = np.unique(gates.contexts_of(grid), axis=0, return_inverse=True)[1].reshape(u.shape)

# %%
# Blue is class +1, orange class −1; the thin grey lines are the hyperplanes. The boundary is straight within a
# region and may jump between regions, because the weights of each unit change at its hyperplane.

import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

BLUE, ORANGE = "#0072B2", "#D55E00"


def draw_points(ax):
    for sign, colour, marker in ((1, BLUE, "o"), (-1, ORANGE, "s")):
        ax.scatter(*points[y == sign].T, s=18, c=colour, marker=marker, edgecolor="white", linewidth=0.6, zorder=3)


def draw_hyperplanes(ax, **style):
    for direction, cutoff in zip(gates.directions_, gates.cutoffs_, strict=True):
        ax.contour(u, v, (grid @ direction - cutoff).reshape(u.shape), levels=[0], linestyles="-", **style)


figure, axes = plt.subplots(2, 2, figsize=(9, 7.2), sharex=True, sharey=True)
shades = np.random.default_rng(1).permutation(regions.max() + 1)[regions]
axes[0, 0].pcolormesh(u, v, shades, cmap="Greys", alpha=0.35, rasterized=True)
draw_hyperplanes(axes[0, 0], colors="0.25", linewidths=1.2)
axes[0, 0].set_title(f"8 hyperplanes cut the plane into {regions.max() + 1} regions")
for ax, (name, values) in zip(axes.flat[1:], scores.items(), strict=True):
    ax.pcolormesh(u, v, (values > 0).reshape(u.shape), cmap=ListedColormap(["#F6D3BD", "#C2DDEE"]), rasterized=True)
    draw_hyperplanes(ax, colors="0.55", linewidths=0.6)
    far = 100 * inconsistency(values, scores["GD-GLN"])
    ax.set_title(name if name == "GD-GLN" else f"{name}: differs from GD-GLN on {far:.1f} % of the plane")
for ax in axes.flat:
    draw_points(ax)
    ax.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    ax.spines[:].set_visible(False)
plt.show()
