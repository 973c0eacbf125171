"""The interior-point method in 60 digits, for small problems that doubles cannot resolve."""

import time
from typing import Any

import gmpy2
import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import TINY, length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.interior_point import Bounds, Outcome, Program, descend, upper_bound
from implicit_bias.solvers.native.kernels import GroupKernels
from implicit_bias.solvers.native.lattice import rounded

#: Bits of a number, and a largest margin that counts as none at them.
BITS, NO_MARGIN = 200, 1e-30
DEFAULT_ITERATIONS = 300
#: What rounding may take of the tolerance, by one sum; how much of itself a number without a cost may move; and how far
#: from 0 a sum may be that must be 0, as a share of the largest λ.
SHARE, FREE, BALANCED = 0.02, 1e-3, 1e-30
#: By how much more than that tight margins are pushed up.
PUSHES = (0.0, 0.5, 1.0, 2.0, 5.0)

#: Weights beyond this are left as they are, for no double holds them with room to count.
LARGEST = 1e300

_exact = np.vectorize(gmpy2.mpfr, otypes=[object])


def solve_precisely(problem: MarginProblem, options: Options) -> Answer:
    """Weights and dual of a margin problem to a relative gap of `options.tol`, before they are rounded to doubles.

    Which doubles these are is chosen with care: see `lattice`.
    """
    begin = time.perf_counter()
    with gmpy2.context(gmpy2.get_context(), precision=BITS), np.errstate(all="ignore"):
        W, b, lam, mu, iterations, stopped = _solved(problem, options, begin)
        if stopped is None:
            weights, intercept = _weights(problem, W, b, options.tol)
            dual, multipliers = _dual(problem, lam, mu, options.tol)
        else:
            weights, dual, multipliers = (part.astype(np.float64) for part in (W, lam, mu))
            intercept = float(b)
    given = None if problem.constraints is None else multipliers
    return Answer(weights, dual, iterations, stopped, intercept, given)


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


def _weights(problem: MarginProblem, W: Any, b: Any, tol: float) -> tuple[Array, float]:
    """W and b, rounded to doubles of much the same margins and norm; of several roundings the best."""
    if not np.isfinite(W.astype(np.float64)).all():
        return np.zeros(W.shape), 0.0
    norm, m = problem.norm, np.broadcast_to(problem.required_margin, problem.features.n)
    forms = (_blocks(problem) * problem.y[:, None, None]).reshape(len(m), -1)
    forms, exact = np.hstack([forms, problem.y[:, None]]), np.append(W.ravel(), b)
    f, prices = forms @ exact / m, None if problem.hard else _exact(problem.prices * m)
    asked = min(f) if problem.hard else upper_bound(norm.value(W.astype(np.float64)), f, prices)[1]
    if 0 < asked < np.inf and max(abs(exact)) / asked < LARGEST:
        exact = exact / asked
        W, b = exact[:-1].reshape(W.shape), exact[-1]
    spare = (forms @ exact).astype(np.float64) - m
    best = _objective(problem, W.astype(np.float64), float(b))
    allowed = SHARE * tol * (m if problem.hard else best[0] / problem.prices)
    room = _exact(np.maximum(allowed, spare / 4))
    sizes = np.array([norm.value(unit) for unit in np.eye(W.size).reshape(-1, *W.shape)])
    # An intercept costs nothing.
    stay = _exact(np.append(SHARE * tol * norm.value(W.astype(np.float64)) / sizes, FREE * abs(float(b)) + TINY))
    tight = spare / 4 < allowed
    for push in PUSHES:
        x = rounded(exact, forms, room, stay, push * tight)
        best = min(best, _objective(problem, x[:-1].reshape(W.shape), float(x[-1])), key=lambda one: one[0])
    return best[1:]


def _objective(problem: MarginProblem, W: Array, b: float) -> tuple[float, Array, float]:
    """What the best multiple of a hard margin's W and b, or W and b themselves, reach; and these."""
    if not np.isfinite(W).all():
        return np.inf, W, b
    upper, lower, error = problem.features.apply_bounded(W, precise=True)
    f, value = problem.y * ((upper + b) + lower) - error, problem.norm.value(W)
    if not problem.hard:
        return value + float(problem.prices @ np.maximum(problem.required_margin - f, 0.0)), W, b
    worst = float((f / problem.required_margin).min())
    return (value / worst if worst > 0 else np.inf), W, b


def _dual(problem: MarginProblem, lam: Any, mu: Any, tol: float) -> tuple[Array, Array]:
    """λ and μ, rounded to doubles with much the same Φᵀ(λ∘y) − Eᵀμ, and the same Σ y_iλ_i where that must be 0."""
    norm, m, (n, k, d) = problem.norm, problem.required_margin, problem.features.shape
    forms = (_blocks(problem) * problem.y[:, None, None]).reshape(n, -1).T
    if problem.constraints is not None:
        forms = np.hstack([forms, _exact(-problem.constraints.E.toarray().T)])
    exact = np.concatenate([lam, mu])
    V = (forms @ exact).astype(np.float64).reshape(k, d)
    if not np.isfinite(V).all():
        return np.zeros(n), np.zeros(len(mu))
    size = max(float(norm.dual(V)), float((lam.astype(np.float64) / problem.prices).max()), TINY)
    allowed = [SHARE * tol * size / (norm.dual_bound(gate) or 1.0) for gate in np.eye(k) for _ in range(d)]
    total = float((m * lam.astype(np.float64)).sum())
    stay = SHARE * tol * np.minimum(total / (m * np.ones(n)), size * problem.prices)
    stay = np.append(np.minimum(stay, lam.astype(np.float64) / 2), FREE * abs(mu).astype(np.float64)) + TINY
    if problem.intercept:
        forms = np.vstack([forms, _exact(np.append(problem.y, np.zeros(len(mu))))])
        allowed.append(BALANCED * float(lam.max()))
    # A little shorter than it could be, so that none of its digits is lost to a factor below 1.
    exact = exact * (0.99 / size)
    x = rounded(exact, forms, _exact(np.array(allowed)) / size, _exact(stay) / size)
    return np.maximum(x[:n], 0.0), x[n:]


def _solved(problem: MarginProblem, options: Options, begin: float) -> tuple[Any, Any, Any, Any, int, Status | None]:
    """W, b, λ and μ in many digits, the iterations, and why it stopped early."""
    features, form = problem.features, problem.group_form
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
    dual, intercept = found.lam[: features.n] / m / scale, b.sum() if len(b) else gmpy2.mpfr(0)
    multipliers = found.lam[features.n :] if problem.constraints is None else found.lam[features.n :] / sizes
    return W, intercept, dual, multipliers, found.iterations, found.stopped


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
