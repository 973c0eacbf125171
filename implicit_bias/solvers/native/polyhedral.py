"""An interior-point method for norms with polyhedral unit balls: linear programs with few rows and many columns.

With rows f_i = y_i (⟨φ_i, W⟩ + b) and groups h of gates, a hard margin is solved as the largest γ with f_i ≥ γ m_i and
‖W‖ ≤ 1, a soft one as the least ‖W‖ + Σ_i p_i ξ_i with f_i ≥ m_i − ξ_i. Both have interior points from the start. The
unit balls are of two kinds, with factors a of the gates and costs c of the groups:

    box       ‖W‖ = Σ_h c_h t_h,  |W_jl| a_j ≤ t_h           multipliers α, β ≥ 0 of t_h/a_j ∓ W_jl ≥ 0
    simplex   ‖W‖ = max_h Σ_{j∈h,l} a_j |W_jl| / c_h         W = W⁺ − W⁻, multipliers s± of W± ≥ 0, σ_h of the sums

Elimination of all columns and of τ, which is t or σ, leaves an n × n matrix for the multipliers λ of the rows,

    Φ diag(Θ) Φᵀ ± P diag(1/δ) Pᵀ + diag(u/λ + ξ/(p − λ)),

where Θ (k, d) and δ (H,) are quotients of variables and slacks, and the H columns of P are sums of columns of Φ. Φ is
never formed: the first term is a sum over gates of X diag(Θ_j) Xᵀ on the samples whose gate j is open.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from implicit_bias._utils.blocks import Cholesky, gram
from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import PolyhedralForm
from implicit_bias.solvers.native.ball import SHIFT, BallProgram, inputs_or_blocks
from implicit_bias.solvers.native.loop import TO_BOUNDARY, longest_step

#: Refinements of a solution by the factorised matrix.
REFINEMENTS = 2
#: Step length below which there is no progress.
SHORTEST_STEP = 1e-8


@dataclass(frozen=True)
class PolyhedralIterate:
    """An iterate or a direction: pairs of arrays `x` ≥ 0 and `z` ≥ 0, and W, τ, b, γ and `scale`, which have no sign.

    The pairs are u and λ, ξ and p − λ of a soft margin, and those of the ball. τ (H,) is t of a box or σ of a simplex,
    and `scale` the multiplier of Σ_h c_h t_h = 1, or the bound of the sums of a simplex.
    """

    x: tuple[Array, ...]
    z: tuple[Array, ...]
    W: Array
    tau: Array
    b: float
    gamma: float
    scale: float

    @property
    def lam(self) -> Array:
        return self.z[0]

    def moved(self, step: Self, first: float, second: float, primal: tuple[float, float]) -> Self:
        """Move variables by `first`, multipliers by `second`, and `tau` and `scale` by `primal`, times `step`."""
        return type(self)(
            tuple(x + first * dx for x, dx in zip(self.x, step.x, strict=True)),
            tuple(z + second * dz for z, dz in zip(self.z, step.z, strict=True)),
            self.W + first * step.W,
            self.tau + primal[0] * step.tau,
            self.b + first * step.b,
            self.gamma + first * step.gamma,
            self.scale + primal[1] * step.scale,
        )


class PolyhedralProgram(BallProgram):
    """The linear program of a margin problem: its data, and the sums over the columns of groups."""

    least_centring = 1e-3

    def __init__(self, problem: MarginProblem, form: PolyhedralForm) -> None:
        super().__init__(problem)
        self.features: Any = problem.features
        self.X, self.blocks = inputs_or_blocks(problem.features, problem.y)
        self.sums, self.groups, self.costs = form.sums, form.groups, form.costs
        #: Coefficients of τ in the slacks of a column: 1/a_j of a box, a_j of a simplex.
        self.factors = (form.factors if form.sums else 1 / form.factors)[:, None]
        #: True if Σ_h c_h τ_h = 1, whose multiplier is unknown.
        self.has_scale = self.hard != self.sums

    def block(self, j: int) -> tuple[Any, Array]:
        """Return indices of samples whose gate j is open, or a slice of all, and their y_i φ_j(x_i), shape (m, d)."""
        if self.blocks is not None:
            return slice(None), self.blocks[:, j]
        values = self.features.gate_values[:, j] * self.y
        open_ = np.flatnonzero(values)
        return open_, self.X[open_] * values[open_, None]

    def moment(self, weights: Array) -> Array:
        """Return diag(y) Φ diag(weights) Φᵀ diag(y), shape (n, n), for weights (k, d) ≥ 0."""
        K, roots = np.zeros((len(self.m), len(self.m))), np.sqrt(weights)
        for j in range(len(weights)):
            rows, block = self.block(j)
            half = block * roots[j]
            # NumPy computes half of a product of a matrix with its own transpose.
            if isinstance(rows, slice):
                K += gram(half)
            else:
                K[np.ix_(rows, rows)] += gram(half)
        return K

    def total(self, columns: Array) -> Array:
        """Return the sums of `columns` (k, d) over the gates of each group and all inputs, shape (H,)."""
        return np.asarray(np.bincount(self.groups, columns.sum(axis=1), len(self.costs)), dtype=np.float64)

    def solution(self, at: PolyhedralIterate) -> tuple[Array, float, Array]:
        return at.W, at.b, at.lam

    def linearised(self, at: PolyhedralIterate) -> "PolyhedralConditions":
        return PolyhedralConditions(self, at)

    def largest(self, columns: Array) -> Array:
        """Return the largest entry of `columns` (k, d) ≥ 0 in each group of gates, shape (H,)."""
        maxima = np.zeros(len(self.costs))
        np.maximum.at(maxima, self.groups, columns.max(axis=1))
        return maxima

    def start(self) -> PolyhedralIterate:
        e, c, ones = self.factors, self.costs, np.ones(self.features.shape[1:])

        def dual_norm(V: Array) -> float:
            return float(c @ self.largest(np.abs(V) / e) if self.sums else (self.total(e * np.abs(V)) / c).max())

        lam, V, size = self.first(self.problem.adjoint, dual_norm)
        # ‖W‖ ≤ 1 for a hard margin; for a soft one Σ m_iλ_i is about the optimum.
        reach = 1.0 if self.hard else float(self.m @ lam)
        if self.sums:
            tau = self.largest(np.abs(V) / e) + (size if self.hard else 1.0 - size) / (len(c) * c)
            x = reach * (c / (2 * self.total(e * ones) + 1))[self.groups, None] * ones
            s = e * tau[self.groups, None]
            pairs = [(x, s - V), (x, s + V), (reach * c - self.total(2 * e * x), tau)]
            scale = reach
        else:
            scale, tau = 2 * size if self.hard else 1.0, reach / (len(c) * c)
            rest = (c * scale - self.total(e * np.abs(V))) / (2 * self.total(e * ones))
            z, x = rest[self.groups, None] * ones, e * tau[self.groups, None] * ones
            pairs = [(x, np.maximum(V, 0) + z), (x, np.maximum(-V, 0) + z)]
        gamma = 1.0 if not self.hard else -len(self.m) * float(np.mean(pairs[0][0] * pairs[0][1]))
        if self.p is not None:
            pairs = [(2 * self.m, self.p - lam), *pairs]
        pairs = [(abs(gamma) * self.m, lam), *pairs]
        x_, z_ = zip(*pairs, strict=True)
        return PolyhedralIterate(x_, z_, np.zeros_like(ones), tau, 0.0, gamma, scale)


class PolyhedralConditions:
    """The optimality conditions of a program, linearised at an iterate."""

    def __init__(self, program: PolyhedralProgram, at: PolyhedralIterate) -> None:
        self.program, self.at = program, at
        e, groups, problem = program.factors, program.groups, program.problem
        self.mu = sum(float(np.vdot(x, z)) for x, z in zip(at.x, at.z, strict=True)) / sum(x.size for x in at.x)
        ball = slice(1 if program.hard else 2, None)
        (x1, x2, *x3), (z1, z2, *z3) = at.x[ball], at.z[ball]
        one, two = (x1 / z1, x2 / z2) if program.sums else (z1 / x1, z2 / x2)
        self.theta = one + two if program.sums else 1 / (one + two)
        #: Coefficients of dτ in dW, without Θ for a box.
        self.psi = e * (one - two)
        if program.sums:
            self.delta = program.total(e**2 * self.theta) + x3[0] / z3[0]
            border = self.psi
        else:
            self.delta = program.total(4 * e**2 * one * two * self.theta)
            border = self.psi * self.theta
        #: Signed border columns P, shape (n, H): row i is the sum of y_i φ_j(x_i) over the columns of group h.
        self.P = np.column_stack([problem.margins(border * (groups == h)[:, None]) for h in range(len(program.costs))])
        self.diagonal = at.x[0] / at.z[0] + (0.0 if program.hard else at.x[1] / at.z[1])
        K = program.moment(self.theta)
        #: −1 for a simplex, whose dτ reduces the margins.
        self.sign = -1.0 if program.sums else 1.0
        K += self.sign * (self.P / self.delta) @ self.P.T
        K[np.diag_indices_from(K)] += self.diagonal + SHIFT * K.trace() / len(K)
        self.factor = Cholesky(K)
        V, f = problem.adjoint(at.lam), problem.margins(at.W) + program.y * at.b
        slack = at.x[0] if program.hard else at.x[0] - at.x[1]
        #: Residuals of the rows, of the columns, of the groups, and of Σ y_iλ_i = 0, Σ m_iλ_i = 1, Σ c_hτ_h = 1.
        self.missing = at.gamma * program.m + slack - f
        self.columns = 0.0 if program.sums else V - z1 + z2
        self.of_groups = 0.0 if program.sums else program.total(e * (z1 + z2)) - program.costs * at.scale
        #: Border columns of b, γ and the scale, the last residuals, and the matrix of their equations.
        columns, values = program.border(at.lam)
        if program.has_scale:
            columns = [*columns, -self.P @ (program.costs / self.delta)]
            values = [*values, float(program.costs @ at.tau) - 1.0]
        self.border, self.values = np.column_stack(columns or [np.zeros((len(K), 0))]), np.array(values)
        self.signs = np.ones(len(values))
        if program.has_scale:
            self.signs[-1] = self.sign
        self.solved = self.solve(self.border)
        self.small = self.border.T @ (self.solved * self.signs)
        if program.has_scale:
            self.small[-1, -1] -= float(program.costs @ (program.costs / self.delta))
        self.small *= -1.0

    def solve(self, right: Array) -> Array:
        """Return K⁻¹ right, with iterative refinement, for right (n,) or (n, m)."""
        flat = right[:, None] if right.ndim == 1 else right
        x = self.factor.solve(flat)
        problem = self.program.problem
        for _ in range(REFINEMENTS):
            image = [problem.margins(self.theta * problem.adjoint(column)) for column in x.T]
            rest = flat - np.reshape(image, x.T.shape).T - self.diagonal[:, None] * x
            rest = rest - self.sign * self.P @ ((self.P.T @ x) / self.delta[:, None])
            x = x + self.factor.solve(rest)
        return x.reshape(right.shape)

    def direction(self, target: float, guess: PolyhedralIterate | None) -> PolyhedralIterate:
        """Return the Newton direction to products x z of `target`, corrected by the dx dz of `guess`, if any."""
        program, at = self.program, self.at
        e, groups, problem = program.factors, program.groups, program.problem
        products = [target - x * z for x, z in zip(at.x, at.z, strict=True)]
        if guess is not None:
            products = [c - dx * dz for c, dx, dz in zip(products, guess.x, guess.z, strict=True)]
        ball = 1 if program.hard else 2
        (c1, c2, *c3), (x1, x2, *x3), (z1, z2, *z3) = products[ball:], at.x[ball:], at.z[ball:]
        right = self.missing + products[0] / at.lam - (0.0 if program.hard else products[1] / at.z[1])
        if program.sums:
            one, two = c1 / z1, c2 / z2
            fixed = one - two
            of_groups = program.total(e * (one + two)) + c3[0] / z3[0]
        else:
            one, two = c1 / x1, c2 / x2
            fixed = self.theta * (self.columns - one + two)
            of_groups = self.of_groups + program.total(e * (one + two) + self.psi * fixed)
        right = right - problem.margins(fixed) - self.sign * self.P @ (of_groups / self.delta)
        first, values = self.solve(right), self.values.copy()
        if program.has_scale:
            values[-1] += float(program.costs @ (of_groups / self.delta))
        rest = list(np.linalg.solve(self.small, values - self.border.T @ first))
        lam = first - self.solved @ (self.signs * np.array(rest))
        scale = rest.pop() if program.has_scale else 0.0
        gamma = rest.pop() if program.hard else 0.0
        b = rest.pop() if program.intercept else 0.0
        tau = (of_groups + self.P.T @ lam - program.costs * scale) / self.delta
        V, reach = problem.adjoint(lam), e * tau[groups, None]
        if program.sums:
            s1, s2 = reach - V, reach + V
            w1, w2 = one - x1 / z1 * s1, two - x2 / z2 * s2
            pairs = [(w1, s1), (w2, s2), ((c3[0] - x3[0] * tau) / z3[0], tau)]
        else:
            W = self.theta * (V + self.psi * tau[groups, None]) + fixed
            p1, p2 = reach - W, reach + W
            pairs = [(p1, (c1 - z1 * p1) / x1), (p2, (c2 - z2 * p2) / x2)]
        if not program.hard:
            pairs = [((products[1] + at.x[1] * lam) / at.z[1], -lam), *pairs]
        x, z = zip(((products[0] - at.x[0] * lam) / at.lam, lam), *pairs, strict=True)
        return PolyhedralIterate(x, z, w1 - w2 if program.sums else W, tau, b, gamma, scale)

    def ahead(self, guess: PolyhedralIterate) -> float:
        """Return the mean of all products xz after the longest steps along `guess`, one for x and another for z."""
        first, second = longest_step(self.at.x, guess.x), longest_step(self.at.z, guess.z)
        pairs = zip(self.at.x, guess.x, self.at.z, guess.z, strict=True)
        total = sum(float(np.vdot(x + first * dx, z + second * dz)) for x, dx, z, dz in pairs)
        return total / sum(x.size for x in self.at.x)

    def moved(self, direction: PolyhedralIterate) -> PolyhedralIterate | None:
        """Return the next iterate, after one step for variables and another for multipliers; None for short steps."""
        at = self.at
        first, second = (TO_BOUNDARY * longest_step(v, dv) for v, dv in ((at.x, direction.x), (at.z, direction.z)))
        if max(first, second) < SHORTEST_STEP:
            return None
        return at.moved(direction, first, second, (second, first) if self.program.sums else (first, second))
