"""The interior-point method in 60 digits, for small problems that doubles cannot resolve.

The solution is rounded to doubles so that sums that nearly cancel are accurate. Doubles near x are a grid, and the sums
of interest a lattice over it; for nearly parallel samples it has far shorter vectors than single roundings make. Its
basis is reduced (Lenstra, Lenstra & Lovász 1982), and the nearest plane of each basis vector in turn leads close to the
exact sums (Babai 1986).
"""

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import gmpy2
import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.memory import TooLargeError
from implicit_bias._utils.scaling import TINY, length, nearest_power_of_two
from implicit_bias.features import Features
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.arrays import CPU
from implicit_bias.solvers.native.factors import Factor
from implicit_bias.solvers.native.interior_point import Outcome, Program, descend, upper_bound
from implicit_bias.solvers.native.kernels import StackedKernels
from implicit_bias.solvers.native.scaled import ScaledProblem
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.working_set import SampleSet

#: Bits of a number.
BITS = 200
#: Settings of the method; margins down to 1e-30 are resolved, and no step uses the features.
SETTINGS = Settings(
    no_margin=1e-30,
    least_centring=0.2,
    nearly_no_margin=1e-28,
    rho_fall=0.9,
    max_iterations=1000,
    features_per_sample=0.0,
    all_samples_up_to=40,
    first_samples=40,
    least_samples=40,
    growth=1.0,
    known_support_up_to=100,
)
#: Largest number of samples of a working set: a step then takes about 2 s.
MOST_ROWS = 250
#: Error of one sum that rounding may cause, as a share of the tolerance.
SUM_ERROR = 0.02
#: Error of a bound that rounding may cause, as a share of the tolerance.
ROUNDING_ERROR = 0.1
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
    """Return weights and dual of a margin problem, of a relative gap below `options.tol` before rounding to doubles.

    Working sets of samples are solved. The first one has the largest λ of `options.start`, if it is given.
    """
    begin = time.perf_counter()
    with gmpy2.context(gmpy2.get_context(), precision=BITS), np.errstate(all="ignore"):
        ours = PreciseProblem(problem)
        found, V, mu = _solved(ours, options, begin)
        W, b, lam = ours.original(V, found.weights[1]), found.weights[2].sum(), found.lam / ours.m / ours.scale
        if found.stopped is None:
            weights, intercept = _weights(problem, W, b, options.tol)
            dual, mu = _dual(problem, lam, mu, options.tol)
        else:
            weights, dual, mu = (part.astype(np.float64) for part in (W, lam, mu))
            intercept = float(b)
    given = None if problem.constraints is None else mu
    return Answer(weights, dual, found.iterations, found.stopped, intercept, given, found.reason)


class ExactFactor(Factor):
    """LDLᵀ of a symmetric matrix (n, n) of numbers of many digits, without pivoting; L and D replace the matrix."""

    def __init__(self, matrix: Any) -> None:
        self.L, n = matrix, len(matrix)
        for j in range(n):
            row = matrix[j, :j] * matrix.diagonal()[:j]
            matrix[j:, j] -= matrix[j:, :j] @ row
            if matrix[j, j] == 0:
                raise ArithmeticError("the normal matrix is singular")
            matrix[j + 1 :, j] /= matrix[j, j]

    def solve(self, right: Any) -> Any:
        L, x = self.L, right.copy()
        for j in range(1, len(x)):
            x[j] -= L[j, :j] @ x[:j]
        x /= L.diagonal()[:, None]
        for j in reversed(range(len(x) - 1)):
            x[j] -= L[j + 1 :, j] @ x[j + 1 :]
        return x


class PreciseKernels(StackedKernels):
    """Kernels of factors A (n, H, r) of numbers of many digits."""

    def factor(self, eta: Any, diagonal: Any, exact: bool = True, first: Any = None) -> ExactFactor:
        return ExactFactor(self.weighted(eta) + np.diag(diagonal))


class PreciseProblem(ScaledProblem):
    """A problem in many digits: features are converted when they are used, and the features of a group concatenated."""

    def __init__(self, problem: MarginProblem) -> None:
        features, form = problem.features, problem.group_form
        assert form is not None
        size = float(length(features.row_norms() / problem.required_margin)) / features.n**0.5
        super().__init__(problem, form, CPU, SETTINGS, nearest_power_of_two(size))
        self.T = form.expand.tocsc()
        self.m = _exact(np.broadcast_to(problem.required_margin, features.n))
        # The same as in the base class, without rounding.
        self.box = None if problem.hard else _exact(problem.upper_bounds) * self.m * self.scale
        self.intercept_column = problem.y / self.m if problem.intercept else None
        self.width = int(np.bincount(self.index).max()) * features.d
        self.columns = self.H * self.width

    def stacked(self, blocks: Any) -> Any:
        """Return blocks φ (m, k, d) in the coordinates Ŵ, shape (m, H, r), padded with zeros."""
        mixed = self.mixed(blocks)
        A = np.full((len(blocks), self.H, self.width), gmpy2.mpfr(0))
        for h in range(self.H):
            own = mixed[:, self.index == h].reshape(len(blocks), -1)
            A[:, h, : own.shape[1]] = own
        return A

    def mixed(self, blocks: Any) -> Any:
        """Return Σ_j T_jc φ_j for blocks φ (m, k, d) and every column c of T, shape (m, C, d)."""
        starts, own, values = self.T.indptr, self.T.indices, self.T.data[:, None]
        columns = [slice(*pair) for pair in pairwise(starts)]
        return np.stack([(blocks[:, own[part]] * values[part]).sum(axis=1) for part in columns], axis=1)

    def linear(self, rows: Any) -> PreciseKernels:
        blocks = _blocks(self.problem.features.select(rows))
        factors = self.problem.y[rows] / self.m[rows] / self.scale
        return PreciseKernels(self.stacked(blocks) * factors[:, None, None], SETTINGS)

    def adjoint(self, lam: Any) -> Any:
        return super().adjoint(lam) if lam.any() else np.full((self.H, self.width), gmpy2.mpfr(0))

    def kernels(self, rows: Any, more: Any = None) -> PreciseKernels:
        A = self.linear(rows).A
        return PreciseKernels(A if more is None else np.concatenate([A, self.adjoint(more)[None]]), SETTINGS)

    def check_room(self, samples: int) -> None:
        """Raise TooLargeError if a step of so many samples takes more than a second."""
        if samples > MOST_ROWS:
            raise TooLargeError(f"more than {MOST_ROWS} samples decide the solution, too many for 60 digits")

    def starts_cold(self, samples: int, bounded: int) -> bool:
        """Return True: the λ of new samples would be far larger than the sums that cancel."""
        return True

    def _kernel_numbers(self, samples: int) -> int:
        return (self.H + 2) * samples**2

    def squares(self, V: Any) -> Any:
        return (V * V).sum(axis=1)

    def _outputs(self, V: Any, eta: Any) -> Any:
        parts = (np.arange(i, min(i + SETTINGS.chunk, self.n)) for i in range(0, self.n, SETTINGS.chunk))
        return np.concatenate([self.linear(rows).outputs(V * eta[:, None]) for rows in parts])

    def with_constraints(self) -> tuple[Program, Any]:
        """Return the program of all samples and the constraints, as rows −E_jT of length 1, and their lengths before."""
        constraints, (n, k, d) = self.problem.constraints, self.problem.features.shape
        assert constraints is not None
        rows = self.stacked(_exact(-constraints.E.toarray()).reshape(-1, k, d))
        sizes = np.array([max((row**2).sum() ** 0.5, gmpy2.mpfr(TINY)) for row in rows], dtype=object)
        A = np.concatenate([self.linear(np.arange(n)).A, rows / sizes[:, None, None]])
        box, column = (
            None if part is None else np.concatenate([part, 0 * sizes]) for part in (self.box, self.intercept_column)
        )
        rhs = np.concatenate([_exact(np.ones(n)), 0 * sizes])
        equal = np.concatenate([np.zeros(n, dtype=bool), constraints.equal])
        return Program(PreciseKernels(A, SETTINGS), box, column, rhs, equal), sizes

    def original(self, V: Any, eta: Any) -> Any:
        """Return W (k, d) of the weights η_h V_h."""
        W, d = V * eta[:, None] / self.scale, self.problem.features.d
        parts = np.full((self.T.shape[1], d), gmpy2.mpfr(0))
        for h in range(self.H):
            own = self.index == h
            parts[own] = W[h, : own.sum() * d].reshape(-1, d)
        return _exact(self.T.toarray()) @ parts


def _solved(ours: PreciseProblem, options: Options, begin: float) -> tuple[Outcome, Any, Any]:
    """Return λ, weights and bounds over all samples, Φ̂ᵀλ of the weights, and the multipliers of linear constraints."""

    def watch(*_: Any) -> Status | None:
        late = options.max_seconds is not None and time.perf_counter() - begin > options.max_seconds
        return Status.TIME_LIMIT if late else None

    tol = options.tol / 4
    limit = SETTINGS.max_iterations if options.max_iterations is None else options.max_iterations
    if ours.problem.constraints is None:
        start = None if options.start is None else np.asarray(options.start.dual)
        found = SampleSet(ours, start, ours.nothing_known(), tol, limit, watch).run()
        return found, ours.adjoint(found.weights[0]), np.zeros(0)
    program, sizes = ours.with_constraints()
    found = descend(program, tol, limit, None, watch)
    V = program.kernels.adjoint(found.weights[0])
    return replace(found, lam=found.lam[: ours.n]), V, found.lam[ours.n :] / sizes


def _weights(problem: MarginProblem, W: Any, b: Any, tol: float) -> tuple[Array, float]:
    """Round W and b to doubles of nearly the same margins and norm; return the best of several roundings."""
    if not np.isfinite(W.astype(np.float64)).all():
        return np.zeros(W.shape), 0.0
    norm, near = problem.norm, _nearest(problem, W, b)
    m, y = np.broadcast_to(problem.required_margin, problem.features.n)[near], problem.y[near]
    forms = (_blocks(problem.features.select(near)) * y[:, None, None]).reshape(len(m), -1)
    forms, exact = np.hstack([forms, y[:, None]]), np.append(W.ravel(), b)
    f, box = forms @ exact / m, None if problem.hard else _exact(problem.upper_bounds[near] * m)
    value = norm.value(W.astype(np.float64))
    target, least = upper_bound(value, f, box)
    if 0 < least < np.inf and max(abs(exact)) / least < LARGEST:
        exact = exact / least
        W, b = exact[:-1].reshape(W.shape), exact[-1]
    best = _objective(problem, W.astype(np.float64), float(b))
    if best[0] <= target * (1 + ROUNDING_ERROR * tol):
        return best[1:]
    spare = (forms @ exact).astype(np.float64) - m
    allowed = SUM_ERROR * tol * (m if problem.hard else best[0] / problem.upper_bounds[near])
    room = _exact(np.maximum(allowed, spare / 4))
    sizes = np.array([norm.value(unit) for unit in np.eye(W.size).reshape(-1, *W.shape)])
    # An intercept costs nothing.
    stay = _exact(
        np.append(SUM_ERROR * tol * norm.value(W.astype(np.float64)) / sizes, FREE_CHANGE * abs(float(b)) + TINY)
    )
    tight = spare / 4 < allowed
    for push in PUSHES:
        x = rounded(exact, forms, room, stay, push * tight)
        best = min(best, _objective(problem, x[:-1].reshape(W.shape), float(x[-1])), key=lambda one: one[0])
    return best[1:]


def _nearest(problem: MarginProblem, W: Any, b: Any) -> np.ndarray:
    """Return the samples of the smallest margins, at most `MOST_ROWS`, as far as doubles resolve them."""
    upper, lower, _ = problem.features.apply_bounded(W.astype(np.float64), precise=True)
    f = problem.y * ((upper + float(b)) + lower) / problem.required_margin
    return np.sort(np.argsort(np.nan_to_num(f, nan=0.0), kind="stable")[:MOST_ROWS])


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


def _dual(problem: MarginProblem, lam: Any, mu: Any, tol: float) -> tuple[Array, Array]:
    """Return λ and μ, rounded to doubles with nearly the same Φᵀ(λ∘y) − Eᵀμ and, if it must be 0, Σ y_iλ_i."""
    norm, (n, k, d), dual = problem.norm, problem.features.shape, np.zeros(problem.features.n)
    used = np.flatnonzero(lam != 0)
    lam, y, upper_bounds = lam[used], problem.y[used], problem.upper_bounds[used]
    m = np.broadcast_to(problem.required_margin, n)[used]
    forms = (_blocks(problem.features.select(used)) * y[:, None, None]).reshape(len(used), -1).T
    if problem.constraints is not None:
        forms = np.hstack([forms, _exact(-problem.constraints.E.toarray().T)])
    exact = np.concatenate([lam, mu])
    V, near = (forms @ exact).astype(np.float64), (forms @ exact.astype(np.float64)).astype(np.float64)
    if not np.isfinite(V).all():
        return dual, np.zeros(len(mu))
    reach = float((lam.astype(np.float64) / upper_bounds).max(initial=0.0))
    size = max(float(norm.dual(V.reshape(k, d))), reach, TINY)
    if not problem.intercept and norm.dual((near - V).reshape(k, d)) <= ROUNDING_ERROR * tol * size:
        dual[used] = lam.astype(np.float64)
        return dual, mu.astype(np.float64)
    allowed = [SUM_ERROR * tol * size / (norm.dual_bound(gate) or 1.0) for gate in np.eye(k) for _ in range(d)]
    total = float((m * lam.astype(np.float64)).sum())
    stay = SUM_ERROR * tol * np.minimum(total / m, size * upper_bounds)
    stay = np.append(np.minimum(stay, lam.astype(np.float64) / 2), FREE_CHANGE * abs(mu).astype(np.float64)) + TINY
    if problem.intercept:
        forms = np.vstack([forms, _exact(np.append(y, np.zeros(len(mu))))])
        allowed.append(ZERO_SUM * float(lam.max()))
    # A little shorter than possible, so that no digit is lost to a factor below 1.
    exact = exact * (0.99 / size)
    x = rounded(exact, forms, _exact(np.array(allowed)) / size, _exact(stay) / size)
    dual[used] = x[: len(used)]
    return dual, x[len(used) :]


def _blocks(features: Features) -> Any:
    """Return φ_j(x_i), exactly, shape (n, k, d)."""
    if features.gate_values is None:
        return _exact(features.dense()).reshape(features.shape)
    return _exact(features.gate_values)[:, :, None] * _exact(features.X)[:, None]  # type: ignore[attr-defined]


def rounded(exact: Any, forms: Any, room: Any, stay: Any, push: Any = 0.0) -> Array:
    """Return doubles x (k,) near `exact` with forms @ x near forms @ exact + push ∘ room, and x_j within about stay_j.

    All arguments have many digits: `exact` (k,), `forms` (s, k), and the units of errors in the sums, `room` (s,), and
    in the numbers, `stay` (k,).

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
    basis, planes = _reduced(basis)
    moved = 0 * missing
    for b, plane in zip(basis[::-1], planes[::-1], strict=True):
        times = gmpy2.rint((missing - moved) @ plane / (plane @ plane))
        moved = moved + times * b
    x[chosen] += (moved[-len(chosen) :] * stay).astype(np.float64)
    return x


def _reduced(basis: Any) -> tuple[Any, list[Any]]:
    """Return a basis of the same lattice with short, nearly orthogonal vectors, and its orthogonalisation."""
    basis, planes, k = basis.copy(), [basis[0]], 1
    for _ in range(REDUCTION_STEPS):
        if k == len(basis):
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
