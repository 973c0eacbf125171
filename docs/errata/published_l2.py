"""Erratum 1 on MNIST: the published SVM-L2 is not well posed; its accuracy is the solver's arbitrary choice."""

import cvxpy as cp
import numpy as np

from implicit_bias import HyperplaneGates, load_binary, solve, svm_l2
from implicit_bias.metrics import error
from implicit_bias.studies.paper.osqp import osqp_choice
from implicit_bias.studies.paper.published import published_svm_l2


def osqp_weights(problem):
    """Return OSQP's weights (k, d) for a problem of `published_svm_l2`, one of many solutions."""
    features = problem.features
    W = cp.Variable((features.k, features.d))
    outputs = cp.sum(cp.multiply(features.gate_values, features.X @ W.T), axis=1)
    objective = cp.Minimize(cp.sum_squares(problem.norm.published @ W))
    cp.Problem(objective, [cp.multiply(problem.y, outputs) >= 1]).solve(solver="OSQP")
    return np.asarray(W.value)


if __name__ == "__main__":
    task = load_binary("mnist", 500)
    gates = HyperplaneGates(10, 2, seed=1).fit(task.X_pool)
    published = published_svm_l2(task.X_train, task.y_train, gates)
    correct = svm_l2(task.X_train, task.y_train, gates)
    for name, W in (
        ("published, OSQP", osqp_weights(published)),
        ("the same iteration", osqp_choice(published).weights),
        ("a variant: least norm", solve(published).weights),
        ("correct", solve(correct).weights),
    ):
        accuracy = 1 - error(gates(task.X_val) @ W, task.y_val)
        print(f"{name:>22}: ‖Aζ‖ {np.linalg.norm(published.norm.published @ W):.5f}, accuracy {accuracy:.5f}")
