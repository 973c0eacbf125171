"""Whether anything separates: proofs by an interior-point method over the features, held against linear programs."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.optimize import linprog

from implicit_bias import GatedFeatures, HyperplaneGates, MarginProblem, Status, certify, load_binary, solve, svm_gln
from implicit_bias.solvers.native import balance, chunked, interior_point, kernels, scaled
from tests.cases import FEATURES, PAIRS, problem

#: Samples of which some labels are such that they can be separated, with the gates of `cases.py`, and some not.
SIZE = (60, 4)


def cases(gate, norm, seeds=4):
    """The samples of `cases.py`, more and more labels turned round, by gates and as blocks, some with an intercept."""
    plain = problem(gate, norm, size=SIZE)
    kinds = ["gated"] if norm.startswith("predictor") else ["gated", "kernels"]
    for seed in range(seeds):
        wrong = np.random.default_rng(seed).random(plain.features.n) < 0.1 * seed
        features = FEATURES[kinds[seed % len(kinds)]](plain.features)
        y = np.where(wrong, -plain.y, plain.y)
        yield dataclasses.replace(plain, features=features, y=y, intercept=bool(seed % 2))


def rows_of(case):
    """Φ with signs, and a column of ones for a free intercept, dense."""
    A = case.features.dense()
    return case.y[:, None] * (np.insert(A, 0, 1.0, axis=1) if case.intercept else A)


def separated(case):
    """By a linear program for λ."""
    A = rows_of(case) / np.abs(rows_of(case)).max()
    sums = np.vstack([A.T, np.ones(len(A))])
    found = linprog(np.zeros(len(A)), A_eq=sums, b_eq=np.eye(len(sums))[-1], method="highs")
    assert found.status in (0, 2)
    return found.status == 2


def proof(case, device="cpu", ends=lambda step, lam: False):
    """λ (n,) in the problem's own coordinates, or None."""
    ours = chunked.scaled(case, case.norm.group_form(case.features.k), device)
    lam = balance.balance(ours.kernels(ours.moved(np.arange(ours.n))), ours.tilt, ends)
    return None if lam is None else ours.dual(lam)


def assert_proof(case, lam):
    """λ ≥ 0 with Φᵀ(λ∘y) = 0 but for rounding."""
    assert (lam >= 0).all()
    assert lam.max() > 0
    A = rows_of(case)
    assert np.abs(A.T @ lam).max() <= 1e-13 * (np.abs(A).T @ lam).max()


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_a_proof_is_found_just_where_a_linear_program_finds_one(gate, norm, device):
    for case in cases(gate, norm):
        lam = proof(case, device)
        assert (lam is None) == separated(case)
        if lam is not None:
            assert_proof(case, lam)


@pytest.mark.parametrize("wide", [1, 10**9])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_products_of_the_rows_are_those_of_dense_ones(gate, norm, wide, monkeypatch):
    monkeypatch.setattr(scaled, "WIDE", wide)
    rng = np.random.default_rng(0)
    for case in cases(gate, norm, 2):
        for device in ("cpu", "cpu:0"):
            ours = chunked.scaled(case, case.norm.group_form(case.features.k), device)
            rows = balance.Rows(ours.kernels(ours.moved(np.arange(ours.n))), ours.tilt)
            weights, move = rng.random(rows.n + 1), ours.moved
            dense = np.stack([np.asarray(rows.times(move(x))) for x in np.eye(rows.size)], axis=1)
            np.testing.assert_allclose(rows.adjoint(move(weights)), dense.T @ weights, atol=1e-12)
            moment = dense.T @ (weights[:, None] * dense)
            np.testing.assert_allclose(rows.moment(move(weights)), moment, atol=1e-11)


def test_samples_of_no_proof_have_no_part_in_one():
    """Two planar classes around each other; one sample beside them has an input to itself."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(40, 2)), np.zeros((40, 1))])
    X[7, 2] = 1e-3
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    case = MarginProblem(GatedFeatures(X), y, problem("constant", "frobenius").norm)
    lam = proof(case)
    assert_proof(case, lam)
    assert lam[7] == 0
    assert (np.delete(lam, 7) > 0).all()


@pytest.mark.parametrize("X", [np.kron(np.ones((2, 1)), [[1, 0], [-1e9, 0], [0, 1], [0, -1e-9]]), [[1.0], [-1.0]] * 9])
def test_samples_of_any_length_have_part_in_a_proof(X):
    """They have λ of lengths as far apart; of the second Φᵀ1 = 0 from the start."""
    X = np.asarray(X, float)
    case = MarginProblem(GatedFeatures(X), np.ones(len(X)), problem("constant", "frobenius").norm)
    lam = proof(case)
    assert_proof(case, lam)
    assert (lam > 0).all()


def test_bounds_that_are_told_are_those_of_their_dual():
    """Of nearly collinear features rounding leaves Φᵀλ far from what it would be without."""
    rng = np.random.default_rng(2)
    X, D, w = rng.normal(size=(1500, 6)), rng.normal(size=(1500, 6)), rng.normal(size=6)
    y = np.where(D @ w > 0, 1.0, -1.0)
    D += 0.1 * y[:, None] * w
    case = MarginProblem(GatedFeatures(np.hstack([X, X + 1e-8 * D])), y, problem("constant", "frobenius").norm)
    told = []
    solve(case, "NATIVE", callback=lambda progress: told.append(progress.lower_bound))
    assert len(told) > interior_point.DOUBTFUL
    assert max(told) <= certify(case, np.hstack([-w, w])[None], np.zeros(1500)).objective


@pytest.fixture
def asked(monkeypatch):
    """Steps through the features; whether anything separates the samples is asked before the first, and noted."""
    found = []

    def noted(*given):
        found.append(balance.balance(*given))
        return found[-1]

    monkeypatch.setattr(interior_point, "balance", noted)
    for module in (kernels, scaled):
        monkeypatch.setattr(module, "low_rank", lambda columns, samples: True)
    monkeypatch.setattr(interior_point, "SETTLED_FROM", 0)
    monkeypatch.setattr(interior_point, "DOUBTFUL", 0)
    return found


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_to_ask_whether_anything_separates_changes_no_answer(gate, norm, asked, monkeypatch):
    for case in cases(gate, norm):
        one = solve(case, "NATIVE", tol=1e-7)
        monkeypatch.setattr(interior_point, "DOUBTFUL", -1)
        other = solve(case, "NATIVE", tol=1e-7)
        monkeypatch.setattr(interior_point, "DOUBTFUL", 0)
        assert one.status.inseparable == other.status.inseparable == (not separated(case))
        if not one.status.inseparable:
            assert one.status is other.status
            assert one.objective == pytest.approx(other.objective, rel=1e-9)
            assert one.iterations >= other.iterations
    assert asked


@functools.cache
def inseparable():
    """Digits behind few gates, a tenth of the labels wrong."""
    task = load_binary("digits", train_size=1400)
    wrong = np.random.default_rng(0).random(1400) < 0.1
    return svm_gln(task.X_train, np.where(wrong, -1, 1) * task.y_train, HyperplaneGates(2, 2, seed=1).fit(task.X_pool))


def test_many_samples_that_nothing_separates_are_proved_to_be_so():
    bounds = []
    found = solve(inseparable(), "NATIVE", callback=lambda progress: bounds.append(progress.lower_bound))
    assert found.status is Status.NOT_SEPARABLE_BELOW
    assert found.farkas_residual < 1e-15
    assert found.lower_bound > 1e13
    assert found.iterations < 40
    assert (np.diff(bounds) >= 0).all()


@pytest.mark.parametrize("last", [interior_point.DOUBTFUL, interior_point.DOUBTFUL + 3])
def test_a_limit_or_an_interruption_ends_it(last):
    """With what is known; a proof is still sought where steps were to be few, not where it was interrupted."""

    def interrupt(progress):
        if progress.iteration == last:
            raise KeyboardInterrupt

    assert solve(inseparable(), "NATIVE", max_iterations=last).iterations == last
    broken = solve(inseparable(), "NATIVE", callback=interrupt)
    assert broken.status is Status.INTERRUPTED
    assert broken.iterations in (last - 1, last)
    assert 0 < broken.lower_bound < np.inf


def test_errors_of_a_callback_are_the_callers():
    def fail(progress):
        if progress.iteration == interior_point.DOUBTFUL + 2:
            raise ZeroDivisionError("of the caller's own")

    with pytest.raises(ZeroDivisionError, match="own"):
        solve(inseparable(), "NATIVE", callback=fail)


def test_nothing_is_asked_once_the_time_is_up(asked):
    case = list(cases("constant", "frobenius"))[-1]
    assert solve(case, "NATIVE", max_seconds=1e-9).status is Status.TIME_LIMIT
    assert asked == []


def test_without_the_memory_for_it_steps_go_on(asked, monkeypatch):
    case = list(cases("constant", "frobenius"))[-1]
    assert not separated(case)
    monkeypatch.setattr(balance, "free_memory", lambda: 0)
    assert solve(case, "NATIVE").status.inseparable
    assert asked == [None]
