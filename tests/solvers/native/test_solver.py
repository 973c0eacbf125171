"""The native solver's rounds, limits, warm starts and other features, on problems small enough for a second opinion."""

import dataclasses
import itertools
import os
import signal
import tracemalloc
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from threadpoolctl import threadpool_info, threadpool_limits

from implicit_bias import (
    ConstantGate,
    Frobenius,
    GatedFeatures,
    GroupLasso,
    HyperplaneGates,
    InputError,
    MarginProblem,
    Status,
    certify,
    load_binary,
    margin_path,
    solve,
    svm_gln,
    svm_l2,
    svm_shallow,
)
from implicit_bias._utils import memory
from implicit_bias.solvers import separability as farkas
from implicit_bias.solvers.native import factors, gated_kernels, kernels, newton, scaled, working_set
from implicit_bias.solvers.native import solver as native
from implicit_bias.solvers.native.interior_point import descend
from tests.cases import PAIRS, problem


@pytest.mark.parametrize("C", [np.inf, 0.05])
@pytest.mark.parametrize("build", [svm_gln, svm_l2])
def test_working_sets_change_the_time_and_not_the_answer(tiny_sets, gln, build, C):
    case = dataclasses.replace(build(gln.features.X, gln.y, gln.gates), C=C)
    seen = []
    found = solve(case, "NATIVE", tol=1e-8, callback=seen.append)
    assert found.status is Status.OPTIMAL
    assert 1 <= min(p.working_set for p in seen) < max(p.working_set for p in seen) <= 300
    assert found.objective == pytest.approx(solve(case, "CLARABEL").objective, rel=2e-6)
    assert [p.iteration for p in seen] == sorted(p.iteration for p in seen)
    assert all(b.lower_bound >= a.lower_bound - 1e-12 for a, b in itertools.pairwise(seen))
    assert found.lower_bound <= min(p.objective for p in seen) * (1 + 1e-9)


@pytest.mark.parametrize("C", [np.inf, 1e-3, 1.0, 10.0, 1e3, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_working_sets_of_random_data_at_every_price(tiny_sets, C, seed):
    """The labels of a plane, a few flipped for soft margins."""
    rng = np.random.default_rng(seed)
    X, G = rng.normal(size=(150, 12)), (rng.random((150, 4)) > 0.4) + 0.1
    w = rng.normal(size=12)
    y = np.sign(X @ w)
    X += 0.05 * y[:, None] * w
    if seed % 2 and np.inf > C:
        y[rng.choice(150, 5)] *= -1
    norm = GroupLasso([0, 1, 1, 2]) if seed < 2 else Frobenius()
    found = solve(MarginProblem(GatedFeatures(X, G), y, norm, C), "NATIVE", tol=1e-7)
    assert found.status is Status.OPTIMAL
    assert found.iterations < 200


@pytest.mark.parametrize("e", [1e-3, 1e-4])
def test_near_conflicts_are_separated(e):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(10, 12))
        X[1] = X[0] + e * rng.normal(size=12)
        y = np.where(rng.random(10) > 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        found = solve(MarginProblem(GatedFeatures(X), y, Frobenius()), "NATIVE")
        assert found.status is Status.OPTIMAL


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_working_sets_of_every_gate_and_norm(tiny_sets, gate, norm):
    case = problem(gate, norm)
    found = solve(case, "NATIVE", tol=1e-8)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(solve(case, "CLARABEL").objective, rel=2e-6)


def test_a_conflict_outside_the_first_working_set_is_found_and_proved(tiny_sets, gln):
    X, y = np.vstack([gln.features.X, gln.features.X[:1]]), np.append(gln.y, -gln.y[0])
    found = solve(svm_gln(X, y, gln.gates), "NATIVE")
    assert found.status is Status.NOT_SEPARABLE
    assert found.farkas_residual <= 1e-13
    np.testing.assert_allclose(found.dual[[0, -1]], 0.5, rtol=1e-6)


def test_required_margins_and_sample_weights_are_scaled_rows_and_prices(gln):
    rng = np.random.default_rng(0)
    m, c = rng.uniform(0.5, 2, 300), rng.uniform(0.2, 5, 300)
    case = dataclasses.replace(gln, required_margin=m, sample_weight=c, C=0.05)
    found = solve(case, "NATIVE", tol=1e-8)
    W, ratio = found.weights, found.margins
    slack = np.maximum(m - ratio, 0)
    assert found.objective == pytest.approx(case.norm.value(W) + 0.05 * c @ slack, rel=1e-9)
    assert (found.dual <= 0.05 * c * (1 + 1e-9)).all()
    assert found.objective == pytest.approx(solve(case, "CLARABEL").objective, rel=2e-6)
    hard = dataclasses.replace(gln, required_margin=m)
    answer = solve(hard, "NATIVE", tol=1e-8)
    assert (answer.margins / m).min() == pytest.approx(1, abs=1e-9)
    rows = GatedFeatures(gln.features.X / m[:, None], gln.features.gate_values)
    assert answer.objective == pytest.approx(solve(MarginProblem(rows, gln.y, gln.norm)).objective, rel=1e-6)


def test_group_weights_are_scaled_gates():
    case = problem("contexts 2", "group lasso")
    weights = np.array([0.5, 1.0, 2.0, 8.0])
    weighted = dataclasses.replace(case, norm=GroupLasso(case.norm.groups, weights))
    gates = case.features.gate_values / weights[case.norm.index]
    scaled = MarginProblem(GatedFeatures(case.features.X, gates), case.y, case.norm)
    ours, other = solve(weighted, tol=1e-8), solve(scaled, tol=1e-8)
    assert ours.objective == pytest.approx(other.objective, rel=1e-7)
    assert ours.objective == pytest.approx(solve(weighted, "CLARABEL").objective, rel=2e-6)


def test_brute_force_over_two_weights():
    X = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, -1.5], [0.5, -2.0]])
    G = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    case = MarginProblem(GatedFeatures(X, G), [1, 1, -1, -1], GroupLasso([0, 1], [1.0, 1.7]), 0.6)

    def objective(w):
        W = w.reshape(2, 2)
        return case.norm.value(W) + 0.6 * np.maximum(1 - case.margins(W), 0).sum()

    rng = np.random.default_rng(0)
    tries = [minimize(objective, rng.normal(size=4), method="Powell", options={"xtol": 1e-10}) for _ in range(30)]
    best = min(t.fun for t in tries)
    assert best * (1 - 3e-4) <= solve(case, "NATIVE", tol=1e-9).objective <= best


def test_closed_form_for_two_units_of_two_contexts():
    """One sample a global context: minimise the closed form ½[(|β₁₁−β₁₂| + |β₁₁−β₂₁|)² + (β₁₂+β₂₁)²] over their β."""
    x = np.array([0.7, -1.3, 0.4, 2.1])
    y = np.sign(x)
    G = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]], dtype=float)
    found = solve(MarginProblem(GatedFeatures(x[:, None], G), y, GroupLasso([0, 0, 1, 1])), "NATIVE", tol=1e-10)

    def norm_over_margin(three):
        b11, b12, b21 = three
        margin = (np.abs(x) * [b11, b12, b21, b12 + b21 - b11]).min()
        square = ((abs(b11 - b12) + abs(b11 - b21)) ** 2 + (b12 + b21) ** 2) / 2
        return np.sqrt(square) / margin if margin > 0 else np.inf

    rng = np.random.default_rng(0)
    options = {"xatol": 1e-12, "fatol": 1e-12, "maxiter": 20000, "maxfev": 20000}
    starts = rng.uniform([1, 3, 3], [3, 5, 5], size=(20, 3))
    best = min(minimize(norm_over_margin, s, method="Nelder-Mead", options=options).fun for s in starts)
    assert found.objective == pytest.approx(best, rel=1e-6)


def test_a_warm_start_needs_fewer_samples(gln):
    cold = solve(gln, "NATIVE", tol=1e-8)
    seen = []
    warm = solve(gln, "NATIVE", tol=1e-8, start=cold, callback=seen.append)
    assert warm.status is Status.OPTIMAL
    assert warm.objective == pytest.approx(cold.objective, rel=1e-7)
    assert max(p.working_set for p in seen) < 300


def test_a_start_for_other_samples_is_refused(gln):
    with pytest.raises(InputError, match="start is a solution for 30 samples, the problem has 300"):
        solve(gln, start=solve(problem("constant", "frobenius")))


def test_the_margin_path_follows_the_price(gln):
    prices = [1e-4, 1e-3, 1e-2, 0.1, 1.0, np.inf]
    path = margin_path(gln, prices, tol=1e-7)
    for C, point in zip(prices, path, strict=True):
        assert point.status is Status.OPTIMAL
        assert point.objective == pytest.approx(solve(dataclasses.replace(gln, C=C)).objective, rel=3e-6)
    # The optimum rises with the price: no lower bound exceeds what is reached at the next.
    assert all(less.lower_bound <= more.objective for less, more in itertools.pairwise(path))
    assert path[0].objective < path[2].objective < path[-1].objective


def test_no_weights_are_best_when_slack_is_cheap(gln):
    found = solve(dataclasses.replace(gln, C=1e-7), "NATIVE")
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(300 * 1e-7)
    assert not found.weights.any()


def test_samples_without_an_open_gate_pay_their_price():
    case = problem("contexts 2", "group lasso")
    G = np.vstack([case.features.gate_values, np.zeros((1, 8))])
    X = np.vstack([case.features.X, np.ones((1, 12))])
    soft = MarginProblem(GatedFeatures(X, G), np.append(case.y, 1.0), case.norm, 0.5)
    rest = dataclasses.replace(case, C=0.5)
    assert solve(soft, tol=1e-8).objective == pytest.approx(solve(rest, tol=1e-8).objective + 0.5, rel=1e-7)
    everything = MarginProblem(GatedFeatures(X, 0 * G), np.append(case.y, 1.0), case.norm, 0.5)
    assert solve(everything).objective == pytest.approx(31 * 0.5)


def test_the_time_limit_gives_the_best_answer_so_far(gln):
    found = solve(gln, "NATIVE", tol=1e-9, max_seconds=1e-9)
    assert found.status is Status.TIME_LIMIT
    assert found.iterations == 0
    assert 0 < found.lower_bound <= solve(gln).objective


def test_an_iteration_that_would_overrun_the_time_limit_is_not_begun(gln, monkeypatch):
    """A clock on which every iteration takes three times as long as the one before."""
    times = itertools.chain([0.0], (3.0**k for k in itertools.count()))
    monkeypatch.setattr(native, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    seen = []
    found = solve(gln, "NATIVE", tol=1e-9, max_seconds=40.0, callback=seen.append)
    assert found.status is Status.TIME_LIMIT
    # At 27 s the next one would end at 45 s even if it took no longer than the last.
    assert [p.seconds for p in seen] == [1, 3, 9, 27]


def test_what_needs_more_memory_than_is_free_is_refused_before_it_starts(gln, monkeypatch):
    need = native.scaled(gln, gln.norm.group_form(gln.features.k), "cpu").need(300)
    for free, refused in ((0.99 * need, True), (1.01 * need, False)):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        with pytest.raises(InputError, match=r"needs about 0.0 GiB .* use fewer") if refused else nullcontext():
            assert solve(gln).status is Status.OPTIMAL
    many = svm_gln(gln.features.X, gln.y, HyperplaneGates(1000, 2, seed=1))
    assert native.scaled(many, many.norm.group_form(2000), "cpu").need(300) > 16 * 1000**2


def test_a_working_set_that_outgrows_the_memory_ends_the_rounds_with_what_is_there(tiny_sets, gln, monkeypatch):
    need = native.scaled(gln, gln.norm.group_form(gln.features.k), "cpu").need(25)
    monkeypatch.setattr(memory, "free_memory", lambda: need)
    found = solve(gln, "NATIVE")
    assert found.status is Status.INACCURATE
    assert "GiB of memory" in found.reason
    assert found.iterations > 0
    assert 0 < found.lower_bound <= solve_with_room(monkeypatch, gln).objective * (1 + 1e-9)


def solve_with_room(monkeypatch, problem):
    monkeypatch.undo()
    return solve(problem)


@pytest.mark.parametrize("single", [False, True])
def test_steps_take_the_memory_that_was_counted(gln, single, monkeypatch):
    if single:
        for module in (kernels, scaled):
            monkeypatch.setattr(module, "SINGLE_FROM", 1)
    ours = native.scaled(gln, gln.norm.group_form(gln.features.k), "cpu")
    assert taken_by_three_steps(ours) <= ours.need(300) < 3 * taken_by_three_steps(ours)


def test_steps_by_partial_factors_take_the_memory_that_was_counted(monkeypatch):
    """At their largest."""
    task = load_binary("digits", train_size=1400)
    case = svm_gln(task.X_train, task.y_train, HyperplaneGates(12, 2, seed=1).fit(task.X_pool))
    for module, name, value in (
        *((module, "PATIENCE", 0) for module in (gated_kernels, scaled)),
        *((module, "PIVOTS", 32) for module in (factors, scaled)),
        (factors, "LEFT", 0.0),
        (gated_kernels.GatedKernels, "patience", 10**6),
    ):
        monkeypatch.setattr(module, name, value)
    ours = native.scaled(case, case.norm.group_form(case.features.k), "cpu")
    assert taken_by_three_steps(ours) <= ours.need(1400) < 3 * taken_by_three_steps(ours)


@pytest.mark.parametrize("priced", [0, 400])
@pytest.mark.parametrize(("d", "H", "empty"), [(8, 6, 0), (100, 12, 0), (70, 12, 10)])
def test_steps_through_the_features_take_the_memory_that_was_counted(d, H, empty, priced):
    """Also with samples at their price in one row, and where no feature is kept, however few inputs are left."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, d))
    X[:, d - empty :] = 0
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0, 1.0, -1.0)
    case = svm_gln(X, y, HyperplaneGates(H, 2, seed=1).fit(X), C=1.0)
    ours = native.scaled(case, case.norm.group_form(case.features.k), "cpu")
    taken = taken_by_three_steps(ours, priced)
    assert taken <= ours.need(6000) < 3 * taken


def taken_by_three_steps(ours, priced=0):
    program = ours.program(np.arange(priced, ours.n), np.arange(priced))
    tracemalloc.start()
    try:
        descend(program, 1e-9, 3, None, lambda iteration, bounds: None)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_where_doubles_do_not_fit_a_step_of_single_precision_is_the_last(gln, monkeypatch):
    monkeypatch.setattr(kernels, "SINGLE_FROM", 1)
    monkeypatch.setattr(newton, "ASTRAY", 0.0)
    monkeypatch.setattr(newton, "ENOUGH", 0.0)
    need = native.scaled(gln, gln.norm.group_form(gln.features.k), "cpu").need(300)
    free = iter([need, need, *([0.0] * 9)])
    monkeypatch.setattr(memory, "free_memory", lambda: next(free))
    found = solve(gln, "NATIVE")
    assert found.status is Status.INACCURATE
    assert "double precision needs about" in found.reason
    assert found.lower_bound > 0


def test_no_proof_is_sought_that_memory_has_no_room_for(gln, monkeypatch):
    features = gln.features.select(np.arange(20))
    assert farkas._in_null_space(features, np.ones(20), 0.0) is not None
    monkeypatch.setattr(farkas, "free_memory", lambda: 0.0)
    assert farkas._in_null_space(features, np.ones(20), 0.0) is None


def test_a_system_that_breaks_down_between_two_steps_ends_with_the_best_so_far(gln, monkeypatch):
    real, calls = newton.NewtonSystem.direction, iter(range(100))

    def direction(*arguments):
        if next(calls) == 9:
            raise ArithmeticError("the bordered system is singular")
        return real(*arguments)

    monkeypatch.setattr(newton.NewtonSystem, "direction", direction)
    found = solve(gln, "NATIVE")
    assert found.status is Status.INACCURATE
    assert found.lower_bound > 0


def test_errors_of_a_callback_are_the_callers(gln):
    """Of whichever kind: arithmetic that breaks down in the solver is another matter."""
    with pytest.raises(ZeroDivisionError):
        solve(gln, "NATIVE", callback=lambda told: 1 // (told.iteration - told.iteration))


@pytest.mark.parametrize(("astray", "enough"), [(1e-2, 0.0), (0.0, 1e-3), (0.0, 0.0)])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_factors_of_single_precision_lead_to_the_same_answer(gate, norm, astray, enough, monkeypatch):
    """Refined, by conjugate gradients, and where refining is given up."""
    case = problem(gate, norm, 0.5)
    exact = solve(case, "NATIVE", tol=1e-8)
    monkeypatch.setattr(kernels, "SINGLE_FROM", 1)
    monkeypatch.setattr(newton, "ASTRAY", astray)
    monkeypatch.setattr(gated_kernels.GatedKernels, "patience", 100)
    monkeypatch.setattr(newton, "ENOUGH", enough)
    single = solve(case, "NATIVE", tol=1e-8)
    assert single.status is Status.OPTIMAL
    assert single.objective == pytest.approx(exact.objective, rel=1e-7)


@pytest.mark.parametrize("C", [np.inf, 0.5])
@pytest.mark.parametrize("patience", [10**6, 0])
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_partial_factors_lead_to_the_same_answer(gate, norm, patience, C, monkeypatch):
    """By conjugate gradients, and where these take too many products."""
    case = problem(gate, norm, C)
    exact = solve(case, "NATIVE", tol=1e-6)
    monkeypatch.setattr(gated_kernels.GatedKernels, "patience", patience)
    monkeypatch.setattr(gated_kernels, "PATIENCE", 0)
    partial = solve(case, "NATIVE", tol=1e-6)
    assert partial.status is exact.status
    assert partial.objective == pytest.approx(exact.objective, rel=2e-6)


def test_partial_factors_alone_lead_to_coarse_answers(gln, monkeypatch):
    exact = solve(gln)
    monkeypatch.setattr(gated_kernels.GatedKernels, "patience", 10**6)
    monkeypatch.setattr(gated_kernels, "PATIENCE", 0)
    monkeypatch.setattr(kernels.GroupKernels, "factor", None)
    found = solve(gln, "NATIVE", tol=1e-2)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(exact.objective, rel=1e-2)


def test_where_a_whole_factor_does_not_fit_a_partial_one_is_the_last(gln, monkeypatch):
    monkeypatch.setattr(gated_kernels.GatedKernels, "patience", 3)
    monkeypatch.setattr(gated_kernels, "PATIENCE", 0)
    need = native.scaled(gln, gln.norm.group_form(gln.features.k), "cpu").need(300)
    free = iter([need, need, *([0.0] * 9)])
    monkeypatch.setattr(memory, "free_memory", lambda: next(free))
    found = solve(gln, "NATIVE")
    assert found.status is Status.INACCURATE
    assert "a step of 300 samples needs about" in found.reason
    assert found.lower_bound > 0


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_many_groups_count_alike_where_few_numbers_say_so(gate, norm, monkeypatch):
    """What belongs to which group, dense and sparse."""
    case = problem(gate, norm, 0.5)
    dense = solve(case, "NATIVE", tol=1e-8)
    monkeypatch.setattr(scaled, "DENSE_UP_TO", 0)
    sparse = solve(case, "NATIVE", tol=1e-8)
    assert sparse.status is Status.OPTIMAL
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_a_dense_start_is_cut_to_what_carries_most(tiny_sets, gln, seed):
    rng, seen = np.random.default_rng(seed), []
    start = dataclasses.replace(solve(gln), dual=rng.random(300) ** rng.uniform(0.1, 3))
    found = solve(gln, "NATIVE", tol=1e-7, start=start, callback=seen.append)
    assert seen[0].working_set == 80
    assert found.status is Status.OPTIMAL


def test_an_interruption_gives_a_certified_answer(gln):
    def stop(progress):
        if progress.gap < 0.1:
            raise KeyboardInterrupt

    found = solve(gln, "NATIVE", tol=1e-9, callback=stop)
    assert found.status is Status.INTERRUPTED
    assert 0 < found.gap < 0.1
    judged = certify(gln, found.weights, found.dual)
    assert judged.gap == pytest.approx(found.gap, rel=1e-6)
    assert solve(gln, "NATIVE", tol=1e-8, start=found).status is Status.OPTIMAL


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_in_the_middle_of_the_work(tiny_sets, gln, request):
    # A shell that starts the tests in its background has them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    found = solve(
        gln, "NATIVE", tol=1e-8, callback=lambda p: os.kill(os.getpid(), signal.SIGINT) if p.iteration == 12 else None
    )
    assert found.status is Status.INTERRUPTED
    assert found.iterations <= 12
    assert found.lower_bound > 0


def test_verbose_shows_lines(gln, capsys):
    solve(gln, "NATIVE", verbose=True)
    text = capsys.readouterr().err.splitlines()
    assert "300 of 300 samples" in text[0]
    assert "gap" in text[-1]
    solve(gln, "NATIVE")
    assert capsys.readouterr() == ("", "")


def test_threads_change_nothing_beyond_the_gap(gln, monkeypatch):
    monkeypatch.setattr(working_set, "MANY_SAMPLES", 10)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            answers.append(solve(gln, "NATIVE", tol=1e-8))
    assert answers[0].objective == pytest.approx(answers[1].objective, rel=1e-8)


def test_large_working_sets_have_all_threads(gln, monkeypatch):
    """However small the first one was."""
    for name, size in {"ALL_UP_TO": 10, "MANY_SAMPLES": 50}.items():
        monkeypatch.setattr(working_set, name, size)
    seen, few = set(), dataclasses.replace(solve(gln), dual=(np.arange(gln.features.n) % 10 == 0).astype(float))

    def note(progress):
        threads = max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        seen.add((progress.working_set >= 50, threads))

    with threadpool_limits(2):
        solve(gln, "NATIVE", callback=note, start=few)
    assert seen == {(False, 1), (True, 2)}


def test_plain_inputs_need_no_gates():
    X = np.array([[2.0, 1.0], [-2.0, 1.0], [1.0, 3.0]])
    plain = solve(MarginProblem(GatedFeatures(X), [1, -1, 1], Frobenius()))
    gated = solve(svm_shallow(X, [1, -1, 1], ConstantGate()))
    assert plain.objective == gated.objective


def test_rank_deficient_inputs_and_more_samples_than_inputs():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    for n in (2, 5, 60):
        rows = np.concatenate([np.flatnonzero(y > 0)[: n // 2], np.flatnonzero(y < 0)[: n - n // 2]])
        found = solve(svm_gln(X[rows], y[rows], HyperplaneGates(3, 2, seed=1).fit(X)), "NATIVE", tol=1e-8)
        assert found.status is Status.OPTIMAL


@pytest.mark.mnist
def test_a_thousand_images_and_a_hundred_units(mnist_root):
    task = load_binary("mnist", 1500, root=mnist_root)
    case = svm_gln(task.X_train, task.y_train, HyperplaneGates(100, 4, seed=1).fit(task.X_pool))
    found = solve(case, tol=1e-8)
    assert found.status is Status.OPTIMAL
    assert found.iterations <= 40


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_arrays_that_must_not_be_written_to_are_taken_without_a_warning(recwarn, device):
    """As the processes of `n_jobs` get them."""
    case = problem("contexts 2", "group lasso", 1.0)
    features = GatedFeatures(case.features.X, case.features.gate_values)
    features.X.flags.writeable = features.gate_values.flags.writeable = False
    torch.set_warn_always(True)
    try:
        found = solve(dataclasses.replace(case, features=features), "NATIVE", device=device)
    finally:
        torch.set_warn_always(False)
    assert found.objective == solve(case, "NATIVE", device=device).objective
    assert [str(each.message) for each in recwarn] == []
