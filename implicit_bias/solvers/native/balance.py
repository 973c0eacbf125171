"""Whether any weights separate samples, by an interior-point method over their features.

Over weights w, an intercept b and a margin β, and over λ and a number t,

    maximise nβ   subject to   f_i = ⟨φ_i, w⟩ + bỹ_i ≥ β,   Σ_i f_i ≤ 1,
    minimise t    subject to   Φᵀλ = tΦᵀ1,   ỹᵀλ = tỹᵀ1,   1ᵀλ = n,   λ, t ≥ 0,

are dual to each other. Both have interior points from the start, w = 0, b = 0, β = −1 and λ = 1, t = 1, where all
products of a variable and its slack are 1. Some weights separate the samples if and only if β becomes positive. Else t
tends to 0, and λ to the centre of all proofs that none do, where λ_i is 0 only if it is 0 in every proof. Where no
intercept is free, there are no b and ỹ.
"""

from __future__ import annotations

from collections.abc import Callable

from implicit_bias._utils.memory import free_memory
from implicit_bias.solvers.native.arrays import Tensor, add_to_diagonal_, device_of, filled, free_on_device, library
from implicit_bias.solvers.native.factors import DenseFactor
from implicit_bias.solvers.native.kernels import LinearKernels

#: Steps at most; the t from which on the last digits of λ are found at once; the way to the boundary that a step takes.
STEPS, NEARLY, TO_BOUNDARY = 100, 1e-10, 0.995
#: What joins a diagonal of 1, and how often a solution is refined.
SHIFT, REFINEMENTS = 1e-13, 2
#: How often λ are moved into the null space by one factor, and how often those that turn negative are left out.
MOVES, TURNS = 3, 3


class Rows:
    """A with rows (φ_i, ỹ_i, −1), and a last one −Σ_i (φ_i, ỹ_i, 0), for x = (w, b, β): Ax ≥ −(0, …, 0, 1)."""

    def __init__(self, kernels: LinearKernels, tilt: Tensor | None) -> None:
        self.kernels, self.n = kernels, kernels.n
        columns = [-kernels.ones] if tilt is None else [tilt, -kernels.ones]
        self.more = library(kernels.ones).stack(columns, 1)
        V = kernels.adjoint(kernels.ones)
        self.shape, sums = V.shape, self.more.sum(0)
        sums[-1] = 0.0
        self.total = library(V).hstack([V.reshape(-1), sums])
        self.size = len(self.total)

    def times(self, x: Tensor) -> Tensor:
        """Ax (n + 1,)."""
        few = self.more.shape[1]
        f = self.kernels.outputs(x[:-few].reshape(self.shape)) + self.more @ x[-few:]
        return library(f).hstack([f, -(self.total @ x)])

    def adjoint(self, lam: Tensor) -> Tensor:
        """Aᵀλ."""
        V = self.kernels.adjoint(lam[:-1]).reshape(-1)
        return library(V).hstack([V, self.more.T @ lam[:-1]]) - lam[-1] * self.total

    def moment(self, weights: Tensor) -> Tensor:
        """Aᵀ diag(weights) A."""
        few, own = self.more.shape[1], weights[:-1]
        N = filled(own, (self.size, self.size), 0.0)
        N[:-few, :-few] = self.kernels.moment(own)
        for place, column in enumerate(self.more.T, self.size - few):
            N[place, :-few] = N[:-few, place] = self.kernels.adjoint(own * column).reshape(-1)
        N[-few:, -few:] = self.more.T @ (own[:, None] * self.more)
        for place in range(self.size):
            N[place] += weights[-1] * self.total[place] * self.total
        return N


class Solver:
    """Aᵀ diag(weights) A, factorised in units in which its diagonal is 1."""

    def __init__(self, rows: Rows, weights: Tensor) -> None:
        self.rows, self.weights, N = rows, weights, rows.moment(weights)
        # Of features that are 0 the diagonal becomes 1, too.
        none = 1.0 * (N.diagonal() == 0)
        self.units = (N.diagonal() + none) ** -0.5
        N *= self.units
        N *= self.units[:, None]
        add_to_diagonal_(N, SHIFT + none)
        self.factor = DenseFactor(N)

    def solve(self, right: Tensor) -> Tensor:
        """By substitution, refined."""
        x = self.once(right)
        for _ in range(REFINEMENTS):
            x = x + self.once(right - self.rows.adjoint(self.weights * self.rows.times(x)))
        return x

    def once(self, right: Tensor) -> Tensor:
        """By substitution alone."""
        return self.units * self.factor.solve((self.units * right)[:, None])[:, 0]


def balance(kernels: LinearKernels, tilt: Tensor | None, ends: Callable[[int, Tensor], bool]) -> Tensor | None:
    """λ ≥ 0 (n,) with Φᵀλ and ỹᵀλ as near to 0 as rounding allows; None where β is positive, or steps lead no further.

    `ends(step, λ)` is called after every step, and says whether it is to be the last. None, too, without the memory.
    """
    rows = Rows(kernels, tilt)
    free = free_on_device(device_of(kernels.ones))
    if need(rows) > (free_memory() if free is None else free):
        return None
    lam = filled(rows.total, rows.n + 1, 1.0)
    z, x = 1.0 * lam, 0.0 * rows.total
    x[-1] = -1.0
    for step in range(1, STEPS + 1):
        moves = _step(rows, lam, z)
        if moves is None:
            return None
        before, slack = lam, z
        longest = [TO_BOUNDARY * _room(values, change) for values, change in zip((lam, z), moves[:2], strict=True)]
        lam, z, x = lam + longest[0] * moves[0], z + longest[1] * moves[1], x + longest[1] * moves[2]
        if ends(step, lam[:-1]) or x[-1] > 0 or max(longest) < NEARLY:
            return None
        if lam[-1] <= NEARLY:
            # Of a product that vanishes, the factor that shrank (Tapia's indicators): λ and z have different units.
            return _moved(rows, library(lam).where(lam / before > z / slack, lam, 0 * lam))
    return None


def need(rows: Rows) -> int:
    """Bytes of a step: the matrix twice while it is made, the features, and copies of inputs or gate values."""
    return 8 * (2 * rows.size**2 + rows.n * (rows.size + 3 * max(rows.shape)))


def _step(rows: Rows, lam: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Mehrotra's changes of λ, z and x; None where the matrix is no longer positive definite."""
    try:
        solver = Solver(rows, lam / z)
    except ArithmeticError:
        return None
    missing = -rows.adjoint(lam)
    missing[-1] -= rows.n

    def changes(products: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Those that add `products` to λz."""
        x = solver.solve(rows.adjoint(products / z) - missing)
        slack = rows.times(x)
        return (products - lam * slack) / z, slack, x

    mu = (lam * z).mean()
    guess = changes(-lam * z)
    ahead = [values + _room(values, change) * change for values, change in zip((lam, z), guess[:2], strict=True)]
    target = mu * ((ahead[0] * ahead[1]).mean() / mu) ** 3
    return changes(target - lam * z - guess[0] * guess[1])


def _room(values: Tensor, change: Tensor) -> float:
    """The longest step, at most 1, that leaves no value negative."""
    return 1 / max(float((-change / values).max()), 1.0)


def _moved(rows: Rows, lam: Tensor) -> Tensor | None:
    """λ, each changed by a small part of itself, so that Aᵀλ is nearer to 0; those that turn negative are left out."""
    xp = library(lam)
    lam[-1] = 0.0
    for _ in range(TURNS):
        try:
            solver = Solver(rows, lam**2)
        except ArithmeticError:
            return None
        for _ in range(MOVES):
            missing = rows.adjoint(lam)
            missing[-1] = 0.0
            change = rows.times(solver.once(missing))
            change[-1] = 0.0
            lam = lam - lam**2 * change
        negative = lam < 0
        lam = xp.where(negative, 0 * lam, lam)
        if not negative.any():
            break
    return lam[:-1]
