"""Problems of every shape: few features, many groups. Each path is forced onto small problems; all agree."""

import dataclasses
import itertools
import zlib

import numpy as np
import pytest
import torch

from implicit_bias import GatedFeatures, GroupLasso, HyperplaneGates, MarginProblem, Status, solve, svm_gln
from implicit_bias.solvers.native import (
    chunked,
    coordinate_ascent,
    gated_kernels,
    group_set,
    interior_point,
    kernels,
    scaled,
    working_set,
)
from implicit_bias.solvers.native.arrays import library, lu_factor, lu_solve
from implicit_bias.solvers.native.cholesky import cholesky_, cholesky_solve
from implicit_bias.solvers.native.factors import Columns, DenseFactor, LowRankFactor
from tests.cases import FEATURES, PAIRS, problem


@pytest.fixture
def by_groups(monkeypatch):
    """Few groups start, and few join, however many there are."""
    for name in ("ALL_UP_TO", "TIMES", "FIRST_SHARE"):
        monkeypatch.setattr(group_set, name, 0)
    monkeypatch.setattr(group_set, "FIRST", 2)


@pytest.fixture
def sorted_first(monkeypatch):
    """However few the samples and whatever it saves, margins are sorted first; few samples surely stay free."""
    monkeypatch.setattr(working_set, "ALL_UP_TO", 0)
    monkeypatch.setattr(working_set, "FIRST", 5)
    monkeypatch.setattr(working_set, "NEAREST", 2)
    monkeypatch.setattr(scaled, "AT_ONCE", 0)
    monkeypatch.setattr(coordinate_ascent, "PRICED", -1.0)


def through_features(monkeypatch, few):
    """Every step through the features, or none; of any number of inputs through products of these."""
    monkeypatch.setattr(scaled, "WIDE", 1)
    for module in (kernels, scaled):
        monkeypatch.setattr(module, "low_rank", lambda columns, samples: few)


def variants(gate, norm):
    """Two problems, in turn: hard and soft, with a free intercept, with margins of one's own, by gates, as blocks."""
    weights = np.linspace(0.5, 2.0, problem(gate, norm).features.n)
    parts = [{"intercept": True}, {}, {"required_margin": weights, "sample_weight": weights[::-1]}]
    kinds = ["gated"] if norm.startswith("predictor") else ["gated", "kernels"]
    place = zlib.crc32(f"{gate}, {norm}".encode())
    every = list(itertools.product((0.3, np.inf), parts, kinds))
    for C, changes, kind in (every[place % len(every)], every[(5 * place + 3) % len(every)]):
        case = problem(gate, norm, C)
        yield dataclasses.replace(case, features=FEATURES[kind](case.features), **changes)


def agree(one, other):
    """Both are certified, and their bounds overlap; or both say that nothing separates."""
    assert one.status.inseparable == other.status.inseparable
    if not one.status.inseparable:
        assert (one.status, other.status) == (Status.OPTIMAL, Status.OPTIMAL)
        assert one.lower_bound <= other.objective
        assert other.lower_bound <= one.objective


def agree_with_all_at_once(case, monkeypatch):
    """Working sets, and all samples at once."""
    one = solve(case, "NATIVE", tol=1e-7)
    with monkeypatch.context() as patch:
        patch.setattr(working_set, "ALL_UP_TO", 10**9)
        agree(one, solve(case, "NATIVE", tol=1e-7))


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_steps_through_features_and_through_kernels_agree(gate, norm, monkeypatch):
    for case in variants(gate, norm):
        through_features(monkeypatch, True)
        one = solve(case, "NATIVE", tol=1e-7)
        through_features(monkeypatch, False)
        agree(one, solve(case, "NATIVE", tol=1e-7))


@pytest.mark.usefixtures("by_groups")
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_working_sets_of_groups_agree_with_all_groups(gate, norm, monkeypatch):
    for case in variants(gate, norm):
        one = solve(case, "NATIVE", tol=1e-7)
        monkeypatch.setattr(group_set, "ALL_UP_TO", 10**9)
        agree(one, solve(case, "NATIVE", tol=1e-7))
        monkeypatch.setattr(group_set, "ALL_UP_TO", 0)


@pytest.mark.usefixtures("sorted_first")
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_samples_at_their_price_as_one_row_agree_with_all_by_themselves(gate, norm, few, monkeypatch):
    """Soft margins, where most or some samples are at their price."""
    through_features(monkeypatch, few)
    for C, case in zip((0.3, 0.01) if few else (0.003, 0.03), variants(gate, norm), strict=True):
        agree_with_all_at_once(dataclasses.replace(case, C=C), monkeypatch)


@pytest.mark.usefixtures("sorted_first")
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_samples_that_carry_the_weights_first_agree_with_all_at_once(gate, norm, partial, monkeypatch):
    """Hard margins, separable or not, and so dear a slack that few samples are at their price.

    A first draw of few says how large η is. As where steps take whole factors, and where they take partial ones.
    """
    if partial:
        monkeypatch.setattr(gated_kernels, "PATIENCE", 0)
        monkeypatch.setattr(scaled.GatedProblem, "partial", lambda ours, samples: True)
    monkeypatch.setattr(coordinate_ascent, "PRICED", 2.0)
    monkeypatch.setattr(coordinate_ascent, "DRAWN", 5)
    monkeypatch.setattr(working_set, "FEW", 3)
    for C, case in zip((3.0, np.inf), variants(gate, norm), strict=True):
        agree_with_all_at_once(dataclasses.replace(case, C=C), monkeypatch)


@pytest.mark.usefixtures("sorted_first")
def test_hard_margins_are_sorted_first(monkeypatch):
    """Of the samples that the weights are carried by few are missing from the first working set, and few too many."""
    monkeypatch.setattr(working_set, "FEW", 3)
    X = np.random.default_rng(1).normal(size=(400, 40))
    case = svm_gln(X, np.where(X[:, 0] + 0.5 * X[:, 1] * X[:, 2] > 0, 1.0, -1.0), HyperplaneGates(6, 2, seed=1))
    sizes = []
    found = solve(case, "NATIVE", tol=1e-7, callback=lambda told: sizes.append(told.working_set))
    first = next(size for size in sizes if size < case.features.n)
    assert abs(first - len(found.support)) < 0.2 * len(found.support)
    agree(found, solve(case, "CLARABEL", tol=1e-7))


@pytest.mark.parametrize(("partial", "epochs"), [(False, 2), (True, 5)])
def test_samples_too_many_for_a_whole_factor_are_sorted_for_longer(partial, epochs, gln, monkeypatch):
    for name, value in {"EPOCHS": 2, "LONGEST": 5, "LOOSE": 0.0}.items():
        monkeypatch.setattr(coordinate_ascent, name, value)
    monkeypatch.setattr(scaled.GatedProblem, "partial", lambda ours, samples: partial)
    ours, seen = chunked.scaled(gln, gln.norm.group_form(gln.features.k), "cpu"), []
    coordinate_ascent.ascend(ours, 0.0, 100, lambda epoch, bounds: seen.append(epoch))
    assert seen == list(range(1, epochs + 1))


@pytest.mark.parametrize(("constants", "sorts"), [({}, True), ({"VISITS": 0}, False), ({"EPOCHS": 3}, False)])
def test_few_features_are_sorted_unless_that_costs_too_much_or_tells_too_little(constants, sorts, monkeypatch):
    """Else all samples are solved for at once; the answer is the same."""
    X = np.random.default_rng(0).normal(size=(1500, 10))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0.5, 1.0, -1.0)
    case, sizes = svm_gln(X, y, HyperplaneGates(6, 2, seed=1).fit(X), C=0.01), []
    for name, value in constants.items():
        monkeypatch.setattr(coordinate_ascent, name, value)
    one = solve(case, "NATIVE", tol=1e-7, callback=lambda told: sizes.append(told.working_set))
    assert (set(sizes) != {case.features.n}) == sorts
    monkeypatch.setattr(working_set, "ALL_UP_TO", 10**9)
    agree(one, solve(case, "NATIVE", tol=1e-7))


@pytest.mark.usefixtures("sorted_first")
@pytest.mark.parametrize("priced", [-1.0, 2.0])
@pytest.mark.parametrize("gate", sorted({gate for gate, _ in PAIRS}))
def test_first_sets_that_are_too_small_agree_with_clarabel(gate, priced, monkeypatch):
    """Five of 30 samples, sorted as where many or few are at their price."""
    monkeypatch.setattr(coordinate_ascent, "PRICED", priced)
    monkeypatch.setattr(working_set, "SUPPORTING", 5)
    for case in variants(gate, "frobenius"):
        case = dataclasses.replace(case, C=1.0)
        agree(solve(case, "NATIVE", tol=1e-7), solve(case, "CLARABEL", tol=1e-7))


@pytest.mark.parametrize("seed", range(3))
def test_rescaling_keeps_margins_and_finds_the_best_multiple(seed):
    """Of all tη with λ/t, ½ Σ (‖W_h‖²/(tη_h) + tη_h) is least; prices bound λ/t."""
    case = dataclasses.replace(problem(*PAIRS[seed]), C=1e6)
    ours = chunked.scaled(case, case.norm.group_form(case.features.k), "cpu")
    at = coordinate_ascent.Ascent(ours)
    at.pass_over_all(np.arange(ours.n), 0.3)
    before, sizes = at.margins(), (at.eta**2 * ours.squares(at.V), at.eta)

    def cost(t):
        return float((sizes[0] / (t * sizes[1]) + t * sizes[1]).sum())

    at.rescale()
    t = float(at.eta[0] / sizes[1][0])
    np.testing.assert_allclose(at.margins(), before, rtol=1e-9, atol=1e-12)
    assert cost(t) <= min(cost(0.99 * t), cost(1.01 * t))
    dear = dataclasses.replace(case, C=float((ours.dual(at.lam)).max()) * 1.01)
    bounded = coordinate_ascent.Ascent(chunked.scaled(dear, case.norm.group_form(case.features.k), "cpu"))
    bounded.lam, bounded.V, bounded.eta = at.lam.copy(), at.V.copy(), 100 * at.eta
    bounded.rescale()
    assert (bounded.lam <= bounded.prices * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(5))
def test_low_rank_factors_solve_like_dense_ones(seed):
    """Also where the diagonal holds numbers that are nearly 0, as at the end of a descent."""
    rng = np.random.default_rng(seed)
    B, D, right = rng.normal(size=(40, 7)), 10.0 ** rng.uniform(-9, 3, 40), rng.normal(size=(40, 3))
    matrix = B @ B.T + np.diag(D)
    few, full = LowRankFactor(Columns(B), D).solve(right), DenseFactor(matrix.copy()).solve(right)
    assert np.linalg.norm(matrix @ few - right) <= 1e-6 * np.linalg.norm(right)
    np.testing.assert_allclose(few, full, rtol=1e-5, atol=1e-5 * abs(full).max())


@pytest.mark.parametrize("bordered", [False, True])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
@pytest.mark.parametrize("gates", ["signs", "half-spaces", "any"])
def test_features_of_many_inputs_are_factorised_as_if_they_were_kept(gates, move, bordered):
    """Of gate values of one size, of 0 and 1, and of any; with a row more that is no product of gates and inputs."""
    rng = np.random.default_rng(0)
    X, G, share = rng.normal(size=(60, 5)), rng.normal(size=(60, 3)), np.eye(3)[:, [0, 1, 1]]
    G = {"signs": np.array([1.0, 2.0, 0.5]) * np.sign(G), "half-spaces": 1.0 * (G > 0), "any": G}[gates]
    both = [gated_kernels.GatedKernels(move(X), move(G), move(share), True, wide) for wide in (False, True)]
    A = move(rng.normal(size=(3, 5)))
    both = [gated_kernels.BorderedKernels(own, A) for own in both] if bordered else both
    ours = both[0]
    eta, D, right = (move(values) for values in (rng.random(3), 10.0 ** rng.uniform(-3, 3, ours.n), np.eye(ours.n)))
    kept, found = (one.factor(eta, D) for one in both)
    kinds = [factor.B.B if bordered else factor.B for factor in (kept, found)]
    assert [type(kind) for kind in kinds] == [Columns, gated_kernels.ScaledFeatures]
    np.testing.assert_allclose(found.B.size, kept.B.size, rtol=1e-12)
    np.testing.assert_allclose(found.B.moment(1 / D), kept.B.moment(1 / D), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.product(right[0]), kept.product(right[0]), rtol=1e-9, atol=1e-9)
    whole = ours.weighted(eta) + library(D).diag(D)
    np.testing.assert_allclose(whole @ found.solve(right), np.eye(ours.n), atol=1e-7)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_gates_that_are_never_open_leave_the_slack(device):
    """Of many inputs no features are left: all samples pay their price."""
    X = np.random.default_rng(0).normal(size=(40, 70))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    case = MarginProblem(GatedFeatures(X, np.zeros((40, 3))), y, GroupLasso([0, 1, 2]), C=1.0, intercept=True)
    found = solve(case, "NATIVE", device=device)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(2 * min((y > 0).sum(), (y < 0).sum()))


@pytest.mark.parametrize("seed", range(3))
def test_what_rounding_hides_of_a_diagonal_counts_as_what_it_leaves(seed):
    """Divided by less than that, the rounding of the other terms would be all of a solution."""
    rng = np.random.default_rng(seed)
    B, right = rng.normal(size=(40, 7)), rng.normal(size=(40, 3))
    D, least = 10.0 ** rng.uniform(-30, 0, 40), 1e-14 * (B**2).sum() / 40
    found = LowRankFactor(Columns(B), D).solve(right)
    np.testing.assert_allclose(found, LowRankFactor(Columns(B), np.maximum(D, least)).solve(right), rtol=1e-6)
    assert abs(found).max() <= 2 * abs(right).max() / least


@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_factors_without_columns_are_the_diagonal(move):
    """As features that are all zero have."""
    D, right = np.array([2.0, 4.0]), np.ones((2, 3))
    found = LowRankFactor(Columns(move(np.zeros((2, 0)))), move(D)).solve(move(right))
    np.testing.assert_array_equal(found, right / D[:, None])


@pytest.mark.parametrize("n", [1, 40, 300, 600])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_factors_in_place_are_those_of_the_matrix(n, move):
    """Also of more columns than are factorised at a time; what is not positive definite is told."""
    rng = np.random.default_rng(n)
    A, right = rng.normal(size=(n, n + 5)), rng.normal(size=(n, 3))
    matrix = A @ A.T + n * np.eye(n)
    L = move(matrix.copy())
    assert cholesky_(L)
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-10 * n)
    np.testing.assert_allclose(cholesky_solve(L, move(right)), np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-12)
    matrix[-1, -1] = -1.0
    assert not cholesky_(move(matrix))
    border = A[:, :n] + A[:, :n].T
    found = lu_solve(lu_factor(move(border)), move(right[:, 0].copy()))
    np.testing.assert_allclose(border @ np.asarray(found), right[:, 0], rtol=1e-6, atol=1e-8)
    assert lu_factor(move(np.zeros((n, n)))) is None


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_the_same_numbers_with_torch(gate, norm):
    for case in variants(gate, norm):
        here, there = (solve(case, "NATIVE", tol=1e-8, device=place) for place in ("cpu", "cpu:0"))
        agree(here, there)
        if here.status is Status.OPTIMAL:
            assert here.objective == pytest.approx(there.objective, rel=1e-9)


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


@pytest.mark.parametrize("device", ["cpu:0", pytest.param("cuda", marks=on_a_gpu)])
@pytest.mark.parametrize("path", ["by_groups", "sorted_first", "tiny_sets", "sparse", "few", "priced"])
def test_the_same_numbers_with_torch_whichever_way_is_taken(path, device, request, monkeypatch, gln):
    """Working sets of groups and samples, those at their price as one row, a sparse share, the features themselves."""
    if path in ("sparse", "few"):
        monkeypatch.setattr(scaled, "DENSE_UP_TO", 0)
        through_features(monkeypatch, path == "few")
    else:
        request.getfixturevalue("sorted_first" if path == "priced" else path)
        through_features(monkeypatch, path == "priced")
    for C in (np.inf, 0.03):
        case = dataclasses.replace(gln, C=C)
        here, there = (solve(case, "NATIVE", tol=1e-8, device=place) for place in ("cpu", device))
        agree(here, there)
        assert here.objective == pytest.approx(there.objective, rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_prices_over_eight_decades_are_solved_for(seed):
    """Rounding hides the smallest of the normal matrices' diagonals."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(56, 5)), np.where(rng.random(56) < 0.5, 1.0, -1.0)
    case = svm_gln(X, y, HyperplaneGates(5, 1, seed=1).fit(X), C=5e4)
    case = dataclasses.replace(case, sample_weight=10.0 ** rng.uniform(-4, 4, 56))
    assert solve(case, "NATIVE").status is Status.OPTIMAL


def many_groups(n=60, H=900, d=8):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    G = (X @ rng.normal(size=(d, H)) > 0).astype(float)
    y = np.sign(X @ rng.normal(size=d) + np.sin(3 * X[:, 0]))
    return MarginProblem(GatedFeatures(X, G), y, GroupLasso(range(H)))


def test_many_groups_are_solved_for_in_working_sets():
    case = many_groups()
    seen = []
    found = solve(case, "NATIVE", callback=seen.append)
    assert found.status is Status.OPTIMAL
    # Samples are fewer than groups, and so are the groups with weights.
    assert np.count_nonzero(found.weights.any(axis=1)) < case.features.n + group_set.FIRST
    lower, upper = ([getattr(one, name) for one in seen] for name in ("lower_bound", "objective"))
    best = (found.objective + found.lower_bound) / 2
    assert all(low <= best * (1 + 1e-6) and best <= high * (1 + 1e-6) for low, high in zip(lower, upper, strict=True))
    assert all(np.diff(lower) >= 0)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(upper))
    assert [one.iteration for one in seen] == sorted(one.iteration for one in seen)
    again = solve(case, "NATIVE", start=found)
    assert again.status is Status.OPTIMAL
    assert again.iterations < found.iterations


def test_limits_end_the_rounds_of_groups_with_the_best_so_far():
    case = many_groups()
    found = solve(case, "NATIVE", max_iterations=15)
    assert found.status is Status.ITERATION_LIMIT
    assert found.iterations <= 15
    assert found.objective < np.inf


def test_groups_that_do_not_separate_lead_to_those_that_do(monkeypatch):
    """One group in 700 tells the two classes apart, and it is not the largest."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 2)), np.repeat([1.0, -1.0], 15)
    G = np.ones((30, 700))
    G[:, 400] = 0.1 * y / X[:, 0]
    found = solve(MarginProblem(GatedFeatures(X, G), y, GroupLasso(range(700))), "NATIVE")
    assert found.status is Status.OPTIMAL
    assert np.flatnonzero(np.linalg.norm(found.weights, axis=1) > 1e-3 * found.objective).tolist() == [400]


def test_inseparable_data_of_many_groups_are_proved_so():
    case = many_groups()
    X = np.vstack([case.features.X, case.features.X[:1]])
    G = np.vstack([case.features.gate_values, case.features.gate_values[:1]])
    case = MarginProblem(GatedFeatures(X, G), np.append(case.y, -case.y[0]), case.norm)
    assert solve(case, "NATIVE").status is Status.NOT_SEPARABLE


@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_few_features_of_many_samples(wrong):
    """All samples in one set, against CLARABEL."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 4))
    y = np.sign(X @ rng.normal(size=4))
    y[rng.random(3000) < wrong] *= -1
    case = svm_gln(X, y, HyperplaneGates(3, 2, seed=1).fit(X), C=1.0)
    agree(solve(case, "NATIVE"), solve(case, "CLARABEL"))


def rare_class(n=1200, d=15):
    """One sample in ten is of the other class, a little aside; the intercept is free."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(n) % 10 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.5 * (y[:, None] > 0)
    return dataclasses.replace(svm_gln(X, y, HyperplaneGates(4, 2, seed=1).fit(X)), intercept=True)


@pytest.mark.parametrize("C", [0.001, 0.003, 0.01, 0.05])
def test_weights_next_to_zero_need_few_of_the_samples_at_the_margin(C, monkeypatch):
    """At the three smaller prices every common sample is at the margin, and most have no λ between their bounds."""
    monkeypatch.setattr(scaled, "AT_ONCE", 0)
    case, sizes = rare_class().replace(C=C), []
    found = solve(case, "NATIVE", callback=lambda progress: sizes.append(progress.working_set))
    agree(found, solve(case, "CLARABEL"))
    constant = found.objective > 0.999 * C * 2 * (case.y > 0).sum()
    assert constant == (C < 0.05)
    assert max(size for size in sizes if size < case.features.n) < case.features.n / 2


@pytest.mark.parametrize("C", [0.002, 0.01])
def test_steps_that_come_nearer_are_no_standstill(C, monkeypatch):
    """A round may take many steps until its bounds are better than those that it started from."""
    monkeypatch.setattr(scaled, "AT_ONCE", 0)
    monkeypatch.setattr(interior_point, "PATIENCE", 7)
    assert solve(rare_class().replace(C=C), "NATIVE", tol=1e-7).status is Status.OPTIMAL
