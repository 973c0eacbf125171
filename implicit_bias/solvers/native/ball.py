"""Margin problems as programs over the unit ball of a norm: bounds, limits, and the loop of their solvers.

A ball of matrices has a slack S ⪰ 0, whose multiplier is a metric Q ⪰ 0.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from implicit_bias._utils.blocks import Cholesky, gram
from implicit_bias._utils.checks import Array
from implicit_bias._utils.limits import TooLargeError
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Progress
from implicit_bias.solvers.native.loop import (
    Bounds,
    Incumbent,
    Linearised,
    Pace,
    descend_from,
    lower_bound,
    upper_bound,
)
from implicit_bias.solvers.native.settings import Settings

#: Iterations after which a method ends if `solve` has no limit; a program needs 10 to 40.
ITERATIONS = 200
#: Lower bound of the norm of separating weights, for inputs of length about 1, above which none are sought.
LARGEST_NORM = 1e9
#: Share of the way to the boundary that a step takes.
TO_BOUNDARY = 0.98
#: Step length below which second-order terms are left out, and the centring parameter then.
LITTLE_ROOM, CENTRING = 0.1, 0.5
#: Step length below which there is no progress.
SHORTEST_STEP = 1e-7
#: Share of the mean diagonal that is added to the matrix of λ.
SHIFT = 1e-15


def inputs_or_blocks(features: Any, y: Array) -> tuple[Any, Any]:
    """Return inputs X and None, or None and blocks y_i φ_j(x_i) (n, k, d) of features without inputs in an array."""
    if features.gated and isinstance(features.X, np.ndarray):
        return features.X, None
    return None, (features.dense() * y[:, None]).reshape(features.shape)


class Units:
    """diag(y)Φ for weights as matrices M (…, R, D) of `shape` (…, R), whose rows are the gates' weights by `order`."""

    def __init__(self, features: Any, y: Array, order: np.ndarray, shape: tuple[int, ...]) -> None:
        (self.n, self.k, self.d), self.features, self.y = features.shape, features, y
        self.order, self.shape, R = order, shape, shape[-1]
        self.X, blocks = inputs_or_blocks(features, y)
        if blocks is None:
            #: Signed gate values (H, contexts, n, R), and the Gram matrix of the inputs.
            values = (features.gate_values * y[:, None])[:, order].reshape(self.n, -1, R, self.k // np.prod(shape))
            self.G, self.gram = np.ascontiguousarray(values.transpose(1, 3, 0, 2)), gram(self.X)
        else:
            self.A = np.moveaxis(blocks[:, order].reshape(self.n, int(np.prod(shape[:-1])), R, -1), 1, 0)

    def matrices(self, W: Array) -> Array:
        """Return weights (k, d) as matrices."""
        return W[self.order].reshape(*self.shape, -1)

    def weights(self, M: Array) -> Array:
        """Return matrices as weights (k, d)."""
        W = np.empty((self.k, self.d))
        W[self.order] = M.reshape(self.k, self.d)
        return W

    def times(self, M: Array) -> Array:
        """Return y∘ΦW (n,) for matrices M."""
        return self.y * self.features.apply(self.weights(M))

    def adjoint(self, lam: Array) -> Array:
        """Return Φᵀ(λ∘y) as matrices."""
        return self.matrices(self.features.adjoint(self.y * lam))

    def kernel(self, root: Array, h: int = 0) -> Array:
        """Return [⟨A_i, QA_j⟩] (n, n) of group h for Q = `root` rootᵀ."""
        if self.X is None:
            return gram((root.T @ self.A[h]).reshape(self.n, -1))
        return np.sum([gram(G @ root) for G in self.G[h]], axis=0) * self.gram

    def seen(self, V: Array) -> Array:
        """Return V x_i (contexts, n, m) for V (m, D), given inputs in an array."""
        each = V.reshape(len(V), -1, self.d)
        return np.stack([self.X @ each[:, c].T for c in range(each.shape[1])])

    def products(self, left: Array, V: Array, h: int = 0) -> Array:
        """Return `left` A_i Vᵀ (n, R, m) of group h for V (m, D)."""
        if self.X is None:
            return left @ self.A[h] @ V.T
        return np.einsum("cna,cnb->nab", self.G[h] @ left.T, self.seen(V))


class BallProgram(ABC):
    """The program of a margin problem: its required margins m, the bounds p of λ, and an interior point."""

    #: Least centring parameter.
    least_centring: float

    def __init__(self, problem: MarginProblem) -> None:
        self.problem, self.hard, self.intercept = problem, problem.hard, problem.intercept
        self.m, self.y = np.full(problem.features.n, problem.required_margin), problem.y
        self.p = None if problem.hard else problem.upper_bounds

    @abstractmethod
    def start(self) -> Any:
        """Return an interior point that satisfies all equations, except that Σ y_iλ_i may differ from 0."""

    @abstractmethod
    def linearised(self, at: Any) -> Linearised:
        """Return the optimality conditions at an iterate, or raise LinAlgError."""

    @abstractmethod
    def solution(self, at: Any) -> tuple[Array, float, Array]:
        """Return the weights (k, d), the intercept and λ (n,) of an iterate."""

    def solved(self, at: Any, f: Array, best: Bounds) -> bool:
        """Return True if a program of more samples shall follow; f (n,) are margins as shares of m."""
        return False

    def grown(self) -> "BallProgram":
        """Return that program, or raise TooLargeError."""
        raise NotImplementedError

    def first(self, adjoint: Callable[..., Array], dual_norm: Callable[..., float]) -> tuple[Array, Array, float]:
        """Return a λ in proportion to 1/m, feasible for a soft margin, its V, and ‖V‖_* or 1 instead of 0."""
        lam = 1 / (len(self.m) * self.m)
        V = adjoint(lam)
        size = dual_norm(V) or 1.0
        share = 1.0 if self.p is None else min(0.5 / size, float((self.p / lam).min()) / 2)
        return share * lam, share * V, share * size

    def border(self, lam: Array) -> tuple[list[Array], list[float]]:
        """Return the columns of b and γ, and the values of the equations Σ y_iλ_i = 0 and −Σ m_iλ_i = −1 at λ."""
        columns, values = ([self.y], [-float(self.y @ lam)]) if self.intercept else ([], [])
        return ([*columns, -self.m], [*values, float(self.m @ lam) - 1.0]) if self.hard else (columns, values)

    def slacks(self, lam: Array, f: Array, mu: float) -> tuple[Array, Array, Array, float]:
        """Return u, z, ξ and γ of a start with these λ and margins; products of u and λ are about μ or larger."""
        u, none = np.maximum(mu / lam, 1e-3 * float(np.abs(f).max())), self.m[:0]
        if self.p is None:
            gamma = float(((f - u) / self.m).min())
            return f - gamma * self.m, none, none, gamma
        u = np.maximum(self.m, 2 * np.abs(f))
        return u, self.p - lam, u + self.m - f, 1.0

    def sizes(self, at: Any, W: Array, V: Array) -> tuple[float, float]:
        """Return ‖W‖ and ‖V‖_*, or upper bounds that are close to them near the optimum; W and V are (k, d)."""
        return self.problem.norm.value(W), self.problem.norm.dual(V)


@dataclass(frozen=True)
class MatrixIterate:
    """An iterate or a direction: λ, the slack u of the rows, z = p − λ and ξ (empty if hard), Q, b and γ."""

    lam: Array
    u: Array
    z: Array
    xi: Array
    Q: Array
    b: float
    gamma: float

    def plus(self, step: float, change: Self) -> Self:
        """Return the iterate after a step along `change`."""
        return type(self)(*(getattr(self, name) + step * getattr(change, name) for name in vars(self)))


class MatrixConditions(Linearised):
    """The optimality conditions of a program over a ball of matrices, linearised at the iterate `at`."""

    def __init__(self, program: Any, at: Any, count: int) -> None:
        #: `count` is the number of complementarity products.
        self.program, self.at, self.count, self.mu = program, at, count, program.products(at) / count

    def factorise(self, K: Array, f: Array) -> None:
        """Set the `factor` of the matrix of λ with the `diagonal` of the slacks, and the residuals `missing` of f."""
        program, at, soft = self.program, self.at, len(self.at.z) > 0
        self.diagonal = at.u / at.lam + (at.xi / at.z if soft else 0.0)
        K[np.diag_indices_from(K)] += self.diagonal + SHIFT * K.trace() / len(K)
        self.factor = Cholesky(K)
        self.missing = at.gamma * program.m + (at.u - at.xi if soft else at.u) - f - program.y * at.b

    def required(self, target: float, guess: Any) -> tuple[Array, Array, Array]:
        """Return the changes of λu and zξ to `target`, and the right side of the rows for them."""
        at = self.at
        c_u, c_z = target - at.lam * at.u, target - at.z * at.xi
        if guess is not None:
            c_u, c_z = c_u - guess.lam * guess.u, c_z - guess.z * guess.xi
        return c_u, c_z, self.missing + c_u / at.lam - (c_z / at.z if len(at.z) else 0.0)

    def slacks(self, lam: Array, c_u: Array, c_z: Array) -> tuple[Array, Array, Array]:
        """Return the changes of u, z and ξ, given those of λ and of the products."""
        at = self.at
        return (c_u - at.u * lam) / at.lam, (-lam if len(at.z) else at.z), (c_z + at.xi * lam[: len(at.z)]) / at.z

    @abstractmethod
    def longest(self, change: Any) -> float:
        """Return the longest step ≤ 1 that leaves all variables with a sign positive, and Q, but perhaps not S."""

    def _room(self, change: Any) -> float:
        """Return a step ≤ 1 that leaves S positive, too, by reductions of 20 %; 0 if none above SHORTEST_STEP does."""
        room = self.longest(change)
        while room > SHORTEST_STEP:
            try:
                np.linalg.cholesky(self.program.slack(self.at.plus(room, change)))
                return room
            except np.linalg.LinAlgError:
                room *= 0.8
        return 0.0

    def ahead(self, guess: Any) -> float:
        return float(self.program.products(self.at.plus(self._room(guess), guess))) / self.count

    def moved(self, direction: Any) -> Any:
        step = TO_BOUNDARY * self._room(direction)
        if step < LITTLE_ROOM:
            # Second-order terms are those of a whole step.
            other = self.direction(CENTRING * self.mu, None)
            room = TO_BOUNDARY * self._room(other)
            step, direction = (room, other) if room > step else (step, direction)
        return self.at.plus(step, direction) if step > SHORTEST_STEP else None


class BallDescent:
    """A solve over the programs of a problem, scaled to inputs and margins near 1; `incumbent` gets every iterate."""

    def __init__(
        self, incumbent: Incumbent, build: Callable[[MarginProblem], BallProgram], options: Options, settings: Settings
    ) -> None:
        problem, self.incumbent, self.options = incumbent.problem, incumbent, options
        self.pace = Pace(options, settings)
        #: Weights here are `margin` / `scale` times those of the program, and λ is its 1 / `scale`.
        self.scale, self.margin = problem.features.scale(), float(np.mean(problem.required_margin))
        features, required = problem.features.scaled(1 / self.scale), problem.required_margin / self.margin
        self.program = build(problem.replace(features=features, required_margin=required, C=problem.C * self.scale))
        self.count, self.limit = -1, ITERATIONS
        self.stopped: Status | None = None
        #: True if a program of more samples follows.
        self.grows = True

    def run(self) -> Answer:
        """Return weights and dual to a gap of `options.tol`, or the best ones of a limit or of too little memory."""
        reason = ""
        while self.grows:
            most, self.grows = self.options.max_iterations, False
            self.limit = self.count + ITERATIONS if most is None else most
            descend_from(self.program.start(), self.observe, self.program.linearised, self.program.least_centring)
            try:
                self.program = self.program.grown() if self.grows else self.program
            except TooLargeError as error:
                self.grows, reason = False, str(error)
        return self.incumbent.answer(self.count, self.stopped, reason)

    def observe(self, at: Any) -> bool:
        """Update the bounds; return True at the tolerance or a limit, without margin or numbers, or to add samples."""
        self.count += 1
        program, problem, (W, b, dual) = self.program, self.program.problem, self.program.solution(at)
        if not (np.isfinite(W).all() and np.isfinite(dual).all()):
            return True
        lam, unit = balanced(dual, problem.y) if program.intercept else dual, self.margin / self.scale
        value, size = program.sizes(at, W, problem.adjoint(lam))
        box = None if program.hard else problem.upper_bounds * problem.required_margin
        f = problem.margins(W, b) / problem.required_margin
        bounds = Bounds(lower_bound(problem, lam, size)[0] * unit, upper_bound(value, f, box)[0] * unit)
        self.incumbent.offer(Answer(W * unit, lam / self.scale, 0, None, b * self.margin), bounds)
        best, options, (n, k, d), m = self.incumbent.bounds, self.options, problem.features.shape, len(program.m)
        options.report(Progress(self.count, options.deadline.seconds, best.lower, best.upper, best.gap, m, n))
        limit = Status.ITERATION_LIMIT if self.count >= self.limit else None
        self.stopped = limit or self.pace.stop(self.count, m**2 * (m / 3 + k * d))
        inseparable = program.hard and best.lower > LARGEST_NORM * unit
        ended = self.stopped is not None or best.gap <= options.tol / 2 or inseparable
        self.grows = not ended and program.solved(at, f, best)
        return ended or self.grows
