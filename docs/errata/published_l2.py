"""Erratum 1 on MNIST: the published SVM-L2 is not well posed; its accuracy is the solver's arbitrary choice."""

import numpy as np

from implicit_bias import HyperplaneGates, error, load_binary, solve, svm_l2
from implicit_bias.experiments.paper.published import osqp_weights, published_svm_l2

task = load_binary("mnist", 500)
gates = HyperplaneGates(10, 2, seed=1).fit(task.X_pool)
published = published_svm_l2(task.X_train, task.y_train, gates)
correct = svm_l2(task.X_train, task.y_train, gates)
for name, W in (
    ("published, OSQP", osqp_weights(published)),
    ("published, least norm", solve(published).weights),
    ("correct", solve(correct).weights),
):
    accuracy = 1 - error(gates(task.X_val) @ W, task.y_val)
    print(f"{name:>22}: ‖Aζ‖ {np.linalg.norm(published.norm.published @ W):.5f}, accuracy {accuracy:.5f}")
