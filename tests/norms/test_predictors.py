"""The predictors of a two-layer GLN (B.2.1): Lemmas B.6 and B.7 and eq. 16, on all contexts and in whole numbers."""

import itertools

import numpy as np
import pytest
import torch

from implicit_bias import GatedLinearNetwork
from implicit_bias.gates import FunctionContexts
from implicit_bias.norms import free_contexts, global_predictors, weights_of_predictors
from tests.cases import refusals

SHAPES = [(1, 1), (1, 4), (2, 2), (3, 2), (2, 3), (3, 3), (4, 1), (2, 5)]
every_shape = pytest.mark.parametrize(("H", "K"), SHAPES)


def whole(rows, d=2, seed=0):
    """Return a matrix (rows, d) of whole numbers below 100 in size, whose sums are exact in floats."""
    return np.random.default_rng(seed).integers(-99, 99, (rows, d)).astype(float)


def all_contexts(H, K):
    return list(itertools.product(range(K), repeat=H))


@every_shape
def test_the_predictors_are_sums_over_units(H, K):
    zeta = whole(H * K)
    beta = global_predictors(zeta, H)
    assert beta.shape == (*[K] * H, 2)
    for gamma in all_contexts(H, K):
        np.testing.assert_array_equal(beta[gamma], sum(zeta[h * K + c] for h, c in enumerate(gamma)))


@pytest.mark.parametrize(("H", "K"), [(2, 2), (2, 3), (3, 2)])
def test_lemma_b6_for_all_pairs_of_pairs(H, K):
    beta, pairs = global_predictors(whole(H * K), H), 0
    for a, b, c, d in itertools.product(all_contexts(H, K), repeat=4):
        units = list(zip(a, b, c, d, strict=True))
        if all((i != j or k == m) and (i == j or (i, j) == (k, m)) for i, j, k, m in units):
            pairs += 1
            np.testing.assert_array_equal(beta[b] - beta[a], beta[d] - beta[c])
    # Of each unit K·K choices with equal contexts, K(K − 1) with different ones.
    assert pairs == (K * K + K * (K - 1)) ** H


def test_equation_16():
    beta = global_predictors(whole(4), 2)
    np.testing.assert_array_equal(beta[1, 0] - beta[1, 1], beta[0, 0] - beta[0, 1])
    # It is no law of any four predictors.
    assert not np.array_equal(whole(4)[2] - whole(4)[3], whole(4)[0] - whole(4)[1])


@pytest.mark.parametrize("K", [2, 3, 5])
def test_a_network_has_these_predictors(K):
    """β_γ is the gradient of the output with respect to the input, because contexts are constant nearby."""
    X = np.random.default_rng(K).normal(size=(40, 4))
    gates = FunctionContexts(lambda X: np.digitize(X[:, :3], np.linspace(-1, 1, K - 1)), K).fit(X)
    network = GatedLinearNetwork(gates, seed=2).double()
    torch.nn.init.zeros_(network.readout.bias)
    beta = global_predictors(network.effective_weights(), 3)
    inputs, contexts = network.tensors(X)
    (gradients,) = torch.autograd.grad(network(inputs.requires_grad_(), contexts).sum(), inputs)
    np.testing.assert_allclose(gradients.numpy(), beta[tuple(contexts.numpy().T)], atol=1e-12)


@every_shape
def test_lemma_b7_any_predictors_of_the_free_contexts(H, K):
    free = free_contexts(H, K)
    assert [tuple(gamma) for gamma in free] == sorted(
        (gamma for gamma in all_contexts(H, K) if np.count_nonzero(gamma) <= 1),
        key=lambda gamma: [(h, c) for h, c in enumerate(gamma) if c],
    )
    assert len(free) == (K - 1) * H + 1
    chosen = whole(len(free), seed=1)
    beta = global_predictors(weights_of_predictors(chosen, H), H)
    np.testing.assert_array_equal(beta[tuple(free.T)], chosen)


@every_shape
def test_lemma_b7_the_free_predictors_determine_all(H, K):
    zeta = whole(H * K, seed=2)
    beta = global_predictors(zeta, H)
    again = weights_of_predictors(beta[tuple(free_contexts(H, K).T)], H)
    np.testing.assert_array_equal(global_predictors(again, H), beta)


@every_shape
def test_lemma_b7_no_more_are_free(H, K):
    of_zeta = global_predictors(np.eye(H * K), H)
    for rows in (of_zeta.reshape(-1, H * K), of_zeta[tuple(free_contexts(H, K).T)]):
        assert np.linalg.matrix_rank(rows) == (K - 1) * H + 1


test_what_is_refused = refusals(
    (lambda: global_predictors(np.ones((5, 2)), 2), "not a multiple of the 2 units"),
    (lambda: global_predictors(np.ones((64, 2)), 32), "units must be at most 31"),
    (lambda: global_predictors(np.ones((90, 2)), 30), "would hold"),
    (lambda: global_predictors([1.0, 2.0], 2), "zeta"),
    (lambda: free_contexts(2, 0), "contexts"),
    (lambda: free_contexts(10**5, 10**5), "would hold"),
    (lambda: weights_of_predictors(np.ones((4, 2)), 2), "not \\(K − 1\\)H"),
    (lambda: weights_of_predictors(np.ones((4, 2)), 0), "units"),
)
