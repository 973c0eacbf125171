"""The interior-point method: compared with Clarabel on random problems, and on difficult ones."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import implicit_bias as ib
from implicit_bias.solvers.native.algebra import as_numpy
from implicit_bias.solvers.native.interior_point import MarginDescent, NewtonSystem, Point, descend
from implicit_bias.solvers.native.loop import upper_bound
from tests.cases import PAIRS, optimal, problem
from tests.solvers.native.shapes import in_our_coordinates, native

#: NumPy, and torch on the CPU.
DEVICES = ("cpu", "cpu:0")


def whole(case, device="cpu", **settings):
    ours = in_our_coordinates(case, device, **settings)
    return ours.program(ours.to_device(np.arange(ours.n)), None, None)


def random_problem(seed, n, d, k, norm, C=np.inf):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, k)) if seed % 2 else (rng.random((n, k)) > 0.4).astype(float)
    if norm == "predictor":
        G = np.eye(4)[rng.integers(0, 4, size=(n, 3))].reshape(n, 12)
        chosen = ib.PredictorL2(3, 4)
    else:
        groups = rng.integers(0, max(1, k // 2), size=k)
        own = ib.GroupLasso(groups, weights=rng.uniform(0.2, 5, size=len(set(groups))) if seed % 3 else 1.0)
        chosen = ib.Frobenius() if norm == "frobenius" else own
    y = np.where(rng.random(n) > 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    extra = {}
    if seed % 5 > 2:
        extra = {"required_margin": rng.uniform(0.1, 3, size=n), "sample_weight": rng.uniform(0.1, 10, size=n)}
    return ib.MarginProblem(ib.GatedFeatures(rng.normal(size=(n, d)), G), y, chosen, C, **extra)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 25),
    d=st.integers(1, 12),
    k=st.integers(1, 6),
    norm=st.sampled_from(["frobenius", "group lasso", "predictor"]),
    C=st.sampled_from([np.inf, 1e-3, 0.1, 1.0, 30.0, 1e4]),
)
@example(seed=1, n=16, d=1, k=1, norm="frobenius", C=30.0).via("steps vanish in the first attempt")
@settings(max_examples=120, deadline=None)
def test_native_and_clarabel_agree(seed, n, d, k, norm, C):
    case = random_problem(seed, n, d, k, norm, C)
    ours, theirs = ib.solve(case, "NATIVE"), ib.solve(case, "CLARABEL")
    if ib.Status.INACCURATE in (ours.status, theirs.status):
        # Hardly separable at all: the bounds must still agree, and we must not be the only ones who fail.
        assert theirs.status is ib.Status.INACCURATE or ours.gap < 1e-4
        assert max(ours.lower_bound, theirs.lower_bound) <= min(ours.objective, theirs.objective) * (1 + 1e-9)
        return
    assert ours.status is theirs.status
    if ours.status is ib.Status.OPTIMAL:
        assert ours.objective == pytest.approx(theirs.objective, rel=3e-6)


@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_tight_tolerances_are_reached_in_few_iterations(gate, norm):
    found = optimal(problem(gate, norm), "NATIVE", tol=1e-9)
    assert found.iterations <= 25


def test_second_order_terms_save_iterations(gln):
    found = [ib.solve(dataclasses.replace(gln, C=C), "NATIVE", tol=1e-9) for C in (np.inf, 0.05, 1.0)]
    assert sum(one.iterations for one in found) <= 42


def test_centrality_corrections_save_iterations():
    """With wrong labels, many λ are near their bounds, and steps are short without corrections."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 5))
    y = np.where((X[:, 0] > 0) ^ (rng.random(3000) < 0.3), 1.0, -1.0)
    cases = [ib.MarginProblem(ib.GatedFeatures(X), y, ib.Frobenius(), C) for C in (1.0, 100.0)]
    found = [[ib.solve(case, solver) for case in cases] for solver in (native(), native(short_step=0.0))]
    assert all(one.status is ib.Status.OPTIMAL for solutions in found for one in solutions)
    corrected, without = (sum(one.iterations for one in solutions) for solutions in found)
    assert corrected <= without - 5


def one_sided(program):
    """Return a feasible iterate whose weights, of one sample, separate nothing."""
    lam = program.normalised(np.where(np.arange(program.kernels.n) == 0, 1.0, 1e-9))
    q, P = program.kernels.sweep(lam)
    return program.feasible(lam, np.ones(len(q)), q, P, (1.1 * q.max()) ** 0.5, lam[:0], lam[:0])


def test_patience_is_three_times_as_long_while_nothing_separates(gln):
    program = whole(gln, patience=4)
    separating = descend(program, 0.1, 100, None, lambda *_: None).iterate(0.1)
    for at, patience in ((separating, 4), (one_sided(program), 12)):
        descent = MarginDescent(program, 1e-8, 100, None, lambda *_: None)
        assert [descent.observe(at) for _ in range(patience + 1)] == [False] * patience + [True]


def test_a_warm_start_that_separates_nothing_is_left_for_a_cold_one(gln):
    program = whole(gln, warm_iterations=2)
    start = one_sided(program)
    cold, warm = (descend(program, 1e-8, 100, each, lambda *_: None) for each in (None, start))
    assert warm.bounds.gap == cold.bounds.gap
    assert warm.iterations == cold.iterations + 3


@pytest.mark.parametrize("seed", range(12))
def test_the_upper_bound_is_that_of_the_best_multiple(seed):
    """No multiple at which a slack ends, nor 0, has a smaller objective, for many margins, also equal ones."""
    rng = np.random.default_rng(seed)
    n = (5, 300, 2000)[seed % 3]
    f = rng.normal(size=n) + (0.0, 2.0)[seed % 2]
    f = np.round(f, 1) if seed % 4 == 0 else np.full(n, 1.0) if seed == 1 else f
    p = 10.0 ** rng.uniform(-3, 3, n)
    value = 0.1 * float(p @ abs(f)) * (seed + 1) / 12
    bound, least = upper_bound(value, f, p)
    t = np.append(1 / f[f > 0], 0.0)
    objectives = t * value + np.maximum(1 - t[:, None] * f, 0) @ p
    assert bound == pytest.approx(objectives.min(), rel=1e-12)
    assert (0.0 if least == np.inf else 1 / least) == pytest.approx(t[objectives.argmin()], rel=1e-9)


def test_duplicated_samples_and_identical_units():
    case = problem("contexts 2", "group lasso")
    twice = np.repeat(np.arange(case.features.n), 2)
    samples = dataclasses.replace(case, features=case.features.select(twice), y=case.y[twice])
    G = np.hstack([case.features.gate_values] * 2)
    units = ib.MarginProblem(
        ib.GatedFeatures(case.features.X, G),
        case.y,
        ib.GroupLasso(np.concatenate([case.norm.groups, case.norm.groups + 9])),
    )
    base = ib.solve(case, "NATIVE", tol=1e-8)
    for other in (samples, units):
        found = optimal(other, "NATIVE", tol=1e-8)
        assert found.objective == pytest.approx(base.objective, rel=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("C", "single_from"), [(np.inf, 1000), (0.3, 1000), (0.3, 1)])
def test_the_newton_step_solves_the_linearised_conditions(C, single_from, intercept):
    """The Newton step and its second-order term equal those of automatic differentiation of the conditions."""
    case = problem("contexts 4", "group lasso", C)
    margins = np.linspace(0.5, 2, case.features.n)
    case = dataclasses.replace(case, intercept=intercept, required_margin=margins)
    program = whole(case, "cpu:0", single_from=single_from)
    kernels, at = program.kernels, program.start()

    def conditions(values):
        p = Point(values, *at.shape)
        q, P = kernels.sweep(p.lam)
        return *program.residual(p, q / p.rho**2, P @ p.eta / p.rho), p.products

    q, P = kernels.sweep(at.lam)
    step = NewtonSystem(program, at, q, P, P @ at.eta).direction(0.0, None)
    value, change = torch.func.jvp(conditions, (at.values,), (step.values,))
    assert all(float((a + b).abs().max()) < 1e-9 for a, b in zip(value, change, strict=True))
    half = program.second_order(at, step, q / at.rho**2, P / at.rho)
    _, second = torch.func.jvp(
        lambda values: torch.func.jvp(conditions, (values,), (step.values,))[1], (at.values,), (step.values,)
    )
    assert all(float((a - b / 2).abs().max()) < 1e-9 for a, b in zip(half, second, strict=False))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("gate", "norm"), PAIRS)
def test_kernels_are_the_gram_matrices_of_the_groups(gate, norm, device):
    case = problem(gate, norm)
    ours = in_our_coordinates(case, device)
    kernels = ours.program(ours.to_device(np.arange(ours.n)), None, None).kernels
    lam = np.random.default_rng(0).random(case.features.n)
    q, P = map(as_numpy, kernels.sweep(ours.to_device(lam)))
    direct = as_numpy(kernels.directional(ours.to_device(lam))[1])
    form = case.norm.group_form(case.features.k)
    for h, group in enumerate(sorted(set(form.groups))):
        columns = np.asarray((case.features.gate_values @ form.expand)[:, form.groups == group])
        gram = ib.GatedFeatures(case.features.X, columns).gram()
        K = np.outer(case.y, case.y) * gram / ours.scale**2
        np.testing.assert_allclose(P[:, h], K @ lam, atol=1e-11)
        np.testing.assert_allclose(direct[:, h], K @ lam, atol=1e-11)
        assert float(q[h]) == pytest.approx(lam @ K @ lam)


@pytest.mark.parametrize("C", [np.inf, 0.1])
def test_bounds_only_tighten(C):
    program = whole(problem("half-spaces", "group lasso", C))
    seen = []
    descend(program, 1e-9, 50, None, lambda iteration, best: seen.append(best.bounds))
    assert all(b.lower >= a.lower and b.upper <= a.upper for a, b in itertools.pairwise(seen))
    assert seen[-1].gap <= 1e-9


@pytest.mark.parametrize(
    ("solver", "scale"), [("NATIVE", 1e-200), ("NATIVE", 1e200), ("CLARABEL", 1e-200), ("CLARABEL", 1e200)]
)
def test_squares_that_overflow_or_vanish_do_no_harm(scale, solver):
    """Scaling the inputs by 1e±200, whose squares leave floats, scales the objective inversely."""
    found = ib.solve(problem("contexts 2", "group lasso", scale=scale), solver)
    base = ib.solve(problem("contexts 2", "group lasso"), solver)
    assert found.status is ib.Status.OPTIMAL
    assert found.objective * scale == pytest.approx(base.objective, rel=1e-5)


def test_one_vanishing_sample_is_no_proof():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1e-200]])
    found = ib.solve(ib.svm_gln(X, [1, -1, 1], ib.ConstantGate()))
    assert found.status is not ib.Status.NOT_SEPARABLE
