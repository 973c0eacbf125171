"""The separability linear program: its proofs, compared with those of HiGHS, and its place in a solve."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.optimize import linprog

from implicit_bias import GatedFeatures, HyperplaneGates, MarginProblem, Status, certify, load_binary, solve, svm_gln
from implicit_bias.solvers.native import separability_lp
from implicit_bias.solvers.native.separability_lp import LPRows, inseparability_proof
from implicit_bias.solvers.native.settings import Settings
from tests.cases import FEATURES, PAIRS, interrupt, problem
from tests.solvers.native.shapes import in_our_coordinates, native

#: Samples of which some labels are such that they can be separated, with the gates of `cases.py`, and some not.
SIZE = (60, 4)


def cases(gate, norm, seeds=4):
    """Yield problems with more and more wrong labels, by gates and as blocks, every second one with an intercept."""
    plain = problem(gate, norm, size=SIZE)
    kinds = ["gated"] if norm.startswith("predictor") else ["gated", "kernels"]
    for seed in range(seeds):
        wrong = np.random.default_rng(seed).random(plain.features.n) < 0.1 * seed
        features = FEATURES[kinds[seed % len(kinds)]](plain.features)
        y = np.where(wrong, -plain.y, plain.y)
        yield dataclasses.replace(plain, features=features, y=y, intercept=bool(seed % 2))


def rows_of(case):
    """Return y ∘ Φ dense, with the intercept column y first if there is one."""
    A = case.features.dense()
    return case.y[:, None] * (np.insert(A, 0, 1.0, axis=1) if case.intercept else A)


def separated(case):
    """True if the problem is separable, by a linear program of HiGHS for λ."""
    A = rows_of(case) / np.abs(rows_of(case)).max()
    sums = np.vstack([A.T, np.ones(len(A))])
    found = linprog(np.zeros(len(A)), A_eq=sums, b_eq=np.eye(len(sums))[-1], method="highs")
    assert found.status in (0, 2)
    return found.status == 2


def proof(case, device="cpu"):
    """Return a proof λ (n,) of inseparability in the problem's own coordinates, or None."""
    ours = in_our_coordinates(case, device)
    kernels = ours.group_kernels(ours.to_device(np.arange(ours.n)))
    lam = inseparability_proof(kernels, ours.intercept_column, lambda step, lam: False)
    return None if lam is None else ours.dual(lam)


def assert_proof(case, lam):
    """Assert that λ ≥ 0, λ ≠ 0, and Φᵀ(λ∘y) = 0 up to rounding."""
    assert (lam >= 0).all()
    assert lam.max() > 0
    A = rows_of(case)
    assert np.abs(A.T @ lam).max() <= 1e-13 * (np.abs(A).T @ lam).max()


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_proofs_agree_with_highs(gate, norm, device):
    for case in cases(gate, norm):
        lam = proof(case, device)
        assert (lam is None) == separated(case)
        if lam is not None:
            assert_proof(case, lam)


@pytest.mark.parametrize("wide", [1, 10**9])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_rows_multiply_as_dense_ones(gate, norm, wide):
    rng = np.random.default_rng(0)
    for case in cases(gate, norm, 2):
        for device in ("cpu", "cpu:0"):
            ours = in_our_coordinates(case, device, wide_from=wide)
            rows = LPRows(ours.group_kernels(ours.to_device(np.arange(ours.n))), ours.intercept_column)
            weights, move = rng.random(rows.n + 1), ours.to_device
            dense = np.stack([np.asarray(rows.times(move(x))) for x in np.eye(rows.size)], axis=1)
            np.testing.assert_allclose(rows.adjoint(move(weights)), dense.T @ weights, atol=1e-12)
            moment = dense.T @ (weights[:, None] * dense)
            np.testing.assert_allclose(rows.moment(move(weights)), moment, atol=1e-11)


def test_a_separable_sample_has_no_part_in_a_proof():
    """A sample that one input separates from all others has λ = 0 in the proof for two overlapping classes."""
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
    """All λ_i of a proof are positive although samples differ in length by many decades."""
    X = np.asarray(X, float)
    case = MarginProblem(GatedFeatures(X), np.ones(len(X)), problem("constant", "frobenius").norm)
    lam = proof(case)
    assert_proof(case, lam)
    assert (lam > 0).all()


def test_reported_bounds_hold_despite_rounding():
    """Lower bounds hold for nearly collinear features, where rounding exceeds the exact Φᵀλ."""
    rng = np.random.default_rng(2)
    X, D, w = rng.normal(size=(1500, 6)), rng.normal(size=(1500, 6)), rng.normal(size=6)
    y = np.where(D @ w > 0, 1.0, -1.0)
    D += 0.1 * y[:, None] * w
    case = MarginProblem(GatedFeatures(np.hstack([X, X + 1e-8 * D])), y, problem("constant", "frobenius").norm)
    told = []
    solve(case, "NATIVE", callback=lambda progress: told.append(progress.lower_bound))
    assert len(told) > Settings().separability_after
    assert max(told) <= certify(case, np.hstack([-w, w])[None], np.zeros(1500)).objective


#: Steps through the features; the program is solved before the first of them.
AT_ONCE = {"features_per_sample": np.inf, "separability_from": 0, "separability_after": 0}


# Each kind of gates once: the norm has no part in separability.
@pytest.mark.parametrize(("gate", "norm"), [*dict(PAIRS).items()])
def test_answers_are_the_same_without_it(gate, norm):
    for case in cases(gate, norm):
        one, other = (solve(case, native(**AT_ONCE | {"separability_after": after}), tol=1e-7) for after in (0, -1))
        assert one.status.inseparable == other.status.inseparable == (not separated(case))
        if not one.status.inseparable:
            assert one.status is other.status
            assert one.objective == pytest.approx(other.objective, rel=1e-9)
            assert one.iterations >= other.iterations


@functools.cache
def inseparable():
    """Return digits behind few gates, with a tenth of the labels wrong."""
    task = load_binary("digits", train_size=1400)
    wrong = np.random.default_rng(0).random(1400) < 0.1
    return svm_gln(task.X_train, np.where(wrong, -1, 1) * task.y_train, HyperplaneGates(2, 2, seed=1).fit(task.X_pool))


def test_many_inseparable_samples_are_proved_so():
    bounds = []
    found = solve(inseparable(), "NATIVE", callback=lambda progress: bounds.append(progress.lower_bound))
    assert found.status is Status.NOT_SEPARABLE_BELOW
    assert found.farkas_residual < 1e-15
    assert found.lower_bound > 1e13
    assert found.iterations < 40
    assert (np.diff(bounds) >= 0).all()


@pytest.mark.parametrize("last", [8, 11])
def test_a_limit_or_an_interruption_ends_it(last):
    """A limit of iterations or Ctrl-C ends a solve at the start of the linear program and during it."""
    assert solve(inseparable(), "NATIVE", max_iterations=last).iterations == last
    broken = solve(inseparable(), "NATIVE", callback=interrupt(lambda progress: progress.iteration == last))
    assert broken.status is Status.INTERRUPTED
    assert broken.iterations in (last - 1, last)
    assert 0 < broken.lower_bound < np.inf


@pytest.mark.parametrize("iteration", [0, 10])
def test_errors_of_a_callback_are_raised(iteration):
    """Before the linear program and during it."""
    with pytest.raises(ZeroDivisionError):
        solve(inseparable(), "NATIVE", callback=lambda progress: 1 / (progress.iteration - iteration))


def test_without_time_or_memory_steps_go_on(monkeypatch):
    case = list(cases("constant", "frobenius"))[-1]
    assert not separated(case)
    found, cold = (
        solve(case, native(**AT_ONCE | {"separability_after": after}), max_seconds=1e-9) for after in (0, -1)
    )
    assert found.status is Status.TIME_LIMIT
    assert found.iterations == cold.iterations
    monkeypatch.setattr(separability_lp, "free_memory", lambda: 0)
    found, cold = (solve(case, native(**AT_ONCE | {"separability_after": after})) for after in (0, -1))
    assert found.status.inseparable
    assert found.iterations == cold.iterations
