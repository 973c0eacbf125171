"""Erratum 1: the norm of SVM-L2 by brute force, by the correct square root of M, and by the published one."""

import itertools

import numpy as np

from implicit_bias import PredictorL2

for H, C in ((3, 2), (2, 4), (4, 2)):
    zeta = np.random.default_rng(0).normal(size=(H * C, 5))
    beta = [sum(zeta[h * C + c] for h, c in enumerate(gamma)) for gamma in itertools.product(range(C), repeat=H)]
    scale = C ** ((H - 2) / 2)
    published = np.ones((H * C, H * C)) / (H * C) - np.kron(np.eye(H), np.ones((C, C))) + C * np.eye(H * C)
    print(
        f"H={H}, C={C}:  ‖β‖ over all {C**H} contexts {np.linalg.norm(beta):.6f},  "
        f"correct A {scale * PredictorL2(H, C).value(zeta):.6f},  "
        f"published A {scale * np.linalg.norm(published @ zeta):.6f}"
    )
