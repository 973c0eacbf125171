"""
The limit of local learning
===========================

Gated linear networks were introduced with a local learning rule (Veness et al. 2017, 2021): every unit predicts the
label, and descends its own loss. Lippl, Abbott & Chung (2022, section 2) mention this rule and study the descent on the
loss of the whole network instead. For one layer and full batches its limit is that of the linear case (Soudry
et al. 2018), because a unit is linear in its own features Φ_h(x), the input in the block of its context:

.. math:: \\min \\sum_c \\|w_{hc}\\|^2 \\quad \\text{with} \\quad y_i \\langle w_{h\\,c_h(x_i)}, x_i \\rangle \\ge 1

This is SVM-shallow of the unit's contexts, one problem per unit and, since contexts share no weights, per context. The
readout descends its own loss, too: with units that have converged, its limit is a linear SVM on their outputs.
"""

# %%
# A hundred digits, and 12 units of 4 contexts. Each unit is a network of one layer, trained alone: no unit depends on
# another one, or on the readout.

import numpy as np

from implicit_bias import (
    ConstantGate,
    GatedLinearNetwork,
    HyperplaneGates,
    LossScaled,
    descend_to_limit,
    load_binary,
    solve,
    svm_gln,
    svm_shallow,
)
from implicit_bias.metrics import error, optimality_ratio
from implicit_bias.networks import LinearNetwork

task = load_binary("digits", train_size=100)
X, y = task.X_train, task.y_train
paths, outputs, errors = [], [], []
for seed in range(1, 13):
    gates = HyperplaneGates(units=1, contexts=4, seed=seed).fit(task.X_pool)
    problem = svm_shallow(X, y, gates)
    solution = solve(problem)
    network = GatedLinearNetwork(gates, readout=False, seed=seed)

    def measure(network, problem=problem, solution=solution):
        return {"ratio": optimality_ratio(problem, network.effective_weights(), solution.objective)}

    descent = descend_to_limit(network, X, y, LossScaled(max_steps=1500), measure=measure)
    paths.append(descent.table)
    margin = (y * network.decision_function(X)).min()
    outputs.append([network.decision_function(inputs) / margin for inputs in (X, task.X_val)])
    errors.append(error(outputs[-1][1], task.y_val))
    last = descent.table.iloc[-1]
    print(f"unit {seed:2}: {solution.status.name}, gap {solution.gap:.0e}; descent at {last.ratio:.4f} of the optimum")

# %%
# The readout on the outputs of the units, scaled to margin 1 as in the problem above, and its certified limit.

Z, Z_val = (np.column_stack(parts) for parts in zip(*outputs, strict=True))
readout = svm_shallow(Z, y, ConstantGate())
answer = solve(readout)
reader = LinearNetwork(Z.shape[1], [1], seed=1)
descent = descend_to_limit(reader, Z, y, LossScaled(max_steps=3000))
ratio = optimality_ratio(readout, reader.effective_weights(), answer.objective)
print(f"readout: {answer.status.name}, gap {answer.gap:.0e}; descent at {ratio:.4f} of the optimum")

# %%
# Twelve units with other hyperplanes as one network, whose limit is SVM-GLN.

together = svm_gln(X, y, HyperplaneGates(units=12, contexts=4, seed=1).fit(task.X_pool))
whole = error(together.decision_function(solve(together).weights, task.X_val), task.y_val)
local = error(readout.decision_function(answer.weights, Z_val), task.y_val)
print(f"errors: units {np.mean(errors):.3f}, local readout {local:.3f}, one loss (SVM-GLN) {whole:.3f}")

# %%
# Left: every unit reaches the certified optimum of its own problem. Right: validation errors.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
for table in paths:
    shown = table[(table.step > 0) & np.isfinite(table.ratio)]
    left.loglog(shown.step, 100 * (shown.ratio - 1), color="#0072B2", alpha=0.5)
left.set(xlabel="step", ylabel="above the optimum (%)", title="12 units, each with its own problem")
right.plot(np.arange(1, 13), 100 * np.array(errors), "o", color="#0072B2", label="units")
right.axhline(100 * local, color="#009E73", label="local readout")
right.axhline(100 * whole, color="#D55E00", label="one loss for all: SVM-GLN")
right.set(xlabel="unit", ylabel="validation error (%)", ylim=(0, None))
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
