"""Group kernels: each way to factorise and multiply leads to the same answer."""

import tracemalloc

import numpy as np
import pytest
import torch

from implicit_bias import GatedFeatures, GroupLasso, HyperplaneGates, MarginProblem, Status, load_binary, solve, svm_gln
from implicit_bias._utils import limits
from implicit_bias.solvers.native import kernels
from implicit_bias.solvers.native.algebra import ColumnBlocks, library
from implicit_bias.solvers.native.interior_point import descend
from implicit_bias.solvers.native.kernels import BorderedKernels, GatedKernels, ScaledFeatures
from implicit_bias.solvers.native.settings import Settings
from tests.cases import PAIRS, optimal, problem
from tests.solvers.native.shapes import in_our_coordinates, native

#: Partial factors from the first step, with as many products as it takes, or none.
PARTIAL = {"least_products": 0, "product_cost": 1e-3}
USELESS = {"least_products": 0, "product_cost": np.inf}
#: Single precision from one sample on, corrected by conjugate gradients with about 100 products.
GRADIENTS = {"single_from": 1, "coarse_residual": 0.0, "product_cost": 0.01, "least_products": 10**9}


@pytest.mark.parametrize("bordered", [False, True])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
@pytest.mark.parametrize("gates", ["signs", "half-spaces", "any"])
def test_features_that_are_not_kept_are_factorised_alike(gates, move, bordered):
    """Factors by scaled features equal those by stored columns, for gates of any kind, with or without an extra row."""
    rng = np.random.default_rng(0)
    X, G, share = rng.normal(size=(60, 5)), rng.normal(size=(60, 3)), np.eye(3)[:, [0, 1, 1]]
    G = {"signs": np.array([1.0, 2.0, 0.5]) * np.sign(G), "half-spaces": 1.0 * (G > 0), "any": G}[gates]
    both = [GatedKernels(move(X), move(G), move(share), Settings(), True, wide) for wide in (False, True)]
    A = move(rng.normal(size=(3, 5)))
    both = [BorderedKernels(own, A) for own in both] if bordered else both
    ours = both[0]
    eta, D, right = (move(values) for values in (rng.random(3), 10.0 ** rng.uniform(-3, 3, ours.n), np.eye(ours.n)))
    kept, found = (one.factor(eta, D) for one in both)
    kinds = [factor.B.B if bordered else factor.B for factor in (kept, found)]
    assert [type(kind) for kind in kinds] == [ColumnBlocks, ScaledFeatures]
    np.testing.assert_allclose(found.B.size, kept.B.size, rtol=1e-12)
    np.testing.assert_allclose(found.B.moment(1 / D), kept.B.moment(1 / D), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.product(right[0]), kept.product(right[0]), rtol=1e-9, atol=1e-9)
    whole = ours.weighted(eta) + library(D).diag(D)
    np.testing.assert_allclose(whole @ found.solve(right), np.eye(ours.n), atol=1e-7)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_gates_that_are_never_open_leave_the_slack(device):
    X = np.random.default_rng(0).normal(size=(40, 70))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    case = MarginProblem(GatedFeatures(X, np.zeros((40, 3))), y, GroupLasso([0, 1, 2]), C=1.0, intercept=True)
    found = optimal(case, "NATIVE", device=device)
    assert found.objective == pytest.approx(2 * min((y > 0).sum(), (y < 0).sum()))


COARSE = {
    "gradients": GRADIENTS,
    "refined": {"single_from": 1, "gradients_residual": 0.0},
    "gradients that fail": {**GRADIENTS, "gradients_residual": 0.0},
    "sparse share": {"dense_share_up_to": 0},
    "partial": PARTIAL,
    "partial that fail": USELESS,
}
#: Each pair of gates and norm with two of the settings, and each of these with a third of the pairs.
COARSE_CASES = [(*pair, name) for i, pair in enumerate(PAIRS) for j, name in enumerate(COARSE) if i % 3 == j % 3]


@pytest.mark.parametrize(("gate", "norm", "name"), COARSE_CASES)
def test_coarse_factors_lead_to_the_same_answer(gate, norm, name):
    settings = COARSE[name]
    prices, tol, rel = ((0.5, np.inf), 1e-6, 2e-6) if settings in (PARTIAL, USELESS) else ((0.5,), 1e-8, 1e-7)
    for C in prices:
        case = problem(gate, norm, C)
        exact, found = solve(case, "NATIVE", tol=tol), solve(case, native(**settings), tol=tol)
        assert found.status is exact.status is Status.OPTIMAL
        assert found.objective == pytest.approx(exact.objective, rel=rel)


def test_partial_factors_alone_lead_to_coarse_answers(gln, monkeypatch):
    exact = solve(gln)
    monkeypatch.setattr(kernels.GroupKernels, "factor", None)
    found = optimal(gln, native(**PARTIAL), tol=1e-2)
    assert found.objective == pytest.approx(exact.objective, rel=1e-2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"single_from": 1, "coarse_residual": 0.0, "gradients_residual": 0.0}, "double precision needs about"),
        ({**PARTIAL, "product_cost": 4.5}, "a step of 300 samples needs about"),
    ],
    ids=["single precision", "partial"],
)
def test_a_better_factor_without_memory_ends_the_solve(settings, words, gln, monkeypatch):
    need = in_our_coordinates(gln, **settings).bytes_needed(300)
    free = iter([need, need, *([0.0] * 9)])
    monkeypatch.setattr(limits, "free_memory", lambda: next(free))
    found = solve(gln, native(**settings))
    assert found.status is Status.INACCURATE
    assert words in found.reason
    assert found.lower_bound > 0


@pytest.mark.parametrize("settings", [{}, {"single_from": 1}])
def test_steps_take_the_memory_that_was_counted(gln, settings):
    ours = in_our_coordinates(gln, **settings)
    assert taken_by_three_steps(ours) <= ours.bytes_needed(300) < 3 * taken_by_three_steps(ours)


def test_partial_factors_take_the_memory_that_was_counted():
    """Partial factors of the largest size take at most `bytes_needed`, and more than a third of it."""
    task = load_binary("digits", train_size=1400)
    case = svm_gln(task.X_train, task.y_train, HyperplaneGates(12, 2, seed=1).fit(task.X_pool))
    ours = in_our_coordinates(case, **PARTIAL, partial_pivots=32, partial_remainder=0.0)
    assert taken_by_three_steps(ours) <= ours.bytes_needed(1400) < 3 * taken_by_three_steps(ours)


@pytest.mark.parametrize("bounded", [0, 400])
@pytest.mark.parametrize(("d", "H", "empty"), [(8, 6, 0), (100, 12, 0), (70, 12, 10)])
def test_steps_through_features_take_the_memory_that_was_counted(d, H, empty, bounded):
    """Steps by features take at most `bytes_needed`, and more than a third, with merged samples and empty inputs."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, d))
    X[:, d - empty :] = 0
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0, 1.0, -1.0)
    ours = in_our_coordinates(svm_gln(X, y, HyperplaneGates(H, 2, seed=1).fit(X), C=1.0))
    taken = taken_by_three_steps(ours, bounded)
    assert taken <= ours.bytes_needed(6000) < 3 * taken


def taken_by_three_steps(ours, bounded=0):
    """Return the peak of NumPy's memory in three steps, with the first `bounded` samples merged into one row."""
    program = ours.program(np.arange(bounded, ours.n), np.arange(bounded), ours.box)
    tracemalloc.start()
    try:
        descend(program, 1e-9, 3, None, lambda iteration, bounds: None)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
