import itertools

import cvxpy as cp
import mpmath
import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias.gates import FunctionContexts
from implicit_bias.norms import GroupForm
from implicit_bias.norms.check import check_pair
from implicit_bias.solvers import Answer
from tests.cases import OwnNorm, assert_refused, inputs, refusals


@pytest.mark.parametrize(("H", "K"), [(1, 2), (2, 2), (3, 2), (2, 4), (3, 4), (1, 3), (3, 3), (2, 5), (2, 7)])
def test_predictor_norm_is_the_norm_of_beta_over_all_global_contexts(H, K):
    zeta = np.random.default_rng(H * K).normal(size=(H * K, 3))
    beta = [sum(zeta[h * K + c] for h, c in enumerate(gamma)) for gamma in itertools.product(range(K), repeat=H)]
    assert K ** ((H - 2) / 2) * ib.PredictorL2(H, K).value(zeta) == pytest.approx(np.linalg.norm(beta), rel=1e-12)


@pytest.mark.parametrize(("H", "K"), [(2, 2), (3, 2), (2, 4), (5, 8), (4, 3), (3, 6)])
def test_the_factor_is_that_of_the_symmetric_square_root(H, K):
    J, Q, eye = np.ones((H * K, H * K)), np.kron(np.eye(H), np.ones((K, K))), np.eye(H * K)
    A = J / np.sqrt(H * K) - Q / np.sqrt(K) + np.sqrt(K) * eye
    M = K * eye + J - Q
    np.testing.assert_allclose(A @ A, M, atol=1e-12)
    B = ib.PredictorL2(H, K).factor.toarray()
    np.testing.assert_allclose(B.T @ B, M, atol=1e-12)
    published = J / (H * K) - Q + K * eye
    assert not np.allclose(published @ published, M)


@pytest.mark.parametrize(("H", "K"), [(2, 2), (2, 3), (3, 3), (2, 5)])
def test_svm_l2_is_least_over_the_predictors_of_all_global_contexts(H, K):
    """SVM-L2 is min ‖β‖ over β (K^H, d) that are sums over units, eq. 46, by CVXPY."""
    X = inputs(12, 4)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    gates = FunctionContexts(lambda X: np.digitize(X[:, :H] + X[:, 1:2], np.linspace(-1, 1, K - 1)), K).fit(X)
    every = list(itertools.product(range(K), repeat=H))
    beta, zeta = cp.Variable((len(every), 4)), cp.Variable((H * K, 4))
    parts = np.array([[gamma[h] == c for h in range(H) for c in range(K)] for gamma in every], dtype=float)
    chosen = np.array([every.index(tuple(gamma)) for gamma in gates.contexts_of(X)])
    margins = cp.multiply(y, cp.sum(cp.multiply(beta[chosen], X), axis=1))
    least = cp.Problem(cp.Minimize(cp.norm(beta, "fro")), [beta == parts @ zeta, margins >= 1]).solve("CLARABEL")
    assert K ** ((H - 2) / 2) * ib.solve(ib.svm_l2(X, y, gates)).objective == pytest.approx(least, rel=1e-5)


def test_predictor_dual_outside_the_range_is_infinite():
    V = np.zeros((4, 2))
    V[:2] = 1.0
    assert ib.PredictorL2(2, 2).dual(V) == np.inf
    assert ib.PredictorL2(2, 2).dual(np.zeros((4, 2))) == 0


def test_closed_form_of_the_group_lasso_for_two_units_and_two_contexts():
    """min Σ‖ζ_h‖ over ζ with β_ij = ζ_1i + ζ_2j has a closed form (the paper's example)."""
    rng = np.random.default_rng(7)
    zeta0 = rng.normal(size=(4, 3))
    b = {(i, j): zeta0[i] + zeta0[2 + j] for i in range(2) for j in range(2)}
    length = np.linalg.norm
    straight = length(b[0, 0] - b[0, 1]) + length(b[0, 0] - b[1, 0])
    square = 0.5 * (straight**2 + length(b[0, 1] + b[1, 0]) ** 2)
    zeta = cp.Variable((4, 3))
    agree = [zeta[i] + zeta[2 + j] == b[i, j] for i in range(2) for j in range(2)]
    best = cp.Problem(cp.Minimize(ib.GroupLasso([0, 0, 1, 1]).expression(zeta)), agree)
    best.solve(solver="CLARABEL")
    assert float(best.value) == pytest.approx(np.sqrt(square), rel=1e-6)


test_bad_groups = refusals(
    *((groups, "groups") for groups in ([], [0.5, 1.0], [[0, 1]], "ab", [[0], [1, 2]], None)), call=ib.GroupLasso
)
test_bad_shapes_of_the_predictor_norm = refusals(
    *((*shape, "must be a whole number") for shape in ((0, 2), (2, 3.0), (2, 0), (2.5, 2), (2, True), ("2", 2))),
    call=ib.PredictorL2,
)


# Gate values for the predictor norm


@pytest.mark.parametrize(
    ("values", "taken"),
    [
        ([[1, 0, 0, 1], [0, 1, 1, 0]], True),
        ([[1, 0, 0, 1 + 5e-10], [0, 1, 1, 0]], False),
        ([[1, 0, 0, 1], [0, 1, 1, 1e-300]], False),  # 1 + 1e-300 rounds to 1
        ([[0.25, 0.75, 0.5, 0.5], [0.1, 0.2, 0.2, 0.1]], True),
        ([[2.0**60, 1.0, 2.0**60, 0.0], [0, 1, 1, 0]], False),  # whole numbers whose sums round alike
    ],
)
def test_the_predictor_norm_takes_no_sums_that_are_nearly_even(values, taken):
    features = ib.GatedFeatures([[1.0, 2.0], [-1.0, 1.0]], values)
    if taken:
        assert ib.MarginProblem(features, [1, -1], ib.PredictorL2(2, 2)).norm.gates == 4
    else:
        assert_refused(lambda: ib.MarginProblem(features, [1, -1], ib.PredictorL2(2, 2)), "the same in every unit")


# Rounding, against hundreds of digits


def exactly(values):
    return [[mpmath.mpf(float(value)) for value in row] for row in np.atleast_2d(values)]


def size(rows):
    return mpmath.sqrt(mpmath.fsum(value**2 for row in rows for value in row))


def in_groups(norm, rows, power):
    """Return c_h^`power` ‖rows of group h‖ of every group."""
    parts = [[row for row, group in zip(rows, norm.index, strict=True) if group == h] for h in range(len(norm.labels))]
    return [mpmath.mpf(float(c)) ** power * size(part) for c, part in zip(norm.weights, parts, strict=True)]


def of_predictors(norm, rows, dual):
    """Return ‖Aζ‖, or ‖A⁺V‖ if `dual`, from K‖ζ‖² − Σ_h ‖unit sums‖² + ‖sum‖² or its counterpart."""
    H, K = norm.units, norm.contexts
    units = [[mpmath.fsum(col) for col in zip(*rows[h * K : h * K + K], strict=True)] for h in range(H)]
    total = [[mpmath.fsum(col) for col in zip(*units, strict=True)]]
    contrasts = size(rows) ** 2 - size(units) ** 2 / K
    within = contrasts / K if dual else contrasts * K
    return mpmath.sqrt(within + size(total) ** 2 / (mpmath.mpf(H * K) ** 2 if dual else 1))


def exact(norm, M, dual):
    rows = exactly(M) if isinstance(M, np.ndarray) else M
    if isinstance(norm, ib.PredictorL2):
        return of_predictors(norm, rows, dual)
    if isinstance(norm, ib.Frobenius):
        return size(rows)
    return max(in_groups(norm, rows, -1)) if dual else mpmath.fsum(in_groups(norm, rows, 1))


ROUNDED = {
    "frobenius": lambda rng: ib.Frobenius(),
    "groups": lambda rng: ib.GroupLasso([0, 0, 1, 2, 1, 2]),
    "weights": lambda rng: ib.GroupLasso([0, 0, 1, 2, 1, 2], 10.0 ** rng.uniform(-150, 150, 3)),
    "predictor": lambda rng: ib.PredictorL2(3, 2),
    "one context": lambda rng: ib.PredictorL2(6, 1),
    "one unit": lambda rng: ib.PredictorL2(1, 2),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("spread", [0, 8, 150])
def test_bounds_hold_in_spite_of_rounding(name, spread):
    rng = np.random.default_rng(spread)
    with mpmath.workdps(700):
        for trial in range(20):
            norm = ROUNDED[name](rng)
            k = norm.gates or 6
            W, V, D = rng.normal(size=(3, k, rng.integers(1, 5)))
            W = W * 10.0 ** rng.uniform(-spread, spread, (k, 1))
            if isinstance(norm, ib.PredictorL2) and trial % 2:  # all but what no margin sees
                W = np.repeat(rng.normal(size=(norm.units, 1)), norm.contexts, axis=0) + 1e-12 * W / np.abs(W).max()
            true, bound = exact(norm, W, False), norm.value_bound(W)
            assert true <= bound
            if not isinstance(norm, ib.PredictorL2):
                assert bound <= true * (1 + mpmath.mpf(2e-14))
                V = V * 10.0 ** rng.uniform(-spread, spread, (k, 1))
                true = exact(norm, V, True)
                assert true <= norm.dual_upper(V) <= true * (1 + mpmath.mpf(2e-14))
                error = np.nextafter(np.linalg.norm(D, axis=1), np.inf)
                moved = [
                    [a + b for a, b in zip(*rows, strict=True)] for rows in zip(exactly(V), exactly(D), strict=True)
                ]
                upper = norm.dual_upper(V, error)
                assert exact(norm, moved, True) <= upper
                rows = np.linalg.norm(V, axis=1) + error
                assert upper <= 2 * norm.dual(rows[:, None])


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("rank", [1, 3])
def test_bounds_of_singular_values_hold_in_spite_of_rounding(size, rank):
    rng, norm = np.random.default_rng(rank), ib.NuclearNorm([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    with mpmath.workdps(60):
        for _ in range(20):
            W = rng.integers(-9, 10, size=(2, 3, rank)) @ rng.integers(-9, 10, size=(rank, 4)) * size
            W[1] *= 10.0 ** rng.uniform(-170, 0)
            values = [mpmath.svd_r(mpmath.matrix(exactly(M)), compute_uv=False) for M in W]
            total, most = sum(map(sum, values)), max(map(max, values))
            W, lengths = W.reshape(6, 4), np.full(6, size)
            smallest = 2 * mpmath.mpf(5e-324)
            assert total <= norm.value_bound(W) <= total * (1 + mpmath.mpf(1e-12)) + smallest
            assert most <= norm.dual_upper(W) <= most * (1 + mpmath.mpf(1e-11)) + smallest
            moved = (most + mpmath.sqrt(3) * mpmath.mpf(size)) * (1 + mpmath.mpf(1e-11)) + smallest
            assert most <= norm.dual_upper(W, lengths) <= moved


@pytest.mark.parametrize(("H", "K"), [(3, 2), (2, 4), (4, 1), (1, 4)])
@pytest.mark.parametrize("share", [1e-16, 1e-9, 1.0])
def test_the_predictor_dual_counts_the_error_that_leads_out_of_the_range(H, K, share):
    """`dual_upper` is at least the dual norm of the exact V in the range, for V with errors that leave the range."""
    rng, norm = np.random.default_rng(H * K), ib.PredictorL2(H, K)
    largest = 0.0
    with mpmath.workdps(60):
        for _ in range(30):
            G = np.eye(K)[rng.integers(0, K, (5, H))].reshape(5, -1)
            a, X = rng.normal(size=5), rng.normal(size=(5, 3))
            left, right = mpmath.matrix(exactly(G * a[:, None])), mpmath.matrix(exactly(X))
            true = (left.T * right).tolist()
            V = np.array(true, dtype=float) + share * rng.normal(size=(H * K, 3))
            gaps = (mpmath.matrix(true) - mpmath.matrix(exactly(V))).tolist()
            error = np.array([float(size([gap])) for gap in gaps]) * (1 + 1e-12)
            upper, truth = norm.dual_upper(V, error), exact(norm, true, True)
            assert truth <= upper <= truth + 2.1 * norm.dual_bound(error) + 1e-12
            if share < 1 and H > 1:
                assert norm.dual_upper(V + np.repeat(np.arange(H), K)[:, None], error) == np.inf
            V = norm.factor.T @ (norm.factor @ rng.normal(size=(H * K, 3)))
            largest = max(largest, norm.dual_upper(V) / norm.dual_bound(np.linalg.norm(V, axis=1)))
    assert 0.3 < largest <= 1 + 1e-12


def test_bounds_of_nothing_and_of_what_is_no_number():
    for norm in (
        ib.Frobenius(),
        ib.GroupLasso([0, 1]),
        ib.PredictorL2(2, 1),
        ib.NuclearNorm([0, 0], [0, 1]),
        ib.ExpressionNorm(cp.norm1, lambda V: np.abs(V).max()),
    ):
        zero = np.zeros((2, 3))
        assert norm.value_bound(zero) == norm.dual_upper(zero) == norm.dual_upper(zero, np.zeros(2)) == 0
        assert norm.dual_upper(zero, np.ones(2)) >= 0.5
        assert norm.value_bound(zero * np.nan) == np.inf
        assert norm.dual_upper(zero * np.nan) == norm.dual_upper(zero, np.full(2, np.inf)) == np.inf
    assert_refused(lambda: ib.GroupLasso([0, 1], [1.0, 1e-200]), "1e-150")


# Norms of one's own are tried


length = np.linalg.norm
TRUE = {
    "l1": (cp.norm1, lambda V: np.abs(V).max()),
    "nuclear": (cp.normNuc, lambda V: length(V, 2)),
    "spectral": (cp.sigma_max, lambda V: length(V, "nuc")),
    "rows": (lambda W: cp.sum(cp.norm(W, 2, axis=1)), lambda V: length(V, axis=1).max()),
    "column": (lambda W: cp.max(cp.norm(W, 2, axis=0)), lambda V: length(V, axis=0).sum()),
    "largest": (lambda W: cp.max(cp.abs(W)), lambda V: np.abs(V).sum()),
    "gauge": (lambda W: cp.sum(cp.pos(W)) + 2 * cp.sum(cp.neg(W)), lambda V: max(V.max(), -V.min() / 2)),
    "half space": (lambda W: cp.sum(cp.pos(W)), lambda V: V.max() if V.min() >= 0 else np.inf),
    "two largest": (
        lambda W: cp.sum_largest(cp.abs(cp.vec(W, order="C")), 2),
        lambda V: max(np.abs(V).max(), np.abs(V).sum() / 2),
    ),
}


def symmetric(V):
    k = min(V.shape)
    square = np.zeros_like(V)
    square[:k, :k] = (V[:k, :k] + V[:k, :k].T) / 2
    return square


#: From a true dual to one that is too small somewhere, of another degree, or none.
FALSE = {
    "half": lambda dual, V: dual(V) / 2,
    "nine tenths": lambda dual, V: 0.9 * dual(V),
    "a thousandth off": lambda dual, V: 0.999 * dual(V),
    "a millionth off": lambda dual, V: (1 - 1e-6) * dual(V),
    "symmetric": lambda dual, V: dual(symmetric(V)),
    "not negative": lambda dual, V: max(dual(np.maximum(V, 0)), 1e-3 * length(V)),
    "diagonal": lambda dual, V: max(dual(V * np.eye(*V.shape)), 1e-3 * length(V)),
    "sparse": lambda dual, V: dual(V) if np.mean(V == 0) > 0.3 else 0.9 * dual(V),
    "dense": lambda dual, V: dual(V) if np.mean(V == 0) < 0.3 else 0.9 * dual(V),
    "sum": lambda dual, V: abs(V.sum()),
    "square": lambda dual, V: dual(V) ** 2,
    "constant": lambda dual, V: 1.0,
    "NaN": lambda dual, V: np.nan,
    "negative": lambda dual, V: -dual(V),
    "complex": lambda dual, V: dual(V) + 0j,
    "array": lambda dual, V: np.array([dual(V)]),
    "text": lambda dual, V: "1",
}


def build(norm, shape=(3, 4)):
    rng = np.random.default_rng(0)
    features = ib.GatedFeatures(rng.normal(size=(6, shape[1])), np.ones((6, shape[0])))
    return ib.MarginProblem(features, np.repeat([1, -1], 3), norm)


@pytest.mark.parametrize(
    ("name", "shape"), [*((name, (3, 4)) for name in TRUE), ("nuclear", (1, 2)), ("l1", (30, 20)), ("column", (30, 20))]
)
def test_a_dual_norm_that_is_too_small_is_refused(name, shape):
    function, dual = TRUE[name]
    build(ib.ExpressionNorm(function, dual, name), shape)
    for wrong, false in FALSE.items():
        norm = ib.ExpressionNorm(function, lambda V, false=false: false(dual, V), f"{name}, {wrong}")
        with pytest.raises(ib.InputError, match=rf"^ExpressionNorm\({name}, {wrong}\): its `dual`"):
            build(norm, shape)


def test_a_dual_norm_that_is_too_large_is_loose_not_wrong():
    build(ib.ExpressionNorm(cp.norm1, lambda V: length(V)))


@pytest.mark.parametrize("shape", [(3, 4), (30, 20)])
def test_what_contradicts_itself_only_at_an_answer_is_told_there(shape):
    """A dual norm that is wrong at one V is detected by `check_pair` at this V, for any W and scale."""
    special = np.ones(shape) + np.eye(*shape)

    def dual(V):
        alike = np.allclose(V / np.abs(V).max(), special / 2)
        return np.abs(V).max() * (0.9 if alike else 1)

    norm = ib.ExpressionNorm(cp.norm1, dual, "l1")
    build(norm, shape)
    W, V = np.random.default_rng(0).normal(size=(2, *shape))
    check_pair(norm, W, V)
    check_pair(norm, 0 * W, 0 * V)
    for scale in (1e-200, 1.0, 1e200):
        with pytest.raises(ib.InputError, match="for a W with ‖W‖ = 1; correct `dual`"):
            check_pair(norm, W, scale * special)


test_classes_that_contradict_themselves = refusals(
    ({"value": lambda W: np.linalg.norm(W, "nuc") ** 2}, "‖2W‖ must be 2‖W‖"),
    ({"value": lambda W: np.sum(np.abs(W) ** 0.5) ** 2, "dual": length}, "exceeds|`expression` gives"),
    ({"value": lambda W: np.nan}, "`value` gives nan"),
    ({"value": lambda W: np.inf}, "finite"),
    ({"value": lambda W: [1.0]}, "`value` gives"),
    ({"value": length, "dual": length}, "`expression` gives"),
    ({"expression": lambda W: -cp.normNuc(W)}, "convex"),
    ({"expression": cp.norm1, "value": lambda W: np.abs(W).sum()}, "rotation_invariant = False"),
    ({"dual_bound": lambda lengths: 0.5 * lengths.max()}, "`dual_bound`"),
    ({"group_form": lambda k: GroupForm(ib.Frobenius().group_form(k).expand, np.arange(k))}, "`group_form`"),
    ({"group_form": lambda k: ib.Frobenius().group_form(k)}, "`group_form`"),
    call=lambda methods: build(OwnNorm(**methods)),
)


def test_a_class_derived_from_the_packages_own_is_tried():
    class Heavier(ib.GroupLasso):
        def value(self, W):
            return 2 * super().value(W)

        def expression(self, W):
            return 2 * super().expression(W)

        def dual(self, V):
            return super().dual(V)

    assert_refused(lambda: build(Heavier([0, 1, 1])), "`group_form`")


@pytest.mark.parametrize("name", [None, *(name for name in TRUE if name != "half space")])
def test_the_error_of_v_enters_the_dual_of_ones_own_norm(name):
    norm = ib.ExpressionNorm(*TRUE[name]) if name else OwnNorm()
    rng = np.random.default_rng(0)
    for _ in range(30):
        V, D = rng.normal(size=(2, 3, 4))
        error = length(D, axis=1) * (1 + 1e-12)
        assert (
            norm.dual(V + D) <= norm.dual_upper(V, error) <= norm.dual(V) + 3 * np.sqrt(12) * norm.dual(np.abs(D)) * 2
        )
    many = np.ones((30, 40))
    assert norm.dual_upper(many, 1e-15 * np.ones(30)) == pytest.approx(norm.dual(many), rel=1e-9 if name else 1e-11)
    assert norm.dual_upper(0 * many, np.ones(30)) >= 1


def test_dual_upper_of_many_weights_is_a_bound():
    V = np.full((40, 40), 1e-3)
    V[0, 0] = 1.0
    norm = ib.ExpressionNorm(*TRUE["l1"])
    assert norm.dual_upper(V, np.eye(40)[0]) >= 2.0  # The dual norm of V + E_00.
    assert norm.dual_upper(np.ones((200, 200)), np.full(200, 1e-15)) == np.inf
    problem = ib.MarginProblem(ib.GatedFeatures(np.eye(2, 200), np.ones((2, 200))), [1, -1], norm)
    found = ib.solve(problem, lambda problem, options: Answer(problem.adjoint([1, 1]), np.ones(2), 1))
    assert "`dual_bound`" in found.reason
