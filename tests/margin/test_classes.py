"""Several classes at once: against two classes, CVXPY written out, and networks' own norms."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_wine

import implicit_bias as ib
from implicit_bias._utils.limits import TooLargeError
from implicit_bias.gates import FunctionContexts
from implicit_bias.solvers.native import NativeSolver, Settings
from tests.cases import assert_refused, inputs, optimal, refusals, scaled

X = inputs(n=24, d=4)
LABELS = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.3 * X[:, [1, 2, 0]], axis=1)]
LABELS_AS_NUMBERS = np.unique(LABELS, return_inverse=True)[1]
GATES = ib.HyperplaneGates(3, 2, seed=1).fit(X)


@pytest.mark.parametrize(("shared", "share"), [(False, 1.0), (True, 2**-0.5)])
@pytest.mark.parametrize("C", [np.inf, 0.2])
def test_two_classes_are_svm_gln(shared, share, C):
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    # The price of slack is in units of the norm.
    found = ib.solve(ib.svm_classes(X, y, GATES, C, shared=shared), tol=1e-8)
    known = ib.solve(ib.svm_gln(X, y, GATES, C / share), tol=1e-8)
    assert found.objective == pytest.approx(share * known.objective, rel=1e-7)
    problem = ib.svm_classes(X, y, GATES, C, shared=shared)
    scores = problem.decision_function(found.weights, X)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], y * known.margins, atol=1e-3)
    assert (problem.predict(found.weights, X) == np.where(y * known.margins > 0, 1, -1)).all()


@pytest.mark.parametrize("grouping", [[-1, 0, 1], [7, -(2**40), 2**40]])
def test_units_may_have_any_numbers(grouping):
    problem = ib.svm_classes(X, LABELS, ib.FunctionGates(lambda X: X[:, :3] > 0, grouping))
    assert len(np.unique(problem.norm.groups)) == 9


@pytest.mark.parametrize("norm", ["units", "shared", "spectral", "entries", "frobenius", "l1"])
@pytest.mark.parametrize("C", [np.inf, 0.2])
def test_it_is_the_program_written_out(norm, C):
    layer = norm if norm not in ("units", "shared") else None
    problem = ib.svm_classes(X, LABELS, GATES, C, shared=norm == "shared", norm=layer)
    found = optimal(problem, tol=1e-7)
    assert found.solver == "NATIVE"
    Phi, codes = GATES(X).dense(), np.searchsorted(problem.classes, LABELS)
    Z = cp.Variable((3, Phi.shape[1]))
    outputs, units = Phi @ Z.T, [np.flatnonzero(np.repeat(GATES.groups == h, 4)) for h in range(3)]
    slack = cp.hstack(
        [cp.pos(1 - outputs[i, own] + outputs[i, other]) for i, own in enumerate(codes) for other in {0, 1, 2} - {own}]
    )
    size = {
        "units": sum(cp.sum(cp.norm(Z[:, u], 2, axis=1)) for u in units),
        "shared": sum(cp.normNuc(Z[:, u]) for u in units),
        "spectral": cp.sigma_max(Z),
        "entries": cp.max(cp.abs(Z)),
        "frobenius": cp.norm(Z, "fro"),
        "l1": cp.sum(cp.abs(Z)),
    }[norm]
    price, limits = (0, [cp.sum(slack) <= 0]) if np.isinf(C) else (C, [])
    best = cp.Problem(cp.Minimize(size + price * cp.sum(slack)), limits).solve(solver="CLARABEL")
    assert found.objective == pytest.approx(best, rel=1e-5)
    scores = problem.decision_function(found.weights, X)
    margins = scores[np.arange(24), codes][:, None] - scores
    assert np.sort(margins[margins != 0]) == pytest.approx(np.sort(found.margins), abs=1e-9)
    assert (problem.predict(found.weights, X) == LABELS).mean() > 0.8
    if layer:
        assert_refused(lambda: ib.svm_classes(X, LABELS, GATES, C, norm=norm, shared=True), "give one of them")


@pytest.mark.parametrize("shared", [False, True])
def test_no_network_has_larger_margins_for_its_weights(shared):
    """For random weights of either kind of network, ½‖w‖² is at least the norm of ζ and Σ_pairs λ · margin."""
    problem = ib.svm_classes(X, LABELS, GATES, shared=shared)
    found = ib.solve(problem)
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, w = rng.normal(size=(3, 3)), rng.normal(size=(3, 6 // 3 * 4) if shared else (3, 3, 8))
        zeta = np.einsum("ch,hs->chs" if shared else "ch,chs->chs", a, w)
        W = zeta.reshape(3, 3, 2, 4).reshape(18, 4)
        size = 0.5 * ((a**2).sum() + (w**2).sum())
        assert problem.norm.value(W) <= size * (1 + 1e-12)
        assert found.dual @ problem.margins(W) <= size * (1 + 1e-9)


def test_weights_that_do_not_separate_are_no_start_of_a_hard_margin():
    """A hard margin that starts from weights that do not separate is proved inseparable as without them."""
    twice = np.vstack([X, X[:3]]), np.append(LABELS, np.roll(np.unique(LABELS), 1)[LABELS_AS_NUMBERS[:3]])
    problem = ib.svm_classes(*twice, GATES, 0.2, shared=True)
    hard, soft = replace(problem, C=np.inf), ib.solve(problem)
    cold, warm = ib.solve(hard), ib.solve(hard, start=soft)
    assert (soft.status, cold.status, warm.status) == (ib.Status.OPTIMAL, *2 * [ib.Status.NOT_SEPARABLE])
    assert warm.iterations <= 2 * cold.iterations


def test_of_two_classes_one_unit_behind_each_gate_is_enough():
    """The solution for two classes has rank one per gate, and a network with one unit behind each gate attains it."""
    y = (X[:, 0] > 0).astype(int)
    problem = ib.svm_classes(X, y, GATES, shared=True)
    solution = ib.solve(problem, tol=1e-8)
    sizes = np.linalg.svd(problem.norm.matrices(solution.weights), compute_uv=False)
    assert sizes[:, 1].max() <= 1e-6 * sizes.max()
    network = ib.GatedLinearNetwork(GATES, outputs=2)
    descent = ib.descend_to_limit(network, X, y, ib.LossScaled(tolerance=3e-3))
    norm = 0.5 / descent.table.normalised_margin.iloc[-1]
    assert 1 - 1e-9 <= norm / solution.lower_bound <= 1.01


def test_a_solve_that_starts_from_weights_ends_at_the_optimum():
    """Starts from a descent, a solution, zero weights or another shape end at the same optimum."""
    problem = ib.svm_classes(X, LABELS, GATES, shared=True)
    cold = ib.solve(problem, tol=1e-6)
    copies = FunctionContexts(lambda X: np.tile(GATES.contexts_of(X), (1, 3)), 2).fit(X)
    network = ib.GatedLinearNetwork(copies, outputs=3)
    ib.descend_to_limit(network, X, LABELS_AS_NUMBERS, ib.LossScaled(tolerance=1e-3))
    W = network.effective_weights().reshape(3, 3, 6, 4).sum(axis=1).reshape(18, 4)
    lam = softmax(-problem.margins(W))
    for weights, dual in ((W, lam), (cold.weights, cold.dual), (0 * W, lam), (W[:6], lam)):
        start = replace(cold, weights=weights, dual=dual)
        warm = ib.solve(problem, tol=1e-6, start=start)
        assert warm.gap <= 1e-6
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


def test_labels_of_any_kind():
    wine, y = scaled(load_wine)
    problem = ib.svm_classes(wine[::2], y[::2], ib.HyperplaneGates(4, 2), C=1.0)
    solution = ib.solve(problem)
    assert np.mean(problem.predict(solution.weights, wine[1::2]) == y[1::2]) > 0.9


FEW = "labels must be an array of 24, one per sample, with at least two"
test_bad_labels = refusals(
    (["a", None] * 12, "missing values"),
    ([np.nan, 1.0] * 12, "missing values"),
    ([[1], [2, 3]] * 12, "one-dimensional"),
    (LABELS[:, None], "one-dimensional"),
    ([1j, 2j] * 12, "numbers or strings"),
    (np.arange(24) / 2, r"fractions such as 0.5, .*numpy.digitize"),
    (np.zeros(24), FEW),
    (LABELS[:-1], FEW),
    call=lambda labels: ib.svm_classes(X, labels, GATES),
)


def test_bad_parts():
    assert_refused(lambda: ib.svm_classes(X, LABELS, 3), "gates must be Gates")
    assert_refused(lambda: ib.svm_classes(X, LABELS, GATES).decision_function(np.zeros((18, 4)), X, 1.0), "cancels")
    assert_refused(lambda: ib.svm_classes(X, LABELS, GATES).outputs(np.zeros((17, 4))), "weights must have shape")
    odd = ib.FunctionGates(lambda X: np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 2] > 0]), [0, 0, 1])
    assert_refused(lambda: ib.svm_classes(X, LABELS, odd.fit(X), shared=True), "the same rows")


def test_a_problem_of_several_classes_is_a_model_of_as_many_and_alone():
    problem = ib.svm_classes(X, np.where(LABELS == "a", "a", "b"), GATES)
    for problems, classes in (([problem], ["a", "b", "c"]), ([problem, problem], ["a", "b"])):
        with pytest.raises(ib.InputError, match="joint problem of 2 classes must be the only problem"):
            ib.MarginModel(problems, [ib.solve(problem)], classes=classes)


def test_a_set_that_does_not_fit_is_told(monkeypatch):
    def full(need, what, remedy):
        calls.append(need)
        if len(calls) > 1:
            raise TooLargeError("no room")

    calls = []
    monkeypatch.setattr("implicit_bias.solvers.native.nuclear.check_memory", full)
    few = NativeSolver(Settings(all_samples_up_to=0, first_samples=4))
    solution = ib.solve(ib.svm_classes(X, LABELS, GATES, C=1.0, shared=True), few, tol=1e-9)
    assert (solution.status, solution.reason) == (ib.Status.INACCURATE, "no room")
    assert np.isfinite(solution.objective)
