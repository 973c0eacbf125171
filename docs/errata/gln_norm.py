"""Erratum 6: the GLN norm for two units of two contexts, by its definition (eq. 20) and by Proposition B.9."""

import cvxpy as cp
import numpy as np
from numpy.linalg import norm


def by_definition(beta):
    """Eq. 20 by a solver: min Σ_h ‖ζ_h‖ over all ζ with β_ij = ζ_1i + ζ_2j."""
    zeta = [cp.Variable(beta.shape[1:]) for _ in range(2)]
    same = [beta[i, j] == zeta[0][i] + zeta[1][j] for i in range(2) for j in range(2)]
    return cp.Problem(cp.Minimize(sum(cp.norm(cp.vec(z, order="C")) for z in zeta)), same).solve("CLARABEL")


def equation_60(beta):
    """The first form of the proposition."""
    sides = norm(beta[0, 0] - beta[0, 1]) + norm(beta[0, 0] - beta[1, 0])
    return np.hypot(sides, norm(beta[0, 1] + beta[1, 0]))


def equation_21(beta):
    """The second: each sum over i, j pairs the change of one index with that of the other."""
    edges = norm(beta - beta[::-1], axis=2) * norm(beta - beta[:, ::-1], axis=2)
    return np.sqrt(norm(beta) ** 2 + edges.sum() / 2)


if __name__ == "__main__":
    plain = np.array([[[3.0], [4.0]], [[0.0], [0.0]]])
    drawn = [np.random.default_rng(seed).normal(size=(2, 2, d)) for seed, d in ((1, 3), (2, 1), (3, 10))]
    for zeta in (plain, *drawn):
        beta = zeta[0][:, None] + zeta[1][None]
        found = by_definition(beta)
        print(
            f"eq. 20: {found:.6f},  eq. 60: {equation_60(beta):.6f},  eq. 21: {equation_21(beta):.6f},  "
            f"ratio {equation_60(beta) / found:.6f}"
        )
