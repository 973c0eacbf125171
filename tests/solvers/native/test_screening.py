"""Screening by coordinate ascent: what it finds, and when it is used."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from implicit_bias import HyperplaneGates, solve, svm_gln
from implicit_bias.solvers.native.screening import Ascent, screen
from tests.cases import PAIRS, problem
from tests.solvers.native.shapes import ALL, SCREENED, UNBOUNDED, agree, in_our_coordinates, native


def product_labels():
    X = np.random.default_rng(1).normal(size=(400, 40))
    return svm_gln(X, np.where(X[:, 0] + 0.5 * X[:, 1] * X[:, 2] > 0, 1.0, -1.0), HyperplaneGates(6, 2, seed=1))


def test_the_first_set_is_nearly_the_support():
    case = product_labels()
    sizes, solver = [], native(**UNBOUNDED | {"bounded": -1.0, "drawn": 1000})
    found = solve(case, solver, tol=1e-7, callback=lambda progress: sizes.append(progress.working_set))
    first = next(size for size in sizes if size < case.features.n)
    assert abs(first - len(found.support)) < 0.2 * len(found.support)
    agree(found, solve(case, "CLARABEL", tol=1e-7))


def test_the_first_set_contains_the_free_support_vectors():
    """The first working set contains the free support vectors; samples at their bound are one row."""
    case = dataclasses.replace(product_labels(), C=0.05)
    sizes, solver = [], native(**SCREENED | {"drawn": 1000, "least_samples": 10})
    found = solve(case, solver, tol=1e-7, callback=lambda progress: sizes.append(progress.working_set))
    free = (found.dual > 1e-6 * case.C) & (found.dual < (1 - 1e-6) * case.C)
    assert next(size for size in sizes if size < case.features.n) > 0.9 * free.sum()


def test_rounds_start_near_the_screened_weights():
    """Starting near the screened weights, the solve takes at most 22 iterations."""
    assert solve(product_labels(), native(**UNBOUNDED | {"drawn": 1000}), tol=1e-7).iterations <= 22


def test_inputs_of_few_nonzero_entries_are_sparse():
    rng = np.random.default_rng(1)
    X = sp.random_array((1200, 1000), density=0.01, rng=rng).toarray()
    case = svm_gln(X, np.where(X @ rng.normal(size=1000) > 0, 1, -1), HyperplaneGates(3, 2, seed=1), C=0.5)
    assert sp.issparse(in_our_coordinates(case).linear(np.arange(9)).X)
    assert solve(case, tol=1e-7).gap <= 1e-7


@pytest.mark.parametrize("C", [np.inf, 0.03])
def test_free_intercepts_are_screened_in_few_epochs(gln, C):
    """Screening with a free intercept, whose column is in each block's kernel, reaches the gap in 32 epochs."""
    ours = in_our_coordinates(dataclasses.replace(gln, C=C, intercept=True), drawn=50)
    assert screen(ours, 1e-3, 100, lambda epoch, bounds: None).iterations <= 32


@pytest.mark.parametrize(("partial", "many", "epochs"), [(False, False, 2), (True, False, 5), (False, True, 5)])
def test_many_unsettled_samples_and_those_for_partial_factors_are_screened_for_longer(partial, many, epochs, gln):
    sizes = {"least_products": 0 if partial else 10**9, "unsettled_from": 1 if many else 10**9}
    gaps = {"unbounded_gap": 0.0, "unsettled_gap": 0.0}
    ours = in_our_coordinates(gln, epochs=2, epochs_unsettled=5, **gaps, **sizes)
    seen = []
    screen(ours, 0.0, 100, lambda epoch, bounds: seen.append(epoch))
    assert seen == list(range(1, epochs + 1))


def test_many_unsettled_samples_are_screened_to_a_smaller_gap(gln):
    settings = {"drawn": 50, "unbounded_gap": 0.3, "unsettled_gap": 0.01, "bounded": 2.0}
    few, many = (
        screen(in_our_coordinates(gln, unsettled_from=least, **settings), 0.0, 100, lambda epoch, bounds: None)
        for least in (10**9, 1)
    )
    assert 0.01 < few.bounds.gap <= 0.3
    assert many.bounds.gap <= 0.01


def test_rescaling_saves_epochs(gln):
    """Screening takes at most 20 epochs with rescaling, a third of those without."""
    assert screen(in_our_coordinates(gln, drawn=50), 1e-6, 100, lambda epoch, bounds: None).iterations <= 20


@pytest.mark.parametrize(("settings", "screens"), [({}, True), ({"visits": 0}, False), ({"epochs": 3}, True)])
def test_few_features_are_screened_unless_too_costly(settings, screens):
    """Few features are screened unless settings forbid it; otherwise all samples are one set."""
    X = np.random.default_rng(0).normal(size=(1500, 10))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0.5, 1.0, -1.0)
    case, sizes = svm_gln(X, y, HyperplaneGates(6, 2, seed=1).fit(X), C=0.01), []
    one = solve(case, native(**settings), tol=1e-7, callback=lambda progress: sizes.append(progress.working_set))
    assert (set(sizes) != {case.features.n}) == screens
    agree(one, solve(case, native(**ALL), tol=1e-7))


@pytest.mark.parametrize("seed", range(3))
def test_rescaling_keeps_margins_and_finds_the_best_multiple(seed):
    """Rescaling minimises ½ Σ (‖W_h‖²/(tη_h) + tη_h) over t, keeps margins, and λ/t within its bounds."""
    case = dataclasses.replace(problem(*PAIRS[seed]), C=1e6)
    ours = in_our_coordinates(case)
    at = Ascent(ours)
    at.pass_over(np.arange(ours.n), 0.3)
    before, sizes = at.margins(), (at.eta**2 * ours.squares(at.V), at.eta)

    def cost(t):
        return float((sizes[0] / (t * sizes[1]) + t * sizes[1]).sum())

    at.rescale()
    t = float(at.eta[0] / sizes[1][0])
    np.testing.assert_allclose(at.margins(), before, rtol=1e-9, atol=1e-12)
    assert cost(t) <= min(cost(0.99 * t), cost(1.01 * t))
    bounded = Ascent(in_our_coordinates(dataclasses.replace(case, C=float((ours.dual(at.lam)).max()) * 1.01)))
    bounded.lam, bounded.V, bounded.eta = at.lam.copy(), at.V.copy(), 100 * at.eta
    bounded.rescale()
    assert (bounded.lam <= bounded.box * (1 + 1e-12)).all()
