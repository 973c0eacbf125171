"""The law of growing limits: a longer limit never loosens a bound, whatever the phases of a solve."""

import dataclasses

import numpy as np
import pytest

from implicit_bias import Frobenius, GroupLasso, HyperplaneGates, MarginProblem, NuclearNorm, solve, svm_classes
from implicit_bias.solvers.native import NativeSolver, Settings
from tests.solvers.native.shapes import SCREENED, UNBOUNDED, teacher
from tests.solvers.native.test_working_set import BY_GROUPS

GROUPS = GroupLasso([0, 0, 1, 1, 2, 2])
TINY = {"all_samples_up_to": 20, "first_samples": 20, "known_support_up_to": 80, "all_products_up_to": 0}


def case(norm=GROUPS, C=np.inf, n=300, k=6, d=12, seed=0, wrong=0.0, **changes) -> MarginProblem:
    return MarginProblem(*teacher(n, k, d, seed, wrong), norm, C, **changes)


def classes() -> MarginProblem:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), rng.integers(0, 3, 40)
    return dataclasses.replace(svm_classes(X, y, HyperplaneGates(4, 2, seed=1).fit(X), shared=True), C=0.1)


#: A problem, and settings of NATIVE or the name of a solver.
CASES = {
    "no separating weights yet": (case(), {}),
    "hard margin first": (case(C=1e7, wrong=0.1), {}),
    "hard margin first, groups": (case(C=1e9), TINY | BY_GROUPS),
    "samples": (case(C=0.03, wrong=0.1), TINY),
    "hard, screened": (case(), SCREENED | {"epochs": 6}),
    "screened": (case(C=1.0, intercept=True), SCREENED | {"epochs": 6}),
    "screened, few bounded": (case(C=1.0, wrong=0.1, intercept=True), UNBOUNDED),
    "screened in vain": (case(GroupLasso(np.arange(8) // 2), 0.003, 1500, 8, 10, 3, 0.1), {"drawn": 100}),
    "groups": (case(C=1.0, wrong=0.1), BY_GROUPS),
    "nuclear norm": (case(NuclearNorm([0, 0, 0, 1, 1, 1], [0, 1, 2] * 2), C=0.2, n=80, wrong=0.1), {}),
    "nuclear norm, samples": (case(NuclearNorm([0, 0, 0, 1, 1, 1], [0, 1, 2] * 2), C=0.2, n=80, wrong=0.1), TINY),
    "classes that share units": (classes(), {}),
    "60 digits": (case(Frobenius(), C=0.5, n=110, d=1, wrong=0.1), "PRECISE"),
}

LIMITS = (1, 2, 3, 5, 8, 9, 10, 11, 12, 13, 17, 21, 24, 34, 48)


@pytest.mark.parametrize("name", CASES)
def test_longer_limits_loosen_no_bound(name):
    problem, how = CASES[name]
    solver, shorter = how if isinstance(how, str) else NativeSolver(Settings(**how)), None
    for limit in LIMITS[2::4] if solver == "PRECISE" else LIMITS:
        longer = solve(problem, solver, max_iterations=limit)
        assert longer.iterations <= limit
        if shorter is not None:
            assert longer.objective <= shorter.objective * (1 + 1e-9)
            assert longer.lower_bound >= shorter.lower_bound * (1 - 1e-9)
        shorter = longer


def test_the_time_of_the_certificate_is_that_of_all_gates(monkeypatch):
    """A product skips gates without weights, so that weights of 0 would measure nothing."""
    measured, margins = [], MarginProblem.margins
    monkeypatch.setattr(MarginProblem, "margins", lambda *given: measured.append(given[1]) or margins(*given))
    solve(case(n=30), max_seconds=60)
    assert measured[0].all()
