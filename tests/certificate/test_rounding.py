"""Bounds hold in exact arithmetic to the last bit, where sums cancel as well: compared with Fractions, without room."""

from fractions import Fraction

import numpy as np
import pytest

from implicit_bias import Frobenius, GatedFeatures, GroupLasso, MarginProblem, certify
from tests.fuzz.exact import Exact, fractions

DRAWS = 60
NORMS = {"frobenius": (Frobenius(), [[0, 1, 2, 3, 4, 5]]), "groups": (GroupLasso([0, 1]), [[0, 1, 2], [3, 4, 5]])}


def drawn(rng, norm, C, intercept):
    """Return a problem of 6 samples, 2 gates and 3 inputs, an exact copy, and W, λ for which ΦW and Φᵀ(λ∘y) cancel."""
    formula, groups = NORMS[norm]
    W, lam = rng.normal(size=(2, 3)), rng.exponential(size=6) + 0.01
    # Where all gates are open, all of Φᵀ(λ∘y) cancels.
    G, y = rng.integers(int(rng.integers(0, 2)), 2, size=(6, 2)).astype(float), rng.choice([-1.0, 1.0], size=6)
    G[:, 0] = 1.0
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(6, 3)) * 10.0 ** rng.integers(-3, 4, size=(6, 3))
    seen = G @ W
    # Third inputs cancel their samples' margins, the last sample the sum over the others.
    X[:5, 2] = (-(X[:5, :2] * seen[:5, :2]).sum(1) + y[:5] * 10.0 ** rng.uniform(-12, -1, size=5)) / seen[:5, 2]
    X[5] = -((lam[:5] * y[:5]) @ X[:5]) / (lam[5] * y[5]) + 10.0 ** rng.uniform(-12, 0) * rng.normal(size=3)
    required = rng.uniform(0.5, 2.0, size=6)
    problem = MarginProblem(GatedFeatures(X, G), y, formula, C=C, required_margin=required, intercept=intercept)
    rows = fractions(G)[:, :, None] * (fractions(y)[:, None] * fractions(X))[:, None, :]
    prices = None if np.isinf(C) else fractions(np.full(6, C))
    nothing = fractions(np.zeros((0, 6)))
    parts = [(Fraction(1), members) for members in groups]
    equal = np.zeros(0, dtype=bool)
    exact = Exact(
        rows.reshape(6, 6),
        fractions(y),
        parts,
        None,
        fractions(required),
        prices,
        intercept,
        nothing,
        equal,
        nothing[:, 0],
    )
    return problem, exact, W, lam


@pytest.mark.parametrize(
    ("norm", "C", "intercept"),
    [("frobenius", np.inf, True), ("frobenius", 0.3, False), ("groups", np.inf, False), ("groups", 0.3, True)],
)
def test_bounds_hold_to_the_last_bit(norm, C, intercept):
    rng = np.random.default_rng([len(norm), int(intercept), int(C < 1)])
    reached = 0
    for _ in range(DRAWS):
        problem, exact, W, lam = drawn(rng, norm, C, intercept)
        for weights in (W, -W):
            found = certify(problem, weights, lam, intercept=1e-13 * rng.normal() * intercept)
            if found.lower_bound == np.inf:
                assert not exact.feasible()
                continue
            proved = exact.lower(fractions(found.dual), fractions(found.multipliers))
            assert proved is None or Fraction(found.lower_bound) <= proved
            if found.objective < np.inf:
                upper = exact.upper(fractions(found.weights.ravel()), Fraction(found.intercept))
                assert upper is not None
                assert upper <= Fraction(found.objective)
                reached += 1
            if intercept:
                assert exact.y @ fractions(found.dual) == 0
    assert reached >= DRAWS / 10
