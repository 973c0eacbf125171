"""
Five Newton–Schulz steps: does Muon keep its limit?
===================================================

Muon's theorems are about exact polar factors, whose singular values are all 1. In practice five steps of a quintic
iteration replace them, with singular values between about 0.7 and 1.2. Train the same network with both, in full
batches and with falling rates, and compare the ends with the certified optima of four norms.
"""

# %%
# Two half-moons that hyperplane gates separate, and the certified optima.

import numpy as np
from sklearn.datasets import make_moons

from implicit_bias import BinaryTask, HyperplaneGates, solve, svm_of_optimiser

points, labels = make_moons(40, noise=0.1, random_state=3)
task = BinaryTask.from_arrays(points, labels)  # appends the constant input 1
X, y = task.X_train, task.y_train
gates = HyperplaneGates(units=4, contexts=2, seed=2, cutoff=(0.05, 0.95)).fit(X)
problems = {name: svm_of_optimiser(X, y, gates, name) for name in ("gd", "sign", "muon", "muon-sign")}
optima = {name: solve(problem).objective for name, problem in problems.items()}

# %%
# An entry is the network's norm over its least margin and the optimum of that norm. Readout biases are frozen at 0.

import pandas as pd
import torch

from implicit_bias import GatedLinearNetwork, train
from implicit_bias.training import Muon

STEPS = 8000
TIMES = sorted({int(step) for step in np.geomspace(30, STEPS, 40)})
paths, table = {}, {}
for name, newton_schulz in (("exact polar factors", False), ("five Newton–Schulz steps", True)):
    network = GatedLinearNetwork(gates).double()
    with torch.no_grad():
        network.readout.bias.zero_().requires_grad_(False)
    rows = paths[name] = []

    def keep(step, _, rows=rows, network=network):
        W = network.effective_weights()
        margin = (y * (gates(X) @ W)).min()
        if margin > 0:
            rows.append([step, *(problem.norm.value(W) / margin / optima[key] for key, problem in problems.items())])

    config = Muon(STEPS, len(X), lr=0.1, lr_decay=0.5, newton_schulz=newton_schulz)
    train(network, X, y, config, every=TIMES, progress=keep)
    table[name] = dict(zip(problems, rows[-1][1:], strict=True))
print(pd.DataFrame(table).T.round(3))

# %%
# Both paths in Muon's own norm. With exact polar factors the ratio falls towards 1; with Newton–Schulz steps it levels
# off above 1: the limit is that of another rule.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, rows), colour in zip(paths.items(), ("#0072B2", "#D55E00"), strict=True):
    steps, _, _, own, _ = np.array(rows).T
    ax.plot(steps, own - 1, color=colour, label=name)
ax.set(xscale="log", yscale="log", xlabel="steps", ylabel="norm / (margin × optimum) − 1")
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
