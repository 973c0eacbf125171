"""Norms of layers: their duals, steepest directions and projections, against CVXPY."""

import cvxpy as cp
import numpy as np
import pytest
import torch

from implicit_bias.training.layer_norms import BY_NAME

G = np.random.default_rng(0).normal(size=(3, 5))
#: ‖P‖ ≤ 1 in CVXPY.
BALLS = {
    "frobenius": lambda P: [cp.norm(P, "fro") <= 1],
    "rows": lambda P: [cp.norm(P, 2, axis=1) <= 1],
    "entries": lambda P: [cp.abs(P) <= 1],
    "l1": lambda P: [cp.sum(cp.abs(P)) <= 1],
    "spectral": lambda P: [cp.sigma_max(P) <= 1],
}


@pytest.mark.parametrize("name", BALLS)
@pytest.mark.parametrize("matrix", [G, G.T], ids=["wide", "tall"])
def test_directions_are_steepest_and_projections_nearest(name, matrix):
    norm, tensor, P = BY_NAME[name], torch.as_tensor(matrix), cp.Variable(matrix.shape)
    best = cp.Problem(cp.Maximize(cp.sum(cp.multiply(matrix, P))), BALLS[name](P)).solve(solver="CLARABEL")
    direction = norm.steepest(tensor)
    assert float(norm.value(direction)) == pytest.approx(1.0)
    assert float((tensor * direction).sum()) == pytest.approx(best, rel=1e-6)
    assert float(norm.dual(tensor)) == pytest.approx(best, rel=1e-6)
    assert float(norm.dual(torch.stack([tensor, 2 * tensor]))[1]) == pytest.approx(2 * best, rel=1e-6)
    cp.Problem(cp.Minimize(cp.sum_squares(P - matrix)), BALLS[name](P)).solve(solver="CLARABEL")
    np.testing.assert_allclose(norm.nearest(tensor), P.value, atol=1e-4)
    inside = tensor / (2 * norm.value(tensor))
    torch.testing.assert_close(norm.nearest(inside), inside)
    assert not norm.steepest(torch.zeros(3, 5)).any()


def test_shampoo_and_soap_without_averages_take_the_steps_of_muon():
    """L^{−1/4} G R^{−1/4} = L^{−1/2} G, and signs of UᵀGV in the eigenbases of L = GGᵀ and R = GᵀG, up to its zeros."""
    (squares, U), V = np.linalg.eigh(G @ G.T), np.linalg.eigh(G.T @ G)[1]
    polar, rotated = BY_NAME["spectral"].steepest(torch.as_tensor(G)), (U.T @ G @ V).round(12)
    np.testing.assert_allclose(polar, (U / squares**0.5) @ U.T @ G, atol=1e-12)
    np.testing.assert_allclose(polar, U @ np.sign(rotated) @ V.T, atol=1e-12)
