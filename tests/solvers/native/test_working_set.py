"""Working sets of samples and groups, forced onto small problems: they change the time and not the answer."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import implicit_bias as ib
from implicit_bias.solvers.native.scaled import many_bounded
from implicit_bias.solvers.native.screening import screen
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.working_set import SampleSet, Support
from tests.cases import PAIRS, optimal, problem
from tests.solvers.native.shapes import ALL, GATES, SCREENED, UNBOUNDED, agree, in_our_coordinates, native, variants

#: Few groups start, and few join, however many there are.
BY_GROUPS = {"all_groups_up_to": 0, "groups_per_sample": 0, "first_groups_share": 0, "first_groups": 2}
#: Every step through the features, computed when they are needed; or none.
FEATURES_ONLY = {"wide_from": 1, "features_per_sample": np.inf}
KERNELS_ONLY = {"wide_from": 1, "features_per_sample": -1.0}


def agree_with_others(case, settings, others):
    agree(ib.solve(case, native(**settings), tol=1e-7), ib.solve(case, native(**settings | others), tol=1e-7))


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_features_agree_with_kernels_and_sets_of_groups_with_all_groups(gate, norm):
    for case in variants(gate, norm):
        agree_with_others(case, FEATURES_ONLY, KERNELS_ONLY)
        agree_with_others(case, BY_GROUPS, {"all_groups_up_to": 10**9})


@pytest.mark.parametrize("through", [KERNELS_ONLY, FEATURES_ONLY], ids=["kernels", "features"])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_bounded_samples_as_one_row_agree_with_all_at_once(gate, norm, through):
    prices = (0.3, 0.01) if through is FEATURES_ONLY else (0.003, 0.03)
    for C, case in zip(prices, variants(gate, norm), strict=True):
        agree_with_others(dataclasses.replace(case, C=C), SCREENED | through, ALL)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_screened_samples_agree_with_all_at_once(gate, norm, partial):
    """Screened solves agree with those of all samples at once, for hard and soft margins."""
    settings = UNBOUNDED | ({"least_products": 0} if partial else {})
    for C, case in zip((3.0, np.inf), variants(gate, norm), strict=True):
        agree_with_others(dataclasses.replace(case, C=C), settings, ALL)


@pytest.mark.parametrize("bounded", [-1.0, 2.0])
@pytest.mark.parametrize("gate", GATES)
def test_first_sets_that_are_too_small_agree_with_all_at_once(gate, bounded):
    """A first set of five of 30 samples leads to the answer of all, whether many or few are bounded."""
    for case in variants(gate, "frobenius"):
        settings = SCREENED | {"bounded": bounded, "known_support_up_to": 5}
        agree_with_others(dataclasses.replace(case, C=1.0), settings, ALL)


@pytest.mark.parametrize("C", [np.inf, 0.05])
@pytest.mark.parametrize("build", [ib.svm_gln, ib.svm_l2])
def test_progress_of_working_sets(tiny_sets, gln, build, C):
    case = dataclasses.replace(build(gln.features.X, gln.y, gln.gates), C=C)
    seen = []
    found = optimal(case, tiny_sets, tol=1e-8, callback=seen.append)
    assert 1 <= min(p.working_set for p in seen) < max(p.working_set for p in seen) <= 300
    assert found.objective == pytest.approx(ib.solve(case, "CLARABEL").objective, rel=2e-6)
    assert [p.iteration for p in seen] == sorted(p.iteration for p in seen)
    assert all(b.lower_bound >= a.lower_bound - 1e-12 for a, b in itertools.pairwise(seen))
    assert found.lower_bound <= min(p.objective for p in seen) * (1 + 1e-9)


@pytest.mark.parametrize("C", [np.inf, 1e-3, 1.0, 10.0, 1e3, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_working_sets_of_random_data_at_every_price(tiny_sets, C, seed):
    """Working sets certify random problems, separable or with some wrong labels, in under 200 iterations."""
    rng = np.random.default_rng(seed)
    X, G = rng.normal(size=(150, 12)), (rng.random((150, 4)) > 0.4) + 0.1
    w = rng.normal(size=12)
    y = np.sign(X @ w)
    X += 0.05 * y[:, None] * w
    if seed % 2 and np.inf > C:
        y[rng.choice(150, 5)] *= -1
    norm = ib.GroupLasso([0, 1, 1, 2]) if seed < 2 else ib.Frobenius()
    found = optimal(ib.MarginProblem(ib.GatedFeatures(X, G), y, norm, C), tiny_sets, tol=1e-7)
    assert found.iterations < 200


def test_a_conflict_outside_the_first_set_is_found(tiny_sets, gln):
    X, y = np.vstack([gln.features.X, gln.features.X[:1]]), np.append(gln.y, -gln.y[0])
    found = ib.solve(ib.svm_gln(X, y, gln.gates), tiny_sets)
    assert found.status is ib.Status.NOT_SEPARABLE
    assert found.farkas_residual <= 1e-13
    np.testing.assert_allclose(found.dual[[0, -1]], 0.5, rtol=1e-6)


def test_a_solution_as_start_needs_fewer_samples(gln):
    cold = ib.solve(gln, "NATIVE", tol=1e-8)
    seen = []
    warm = optimal(gln, "NATIVE", tol=1e-8, start=cold, callback=seen.append)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-7)
    assert max(p.working_set for p in seen) < 300


@pytest.mark.parametrize("seed", range(4))
def test_a_dense_start_is_cut_to_its_largest_part(tiny_sets, gln, seed):
    rng, seen = np.random.default_rng(seed), []
    start = dataclasses.replace(ib.solve(gln), dual=rng.random(300) ** rng.uniform(0.1, 3))
    found = ib.solve(gln, tiny_sets, tol=1e-7, start=start, callback=seen.append)
    assert seen[0].working_set == 80
    assert found.status is ib.Status.OPTIMAL


def test_large_sets_use_all_threads(gln):
    """Sets of at least `threads_from` samples use all threads, smaller ones one."""
    seen, few = set(), dataclasses.replace(ib.solve(gln), dual=(np.arange(gln.features.n) % 10 == 0).astype(float))

    def note(progress):
        threads = max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        seen.add((progress.working_set >= 50, threads))

    with threadpool_limits(2):
        ib.solve(gln, native(all_samples_up_to=10, threads_from=50), callback=note, start=few)
    assert seen == {(False, 1), (True, 2)}


def test_threads_change_nothing_beyond_the_gap(gln):
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            answers.append(ib.solve(gln, native(threads_from=10), tol=1e-8))
    assert answers[0].objective == pytest.approx(answers[1].objective, rel=1e-8)


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_torch_agrees(gate, norm):
    for case in variants(gate, norm):
        here, there = (ib.solve(case, "NATIVE", tol=1e-8, device=place) for place in ("cpu", "cpu:0"))
        agree(here, there)
        if here.status is ib.Status.OPTIMAL:
            assert here.objective == pytest.approx(there.objective, rel=1e-9)


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
#: Sets of groups and of samples, bounded samples as one row, a sparse share, the features themselves.
PATHS = {
    "groups": BY_GROUPS | KERNELS_ONLY,
    "screened": SCREENED | KERNELS_ONLY,
    "tiny sets": {"all_samples_up_to": 20, "first_samples": 20, "known_support_up_to": 80} | KERNELS_ONLY,
    "sparse": {"dense_share_up_to": 0} | KERNELS_ONLY,
    "features": {"dense_share_up_to": 0} | FEATURES_ONLY,
    "bounded": SCREENED | FEATURES_ONLY,
}


@pytest.mark.parametrize("device", ["cpu:0", pytest.param("cuda", marks=on_a_gpu)])
@pytest.mark.parametrize("path", PATHS)
def test_torch_agrees_on_every_path(path, device, gln):
    for C in (np.inf, 0.03):
        case = dataclasses.replace(gln, C=C)
        here, there = (ib.solve(case, native(**PATHS[path]), tol=1e-8, device=place) for place in ("cpu", device))
        agree(here, there)
        assert here.objective == pytest.approx(there.objective, rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_prices_over_eight_decades(seed):
    """A problem with sample weights over eight decades is certified, although rounding exceeds small diagonals."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(56, 5)), np.where(rng.random(56) < 0.5, 1.0, -1.0)
    case = ib.svm_gln(X, y, ib.HyperplaneGates(5, 1, seed=1).fit(X), C=5e4)
    case = dataclasses.replace(case, sample_weight=10.0 ** rng.uniform(-4, 4, 56))
    assert ib.solve(case, "NATIVE").status is ib.Status.OPTIMAL


def many_groups(n=60, H=900, d=8):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    G = (X @ rng.normal(size=(d, H)) > 0).astype(float)
    y = np.sign(X @ rng.normal(size=d) + np.sin(3 * X[:, 0]))
    return ib.MarginProblem(ib.GatedFeatures(X, G), y, ib.GroupLasso(range(H)))


def test_progress_of_sets_of_groups():
    case = many_groups()
    seen = []
    found = optimal(case, "NATIVE", callback=seen.append)
    # Samples are fewer than groups, and so are the groups with weights.
    assert np.count_nonzero(found.weights.any(axis=1)) < case.features.n + Settings().first_groups
    lower, upper = ([getattr(one, name) for one in seen] for name in ("lower_bound", "objective"))
    best = (found.objective + found.lower_bound) / 2
    assert all(low <= best * (1 + 1e-6) and best <= high * (1 + 1e-6) for low, high in zip(lower, upper, strict=True))
    assert all(np.diff(lower) >= 0)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(upper))
    assert [one.iteration for one in seen] == sorted(one.iteration for one in seen)
    again = optimal(case, "NATIVE", start=found)
    assert again.iterations < found.iterations


def test_a_limit_ends_the_rounds_of_groups():
    found = ib.solve(many_groups(), "NATIVE", max_iterations=15)
    assert found.status is ib.Status.ITERATION_LIMIT
    assert found.iterations <= 15
    assert found.objective < np.inf


def test_the_one_group_that_separates_is_found():
    """The only one of 700 groups that separates, not the largest, has all of the weight."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 2)), np.repeat([1.0, -1.0], 15)
    G = np.ones((30, 700))
    G[:, 400] = 0.1 * y / X[:, 0]
    found = optimal(ib.MarginProblem(ib.GatedFeatures(X, G), y, ib.GroupLasso(range(700))), "NATIVE")
    assert np.flatnonzero(np.linalg.norm(found.weights, axis=1) > 1e-3 * found.objective).tolist() == [400]


def test_inseparable_data_of_many_groups():
    case = many_groups()
    X = np.vstack([case.features.X, case.features.X[:1]])
    G = np.vstack([case.features.gate_values, case.features.gate_values[:1]])
    case = ib.MarginProblem(ib.GatedFeatures(X, G), np.append(case.y, -case.y[0]), case.norm)
    assert ib.solve(case, "NATIVE").status is ib.Status.NOT_SEPARABLE


@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_few_features_of_many_samples(wrong):
    """A problem of few features and 3000 samples, solved as one set, agrees with Clarabel."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 4))
    y = np.sign(X @ rng.normal(size=4))
    y[rng.random(3000) < wrong] *= -1
    case = ib.svm_gln(X, y, ib.HyperplaneGates(3, 2, seed=1).fit(X), C=1.0)
    agree(ib.solve(case, "NATIVE"), ib.solve(case, "CLARABEL"))


def rare_class(n=1200, d=15):
    """Return a problem with a free intercept in which every tenth sample is of the other class."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(n) % 10 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.5 * (y[:, None] > 0)
    return dataclasses.replace(ib.svm_gln(X, y, ib.HyperplaneGates(4, 2, seed=1).fit(X)), intercept=True)


@pytest.mark.parametrize("C", [0.001, 0.003, 0.01, 0.05])
def test_weights_near_zero_need_few_of_the_samples_at_the_margin(C):
    """Working sets stay below half of the samples although for small C the common class is all at the margin."""
    case, sizes = dataclasses.replace(rare_class(), C=C), []
    found = ib.solve(case, native(all_products_up_to=0), callback=lambda progress: sizes.append(progress.working_set))
    agree(found, ib.solve(case, "CLARABEL"))
    constant = found.objective > 0.999 * C * 2 * (case.y > 0).sum()
    assert constant == (C < 0.05)
    assert max(size for size in sizes if size < case.features.n) < case.features.n / 2


@pytest.mark.parametrize("C", [0.002, 0.01])
def test_steps_that_reduce_the_gap_count_as_progress(C):
    """A round with many steps before its bounds improve is not given up as stalled."""
    solver = native(all_products_up_to=0, patience=7)
    assert ib.solve(dataclasses.replace(rare_class(), C=C), solver, tol=1e-7).status is ib.Status.OPTIMAL


def test_rounds_start_near_the_solution_of_the_last_one(gln):
    """Warm starts of rounds save at least a fifth of the iterations."""
    settings = {"all_samples_up_to": 20, "first_samples": 20, "least_samples": 20, "epochs_unsettled": 0}
    far = {"warm_share": np.inf, "warm_gap": np.inf}
    case = dataclasses.replace(gln, C=0.05)
    warm, cold = (ib.solve(case, native(**settings | more), tol=1e-8) for more in ({}, far))
    agree(warm, cold)
    assert warm.iterations < 0.8 * cold.iterations


def test_violated_samples_are_worst_first(gln):
    """`violated` lists inactive samples below the margin and bounded ones above it, worst first, none of the set."""
    ours = in_our_coordinates(dataclasses.replace(gln, C=1.0))
    members = SampleSet(ours, None, ours.nothing_known(), 1e-6, 100, lambda *progress: None)
    members.rows, members.bounded = np.arange(100), np.arange(100, 110)
    members.f, members.least = np.ones(300), 1.0
    members.f[[7, 105, 106, 200, 201]] = 0.5, 1.5, 0.5, 0.4, 1.5
    found = members.violated().tolist()
    assert found[:2] == [200, 105]
    assert not {7, 106, 201} & set(found)


@pytest.mark.parametrize(("least", "merged"), [(300, False), (10, True)])
def test_only_large_sets_merge_samples_at_their_bound(gln, least, merged):
    """A set of at most `least_samples` has a row for each sample with λ > 0, and drops none of them later."""
    ours = in_our_coordinates(dataclasses.replace(gln, C=0.02), all_samples_up_to=0, least_samples=least)
    known = screen(ours, 1e-2, 100, lambda epoch, bounds: None)
    assert many_bounded(known.weights[0], ours.box, ours.settings)
    members = SampleSet(ours, None, known, 1e-7, 100, lambda *progress: None)
    assert (len(members.bounded) > 0) == merged
    first = set(members.rows.tolist())
    found = members.run(strict=True)
    assert found.bounds.gap <= 1e-7
    assert (len(members.bounded) > 0) == merged
    assert merged or first <= set(members.rows.tolist())


def test_free_samples_beyond_the_columns_keep_their_multipliers():
    """Where the best function is constant, far more samples are at the margin than the set has rows; rounds end."""
    rng, sizes = np.random.default_rng(0), []
    X = rng.integers(0, 6, (1500, 3)).astype(float)
    y = np.where((X[:, 0] > 2) ^ (X[:, 1] > 2) ^ (rng.random(1500) < 0.1), 1, -1)
    gates = ib.SubsetGates(30, 4, [[0, 1], [1, 2], [0, 2], [0], [1]], 0).fit(X)
    case = ib.svm_gln(X, y, gates).replace(C=0.02, intercept=True)
    found = ib.solve(case, native(least_samples=20), tol=1e-7, callback=lambda at: sizes.append(at.working_set))
    agree(found, ib.solve(case, "CLARABEL"))
    assert min(sizes) < np.sum(abs(case.margins(found.weights, found.intercept) - 1) < 1e-6) / 2

    ours, limit = in_our_coordinates(case), ib.Status.ITERATION_LIMIT
    known = screen(ours, 1e-2, 100, lambda epoch, bounds: None)
    lam, eta, b = known.weights
    constant = dataclasses.replace(known.bounds, upper=2 * ours.box[ours.positive].sum())
    nearly_zero = dataclasses.replace(known, weights=(lam, 1e-17 * eta, 0 * b - 1), bounds=constant)
    for start, tol in ((known, 1e-17), (nearly_zero, 1e-7)):
        calls = itertools.count()
        members = SampleSet(ours, None, start, tol, 5000, lambda *at: limit if next(calls) > 900 else None)  # noqa: B023
        assert members.run(strict=True).stopped is None


def test_inactive_samples_leave_a_set(gln):
    ours = in_our_coordinates(gln, all_samples_up_to=0, first_samples=150, least_samples=10)
    members = SampleSet(ours, None, ours.nothing_known(), 1e-7, 100, lambda *progress: None)
    first = set(members.rows.tolist())
    found = members.run(strict=True)
    assert found.bounds.gap <= 1e-7
    assert first - set(members.rows.tolist())


def test_inactive_groups_leave_a_set():
    """No group is active for a small C, and a round of few steps does not yet prove that zero weights are optimal."""
    case = dataclasses.replace(many_groups(n=9), C=1e-6, intercept=True)
    found = optimal(case, "NATIVE")
    assert found.objective == pytest.approx(2e-6 * min((case.y > 0).sum(), (case.y < 0).sum()), rel=2e-6)


def test_a_start_without_an_intercept_proves_no_bound_with_one():
    case = problem("contexts 2", "nuclear")
    found = optimal(dataclasses.replace(case, intercept=True), "NATIVE", start=ib.solve(case))
    assert found.objective < 0.999 * ib.solve(case).objective


def test_samples_leave_a_set_for_its_bound_once():
    """Rows below the margin at their bound leave, and inactive ones beyond it, but not the last row of a class."""
    members, none = Support.drawn(np.resize([1.0, -1.0], 8), 3), np.zeros(0, dtype=int)
    members.rows, members.bounded = np.array([0, 1, 6, 7]), np.array([2, 3])
    assert members.outside(np.array([0.0, 9.0, 0.9, 1.2, 0.5, 2.0, 1.0, 1.0]), 8).tolist() == [4, 3]
    f, lam = np.array([0.5, 1.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1e-9, 0.5, 0.5])
    members.renew(np.array([4, 3]), lam, f, np.ones(4), drops=True)
    assert (members.rows.tolist(), members.bounded.tolist()) == ([6, 7, 4, 3], [2, 0])
    # Row 0 has left before.
    for rows, left in (([0, 6, 7], [0, 7]), ([2, 6, 7], [6, 7]), ([4, 7], [4, 7])):
        members.rows, members.bounded = np.array(rows), none
        members.renew(none, np.ones(len(rows)), 0.5 * f, np.ones(len(rows)), drops=False)
        assert members.rows.tolist() == left
