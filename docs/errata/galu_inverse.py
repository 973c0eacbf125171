"""GaLU, Lemmas 3 and 10: T for n orthogonal centres in R^d times what should be its inverse; its largest error."""

import numpy as np

from implicit_bias.extensions.galu import gate_correlations, orthogonal_inverse

for n, d in ((3, 3), (3, 10), (10, 100)):
    T = gate_correlations(np.eye(n, d))
    ours, printed = orthogonal_inverse(n), 4 * np.eye(n) - 4 / (d + 1)
    errors = [np.abs(T @ inverse - np.eye(n)).max() for inverse in (ours, printed)]
    print(f"n={n}, d={d}: with n + 1 {errors[0]:.6f}, with d + 1 {errors[1]:.6f}")
