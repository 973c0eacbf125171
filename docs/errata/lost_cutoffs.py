"""Erratum 3: the inconsistency of GD-GLN and SVM-GLN, and the one measured after the cutoffs were lost.

The last line is the share of training samples on one side of each cutoff, a median over all images.
"""

import sys

from implicit_bias import GatedLinearNetwork, HyperplaneGates, load_binary, solve, svm_gln, train
from implicit_bias.metrics import inconsistency

task = load_binary(sys.argv[1] if len(sys.argv) > 1 else "digits", 500)
gates = HyperplaneGates(10, 2, seed=1).fit(task.X_pool)
network = GatedLinearNetwork(gates)
train(network, task.X_train, task.y_train)
problem = svm_gln(task.X_train, task.y_train, gates)
svm = problem.decision_function(solve(problem).weights, task.X_val)

random = HyperplaneGates(10, 2, seed=1, cutoff="random").fit(task.X_pool)
reloaded = random(task.X_val) @ network.effective_weights()
print(f"with its own cutoffs:    {100 * inconsistency(svm, network.decision_function(task.X_val)):.2f} %")
print(f"with the random cutoffs: {100 * inconsistency(svm, reloaded):.2f} %")
share = gates.transform(task.X_train)[:, ::2].mean(axis=0)
print(f"training samples in the first context of a unit: {100 * share.min():.1f} to {100 * share.max():.1f} %")
