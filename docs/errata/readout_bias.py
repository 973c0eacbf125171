"""Erratum 5: the readout bias of the published GLN after training, and the predictions that change without it."""

import sys

from implicit_bias import GatedLinearNetwork, HyperplaneGates, load_binary, train
from implicit_bias.metrics import inconsistency

task = load_binary(sys.argv[1] if len(sys.argv) > 1 else "digits", 500)
for seed in (1, 2, 3):
    network = GatedLinearNetwork(HyperplaneGates(10, 2, seed=seed).fit(task.X_pool))
    train(network, task.X_train, task.y_train, seed=seed)
    bias, scores = float(network.readout_biases()[0].detach()), network.decision_function(task.X_val)
    print(f"seed {seed}: bias {bias:.3f}, without it {100 * inconsistency(scores, scores - bias):.2f} % change")
