import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize

from implicit_bias import GatedFeatures, InputError, MarginProblem, TwoLayerNorm, solve
from tests.cases import SIZE, assert_refused, random, samples

#: Combinations of layers that induce a norm.
CONVEX = [
    *[("frobenius", "l2"), ("frobenius", "l_inf"), ("rows", "l2"), ("rows", "l_inf"), ("rows", "l1")],
    *[("entries", "l2"), ("entries", "l_inf"), ("entries", "l1"), ("l1", "l_inf")],
    *[("spectral", "l2"), ("spectral", "l_inf")],
]
every_convex = pytest.mark.parametrize(("inner", "outer"), CONVEX)
#: The norms of the layers, written from scratch.
OUTER = {"l2": np.linalg.norm, "l_inf": lambda v: np.abs(v).max(), "l1": lambda v: np.abs(v).sum()}
INNER = {
    "frobenius": np.linalg.norm,
    "rows": lambda U: np.linalg.norm(U, axis=1).max(),
    "entries": lambda U: np.abs(U).max(),
    "l1": lambda U: np.abs(U).sum(),
    "spectral": lambda U: np.linalg.norm(U, 2),
}


def expand(W, v, inner):
    """Return units U with Σ_j v_j u_j = ζ_h over the units j of gate h, of the least norm for these v (per block)."""
    blocks = []
    for row, own in zip(W, v, strict=True):
        shares = own / (own @ own) if inner in ("frobenius", "spectral") else np.full(len(own), 1 / own.sum())
        blocks.append(np.outer(shares, row))
    return np.vstack(blocks)


@every_convex
def test_no_factorisation_is_shorter_and_one_is_as_short(inner, outer):
    """‖W‖ = min ‖v‖‖U‖ over all weights of the two layers, with 1, 2 and 3 units behind the gates."""
    m = np.array([1, 2, 3])
    ends, norm = np.cumsum(m)[:-1], TwoLayerNorm([0, 1, 2], inner, outer, m)
    rng = np.random.default_rng(3)
    for _ in range(200):
        v, U = rng.normal(size=6), rng.normal(size=(6, 4)) * rng.exponential(size=(6, 1))
        W = np.add.reduceat(v[:, None] * U, [0, *ends])
        assert norm.value(W) <= OUTER[outer](v) * INNER[inner](U) * (1 + 1e-12)
    W = rng.normal(size=(3, 4))

    def size(logs):
        v = np.exp(np.repeat(logs, m))
        return OUTER[outer](v) * INNER[inner](expand(W, np.split(v, ends), inner))

    starts = [np.zeros(3), *rng.normal(size=(3, 3))]
    best = min(scipy.optimize.minimize(size, x, method="Nelder-Mead", tol=1e-9).fun for x in starts)
    assert norm.value(W) == pytest.approx(best, rel=1e-6)


@every_convex
def test_multiplicities_are_copies_of_units(inner, outer):
    """The optimum with m_h units behind gate h is that of m_h equal gates, and their weights add up."""
    _, features, y = samples("half-spaces", size=SIZE)
    m = 1 + np.arange(features.k) % 3
    copies = np.repeat(np.arange(features.k), m)
    many = MarginProblem(
        GatedFeatures(features.X, features.gate_values[:, copies]), y, TwoLayerNorm(np.arange(m.sum()), inner, outer)
    )
    few = MarginProblem(features, y, TwoLayerNorm(np.arange(features.k), inner, outer, m))
    assert solve(many).objective == pytest.approx(solve(few).objective, rel=3e-6)


@pytest.mark.parametrize(("inner", "outer", "power"), [("entries", "l_inf", 1), ("spectral", "l_inf", 2)])
def test_units_that_are_allotted_freely(inner, outer, power):
    """Over shares π of M units, the least ‖W‖ is Σ‖ζ_h‖_∞/M for signs, and ρ(W)/√M for Muon with signs of v."""
    W, M = random(3, 3), 50
    free = np.abs(W).max(axis=1).sum() if inner == "entries" else TwoLayerNorm(range(3), "spectral", "l2").value(W)
    shares = [(a, b, M - a - b) for a in range(1, M - 1) for b in range(1, M - a)]
    best = min(TwoLayerNorm(range(3), inner, outer, m).value(W) for m in shares)
    assert free <= M ** (1 / power) * best <= free * 1.05


def test_depth_does_not_change_norms_of_the_largest_entry_or_singular_value():
    """Of A_L … A_1 = W, max ‖A_l‖_op^L is at least ‖W‖_op at every depth L, and equal for Σ^{1/L}; also for chains."""
    rng = np.random.default_rng(0)
    for L in (2, 3, 5):
        layers = [rng.normal(size=(4, 4)) for _ in range(L)]
        W = np.linalg.multi_dot(layers)
        U, sizes, V = np.linalg.svd(W)
        own = np.linalg.norm(W, 2)
        assert own <= max(np.linalg.norm(A, 2) for A in layers) ** L
        roots = [U * sizes ** (1 / L), *[np.diag(sizes ** (1 / L))] * (L - 2), sizes[:, None] ** (1 / L) * V]
        np.testing.assert_allclose(np.linalg.multi_dot(roots), W, atol=1e-12)
        assert max(np.linalg.norm(A, 2) for A in roots) ** L == pytest.approx(own)
        # Coordinates of a diagonal network: a chain of L scalars each, in the largest size and in the sum of squares.
        chains = rng.normal(size=(L, 6))
        w = chains.prod(axis=0)
        assert np.abs(w).max() <= np.abs(chains).max() ** L
        assert (chains**2).sum() >= L * (np.abs(w) ** (2 / L)).sum() * (1 - 1e-12)


@pytest.mark.parametrize(
    ("inner", "outer"), [("frobenius", "l1"), ("spectral", "l1"), ("l1", "l2"), ("l1", "l1"), ("spektral", "l2")]
)
def test_what_is_not_convex_is_refused(inner, outer):
    with pytest.raises(InputError, match="not convex" if inner != "spektral" else "known: frobenius, rows"):
        TwoLayerNorm([0, 1], inner, outer)


def test_units_of_several_gates_are_rows_of_one_matrix():
    W, groups = random(6, 4), [5, 7, 5, 7, 5, 7]
    rows = np.array([W[[0, 2, 4]].ravel(), W[[1, 3, 5]].ravel()])
    for inner, outer in CONVEX:
        norm, single = TwoLayerNorm(groups, inner, outer, [2, 3]), TwoLayerNorm([0, 1], inner, outer, [2, 3])
        assert norm.value(W) == pytest.approx(single.value(rows), rel=1e-12)
        assert norm.dual(W) == pytest.approx(single.dual(rows), rel=1e-12)
    assert_refused(lambda: TwoLayerNorm([0, 0, 1], "spectral", "l2"), "equally many gates")
    assert_refused(lambda: TwoLayerNorm([0, 1], "entries", "l2", [1, 0]), "multiplicities")


@pytest.mark.parametrize("shape", [(1, 3), (3, 2), (5, 8), (12, 4)])
@pytest.mark.parametrize("kind", ["normal", "sizes", "rank", "zeros"])
def test_the_two_summing_norm_against_semidefinite_programs(shape, kind):
    norm, H = TwoLayerNorm(np.arange(shape[0]), "spectral", "l2"), shape[0]
    W = random(*shape, seed=2)
    W = {
        "normal": W,
        "sizes": W * 10.0 ** np.linspace(-18, 0, H)[:, None],
        "rank": np.outer(W[:, 0], W[0]),
        "zeros": W * (np.arange(H) % 3 != 1)[:, None],
    }[kind]
    scale = np.abs(W).max()
    C = W @ W.T / scale**2
    Q = cp.Variable((H, H), PSD=True)
    primal = cp.Problem(cp.Maximize(cp.sum(cp.multiply(Q, C))), [cp.diag(Q) == 1]).solve(solver="CLARABEL")
    assert norm.value(W) == pytest.approx(scale * np.sqrt(primal), rel=1e-6)
    U = cp.Variable(shape)
    ball = [norm.expression(U) <= 1]
    dual = cp.Problem(cp.Maximize(cp.sum(cp.multiply(U, W / scale))), ball).solve(solver="CLARABEL")
    assert norm.dual(W) == pytest.approx(scale * dual, rel=1e-6)
    # The bounds are the same for V of extreme size, and true for errors of its rows.
    assert norm.value_bound(1e-200 * W) == pytest.approx(1e-200 * norm.value(W), rel=1e-9)
    error = np.abs(random(H, seed=3))
    worse = norm.dual(W + error[:, None] * np.eye(*shape)[np.zeros(H, dtype=int)])
    assert worse <= norm.dual_upper(W, error) <= (norm.dual(W) + np.linalg.norm(error)) * (1 + 1e-9)


def test_the_two_summing_norm_is_between_signed_sums():
    """max_ε ‖Σ ε_h ζ_h‖ ≤ ρ(W) ≤ √(π/2) max_ε ‖Σ ε_h ζ_h‖, ‖W‖_F ≤ ρ(W) ≤ Σ‖ζ_h‖, ‖W‖ ≤ ρ(W) ≤ √H ‖W‖."""
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1).T
    for seed in range(20):
        W = random(6, 1 + seed % 7, seed=seed)
        longest = np.linalg.norm(signs @ W, axis=1).max()
        value = TwoLayerNorm(np.arange(6), "spectral", "l2").value(W)
        lengths, largest = np.linalg.norm(W, axis=1), np.linalg.norm(W, 2)
        least = max(longest, np.linalg.norm(lengths), largest)
        assert least * (1 - 1e-9) <= value
        assert value <= min(longest * np.sqrt(np.pi / 2), lengths.sum(), np.sqrt(6) * largest) * (1 + 1e-9)


@pytest.mark.parametrize(("outer", "trace"), [("l2", False), ("l_inf", True)])
def test_spectral_problems_learn_a_metric_between_gates(outer, trace):
    """optimum² = max 2Σλ − tr(Q⁻¹VVᵀ) over λ ≥ 0 and Q with Q_hh = 1, or with tr Q = 1."""
    _, features, y = samples("half-spaces", size=SIZE)
    H = features.k
    found = solve(MarginProblem(features, y, TwoLayerNorm(np.arange(H), "spectral", outer)), tol=1e-8)
    lam, Q = cp.Variable(features.n, nonneg=True), cp.Variable((H, H), PSD=True)
    V = cp.reshape(features.dense().T @ cp.multiply(lam, y), features.shape[1:], order="C")
    unit = [cp.trace(Q) == 1] if trace else [cp.diag(Q) == 1]
    best = cp.Problem(cp.Maximize(2 * cp.sum(lam) - cp.matrix_frac(V, Q)), unit).solve(solver="CLARABEL")
    assert found.objective**2 == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("inner", "dual"), [("entries", lambda U: np.abs(U).sum()), ("spectral", lambda U: np.linalg.norm(U, "nuc"))]
)
def test_the_optimum_is_a_stationary_point_of_the_network(inner, dual):
    """With t² = ‖W‖, |v_h| = t and U = diag(v)⁻¹W, both gradients of Σ λ_i y_i f(x_i) have the dual norm Σλ/t."""
    _, features, y = samples("half-spaces", size=SIZE)
    case = MarginProblem(features, y, TwoLayerNorm(np.arange(features.k), inner, "l_inf"))
    found = solve(case, tol=1e-8)
    t, V = np.sqrt(found.objective), case.adjoint(found.dual)
    U = found.weights / t
    assert INNER[inner](U) == pytest.approx(t, rel=1e-6)
    assert dual(t * V) == pytest.approx(found.dual.sum() / t, rel=1e-6)
    assert np.abs((U * V).sum(axis=1)).sum() == pytest.approx(found.dual.sum() / t, rel=1e-6)
