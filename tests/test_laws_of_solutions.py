"""The laws of solutions, swept over every solver and over the gates, features and norms that `cases.py` lists."""

import dataclasses
import functools
import re

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias.metrics import normalised_margin, optimality_ratio
from implicit_bias.solvers.base import Options
from tests import cases
from tests.cases import assert_refused, optimal, optimum


@functools.cache
def optimum_of(gate, norm, kind="gated", C=np.inf):
    return optimum(cases.case_of(gate, norm, kind, C))


#: The native solver takes every case, the others every norm and every kind of features, except that PRECISE takes one
#: of the two spectral norms: their semidefinite programs take seconds each.
SOLVED = [
    (*case, solver)
    for solver in cases.SOLVERS
    for case in cases.CASES
    if solver == "NATIVE" or (case[0] == "contexts 2" and (case[1] == "group lasso" or case[2] == "gated"))
]
SOLVED.remove(("contexts 2", "spectral, l2", "gated", "PRECISE"))
#: Problems whose closed or conflicting samples every solver gets: a norm of each form that solvers distinguish.
BY_ALL_SOLVERS = [("contexts 2", norm, "gated") for norm in ("group lasso", "entries, l_inf", "spectral, l_inf", "l1")]


@pytest.mark.parametrize(("gate", "norm", "kind", "solver"), SOLVED)
def test_every_solver_is_certified_and_right(gate, norm, kind, solver):
    case, tol = cases.case_of(gate, norm, kind), cases.SOLVERS[solver]
    if solver == "PRECISE":
        features = case.features.select(slice(cases.FEW_SAMPLES))
        if kind == "gated":
            features = ib.GatedFeatures(features.X[:, : cases.FEW_INPUTS], features.gate_values)
        case = dataclasses.replace(case, features=features, y=case.y[: cases.FEW_SAMPLES])
    reason = ib.solvers.SOLVERS[solver].refusal(case, Options(tol))
    if reason:
        assert_refused(lambda: ib.solve(case, solver), re.escape(reason))
        return
    found = ib.solve(case, solver, tol=tol)
    assert (found.status, found.solver) == (ib.Status.OPTIMAL, solver)
    assert -1e-9 <= found.gap <= tol
    assert found.minimum_margin == pytest.approx(1.0, abs=1e-9)
    assert found.objective == pytest.approx(case.norm.value(found.weights), rel=1e-9)
    # Eigenvectors of kernels are turned inputs, all other kinds have the optimum of gated features.
    same = "gated" if case.norm.rotation_invariant else kind
    best = optimum(case) if solver == "PRECISE" else optimum_of(gate, norm, same)
    assert found.objective == pytest.approx(best, rel=max(1e-6, 2 * tol))


@cases.every_case
def test_soft_margins(gate, norm, kind):
    C = cases.solved(gate, norm).dual.max() / 2
    case = cases.case_of(gate, norm, kind, C)
    found = optimal(case, tol=1e-8)
    assert found.objective == pytest.approx(optimum_of(gate, norm, kind, C), rel=1e-7)
    slack = np.maximum(0, 1 - found.margins)
    assert slack.max() > 1e-3
    assert found.objective == pytest.approx(case.norm.value(found.weights) + C * slack.sum(), rel=1e-9)
    assert (found.dual <= C * (1 + 1e-12)).all()


@cases.every_case_with("soft", [False, True])
def test_intercepts_prices_and_required_margins(gate, norm, kind, soft):
    plain = cases.case_of(gate, norm, kind)
    # The classes lie far from the origin and on one side of it; where a kind of features has no inputs, they stay.
    features = plain.features
    if kind == "gated":
        features = ib.GatedFeatures(
            features.X + 3.0 + 2 * np.outer(plain.y, np.eye(1, features.d)), features.gate_values
        )
    n, C = features.n, 0.2 if soft else np.inf
    case = ib.MarginProblem(
        features, plain.y, plain.norm, C, None, "", np.linspace(0.5, 2, n), np.linspace(2, 1, n), True
    )
    found = optimal(case, tol=1e-8)
    assert found.objective == pytest.approx(optimum(case), rel=3e-8)
    np.testing.assert_allclose(case.margins(found.weights, found.intercept), found.margins, rtol=1e-9)
    assert abs(found.dual @ case.y) <= 1e-9 * found.dual.sum()
    assert found.objective <= ib.solve(dataclasses.replace(case, intercept=False)).objective * (1 + 1e-6)


@cases.every_case_with("change", ["inputs", "margins"])
def test_scaling_inputs_or_margins_scales_the_solution(gate, norm, kind, change):
    case, one, share = cases.case_of(gate, norm, kind), cases.solved(gate, norm, kind), 1e8
    inputs_ = dataclasses.replace(case, features=case.features.scaled(1 / share))
    other = inputs_ if change == "inputs" else dataclasses.replace(case, required_margin=share)
    assert ib.certify(other, share * one.weights, one.dual).gap <= 1.01e-6
    found = optimal(other)
    assert found.objective == pytest.approx(share * one.objective, rel=1e-6)


@cases.every_case
def test_permuting_samples_permutes_the_answer(gate, norm, kind):
    case, one = cases.case_of(gate, norm, kind), cases.solved(gate, norm, kind)
    order = np.random.default_rng(4).permutation(case.features.n)
    shuffled = dataclasses.replace(case, features=case.features.select(order), y=case.y[order])
    assert ib.certify(shuffled, one.weights, one.dual[order]).gap <= 1.01e-6
    found = ib.solve(shuffled)
    assert found.objective == pytest.approx(one.objective, rel=1e-6)
    assert ib.certify(case, found.weights, found.dual[np.argsort(order)]).gap <= 1.01e-6


@cases.every_case
def test_permuting_units_permutes_the_answer(gate, norm, kind):
    case, one = cases.case_of(gate, norm, kind), cases.solved(gate, norm, kind)
    groups = cases.samples(gate, size=cases.SIZE)[0].groups
    units = np.random.default_rng(5).permutation(np.unique(groups))
    order = np.concatenate([np.flatnonzero(groups == unit) for unit in units])
    norm_ = cases.NORMS[norm](groups[order])
    swapped = ib.MarginProblem(case.features.mixed(np.eye(len(groups))[:, order]), case.y, norm_)
    assert norm_.value(one.weights[order]) == pytest.approx(case.norm.value(one.weights), rel=1e-12)
    assert ib.certify(swapped, one.weights[order], one.dual).gap <= 1.01e-6
    found = ib.solve(swapped)
    assert found.objective == pytest.approx(one.objective, rel=1e-6)
    assert ib.certify(case, found.weights[np.argsort(order)], found.dual).gap <= 1.01e-6


@cases.every_case_with("soft", [False, True])
def test_no_weights_beat_the_solution(gate, norm, kind, soft):
    C = cases.solved(gate, norm).dual.max() / 2 if soft else np.inf
    case, best = cases.case_of(gate, norm, kind, C), cases.solved(gate, norm, kind, C)
    if not soft:
        assert optimality_ratio(case, 5 * best.weights, best.objective) == pytest.approx(1, rel=1e-9)
        assert optimality_ratio(case, -best.weights, best.objective) == np.inf
    for noise in (0.01, 0.1, 1.0):
        W = best.weights + noise * cases.random(*best.weights.shape)
        found = ib.certify(case, W, best.dual + noise * cases.random(case.features.n))
        assert (found.dual >= 0).all()
        assert found.dual.max() <= C * (1 + 1e-12)
        assert case.norm.dual(case.adjoint(found.dual)) <= 1 + 1e-9
        assert found.lower_bound == pytest.approx(found.dual.sum(), rel=1e-9)
        assert found.objective >= best.lower_bound * (1 - 1e-9)
        assert soft or normalised_margin(case, W) <= 1 / best.lower_bound * (1 + 1e-9)
        assert soft or optimality_ratio(case, W, best.lower_bound) >= 1 - 1e-9
        assert found.lower_bound <= best.objective * (1 + 1e-9)


@cases.every_case_with("intercept", [False, True])
def test_conflicting_samples_are_proved_not_separable(gate, norm, kind, intercept):
    case = cases.case_of(gate, norm, kind)
    twice = [*range(case.features.n), 3]
    y = np.append(case.y, -case.y[3])
    conflict = ib.MarginProblem(case.features.select(twice), y, case.norm, intercept=intercept)
    for solver in cases.SOLVERS if (gate, norm, kind) in BY_ALL_SOLVERS else [None]:
        if solver and ib.solvers.SOLVERS[solver].refusal(conflict, Options(1e-6, 500)):
            continue
        cases.assert_farkas(conflict, ib.solve(conflict, solver, max_iterations=500))


def with_closed(gate, norm, kind, rows, **options):
    """Return the problem of `case_of` with all gates closed at the samples `rows`."""
    gates, features, y = cases.samples(gate, size=cases.SIZE)
    values = features.gate_values.copy()
    values[rows] = 0.0
    return ib.MarginProblem(
        cases.FEATURES[kind](ib.GatedFeatures(features.X, values)), y, cases.NORMS[norm](gates.groups), **options
    )


@cases.every_case_with("intercept", [False, True])
def test_closed_samples_cost_their_margins(gate, norm, kind, intercept):
    weights = np.linspace(1, 2, cases.SIZE[0])
    soft = with_closed(gate, norm, kind, slice(None), C=0.3, sample_weight=weights, intercept=intercept)
    few = with_closed(gate, norm, kind, slice(3), C=0.3, sample_weight=weights, intercept=intercept)
    # One closed sample proves that nothing separates, and samples of both classes do with an intercept.
    hard = with_closed(gate, norm, kind, slice(None) if intercept else [5], intercept=intercept)
    # Without features, an intercept decides for one class, and samples of the other have the slack 2.
    cost = 0.6 * min(weights[soft.y == sign].sum() for sign in (-1, 1)) if intercept else 0.3 * weights.sum()
    for solver in cases.SOLVERS if (gate, norm, kind) in BY_ALL_SOLVERS else [None]:
        tol = cases.SOLVERS.get(solver, 1e-6)
        if solver != "PRECISE" and not (solver and ib.solvers.SOLVERS[solver].refusal(soft, Options(tol))):
            found = optimal(soft, solver, tol=tol)
            assert found.objective == pytest.approx(cost, rel=2 * tol)
        if not (solver and ib.solvers.SOLVERS[solver].refusal(hard, Options(tol))):
            cases.assert_farkas(hard, ib.solve(hard, solver))
    found = optimal(few)
    assert found.objective == pytest.approx(optimum(few), rel=2e-6)


@cases.every_case
def test_what_is_saved_loads_equal(tmp_path, gate, norm, kind):
    case = cases.case_of(gate, norm, kind)
    n = case.features.n
    case = dataclasses.replace(
        case, C=0.5, required_margin=np.linspace(1, 2, n), sample_weight=np.linspace(2, 1, n), intercept=True, name="a"
    )
    if case.norm.made_of is None or case.features.made_of is None:
        assert_refused(lambda: ib.save_problem(case, tmp_path / "problem.npz"), "user-defined")
        return
    copy = ib.load_problem(ib.save_problem(case, tmp_path / "problem.npz"))
    for name in ("name", "C", "intercept"):
        assert getattr(copy, name) == getattr(case, name)
    for name in ("y", "required_margin", "sample_weight"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(case, name))
    assert type(copy.features) is type(case.features)
    np.testing.assert_array_equal(copy.features.dense(), case.features.dense())
    one, other = (vars(ib.solve(each)) | {"seconds": 0.0} for each in (case, copy))
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value)


@cases.every_case
def test_problems_and_solutions_print_in_a_line(gate, norm, kind):
    case, found = cases.case_of(gate, norm, kind), cases.solved(gate, norm, kind)
    n, k, d = case.features.shape
    for text in (repr(case), repr(found), repr(case.features)):
        assert "\n" not in text
        assert len(text) < 150
    assert repr(case.features) == f"{type(case.features).__name__}(n={n}, k={k}, d={d})"
    assert repr(case.features) in repr(case)
    assert repr(case.norm) in repr(case)
    assert f"{found.status.name}, objective={found.objective:.9g}," in repr(found)


def test_a_problem_prints_what_is_not_by_default():
    case = cases.case_of("contexts 2", "group lasso")
    other = dataclasses.replace(case, C=0.5, intercept=True, constraints=lambda W: [W >= 0])
    assert repr(other).endswith(f"C=0.5, free intercept, {case.features.k * case.features.d} linear constraints)")


@pytest.mark.parametrize("field", ["weights", "dual", "objective", "status"])
def test_solutions_made_by_hand_print_whatever_they_hold(field):
    found = ib.solve(ib.svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ib.ConstantGate()))
    assert "fields that are not numbers" in repr(dataclasses.replace(found, **{field: np.array([None, None])}))
