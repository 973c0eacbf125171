"""Errata 1 and 2 on MNIST: errors of SVM-L2 with each of the two faults, n = 500, H = 10, K = 2.

Over the wrong groups neither matrix is well posed: the error is that of the point at which OSQP stops.
"""

import cvxpy as cp
import numpy as np

from implicit_bias import HyperplaneGates, load_binary, solve
from implicit_bias.metrics import error
from implicit_bias.studies.paper.published import mixed_groups, published_svm_l2


def osqp_weights(problem, root=None):
    """Return OSQP's weights (k, d) for a problem of `published_svm_l2`, or with another matrix than eq. 23."""
    features = problem.features
    W = cp.Variable((features.k, features.d))
    outputs = cp.sum(cp.multiply(features.gate_values, features.X @ W.T), axis=1)
    objective = cp.Minimize(cp.sum_squares((problem.norm.published if root is None else root) @ W))
    cp.Problem(objective, [cp.multiply(problem.y, outputs) >= 1]).solve(solver="OSQP")
    return np.asarray(W.value)


def square_root(groups):
    """Return A = J/√(HK) − Q/√K + √K I for the group of each gate."""
    member = np.eye(groups.max() + 1)[groups]
    k, K = len(groups), len(groups) / member.shape[1]
    return np.full((k, k), k**-0.5) - member @ member.T / K**0.5 + K**0.5 * np.eye(k)


def weights(task, gates):
    """Return the weights of SVM-L2 by (matrix, groups)."""
    problems = {
        faults: published_svm_l2(task.X_train, task.y_train, gates, faults)
        for faults in ((), ("equation 23",), ("equation 23", "column-major groups"))
    }
    right, alone, both = problems.values()
    return {
        ("square root of M", "units"): solve(right).weights,
        ("eq. 23", "units"): solve(alone).weights,
        ("square root of M", "column-major"): osqp_weights(
            both, square_root(mixed_groups(gates.units, gates.contexts))
        ),
        ("eq. 23", "column-major"): osqp_weights(both),
    }


if __name__ == "__main__":
    task = load_binary("mnist", 500)
    for seed in (1, 2, 3):
        gates = HyperplaneGates(10, 2, seed=seed).fit(task.X_pool)
        for (matrix, groups), W in weights(task, gates).items():
            print(f"seed {seed}, {matrix} over {groups}: error {100 * error(gates(task.X_val) @ W, task.y_val):.2f} %")
