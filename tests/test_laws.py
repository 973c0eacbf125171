"""The laws of gates, features and norms, swept over all that `cases.py` lists."""

import pickle
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

import implicit_bias
from implicit_bias import GroupLasso, InputError, MarginProblem, load_problem, save_problem, solver_names
from implicit_bias.features import Features
from implicit_bias.features.patterns import share_patterns
from implicit_bias.gates import ContextGates, Gates
from implicit_bias.norms import Norm
from implicit_bias.training.optimisers import Optimiser
from tests import cases
from tests.cases import assert_refused
from tests.fuzz.exact import fractions

# Completeness


@pytest.mark.parametrize(
    ("base", "listed"),
    [
        (Gates, [make(cases.inputs()) for make in cases.GATES.values()]),
        (Features, [cases.made("contexts 2", kind) for kind in cases.FEATURES]),
        (Norm, [make(np.arange(2)) for make in cases.NORMS.values()]),
        (Optimiser, [optimiser for optimiser, _ in cases.OPTIMISERS.values()]),
    ],
    ids=["gates", "features", "norms", "optimisers"],
)
def test_every_public_class_has_a_row(base, listed):
    public = {getattr(module, name) for module in (implicit_bias, implicit_bias.training) for name in module.__all__}
    bases = {base, ContextGates}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, base)} - bases
    assert kinds <= {type(thing) for thing in listed}


def test_every_solver_has_a_row():
    assert list(cases.SOLVERS) == solver_names()


# Gates


@cases.every_gate
def test_gates_are_transformers(gate):
    X = cases.inputs(60)
    gates = cases.GATES[gate](X)
    values = gates.transform(X)
    assert values.shape == (len(X), len(gates.groups)) == (len(X), len(gates.get_feature_names_out()))
    assert values.dtype == np.float64
    if gates(X).gated:
        np.testing.assert_array_equal(values, gates(X).gate_values)
    assert gates.fitted(X[:9]) is gates
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(values[order], gates.transform(X[order]))
    for copy in (clone(gates).fit(X), clone(gates).fit(X[order]), pickle.loads(pickle.dumps(gates))):
        np.testing.assert_array_equal(values, copy.transform(X))


@cases.every_gate
def test_weights_of_gates_count_copies(gate):
    X = cases.inputs(60)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    gates = cases.GATES[gate](X)
    assert has_fit_parameter(gates, "sample_weight")
    weighted = clone(gates).fit(X, sample_weight=weight).transform(X)
    np.testing.assert_array_equal(weighted, clone(gates).fit(X.repeat(weight, axis=0)).transform(X))
    np.testing.assert_array_equal(gates.transform(X), clone(gates).fit(X, sample_weight=2 * np.ones(60)).transform(X))


# Features


@cases.every_kind
def test_the_operator_is_the_dense_matrix(gate, kind):
    features = cases.made(gate, kind)
    dense, W, a = features.dense(), cases.random(features.k, features.d), cases.random(features.n, seed=1)
    assert dense.shape == (features.n, features.k * features.d)
    np.testing.assert_allclose(features @ W, dense @ W.ravel(), atol=1e-11)
    np.testing.assert_allclose(features.adjoint(a).ravel(), dense.T @ a, atol=1e-11)
    assert (features @ W) @ a == pytest.approx(np.sum(W * features.adjoint(a)), rel=1e-11)
    np.testing.assert_allclose(features.gram(), dense @ dense.T, atol=1e-10)
    np.testing.assert_allclose(features.weight_gram(), dense.T @ dense, atol=1e-10)
    np.testing.assert_allclose(features.gram(), cases.made(gate).gram(), atol=1e-10)


@cases.every_kind
def test_sizes_of_features(gate, kind):
    features = cases.made(gate, kind)
    dense = features.dense()
    blocks, W = np.abs(dense).reshape(features.shape), cases.random(features.k, features.d)
    np.testing.assert_allclose(features.row_norms(), np.linalg.norm(dense, axis=1), atol=1e-12)
    np.testing.assert_array_equal(features.closed(), ~dense.any(axis=1))
    assert features.closed()[5] or kind == "kernels"  # By eigenvectors, zero up to rounding.
    assert (features.largest() >= blocks.max(axis=0) * (1 - 1e-14)).all()
    np.testing.assert_allclose(features.magnitudes(W), np.abs(dense) @ np.abs(W).ravel(), rtol=1e-11, atol=1e-12)
    u = features.units()
    assert u.shape == (features.d,)
    np.testing.assert_allclose(features.in_units(u) @ (W * u), features @ W, atol=1e-11)
    np.testing.assert_allclose(features.in_units(u).row_norms(), features.row_norms(u), atol=1e-12)


@cases.every_kind
@pytest.mark.parametrize("precise", [False, True])
def test_bounds_of_rounding(gate, kind, precise):
    """Error bounds of ΦW and Φᵀa hold exactly for badly scaled factors; precise results err by 1e-20 at most."""
    features = cases.made(gate, kind)
    n, k, d = features.shape
    rng = np.random.default_rng(0)
    W, a = (
        cases.random(k, d) * 10.0 ** rng.uniform(-9, 9, (k, d)),
        cases.random(n, seed=1) * 10.0 ** rng.uniform(-9, 9, n),
    )
    a[::3] = 0.0
    phi = exact_blocks(features)
    terms = phi * fractions(W)
    sums, sizes = terms.sum(axis=(1, 2)), abs(terms).sum(axis=(1, 2))
    upper, lower, error = features.apply_bounded(W, precise)
    wrong = abs(fractions(upper) + fractions(lower) - sums)
    assert (wrong <= fractions(error)).all()
    assert not precise or (wrong <= sizes * Fraction(1e-20)).all()
    terms = phi * fractions(a)[:, None, None]
    upper, lower, error = features.adjoint_bounded(a, precise)
    wrong = ((fractions(upper) + fractions(lower) - terms.sum(axis=0)) ** 2).sum(axis=1)
    assert (wrong <= fractions(error) ** 2).all()
    assert not precise or (wrong <= (abs(terms).sum(axis=(0, 2)) * Fraction(1e-20)) ** 2).all()


def exact_blocks(features):
    """Return φ_j(x_i) as Fractions, shape (n, k, d)."""
    if features.gate_values is None:
        return fractions(features.dense().reshape(features.shape))
    return fractions(features.gate_values)[:, :, None] * fractions(features.X)[:, None]


@cases.every_kind
def test_features_of_features(gate, kind):
    features = cases.made(gate, kind)
    W, T = cases.random(features.k, features.d), cases.random(features.k, features.k + 1)
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
    np.testing.assert_allclose(reduced @ (W @ V), features @ W, atol=1e-10)
    gated = kind in ("gated", "chunked")
    assert reduced.d == features.d - gated
    for shared in [features.shared(), *([share_patterns(features.X, features.gate_values, 0)] if gated else [])]:
        np.testing.assert_allclose(shared.M @ (shared.S @ W).ravel(), features @ W, atol=1e-11)
    for other in (features.scaled(2.0), features.mixed(T), features.select([0]), reduced):
        assert isinstance(other, Features)
    for call in (lambda: features @ W.T, lambda: features.adjoint([1.0]), lambda: features.mixed(T.T)):
        with pytest.raises(InputError):
            call()


# Norms


@cases.every_norm
def test_norms_and_their_duals(gate, norm):
    case = cases.case_of(gate, norm)
    norm, k = case.norm, case.features.k
    for seed in range(25):
        W, V, U = cases.random(3, k, 4, seed=seed)
        assert np.sum(W * V) <= norm.value(W) * norm.dual(V) * (1 + 1e-12)
        assert norm.value(W + U) <= (norm.value(W) + norm.value(U)) * (1 + 1e-12)
    assert norm.value(-3 * W) == pytest.approx(3 * norm.value(W), rel=1e-12)
    assert norm.value(0 * W) == norm.dual(0 * W) == 0
    V = case.adjoint(cases.random(case.features.n) ** 2)
    assert norm.dual(-3 * V) == pytest.approx(3 * norm.dual(V), rel=1e-12)
    if norm.rotation_invariant:
        Q = np.linalg.qr(cases.random(4, 4))[0]
        assert norm.value(W @ Q) == pytest.approx(norm.value(W), rel=1e-12)
    bound = norm.dual_bound(np.linalg.norm(V, axis=1))
    assert bound is None or bound >= norm.dual(V) * (1 - 1e-12)
    assert norm.gates in (None, k)


@cases.every_norm
def test_the_dual_norm_is_attained(gate, norm):
    """The dual norm of V is max ⟨V, W⟩ over ‖W‖ ≤ 1, computed by CLARABEL, for V = Φᵀ(λ∘y) with random λ ≥ 0."""
    case = cases.case_of(gate, norm)
    V = case.adjoint(cases.random(case.features.n) ** 2)
    W = cp.Variable(V.shape)
    ball = [case.norm.expression(W) <= 1, *case.norm.gauge(W)]
    best = cp.Problem(cp.Maximize(cp.sum(cp.multiply(V, W))), ball).solve(solver="CLARABEL")
    assert case.norm.dual(V) == pytest.approx(float(best), rel=1e-6)


@cases.every_norm
def test_every_form_of_a_norm_has_its_value(gate, norm):
    norm, k = cases.case_of(gate, norm).norm, cases.case_of(gate, norm).features.k
    W = cases.random(k, 3, seed=5)
    assert float(norm.expression(cp.Constant(W)).value) == pytest.approx(norm.value(W), rel=1e-12)
    square, form = norm.quadratic(cp.Constant(W)), norm.group_form(k)
    assert square is None or float(square.value) == pytest.approx(norm.value(W) ** 2, rel=1e-12)
    if form is not None:
        parts = cases.random(len(form.groups), 3, seed=6)
        sizes = [np.linalg.norm(parts[form.groups == group]) for group in np.unique(form.groups)]
        assert norm.value(form.expand @ parts) == pytest.approx(sum(sizes), rel=1e-12)


@cases.every_gate
def test_saved_gates_score_alike(tmp_path, gate):
    X = cases.inputs()
    gates = cases.GATES[gate](X)
    case = MarginProblem(gates(X), np.where(X[:, 0] > 0, 1, -1), GroupLasso(gates.groups), 1.0, gates)
    if gates.made_of is None:
        assert_refused(lambda: save_problem(case, tmp_path / "problem.npz"), "gates=None")
        return
    copy = load_problem(save_problem(case, tmp_path / "problem.npz"))
    W = cases.random(case.features.k, case.features.d)
    np.testing.assert_array_equal(copy.decision_function(W, X), case.decision_function(W, X))
    np.testing.assert_array_equal(clone(copy.gates).fit(X).transform(X), gates.transform(X))
