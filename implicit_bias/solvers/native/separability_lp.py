"""The separability linear program: whether any weights separate samples, by an interior-point method over features.

Over weights w, an intercept b and a margin β, and over λ and a number t,

    maximise nβ   subject to   f_i = ⟨φ_i, w⟩ + bỹ_i ≥ β,   Σ_i f_i ≤ 1,
    minimise t    subject to   Φᵀλ = tΦᵀ1,   ỹᵀλ = tỹᵀ1,   1ᵀλ = n,   λ, t ≥ 0,

are dual to each other. Both have interior points from the start, w = 0, b = 0, β = −1 and λ = 1, t = 1, where all
products of a variable and its slack are 1. Some weights separate the samples if and only if β becomes positive. Else t
tends to 0, and λ to the centre of all proofs of inseparability, where λ_i is 0 only if it is 0 in every proof. Without
a free intercept, there are no b and ỹ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.limits import free_memory
from implicit_bias.solvers.native.algebra import DenseFactor, Tensor, add_to_diagonal_, filled, free_on_device, library
from implicit_bias.solvers.native.kernels import LinearKernels
from implicit_bias.solvers.native.loop import TO_BOUNDARY, descend_from, longest_step

#: Size of t, and of a step, that counts as zero: then λ is projected to a proof.
NEARLY_ZERO = 1e-10
#: Added to a diagonal of 1.
SHIFT = 1e-13
#: Refinements of a solution.
REFINEMENTS = 2
#: Projections to the null space with one factor.
PROJECTIONS = 3
#: Factors at most: entries of λ that become negative are left out of the next one.
FACTORS = 3


class LPRows:
    """A with rows (φ_i, ỹ_i, −1) and a last row −Σ_i (φ_i, ỹ_i, 0), for x = (w, b, β): Ax ≥ −(0, …, 0, 1)."""

    def __init__(self, kernels: LinearKernels, intercept_column: Tensor | None) -> None:
        self.kernels, self.n = kernels, kernels.n
        columns = [-kernels.ones] if intercept_column is None else [intercept_column, -kernels.ones]
        self.more = library(kernels.ones).stack(columns, 1)
        V = kernels.adjoint(kernels.ones)
        self.shape, sums = V.shape, self.more.sum(0)
        sums[-1] = 0.0
        self.total = library(V).hstack([V.reshape(-1), sums])
        self.size = len(self.total)

    def times(self, x: Tensor) -> Tensor:
        """Return Ax (n + 1,)."""
        few = self.more.shape[1]
        f = self.kernels.outputs(x[:-few].reshape(self.shape)) + self.more @ x[-few:]
        return library(f).hstack([f, -(self.total @ x)])

    def adjoint(self, lam: Tensor) -> Tensor:
        """Return Aᵀλ (size,) for λ and t in `lam` (n + 1,)."""
        V = self.kernels.adjoint(lam[:-1]).reshape(-1)
        return library(V).hstack([V, self.more.T @ lam[:-1]]) - lam[-1] * self.total

    def moment(self, weights: Tensor) -> Tensor:
        """Return Aᵀ diag(weights) A, a square matrix in the order of x, for weights (n + 1,)."""
        few, inner = self.more.shape[1], weights[:-1]
        N = filled(inner, (self.size, self.size), 0.0)
        N[:-few, :-few] = self.kernels.moment(inner)
        for place, column in enumerate(self.more.T, self.size - few):
            N[place, :-few] = N[:-few, place] = self.kernels.adjoint(inner * column).reshape(-1)
        N[-few:, -few:] = self.more.T @ (inner[:, None] * self.more)
        for place in range(self.size):
            N[place] += weights[-1] * self.total[place] * self.total
        return N


class NormalEquations:
    """Aᵀ diag(weights) A, factorised in units in which its diagonal is 1."""

    def __init__(self, rows: LPRows, weights: Tensor) -> None:
        self.rows, self.weights, N = rows, weights, rows.moment(weights)
        # The diagonal of features that are 0 becomes 1, too.
        none = 1.0 * (N.diagonal() == 0)
        self.units = (N.diagonal() + none) ** -0.5
        N *= self.units
        N *= self.units[:, None]
        add_to_diagonal_(N, SHIFT + none)
        self.factor = DenseFactor(N)

    def solve(self, right: Tensor) -> Tensor:
        """Return the x with Aᵀ diag(weights) A x = right for right (size,), with iterative refinement."""
        x = self.once(right)
        for _ in range(REFINEMENTS):
            x = x + self.once(right - self.rows.adjoint(self.weights * self.rows.times(x)))
        return x

    def once(self, right: Tensor) -> Tensor:
        """Return the same x without iterative refinement."""
        return self.units * self.factor.solve((self.units * right)[:, None])[:, 0]


@dataclass(frozen=True)
class LPIterate:
    """Multipliers (λ, t), slacks (n + 1,), x = (w, b, β), the longer last step, and (`lam`, `slack`) before it."""

    lam: Tensor
    slack: Tensor
    x: Tensor
    step: float = 1.0
    before: tuple[Tensor, Tensor] | None = None


class LPConditions:
    """The optimality conditions, linearised at an iterate."""

    def __init__(self, rows: LPRows, at: LPIterate) -> None:
        self.rows, self.at, self.mu = rows, at, (at.lam * at.slack).mean()
        self.equations = NormalEquations(rows, at.lam / at.slack)
        self.missing = -rows.adjoint(at.lam)
        self.missing[-1] -= rows.n

    def direction(self, target: float, guess: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """Return the changes of `lam`, `slack` and `x` to products `lam`·`slack` of `target`, 0 without a `guess`."""
        lam, slack = self.at.lam, self.at.slack
        products = -lam * slack if guess is None else target - lam * slack - guess[0] * guess[1]
        x = self.equations.solve(self.rows.adjoint(products / slack) - self.missing)
        change = self.rows.times(x)
        return (products - lam * change) / slack, change, x

    def ahead(self, guess: tuple[Tensor, ...]) -> float:
        pairs = zip((self.at.lam, self.at.slack), guess[:2], strict=True)
        lam, slack = (values + longest_step([values], [change]) * change for values, change in pairs)
        return float((lam * slack).mean())

    def moved(self, direction: tuple[Tensor, ...]) -> LPIterate:
        """Return the next iterate, after one step for λ and another for slack and x."""
        at, (lam, slack, x) = self.at, direction
        first, second = TO_BOUNDARY * longest_step([at.lam], [lam]), TO_BOUNDARY * longest_step([at.slack], [slack])
        lam, slack, x = at.lam + first * lam, at.slack + second * slack, at.x + second * x
        return LPIterate(lam, slack, x, max(first, second), (at.lam, at.slack))


def inseparability_proof(
    kernels: LinearKernels, intercept_column: Tensor | None, ends: Callable[[int, Tensor], bool]
) -> Tensor | None:
    """Return λ ≥ 0 (n,) with Φᵀλ and ỹᵀλ zero up to rounding; None if some weights separate, or there is no progress.

    `ends(step, λ)` is called after every step and returns True to end the search, with None as the result.
    """
    rows, free = LPRows(kernels, intercept_column), free_on_device(kernels.ones)
    # A step takes the matrix and a copy, the features, and copies of inputs or gate values.
    need = 8 * (2 * rows.size**2 + rows.n * (rows.size + 3 * max(rows.shape)))
    if need > (free_memory() if free is None else free):
        return None
    ones, x = filled(rows.total, rows.n + 1, 1.0), 0.0 * rows.total
    x[-1] = -1.0
    count, proof = -1, None

    def observe(at: LPIterate) -> bool:
        """Return True at a limit, if the margin β is positive, if steps vanish, or if t does, which sets `proof`."""
        nonlocal count, proof
        count += 1
        if at.before is None:
            return False
        if ends(count, at.lam[:-1]) or at.x[-1] > 0 or at.step < NEARLY_ZERO:
            return True
        if at.lam[-1] <= NEARLY_ZERO:
            # λ_i is kept if its slack shrank more (Tapia's indicators), because the two have different units.
            kept = at.lam / at.before[0] > at.slack / at.before[1]
            proof = _projected(rows, library(at.lam).where(kept, at.lam, 0 * at.lam))
            return True
        return count >= kernels.settings.separability_iterations

    descend_from(LPIterate(ones, ones, x), observe, lambda at: LPConditions(rows, at), 0.0)
    return proof


def _projected(rows: LPRows, lam: Tensor) -> Tensor | None:
    """Return λ ≥ 0 (n,), each changed in proportion to itself so that Aᵀλ ≈ 0; None if a factorisation fails."""
    xp = library(lam)
    lam[-1] = 0.0
    for _ in range(FACTORS):
        try:
            equations = NormalEquations(rows, lam**2)
        except np.linalg.LinAlgError:
            return None
        for _ in range(PROJECTIONS):
            missing = rows.adjoint(lam)
            missing[-1] = 0.0
            change = rows.times(equations.once(missing))
            change[-1] = 0.0
            lam = lam - lam**2 * change
        negative = lam < 0
        lam = xp.where(negative, 0 * lam, lam)
        if not negative.any():
            break
    return lam[:-1]
