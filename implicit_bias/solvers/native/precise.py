"""The interior-point method in 60 digits, for small problems that doubles cannot resolve.

The solution is rounded to doubles so that sums that nearly cancel are accurate. Doubles near x are a grid, and the sums
of interest a lattice over it; for nearly parallel samples it has far shorter vectors than single roundings make. Its
basis is reduced (Lenstra, Lenstra & Lovász 1982), and the nearest plane of each basis vector in turn leads close to the
exact sums (Babai 1986).
"""

from typing import Any

import gmpy2
import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.deadline import Deadline
from implicit_bias._utils.scaling import TINY, length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.arrays import lu_factor, lu_solve
from implicit_bias.solvers.native.factors import Factor
from implicit_bias.solvers.native.interior_point import Bounds, Outcome, Program, descend, upper_bound
from implicit_bias.solvers.native.kernels import GroupKernels
from implicit_bias.solvers.native.settings import Settings

#: Bits of a number.
BITS = 200
#: Settings of the method; margins down to 1e-30 are resolved.
SETTINGS = Settings(no_margin=1e-30, max_iterations=300)
#: Error of one sum that rounding may cause, as a share of the tolerance.
SUM_ERROR = 0.02
#: Change of a number without a cost, as a share of itself.
FREE_CHANGE = 1e-3
#: Error of a sum that must be 0, as a share of the largest λ.
ZERO_SUM = 1e-30
#: Increases of tight margins that are tried, in units of the error of their sums.
PUSHES = (0.0, 0.5, 1.0, 2.0, 5.0)
#: Weights above this are not normalised: their sums would overflow.
LARGEST = 1e300
#: How many numbers, those of the largest terms, are rounded together; all others are rounded one by one.
TOGETHER = 12
#: Least squared length of a reduced basis vector, as a share of the previous one's (Lovász).
LOVASZ = 0.75
#: Largest number of steps of the reduction, about a millisecond each; then the basis is used as it is.
REDUCTION_STEPS = 1000

_exact = np.vectorize(gmpy2.mpfr, otypes=[object])


def solve_precisely(problem: MarginProblem, options: Options) -> Answer:
    """Return weights and dual of a margin problem, of a relative gap below `options.tol` before rounding to doubles."""
    with gmpy2.context(gmpy2.get_context(), precision=BITS), np.errstate(all="ignore"):
        W, b, lam, mu, iterations, stopped = _solved(problem, options)
        weights, intercept = _weights(problem, W, b, options.tol, options.deadline)
        dual, multipliers = _dual(problem, lam, mu, options.tol, options.deadline)
    given = None if problem.constraints is None else multipliers
    return Answer(weights, dual, iterations, stopped, intercept, given)


class ExactFactor(Factor):
    """The LU factor of a matrix of numbers of many digits."""

    def __init__(self, matrix: Any) -> None:
        self.factors = lu_factor(matrix)
        if self.factors is None:
            raise ArithmeticError("the normal matrix is singular")

    def solve(self, right: Any) -> Any:
        return lu_solve(self.factors, right)


class PreciseKernels(GroupKernels):
    """The kernels themselves, shape (H, n, n), of numbers of many digits."""

    def __init__(self, stack: Any) -> None:
        super().__init__(_exact(np.ones(stack.shape[1])), len(stack), SETTINGS)
        self.stack, self.ones = stack, _exact(np.ones(self.n))

    def weighted(self, eta: Any) -> Any:
        return np.tensordot(eta, self.stack, axes=1)

    def factor(self, eta: Any, diagonal: Any, exact: bool = True, first: Any = None) -> ExactFactor:
        return ExactFactor(self.weighted(eta) + np.diag(diagonal))

    def sweep(self, lam: Any) -> tuple[Any, Any]:
        P = (self.stack @ lam).T
        return lam @ P, P


def _weights(problem: MarginProblem, W: Any, b: Any, tol: float, deadline: Deadline) -> tuple[Array, float]:
    """Round W and b to doubles of nearly the same margins and norm; return the best of several roundings.

    After the deadline, only the nearest doubles are evaluated.
    """
    if not np.isfinite(W.astype(np.float64)).all():
        return np.zeros(W.shape), 0.0
    norm, m = problem.norm, np.broadcast_to(problem.required_margin, problem.features.n)
    forms = (_blocks(problem) * problem.y[:, None, None]).reshape(len(m), -1)
    forms, exact = np.hstack([forms, problem.y[:, None]]), np.append(W.ravel(), b)
    f, box = forms @ exact / m, None if problem.hard else _exact(problem.upper_bounds * m)
    least = min(f) if problem.hard else upper_bound(norm.value(W.astype(np.float64)), f, box)[1]
    if 0 < least < np.inf and max(abs(exact)) / least < LARGEST:
        exact = exact / least
        W, b = exact[:-1].reshape(W.shape), exact[-1]
    spare = (forms @ exact).astype(np.float64) - m
    best = _objective(problem, W.astype(np.float64), float(b))
    allowed = SUM_ERROR * tol * (m if problem.hard else best[0] / problem.upper_bounds)
    room = _exact(np.maximum(allowed, spare / 4))
    sizes = np.array([norm.value(unit) for unit in np.eye(W.size).reshape(-1, *W.shape)])
    # An intercept costs nothing.
    stay = _exact(
        np.append(SUM_ERROR * tol * norm.value(W.astype(np.float64)) / sizes, FREE_CHANGE * abs(float(b)) + TINY)
    )
    tight = spare / 4 < allowed
    for push in PUSHES:
        if deadline.passed():
            break
        x = rounded(exact, forms, room, stay, push * tight, deadline)
        best = min(best, _objective(problem, x[:-1].reshape(W.shape), float(x[-1])), key=lambda one: one[0])
    return best[1:]


def _objective(problem: MarginProblem, W: Array, b: float) -> tuple[float, Array, float]:
    """Return the objective of W and b, or in a hard margin of their best multiple, followed by W and b themselves."""
    if not np.isfinite(W).all():
        return np.inf, W, b
    upper, lower, error = problem.features.apply_bounded(W, precise=True)
    f, value = problem.y * ((upper + b) + lower) - error, problem.norm.value(W)
    if not problem.hard:
        return value + float(problem.upper_bounds @ np.maximum(problem.required_margin - f, 0.0)), W, b
    worst = float((f / problem.required_margin).min())
    return (value / worst if worst > 0 else np.inf), W, b


def _dual(problem: MarginProblem, lam: Any, mu: Any, tol: float, deadline: Deadline) -> tuple[Array, Array]:
    """Return λ and μ, rounded to doubles with nearly the same Φᵀ(λ∘y) − Eᵀμ and, if it must be 0, Σ y_iλ_i.

    After the deadline, they are the nearest doubles.
    """
    norm, m, (n, k, d) = problem.norm, problem.required_margin, problem.features.shape
    if deadline.passed():
        return lam.astype(np.float64), mu.astype(np.float64)
    forms = (_blocks(problem) * problem.y[:, None, None]).reshape(n, -1).T
    if problem.constraints is not None:
        forms = np.hstack([forms, _exact(-problem.constraints.E.toarray().T)])
    exact = np.concatenate([lam, mu])
    V = (forms @ exact).astype(np.float64).reshape(k, d)
    if not np.isfinite(V).all():
        return np.zeros(n), np.zeros(len(mu))
    size = max(float(norm.dual(V)), float((lam.astype(np.float64) / problem.upper_bounds).max()), TINY)
    allowed = [SUM_ERROR * tol * size / (norm.dual_bound(gate) or 1.0) for gate in np.eye(k) for _ in range(d)]
    total = float((m * lam.astype(np.float64)).sum())
    stay = SUM_ERROR * tol * np.minimum(total / (m * np.ones(n)), size * problem.upper_bounds)
    stay = np.append(np.minimum(stay, lam.astype(np.float64) / 2), FREE_CHANGE * abs(mu).astype(np.float64)) + TINY
    if problem.intercept:
        forms = np.vstack([forms, _exact(np.append(problem.y, np.zeros(len(mu))))])
        allowed.append(ZERO_SUM * float(lam.max()))
    # A little shorter than possible, so that no digit is lost to a factor below 1.
    exact = exact * (0.99 / size)
    x = rounded(exact, forms, _exact(np.array(allowed)) / size, _exact(stay) / size, deadline=deadline)
    return x[:n], x[n:]


def _solved(problem: MarginProblem, options: Options) -> tuple[Any, Any, Any, Any, int, Status | None]:
    """Return W, b, λ and μ in many digits, the iterations, and why the method stopped early."""
    features, form = problem.features, problem.group_form
    assert form is not None
    T, (labels, index) = _exact(form.expand.toarray()), np.unique(form.groups, return_inverse=True)
    m = _exact(np.broadcast_to(problem.required_margin, features.n))
    scale = nearest_power_of_two(float(length(features.row_norms() / problem.required_margin)) / features.n**0.5)
    rows = np.tensordot(_blocks(problem), T, axes=(1, 0)).transpose(0, 2, 1) * (problem.y / m / scale)[:, None, None]
    box, column = None if problem.hard else _exact(problem.upper_bounds) * m * scale, problem.y / m
    rhs = equal = None
    if problem.constraints is not None:
        more, sizes = _constraint_rows(problem, T)
        rows = np.concatenate([rows, more])
        rhs, column = (np.concatenate([part, 0 * sizes]) for part in (_exact(np.ones(features.n)), column))
        box = None if box is None else np.concatenate([box, 0 * sizes])
        equal = np.concatenate([np.zeros(features.n, dtype=bool), problem.constraints.equal])
    groups = (rows[:, index == h].reshape(len(rows), -1) for h in range(len(labels)))
    stack = np.array([A @ A.T for A in groups])
    program = Program(PreciseKernels(stack), box, column if problem.intercept else None, rhs, equal)

    def watch(iteration: int, bounds: Bounds) -> Status | None:
        return options.stop()

    limit = SETTINGS.max_iterations if options.max_iterations is None else options.max_iterations
    found: Outcome = descend(program, options.tol / 4, limit, None, watch)
    lam, eta, b = found.weights
    W = T @ (np.tensordot(lam, rows, axes=(0, 0)) * eta[index][:, None]) / scale
    dual, intercept = found.lam[: features.n] / m / scale, b.sum() if len(b) else gmpy2.mpfr(0)
    multipliers = found.lam[features.n :] if problem.constraints is None else found.lam[features.n :] / sizes
    return W, intercept, dual, multipliers, found.iterations, found.stopped


def _constraint_rows(problem: MarginProblem, T: Any) -> tuple[Any, Any]:
    """Return the constraints as rows −E_jT of length 1, and their lengths before."""
    constraints = problem.constraints
    E = _exact(constraints.E.toarray()).reshape(-1, problem.features.k, problem.features.d)
    rows = np.tensordot(-E, T, axes=(1, 0)).transpose(0, 2, 1)
    sizes = np.array([max((row**2).sum() ** 0.5, gmpy2.mpfr(TINY)) for row in rows], dtype=object)
    return rows / sizes[:, None, None], sizes


def _blocks(problem: MarginProblem) -> Any:
    """Return φ_j(x_i), exactly, shape (n, k, d)."""
    features = problem.features
    if features.gate_values is None:
        return _exact(features.dense()).reshape(features.shape)
    return _exact(features.gate_values)[:, :, None] * _exact(features.X)[:, None]  # type: ignore[attr-defined]


def rounded(exact: Any, forms: Any, room: Any, stay: Any, push: Any = 0.0, deadline: Deadline | None = None) -> Array:
    """Return doubles x (k,) near `exact` with forms @ x near forms @ exact + push ∘ room, and x_j within about stay_j.

    All arguments have many digits: `exact` (k,), `forms` (s, k), and the units of errors in the sums, `room` (s,), and
    in the numbers, `stay` (k,). After the deadline the result is less accurate.

    Examples
    --------
    A sum that is 0 up to a millionth of the error of rounding its terms:

    >>> many = np.vectorize(gmpy2.mpfr, otypes=[object])
    >>> forms, exact = many(np.array([[1e8 + 1, -1e8]])), many(np.array([1e8, 1e8 + 1])) / 3
    >>> x = rounded(exact, forms, many(np.array([1e-6])), many(np.ones(2)))
    >>> float(abs(forms @ exact.astype(float))[0]) > 1e-2, float(abs(forms @ many(x))[0]) < 1e-6
    (True, True)
    """
    x = exact.astype(np.float64)
    reach = (abs(forms * exact) / room[:, None]).max(axis=0).astype(np.float64)
    chosen = np.argsort(-reach, kind="stable")[:TOGETHER]
    chosen = chosen[x[chosen] != 0]
    if not len(chosen):
        return x
    # One bit less than doubles have, for numbers that exceed a power of two.
    unit = np.ldexp(1.0, np.frexp(x[chosen])[1] - 52)
    x[chosen] = np.round(x[chosen] / unit) * unit
    stay = stay[chosen]
    basis = np.hstack([(forms[:, chosen] * unit / room[:, None]).T, np.diag(unit / stay)])
    missing = np.concatenate([(forms @ (exact - x)) / room + push, (exact - x)[chosen] / stay])
    basis, planes = _reduced(basis, deadline or Deadline())
    moved = 0 * missing
    for b, plane in zip(basis[::-1], planes[::-1], strict=True):
        times = gmpy2.rint((missing - moved) @ plane / (plane @ plane))
        moved = moved + times * b
    x[chosen] += (moved[-len(chosen) :] * stay).astype(np.float64)
    return x


def _reduced(basis: Any, deadline: Deadline) -> tuple[Any, list[Any]]:
    """Return a basis of the same lattice with short, nearly orthogonal vectors, and its orthogonalisation."""
    basis, planes, k = basis.copy(), [basis[0]], 1
    for _ in range(REDUCTION_STEPS):
        if k == len(basis) or deadline.passed():
            break
        for j in range(k - 1, -1, -1):
            times = gmpy2.rint(basis[k] @ planes[j] / (planes[j] @ planes[j]))
            if times:
                basis[k] = basis[k] - times * basis[j]
        found, last = _orthogonal(basis[k], planes[:k]), planes[k - 1]
        part = basis[k] @ last / (last @ last)
        if found @ found >= (LOVASZ - part * part) * (last @ last):
            planes, k = [*planes[:k], found], k + 1
        else:
            basis[[k - 1, k]] = basis[[k, k - 1]]
            planes = [*planes[: k - 1], _orthogonal(basis[k - 1], planes[: k - 1])]
            k = max(k - 1, 1)
    while len(planes) < len(basis):
        planes.append(_orthogonal(basis[len(planes)], planes))
    return basis, planes


def _orthogonal(vector: Any, planes: list[Any]) -> Any:
    """Return a vector without its components along the orthogonal vectors `planes`."""
    for plane in planes:
        vector = vector - (vector @ plane / (plane @ plane)) * plane
    return vector
