"""Support vector machines with one kernel for many samples, whose kernel matrix is not stored as a whole.

The signed dual s = λ∘y solves, for the multiplier μ ≥ 0 at which ‖Σ_i s_i φ(x_i)‖ = √(sᵀKs) = 1,

    minimise   ½ sᵀKs − μ yᵀs   over   0 ≤ y_i s_i ≤ p_i,   and   Σ_i s_i = 0   if the intercept is free,

with p_i = C c_i, and w = Σ_i s_i φ(x_i)/μ. If √(sᵀKs) < 1 for every μ, zero weights are optimal.

A round solves a subproblem for a working set: the most violated samples of a random pool, and all samples with s
between its bounds. The pool grows until it contains all samples. There are two kinds of steps. SMO steps, which change
one or two s by the largest gain (Fan, Chen & Lin 2005), find the s at a bound. Newton steps find the others and μ. All
classes share the rows of K, which may be in single precision.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import Cholesky, row_blocks
from implicit_bias._utils.checks import Array
from implicit_bias._utils.compiled import compiled
from implicit_bias._utils.limits import Deadline, check_memory, free_memory
from implicit_bias._utils.threads import in_threads, thread_count
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution
from implicit_bias.solvers.base import Answer, Options

#: Size of the first pool.
FIRST = 1000
#: Samples of each sign of each class that the first pool has, if there are as many.
FIRST_OF_SIGN = 100
#: Least μ: no samples that are separable up to rounding have weights as large as its inverse.
LEAST_MU = 1e-100
#: Factor by which the pool grows.
POOL_GROWTH = 4
#: Largest violation of a margin in the pool up to which it grows.
POOL_VIOLATION = 1.0
#: Samples that a round may add for one class if fewer s are positive; for c classes, divided by √c.
LEAST_NEW = 1000
#: Size up to which a working set's matrix is stored in any case; larger sets must fit in MATRIX_SHARE of the memory.
MOST = 6000
#: Largest number of rounds since the pool grew last.
ROUNDS = 200
#: Largest number of Newton steps of a round.
NEWTON_STEPS = 15
#: Largest share of the s between their bounds that reach them before the matrix is factored again.
FIXED = 0.03
#: Columns of the inverse that are computed at a time: those of the s that are nearest to their bounds.
COLUMNS = 16
#: SMO steps before a Newton step, per sample of the working set.
SMO_STEPS = 2
#: Smallest diagonal entry of K in an SMO step, as a share of the largest.
LEAST_CURVATURE = 1e-12
#: Violation that ends a round, as a share of its first one.
SHARE = 0.03
#: Distance from a bound, as a share, up to which a known λ counts as at the bound.
NEAR_BOUND = 1e-6
#: Largest factor of μ in a step.
MOST_FACTOR = 4.0
#: Rounds without a smaller gap, since the pool grew last, after which rounding is the cause.
PATIENCE = 20
#: Added to the diagonal of K in a Newton step, as a share of its mean, by the item size of K.
RIDGE = {8: 1e-13, 4: 1e-6}
#: Share of the free memory for rows of K.
CACHE_SHARE = 0.5
#: Share of the free memory for the matrices of working sets and their factors.
MATRIX_SHARE = 0.2
#: Rows of K that are computed at a time.
BLOCK = 2048
#: Rows of K that a thread stores at a time.
STORED = 256
#: Rows of K that a product adds in the precision of the rows.
ADDED = 64

#: k(x_i, x_j) for the indices i and j of samples.
Kernel = Callable[[np.ndarray, np.ndarray], Array]


class KernelCache:
    """Rows of a kernel matrix, computed when they are first needed, and stored as long as there is memory for them."""

    def __init__(self, kernel: Kernel, n: int, classes: int, dtype: Any) -> None:
        self.kernel, self.every, self.bytes = kernel, np.arange(n), np.dtype(dtype).itemsize
        matrices = 2.0 * self.bytes * min(n, MOST) ** 2
        check_memory(8.0 * n * (BLOCK + 100) + matrices, f"a round of {n} samples", "use fewer samples")
        free = free_memory()
        # Working sets of several classes are treated at the same time if their matrices fit.
        self.together = int(max(min(thread_count(), classes, MATRIX_SHARE * free / matrices), 1))
        self.largest = int(min(n, max(MOST, (MATRIX_SHARE * free / (2 * self.bytes * self.together)) ** 0.5)))
        # Zeros take memory only when they are written.
        self.rows = np.zeros((int(min(n, CACHE_SHARE * free / (self.bytes * n))), n), dtype)
        self.place, self.count = np.full(n, -1), 0

    def load(self, samples: np.ndarray, used: np.ndarray, deadline: Deadline) -> None:
        """Compute and store the missing rows of `samples` until the deadline passes.

        If there is no room, they replace rows of samples outside the mask `used` (n,); the others are not stored.
        """
        missing = samples[self.place[samples] < 0]
        # Rows that a deadline leaves out are zeros or those of other samples, and their coefficients are zero.
        places = np.arange(self.count, min(self.count + len(missing), len(self.rows)))
        self.count += len(places)
        if len(places) < len(missing):
            unused = np.setdiff1d(np.flatnonzero((self.place >= 0) & ~used), samples)[: len(missing) - len(places)]
            places = np.concatenate([places, self.place[unused]])
            self.place[unused] = -1
        for part in row_blocks(min(len(missing), len(places)), BLOCK):
            if deadline.passed():
                return
            new, stored = missing[part], self.place >= 0
            columns, known = np.flatnonzero(~stored), np.flatnonzero(stored)
            self._store(places[part], columns, self.kernel(new, columns), new, known)
            self.place[new] = places[part]

    def _store(self, places: np.ndarray, columns: np.ndarray, values: Array, new: np.ndarray, rest: np.ndarray) -> None:
        """Store `values` in the `columns` of the rows at `places`, and in those `rest` the entries of stored rows."""
        A, old = self.rows, self.place[rest]
        in_threads(lambda part: _set_entries(A, places[part], columns, values[part]), row_blocks(len(places), STORED))
        in_threads(lambda part: _set_symmetric(A, places, rest[part], old[part], new), row_blocks(len(rest), STORED))

    def square(self, samples: np.ndarray) -> Array:
        """Return the kernel matrix K (m, m) of `samples` (m,), from stored rows if possible."""
        place = self.place[samples]
        block = _gathered(self.rows, place, samples)
        others = np.flatnonzero(place < 0)
        for part in row_blocks(len(others), BLOCK):
            block[others[part]] = self.kernel(samples[others[part]], samples)
        return block

    def products(self, coefficients: Array) -> Array:
        """Return Ka (n, c) for coefficients a (n, c), from blocks of the rows whose coefficients are not all 0."""
        outputs, used = np.zeros_like(coefficients), coefficients.any(axis=1)
        inside = np.zeros((self.count, coefficients.shape[1]), self.rows.dtype)
        known = np.flatnonzero(self.place >= 0)
        inside[self.place[known]] = coefficients[known]
        parts = [part for part in row_blocks(self.count, ADDED) if inside[part].any()]

        def add(columns: slice) -> None:
            for part in parts:
                outputs[columns] += self.rows[part, columns].T @ inside[part]

        in_threads(add, row_blocks(len(outputs)))
        others = np.flatnonzero(used & (self.place < 0))
        for part in row_blocks(len(others), BLOCK):
            outputs += self.kernel(others[part], self.every).T @ coefficients[others[part]]
        return outputs


@dataclass(eq=False)
class _Dual:
    """Dual variables of one class: signs `y` (n,), upper bounds `p` (n,) of λ = |s|, s (n,), `outputs` Ks (n,), and μ.

    `paired` is True if the intercept is free; then Σ s_i = 0. The weights are w = Σ_i s_i φ(x_i)/μ.
    """

    y: Array
    p: Array
    paired: bool
    s: Array
    outputs: Array
    mu: float
    gap: float = np.inf
    #: Violation at which a round ends.
    round_tol: float = SHARE
    #: The least gap so far, with its s, outputs and μ.
    best: tuple[Any, ...] = (np.inf,)

    def __post_init__(self) -> None:
        self.low, self.high = np.where(self.y > 0, 0.0, -self.p), np.where(self.y > 0, self.p, 0.0)
        self.hard = bool(np.isinf(self.p).any())

    def warm_start(self, s: Array, outputs: Array) -> None:
        """Set s and the outputs Ks, and μ by least squares over the samples strictly between their bounds.

        Their margins y_i((Ks)_i/μ + b) are then closest to 1. Without such samples, or if μ ≤ 0, μ is unchanged.
        """
        self.s, self.outputs, sizes = s, outputs, np.abs(s)
        # A known λ reaches its bounds only up to rounding.
        free = (sizes > NEAR_BOUND * sizes.max()) & (sizes < (1 - NEAR_BOUND) * self.p)
        if free.any():
            sides = np.column_stack([self.y, -np.ones(len(s))])[free, : 1 + self.paired]
            mu = float(np.linalg.lstsq(sides, outputs[free])[0][0])
            self.mu = mu if mu > 0 else self.mu
        self.update_gap()

    @property
    def intercept(self) -> float:
        """Intercept b with the least slack or, for a hard margin, the largest margin; 0 if b is not free."""
        if not self.paired:
            return 0.0
        ends, positive = self.y - self.outputs / self.mu, self.y > 0
        if self.hard:
            return float(ends[positive].max() + ends[~positive].min()) / 2
        # The slack of a positive sample falls up to b = ends_i; that of a negative one rises from there on.
        order = np.argsort(ends)
        first = np.searchsorted(np.cumsum(self.p[order]), self.p[positive].sum())
        return float(ends[order[min(int(first), len(order) - 1)]])

    def update_gap(self) -> None:
        """Set the relative `gap` at s and μ, ignoring rounding errors; infinity if a hard margin is not separated."""
        size, f = max(float(self.s @ self.outputs), 0.0) ** 0.5, self.y * (self.outputs / self.mu + self.intercept)
        lower = float(np.abs(self.s).sum()) / max(size, float((np.abs(self.s) / self.p).max()), 1e-300)
        if self.hard:
            upper = size / self.mu / f.min() if f.min() > 0 else np.inf
        else:
            zero = 2 * min(self.p[self.y > 0].sum(), self.p[self.y < 0].sum()) if self.paired else self.p.sum()
            upper = min(size / self.mu + float(self.p @ np.maximum(1 - f, 0)), float(zero))
            # A large C multiplies the slack that rounding leaves.
            upper = min(upper, size / self.mu / f.min()) if f.min() > 0 else upper
        # A value of 0 is rounding.
        self.gap = 1 - lower / upper if 0 < upper < np.inf else np.inf
        if self.gap < self.best[0]:
            self.best = self.gap, self.s.copy(), self.outputs, self.mu

    def violations(self, pool: np.ndarray) -> tuple[Array, Array, float]:
        """Return r = y − Ks/μ (n,), with −∞ where s_i may not rise; r, with ∞ where it may not fall; and the violation.

        Samples outside the mask `pool` (n,) may do neither. The violation is max r over those that may rise minus min r
        over those that may fall; without an intercept, both are compared with 0 instead. It is 0 at the solution.
        """
        rest = self.y - self.outputs / self.mu
        rising = np.where(pool & (self.s < self.high), rest, -np.inf)
        falling = np.where(pool & (self.s > self.low), rest, np.inf)
        most, least = float(rising.max()), float(falling.min())
        return rising, falling, max(most - least if self.paired else max(most, -least), 0.0)

    def working_set(self, pool: np.ndarray, share: float, largest: int) -> np.ndarray:
        """Return the sorted indices of the next round: the most violated samples of `pool` and those between bounds.

        These are at most `largest`. Also set `round_tol` to a share of the largest violation.
        """
        half = int(min(share * max(int(np.count_nonzero(self.s)), LEAST_NEW), MOST // 2)) // 2
        rising, falling, violation = self.violations(pool)
        most, least = (float(rising.max()), float(falling.min())) if self.paired else (0.0, 0.0)
        up, down = np.argsort(-rising)[:half], np.argsort(falling)[:half]
        up, down = up[rising[up] > least], down[falling[down] < most]
        self.round_tol = SHARE * violation
        free = np.flatnonzero((self.s > self.low) & (self.s < self.high))
        rest = (self.y - self.outputs / self.mu)[free]
        free = free[np.argsort(-np.abs(rest - np.median(rest)))] if len(free) > largest else free
        chosen = np.unique(np.concatenate([up, down, free[: largest - len(up) - len(down)]]))
        # If all s are at their bounds, and optimal for μ, those nearest to a violation tell how far μ may change.
        return chosen if len(chosen) else np.unique([rising.argmax(), falling.argmin()])

    def solve_subproblem(self, chosen: np.ndarray, K: Array, ridge: float, deadline: Deadline) -> Array:
        """Update s of a working set, whose kernel matrix is K (m, m), and μ in place; return the changes of s (m,).

        `outputs` are not updated.
        """
        y, low, high, h = self.y[chosen], self.low[chosen], self.high[chosen], self.outputs[chosen]
        s, q = self.s[chosen], float(self.s @ self.outputs)
        # sᵀKs rises with μ at the s that are optimal for it, and 1 is between its values at these μ.
        least, most = 0.0, np.inf
        for _ in range(NEWTON_STEPS):
            v, old, before = self.mu * y - h, s.copy(), h
            tol, steps = self.round_tol * self.mu, SMO_STEPS * len(s)
            violation = _smo_steps(K, v, s, low, high, self.paired, tol, steps) / self.mu
            h = self.mu * y - v
            q += float((s - old) @ (before + h))
            mu = self.mu
            if violation <= self.round_tol:
                least, most = (least, min(mu, most)) if q > 1 else (max(mu, least), most)
            s, h, q, self.mu = _newton(K, y, s, h, q, low, high, self.mu, self.paired, ridge)
            self.mu = max(self.mu, LEAST_MU)
            if not least <= self.mu <= most and 0 < least < most < np.inf:
                self.mu = (least * most) ** 0.5
            if (violation <= self.round_tol and abs(mu / self.mu - 1) <= self.round_tol) or deadline.passed():
                break
        change = s - self.s[chosen]
        self.s[chosen] = s
        return change


def _reason_to_stop(gaps: list[float], separate: bool) -> str:
    """Return why the rounds end after these gaps, or ''; the gaps of hard margins fall once all of them separate."""
    patience = PATIENCE if separate else 5 * PATIENCE
    if len(gaps) > patience and min(gaps[-patience:]) >= min(gaps[:-patience]):
        return "the gap has stopped falling"
    return "the number of rounds has reached its limit" if len(gaps) >= ROUNDS else ""


def _improved(duals: list[_Dual], chosen: list[np.ndarray], cache: KernelCache, deadline: Deadline) -> Array:
    """Solve the subproblems of working sets, several at a time if memory allows; return the changes of all s (n, c)."""
    changes = np.zeros((len(cache.every), len(duals)))

    def improve(c: int) -> None:
        if len(chosen[c]) and not deadline.passed():
            K = cache.square(chosen[c])
            changes[chosen[c], c] = duals[c].solve_subproblem(chosen[c], K, RIDGE[cache.bytes], deadline)

    # The largest subproblem begins first. A single class uses all threads of BLAS.
    together, order = min(cache.together, len(duals)), sorted(range(len(duals)), key=lambda c: -len(chosen[c]))
    if together > 1:
        in_threads(improve, order, together)
    else:
        for c in order:
            improve(c)
    return changes


@compiled
def _gathered(A: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return A[rows[i], columns[j]], shape (n, m); rows with negative numbers are not set."""
    block = np.empty((len(rows), len(columns)), A.dtype)
    for i in range(len(rows)):
        if rows[i] >= 0:
            row, new = A[rows[i]], block[i]
            for j in range(len(columns)):
                new[j] = row[columns[j]]
    return block


@compiled
def _set_entries(A: Array, rows: np.ndarray, columns: np.ndarray, values: Array) -> None:
    for i in range(len(rows)):
        row, new = A[rows[i]], values[i]
        for j in range(len(columns)):
            row[columns[j]] = new[j]


@compiled
def _set_symmetric(A: Array, rows: np.ndarray, columns: np.ndarray, others: np.ndarray, entries: np.ndarray) -> None:
    for j in range(len(columns)):
        other = A[others[j]]
        for i in range(len(rows)):
            A[rows[i], columns[j]] = other[entries[i]]


@compiled
def _smo_steps(K: Array, v: Array, s: Array, low: Array, high: Array, paired: bool, tol: float, steps: int) -> float:
    """Change s, one entry at a time or, if `paired`, two with a constant sum, and return the largest violation.

    At most `steps` changes are made, until the violation is at most `tol`. s and v = μy − Ks are updated in place.
    """
    least_curvature = LEAST_CURVATURE * max(np.diag(K).max(), 1e-150)
    m, worst, value, diagonal = len(s), 0.0, np.empty(len(s)), np.maximum(np.diag(K), least_curvature)
    for _ in range(steps):
        # A loop for the largest value is vectorised if it does not look for its place.
        most, least = -np.inf, np.inf
        for k in range(m):
            most = max(most, v[k] if s[k] < high[k] else -np.inf)
            least = min(least, v[k] if s[k] > low[k] else np.inf)
        worst = most - least if paired else max(most, -least)
        if worst <= tol:
            break
        i = 0
        if not paired:
            up = most >= -least
            while i < m - 1 and (v[i] != (most if up else least) or not (s[i] < high[i] if up else s[i] > low[i])):
                i += 1
            new = min(max(s[i] + v[i] / diagonal[i], low[i]), high[i])
            step, row = new - s[i], K[i]
            for k in range(m):
                v[k] -= step * row[k]
            s[i] = new
            continue
        while i < m - 1 and (v[i] != most or not s[i] < high[i]):
            i += 1
        best, row = 0.0, K[i]
        for k in range(m):
            gain = max(most - v[k], 0.0) if s[k] > low[k] else 0.0
            value[k] = gain * gain / max(diagonal[i] + diagonal[k] - 2.0 * row[k], least_curvature)
            best = max(best, value[k])
        j = 0
        while j < m - 1 and value[j] != best:
            j += 1
        step = (most - v[j]) / max(diagonal[i] + diagonal[j] - 2.0 * row[j], least_curvature)
        step = min(step, high[i] - s[i], s[j] - low[j])
        # A bound that is reached is reached exactly.
        s[i] = high[i] if step == high[i] - s[i] else s[i] + step
        s[j] = low[j] if step == s[j] - low[j] else s[j] - step
        other = K[j]
        for k in range(m):
            v[k] -= step * (row[k] - other[k])
    return max(worst, 0.0)


class _FreeSystem:
    """The solutions of Ks = μy − b for s (m,), some of which may be fixed, with one factor of K (m, m), overwritten.

    `bounded` (m,) is the part of Ks of all other samples. LinAlgError is raised if K is not positive semidefinite.
    """

    def __init__(self, K: Array, y: Array, bounded: Array, paired: bool, ridge: float) -> None:
        mean = K.diagonal().mean()
        # The sum of s stays the same, so that K + lift 11ᵀ, which may have full rank where K has not, only changes b.
        self.paired, self.lift = paired, K.dtype.type(mean if paired else 0.0)
        self.shift = ridge * max(float(mean), 1e-300)
        K += self.lift
        K[np.diag_indices(len(K))] += self.shift
        self.factor, self.right = Cholesky(K), np.column_stack([y, bounded, np.ones(len(K))])
        self.solved, self.columns = self.factor.solve(self.right), dict[int, Array]()

    def line(self, s: Array, fixed: np.ndarray) -> tuple[Array, Array, Array, Array]:
        """Return u, w, Ku and Kw with the solution μu − w for each μ, at which the sum of s and the `fixed` s stay."""
        # With a free b it is μu − w − be with Ke = 1, where w = −s and u = e = 0 at the `fixed`.
        some = np.array([self.columns[i] for i in fixed]).reshape(-1, len(s)).T
        forces = np.linalg.solve(some[fixed], self.solved[fixed] + s[fixed, None] * [0, 1, 0])
        parts = self.solved - some @ forces
        products = self.right - self.shift * parts
        products[fixed] -= forces
        sums = parts.sum(axis=0) + s.sum() * np.array([0, 1, 0])
        without = np.vstack([np.eye(2), -sums[:2] / sums[2] if self.paired else np.zeros(2)])
        (u, w), (Ku, Kw) = (parts @ without).T, (products @ without).T
        return u, w, Ku - self.lift * u.sum(), Kw - self.lift * w.sum()

    def prepare(self, reached: np.ndarray, nearest: np.ndarray) -> None:
        """Compute the columns of the inverse that `line` needs to fix the s `reached`, and also those `nearest`."""
        if not self.columns.keys() >= set(reached):
            # Several columns take little longer than one.
            more = sorted({*reached, *nearest} - self.columns.keys())
            units = np.zeros((len(self.right), len(more)))
            units[more, np.arange(len(more))] = 1.0
            self.columns.update(zip(more, self.factor.solve(units).T, strict=True))


def _newton(
    K: Array, y: Array, s: Array, h: Array, q: float, low: Array, high: Array, mu: float, paired: bool, ridge: float
) -> tuple[Array, Array, float, float]:
    """Solve Ks = μy − b and sᵀKs = 1 for the s_i between their bounds, with one factor; return s, h, q and μ.

    These are Newton steps of an active-set method: each ends where an s_i reaches its bound, which then is fixed. h is
    Ks (m,) with the part of all other samples, and q is sᵀKs over all samples.
    """
    F = np.flatnonzero((s > low) & (s < high))
    usual = float(np.clip(1 / np.sqrt(q) if q > 0 else 1.0, 1 / MOST_FACTOR, MOST_FACTOR)) * mu
    if not len(F):
        return s, h, q, usual

    free, old, matrix, fixed = s[F], h[F], _gathered(K, F, F), np.empty(0, dtype=int)
    inner = matrix @ free.astype(K.dtype)
    bounded, rest = old - inner, q - float(free @ (2 * old - inner))
    try:
        system = _FreeSystem(matrix, y[F], bounded, paired, ridge)
    except np.linalg.LinAlgError:
        return s, h, q, mu
    while True:
        u, w, Ku, Kw = system.line(free, fixed)
        # sᵀKs = aμ² + bμ + c shall be 1.
        a, b, c = float(u @ Ku), float(2 * u @ (bounded - Kw)), float(w @ (Kw - 2 * bounded)) + rest
        square = b * b - 4 * a * (c - 1)
        root = (np.sqrt(square) - b) / (2 * a) if a > 0 and square >= 0 else usual
        mu = float(np.clip(root if root > 0 else usual, mu / MOST_FACTOR, MOST_FACTOR * mu))
        change = mu * u - w - free
        change[fixed] = 0.0
        room = np.where(change > 0, high[F] - free, low[F] - free)
        shares = np.divide(room, change, out=np.full(len(F), np.inf), where=change != 0)
        step = min(1.0, float(shares.min()))
        free = np.where(shares <= step, np.where(change > 0, high[F], low[F]), free + step * change)
        reached = np.flatnonzero(shares <= step)
        if step == 1.0 or len(fixed) + len(reached) > FIXED * len(F):
            break
        fixed = np.concatenate([fixed, reached])
        system.prepare(reached, np.argsort(shares)[:COLUMNS])
    new = s.copy()
    new[F] = free
    h_new = h + K @ (new - s).astype(K.dtype)
    # The root belongs to a whole step; a step that a bound cuts leaves s nearly where it was.
    return new, h_new, q + float((new - s) @ (h + h_new)), mu if step == 1.0 else usual


def solve_one_kernel(
    kernel: Kernel, problems: list[MarginProblem], starts: list[Solution | None], options: Options, dtype: Any = float
) -> tuple[list[Answer], Array]:
    """Return answers of the classes c, and the outputs Ka = ⟨w_c, φ(x_i)⟩ (n, c), without intercepts.

    The `weights` (1, n) of an answer are a with w_c = Σ_i a_i φ(x_i), and its iterations are rounds. `kernel`(i, j)
    returns k(x_i, x_j) for arrays of indices, and rows of this matrix are stored as `dtype`. The problems of all
    classes differ in their labels only, and their features are not used. The rounds end at half the tolerance of the
    `options` or at their deadline. TooLargeError is raised if there is no memory for the matrix of a round.

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> X, y = np.array([[2.0], [1.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
    >>> problem = svm_gln(X, y, ConstantGate())
    >>> found, outputs = solve_one_kernel(lambda i, j: X[i] @ X[j].T, [problem], [None], Options(1e-6))
    >>> outputs[:, 0].round(6).tolist()
    [2.0, 1.0, -1.0]
    """
    n, upper = problems[0].features.n, problems[0].upper_bounds
    cache, order = KernelCache(kernel, n, len(problems), dtype), np.random.default_rng(0).permutation(n)
    sides = [order[problem.y[order] == sign][:FIRST_OF_SIGN] for problem in problems for sign in (-1, 1)]
    size, pool = FIRST, np.isin(np.arange(n), np.concatenate([*sides, order[:FIRST]]))
    mu = float(np.sqrt(max(kernel(order[:FIRST_OF_SIGN], order[:FIRST_OF_SIGN]).diagonal().mean(), 0.0))) or 1.0
    paired = bool(problems[0].intercept)
    duals = [_Dual(problem.y, upper, paired, np.zeros(n), np.zeros(n), mu) for problem in problems]
    if all(starts):
        known = [dual.y * np.minimum(start.dual, upper) for dual, start in zip(duals, starts, strict=True) if start]
        for dual, s, outputs in zip(duals, known, cache.products(np.stack(known, axis=1)).T, strict=True):
            dual.warm_start(s, outputs.copy())
    gaps, reason, number, deadline = list[float](), "", 0, options.deadline
    while (unsolved := [dual for dual in duals if dual.gap > options.tol / 2]) and not options.stop():
        gaps.append(sum(min(dual.gap, 1e3) for dual in duals))
        if reason := _reason_to_stop(gaps, all(dual.gap < np.inf for dual in duals)):
            break
        number += 1
        while not pool.all() and max(dual.violations(pool)[2] for dual in unsolved) <= POOL_VIOLATION:
            size *= POOL_GROWTH
            pool[order[:size]] = True
            gaps.clear()
        chosen = [dual.working_set(pool, len(unsolved) ** -0.5, cache.largest) for dual in unsolved]
        cache.load(np.unique(np.concatenate(chosen)), np.any([dual.s != 0 for dual in duals], axis=0), deadline)
        changes = _improved(unsolved, chosen, cache, deadline)
        for dual, outputs in zip(unsolved, cache.products(changes).T, strict=True):
            dual.outputs = dual.outputs + outputs
            dual.update_gap()
        if options.verbose:
            gap = max(dual.gap for dual in duals)
            print(f"round {number}: gap {gap:.1e}, {cache.count} rows, {deadline.seconds:.1f} s", file=sys.stderr)
    stopped, answers = options.stop() if unsolved else None, []
    for dual in duals:
        if dual.best[0] < dual.gap:
            dual.gap, dual.s, dual.outputs, dual.mu = dual.best
        a = dual.s / dual.mu
        answers.append(Answer(a[None], np.abs(a), number, stopped, dual.intercept, reason=reason))
    return answers, cache.products(np.stack([answer.weights[0] for answer in answers], axis=1))
