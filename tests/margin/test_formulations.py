"""Builders of margin problems; those of the papers are tested with their networks."""

import numpy as np
import pytest

from implicit_bias import HyperplaneGates, InputError, Status, load_problem, save_problem, solve, svm_gln
from implicit_bias import svm_of_optimiser as problem_of
from implicit_bias.margin.formulations import OPTIMISERS
from tests.cases import inputs

X = inputs(n=24, d=5)
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0)
GATES = HyperplaneGates(3, 2, seed=1).fit(X)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_an_optimiser_is_the_norms_of_its_layers(optimiser, tmp_path):
    case = problem_of(X, Y, GATES, optimiser, multiplicities=[1, 2, 4])
    found = solve(case)
    assert found.status is Status.OPTIMAL
    assert case.name == f"SVM of {optimiser}"
    same = problem_of(X, Y, GATES, OPTIMISERS[optimiser], multiplicities=[1, 2, 4])
    assert solve(same).objective == found.objective
    assert solve(load_problem(save_problem(case, tmp_path / "problem.npz"))).objective == found.objective
    soft = problem_of(X, Y, GATES, optimiser, C=found.dual.max() / 2, multiplicities=[1, 2, 4])
    assert solve(soft).objective < found.objective
    # Gradient descent and Muon learn the same from any number of copies of a unit.
    alone = solve(problem_of(X, Y, GATES, optimiser)).objective
    assert (alone == pytest.approx(found.objective, rel=1e-5)) == (optimiser in ("gd", "muon"))


def test_gradient_descent_solves_svm_gln():
    known = solve(svm_gln(X, Y, GATES)).objective
    assert solve(problem_of(X, Y, GATES, "gd")).objective == pytest.approx(known, rel=2e-6)


@pytest.mark.parametrize(
    ("optimiser", "match"),
    [("adamw", "known: gd, sign"), (("spectral", "l1"), "not convex"), (None, "norms of two layers, not None")],
)
def test_other_optimisers_are_refused(optimiser, match):
    with pytest.raises(InputError, match=match):
        problem_of(X, Y, GATES, optimiser)
