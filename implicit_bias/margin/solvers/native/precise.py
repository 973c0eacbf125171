"""The interior-point method in 60 digits, for small problems that doubles cannot resolve."""

import time
from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np

from implicit_bias.ground.checks import Array
from implicit_bias.ground.rounding import UNIT
from implicit_bias.ground.scaling import TINY, length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers.answer import Answer
from implicit_bias.margin.solvers.base import Solver
from implicit_bias.margin.solvers.native.interior_point import Bounds, Outcome, Program, descend
from implicit_bias.margin.solvers.native.kernels import GroupKernels
from implicit_bias.margin.solvers.options import Options
from implicit_bias.margin.solvers.solution import Status

#: Bits of a number, and a largest margin that counts as none at them.
BITS, NO_MARGIN = 200, 1e-30
#: Samples, and features, up to which the method takes seconds.
SAMPLES, FEATURES = 40, 400
DEFAULT_ITERATIONS = 300
#: Margins that rounding of W moves by more than this share of the tolerance are asked to be larger by as much.
OF_THE_TOLERANCE = 0.05
#: Roundings to choose from.
ROUNDINGS = 64

_exact = np.vectorize(gmpy2.mpfr, otypes=[object])


class PreciseSolver(Solver):
    """Our interior-point method in 60 digits; up to 40 samples of 400 features."""

    name = "PRECISE"
    takes = frozenset({"max_seconds"})

    def refuses(self, problem: MarginProblem, options: Options) -> str | None:
        """Why this solver does not take `problem` with these options; None if it does."""
        features = problem.features
        if features.n > SAMPLES or features.k * features.d > FEATURES:
            return f"its arithmetic is for at most {SAMPLES} samples of {FEATURES} features; use NATIVE"
        if problem.constraints is not None and len(problem.constraints.equal) > FEATURES:
            return f"its arithmetic is for at most {FEATURES} linear constraints; use CLARABEL"
        return super().refuses(problem, options) or replace(problem, constraints=None).lacks("groups")

    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        """Weights and dual of `problem` to a relative gap of `options.tol`, before they are rounded to doubles.

        The rounding of W moves the margin of sample i by up to u Σ_j ⟨|w_j|, |φ_j(x_i)|⟩. Where that matters, the
        problem is solved again for margins larger by as much, and of several roundings the best is taken.
        """
        begin = time.perf_counter()
        with gmpy2.context(gmpy2.get_context(), precision=BITS), np.errstate(all="ignore"):
            W, b, lam, answer = _solved(problem, options, begin)
            moved = 1.01 * UNIT * (problem.features.magnitudes(answer.weights) + abs(answer.intercept))
            if answer.stopped or not (moved > OF_THE_TOLERANCE * options.tol * problem.required_margin).any():
                return answer
            raised = replace(problem, required_margin=problem.required_margin + moved)
            W2, b2, _, again = _solved(raised, options, begin)
            kind = [_weights(problem, W, b, options.tol), _weights(problem, W2, b2, options.tol)]
            _, weights, intercept = min(kind, key=lambda found: found[0])
            chosen = problem.intercept or problem.constraints is not None
            dual = answer.dual if chosen else _dual(problem, lam)
            iterations = answer.iterations + again.iterations
        return Answer(weights, dual, iterations, again.stopped, intercept, answer.multipliers)


class PreciseKernels(GroupKernels):
    """The kernels themselves, shape (H, n, n), of numbers of many digits."""

    def __init__(self, stack: Any) -> None:
        self.stack, (self.H, self.n, _) = stack, stack.shape
        self.ones = _exact(np.ones(self.n))

    def weighted(self, eta: Any) -> Any:
        """Σ_h η_h K_h."""
        return np.tensordot(eta, self.stack, axes=1)

    def sweep(self, lam: Any) -> tuple[Any, Any]:
        """q_h = λᵀK_hλ and K_hλ."""
        P = (self.stack @ lam).T
        return lam @ P, P

    def directional(self, change: Any) -> tuple[Any, Any]:
        """As `sweep`."""
        return self.sweep(change)


def _weights(problem: MarginProblem, W: Any, b: Any, tol: float) -> tuple[float, Array, float]:
    """Of multiples t of W and b, 1 ≤ t ≤ 1 + tol/4, rounded to doubles, the best, after its objective."""
    found = []
    for t in 1 + np.linspace(0.0, tol / 4, ROUNDINGS):
        weights, intercept = (W * t).astype(np.float64), float(b * t)
        upper, lower, error = problem.features.apply_bounded(weights, precise=True)
        f = problem.y * ((upper + intercept) + lower) - error
        value = problem.norm.value(weights)
        if problem.hard:
            worst = float((f / problem.required_margin).min())
            cost = value / worst if worst > 0 else np.inf
        else:
            cost = value + float(problem.prices @ np.maximum(problem.required_margin - f, 0.0))
        found.append((cost, weights, intercept))
    return min(found, key=lambda one: one[0])


def _dual(problem: MarginProblem, lam: Any) -> Array:
    """Of feasible λ, up to 0.1 % shorter than they could be, rounded to doubles, the one that proves most."""

    def proved(dual: Array) -> tuple[float, float]:
        upper, lower, _ = problem.features.adjoint_bounded(problem.y * dual, precise=True)
        size = max(float(problem.norm.dual(upper + lower)), float((dual / problem.prices).max()), TINY)
        return float((problem.required_margin * dual).sum()) / size, size

    longest = lam / proved(lam.astype(np.float64))[1]
    found = [(longest * t).astype(np.float64) for t in np.linspace(0.999, 1.0, ROUNDINGS)]
    return max(found, key=lambda dual: proved(dual)[0])


def _solved(problem: MarginProblem, options: Options, begin: float) -> tuple[Any, Any, Any, Answer]:
    """W, b and λ of the problem as it stands, and the answer in which they are rounded to doubles."""
    features, form = problem.features, problem.norm.group_form(problem.features.k)
    assert form is not None
    T, (labels, index) = _exact(form.expand.toarray()), np.unique(form.groups, return_inverse=True)
    m = _exact(np.broadcast_to(problem.required_margin, features.n))
    scale = nearest_power_of_two(float(length(features.row_norms() / problem.required_margin)) / features.n**0.5)
    rows = np.tensordot(_blocks(problem), T, axes=(1, 0)).transpose(0, 2, 1) * (problem.y / m / scale)[:, None, None]
    prices, tilt, asked = None if problem.hard else _exact(problem.prices) * m * scale, problem.y / m, None
    free = None
    if problem.constraints is not None:
        pulls, sizes = _pulls(problem, T)
        rows = np.concatenate([rows, pulls])
        asked, tilt = (np.concatenate([part, 0 * sizes]) for part in (_exact(np.ones(features.n)), tilt))
        prices = None if prices is None else np.concatenate([prices, 0 * sizes])
        free = np.concatenate([np.zeros(features.n, dtype=bool), problem.constraints.equal])
    stack = np.array([_gram(rows[:, index == h].reshape(len(rows), -1)) for h in range(len(labels))])
    program = Program(PreciseKernels(stack), prices, tilt if problem.intercept else None, NO_MARGIN, asked, free)

    def watch(iteration: int, bounds: Bounds) -> Status | None:
        late = options.max_seconds is not None and time.perf_counter() - begin > options.max_seconds
        return Status.TIME_LIMIT if late else None

    limit = DEFAULT_ITERATIONS if options.max_iterations is None else options.max_iterations
    found: Outcome = descend(program, options.tol / 4, limit, None, watch)
    lam, eta, b = found.weights
    W = T @ (np.tensordot(lam, rows, axes=(0, 0)) * eta[index][:, None]) / scale
    intercept, dual = b.sum() if len(b) else gmpy2.mpfr(0), found.lam[: features.n] / m / scale
    multipliers = None
    if problem.constraints is not None:
        multipliers = (found.lam[features.n :] / sizes).astype(np.float64)
    weights, rounded = W.astype(np.float64), dual.astype(np.float64)
    return W, intercept, dual, Answer(weights, rounded, found.iterations, found.stopped, float(intercept), multipliers)


def _pulls(problem: MarginProblem, T: Any) -> tuple[Any, Any]:
    """The constraints as rows −E_jT of length 1, and the lengths they had."""
    constraints = problem.constraints
    E = _exact(constraints.E.toarray()).reshape(-1, problem.features.k, problem.features.d)
    pulls = np.tensordot(-E, T, axes=(1, 0)).transpose(0, 2, 1)
    sizes = np.array([max((row**2).sum() ** 0.5, gmpy2.mpfr(TINY)) for row in pulls], dtype=object)
    return pulls / sizes[:, None, None], sizes


def _blocks(problem: MarginProblem) -> Any:
    """φ_j(x_i), exactly, shape (n, k, d)."""
    features = problem.features
    if features.gate_values is None:
        return _exact(features.dense()).reshape(features.shape)
    return _exact(features.gate_values)[:, :, None] * _exact(features.X)[:, None]  # type: ignore[attr-defined]


def _gram(A: Any) -> Any:
    return A @ A.T
