"""Claims at the edge of doubles: what is said is so, and what can be found is found. Problems are drawn at random."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias._utils.limits import Deadline
from implicit_bias.solvers import Answer
from implicit_bias.solvers.separability import farkas_candidate
from tests.cases import optimal
from tests.fuzz import audit


@pytest.mark.parametrize("number", range(40))
def test_nothing_that_an_audit_in_rational_arithmetic_would_refute(number):
    found = audit.run_case(1, number)
    assert not found.faults, found
    assert found.status != "INACCURATE" or "no reason" not in found.remarks


def exact_margins(case, W):
    rows = case.features.dense() if case.features.gate_values is None else case.features.X
    return [
        int(s) * sum((Fraction(w) * Fraction(x) for w, x in zip(W[0], row, strict=True)), Fraction(0))
        for s, row in zip(case.y, rows, strict=True)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_what_small_integers_separate_is_separated(seed):
    """Samples that W = (−(2N + 3), 2N + 1) separates exactly are solved although Φᵀ(λ∘y) vanishes up to rounding."""
    rng = np.random.default_rng(seed)
    N = float(rng.integers(1_000_000, 4_000_000))
    case = ib.MarginProblem(ib.GatedFeatures([[N, N + 1], [N + 1, N + 2]]), [1, -1], ib.Frobenius())
    W = np.array([[-(2 * N + 3), 2 * N + 1]])
    assert exact_margins(case, W) == [1, 1]
    judged = ib.certify(case, W, [1.0, 1.0])
    assert judged.objective == pytest.approx(np.linalg.norm(W), rel=1e-12)
    found = optimal(case)
    assert found.solver == "PRECISE"
    assert min(exact_margins(case, found.weights)) > 1 - Fraction(1e-6)
    assert found.lower_bound <= np.linalg.norm(W)


@pytest.mark.parametrize("seed", range(6))
def test_a_proof_that_nothing_separates_is_exact(seed):
    """A positive combination of samples that is 0 proves inseparability; one of 1e-14 does not."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-5, 6, (5, 4)).astype(float)
    X[4] = -(rng.integers(1, 4, 4) @ X[:4])
    ones = np.ones(5)
    conflict = ib.solve(ib.MarginProblem(ib.GatedFeatures(X), ones, ib.Frobenius()))
    assert conflict.status is ib.Status.NOT_SEPARABLE
    assert conflict.lower_bound == np.inf
    if np.linalg.matrix_rank(X) == 4:
        X[4, 0] = np.nextafter(X[4, 0], np.inf)
        assert ib.solve(ib.MarginProblem(ib.GatedFeatures(X), ones, ib.Frobenius())).status is ib.Status.NOT_SEPARABLE
    beyond = np.vstack([X[:4] @ np.diag([1.0, 1.0, 1.0, 0.0]), X[4] * [1.0, 1.0, 1.0, 0.0]])
    beyond[:, 3] = 1e-14
    apart = ib.solve(ib.MarginProblem(ib.GatedFeatures(beyond), ones, ib.Frobenius()))
    assert not apart.status.inseparable or apart.lower_bound < np.inf


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_long_sums_do_not_cross(seed):
    """Bounds hold for 100 000 inputs ±π and ∓(π − 1e-12), whose sums cancel except for 1e-12."""
    rng = np.random.default_rng(seed)
    n = 100_000
    X = np.tile([[np.pi], [-(np.pi - 1e-12)]], (n // 2, 1)) * rng.uniform(0.5, 2.0)
    case = ib.MarginProblem(ib.GatedFeatures(X), np.ones(n), ib.Frobenius(), C=float(10.0 ** rng.uniform(-3, 12)))
    found = ib.certify(case, [[rng.uniform(-1e12, 1e12)]], np.full(n, case.C))
    pull = n // 2 * abs(Fraction(X[0, 0]) + Fraction(X[1, 0]))
    assert 0 < found.lower_bound <= found.objective
    assert Fraction(found.lower_bound) <= n / max(pull, 1 / Fraction(case.C))


@pytest.mark.parametrize("seed", range(4))
def test_weights_outside_the_cone_do_not_count(seed):
    """Weights that violate the constraints by 5e-10 have an infinite objective if no feasible ones separate."""
    rng = np.random.default_rng(seed)
    small, thin = 10.0 ** rng.uniform(-4, 0), 1 - 10.0 ** rng.uniform(-10, -7)
    case = ib.MarginProblem(
        ib.GatedFeatures([[1.0, 0.0], [0.0, small]]),
        [1, 1],
        ib.Frobenius(),
        constraints=lambda W: [W[0, 0] <= W[0, 1], W[0, 1] <= thin * W[0, 0]],
    )
    judged = ib.certify(case, [[1.0, thin]], np.zeros(2))
    assert judged.objective == np.inf
    assert ib.solve(case).status is not ib.Status.OPTIMAL
    wide = ib.MarginProblem(case.features, case.y, case.norm, constraints=lambda W: [W[0, 0] <= W[0, 1]])
    W = ib.certify(wide, [[1.0, 1.0 - 1e-9]], np.zeros(2)).weights
    assert W[0, 0] <= W[0, 1]


@pytest.mark.parametrize("power", [5, 6, 7, 8])
def test_badly_scaled_samples_are_solved(power):
    a = 10.0**power
    found = optimal(ib.MarginProblem(ib.GatedFeatures([[a, a / 2], [1 / a, -1 / a]]), [1, -1], ib.Frobenius()))
    assert found.objective == pytest.approx(np.sqrt(5) / 3 * a, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_badly_scaled_inputs_are_solved(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 5)) * 10.0 ** rng.choice([-5, 0, 5], 5)
    y = np.where(X @ (rng.normal(size=5) / np.abs(X).max(axis=0)) > 0, 1.0, -1.0)
    optimal(ib.svm_shallow(X, y, ib.ConstantGate()))


def test_weights_of_groups_are_bounded_with_their_rounding():
    """Bounds of groups with weights 1e4 and 1e-4 enclose the exact optimum."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        X, G = rng.normal(size=(6, 1)), np.ones((6, 2))
        case = ib.MarginProblem(ib.GatedFeatures(X, G), np.sign(X[:, 0]), ib.GroupLasso([0, 1], [1e4, 1e-4]))
        found = ib.solve(case)
        best = 1e-4 / float(min(abs(Fraction(x)) for x in X[:, 0]))
        assert found.lower_bound <= best * (1 + 1e-15)
        assert best <= found.objective * (1 + 1e-15)


def test_an_inaccurate_answer_names_what_in_the_data_makes_it_so():
    X = np.array([[1.0, 1e-17], [-1.0, 1e-17]])
    found = ib.solve(ib.MarginProblem(ib.GatedFeatures(X), [1, 1], ib.Frobenius()), "SCS", tol=1e-9)
    assert found.status is not ib.Status.OPTIMAL
    assert "input 0 is 1e+17 times as large as input 1" in found.reason


def test_the_largest_ratio_is_named():
    """Of C in units of the features and the ratio of inputs, the reason states the one further from 1."""
    X, answer = np.array([[1.0, 2e5], [-1.0, 1.0]]), Answer(np.zeros((1, 2)), np.zeros(2), 0)
    for scale, text in ((1e140, "C is 2e+142 in units"), (1.0, "input 1 is 2e+05 times as large as input 0")):
        for C in (1e-3, np.inf):
            case = ib.MarginProblem(ib.GatedFeatures(X * scale), [1, 1], ib.Frobenius(), C=C)
            told = ib.solve(case, lambda *_: answer).reason
            assert (text if np.isfinite(C) else "input 1 is 2e+05") in told


VANISHING = [
    # Gates, inputs, weights or margins so far out of scale that products vanish on their way.
    ([[1, 1e-170], [1, -1e-170]] * 2, [[1, 1e-170]] * 2 + [[1, -1e-170]] * 2, [1, -1, -1, 1], [[0, 0], [0, 1e300]]),
    ([[1e-50], [1e280]], [[1e-50], [1e-280]], [1, 1], [[-1.0]]),
    ([[1e-40, 0], [0, 1e-280]], [[1], [1e280]], [1, 1], [[1.0, 3e-44]]),
    ([[1e160], [1e178]], [[1, 0], [0, 1]], [1, 1], [[1.0], [1e-20]]),
]


@pytest.mark.parametrize(("X", "G", "y", "W"), VANISHING)
@pytest.mark.parametrize("required", [1.0, 1e-100])
def test_what_vanishes_on_its_way_proves_nothing(X, G, y, W, required):
    case = ib.MarginProblem(ib.GatedFeatures(X, G), y, ib.Frobenius(), required_margin=required)
    found = ib.certify(case, W, np.ones(len(y)))
    assert found.lower_bound <= found.objective
    assert found.separable
    phi = [[Fraction(g) * Fraction(x) for g in gates for x in row] for gates, row in zip(G, X, strict=True)]
    weights = [Fraction(float(w)) for w in found.weights.ravel()]
    margins = [s * sum(w * v for w, v in zip(weights, row, strict=True)) for s, row in zip(y, phi, strict=True)]
    if found.objective < np.inf:
        worst = min(margins) / Fraction(required)
        assert sum(w * w for w in weights) <= (Fraction(found.objective) * worst) ** 2


def test_digits_that_vanish_beside_the_largest_of_their_feature_are_counted():
    """Bounds enclose the exact optimum for a feature with entries 2^400 and 2^−640."""
    blocks = np.zeros((2, 1, 400))
    blocks[:, 0, 0] = 2.0**400, 2.0**-640 * (1 + 0.6 * 2.0**-33)
    W, required = np.zeros((1, 400)), 2.0**-80
    W[0, 0] = 1.0
    case = ib.MarginProblem(ib.KernelFeatures(blocks), [1, 1], ib.Frobenius(), required_margin=required)
    found = ib.certify(case, W, [0.0, 1.0])
    best = Fraction(required) / Fraction(blocks[1, 0, 0])
    assert Fraction(found.lower_bound) <= best <= Fraction(found.objective)
    assert found.gap < 1e-11


SPREADS = {
    "samples": lambda rng, n, d, k, e: ((10.0 ** rng.uniform(-e, e, (n, 1)), 1.0)),
    "inputs": lambda rng, n, d, k, e: ((10.0 ** rng.uniform(-e, e, (1, d)), 1.0)),
    "entries": lambda rng, n, d, k, e: (10.0 ** rng.uniform(-e, e, (n, d)) / 2, 10.0 ** rng.uniform(-e, e, (n, k)) / 2),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("seed", range(6))
def test_numbers_of_any_size_are_answered_or_refused(spread, seed):
    """Problems with numbers from 1e-290 to 1e290 are refused when built, or have ordered bounds."""
    rng = np.random.default_rng(seed)
    (n, d, k), e = rng.integers(2, 6, 3), rng.choice([60, 140, 290])
    by_input, by_gate = SPREADS[spread](rng, n, d, k, e)
    more = {"intercept": bool(rng.integers(2)), "C": rng.choice([np.inf, 10.0 ** rng.uniform(-e, e)])}
    more["required_margin"] = rng.choice([1.0, 10.0 ** rng.uniform(-e, e)])
    try:
        features = ib.GatedFeatures(by_input * rng.normal(size=(n, d)), by_gate * rng.choice([0.0, 1.0], size=(n, k)))
        y = np.append(rng.choice([-1, 1], size=n - 2), [-1, 1])
        case = ib.MarginProblem(features, y, rng.choice([ib.Frobenius(), ib.GroupLasso(range(k))]), **more)
    except ib.InputError:
        return
    found = ib.solve(case, tol=1e-4)
    assert found.lower_bound <= found.objective or found.status is ib.Status.NOT_SEPARABLE


def test_weights_are_sized_before_they_are_moved_into_a_cone():
    case = ib.MarginProblem(
        ib.GatedFeatures([[1.0, -1e20], [1.0, 0.0]]),
        [1, 1],
        ib.Frobenius(),
        constraints=lambda W: [W[0, 1] == 1e-10 * W[0, 0]],
    )
    assert ib.certify(case, [[1e-315, 0.0]], [1.0, 0.0]).objective == np.inf


@pytest.mark.parametrize(
    "unasked", ["scipy.optimize.linprog", "implicit_bias.solvers.cvxpy_solvers.CvxpySolver.__call__"]
)
def test_nobody_is_asked_for_a_proof_that_would_be_too_long(monkeypatch, unasked):
    """Rational arithmetic takes no basic solution of 121 samples, and Φᵀ(λ∘y) is zero up to rounding already."""
    monkeypatch.setattr(unasked, lambda *_, **options: pytest.fail("it was asked"))
    rng = np.random.default_rng(1)
    case = ib.MarginProblem(
        ib.GatedFeatures(rng.standard_normal((500, 120))), np.sign(rng.standard_normal(500)), ib.Frobenius()
    )
    found = ib.solve(case)
    assert found.status is ib.Status.NOT_SEPARABLE_BELOW
    assert found.lower_bound > 1e10


def test_negligible_parts_of_a_proof_are_left_out():
    """A proof omits samples whose λ is 1e-16 of those that contradict each other."""
    rng = np.random.default_rng(0)
    X = np.zeros((203, 152))
    X[:3, :2] = [[1, 0], [0, 1], [-1, -1]]
    X[3:, 2:] = rng.normal(size=(200, 150))
    case = ib.MarginProblem(ib.GatedFeatures(X), np.ones(203), ib.Frobenius())
    lam, _ = farkas_candidate(case, np.where(np.arange(203) < 3, 1.0, 1e-16), Deadline())
    assert np.flatnonzero(lam).tolist() == [0, 1, 2]


@pytest.mark.parametrize("intercept", [False, True])
def test_copies_with_opposite_labels_are_the_proof(intercept):
    """Two copies with opposite labels are the whole proof; copies with other gates are separable."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1000, 12)), np.where(rng.random(1000) < 0.5, 1.0, -1.0)
    X[700], X[30], y[700], y[30] = X[3], X[4], -y[3], y[4]
    gates = ib.HyperplaneGates(10, 2, seed=1).fit(X)
    found = ib.solve(dataclasses.replace(ib.svm_gln(X, y, gates), intercept=intercept))
    assert (found.status, found.iterations) == (ib.Status.NOT_SEPARABLE, 0)
    np.testing.assert_array_equal(np.flatnonzero(found.dual), [3, 700])
    pair = np.array([[1.0, 2.0], [1.0, 2.0], [-1.0, 1.0]])
    G = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    optimal(ib.MarginProblem(ib.GatedFeatures(pair, G), [1, -1, 1], ib.GroupLasso([0, 1])))
