"""Chains of layers: their cost against a geometric program, bounds by sampling, the optimum against all vertices."""

import itertools
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias.extensions.best_networks import ChainNetwork, best_chains
from implicit_bias.extensions.best_networks.chains import search
from implicit_bias.extensions.best_networks.chains.cost import Box, ChainCost
from implicit_bias.gates import FunctionContexts
from tests.cases import assert_refused, interrupt

UNITS = np.array([0, 0, 0, 1, 1, 2])
DEPTHS = [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (5, 4)]


@pytest.fixture(scope="module")
def digits():
    task = ib.load_binary("digits", train_size=40)
    return task.X_train, task.y_train, ib.HyperplaneGates(3, 2, seed=1).fit(task.X_pool)


@pytest.mark.parametrize(("layers", "gated"), DEPTHS)
def test_the_cost_is_the_least_norm_of_all_factors(layers, gated):
    """F is the least ‖w‖²/L: in logarithms, squares of factors are convex and their products linear."""
    sizes = np.array([2.0, 0.5, 1.5])
    inside, outside = cp.Variable((gated, 3)), cp.Variable(max(layers - gated, 1))
    squares = cp.sum(cp.exp(2 * inside)) + (cp.sum(cp.exp(2 * outside)) if layers > gated else 0)
    product = cp.sum(inside, axis=0) + (cp.sum(outside) if layers > gated else 0)
    least = cp.Problem(cp.Minimize(squares), [product == np.log(sizes)]).solve(solver="CLARABEL")
    cost = ChainCost(np.zeros(3, dtype=int), layers, gated)
    assert layers * cost.value(sizes[:, None]) == pytest.approx(least, rel=1e-6)


def contexts(units, contexts):
    return FunctionContexts(lambda X: np.floor(X[:, :1] * 7.1 ** np.arange(units)).astype(int) % contexts, contexts)


@pytest.mark.parametrize(("layers", "gated"), DEPTHS)
def test_no_network_is_smaller_than_its_cost_and_a_balanced_one_is_as_small(layers, gated):
    X = np.random.default_rng(1).uniform(0, 9, size=(20, 3))
    gates = contexts(3, 3).fit(X)
    for seed in range(3):
        network = ChainNetwork(gates, layers, gated=gated, seed=seed).double()
        zeta = network.effective_weights()
        zeta[seed] = 0.0
        cost = ChainCost(gates.groups, layers, gated).value(zeta)
        assert network.norm() ** 2 / layers > cost
        balanced = ChainNetwork.from_weights(gates, zeta, layers, gated=gated)
        assert balanced.norm() ** 2 / layers == pytest.approx(cost, rel=1e-12)
        np.testing.assert_allclose(balanced.effective_weights(), zeta, atol=1e-12)
        np.testing.assert_allclose(balanced.decision_function(X), gates(X) @ zeta, atol=1e-10)


@pytest.mark.parametrize(("layers", "gated"), DEPTHS)
def test_tangents_are_above_the_cost_and_chords_below_it_in_their_box_only(layers, gated):
    rng, cost = np.random.default_rng(1), ChainCost(UNITS, layers, gated)
    k = len(cost.owners)

    def value(s):
        return (cost.sums(s) ** cost.e).sum()

    box = Box.below(cost, 5.0)
    for _ in range(6):
        alpha, slopes = box.chord()
        (low, high), (least, most) = box.blocks, box.units
        for s in rng.uniform(low, high, size=(300, k)):
            T = cost.sums(s)
            if np.clip(T, least, most).tolist() == T.tolist():
                assert alpha + slopes @ s <= value(s) * (1 + 1e-14)
            by_block, by_unit = box.chord_gaps(s)
            assert by_block.sum() + by_unit.sum() == pytest.approx(value(s) - alpha - slopes @ s, abs=1e-9)
        missed = [s for s in rng.uniform(low, high, size=(20, k)) if max(map(np.max, box.chord_gaps(s))) > 1e-9]
        if missed:
            box = box.split(missed[0])[rng.integers(2)]
    for s, other in rng.exponential(size=(50, 2, k)):
        assert value(s) + cost.tangent(s) @ (other - s) >= value(other) * (1 - 1e-12)


def least_at_vertices(A, cost):
    """Return the least cost of ζ (k, 1) with Aζ ≥ 1: it is concave in every orthant, hence least at a vertex of one."""
    k = A.shape[1]
    rows, right = np.vstack([A, np.eye(k)]), np.append(np.ones(len(A)), np.zeros(k))
    best = np.inf
    for chosen in itertools.combinations(range(len(rows)), k):
        if abs(np.linalg.det(rows[list(chosen)])) > 1e-9:
            zeta = np.linalg.solve(rows[list(chosen)], right[list(chosen)])
            if (A @ zeta >= 1 - 1e-9).all():
                best = min(best, cost.value(np.where(np.abs(zeta) > 1e-9, zeta, 0.0)[:, None]))
    return best


@pytest.mark.parametrize(("layers", "seed"), [(3, 1), (4, 2), (6, 3)])
def test_the_optimum_of_single_weights_is_the_best_of_all_vertices(layers, seed):
    values = np.random.default_rng(seed).normal(size=(6, 4))
    values[:, 0] = np.abs(values[:, 0]) + 0.1
    X = y = np.array([1.0, -1.0] * 3)
    gates = ib.FunctionGates(lambda X: values[: len(X)], np.arange(4)).fit(X[:, None])
    found = best_chains(X[:, None], y, gates, layers, gated=1, starts=1, nodes=5000)
    best = least_at_vertices(values, ChainCost(np.arange(4), layers, 1))
    assert found.end == "certified"
    assert found.lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= found.objective <= best * (1 + 1.1e-3)


@pytest.mark.parametrize(("layers", "gated"), [(3, 3), (5, 3)])
def test_the_optimum_of_several_contexts_is_the_best_of_all_vertices(layers, gated):
    rng = np.random.default_rng(layers)
    X, y, where = rng.uniform(0.2, 2, size=(8, 1)), np.array([1.0, -1.0] * 4), rng.integers(2, size=(8, 2))
    X *= y[:, None]
    gates = FunctionContexts(lambda X: where[: len(X)], 2).fit(X)
    found = best_chains(X, y, gates, layers, gated=gated, starts=1, nodes=5000)
    cost = ChainCost(gates.groups, layers, gated)
    best = least_at_vertices(y[:, None] * gates(X).dense(), cost)
    assert found.end == "certified"
    assert best * (1 - 1e-9) <= found.objective <= best * (1 + 1.1e-3)


def test_two_layers_are_the_convex_problem(digits):
    X, y, gates = digits
    optimum = ib.solve(ib.svm_gln(X, y, gates)).objective
    for start in (None, ChainNetwork(gates, 2)):
        found = best_chains(X, y, gates, 2, start=start)
        assert found.end == "certified"
        assert found.objective == pytest.approx(optimum, rel=1e-4)


def test_a_norm_is_not_branched_on_however_small_the_tolerance():
    X = np.random.default_rng(0).normal(size=(6, 3))
    gates = ib.HyperplaneGates(1, 2, seed=1).fit(X)
    assert best_chains(X, np.sign(X[:, 0]), gates, 2, starts=1, nodes=3, tol=5e-324).gap < 1e-6


@pytest.mark.parametrize(("layers", "gated"), [(3, 1), (4, 3)])
def test_reweighting_never_raises_the_objective_and_ends_in_a_stationary_network(digits, layers, gated):
    X, y, gates = digits
    found = best_chains(X, y, gates, layers, gated=gated, tol=1e-6, nodes=0, starts=2)
    for _, rows in found.table[found.table.start >= 0].groupby("start"):
        assert (rows.objective.diff().dropna() <= 1e-7 * rows.objective.iloc[0]).all()
    assert found.network.norm() ** 2 / layers == pytest.approx(found.objective, rel=1e-9)
    assert (y * found.network.decision_function(X)).min() == pytest.approx(1, rel=1e-9)
    assert ib.stationarity(found.network, X, y, tolerance=1e-3).residual < 1e-3
    assert found.convex_bound == found.lower_bound < found.objective
    again = best_chains(X, y, gates, layers, gated=gated, tol=1e-6, nodes=0, starts=1, start=found)
    assert again.table.objective.iloc[-1] == pytest.approx(found.objective, rel=1e-5)


def test_branching_certifies_few_units(digits):
    found = best_chains(*digits, 3, starts=3, tol=0.01)
    assert found.end == "certified"
    assert found.convex_bound < found.lower_bound <= found.objective <= found.lower_bound / (1 - 0.01)
    loose = best_chains(*digits, 3, starts=3, tol=0.01, nodes=5)
    assert loose.end == "max_nodes"
    assert found.convex_bound <= loose.lower_bound <= found.objective
    assert loose.gap > 0.01


@pytest.mark.parametrize("seed", [1, 2])
def test_descent_stays_above_the_bound(digits, seed):
    X, y, gates = digits
    found = best_chains(X, y, gates, 3, starts=3, tol=0.01)
    network = ChainNetwork(gates, 3, seed=seed)
    ib.descend_to_limit(network, X, y, ib.LossScaled(tolerance=0.05, max_steps=300))
    margin = (y * network.decision_function(X)).min()
    assert margin > 0
    assert network.norm() ** 2 / 3 / margin ** (2 / 3) >= found.lower_bound


@pytest.mark.parametrize(("size", "layers"), [(1e-100, 3), (1e-40, 7), (7.0, 6), (7.0, 5), (3e77, 7), (1e100, 3)])
def test_bounds_count_the_rounding_of_powers(size, layers):
    """With one weight s and s · size ≥ 1, the bounds enclose F = size^{−2/L} in exact arithmetic: F^L = size^{−2}."""
    best = best_chains([[size], [-size]], [1, -1], ib.ConstantGate(), layers)
    assert best.convex_bound <= best.lower_bound
    assert Fraction(best.lower_bound) ** layers <= 1 / Fraction(size) ** 2 <= Fraction(best.objective) ** layers


@pytest.mark.filterwarnings("error")
def test_a_box_that_no_solver_answers_is_left_at_its_bound(digits, monkeypatch):
    X, y, gates = digits
    plain = best_chains(X, y, gates, starts=1, nodes=0)

    def without_weights(problem, **options):
        found = ib.solve(problem, **options)
        return found if np.ptp(problem.norm.weights) == 0 else replace(found, objective=np.inf, lower_bound=0.0)

    monkeypatch.setattr(search, "solve", without_weights)
    best = best_chains(X, y, gates, starts=1, nodes=5)
    assert best.end == "max_nodes"
    assert best.lower_bound <= plain.objective


def test_half_spaces_have_the_same_cost_however_many_layers_they_gate(digits):
    X, y, _ = digits
    found = [best_chains(X, y, ib.RandomHalfSpaces(2, always_on=True), 4, gated=gated, starts=2) for gated in (1, 4)]
    assert {one.end for one in found} == {"certified"}
    assert np.ptp([one.objective for one in found]) <= 2e-3 * found[0].objective


def test_what_no_chains_separate_is_proved():
    found = best_chains([[1.0], [1.0]], [1, -1], ib.ConstantGate())
    assert (found.end, found.network, found.objective, found.lower_bound) == ("not separated", None, np.inf, np.inf)


def test_an_interrupted_search_keeps_the_best_so_far(digits):
    X, y, gates = digits
    found = best_chains(X, y, gates, 3, progress=interrupt(lambda row: row["solve"] == 4))
    assert (found.end, len(found.table)) == ("interrupted", 4)
    assert found.objective == found.table.best.min()
    assert found.lower_bound == found.convex_bound


def test_the_time_limit_ends_the_search(digits):
    X, y, gates = digits
    found = best_chains(X, y, gates, 3, max_seconds=1e-9)
    assert (found.end, len(found.table)) == ("max_seconds", 1)


def test_gates_that_layers_cannot_share_are_refused(digits):
    X, y, _ = digits
    soft = ib.SoftGates(np.random.default_rng(1).normal(size=(3, X.shape[1])), sharpness=1.0)
    assert_refused(lambda: best_chains(X, y, soft, 3), "use gated=1")
    assert_refused(lambda: ChainNetwork(soft, 3).decision_function(X), "use gated=1")
    assert best_chains(X, y, soft, 3, gated=1).network.gated == 1
    assert_refused(lambda: best_chains(X, y, soft, 3, gated=1, start=np.ones((2, 2))), "must have weights of shape")


@pytest.mark.parametrize("size", [1e-300, 1e-90, 1e90, 1e200])
def test_weights_of_any_length_make_a_network(size):
    gates = ib.HyperplaneGates(3, 2, seed=1).fit(np.random.default_rng(0).normal(size=(8, 3)))
    for layers, gated in ((2, 1), (3, 1), (3, 3), (4, 3)):
        network = ChainNetwork.from_weights(gates, np.full((6, 3), size), layers, gated=gated)
        np.testing.assert_allclose(network.effective_weights() / size, 1, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-155, 1e200])
def test_inputs_whose_powers_leave_the_range_of_floats_are_refused(scale):
    X, y = np.random.default_rng(0).normal(size=(8, 3)) * scale, [1, -1] * 4
    assert_refused(lambda: best_chains(X, y, ib.HyperplaneGates(3, 2, seed=1).fit(X)), "rescale")
    gates = ib.HyperplaneGates(3, 2, seed=1).fit(X / scale)
    assert_refused(lambda: best_chains(X / scale, y, gates, 101), "layers must be at most 100")
    assert_refused(lambda: best_chains(X / scale, y, gates, start=ib.GatedLinearNetwork(gates)), "be a ChainNetwork")
