"""Cases about margin problems and their solution: every answer goes before the judge."""

from __future__ import annotations

import dataclasses
import io
import itertools
import pickle
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import cvxpy as cp
import numpy as np
import torch

from implicit_bias import (
    Certificate,
    Frobenius,
    GatedFeatures,
    GroupLasso,
    MarginProblem,
    MarginProgram,
    Norm,
    Progress,
    Solution,
    Status,
    certify,
    margin_path,
    solve,
    solver_names,
)
from odd import data
from odd.draw import NOT_FINITE, Draw, Given, close, expect, is_count, is_number
from odd.judge import Raw, agree, judge
from odd.surface import entry

SOLVERS = [None, "NATIVE", "NATIVE", "NATIVE", "CLARABEL", "ECOS", "OSQP", "SCS"]


def _quietly(draw: Draw, *args: Any, **kwargs: Any) -> Any:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return draw.call(*args, **kwargs)


@entry("solve", share=24)
def _solve(draw: Draw) -> str:
    """Any problem, any solver: the judge checks what comes back, and sometimes another solver is asked as well."""
    problem, raw = data.problem(draw)
    solver = draw.pick(SOLVERS)
    tol = draw.pick([1e-6, 1e-6, 1e-4, 1e-2, 1e-8, 1e-12])
    # OSQP takes hard margins of quadratic norms only, and says so.
    found = _quietly(draw, solve, problem, solver, tol=tol, may_refuse=solver == "OSQP")
    said = judge(raw, found, tol)
    if draw.chance(0.25) and raw.phi.size < 2000:
        other = "CLARABEL" if found.solver == "NATIVE" else "NATIVE"
        draw.story.append(f"the same with {other}")
        second = solve(problem, other, tol=tol)
        judge(raw, second, tol)
        agree(found, second)
    return said


@entry("solve, odd options", share=8)
def _solve_options(draw: Draw) -> str:
    """Options of wrong types and values, limits, callbacks, starts."""
    problem, raw = data.problem(draw, scaled=False)
    options: dict[str, Any] = {}
    stops = draw.whole(0, 3)

    def stop(progress: Progress) -> None:
        expect(str(progress) and progress.lower_bound <= progress.objective * (1 + 1e-9), "progress of crossed bounds")
        if progress.iteration >= stops:
            raise KeyboardInterrupt

    candidates: dict[str, Any] = {
        "solver": lambda: draw.scalar([None, "NATIVE", "CLARABEL"], lambda v: v is None, functions=False),
        "tol": lambda: draw.scalar([1e-6, 1e-3, 1], is_number(0)),
        "max_iterations": lambda: draw.scalar(
            [None, 1, 2, np.int8(5)], lambda v: v is None or is_count(most=10**600)(v)
        ),
        "max_seconds": lambda: draw.scalar([None, 1e-9, 10], lambda v: v is None or is_number(0)(v)),
        "start": lambda: draw.scalar([None, _start(draw, problem)], lambda v: v is None),
        "device": lambda: draw.scalar(["cpu", torch.device("cpu")], lambda v: v == "cpu"),
        "callback": lambda: draw.scalar([None, stop, lambda _: None], lambda v: v is None, functions=False),
        "verbose": lambda: draw.scalar([False, True], lambda v: True),
    }
    for name in draw.rng.permutation(list(candidates))[: draw.whole(1, 3)]:
        options[str(name)] = candidates[str(name)]()
    found = _quietly(draw, solve, problem, may_refuse=True, **options)
    tol = options["tol"].value if "tol" in options else 1e-6
    return judge(raw, found, float(tol), limited=True)


def _start(draw: Draw, problem: MarginProblem) -> Solution:
    """A solution to start from: of this problem or of another, whole or spoiled."""
    found = solve(problem, max_iterations=draw.whole(1, 30)) if not draw.chance(0.2) else _small_solution()
    spoil = draw.pick(["no", "no", "nan", "negative", "zero", "text", "shape", "huge", "objects"])
    dual: Any = {
        "no": found.dual,
        "nan": found.dual * np.nan,
        "negative": -found.dual,
        "zero": 0 * found.dual,
        "text": "dual",
        "shape": found.dual[:, None],
        "huge": found.dual * 0 + 1e308,
        "objects": np.array([None] * len(found.dual)),
    }[spoil]
    draw.story.append(f"a start whose dual is spoiled: {spoil}")
    return dataclasses.replace(found, dual=dual)


def _small_solution() -> Solution:
    return solve(MarginProblem(GatedFeatures(np.array([[2.0, 1.0], [-2.0, 1.0]])), np.array([1.0, -1.0]), Frobenius()))


@entry("solve, twice and on threads", share=3)
def _solve_again(draw: Draw) -> str:
    """The same problem twice gives the same bits, and on one and two threads the same optimum within the gap."""
    draw.badness = 0.0
    problem, raw = data.problem(draw)
    if draw.chance(0.1):
        rng = np.random.default_rng(draw.whole(0, 10**6))
        X = rng.normal(size=(1100, 6))
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        X[:, 0] += 0.1 * y
        raw = Raw.gated(X, np.ones((1100, 1)), y, "frobenius")
        problem = MarginProblem(GatedFeatures(X), y, Frobenius())
        draw.story.append("1100 samples")
    first, second = solve(problem), solve(problem)
    said = judge(raw, first, 1e-6)
    same = all(np.array_equal(getattr(first, k), getattr(second, k), equal_nan=True) for k in ("weights", "dual"))
    expect(same and first.status is second.status, "two runs differ")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(before, 2))
        third = solve(problem)
    finally:
        torch.set_num_threads(before)
    judge(raw, third, 1e-6)
    agree(first, third)
    return said


@entry("solve, not a problem", share=1)
def _solve_nothing(draw: Draw) -> str:
    """What is no problem at all."""
    draw.badness = 1.0
    nothing = draw.array(draw.normal(3, 2)) if draw.chance(0.5) else draw.scalar([None], lambda v: False)
    draw.call(solve, nothing, must_refuse=True)
    return "correct"


@entry("margin_path", share=3)
def _margin_path(draw: Draw) -> str:
    """Every point of a path is a certified solution; the objectives rise with the price."""
    problem, raw = data.problem(draw, scaled=False)
    prices = np.sort(10.0 ** draw.rng.uniform(-3, 2, draw.whole(1, 3)))
    given = draw.array(prices, rounded=False)
    if given.note == "an infinity":
        given = Given(given.value, given.value, given.note)
    # A tensor's items are tensors and Float64 has its own scalars: refused, like anything that is no number.
    doubtful = "tensor" in given.note or "view" in given.note
    points = [dataclasses.replace(raw, C=C) for C in (() if given.plain is None else given.plain)]
    small = not all(data.prices_in_range(point) for point in points)
    path = draw.call(margin_path, problem, given, may_refuse=doubtful or small)
    expect(len(path) == len(given.plain), "points are missing")
    for C, point in zip(given.plain, path, strict=True):
        judge(dataclasses.replace(raw, C=C), point, 1e-6)
    for one, other in itertools.pairwise(path):
        expect(one.lower_bound <= other.objective * (1 + 1e-9), "a dearer slack is cheaper")
    return "correct"


@entry("certify", share=6)
def _certify(draw: Draw) -> str:
    """Any weights and dual: the bounds hold, whatever was put in."""
    problem, raw = data.problem(draw)
    n, k, d = raw.blocks.shape
    plain = draw.pick([draw.normal(k, d), np.zeros((k, d)), 1e200 * draw.normal(k, d), solve(problem).weights])
    # Weights that are none have no disguise.
    W = draw.array(plain) if np.isfinite(plain).all() else Given(plain, plain, "float64")
    dual = draw.array(draw.pick([draw.rng.random(n), -draw.rng.random(n), np.zeros(n), 1e200 * draw.rng.random(n)]))
    for given in (W, dual):
        if given.note in NOT_FINITE:
            # These pass: the certificate takes them for 0.
            given.verdict = "doubtful"
    if W.note == "float64" and not np.isfinite(W.plain).all():
        W.verdict = "doubtful"
    found = draw.call(certify, problem, W, dual)
    as_solution = Solution(**vars(found), status=Status.INACCURATE, iterations=0, seconds=0.0, solver="none", tol=1.0)
    if found.separable:
        judge(raw, as_solution, 1.0)
    else:
        nothing: dict[str, Any] = {"weights": np.full((k, d), np.nan), "margins": np.full(n, np.nan)}
        nothing["status"] = Status.NOT_SEPARABLE
        judge(raw, dataclasses.replace(as_solution, **nothing), 1.0)
    return "correct"


@entry("MarginProblem", share=4)
def _problem(draw: Draw) -> str:
    """Building a problem, and its margins, adjoint and scores."""
    problem, raw = data.problem(draw)
    n, k, d = raw.blocks.shape
    W, a = draw.array(draw.normal(k, d)), draw.array(draw.normal(n))
    if W.note in NOT_FINITE or a.note in NOT_FINITE:
        # Weights that are none give margins that are none.
        return "correct"
    if draw.chance(0.5):
        b = draw.scalar([0.0, 1.5, -2], is_number())
        if b.verdict != "good" and (b.plain is None or b.note.startswith("float") or "longdouble" in b.note):
            # No number, or one beyond floats, gives margins that are none.
            return "correct"
        found = draw.call(problem.margins, W, b)
        expected = raw.phi @ W.plain.ravel() + raw.y * np.longdouble(b.plain)
    else:
        found, expected = draw.call(problem.adjoint, a), None if a.plain is None else (a.plain @ raw.phi).reshape(k, d)
    _same_size(found, expected, raw)
    return "correct"


def _same_size(found: Any, expected: Any, raw: Raw) -> None:
    """Equality up to rounding, relative to the sizes of what is summed."""
    size = np.max(np.abs(raw.blocks), initial=0) * raw.blocks.size + 2 + np.max(np.abs(expected), initial=0)
    difference = np.max(np.abs(np.asarray(found, dtype=np.longdouble) - expected), initial=0)
    expect(difference <= 1e-12 * size * 100, f"the values are off by {float(difference):.1e}")


@entry("MarginProblem, odd parts")
def _problem_of_odd_parts(draw: Draw) -> str:
    """Features, norms and prices that are none."""
    features = draw.scalar([GatedFeatures(np.array([[1.0], [-1.0]]))], lambda v: False)
    norm = draw.scalar([Frobenius(), GroupLasso([0])], lambda v: False)
    C = draw.scalar([np.inf, 1, 0.5, np.float32(2)], lambda v: is_number(0)(v) or v == np.inf)
    weight = draw.scalar([1, 2.5, np.int8(3)], is_number(0))
    if np.shape(weight.value) == (2,):
        # One for each of the two samples.
        weight.verdict = "doubtful"
    problem = draw.call(MarginProblem, features, [1, -1], norm, C, sample_weight=weight, may_refuse=True)
    expect(float(C.value) == problem.C, "another C")
    return "correct"


@entry("MarginProblem.decision_function")
def _decision_function(draw: Draw) -> str:
    """Scores of new inputs through the problem's own gates."""
    from implicit_bias import svm_gln

    X, y = data.clean_task(draw)
    gates = data.fitted_gates(draw, X)
    problem = svm_gln(X, y, gates)
    W, new = draw.array(draw.normal(problem.features.k, X.shape[1])), draw.array(draw.normal(3, X.shape[1]))
    if W.note in NOT_FINITE:
        # Weights that are none give scores that are none.
        return "correct"
    scores = draw.call(problem.decision_function, W, new)
    dense = gates.transform(new.plain)[:, :, None] * new.plain[:, None, :]
    expect(close(scores, np.einsum("nkd,kd->n", dense, W.plain), 1e-9), "other scores")
    return "correct"


@entry("MarginProgram", share=1)
def _program(draw: Draw) -> str:
    """The CVXPY problem of any margin problem has the certified optimum."""
    problem, raw = data.problem(draw, scaled=False)
    reduce, quadratic = draw.chance(0.5), draw.chance(0.3)
    program = draw.call(problem.cvxpy, reduce, quadratic, may_refuse=quadratic)
    expect(isinstance(program, MarginProgram), "no MarginProgram")
    found = solve(problem)
    if found.status is Status.OPTIMAL and found.objective < 1e4 and not raw_is_extreme(raw):
        value = float(program.solve(solver="CLARABEL"))
        value = value**0.5 if quadratic else value
        expect(abs(value - found.objective) <= 1e-4 * (1 + found.objective), f"{value} is not {found.objective}")
    return "correct"


def raw_is_extreme(raw: Raw) -> bool:
    """Whether numbers of very different sizes meet, which only certified solvers are asked to cope with."""
    sizes = np.abs(raw.blocks[raw.blocks != 0])
    finite = np.isinf(raw.C) or 1e-3 <= raw.C <= 1e3
    weights = np.asarray(1.0 if raw.weights is None else raw.weights)
    ordinary = len(sizes) > 0 and sizes.min() > 1e-3 and sizes.max() < 1e3 and finite
    return not (ordinary and weights.min() >= 1e-2 and weights.max() <= 1e2)


class _Nuclear(Norm):
    def value(self, W: Any) -> float:
        return float(np.linalg.norm(W, "nuc"))

    def dual(self, V: Any) -> float:
        return float(np.linalg.norm(V, 2))

    def expression(self, W: Any) -> Any:
        return cp.normNuc(W)


@entry("Norm")
def _own_norm(draw: Draw) -> str:
    """A norm of the user's own, which only CVXPY's solvers take."""
    X, y = data.clean_task(draw)
    G = np.abs(data.gate_values(draw, len(X)))
    G = np.where(G.sum(axis=1, keepdims=True) == 0, 1.0, np.minimum(G, 1.0))
    problem = draw.call(MarginProblem, GatedFeatures(X, G), y, _Nuclear())
    solver = draw.pick([None, "SCS", "CLARABEL", "NATIVE", "OSQP", "ECOS"])
    found = _quietly(draw, solve, problem, solver, tol=1e-3, max_iterations=2000, may_refuse=True)
    return judge(Raw.gated(X, G, y, "nuclear"), found, 1e-3, limited=True)


class _Broken(Norm):
    """A norm whose numbers are none."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def value(self, W: Any) -> float:
        return self.number

    def dual(self, V: Any) -> float:
        return self.number

    def expression(self, W: Any) -> Any:
        return cp.norm(cp.vec(W, order="C"), 2)


@entry("Norm, broken", share=1)
def _broken_norm(draw: Draw) -> str:
    """A norm that gives nonsense must not make anything OPTIMAL."""
    number = draw.pick([np.nan, np.inf, -1.0, 0.0])
    X = np.array([[1.0, 2.0], [-1.0, 0.5]])
    problem = MarginProblem(GatedFeatures(X), np.array([1.0, -1.0]), _Broken(number))
    found = draw.call(solve, problem, may_refuse=True)
    expect(found.status is not Status.OPTIMAL, f"OPTIMAL with a norm that is {number}")
    return "correct"


@entry("solver_names", share=1)
def _names(draw: Draw) -> str:
    expect(draw.call(solver_names)[0] == "NATIVE", "other names")
    return "correct"


@entry("Status", share=1)
def _status(draw: Draw) -> str:
    """Every status has a remedy for its text, and is found by it."""
    status = draw.pick(list(Status))
    expect(draw.call(Status, status.value) is status and len(status.value) > 20, "no remedy")
    return "correct"


@entry("Progress", share=1)
def _progress(draw: Draw) -> str:
    """Progress of any numbers can be printed."""
    numbers = [draw.pick([0.0, 1e300, np.inf, np.nan, np.float32(1.5), -0.0, 5e-324]) for _ in range(4)]
    progress = draw.call(Progress, draw.whole(0, 10**6), numbers[0], numbers[1], numbers[2], numbers[3], 5, 10**9)
    expect(str(progress) and repr(progress), "no text")
    return "correct"


def _record(draw: Draw, kind: type) -> Any:
    numbers = [draw.pick([0.0, 1e300, np.inf, np.nan, np.float32(1.5), -0.0, 5e-324]) for _ in range(4)]
    arrays = draw.normal(2, 3), draw.rng.random(4)
    parts: dict[str, Any] = {"weights": arrays[0], "dual": arrays[1], "objective": numbers[0]}
    parts |= {"lower_bound": numbers[1], "gap": numbers[2], "margins": arrays[1], "farkas_residual": numbers[3]}
    parts |= {"intercept": numbers[2], "multipliers": arrays[1], "violation": numbers[0]}
    if kind is Solution:
        more = {"iterations": 3, "seconds": numbers[0], "solver": "own", "tol": numbers[1]}
        parts |= more | {"status": draw.pick(list(Status))}
    record = draw.call(kind, **parts)
    text = str(record), repr(record)
    expect(all(text) and "array" not in text[1], "it prints its arrays")
    again = pickle.loads(pickle.dumps(record))
    expect(close(again.weights, record.weights) and again.minimum_margin == record.minimum_margin, "pickled otherwise")
    return record


@entry("Certificate", share=1)
def _certificate(draw: Draw) -> str:
    """A record of any numbers can be printed and pickled."""
    _record(draw, Certificate)
    return "correct"


@entry("Solution", share=1)
def _solution(draw: Draw) -> str:
    """A record of any numbers can be printed and pickled."""
    _record(draw, Solution)
    return "correct"


def given_solution(draw: Draw) -> Given:
    """A solution of any kind to save."""
    problem, _ = data.problem(draw)
    found = solve(problem)
    return Given(found, found, found.status.name)
