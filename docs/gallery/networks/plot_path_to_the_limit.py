"""
The path of gradient descent to the SVM
=======================================

Theorem 3.1 of Lippl, Abbott & Chung (2022): if gradient descent on a network with given contexts converges in
direction and the loss vanishes, the limit is the direction of a stationary point of a margin problem. For a two-layer
GLN that problem is SVM-GLN (Proposition B.8). Two numbers measure the distance of a network with effective weights W
from the certified optimum:

.. math:: \\frac{\\|W\\| / \\min_i y_i (\\Phi W)_i}{\\text{optimum}} \\ge 1, \\qquad \\cos(W, W_{\\text{SVM}}) \\le 1

Plain gradient descent approaches the limit like 1/log t. Steps scaled by 1/loss, with momentum, reach it.
"""

# %%
# A hundred digits, 5 units with 2 contexts, and the certified optimum.

from implicit_bias import (
    GatedLinearNetwork,
    HyperplaneGates,
    LossScaled,
    PlainDescent,
    descend_to_limit,
    load_binary,
    solve,
    svm_gln,
)
from implicit_bias.metrics import alignment, optimality_ratio

task = load_binary("digits", train_size=100)
gates = HyperplaneGates(units=5, contexts=2, seed=1).fit(task.X_pool)
problem = svm_gln(task.X_train, task.y_train, gates)
solution = solve(problem)
print(solution)

# %%
# Both descents start from the same network. ``measure`` adds columns to the table of the descent.


def measure(network):
    W = network.effective_weights()
    return {
        "ratio": optimality_ratio(problem, W, solution.objective),
        "cosine": alignment(W, solution.weights),
    }


paths = {}
for name, config in (
    ("plain, constant rate", PlainDescent(lr=0.1, max_steps=8_000)),
    ("scaled by 1/loss", LossScaled(max_steps=8_000)),
):
    descent = descend_to_limit(GatedLinearNetwork(gates), task.X_train, task.y_train, config, measure=measure)
    paths[name] = descent.table
    last = descent.table.iloc[-1]
    print(
        f"{name:20}  {descent.end:10} after {int(last.step):5} steps:  ratio {last.ratio:.4f}  cosine {last.cosine:.4f}"
    )

# %%
# Both axes are logarithmic: on the left the relative distance to the optimum, on the right the angle to the solution.

import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9))
for (name, table), colour, style in zip(paths.items(), ("#D55E00", "#0072B2"), ("--", "-"), strict=True):
    shown = table[(table.step > 0) & np.isfinite(table.ratio)]
    left.loglog(shown.step, 100 * (shown.ratio - 1), style, color=colour, linewidth=2, label=name)
    right.loglog(shown.step, np.degrees(np.arccos(np.minimum(shown.cosine, 1))), style, color=colour, linewidth=2)
left.legend(loc="lower left")
for ax in (left, right):
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(plt.NullFormatter())
left.set(xlabel="step", ylabel="above the optimum (%)", title="‖W‖/margin falls to the certified optimum")
right.set(xlabel="step", ylabel="angle to the SVM (degrees)", title="The direction of W turns to the SVM's")
plt.show()
