"""Erratum 8: gradient descent from a unit of zero weights fulfils Theorem 3.1, and is no minimum of the GLN norm."""

import torch

from implicit_bias import (
    GatedLinearNetwork,
    HyperplaneGates,
    LossScaled,
    descend_to_limit,
    load_binary,
    solve,
    stationarity,
    svm_gln,
)
from implicit_bias.metrics import optimality_ratio

task = load_binary("digits", train_size=60)
for zero in (False, True):
    network = GatedLinearNetwork(HyperplaneGates(2, 2, seed=1).fit(task.X_pool))
    with torch.no_grad():
        network.hidden_weights[0][2:] *= not zero
        network.readout.weight[:, 1] *= not zero
    descend_to_limit(network, task.X_train, task.y_train, LossScaled(tolerance=1e-3, max_steps=20_000))
    problem = svm_gln(task.X_train, task.y_train, network.gates())
    ratio = optimality_ratio(problem, network.effective_weights(), solve(problem).objective)
    residual = stationarity(network, task.X_train, task.y_train).residual
    print(f"{'one unit zero' if zero else 'all units drawn'}: residual {residual:.4f}, norm over optimum {ratio:.4f}")
