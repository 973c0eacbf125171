"""New gates, features, norms and solvers, written as CONTRIBUTING says: solved, certified and saved."""

import cvxpy as cp
import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias import features as all_features
from implicit_bias import gates as all_gates
from implicit_bias import norms as all_norms
from implicit_bias.features import Features
from implicit_bias.gates import Gates
from implicit_bias.norms import Norm
from implicit_bias.solvers import SOLVERS, Answer
from implicit_bias.solvers.base import Solver
from tests.cases import assert_refused, inputs, optimal, optimum

X = inputs(20, 4)
Y = np.where(X @ [1.0, -1.0, 0.5, 0.0] > 0, 1.0, -1.0)
X[:, 0] += Y


class Balls(Gates):
    """Gates of which gate j is open within a distance r_j of the origin."""

    made_of = ("radii",)

    def __init__(self, radii):
        self.radii = radii

    @property
    def groups(self):
        return np.arange(len(self.radii))

    def fit(self, X, y=None, sample_weight=None):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def transform(self, X):
        return (np.linalg.norm(X, axis=1)[:, None] < self.radii).astype(float)


class Signals(Features):
    """Features whose block j is the window (x_j, x_{j+1}) of a signal."""

    made_of = ("X",)

    def __init__(self, X):
        self.X = X

    @property
    def shape(self):
        return len(self.X), self.X.shape[1] - 1, 2

    def dense(self):
        return np.lib.stride_tricks.sliding_window_view(self.X, 2, axis=1).reshape(self.n, -1)


class Entrywise(Norm):
    """Norm Σ_jl |W_jl|."""

    made_of = ()

    def value(self, W):
        return float(np.abs(W).sum())

    def dual(self, V):
        return float(np.abs(V).max())

    def expression(self, W):
        return cp.sum(cp.abs(W))


class Perceptron(Solver):
    """Solver whose λ_i counts how often sample i had the least margin."""

    name = "PERCEPTRON"
    needs = "groups"

    def __call__(self, problem, options):
        visits = np.zeros(problem.features.n)
        for _ in range(options.max_iterations or 3000):
            visits[problem.margins(problem.adjoint(visits)).argmin()] += 1
        return Answer(problem.adjoint(visits), visits, iterations=int(visits.sum()))


def reloaded(problem, folder):
    return ib.load_problem(ib.save_problem(problem, folder / "problem.npz"))


def assert_certified(problem):
    """Assert that `solve` certifies the optimum that CLARABEL finds on the dense matrix; return the solution."""
    found = optimal(problem)
    assert found.objective == pytest.approx(optimum(problem), rel=1e-5)
    assert ib.certify(problem, found.weights, found.dual).gap <= 1e-6
    return found


def assert_saved_once_exported(problem, part, module, monkeypatch, tmp_path):
    """Assert that a problem with a new `part` is saved only if `module` exports its class; return it reloaded."""
    assert_refused(lambda: ib.save_problem(problem, tmp_path / "problem.npz"), r"cannot be saved")
    name = type(part).__name__
    monkeypatch.setattr(module, name, type(part), raising=False)
    monkeypatch.setattr(module, "__all__", [name, *module.__all__])
    again = reloaded(problem, tmp_path)
    np.testing.assert_array_equal(again.features.dense(), problem.features.dense())
    assert ib.solve(again).objective == ib.solve(problem).objective
    # A new kind does not take the place of one that is made of other arrays.
    old = ib.MarginProblem(ib.GatedFeatures(X), Y, ib.GroupLasso([0]))
    assert type(reloaded(old, tmp_path).features) is ib.GatedFeatures
    return again


def test_new_gates(monkeypatch, tmp_path):
    problem = ib.svm_gln(X, Y, Balls([1.0, 2.0, 9.0]))
    found = assert_certified(problem)
    again = assert_saved_once_exported(problem, problem.gates, all_gates, monkeypatch, tmp_path)
    np.testing.assert_array_equal(
        again.decision_function(found.weights, X), problem.decision_function(found.weights, X)
    )
    assert again.gates.groups.tolist() == [0, 1, 2]


def test_new_features(monkeypatch, tmp_path):
    problem = ib.MarginProblem(Signals(X), Y, ib.GroupLasso(range(3)))
    assert_certified(problem)
    assert_saved_once_exported(problem, problem.features, all_features, monkeypatch, tmp_path)


def test_a_new_norm(monkeypatch, tmp_path):
    problem = ib.MarginProblem(ib.GatedFeatures(X), Y, Entrywise())
    assert_certified(problem)
    assert repr(problem.norm) == "Entrywise()"
    assert_saved_once_exported(problem, problem.norm, all_norms, monkeypatch, tmp_path)


def test_a_new_solver(monkeypatch):
    monkeypatch.setitem(SOLVERS, "PERCEPTRON", Perceptron())
    problem = ib.svm_gln(X, Y, ib.HyperplaneGates(1, 1).fit(X))
    found = ib.solve(problem, "PERCEPTRON", tol=0.05)
    assert (found.status, found.solver, found.iterations) == (ib.Status.OPTIMAL, "PERCEPTRON", 3000)
    assert found.lower_bound <= ib.solve(problem).objective <= found.objective
    for other, words in (
        (ib.MarginProblem(ib.GatedFeatures(X), Y, Entrywise()), "group_form"),
        (problem, "max_seconds"),
    ):
        with pytest.raises(ib.InputError, match=f"PERCEPTRON does not support.*{words}"):
            ib.solve(other, "PERCEPTRON", max_seconds=1.0 if other is problem else None)
