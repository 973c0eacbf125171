"""The laws of gated linear fits, swept over every kind of gates, features, norms and solvers that `cases.py` lists."""

import dataclasses
import functools
import pickle
import re

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

import implicit_bias
from implicit_bias import (
    ExpressionNorm,
    Features,
    Frobenius,
    GatedFeatures,
    Gates,
    GroupLasso,
    InputError,
    MarginProblem,
    Norm,
    Status,
    certify,
    load_problem,
    load_solution,
    save_problem,
    save_solution,
    solve,
    solver_names,
)
from tests.cases import FEATURES, GATES, NORMS, SOLVERS, TRIPLES, assert_farkas, inputs, problem, samples

#: Samples and inputs: more samples than inputs, few enough for a second of solves.
SIZE = (16, 5)

#: What solvers need that not every problem has.
NEEDS = {"NATIVE": "groups", "OSQP": "quadratic"}

every_gate = pytest.mark.parametrize("gate", GATES)
every_kind = pytest.mark.parametrize(("gate", "kind"), [(gate, kind) for gate in GATES for kind in FEATURES])
every_norm = pytest.mark.parametrize(
    ("gate", "norm"), [(gate, norm) for gate, norm, kind in TRIPLES if kind == "gated"]
)
every_case = pytest.mark.parametrize(("gate", "norm", "kind"), TRIPLES)
#: As `every_case`, with fewer gates where their kind of features has forgotten them.
most_cases = pytest.mark.parametrize(
    ("gate", "norm", "kind"), [case for case in TRIPLES if case[2] == "gated" or case[0] in ("fixed cutoff", "product")]
)


def made(gate, kind="gated"):
    """The features of these gates on plain inputs, with one sample that no gate sees."""
    X = inputs(*SIZE)
    features = GATES[gate](X)(X)
    values = features.gate_values.copy()
    values[5] = 0.0
    return FEATURES[kind](GatedFeatures(features.X, values))


@functools.cache
def case_of(gate, norm, kind="gated", C=np.inf):
    return problem(gate, norm, C, features=kind, size=SIZE)


@functools.cache
def solved(gate, norm, kind="gated", C=np.inf):
    return solve(case_of(gate, norm, kind, C))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# Completeness


@pytest.mark.parametrize(
    ("base", "listed"),
    [
        (Gates, [make(inputs()) for make in GATES.values()]),
        (Features, [made("contexts 2", kind) for kind in FEATURES]),
        (Norm, [make(np.arange(2)) for make in NORMS.values()]),
    ],
    ids=["gates", "features", "norms"],
)
def test_every_public_class_has_a_row(base, listed):
    public = {getattr(implicit_bias, name) for name in implicit_bias.__all__}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, base)} - {base}
    assert kinds <= {type(thing) for thing in listed}


def test_every_solver_has_a_row():
    assert list(SOLVERS) == solver_names()


# Gates


@every_gate
def test_gates_are_transformers(gate):
    X = inputs(60)
    gates = GATES[gate](X)
    values = gates.transform(X)
    assert values.shape == (len(X), len(gates.groups)) == (len(X), len(gates.get_feature_names_out()))
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, gates(X).gate_values)
    assert gates.fitted(X[:9]) is gates
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(values[order], gates.transform(X[order]))
    for copy in (clone(gates).fit(X), clone(gates).fit(X[order]), pickle.loads(pickle.dumps(gates))):
        np.testing.assert_array_equal(values, copy.transform(X))


@every_gate
def test_weights_of_gates_count_copies(gate):
    X = inputs(60)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    gates = GATES[gate](X)
    assert has_fit_parameter(gates, "sample_weight")
    weighted = clone(gates).fit(X, sample_weight=weight).transform(X)
    np.testing.assert_array_equal(weighted, clone(gates).fit(X.repeat(weight, axis=0)).transform(X))
    np.testing.assert_array_equal(gates.transform(X), clone(gates).fit(X, sample_weight=2 * np.ones(60)).transform(X))


# Features


@every_kind
def test_the_operator_is_the_dense_matrix(gate, kind):
    features = made(gate, kind)
    dense, W, a = features.dense(), random(features.k, features.d), random(features.n, seed=1)
    assert dense.shape == (features.n, features.k * features.d)
    np.testing.assert_allclose(features @ W, dense @ W.ravel(), atol=1e-11)
    np.testing.assert_allclose(features.adjoint(a).ravel(), dense.T @ a, atol=1e-11)
    assert (features @ W) @ a == pytest.approx(np.sum(W * features.adjoint(a)), rel=1e-11)
    np.testing.assert_allclose(features.gram(), dense @ dense.T, atol=1e-10)
    np.testing.assert_allclose(features.weight_gram(), dense.T @ dense, atol=1e-10)
    np.testing.assert_allclose(features.gram(), made(gate).gram(), atol=1e-10)


@every_kind
def test_sizes_of_features(gate, kind):
    features = made(gate, kind)
    dense, a = features.dense(), random(features.n, seed=1)
    blocks, W = np.abs(dense).reshape(features.shape), random(features.k, features.d)
    np.testing.assert_allclose(features.row_norms(), np.linalg.norm(dense, axis=1), atol=1e-12)
    np.testing.assert_array_equal(features.closed(), ~dense.any(axis=1))
    assert features.closed()[5] or kind == "kernels"  # By eigenvectors, zero up to rounding.
    assert (features.largest() >= blocks.max(axis=0) * (1 - 1e-14)).all()
    np.testing.assert_allclose(features.magnitudes(W), np.abs(dense) @ np.abs(W).ravel(), rtol=1e-11, atol=1e-12)
    lengths = np.abs(a) @ np.linalg.norm(blocks, axis=2)
    np.testing.assert_allclose(features.adjoint_magnitudes(a), lengths, rtol=1e-11)
    u = features.units()
    assert u.shape == (features.d,)
    np.testing.assert_allclose(features.in_units(u) @ (W * u), features @ W, atol=1e-11)
    np.testing.assert_allclose(features.in_units(u).row_norms(), features.row_norms(u), atol=1e-12)


@every_kind
def test_features_of_features(gate, kind):
    features = made(gate, kind)
    W, T = random(features.k, features.d), random(features.k, features.k + 1)
    spread = np.zeros(features.k + 1, dtype=int)
    assert features.scaled(-4.0).scale() == pytest.approx(4 * features.scale(), rel=1e-12)
    np.testing.assert_allclose(features.scaled(-4.0) @ W, -4 * (features @ W), atol=1e-11)
    for mixing in (T, sp.csr_array(T)):
        mixed = features.mixed(mixing)
        assert mixed.shape == (features.n, features.k + 1, features.d)
        np.testing.assert_allclose(mixed @ W[spread], features @ (T @ W[spread]), atol=1e-10)
    for rows in ([3, 1, 1], np.arange(features.n) % 3 == 0, slice(2, 9)):
        np.testing.assert_allclose(features.select(rows) @ W, (features @ W)[rows], atol=1e-12)
    reduced, V = features.reduced()
    np.testing.assert_allclose(V.T @ V, np.eye(reduced.d), atol=1e-12)
    np.testing.assert_allclose(reduced @ (W @ V), features @ (W @ V @ V.T), atol=1e-10)
    shared = features.shared()
    np.testing.assert_allclose(shared.M @ (shared.S @ W).ravel(), features @ W, atol=1e-11)
    for other in (features.scaled(2.0), features.mixed(T), features.select([0]), reduced):
        assert isinstance(other, Features)
    for call in (lambda: features @ W.T, lambda: features.adjoint([1.0]), lambda: features.mixed(T.T)):
        with pytest.raises(InputError):
            call()


# Norms


@every_norm
def test_norms_and_their_duals(gate, norm):
    case = case_of(gate, norm)
    norm, k = case.norm, case.features.k
    for seed in range(25):
        W, V, U = random(3, k, 4, seed=seed)
        assert np.sum(W * V) <= norm.value(W) * norm.dual(V) * (1 + 1e-12)
        assert norm.value(W + U) <= (norm.value(W) + norm.value(U)) * (1 + 1e-12)
    assert norm.value(-3 * W) == pytest.approx(3 * norm.value(W), rel=1e-12)
    assert norm.value(0 * W) == norm.dual(0 * W) == 0
    V = case.adjoint(random(case.features.n) ** 2)
    assert norm.dual(-3 * V) == pytest.approx(3 * norm.dual(V), rel=1e-12)
    if norm.rotation_invariant:
        Q = np.linalg.qr(random(4, 4))[0]
        assert norm.value(W @ Q) == pytest.approx(norm.value(W), rel=1e-12)
    bound = norm.dual_bound(np.linalg.norm(V, axis=1))
    assert bound is None or bound >= norm.dual(V) * (1 - 1e-12)
    assert norm.gates in (None, k)


@every_norm
def test_the_dual_norm_is_attained(gate, norm):
    """The largest ⟨V, W⟩ in the unit ball, found by another solver, for the V that margin problems have."""
    case = case_of(gate, norm)
    V = case.adjoint(random(case.features.n) ** 2)
    W = cp.Variable(V.shape)
    ball = [case.norm.expression(W) <= 1, *case.norm.gauge(W)]
    best = cp.Problem(cp.Maximize(cp.sum(cp.multiply(V, W))), ball).solve(solver="CLARABEL")
    assert case.norm.dual(V) == pytest.approx(float(best), rel=1e-6)


@every_norm
def test_every_form_of_a_norm_has_its_value(gate, norm):
    norm, k = case_of(gate, norm).norm, case_of(gate, norm).features.k
    W = random(k, 3, seed=5)
    assert float(norm.expression(cp.Constant(W)).value) == pytest.approx(norm.value(W), rel=1e-12)
    square, form = norm.quadratic(cp.Constant(W)), norm.group_form(k)
    assert square is None or float(square.value) == pytest.approx(norm.value(W) ** 2, rel=1e-12)
    if form is not None:
        parts = random(len(form.groups), 3, seed=6)
        sizes = [np.linalg.norm(parts[form.groups == group]) for group in np.unique(form.groups)]
        assert norm.value(form.expand @ parts) == pytest.approx(sum(sizes), rel=1e-12)


# Solutions


def optimum(case):
    """By a CVXPY program of its own: the dual on the dense matrix, with the norms' duals written from scratch."""
    lam = cp.Variable(case.features.n, nonneg=True)
    V = cp.reshape(case.features.dense().T @ cp.multiply(lam, case.y), case.features.shape[1:], order="C")
    norm = case.norm
    if isinstance(norm, GroupLasso):
        labels = np.unique(norm.groups)
        limits = [cp.norm(V[norm.groups == g], "fro") <= c for g, c in zip(labels, norm.weights, strict=True)]
    elif isinstance(norm, ExpressionNorm):
        limits = [cp.abs(V) <= 1]
    elif isinstance(norm, Frobenius):
        limits = [cp.norm(V, "fro") <= 1]
    else:
        H, K = norm.units, norm.contexts
        A = np.ones((H * K, H * K)) / np.sqrt(H * K) - np.kron(np.eye(H), np.ones((K, K))) / np.sqrt(K)
        limits = [cp.norm(np.linalg.pinv(A + np.sqrt(K) * np.eye(H * K)) @ V, "fro") <= 1]
    if not case.hard:
        limits.append(lam <= case.prices)
    if case.intercept:
        limits.append(case.y @ lam == 0)
    worth = cp.sum(cp.multiply(case.required_margin, lam))
    return float(cp.Problem(cp.Maximize(worth), limits).solve(solver="CLARABEL"))


@functools.cache
def optimum_of(gate, norm, kind="gated", C=np.inf):
    return optimum(case_of(gate, norm, kind, C))


@every_case
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_is_certified_and_right(gate, norm, kind, solver):
    case, tol = case_of(gate, norm, kind), SOLVERS[solver]
    reason = case.lacks(NEEDS.get(solver, "cone"))
    if reason:
        with pytest.raises(InputError, match=re.escape(reason)):
            solve(case, solver)
        return
    found = solve(case, solver, tol=tol)
    assert (found.status, found.solver) == (Status.OPTIMAL, solver)
    assert -1e-9 <= found.gap <= tol
    assert found.minimum_margin == pytest.approx(1.0, abs=1e-9)
    assert found.objective == pytest.approx(case.norm.value(found.weights), rel=1e-9)
    # Kernels by their eigenvectors have another l1 norm, all else one optimum.
    same = "kernels" if (norm, kind) == ("l1", "kernels") else "gated"
    assert found.objective == pytest.approx(optimum_of(gate, norm, same), rel=max(1e-6, 2 * tol))


@every_case
def test_soft_margins(gate, norm, kind):
    C = solved(gate, norm).dual.max() / 2
    case = case_of(gate, norm, kind, C)
    found = solve(case, tol=1e-8)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(optimum_of(gate, norm, kind, C), rel=1e-7)
    slack = np.maximum(0, 1 - found.margins)
    assert slack.max() > 1e-3
    assert found.objective == pytest.approx(case.norm.value(found.weights) + C * slack.sum(), rel=1e-9)
    assert (found.dual <= C * (1 + 1e-12)).all()


@most_cases
@pytest.mark.parametrize("soft", [False, True])
def test_intercepts_prices_and_required_margins(gate, norm, kind, soft):
    plain = case_of(gate, norm, kind)
    # The classes lie far from the origin and on one side of it; where a kind of features has no inputs, they stay.
    features = plain.features
    if kind == "gated":
        features = GatedFeatures(features.X + 3.0 + 2 * np.outer(plain.y, np.eye(1, features.d)), features.gate_values)
    n, C = features.n, 0.2 if soft else np.inf
    case = MarginProblem(features, plain.y, plain.norm, C, None, "", np.linspace(0.5, 2, n), np.linspace(2, 1, n), True)
    found = solve(case, tol=1e-8)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(optimum(case), rel=3e-8)
    np.testing.assert_allclose(case.margins(found.weights, found.intercept), found.margins, rtol=1e-9)
    assert abs(found.dual @ case.y) <= 1e-9 * found.dual.sum()
    assert found.objective <= solve(dataclasses.replace(case, intercept=False)).objective * (1 + 1e-6)


@most_cases
@pytest.mark.parametrize("change", ["inputs", "margins"])
def test_scaling_inputs_or_margins_scales_the_solution(gate, norm, kind, change):
    case, one, share = case_of(gate, norm, kind), solved(gate, norm, kind), 1e8
    inputs_ = dataclasses.replace(case, features=case.features.scaled(1 / share))
    other = inputs_ if change == "inputs" else dataclasses.replace(case, required_margin=share)
    assert certify(other, share * one.weights, one.dual).gap <= 1.01e-6
    found = solve(other)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(share * one.objective, rel=1e-6)


@most_cases
def test_permuting_samples_permutes_the_answer(gate, norm, kind):
    case, one = case_of(gate, norm, kind), solved(gate, norm, kind)
    order = np.random.default_rng(4).permutation(case.features.n)
    shuffled = dataclasses.replace(case, features=case.features.select(order), y=case.y[order])
    assert certify(shuffled, one.weights, one.dual[order]).gap <= 1.01e-6
    found = solve(shuffled)
    assert found.objective == pytest.approx(one.objective, rel=1e-6)
    assert certify(case, found.weights, found.dual[np.argsort(order)]).gap <= 1.01e-6


@most_cases
def test_permuting_units_permutes_the_answer(gate, norm, kind):
    case, one = case_of(gate, norm, kind), solved(gate, norm, kind)
    groups = samples(gate, size=SIZE)[0].groups
    units = np.random.default_rng(5).permutation(np.unique(groups))
    order = np.concatenate([np.flatnonzero(groups == unit) for unit in units])
    norm_ = NORMS[norm](groups[order])
    swapped = MarginProblem(case.features.mixed(np.eye(len(groups))[:, order]), case.y, norm_)
    assert norm_.value(one.weights[order]) == pytest.approx(case.norm.value(one.weights), rel=1e-12)
    assert certify(swapped, one.weights[order], one.dual).gap <= 1.01e-6
    found = solve(swapped)
    assert found.objective == pytest.approx(one.objective, rel=1e-6)
    assert certify(case, found.weights[np.argsort(order)], found.dual).gap <= 1.01e-6


@most_cases
def test_no_weights_beat_the_solution(gate, norm, kind):
    case, best = case_of(gate, norm, kind), solved(gate, norm, kind)
    for noise in (0.01, 0.1, 1.0):
        W = best.weights + noise * random(*best.weights.shape)
        dual = np.abs(best.dual + noise * random(case.features.n))
        found = certify(case, W, dual)
        assert found.objective >= best.lower_bound * (1 - 1e-9)
        assert found.lower_bound <= best.objective * (1 + 1e-9)


@most_cases
@pytest.mark.parametrize("intercept", [False, True])
def test_conflicting_samples_are_proved_not_separable(gate, norm, kind, intercept):
    case = case_of(gate, norm, kind)
    twice = [*range(case.features.n), 3]
    y = np.append(case.y, -case.y[3])
    conflict = MarginProblem(case.features.select(twice), y, case.norm, intercept=intercept)
    for solver in SOLVERS if (gate, kind) == ("contexts 2", "gated") else [None]:
        if conflict.lacks(NEEDS.get(solver, "cone")):
            continue
        assert_farkas(conflict, solve(conflict, solver, max_iterations=500))


# Files


@most_cases
def test_what_is_saved_loads_equal(tmp_path, gate, norm, kind):
    case = case_of(gate, norm, kind)
    n = case.features.n
    case = dataclasses.replace(
        case, C=0.5, required_margin=np.linspace(1, 2, n), sample_weight=np.linspace(2, 1, n), intercept=True, name="a"
    )
    if norm == "l1" or kind == "own":
        with pytest.raises(InputError, match="code of your own"):
            save_problem(case, tmp_path / "problem.npz")
        return
    copy = load_problem(save_problem(case, tmp_path / "problem.npz"))
    for name in ("name", "C", "intercept"):
        assert getattr(copy, name) == getattr(case, name)
    for name in ("y", "required_margin", "sample_weight"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(case, name))
    assert type(copy.features) is type(case.features)
    np.testing.assert_array_equal(copy.features.dense(), case.features.dense())
    one, other = solve(case), solve(copy)
    again = load_solution(save_solution(one, tmp_path / "solution.npz"))
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(one, field.name))
        if field.name != "seconds":
            np.testing.assert_array_equal(getattr(other, field.name), getattr(one, field.name))


@every_gate
def test_saved_gates_score_alike(tmp_path, gate):
    X = inputs()
    gates = GATES[gate](X)
    case = MarginProblem(gates(X), np.where(X[:, 0] > 0, 1, -1), GroupLasso(gates.groups), 1.0, gates)
    if gates.made_of is None:
        with pytest.raises(InputError, match="gates=None"):
            save_problem(case, tmp_path / "problem.npz")
        return
    copy = load_problem(save_problem(case, tmp_path / "problem.npz"))
    W = random(case.features.k, case.features.d)
    np.testing.assert_array_equal(copy.decision_function(W, X), case.decision_function(W, X))
    np.testing.assert_array_equal(clone(copy.gates).fit(X).transform(X), gates.transform(X))
