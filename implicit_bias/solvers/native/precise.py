"""An interior-point method in 60 digits, for margin problems that doubles cannot resolve.

Working sets of samples (`PreciseSet`) are solved by the method of `homogeneous` in `BITS` bits (`SetProgram`). Samples
whose λ is at its upper bound leave the set for a row that they share. The margins of all samples are computed in
doubles where these resolve 1 − f, and in many digits otherwise.

At the end the solution is rounded to doubles, several times if the nearest ones are not accurate enough, and the best
result is kept. In a soft margin, λ near 0 or near the upper bound are first rounded to that number. The numbers with
the largest terms are rounded together, so that sums that nearly cancel stay accurate: the margins, which W and b
determine, and Φᵀ(λ∘y). The changes of the numbers by multiples of their last bit, with the changes of the sums, form a
lattice. For nearly parallel samples its shortest vectors change the sums far less than the last bit of one number does.
The basis of the lattice is reduced (Lenstra, Lenstra & Lovász 1982), and the nearest plane of each basis vector in turn
leads close to the exact sums (Babai 1986).

References
----------
Lenstra, Lenstra & Lovász (1982), "Factoring polynomials with rational coefficients"; Babai (1986), "On Lovász' lattice
reduction and the nearest lattice point problem".
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import gmpy2
import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, UNIT, length, nearest_power_of_two
from implicit_bias._utils.limits import Deadline, TooLargeError
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Status
from implicit_bias.norms.base import padding
from implicit_bias.solvers.base import Answer, Options, Solver
from implicit_bias.solvers.native.conic import BITS, conic_form, exact_blocks, many_digits, signed
from implicit_bias.solvers.native.homogeneous import EmbeddedIterate, dual_program, maximise
from implicit_bias.solvers.native.loop import Bounds, upper_bound
from implicit_bias.solvers.native.solver import NativeSolver, largest_bound
from implicit_bias.solvers.native.working_set import GrowingSet, Support

#: Iteration limit over all rounds, of which each takes 15 to 40.
MAX_ITERATIONS = 500
#: Hard margins below this, for samples of mean square length 1, count as zero.
NO_MARGIN = 1e-36
#: Largest upper bound of a λ, in units of the features, that doubles resolve.
SAFE_C = 1e6
#: Relative gap of a program with linear constraints: violations below the rounding of doubles matter, too.
CONIC_TOL = 1e-36
#: Smallest gap of a solution with that bound.
SAFE_TOL = 1e-5
#: Samples up to which one set holds all; also the number of a random first set.
ALL_SAMPLES = 100
#: Number of rows beyond which inactive ones are dropped.
FULL = 120
#: Largest number of samples that a round adds; also of a class that the first set lacks.
GROWTH = 20
#: Share of the largest λ above which a sample belongs to the support of an earlier λ.
SUPPORT = 1e-5
#: Share of its bound from which an earlier λ counts as at the bound.
AT_BOUND = 0.99
#: Largest number of samples in a set, where an iteration takes about a second for few groups, and in a rounding of W.
MOST_ROWS = 200
#: Relative error of 1 − f up to which a margin f is computed in doubles.
RESOLVED = 1e-6
#: Largest number of numbers of all kernels of a set, a second per iteration.
MOST_NUMBERS = 1e6
#: Samples whose margins are computed in many digits at a time.
CHUNK = 4096
#: Error of one sum that rounding may cause, as a share of the tolerance.
SUM_ERROR = 0.02
#: Change of a λ at its bound, as a share of that of the others.
CLOSE = 1e-6
#: Relative distance from its upper bound below which a λ is rounded to the bound.
NEAR_BOUND = 1e-6
#: Error of a bound that rounding may cause, as a share of the tolerance.
ROUNDING_ERROR = 0.1
#: Change of a number without a cost, as a share of itself.
FREE_CHANGE = 1e-3
#: Share of the largest λ_i ‖φ(x_i)‖, for a soft margin of ‖Φᵀ(λ∘y)‖, below which λ_i becomes 0, as it is in proofs.
VANISHED = 1e-27
#: Dual norm to which λ is scaled.
LENGTH = 0.99
#: Error of a sum that must be 0, as a share of the last bit of the smallest λ, of which all sums are multiples.
ZERO_SUM = 1e-3
#: Increases of tight margins that are tried, in units of the error of their sums.
PUSHES = (0.0, 0.5, 1.0, 2.0, 5.0)
#: The same with linear constraints, in units of the rounding error of the sum.
ULPS = (0.0, 1.0, 4.0, 16.0, 64.0)
#: Weights above this are not normalised: their sums would overflow.
LARGEST = 1e300
#: How many numbers, those of the largest terms, are rounded together; all others are rounded one by one.
TOGETHER = 12
#: Relative change of the scale of λ, of which all multiples are equivalent.
SCALE_CHANGE = 0.3
#: The same for W of a hard margin: the certificate multiplies it, and rounds it again, unless margins are near 1.
SCALE_CHANGE_OF_WEIGHTS = 0.003
#: Roundings of λ that are tried: the distance NEAR_BOUND from 0 and the bound below which λ becomes that number, how
#: many λ are rounded together, and whether near any multiple of λ, if none is near its upper bound.
SOFT_ROUNDINGS = (NEAR_BOUND, TOGETHER, False), (0.0, TOGETHER, False), (NEAR_BOUND, 30, False), (0.0, 30, True)
HARD_ROUNDINGS = (0.0, TOGETHER, True), (0.0, TOGETHER, False), (0.0, 30, True)
#: Least squared length of a reduced basis vector, as a share of the previous one's (Lovász).
LOVASZ = 0.75
#: Largest number of steps of the reduction, about a millisecond each; then the basis is used as it is.
REDUCTION_STEPS = 4000

#: Largest number of features: an iteration then takes at most about a second.
MOST_FEATURES = 1000
#: Largest number of linear constraints, for the same reason.
MOST_CONSTRAINTS = 100

#: Returns the status of a limit that is reached; None without one.
Watch = Callable[[], Status | None]


class PreciseSolver(Solver):
    """An interior-point method in 60 digits, for problems that doubles cannot resolve; supports linear constraints.

    It solves working sets of at most some 200 samples, so that n may be large if few samples are support vectors below
    their upper bound. With constraints, and for norms without a group form, it solves for all samples at once.
    """

    name = "PRECISE"
    takes = frozenset({"max_seconds", "start"})

    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        with gmpy2.context(gmpy2.get_context(), precision=BITS), np.errstate(all="ignore"):
            most = MAX_ITERATIONS if options.max_iterations is None else options.max_iterations
            if problem.group_form is None or problem.constraints is not None:
                answer = _solve_conic(problem, most, options.stop)
            else:
                # The gap is that of the numbers before they become doubles.
                answer = PreciseSet(problem, _known_dual(problem, options), options.tol / 2, most, options.stop).run()
        # Sums that must be 0 have units far below those of the largest terms.
        with gmpy2.context(gmpy2.get_context(), precision=2 * BITS), np.errstate(all="ignore"):
            weights, b = _weights(problem, answer.weights, answer.intercept, options.tol, options.deadline)
            mu = _without_opposite(problem.constraints, answer.multipliers)
            dual, mu = _dual(problem, answer.dual, mu, options.tol, options.deadline)
        given = None if problem.constraints is None else mu
        return replace(answer, weights=weights, dual=dual, intercept=b, multipliers=given)

    def refusal(self, problem: MarginProblem, options: Options) -> str | None:
        features, constraints = problem.features, problem.constraints
        if features.k * features.d > MOST_FEATURES:
            return f"the arithmetic of PRECISE is for at most {MOST_FEATURES} features; use NATIVE"
        if constraints is not None and len(constraints.equal) > MOST_CONSTRAINTS:
            return f"the arithmetic of PRECISE is for at most {MOST_CONSTRAINTS} linear constraints; use CLARABEL"
        # A nuclear norm as a semidefinite program has too many variables.
        reason = super().refusal(problem, options)
        return reason or (self.structure_refusal(problem, "groups") if problem.norm.has_atoms else None)


def _known_dual(problem: MarginProblem, options: Options) -> Array | None:
    """Return a λ (n,) from which `PreciseSet` chooses its first set, or None."""
    # If C is too large for doubles, NATIVE solves at a smaller C: from some C on, the same λ_i are at their bounds.
    share = 1.0 if problem.hard else SAFE_C / max(largest_bound(problem), SAFE_C)
    if share < 1 and problem.features.n > ALL_SAMPLES:
        safe = replace(options, tol=max(options.tol, SAFE_TOL), start=None, callback=None)
        lam = NativeSolver()(problem.replace(C=problem.C * share), safe).dual
        size = max(problem.norm.dual(problem.adjoint(lam)) * share, (lam / problem.upper_bounds).max(), TINY)
        return np.asarray(lam / size)
    return None if options.start is None else np.asarray(options.start.dual)


def _without_opposite(constraints: LinearConstraints | None, mu: Any) -> Any:
    """Subtract from the μ (m,) of opposite rows what they share, unless that reduces the dual objective."""
    if constraints is None:
        return mu
    # The μ of an interval with one point are not bounded, and only their difference is well-defined.
    E = constraints.E.toarray()
    for i, j in np.argwhere((E[:, None] == -E).all(axis=2)):
        if i < j and not constraints.equal[[i, j]].any() and constraints.h[i] + constraints.h[j] >= 0:
            mu[[i, j]] -= min(mu[i], mu[j])
    return mu


class ExactFactor:
    """LDLᵀ, without pivoting, of a symmetric matrix of many digits, whose lower triangle it overwrites by L and D."""

    def __init__(self, matrix: Any, stop: Watch) -> None:
        self.L, n = matrix, len(matrix)
        for j in range(n):
            if stop():
                raise ArithmeticError("the time is up")
            matrix[j:, j] -= matrix[j:, :j] @ (matrix[j, :j] * matrix.diagonal()[:j])
            if matrix[j, j] == 0:
                raise ArithmeticError("the normal matrix is singular")
            matrix[j + 1 :, j] /= matrix[j, j]

    def solve(self, right: Any) -> Any:
        """Return the solution (n, m), as a new array, for right-hand sides (n, m)."""
        L, x = self.L, right.copy()
        for j in range(1, len(x)):
            x[j] -= L[j, :j] @ x[:j]
        x /= L.diagonal()[:, None]
        for j in reversed(range(len(x) - 1)):
            x[j] -= L[j + 1 :, j] @ x[j + 1 :]
        return x


class PreciseSet(GrowingSet, Support):
    """Working set of samples, in many digits: `rows` have a λ_i each, and `bounded` ones have λ_i = p_i.

    The coordinates differ from those of the problem. With W = TŴ/s, in groups of Ŵ that are padded with zeros,

        φ̂_i = y_i φ_i T/(m_i s),   λ̂_i = λ_i m_i s,   p̂_i = C c_i m_i s,   f_i = ⟨φ̂_i, Ŵ⟩ + ỹ_i b,   ỹ_i = y_i/m_i,

    so that required margins are 1, and objectives are multiplied by s. Arrays without a dtype below are in many digits.

    The norm of `problem` has a group form, and there are no linear constraints. `tol` is the relative gap over all
    samples that ends the rounds, `most` the largest number of their iterations.
    """

    last = True

    def __init__(self, problem: MarginProblem, dual: Array | None, tol: float, most: int, watch: Watch) -> None:
        features, form = problem.features, problem.group_form
        assert form is not None
        self.problem, self.known, self.tol, self.most, self.watch = problem, dual, tol, most, watch
        self.n = features.n
        #: W = TŴ/s for Ŵ as rows of length d, sorted by their groups 0 … H − 1, which are padded to the same size.
        self.T, self.H = (form.expand @ padding(form.index).T).tocsc(), form.count
        self.m = many_digits(np.broadcast_to(problem.required_margin, self.n))
        #: s, a power of two with which φ̂_i have a mean square length near 1; p̂, None for a hard margin; and ỹ.
        self.scale = nearest_power_of_two(float(length(features.row_norms() / problem.required_margin)) / self.n**0.5)
        self.box: Any = None if problem.hard else many_digits(problem.upper_bounds) * self.m * self.scale
        self.column = problem.intercept * problem.y / self.m
        super().__init__(np.zeros(0, dtype=int), np.zeros(0, dtype=int), problem.y)
        zero = gmpy2.mpfr(0)
        #: Ŵ (H, r) and b of the best upper bound, margins f (n,) of the last round, and λ̂ of the best lower bound.
        self.W = np.full((self.T.shape[1], features.d), zero).reshape(self.H, -1)
        self.b, self.f = zero, np.full(self.n, zero)
        self.lam, self.bounds, self.iterations = np.full(self.n, zero), Bounds(), 0
        self.stopped: Status | None = None
        #: True if the last set has no finite upper bound: its samples are not separated.
        self.failed, self.reason = False, ""

    def run(self) -> Answer:
        """Repeat rounds; return the best weights and dual, in many digits, also at a limit or with too many rows."""
        try:
            self.rows, self.bounded = self._first()
            self.grow()
        except TooLargeError as error:
            self.reason = str(error)
        lam = self.lam / self.m / self.scale
        return Answer(self._original(self.W), lam, self.iterations, self.stopped, self.b, _array([]), self.reason)

    @property
    def ended(self) -> bool:
        return self.failed or self.stopped is not None or self.bounds.gap <= self.tol

    def _first(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first `rows` and `bounded`: all samples, the support of an earlier λ, or a seeded random draw."""
        every, y = np.arange(self.n), self.problem.y
        if self.n <= ALL_SAMPLES:
            return every, every[:0]
        lam = np.zeros(self.n) if self.known is None else self.known
        at_bound = (lam > 0) & (lam >= AT_BOUND * self.problem.upper_bounds)
        if at_bound.all():
            at_bound[:GROWTH] = False
        free = np.where((lam > SUPPORT * lam.max()) & ~at_bound, lam, 0.0)
        self._check_room(int(np.count_nonzero(free)))
        rows = np.argsort(-free, kind="stable")[: np.count_nonzero(free)]
        others = np.random.default_rng(0).permutation(every[~at_bound])
        if not len(rows):
            rows = others[:ALL_SAMPLES]
        if self.problem.intercept:
            missing = [others[y[others] == sign][:GROWTH] for sign in (-1, 1) if not (y[rows] == sign).any()]
            rows = np.concatenate([rows, *missing])
        return rows, every[at_bound]

    def _check_room(self, samples: int) -> None:
        """Raise TooLargeError if so many samples exceed MOST_ROWS, or if their kernels exceed MOST_NUMBERS entries."""
        if samples > MOST_ROWS or self.H * samples**2 > MOST_NUMBERS:
            raise TooLargeError(f"{samples} samples in {self.H} groups are too many for arithmetic of 60 digits")

    def samples(self, rows: np.ndarray) -> Any:
        """Return φ̂_i of the m samples with indices `rows`, shape (m, H, r): rows of groups, padded with zeros."""
        if not len(rows):
            return self.W[None][:0]
        blocks = exact_blocks(self.problem.features.select(rows))
        index, values = self.T.indices, self.T.data[:, None]
        columns = [slice(*pair) for pair in pairwise(self.T.indptr)]
        mixed = np.stack([(blocks[:, index[part]] * values[part]).sum(axis=1) for part in columns], axis=1)
        return mixed.reshape(len(rows), self.H, -1) * (self.problem.y[rows] / self.m[rows] / self.scale)[:, None, None]

    def mean(self, rows: np.ndarray, shares: Any) -> Any:
        """Return Σ_i shares_i φ̂_i over samples `rows` with `shares` of the same length, shape (H, r)."""
        parts = (slice(i, i + CHUNK) for i in range(0, len(rows), CHUNK))
        return sum(np.tensordot(shares[part], self.samples(rows[part]), axes=1) for part in parts)

    def _original(self, W: Any) -> Any:
        return many_digits(self.T.toarray()) @ W.reshape(-1, self.problem.features.d) / self.scale

    def _margins(self, W: Any, b: Any) -> Any:
        """Return f (n,) of all samples for Ŵ (H, r) and b, in doubles where their error is at most RESOLVED |1 − f|."""
        features, y, required = self.problem.features, self.problem.y, self.problem.required_margin
        near = self._original(W).astype(np.float64)
        upper, lower, error = features.apply_bounded(near, precise=True)
        f = y * ((upper + float(b)) + lower) / required
        error = (error + 4 * UNIT * (features.magnitudes(near) + abs(float(b)))) / required
        margins, rows = many_digits(f), np.flatnonzero(~(error <= RESOLVED * abs(f - 1)))
        for part in np.split(rows, range(CHUNK, len(rows), CHUNK)):
            margins[part] = np.tensordot(self.samples(part), W, axes=2) + self.column[part] * b
        return margins

    def solve(self) -> None:
        """Solve for the set; update the bounds with their Ŵ, b and λ̂. Raise TooLargeError for too many rows."""
        self._check_room(len(self.rows))
        program = SetProgram(self)
        program.solve()
        self.iterations, self.stopped, self.failed = program.iterations, program.stopped, not program.upper < np.inf
        #: λ̂ of the rows, and whether the lower bound rose by more than `tol`.
        self.row_lam = program.lam[: len(self.rows)]
        self.rose = program.lower > self.bounds.lower * (1 + self.tol)
        if program.lower > self.bounds.lower:
            self.lam = program.dual()
        self.bounds = Bounds(max(self.bounds.lower, program.lower), self.bounds.upper)

    def check(self, W: Any, b: Any, value: float) -> None:
        """Compute the margins `f` of all samples at Ŵ and b, ‖Ŵ‖ = `value`, and keep these if their bound is better."""
        self.f = self._margins(W, b)
        upper = upper_bound(value, self.f, self.box)[0]
        if upper < self.bounds.upper:
            self.W, self.b, self.bounds = W, b, Bounds(self.bounds.lower, upper)

    def violated(self) -> np.ndarray:
        return self.outside(self.f, GROWTH)

    def update(self, new: np.ndarray) -> None:
        """Drop rows only if the lower bound rose and there would be more than FULL."""
        full = self.rose and len(self.rows) + len(new) > FULL
        self.renew(new, self.row_lam, self.f, None if self.box is None else self.box[self.rows], full)


class SetProgram:
    """The program of a working set, in the coordinates of `PreciseSet`, and its best bounds.

    The `bounded` samples of each class are one row, the mean of their φ̂_i with weights p̂_i, and a fixed λ̂ = Σ p̂_i.
    """

    def __init__(self, whole: PreciseSet) -> None:
        self.whole, rows, box, column = whole, whole.rows, whole.box, whole.column
        sides = (whole.bounded[whole.problem.y[whole.bounded] == sign] for sign in (1, -1))
        #: The samples of each row of bounded ones, and its Σ p̂_i.
        self.joined = [part for part in sides if len(part)]
        self.totals = _array(box[part].sum() for part in self.joined)
        shares = [box[part] / total for part, total in zip(self.joined, self.totals, strict=True)]
        means = [whole.mean(part, share)[None] for part, share in zip(self.joined, shares, strict=True)]
        #: Rows (N, H, r), the `free` ones with a variable λ̂ first, and their ỹ and p̂.
        self.A = np.concatenate([whole.samples(rows), *means])
        joined_column = _array(column[part] @ share for share, part in zip(shares, self.joined, strict=True))
        self.column = np.concatenate([column[rows], joined_column])
        self.box = None if box is None else np.concatenate([box[rows], self.totals])
        self.free, self.lam = len(rows), many_digits(np.zeros(len(self.A)))
        #: Best bounds: the lower one, by `lam`, holds for all samples, the upper one for those of the set.
        self.lower, self.upper = 0.0, np.inf
        self.iterations = whole.iterations
        self.stopped: Status | None = None

    def solve(self) -> None:
        """Maximise the dual of the set, with rows divided by their lengths, `units`, and keep the best bounds."""
        free, fixed, one = slice(self.free), slice(self.free, None), gmpy2.mpfr(1)
        sizes = (self.A[free] ** 2).sum(axis=(1, 2)) ** 0.5
        self.units = np.where(sizes > 0, sizes, one)
        program = dual_program(
            self.A[free] / self.units[:, None, None],
            one / self.units,
            np.tensordot(self.totals, self.A[fixed], axes=1),
            None if self.box is None else self.box[free] * self.units,
            (self.column[free] / self.units)[:, None][:, : self.whole.problem.intercept],
            -_array([(self.column[fixed] * self.totals).sum()] * self.whole.problem.intercept),
        )
        maximise(replace(program, late=self.whole.watch), partial(ExactFactor, stop=self.whole.watch), self.observe)
        self.stopped = self.stopped or self.whole.watch()

    def observe(self, at: EmbeddedIterate) -> bool:
        """Keep better bounds; return True at the tolerance, at a hard margin below NO_MARGIN, or at a limit."""
        whole = self.whole
        self._keep_dual(np.concatenate([at.x / self.units, at.tau * self.totals]))
        self._keep_weights(-at.z.cones[:, 1:] / at.tau, at.b.sum() / at.tau)
        infeasible = self.box is None and self.lower >= 1 / NO_MARGIN
        if infeasible or abs(Bounds(self.lower, self.upper).gap) <= whole.tol / 2:
            return True
        self.stopped = whole.watch() or (Status.ITERATION_LIMIT if self.iterations >= whole.most else None)
        self.iterations += self.stopped is None
        return self.stopped is not None

    def _keep_dual(self, lam: Any) -> None:
        """Keep the best multiple of λ̂ (N,), made feasible, if it proves a better lower bound."""
        lam = balanced(np.maximum(lam, 0), self.column)
        size = max((np.tensordot(lam, self.A, axes=1) ** 2).sum(axis=1)) ** 0.5
        if self.box is not None:
            size = max(size, max(lam / self.box))
        total = lam.sum()
        lower = float(total / size) if size > 0 else float("inf") if total > 0 else 0.0
        if lower > self.lower:
            self.lower, self.lam = lower, lam / (size if size > 0 else total)

    def _keep_weights(self, W: Any, b: Any) -> None:
        """Keep the upper bound of Ŵ and b if it is smaller, and check their best multiple over all samples."""
        f, value = np.tensordot(self.A, W, axes=2) + self.column * b, ((W * W).sum(axis=1) ** 0.5).sum()
        upper, divisor = upper_bound(float(value), f, self.box)
        if upper < self.upper:
            self.upper, scale = upper, 1 / divisor
            self.whole.check(W * scale, b * scale, float(value * scale))

    def dual(self) -> Any:
        """Return λ̂ (n,) of all samples."""
        whole, lam = self.whole, many_digits(np.zeros(self.whole.n))
        lam[whole.rows] = self.lam[: self.free]
        for part, total, value in zip(self.joined, self.totals, self.lam[self.free :], strict=True):
            lam[part] = whole.box[part] * (value / total)
        return lam


def _solve_conic(problem: MarginProblem, most: int, watch: Watch) -> Answer:
    """Return the last iterate for `conic_form` of all samples, in many digits, after at most `most` iterations."""
    (n, k, d), m = problem.features.shape, 0 if problem.constraints is None else len(problem.constraints.equal)
    W, b, lam, mu = (many_digits(np.zeros(shape)) for shape in ((k, d), (), n, m))
    answer = Answer(W, lam, -1, watch(), b, mu)
    try:
        form = conic_form(problem)
    except TooLargeError as error:
        return replace(answer, iterations=0, reason=str(error))

    def observe(at: EmbeddedIterate) -> bool:
        """Keep an iterate; return True at a small gap, at a hard margin below NO_MARGIN, or at a limit."""
        nonlocal answer
        iterations, (W, b, lam, mu) = answer.iterations + 1, form.solution(at)
        stopped = watch() or (Status.ITERATION_LIMIT if iterations >= most else None)
        answer = Answer(W, lam, iterations, stopped, b, mu)
        lower = -(form.program.h.dot(at.z) + form.program.e @ at.b) / at.tau
        infeasible = (problem.hard or problem.affine) and lower >= 1 / NO_MARGIN
        return bool(stopped or infeasible or at.product() <= CONIC_TOL * at.tau**2 * abs(lower))

    maximise(replace(form.program, late=watch), partial(ExactFactor, stop=watch), observe)
    return answer


def _weights(problem: MarginProblem, W: Any, b: Any, tol: float, deadline: Deadline) -> tuple[Array, float]:
    """Round W (k, d) and b to doubles of nearly the same margins and norm; return the best of several roundings.

    If the nearest doubles are not accurate enough, roundings follow that preserve the smallest margins and, more
    accurately than doubles, the sums of constraints, so that the certificate moves W by less than a rounding. By PUSHES
    they increase tight margins, and those of tight inequalities. The result is 0 if W exceeds the largest double.
    """
    if not np.isfinite(W.astype(np.float64)).all():
        return np.zeros(W.shape), 0.0
    near, constraints = _nearest(problem, W, b), problem.constraints
    m, many = np.broadcast_to(problem.required_margin, problem.features.n)[near], len(near)
    # Forms y_i(φ(x_i), 1).
    forms, exact, h = np.hstack([signed(problem, near), problem.y[near, None]]), np.append(W.ravel(), b), np.zeros(0)
    value = problem.norm.value(W.astype(np.float64))
    box = None if problem.hard else many_digits(problem.upper_bounds[near] * m)
    target, least = upper_bound(value, forms @ exact / m, box)
    if not problem.affine and 0 < least < np.inf and max(abs(exact)) / least < LARGEST:
        exact = exact / least
        W, b = exact[:-1].reshape(W.shape), exact[-1]
    masks = [np.ones(many, dtype=bool)]
    if constraints is not None:
        rows = np.append(many_digits(-constraints.E.toarray()), np.zeros((len(constraints.h), 1)), axis=1)
        forms, h = np.vstack([forms, rows]), constraints.h
        masks = [np.append(masks[0], part) for part in (~constraints.equal, constraints.equal & False)]
    spare = (forms @ exact - np.append(m, -h)).astype(np.float64)
    terms = UNIT * (abs(forms) @ abs(exact)).astype(np.float64) + TINY
    if problem.affine:
        target = float(value)
        if not problem.hard:
            target += float(problem.upper_bounds[near] @ np.maximum(-spare[:many], 0.0))
    best, stay = _objective(problem, W.astype(np.float64), float(b)), _free_changes(problem, W, b, tol)
    for allowed in _allowed_errors(problem, near, spare[:many], target, tol):
        allowed = np.append(allowed, CLOSE * terms[many:])
        room, tight = np.maximum(allowed, spare / 4), spare / 4 < allowed + terms * (constraints is not None)
        for of_any_scale in (False, True)[: 1 + (problem.hard and not problem.affine)]:
            # The reduced basis does not depend on the increases.
            known: list[Any] = []
            for times, pushed in product(PUSHES if constraints is None else ULPS, masks):
                if best[0] <= target * (1 + ROUNDING_ERROR * tol) or deadline.passed():
                    return best[1:]
                push = many_digits(times * (pushed & tight) * (allowed if constraints is None else terms) / room)
                given = forms, many_digits(room), stay, push
                given = _of_any_scale(exact, *given, SCALE_CHANGE_OF_WEIGHTS) if of_any_scale else given
                x = rounded(exact, *given, deadline, known=known)
                best = min(best, _objective(problem, x[:-1].reshape(W.shape), float(x[-1])), key=lambda one: one[0])
    return best[1:]


def _allowed_errors(problem: MarginProblem, near: np.ndarray, spare: Array, target: float, tol: float) -> list[Array]:
    """Return errors of the margins of the samples `near` that `_weights` allows in turn; `target` is the objective."""
    prices, m = problem.upper_bounds[near], np.broadcast_to(problem.required_margin, problem.features.n)[near]
    cheap = SUM_ERROR * tol * target / prices
    slack = np.isfinite(prices) & (prices * np.maximum(-spare, 0.0) > tol * target)
    small = np.where(slack, cheap, np.maximum(cheap, SUM_ERROR * tol * m))
    # Errors first cost little slack. Then margins without slack may also miss the required ones a little.
    return [small] if problem.hard else [cheap, small]


def _free_changes(problem: MarginProblem, W: Any, b: Any, tol: float) -> Any:
    """Return the changes (k·d + 1,) of W and b, in many digits, that increase the norm by a small share of `tol`."""
    value = problem.norm.value(W.astype(np.float64))
    sizes = np.array([problem.norm.value(unit) for unit in np.eye(W.size).reshape(-1, *W.shape)])
    # An intercept costs nothing.
    return many_digits(np.append(SUM_ERROR * tol * value / sizes, FREE_CHANGE * abs(float(b)) + TINY))


def _nearest(problem: MarginProblem, W: Any, b: Any) -> np.ndarray:
    """Return the ascending indices of the MOST_ROWS samples with the smallest y_i((ΦW)_i + b)/m_i, in doubles."""
    upper, lower, _ = problem.features.apply_bounded(W.astype(np.float64), precise=True)
    f = problem.y * ((upper + float(b)) + lower) / problem.required_margin
    return np.sort(np.argsort(np.nan_to_num(f, nan=0.0), kind="stable")[:MOST_ROWS])


def _objective(problem: MarginProblem, W: Array, b: float) -> tuple[float, Array, float]:
    """Return the objective of W and b or, for a hard margin, of their best multiple, followed by the given W and b.

    Margins are lowered by the bounds of their errors. With linear constraints, it is an estimate for the feasible point
    near W: the certificate changes the entry of a violated constraint that has the largest coefficient.
    """
    if not np.isfinite(W).all():
        return np.inf, W, b
    upper, lower, error = problem.features.apply_bounded(W, precise=True)
    f, value, constraints = problem.y * ((upper + b) + lower), problem.norm.value(W), problem.constraints
    f = f - error - 4 * UNIT * abs(f)
    if constraints is not None:
        short = (many_digits(constraints.E.toarray()) @ many_digits(W.ravel()) - constraints.h).astype(np.float64)
        short = np.where(constraints.equal, abs(short), np.maximum(short, 0.0))
        moved = float((short / (abs(constraints.E).max(axis=1).toarray().ravel() + TINY)).sum())
        f = f - problem.features.magnitudes(np.full(W.shape, moved))
    if not problem.hard:
        return value + float(problem.upper_bounds @ np.maximum(problem.required_margin - f, 0.0)), W, b
    worst = min(float((f / problem.required_margin).min()), 1.0 if problem.affine else np.inf)
    # Other multiples are rounded once more.
    rounded_again = not problem.affine and abs(worst - 1) > 5 * SCALE_CHANGE_OF_WEIGHTS
    return (value / worst * (1 + rounded_again) if worst > 0 else np.inf), W, b


def _dual(problem: MarginProblem, lam: Any, mu: Any, tol: float, deadline: Deadline) -> tuple[Array, Array]:
    """Round λ (n,) and μ (m,) to doubles with nearly the same Φᵀ(λ∘y) − Eᵀμ and, with an intercept, Σ y_iλ_i = 0.

    The rounding with the best lower bound is returned; after the deadline the nearest doubles; zeros if λ, μ or
    Φᵀ(λ∘y) exceeds the largest double.
    """
    (n, k, d), dual = problem.features.shape, np.zeros(problem.features.n)
    sizes = lam * many_digits(problem.features.row_norms())
    largest = sizes.max() if problem.hard else float(length(problem.adjoint(lam.astype(np.float64))))
    used = np.flatnonzero((lam != 0) & ~((sizes > 0) & (sizes < VANISHED * largest)).astype(bool))
    if not len(used) or deadline.passed():
        return lam.astype(np.float64), mu.astype(np.float64)
    upper_bounds, m = problem.upper_bounds[used], np.broadcast_to(problem.required_margin, n)[used]
    forms, gains, exact = signed(problem, used).T, many_digits(m), np.concatenate([lam[used], mu])
    if problem.constraints is not None:
        forms = np.hstack([forms, many_digits(-problem.constraints.E.toarray().T)])
        gains = np.append(gains, many_digits(-problem.constraints.h))
    V = (forms @ exact).astype(np.float64)
    if not (np.isfinite(V).all() and np.isfinite(exact.astype(np.float64)).all()):
        return dual, np.zeros(len(mu))
    # A little shorter than possible, so that no digit is lost to a factor below 1.
    exact = exact * (LENGTH / _dual_size(problem, used, forms, exact))
    best, bound = exact.astype(np.float64), partial(_dual_bound, problem, used, forms, gains)
    reach, total = float((best[: len(used)] / upper_bounds).max()), float(gains @ exact)
    allowed = [SUM_ERROR * tol / (problem.norm.dual_bound(gate) or 1.0) for gate in np.eye(k) for _ in range(d)]
    stay = np.minimum(SUM_ERROR * tol * np.minimum(total / m, upper_bounds), best[: len(used)] / 2)
    stay = np.append(stay, FREE_CHANGE * abs(best[len(used) :])) + TINY
    if problem.intercept:
        forms = np.vstack([forms, many_digits(np.append(problem.y[used], np.zeros(len(mu))))])
        allowed.append(ZERO_SUM * float(np.spacing(best[: len(used)]).min()) + TINY)
    room, sums = many_digits(np.array(allowed)), forms @ exact
    for near_bound, together, of_any_scale in HARD_ROUNDINGS if reach < SCALE_CHANGE else SOFT_ROUNDINGS:
        if bound(best) >= total / LENGTH * (1 - ROUNDING_ERROR * tol) or deadline.passed():
            break
        # In a soft margin λ_i near 0 and near the upper bound are rounded to it: only the others may change much.
        most = np.append(upper_bounds * reach, np.full(len(mu), np.inf))
        rounds = (near_bound > 0) & (most < np.inf)
        low = rounds & (exact < near_bound * most).astype(bool)
        high = rounds & (exact > (1 - near_bound) * most).astype(bool)
        target = np.where(high, most, np.where(low, 0 * exact, exact))
        given = forms, room, many_digits(np.where(high, CLOSE * stay, stay)), (sums - forms @ target) / room
        given = _of_any_scale(exact, *given) if of_any_scale else given
        best = max(best, rounded(target, *given, deadline, together), key=bound)
    dual[used] = best[: len(used)]
    return dual, best[len(used) :]


def _dual_bound(problem: MarginProblem, used: np.ndarray, forms: Any, gains: Any, x: Array) -> float:
    """Return the lower bound that λ of the samples `used` and μ in x prove, without the errors of its computation."""
    lam, y = np.maximum(x[: len(used)], 0.0), problem.y[used]
    if problem.intercept and math.fsum((y * lam).tolist()):
        # The certificate scales one class, and then rounds λ to multiples of one unit, so that sums are exact.
        unit = np.spacing(2 * lam.sum())
        lam = np.floor(balanced(lam, y) / unit) * unit
    x = many_digits(np.append(lam, x[len(used) :]))
    return float(gains @ x) / _dual_size(problem, used, forms, x)


def _dual_size(problem: MarginProblem, used: np.ndarray, forms: Any, x: Any) -> float:
    """Return max(‖Φᵀ(λ∘y) − Eᵀμ‖*, max λ_i/(C c_i)) for λ of the samples `used` and μ in x, and `forms` times x."""
    V = (forms @ x)[: problem.features.k * problem.features.d].astype(np.float64)
    share = float((x[: len(used)] / problem.upper_bounds[used]).max())
    return max(float(problem.norm.dual(V.reshape(problem.features.shape[1:]))), share, TINY)


def _array(numbers: Iterable[Any]) -> Any:
    return np.array(list(numbers), dtype=object)


def _of_any_scale(
    exact: Any, forms: Any, room: Any, stay: Any, push: Any, change: float = SCALE_CHANGE
) -> tuple[Any, Any, Any, Any]:
    """Return these arguments of `rounded` for doubles x near any multiple t·exact, t within `change` of 1.

    The sums are those of x − t·exact, and its entries in units of `stay` are further sums.
    """
    share = exact / stay**2
    forms = np.vstack([forms / room[:, None], np.diag(1 / stay)])
    forms = forms - np.outer(forms @ exact, share / (share @ exact))
    push = np.append(push, 0 * exact)
    return forms, many_digits(np.ones(len(forms))), change * abs(exact) + TINY, push


def rounded(
    exact: Any,
    forms: Any,
    room: Any,
    stay: Any,
    push: Any = 0.0,
    deadline: Deadline | None = None,
    together: int = TOGETHER,
    known: list[Any] | None = None,
) -> Array:
    """Return doubles x (k,) near `exact` with forms @ x near forms @ exact + push ∘ room, and x_j within about stay_j.

    The `together` numbers with the largest terms are rounded together, so that these errors are small in units of
    `room` (s,) and `stay` (k,); all others are rounded one by one. After the deadline, the result is less accurate.
    `known` is an empty list, filled by the first of calls that differ only in `push`.

    A sum that is 0 up to a millionth of the error of rounding its terms:

    >>> many = np.vectorize(gmpy2.mpfr, otypes=[object])
    >>> forms, exact = many(np.array([[1e8 + 1, -1e8]])), many(np.array([1e8, 1e8 + 1])) / 3
    >>> x = rounded(exact, forms, many(np.array([1e-6])), many(np.ones(2)))
    >>> float(abs(forms @ exact.astype(float))[0]) > 1e-2, float(abs(forms @ many(x))[0]) < 1e-6
    (True, True)
    """
    x = exact.astype(np.float64)
    reach = (abs(forms * exact) / room[:, None]).max(axis=0).astype(np.float64)
    chosen = np.lexsort([-reach, ~(abs(exact) * 1e-12 < stay).astype(bool)])[:together]
    chosen = chosen[x[chosen] != 0]
    if not len(chosen):
        return x
    # One bit less than doubles have, for numbers that exceed a power of two.
    unit = np.ldexp(1.0, np.frexp(x[chosen])[1] - 52)
    x[chosen] = np.round(x[chosen] / unit) * unit
    stay = stay[chosen]
    basis = np.hstack([(forms[:, chosen] * unit / room[:, None]).T, np.diag(unit / stay)])
    missing = np.concatenate([(forms @ (exact - x)) / room + push, (exact - x)[chosen] / stay])
    known = [] if known is None else known
    if not known:
        known.extend(_reduced(basis, deadline or Deadline()))
    moved = 0 * missing
    for b, plane in zip(known[0][::-1], known[1][::-1], strict=True):
        moved = moved + gmpy2.rint((missing - moved) @ plane / (plane @ plane)) * b
    x[chosen] += (moved[-len(chosen) :] * stay).astype(np.float64)
    return x


def _reduced(basis: Any, deadline: Deadline) -> tuple[Any, list[Any]]:
    """Return a basis (k, j) of the same lattice with short, nearly orthogonal rows, and its k Gram–Schmidt vectors."""
    basis, planes, k = basis.copy(), [basis[0]], 1
    for _ in range(REDUCTION_STEPS):
        if k == len(basis) or deadline.passed():
            break
        for j in range(k - 1, -1, -1):
            times = gmpy2.rint(basis[k] @ planes[j] / (planes[j] @ planes[j]))
            if times:
                basis[k] = basis[k] - times * basis[j]
        rest, last = _orthogonal(basis[k], planes[:k]), planes[k - 1]
        part = basis[k] @ last / (last @ last)
        if rest @ rest >= (LOVASZ - part * part) * (last @ last):
            planes, k = [*planes[:k], rest], k + 1
        else:
            basis[[k - 1, k]] = basis[[k, k - 1]]
            planes = [*planes[: k - 1], _orthogonal(basis[k - 1], planes[: k - 1])]
            k = max(k - 1, 1)
    while len(planes) < len(basis):
        planes.append(_orthogonal(basis[len(planes)], planes))
    return basis, planes


def _orthogonal(vector: Any, planes: list[Any]) -> Any:
    for plane in planes:
        vector = vector - (vector @ plane / (plane @ plane)) * plane
    return vector
