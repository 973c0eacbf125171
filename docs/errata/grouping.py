"""Erratum 2: SVM-GLN with the groups of the units, and with those of a column-major reshape."""

import sys

import numpy as np

from implicit_bias import GroupLasso, HyperplaneGates, MarginProblem, load_binary, solve

H, C = 10, 2
task = load_binary(sys.argv[1] if len(sys.argv) > 1 else "digits", 500)
features = HyperplaneGates(H, C, seed=1).fit(task.X_pool)(task.X_train)
for name, groups in (("units", np.repeat(np.arange(H), C)), ("column-major", np.tile(np.arange(H), C))):
    solution = solve(MarginProblem(features, task.y_train, GroupLasso(groups)))
    print(f"{name:>12}: optimum {solution.objective:.6f} (gap {solution.gap:.0e})")
