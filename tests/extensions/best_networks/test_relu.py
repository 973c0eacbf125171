"""The best ReLU network: patterns against Cover's count and random search, the problem against CVXPY, both bounds."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest

from implicit_bias import GatedFeatures, GroupLasso, MarginProblem, ReLUNetwork, Status, load_binary, solve
from implicit_bias._utils.limits import Deadline, TooLargeError
from implicit_bias.extensions.best_networks import activation_patterns, best_network, svm_relu
from implicit_bias.extensions.best_networks.relu.branch_and_bound import branch_and_bound, fit_affine_rule
from implicit_bias.extensions.best_networks.relu.dual_norm import bound_dual_norm
from implicit_bias.extensions.best_networks.relu.network import basic_solution, bound_of, units_of
from implicit_bias.extensions.best_networks.relu.problem import cone_problem
from implicit_bias.extensions.best_networks.relu.relaxation import SignBound
from implicit_bias.norms.two_summing import solve_max_cut_relaxation
from implicit_bias.solvers.native.cones import ConeKernels, solve_in_cones
from tests.cases import interrupt, refusals


def task(n, d, seed=1):
    """Return inputs (n, d), constant from the third on, and labels of both classes that no linear rule gives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 2:] = 1.0
    y = np.sign(X[:, 0] * X[:, 1] + 0.1)
    y[:2] = 1.0, -1.0
    return X, y


def as_set(patterns):
    return {row.tobytes() for row in patterns}


GRID = np.array([[i, j, 1.0] for i in range(3) for j in range(3)])
CUBE = np.array([*itertools.product((-1.0, 0.0, 1.0), repeat=3)])
DEGENERATE = {
    "grid": GRID,
    "repeated, opposite, zero": np.vstack([GRID, 3 * GRID[:4], -GRID[2:6], 0 * GRID[:1]]),
    "cube": CUBE,
    "dependent columns": GRID @ [[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, -1.0, 3.0], [1.0, 1.0, 1.0, 0.0]],
    "collinear": np.array([[1.0, 2.0], [2.0, 4.0], [-0.5, -1.0], [0.0, 0.0]]),
    "a hair apart": np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]]),
    "nearly collinear": np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52], [1.0, -1.0]]),
}


@pytest.mark.parametrize(("n", "d"), [(5, 1), (9, 2), (40, 2), (12, 3), (25, 3), (8, 4), (7, 5), (11, 10)])
def test_in_general_position_there_are_as_many_patterns_as_cover_counts(n, d):
    X = np.random.default_rng(n).normal(size=(n, d))
    hyperplanes = n if d > 1 else 1
    found = activation_patterns(X)
    assert len(found) == len(as_set(found.patterns)) == 2 * sum(math.comb(hyperplanes - 1, k) for k in range(d))
    U = np.random.default_rng(1).normal(size=(1000, d))
    assert as_set(U @ X.T >= 0) <= as_set(found.patterns)


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_samples_have_the_patterns_that_a_random_search_finds(name):
    X = DEGENERATE[name]
    found = activation_patterns(X)
    U = np.random.default_rng(1).normal(size=(100_000, X.shape[1]))
    seen = as_set(np.unique(-1e-12 * (X == 0).all(axis=1) <= U @ X.T, axis=0))
    # Cells 2⁻⁵² wide are found, though no random direction meets them.
    assert (
        seen <= as_set(found.patterns)
        if name in ("nearly collinear", "a hair apart")
        else seen == as_set(found.patterns)
    )
    assert len(found) == {"collinear": 2, "nearly collinear": 6, "a hair apart": 4}.get(name, len(found))


@pytest.mark.parametrize("X", [GRID, CUBE, task(9, 3)[0], task(9, 2)[0]])
def test_the_walls_alone_are_the_cell(X):
    found = activation_patterns(X)
    U = np.random.default_rng(2).normal(size=(200, X.shape[1]))
    scores = U @ X.T
    for pattern, wall in zip(found.patterns, found.walls, strict=True):
        faces = np.where(pattern, scores, -scores)
        assert np.array_equal((faces[:, wall] > 0).all(axis=1), (faces[:, X.any(axis=1)] > 0).all(axis=1))


@pytest.mark.parametrize("seed", [31, 33])
def test_columns_in_other_units_keep_their_patterns(seed):
    """Patterns do not change if columns are scaled by 2^{±350}, where products of floats vanish or lose digits."""
    X = np.round(np.random.default_rng(seed).normal(size=(6, 3)) * 4)
    units = np.array([1.0, 2.0**-350, 2.0**350])
    assert as_set(activation_patterns(X * units).patterns) == as_set(activation_patterns(X).patterns)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1.0, 1e-300])
def test_products_of_any_number_of_digits_are_exact(size):
    """Multiples of one sample have rank 4 by their rounding errors alone, and exactly Cover's number of patterns."""
    rng = np.random.default_rng(1)
    X = size * np.outer(rng.normal(size=6), rng.normal(size=4))
    assert len(activation_patterns(X)) == 2 * sum(math.comb(5, k) for k in range(4))


def cones(n, d, patterns, seed=1, zero=False):
    """Return X, y, and patterns (k, n) of random units, once with the sign 1 and once with −1, with their signs (k,).

    With `zero`, the last sample is 0.
    """
    X, y = task(n, d, seed)
    X[-1] *= not zero
    on = np.unique(np.random.default_rng(seed).normal(size=(patterns, d)) @ X.T >= 0, axis=0)
    return X, y, np.vstack([on, on]), np.repeat([1.0, -1.0], len(on))


@pytest.mark.parametrize(
    ("n", "d", "zero", "C"),
    [(12, 3, False, np.inf), (8, 6, False, 0.5), (12, 3, True, np.inf), (12, 3, True, 1e4), (10, 25, False, np.inf)],
)
def test_units_in_cones_are_those_of_another_solver(n, d, zero, C):
    X, y, patterns, signs = cones(n, d, 40, zero=zero)
    found = solve_in_cones(X, y, patterns, signs, C, 1e-8)
    if zero and np.inf == C:
        # Nothing separates a sample that is zero.
        assert not found.weights.any()
        return
    known = solve(cone_problem(X, y, patterns, signs, C=C), "CLARABEL")
    assert known.gap < 1e-4
    norms = np.linalg.norm(found.weights, axis=1).sum()
    margins = y * (np.maximum(X @ found.weights.T, 0.0) @ signs)
    slack = 0.0 if np.inf == C else C * np.maximum(1 - margins, 0.0).sum()
    assert norms + slack == pytest.approx(known.objective, rel=max(1e-5, known.gap))
    assert found.dual.sum() == pytest.approx(known.objective, rel=max(1e-5, known.gap))
    assert found.dual.min() >= 0
    assert found.dual.max() <= C
    assert np.inf > C or margins.min() == pytest.approx(1, abs=1e-9)


def test_the_arrow_is_factorised_as_the_matrix_that_it_stands_for():
    X, y, patterns, signs = cones(9, 5, 6, zero=True)
    kernels, rng = ConeKernels(X, patterns, y[:, None] * signs), np.random.default_rng(1)
    eta, diagonal = rng.exponential(size=kernels.H), rng.exponential(size=kernels.n)
    # Row by row, what `sweep` makes of unit vectors is the matrix itself.
    M = np.array([kernels.sweep(row)[1] @ eta for row in np.eye(kernels.n)]) + np.diag(diagonal)
    assert pytest.approx(M.T) == M
    right = rng.normal(size=(kernels.n, 4))
    right[kernels.samples :, :2] = 0.0
    assert kernels.factor(eta, diagonal).solve(right) == pytest.approx(np.linalg.solve(M, right))
    lam = rng.exponential(size=kernels.n)
    q, P = kernels.sweep(lam)
    assert lam @ P == pytest.approx(q)
    with pytest.raises(np.linalg.LinAlgError):
        kernels.factor(eta, -diagonal)


def test_cones_for_which_there_is_no_memory_are_told(monkeypatch):
    monkeypatch.setattr("implicit_bias._utils.limits.free_memory", lambda: 1e4)
    with pytest.raises(TooLargeError, match="a step of 12 samples in"):
        solve_in_cones(*cones(12, 3, 40), np.inf, 1e-6)


def written_out(X, y):
    """Return the optimum by CVXPY alone: patterns by random search, and a row of every cone for every sample."""
    U = np.random.default_rng(0).normal(size=(20_000, X.shape[1]))
    patterns = np.unique(U @ X.T >= 0, axis=0)
    u, v = cp.Variable((len(patterns), X.shape[1])), cp.Variable((len(patterns), X.shape[1]))
    outputs = sum(cp.multiply(D * 1.0, X @ (u[h] - v[h])) for h, D in enumerate(patterns))
    cones = [cp.multiply(2.0 * D - 1, X @ w[h]) >= 0 for h, D in enumerate(patterns) for w in (u, v)]
    norm = cp.sum(cp.norm(u, axis=1)) + cp.sum(cp.norm(v, axis=1))
    return cp.Problem(cp.Minimize(norm), [cp.multiply(y, outputs) >= 1, *cones]).solve(solver="SCS", eps=1e-7)


@pytest.mark.parametrize(("n", "d"), [(8, 2), (6, 3)])
def test_the_optimum_is_that_of_another_solver_on_the_problem_written_out(n, d):
    X, y = task(n, d)
    solution, best = solve(svm_relu(X, y)), best_network(X, y)
    assert solution.status is Status.OPTIMAL
    assert best.end == "certified"
    assert solution.objective == pytest.approx(written_out(X, y), rel=1e-4)
    assert best.lower_bound <= solution.objective
    assert solution.lower_bound <= best.objective
    assert best.objective == pytest.approx(solution.objective, rel=3e-6)


def test_the_network_has_the_objective_as_its_norm_and_as_few_units_as_margins_are_one():
    X, y = task(25, 3)
    best = best_network(X, y)
    assert best.complete
    assert best.gap <= 1e-6
    assert best.network.norm() ** 2 / 2 == pytest.approx(best.objective, rel=1e-9)
    assert np.allclose(y * best.network.decision_function(X), best.margins, rtol=1e-12)
    assert best.margins.min() == pytest.approx(1, abs=1e-9)
    assert best.network.units[0] <= np.sum(best.margins < 1 + 1e-5)


@pytest.mark.parametrize("d", [2, 3])
def test_no_network_is_below_the_lower_bound_and_no_dual_above_the_upper_one(d):
    X, y = task(15, d)
    best, rng = best_network(X, y), np.random.default_rng(3)
    found = 0
    for seed in range(40):
        network = ReLUNetwork(d, 200, seed=seed)
        hidden = network.layers[0].detach().double().numpy()
        # Random features separate once their readout is solved for.
        readout = np.linalg.lstsq(np.maximum(X @ hidden.T, 0.0), y * rng.uniform(1, 2, len(y)), rcond=None)[0]
        network.double().layers[1].data[:] = network.layers[1].new_tensor(readout)
        norm = bound_of(network, X, y)[0]
        found += norm < np.inf
        assert norm >= best.lower_bound
        dual = rng.exponential(size=len(y)) * (rng.random(len(y)) < 0.5)
        assert dual.sum() <= best.objective * bound_dual_norm(X, y, dual).bound
    assert found > 20


@pytest.mark.parametrize(("n", "d", "C"), [(15, 2, 0.3), (12, 3, 1.0), (12, 3, 10.0)])
def test_a_soft_margin_is_that_of_all_patterns(n, d, C):
    """With some wrong labels, the certified objective is that of `svm_relu` over all patterns, and there is slack."""
    X, y = task(n, d)
    y[2:5] *= -1
    solution, best = solve(svm_relu(X, y, C=C)), best_network(X, y, C=C)
    assert best.end == "certified"
    assert best.objective == pytest.approx(solution.objective, rel=3e-6)
    assert best.lower_bound <= solution.objective
    assert best.dual.min() >= 0
    assert best.dual.max() <= C
    slack = np.maximum(1 - y * best.network.decision_function(X), 0.0)
    assert slack.max() > 0.01
    assert best.network.norm() ** 2 / 2 + C * slack.sum() == pytest.approx(best.objective, rel=1e-9)


def test_a_slack_weight_above_all_duals_is_the_hard_margin_and_a_small_one_has_no_units():
    X, y = task(12, 3)
    hard = best_network(X, y)
    assert best_network(X, y, C=2 * hard.dual.max()).objective == pytest.approx(hard.objective, rel=3e-6)
    nothing = best_network(X, y, C=1e-3)
    assert (nothing.network, nothing.end) == (None, "certified")
    assert nothing.objective == pytest.approx(12e-3, rel=1e-9)
    conflict = best_network([[1.0, 1.0], [1.0, 1.0], [-1.0, 1.0]], [1, -1, 1], C=5.0)
    assert conflict.end == "certified"
    assert conflict.objective >= 10 * (1 - 1e-6)


def test_labels_in_conflict_are_certified_for_a_large_slack_weight():
    """The gap is certified although C Σξ is thousands of times the norm and scaling λ would lose a share of it."""
    X, y = task(15, 3, seed=3)
    X, y = np.vstack([X, X[:2]]), np.append(y, -y[:2])
    best = best_network(X, y, C=1e4)
    assert best.end == "certified"
    assert 4e4 < best.lower_bound <= best.objective < 4e4 + 1000


def test_wide_inputs_have_the_bounds_that_they_have_in_fewer_coordinates():
    X, y = task(12, 3)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(60, 3)))[0]
    few, wide = best_network(X, y), best_network(X @ Q.T, y)
    assert wide.end == "certified"
    assert wide.objective == pytest.approx(few.objective, rel=2e-6)
    assert wide.lower_bound <= few.objective
    assert few.lower_bound <= wide.objective
    assert np.allclose(y * wide.network.decision_function(X @ Q.T), wide.margins, rtol=1e-12)


def test_more_patterns_never_raise_the_optimum_and_without_cones_all_are_a_lower_bound():
    X, y = task(8, 3)
    found = activation_patterns(X)
    order = np.random.default_rng(1).permutation(len(found))
    norms = [solve(svm_relu(X, y, found.patterns[order[:count]])).objective for count in (20, 30, 40, len(found))]
    assert all(more <= fewer * (1 + 1e-6) for fewer, more in itertools.pairwise(norms))
    free = solve(MarginProblem(GatedFeatures(X, found.patterns.T), y, GroupLasso(np.arange(len(found)))))
    assert free.objective <= norms[-1] < np.inf


@pytest.mark.parametrize("d", [2, 3, 6])
def test_dual_norms_are_bounded_alike_by_enumeration_and_by_branch_and_bound_and_attained(d):
    rng = np.random.default_rng(d)
    X, y, dual = rng.normal(size=(14, d)), rng.choice([-1.0, 1.0], 14), rng.exponential(size=14)
    whole = bound_dual_norm(X, y, dual, nodes=50_000)
    units = rng.normal(size=(20_000, d))
    seen = np.abs(np.maximum(units @ X.T, 0) @ (y * dual)) / np.linalg.norm(units, axis=1)
    assert whole.complete
    assert np.abs(whole.values).max() == pytest.approx(whole.bound, rel=1e-8)
    assert seen.max() <= whole.bound
    for limit in (0, 20_000):
        fine, rough = (bound_dual_norm(X, y, dual, nodes=m, max_enumerated=limit).bound for m in (50_000, 1))
        assert fine == pytest.approx(whole.bound, rel=1e-8)
        assert rough >= whole.bound * (1 - 1e-8)


@pytest.mark.parametrize("seed", [95, 122])
@pytest.mark.parametrize("accuracy", [0.3, 1.0])
def test_subsets_whose_t_needs_no_refinement_are_bounded_too(seed, accuracy):
    """The bound holds for the best unit, which ascents miss at a low accuracy."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(int(random.integers(4, 10)), 2))
    y = np.where(random.random(len(X)) < 0.5, 1.0, -1.0)
    dual, angles = random.random(len(X)), np.linspace(0, 2 * np.pi, 4001)
    found = bound_dual_norm(X, y, dual, accuracy=accuracy, max_enumerated=0, starts=0, draws=0)
    largest = abs(np.maximum(np.stack([np.cos(angles), np.sin(angles)], 1) @ X.T, 0.0) @ (dual * y)).max()
    assert abs(found.values).max() < 0.999 * largest <= found.bound


def test_the_affine_rule_tightens_the_bound_for_classes_with_a_common_part():
    """Bounds with an affine rule are never larger than without, and in the median at most nine tenths of them."""
    ratios = []
    for seed, (n, d) in enumerate([(24, 12), (16, 4), (16, 4), (24, 12), (16, 4)]):
        rng = np.random.default_rng(seed)
        X, y, dual = rng.normal(size=(n, d)) + 3, rng.choice([-1.0, 1.0], n), rng.exponential(size=n)
        whole = bound_dual_norm(X, y, dual, nodes=2000)
        assert whole.complete
        assert whole.bound * (1 - 1e-8) <= bound_dual_norm(X, y, dual, nodes=1).bound
        A, B = (dual[y == sign, None] * X[y == sign] for sign in (1.0, -1.0))
        rule, _ = fit_affine_rule(A, B, 0, rng)
        assert rule.min() >= 0
        assert rule.sum(axis=0).max() <= 1 + 1e-12
        with_rule, without = (branch_and_bound(A, B, P, 0.0, 1)[1] for P in (rule, np.zeros_like(rule)))
        ratios.append(with_rule / without)
    assert max(ratios) <= 1 + 1e-12
    assert np.median(ratios) < 0.9


def largest_sum(f, F):
    """Return the largest ‖f + Σ σ_i F_i‖ over all σ_i = ±1."""
    return max(np.linalg.norm(f + np.array(signs) @ F) for signs in itertools.product((-1, 1), repeat=len(F)))


@pytest.mark.parametrize(("m", "r"), [(1, 1), (4, 2), (8, 3), (10, 30)])
def test_the_relaxation_bounds_all_signs_and_its_two_sides_meet(m, r):
    rng = np.random.default_rng(m)
    rows = rng.normal(size=(m + 1, r))
    Q = rows @ rows.T
    d, X = solve_max_cut_relaxation(Q, 1e-9)
    assert np.linalg.eigvalsh(np.diag(d) - Q).min() > 0
    assert np.linalg.eigvalsh(X).min() > 0
    assert X.diagonal() == pytest.approx(np.ones(m + 1), abs=1e-6)
    assert d.sum() == pytest.approx((Q * X).sum(), rel=1e-6)
    variable = cp.Variable((m + 1, m + 1), PSD=True)
    known = cp.Problem(cp.Maximize(cp.trace(Q @ variable)), [cp.diag(variable) == 1]).solve(solver="CLARABEL")
    assert d.sum() == pytest.approx(known, rel=1e-6)
    bound = SignBound(rows[1:], d[1:])
    assert bound(rows[:1])[0] == pytest.approx(d.sum() ** 0.5, rel=1e-6)
    for f in rng.normal(size=(5, r)):
        assert largest_sum(f, rows[1:]) <= bound(f[None])[0]


@pytest.mark.parametrize(("size", "factor"), [(1e-30, 0.5), (1.0, 0.0), (1e30, 1.0), (1e30, 0.0)])
def test_signs_are_bounded_for_any_d_also_where_it_is_too_small(size, factor):
    """`SignBound` is at least the largest sum for any multiple of the best d; a d that is too small is increased."""
    rng = np.random.default_rng(1)
    F = size * np.vstack([rng.normal(size=(5, 3)), np.zeros((1, 3))])
    F[1] = F[0]
    bound = SignBound(F, factor * solve_max_cut_relaxation(F @ F.T, 1e-9)[0])
    for f in size * rng.normal(size=(5, 3)):
        assert largest_sum(f, F) <= bound(f[None])[0] < np.inf


def test_images_are_certified_by_branch_and_bound_and_bounded_where_a_limit_came_first():
    data = load_binary("digits", train_size=24)
    best = best_network(data.X_train, data.y_train)
    assert best.end == "certified"
    assert best.complete
    cut = best_network(data.X_train, data.y_train, max_rounds=1)
    assert cut.end == "max_rounds"
    assert 0 < cut.lower_bound <= best.objective
    assert best.lower_bound <= cut.objective


def test_an_answer_with_a_gap_has_as_few_units_as_a_certified_one():
    data = load_binary("digits", train_size=40)
    best = best_network(data.X_train, data.y_train, max_rounds=2, nodes=50)
    assert best.gap > 0.03
    fewer = basic_solution(*units_of(best.network), data.X_train, data.y_train)[0]
    assert len(fewer) == best.network.units[0]


def test_a_search_goes_on_from_a_network_and_stops_when_told(capsys):
    X, y = task(20, 3)
    best = best_network(X, y)
    again = best_network(X, y, start=best)
    assert len(again.table) <= len(best.table)
    assert again.objective == pytest.approx(best.objective, rel=2e-6)
    assert best_network(X, y, max_rounds=1).end == "max_rounds"
    stopped = best_network(X, y, progress=interrupt(lambda row: row["round"] == 2))
    assert stopped.end == "interrupted"
    assert stopped.lower_bound <= best.objective <= stopped.objective


@pytest.mark.parametrize("C", [1e6, 1e9, 1e12, 1e15])
def test_beyond_every_multiplier_the_answer_is_the_hard_margin(C):
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.normal(size=(10, 1)), np.ones(10)]), np.where(rng.random(10) < 0.5, 1.0, -1.0)
    hard, soft = best_network(X, y), best_network(X, y, C=C)
    assert soft.end == "certified"
    assert soft.objective == pytest.approx(hard.objective, rel=1e-6)
    assert soft.margins.min() >= 1


def test_a_convex_problem_that_its_own_method_leaves_is_left_to_solve():
    X, y = [[1.185], [-1.447], [-0.779], [0.634], [-0.021]], [1, -1, -1, -1, -1]
    found = best_network(X, y, C=48)
    assert found.end == "certified"
    assert found.objective == pytest.approx(solve(svm_relu(X, y, C=48)).objective, rel=1e-6)


class Counted(Deadline):
    """A deadline that passes after a number of looks at it, whoever looks."""

    def __init__(self, looks):
        super().__init__()
        self.looks = looks

    def passed(self, ahead=0.0):
        self.looks -= 1
        return self.looks < 0

    def part(self, share):
        return self


@pytest.mark.parametrize("looks", [0, 1, 5, 20, 50, 100, 200, 400, 800, 1600])
@pytest.mark.parametrize("nodes", [1, 2000])
def test_the_bound_of_a_dual_norm_holds_wherever_a_deadline_ends_it(looks, nodes):
    X, y = task(30, 5)
    dual = np.random.default_rng(0).random(30)
    cut = bound_dual_norm(X, y, dual, nodes=nodes, deadline=Counted(looks))
    whole = bound_dual_norm(X, y, dual)
    assert np.isfinite(cut.bound)
    assert cut.bound >= np.abs(whole.values).max()
    assert cut.complete <= (cut.bound <= whole.bound * (1 + 1e-6))


@pytest.mark.parametrize("options", [{"max_rounds": 1}, {"max_seconds": 1e-9}, {"max_seconds": 0.5}])
def test_a_search_that_a_limit_ends_has_bounds(options):
    X, y = task(40, 6)
    found = best_network(X, y, C=1.0, **options)
    assert 0 < found.lower_bound <= found.objective < np.inf
    assert (found.end == "certified") == (found.gap <= 1e-6)


def test_what_no_network_separates_is_told():
    # Without a constant, x and 2x have outputs of one sign.
    found = best_network([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1, -1, 1])
    assert found.network is None
    assert found.end == "not separated"
    assert found.lower_bound > 1e6
    assert solve(svm_relu([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1, -1, 1])).status is Status.NOT_SEPARABLE


test_bad_input_is_told = refusals(
    (lambda: activation_patterns(np.random.default_rng(1).normal(size=(200, 10))), "too many activation patterns"),
    (lambda: svm_relu([[1.0], [2.0]], [1, -1], [[0.5, 1.0]]), "patterns must be 0 or 1"),
    (lambda: svm_relu([[1.0], [2.0]], [1, -1], [[0.0, 1.0, 1.0]]), "patterns must be 0 or 1"),
    (lambda: best_network([[1.0], [2.0]], [1, -1], start=ReLUNetwork(2, 3)), "start must be"),
    (lambda: best_network([[1e300], [2.0]], [1, -1]), "the inputs X"),
    # Arithmetic of many digits would take minutes.
    (lambda: solve(svm_relu(*task(6, 3)), "PRECISE"), "linear constraints; use CLARABEL"),
)


@pytest.mark.parametrize("X", [np.ones((1, 2)), np.zeros((1, 2)), np.eye(4)], ids=["equal", "zeros", "orthogonal"])
def test_samples_of_both_labels_where_all_dual_correlations_vanish(X):
    X, y = np.vstack([X, X]), np.repeat([1.0, -1.0], len(X))
    soft = best_network(X, y, C=1.0)
    assert (soft.end, soft.objective, soft.lower_bound) == ("certified", *2 * [pytest.approx(len(y))])
    assert best_network(X, y).end == "not separated"


@pytest.mark.parametrize(("factor", "C"), [(2.0**300, np.inf), (1e90, 0.3), (3e-20, np.inf), (1e-90, 0.3)])
def test_units_of_measure_change_nothing_but_the_units_of_the_answer(factor, C):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(6, 3)), np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    known, scaled = best_network(X, y, C=C), best_network(factor * X, y, C=C / factor)
    assert scaled.end == known.end == "certified"
    assert scaled.objective * factor == pytest.approx(known.objective, rel=2e-6)
    assert scaled.table["objective"].iloc[-1] == pytest.approx(scaled.objective, rel=1e-5)
    hidden, readout = (layer.detach().numpy() for layer in scaled.network.layers)
    margins = y * (np.maximum(factor * X @ hidden.T, 0.0) @ readout[0])
    assert margins == pytest.approx(scaled.margins, abs=1e-9)
    values = np.maximum(rng.normal(size=(100, 3)) @ (factor * X).T, 0.0) @ (scaled.dual * y)
    assert np.isfinite(values).all()
    assert scaled.dual.max() <= C / factor


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("other", [0.0, 1e-170])
def test_a_class_next_to_zero_leaves_no_bound_unproved(other):
    X = np.vstack([np.random.default_rng(1).normal(size=(10, 6)), np.full((1, 6), other)])
    found = bound_dual_norm(X, np.append(np.ones(10), -1.0), np.ones(11), nodes=1)
    alone = bound_dual_norm(X[:10], np.ones(10), np.ones(10), nodes=1)
    assert found.bound == pytest.approx(alone.bound)
    assert found.bound >= max(np.linalg.norm(np.array(s) @ X[:10]) for s in itertools.product((0, 1), repeat=10))
