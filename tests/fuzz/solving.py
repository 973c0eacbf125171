"""Cases about margin problems and their solution: every answer goes before the judge."""

import dataclasses
import io
import itertools
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import implicit_bias as ib
from implicit_bias import Frobenius, GatedFeatures, MarginProblem, Solution, Status, solve
from implicit_bias.extensions.galu import LeastSquaresModel, least_squares
from implicit_bias.solvers import Progress
from implicit_bias.solvers.base import Options
from implicit_bias.solvers.dispatch import SOLVERS as BY_NAME
from tests.cases import MISSING_SOLVERS
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Given, expect
from tests.fuzz.judge import Raw, agree, judge
from tests.fuzz.strategies import ARGUMENTS, anything, choice, count, equals, number
from tests.fuzz.table import entry, row
from tests.fuzz.values import NOT_FINITE

#: Relative room for growing limits: what the rounding of a certificate adds to bounds of nearly parallel samples.
CERTIFIED = 1e-5
SOLVERS = [None, "NATIVE", "NATIVE", "NATIVE", "CLARABEL", "ECOS", "OSQP", "SCS"]


def _quietly(draw: Draw, *args: Any, **kwargs: Any) -> Any:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return draw.call(*args, **kwargs)


@entry(solve, share=24)
def _solve(draw: Draw) -> str:
    """Any problem, any solver: the judge checks what comes back, and sometimes another solver is asked as well."""
    problem, raw = problems.problem(draw)
    solver = draw.pick(SOLVERS)
    tol = draw.pick([1e-6, 1e-6, 1e-4, 1e-2, 1e-8, 1e-12])
    # OSQP takes hard margins of quadratic norms only, and says so.
    found = _quietly(draw, solve, problem, solver, tol=tol, may=solver in {"OSQP", *MISSING_SOLVERS})
    said = judge(raw, found, tol)
    if draw.chance(0.25) and raw.blocks.size < 2000:
        other = "CLARABEL" if found.solver == "NATIVE" else "NATIVE"
        draw.story.append(f"the same with {other}")
        second = solve(problem, other, tol=tol)
        judge(raw, second, tol)
        agree(found, second)
    return said


def _start(draw: Draw, problem: MarginProblem) -> Solution:
    small = MarginProblem(GatedFeatures(np.array([[2.0, 1.0], [-2.0, 1.0]])), np.array([1.0, -1.0]), Frobenius())
    found = solve(small) if draw.chance(0.2) else solve(problem, max_iterations=draw.whole(1, 30))
    duals: list[Any] = [found.dual * factor for factor in (1, 1, np.nan, -1, 0)]
    duals += ["dual", found.dual[:, None], found.dual * 0 + 1e308, np.array([None] * len(found.dual))]
    return dataclasses.replace(found, dual=draw.pick(duals))


@entry("solve, unusual options", share=8)
def _solve_options(draw: Draw) -> str:
    """Options of wrong types and values, limits, callbacks, starts."""
    problem, raw = problems.problem(draw, scaled=False)
    stops = draw.whole(0, 3)

    def stop(progress: Progress) -> None:
        expect(str(progress) and progress.lower_bound <= progress.objective * (1 + 1e-9), "progress of crossed bounds")
        if progress.iteration >= stops:
            raise KeyboardInterrupt

    candidates: dict[str, Any] = {name: ARGUMENTS[name] for name in ("solver", "device")}
    candidates |= {"tol": number(1e-6, 1e-3, high=1.0), "max_seconds": number(None, 1e-9, 10, also=equals(np.inf))}
    candidates |= {"max_iterations": count(None, 1, 2, np.int8(5)), "verbose": choice(False, True, also=anything)}
    candidates["start"] = lambda draw: draw.scalar([None, _start(draw, problem)], equals(None))
    candidates["callback"] = choice(None, stop, lambda _: None, also=equals(None), functions=False)
    names = [draw.pick(list(candidates)) for _ in range(draw.whole(1, 3))]
    options = {name: candidates[name](draw) for name in names}
    found = _quietly(draw, solve, problem, may=True, **options)
    return judge(raw, found, float(options["tol"].value) if "tol" in options else 1e-6, limited=True)


@entry("solve, growing limits", share=3)
def _growing_limits(draw: Draw) -> str:
    """A longer limit of iterations loosens no bound, and both solvers of the package keep to this law."""
    problem, raw = problems.problem(draw, scaled=False)
    solver = draw.pick([name for name in ("NATIVE", "PRECISE") if not BY_NAME[name].refusal(problem, Options(1e-6))])
    shorter = solve(problem, solver, max_iterations=1)
    for limit in (2, 3, 5, 8, 13, 21):
        found = solve(problem, solver, max_iterations=limit)
        if found.status.inseparable:
            break
        expect(found.objective <= shorter.objective * (1 + CERTIFIED), f"{limit} iterations give a larger objective")
        expect(found.lower_bound * (1 + CERTIFIED) >= shorter.lower_bound, f"{limit} iterations prove less")
        shorter = found
    return judge(raw, found, limited=True)


@entry(ib.margin_path, share=3)
def _margin_path(draw: Draw) -> None:
    """Every point of a path is a certified solution; the objectives rise with the price."""
    problem, raw = problems.problem(draw, scaled=False)
    prices = np.sort(10.0 ** draw.rng.uniform(-3, 2, draw.whole(1, 3)))
    given = draw.array(prices, rounded=False, but=["an infinity"])
    # A tensor's items are tensors and Float64 has its own scalars: refused, like anything that is no number.
    boxed = "tensor" in given.note or "view" in given.note
    small = lambda c: not all(problems.prices_in_range(dataclasses.replace(raw, C=C)) for C in c.C)  # noqa: E731
    path = draw.call(ib.margin_path, problem=problem, C=given, may=boxed or small)
    expect(len(path) == len(given.plain), "points are missing")
    for C, point in zip(given.plain, path, strict=True):
        judge(dataclasses.replace(raw, C=C), point, 1e-6)
    for one, other in itertools.pairwise(path):
        expect(one.lower_bound <= other.objective * (1 + 1e-9), "a dearer slack is cheaper")


@entry(ib.certify, share=6)
def _certify(draw: Draw) -> None:
    """Any weights and dual: the bounds hold, whatever was put in."""
    problem, raw = problems.problem(draw)
    n, k, d = raw.blocks.shape
    plain = draw.pick([draw.normal(k, d), np.zeros((k, d)), 1e200 * draw.normal(k, d), solve(problem).weights])
    # Weights that are none have no disguise.
    W = draw.array(plain) if np.isfinite(plain).all() else Given(plain, plain, "no weights", "doubtful")
    dual = draw.array(draw.pick([draw.rng.random(n), -draw.rng.random(n), np.zeros(n), 1e200 * draw.rng.random(n)]))
    for given in (W, dual):
        if given.note in NOT_FINITE:
            # These pass: the certificate takes them for 0.
            given.verdict = "doubtful"
    found = draw.call(ib.certify, problem=problem, weights=W, dual=dual)
    more: dict[str, Any] = {"status": Status.INACCURATE}
    if not found.separable:
        nothing = {"weights": np.full((k, d), np.nan), "margins": np.full(n, np.nan)}
        more = nothing | {"status": Status.NOT_SEPARABLE}
    judge(raw, Solution(**(vars(found) | more), iterations=0, seconds=0.0, solver="none", tol=1.0), 1.0)


@entry(MarginProblem, share=4)
def _problem(draw: Draw) -> None:
    """Building a problem; its margins and adjoint are those of plain numbers."""
    problem, raw = problems.problem(draw)
    n, k, d = raw.blocks.shape
    # Weights that are not finite give margins that are not.
    W, a = draw.array(draw.normal(k, d), but=NOT_FINITE), draw.array(draw.normal(n), but=NOT_FINITE)
    expect(draw.call(problem.margins, W, draw.pick([0.0, 1.5, -2]), same=0.0).shape == (n,), "another shape")
    expect(draw.call(problem.adjoint, a, same=0.0).shape == (k, d), "another shape")


def _model(kind: Any, make: Callable[..., Any]) -> None:
    @entry(kind)
    def _scores(draw: Draw) -> None:
        X, y = problems.clean_task(draw)
        classes = draw.pick([["cat", "dog"], (0, 1), np.array([0.5, 2.5])])
        model = draw.call(kind, *make(X, y, problems.fitted_gates(draw, X)), classes=classes)
        scores = draw.call(model.decision_function, draw.array(X), same=1e-9)
        expect(np.array_equal(model.chosen(scores) == model.classes[1], scores > 0), "another class")


def _margin_model(X: Any, y: Any, gates: Any) -> Any:
    problem = ib.svm_gln(X, y, gates, C=1.0)
    return [problem], [solve(problem)]


_model(ib.MarginModel, _margin_model)
_model(LeastSquaresModel, lambda X, y, gates: (gates, least_squares(gates(X), y, ridge=1.0), 1.5))


@entry(ib.MarginProgram, share=1)
def _program(draw: Draw) -> None:
    """The CVXPY problem of any margin problem can be built; quadratic where the norm is."""
    problem, _ = problems.problem(draw, scaled=False)
    quadratic = draw.chance(0.3)
    program = draw.call(problem.cvxpy, draw.chance(0.5), quadratic, may=quadratic)
    expect(isinstance(program, ib.MarginProgram) and program.is_dcp(), "no MarginProgram")


row(Status, share=1, value=lambda draw: draw.pick(list(Status)).value, fine=lambda c, found: len(found.value) > 20)


@entry("solve, twice and on threads", share=3)
def _solve_again(draw: Draw) -> str:
    """The same problem twice gives the same bits, and on one and two threads the same optimum within the gap."""
    draw.badness = 0.0
    problem, raw = problems.problem(draw)
    if draw.chance(0.1):
        X = draw.normal(1100, 6)
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        X[:, 0] += 0.1 * y
        raw, problem = Raw.gated(X, np.ones((1100, 1)), y, "frobenius"), MarginProblem(GatedFeatures(X), y, Frobenius())
    first, second = solve(problem), solve(problem)
    same = all(np.array_equal(getattr(first, k), getattr(second, k), equal_nan=True) for k in ("weights", "dual"))
    expect(same and first.status is second.status, "two runs differ")
    with threadpool_limits(2, user_api="blas"):
        third = solve(problem)
    judge(raw, third)
    agree(first, third)
    return judge(raw, first)
