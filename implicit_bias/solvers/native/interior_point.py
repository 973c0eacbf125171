"""A primal-dual interior-point method (Mehrotra) for margin problems over group kernels, hard and soft.

The best multiple of a direction λ in the simplex has the dual objective 1/ρ. Here ρ is the least number with √q_h ≤ ρ
for every group, q_h = λᵀK_hλ, and, for soft margins, λ ≤ pρ with the upper bounds p of the dual:

    minimise ρ   subject to   q_h/(2ρ) + s_h = ρ/2,   λ + w = pρ,   1ᵀλ = 1,   λ, s, w ≥ 0,

with multipliers η of the groups, z of λ, u of w and ν of the sum. The problem is convex and bounded, and an interior
point is known whether or not the data are separable. A free intercept adds ỹᵀλ = 0, ỹ_i = y_i/m_i up to scale, whose
multiplier is the intercept. We write both constraints Eᵀλ + e₁ = 0 with E = [−1, ỹ] and multipliers (ν, b). The
optimality conditions, with f = K(η)λ/ρ:

    f + bỹ + u = z + ν,   ½ Σ_h η_h (q_h/ρ² + 1) + uᵀp = 1,   λz = 0,   ηs = 0,   uw = 0.

The hard margin, without w and u, is the saddle point min_{λ ∈ Δ} max_{η ∈ Δ} ½ Σ_h η_h λᵀK_hλ over two simplices.
At the optimum W_h is a multiple of η_h Φ_hᵀ(λ∘y).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from implicit_bias._utils.limits import TooLargeError
from implicit_bias.margin.problem import balanced
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.native.algebra import BorderedFactor, Tensor, add_to_diagonal_, all_finite, filled, library
from implicit_bias.solvers.native.kernels import GroupKernels, LinearKernels
from implicit_bias.solvers.native.loop import Bounds, descend_from, upper_bound
from implicit_bias.solvers.native.separability_lp import inseparability_proof

#: Attempts to factorise M: True for doubles (False: single precision for many samples, or a partial factor), and the
#: number added to the diagonal, as a share of Σ_h η_h/ρ, if rounding leaves M not positive definite.
ATTEMPTS = (False, 0.0), (True, 0.0), (True, 1e-14)


class Point:
    """An iterate or a direction: its variables, in the symbols of the module, in one array `values` (2m + 1 + e,).

    The m complementary pairs, whose products tend to zero, are first: (λ, η, w), then (z, s, u). Then come ρ and `nu`,
    (ν, b), or (ν,) without a free intercept. u and w are empty for a hard margin. n and H are the lengths of λ and η.
    """

    #: True unless partial factors took too many products on the way to this iterate.
    partial = True

    def __init__(self, values: Tensor, n: int, H: int, m: int) -> None:
        self.values, self.shape = values, (n, H, m)
        #: (λ, η, w) and (z, s, u).
        self.first, self.second = values[:m], values[m : 2 * m]
        self.lam, self.eta, self.rho, self.nu = values[:n], values[n : n + H], values[2 * m], values[2 * m + 1 :]

    def split(self, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the numbers of λ and z, of η and s, and of w and u, given one for each pair, shape (m,)."""
        n, H, _ = self.shape
        return pairs[:n], pairs[n : n + H], pairs[n + H :]

    def moved(self, step: float, direction: Point) -> Point:
        """Return the point at `step` times `direction` from this one."""
        return Point(self.values + step * direction.values, *self.shape)

    def room(self, direction: Point) -> float:
        """Return the longest step along `direction`, at most 1, that keeps ρ and all members of pairs non-negative.

        Members whose product is 0 are ignored.
        """
        m = self.shape[2]
        ratios = direction.values[: 2 * m + 1] / self.values[: 2 * m + 1]
        if self.unpaired is not None:
            # Members may be 0, so that their ratios are not numbers.
            ratios[: 2 * m].reshape(2, m)[:, self.unpaired] = 0.0
        fall = -float(ratios.min())
        # NaN stays NaN.
        return 1.0 if fall <= 1 else 1 / fall

    @cached_property
    def products(self) -> Tensor:
        """λz, ηs and uw, shape (m,)."""
        return self.first * self.second

    @cached_property
    def unpaired(self) -> Tensor | None:
        """Mask (m,) of the products that are 0; None if there are none."""
        # A product of 0 is not a pair: a multiplier without an upper bound has no w.
        return None if self.products.all() else self.products == 0

    def complementarity(self) -> float:
        """Return μ, the mean of all products λz, ηs and uw."""
        return float(self.products.sum()) / self.shape[2]


class Direction(Point):
    """A direction from an iterate, with the longest step along it that stays feasible."""

    #: The longest step along it, as `Point.room` defines it.
    longest: float
    #: The arguments of `NewtonSystem.solution` that it is the result of.
    removes: tuple[tuple[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Program:
    """The problem of this module's docstring: group kernels, upper bounds of λ and constraints.

    `box` (n,) are the upper bounds p of λ in a soft margin, where 0 stands for none; `intercept_column` (n,) is ỹ of a
    free intercept. `margin_rhs` (n,) is the right-hand side of each row: 1, or 0 for linear constraints, whose margin
    need only be non-negative. Their λ are multipliers, without an upper bound; the others sum to 1. A subclass with
    linear constraints defines `margins`.
    """

    kernels: GroupKernels
    box: Tensor | None = None
    intercept_column: Tensor | None = None
    margin_rhs: Tensor | None = None

    @cached_property
    def sum_mask(self) -> Tensor:
        """Numbers (n,): 1 for samples, whose λ sum to 1, and 0 for linear constraints."""
        return self.kernels.ones if self.margin_rhs is None else self.margin_rhs

    @cached_property
    def equalities(self) -> Tensor:
        """E (n, e): the column −`sum_mask` and, with a free intercept, ỹ."""
        columns = [-self.sum_mask] + ([] if self.intercept_column is None else [self.intercept_column])
        return library(columns[0]).stack(columns, 1)

    def normalised(self, lam: Tensor) -> Tensor:
        """Return λ scaled to the sum 1 and, with a free intercept, to ỹᵀλ = 0."""
        lam = lam if self.intercept_column is None else balanced(lam, self.intercept_column)
        return lam / (lam @ self.sum_mask)

    def bounds(self, lam: Tensor, eta: Tensor, q: Tensor, f: Tensor) -> Bounds:
        """Return the dual objective of the best multiple of λ, and the objective of that of W_h = η_h Φ_hᵀ(λ∘y).

        q_h = λᵀK_hλ, and f = K(η)λ + bỹ are the margins of W and b.
        """
        sizes = q**0.5
        reach, box = float(sizes.max()), None if self.box is None else self.samples(self.box)
        scale = 1 / reach if reach > 0 else float("inf")
        if box is not None:
            scale = min(scale, float((box / self.samples(lam)).min()))
        return Bounds(scale * float(lam @ self.sum_mask), upper_bound(float(eta @ sizes), self.margins(f), box)[0])

    def with_intercept(self, f: Tensor, b: Tensor) -> Tensor:
        """Return f + bỹ for f (n,) and an intercept b (1,); f itself for b (0,), without a free intercept."""
        return f if self.intercept_column is None else f + self.intercept_column * b

    def samples(self, values: Tensor) -> Tensor:
        """Return the entries for samples of `values` (n,); the other entries belong to linear constraints."""
        return values if self.margin_rhs is None else values[self.margin_rhs > 0]

    def margins(self, f: Tensor) -> Tensor:
        """Return the margins of the samples at weights whose rows have the values f (n,)."""
        return f

    def start(self) -> Point:
        """Return a start in the interior, away from all bounds, with products λz, ηs and uw of similar size."""
        kernels, box = self.kernels, self.box
        xp, lam = library(kernels.ones), kernels.ones
        if box is not None:
            boxed = box > 0
            middle = box[boxed][xp.argsort(box[boxed])[(int(boxed.sum()) - 1) // 2]]
            lam = xp.where(boxed, xp.minimum(box, middle), middle)
        lam = self.normalised(lam)
        q, P = kernels.sweep(lam)
        rho = (1.1 * q.max() + q.mean() + 1e-12) ** 0.5
        u = lam[:0]
        if box is not None:
            rho = max(rho, 2 * (lam[boxed] / box[boxed]).max())
            u = xp.where(boxed, rho / (2 * kernels.n * (box * rho - lam)), 0 * lam)
        return self.feasible(lam, xp.ones_like(q), q, P, rho, u, xp.zeros_like(self.equalities[0, 1:]))

    def feasible(self, lam: Tensor, eta: Tensor, q: Tensor, P: Tensor, rho: Tensor, u: Tensor, b: Tensor) -> Point:
        """Return the point with these λ, ρ, b and u, and a multiple of η, at which the residuals are 0.

        u is reduced to uᵀp ≤ 0.9 if it is larger; z, s, w and ν follow from the equations. q and P are those of
        `GroupKernels.sweep` at λ; b is (0,), or (1,) with a free intercept. Linear constraints may keep a residual.
        """
        w, taken = lam[:0], 0 * rho
        if self.box is not None:
            u = u * min(0.9 / (u @ self.box), 1.0)
            w, taken = self.box * rho - lam, u @ self.box
        eta = eta * ((1 - taken) / (eta @ (q / rho**2 + 1) / 2))
        f = self.with_intercept(P @ eta / rho, b)
        f = f if self.box is None else f + u
        least = f.min()
        nu = least - 0.1 * abs(f @ lam - least) - 0.01 * abs(f).max() / len(f) - 1e-12
        z = f - nu * self.sum_mask
        if self.margin_rhs is not None:
            # The margin of a homogeneous row may be negative: a residual, until it vanishes.
            z = library(f).maximum(z, 0.1 * abs(f).mean())
        values = library(f).hstack([lam, eta, w, z, (rho - q / rho) / 2, u, rho, nu, b])
        return Point(values, len(lam), len(eta), len(lam) + len(eta) + len(w))

    def residual(self, at: Point, q: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """Return the residuals of the iterate, with q_h = λᵀK_hλ/ρ² and f = K(η)λ/ρ.

        They are left-hand minus right-hand sides of the optimality conditions without complementarity: those of
        f + bỹ + u = z + ν, shape (n,); and those of q_h/(2ρ) + s_h = ρ/2, of ½ Σ_h η_h (q_h/ρ² + 1) + uᵀp = 1 with the
        sign reversed, and of Eᵀλ + e₁ = 0, shape (H + 1 + e,).
        """
        z, s, u = at.split(at.second)
        lam = f - z + self.equalities @ at.nu
        rho = 1 - at.eta @ (q + 1) / 2
        if self.box is not None:
            lam, rho = lam + u, rho - u @ self.box
        rest = library(q).concatenate([(q - 1) * (at.rho / 2) + s, rho[None], self.equalities.T @ at.lam])
        rest[len(q) + 1] += 1
        return lam, rest

    def second_order(self, at: Point, step: Point, q: Tensor, P: Tensor) -> tuple[Tensor, Tensor]:
        """Return the second-order terms of the residual at `at` + `step`.

        q_h = λᵀK_hλ/ρ², and P has the columns K_hλ/ρ.
        """
        q2, P2 = self.kernels.directional(step.lam)
        shrunk = step.rho / at.rho
        cross = P.T @ step.lam / at.rho - q * shrunk
        half = q2 / (2 * at.rho**2) - cross * shrunk - q * (shrunk**2 / 2)
        eta = step.eta - shrunk * at.eta
        lam = P2 @ (eta / at.rho) - P @ (shrunk * eta)
        rho = at.eta @ (shrunk * cross - half) - step.eta @ cross
        return lam, library(q).concatenate([at.rho * half, rho[None], 0 * at.nu])


class NewtonSystem:
    """One factorisation of the linearised optimality conditions, for several right-hand sides.

    Eliminating z, s, u and w leaves, with M = K(η)/ρ + diag(z/λ + u/w), P the columns K_hλ/ρ, f = Pη,
    e_h = ½(q_h/ρ² + 1) and c = f/ρ + up/w, the symmetric system

        MΔλ + PΔη + EΔν − cΔρ = a          PᵀΔλ − diag(s/η)Δη − eΔρ = b
        EᵀΔλ = −(Eᵀλ + e₁)                 −cᵀΔλ − eᵀΔη + (Σ_h η_h q_h/ρ³ + Σ_i u_i p_i²/w_i)Δρ = d

    one factorisation of M, and a bordered system of a few unknowns more than H: η, ν, ρ. A hard margin has no u and w.
    E (n, e) contains the equality constraints: −1 for the sum of λ, and ỹ for a free intercept. The arguments q (H,),
    P (n, H) and f (n,) are λᵀK_hλ, K_hλ and K(η)λ at the iterate `at`. ArithmeticError is raised if μ is not positive,
    or M or the bordered system cannot be factorised.
    """

    def __init__(self, program: Program, at: Point, q: Tensor, P: Tensor, f: Tensor) -> None:
        self.program, self.kernels, self.at, self.mu = program, program.kernels, at, at.complementarity()
        if not self.mu > 0:
            raise ArithmeticError("no complementarity is left")
        self.q, self.P, f, self.partial = q / at.rho**2, P / at.rho, f / at.rho, at.partial and self.kernels.partial
        self.residual = program.residual(at, self.q, f)
        q, P, box, H = self.q, self.P, program.box, len(q)
        diagonal, eta_diagonal, more = at.split(at.second / at.first)
        c, corner = f / at.rho, at.eta @ q / at.rho
        if box is not None:
            diagonal, c, corner = diagonal + more, c + more * box, corner + more @ box**2
        #: Columns and corner of the bordered system, and the arguments of `kernels.factor`.
        self.columns = library(P).concatenate([P, -c[:, None], program.equalities], 1)
        self.corner = filled(P, 2 * (self.columns.shape[1],), 0.0)
        add_to_diagonal_(self.corner[:H, :H], -eta_diagonal)
        self.corner[H, :H] = self.corner[:H, H] = -(q + 1) / 2
        self.corner[H, H] = corner
        self.weights, self.diagonal = at.eta / at.rho, diagonal
        self._prepare()

    def _prepare(self, exact: bool = False) -> None:
        """Set `factor`, that of the bordered system.

        M is factorised in doubles if `exact` or if a cheaper factor fails. If doubles fail as well, M is shifted;
        ArithmeticError is raised if this fails, too.
        """
        for precise, shift in ATTEMPTS[exact:]:
            # Free the memory of an earlier factor.
            vars(self).pop("factor", None)
            diagonal = self.diagonal + shift * self.weights.sum() if shift else self.diagonal
            with suppress(ArithmeticError, np.linalg.LinAlgError):
                factor = self.kernels.factor(self.weights, diagonal, precise, self.at.lam if self.partial else None)
                self.factor = BorderedFactor(factor, self.columns, self.corner)
                return
        raise ArithmeticError("the normal matrix is not positive definite, or the bordered system is singular")

    def direction(self, target: float, guess: Point | None) -> Direction:
        """Return the predictor if `guess` is None, else the corrector: towards products of `target`.

        The corrector includes the second-order terms of `guess`. If it has room for less than half of itself, or
        would increase μ, it is compared with the direction without these terms, and the better one is kept. If that
        one is short, it is compared with the direction with a centrality correction (Gondzio): the products at a point
        beyond the longest step are corrected to at most `spread` times `target`, and at least the inverse share.
        """
        products, settings, share = self.at.products, self.kernels.settings, self.kernels.settings.to_boundary
        if guess is None:
            return self.solution(self.residual, products)
        centred = products - self._paired(target)
        (lam, rest), (more, other) = self.residual, self.program.second_order(self.at, guess, self.q, self.P)
        step = self.solution((lam + more, rest + other), centred + guess.products)
        if step.longest < 0.5 or self.ahead(step, share) > self.mu:
            # Second-order terms of a guess with little room may leave no room, or make the iterates oscillate.
            plain = self.solution(self.residual, centred)
            if self.ahead(step, share) > self.mu:
                step = min(step, plain, key=lambda direction: self.ahead(direction, share))
            else:
                step = max(step, plain, key=lambda direction: direction.longest)
        # With coarse factors, one more solution would take longer than it saves.
        if not step.longest < settings.short_step or self.factor.coarse:
            return step
        moved = self.at.moved(min(1.0, step.longest + settings.beyond), step).products
        least, most = target / settings.spread, target * settings.spread
        change = (moved.clip(least, most) - moved).clip(-most, None)
        residual, products = step.removes
        longer = self.solution(residual, products - self._paired(change))
        farther = longer.longest > step.longest + settings.longer
        return longer if farther and self.ahead(longer, share) < self.ahead(step, share) else step

    def _paired(self, values: Any) -> Any:
        """Return a number for all pairs, or one for each, shape (m,), with 0 for products that are 0."""
        return values if self.at.unpaired is None else values * ~self.at.unpaired

    def ahead(self, guess: Direction, share: float = 1.0) -> float:
        """Return μ of the point that a `share` of the longest step leads to."""
        at, step = self.at, share * guess.longest
        return float((at.first + step * guess.first) @ (at.second + step * guess.second)) / at.shape[2]

    def moved(self, direction: Direction) -> Point | None:
        """Return the iterate after most of the longest step; None if this step is too short or not finite."""
        settings = self.kernels.settings
        length = settings.to_boundary * direction.longest
        if not length > settings.shortest_step or not all_finite(direction.values):
            return None
        reached = self.at.moved(length, direction)
        reached.partial = self.partial
        return reached

    def solution(self, residual: tuple[Tensor, Tensor], products: Tensor) -> Direction:
        """Return the step that, to first order, removes `residual` and subtracts `products` (m,) from λz, ηs and uw.

        It is in double precision. If a partial factor takes too many products, a whole one replaces it, and one in
        doubles a whole one in single precision.
        """
        at, box, H, xp = self.at, self.program.box, len(self.q), library(products)
        z, s, u = at.split(products / at.first)
        a, right = -residual[0] - z, -residual[1]
        right[:H] += s
        if box is not None:
            a += u
            right[H] -= box @ u
        while (solution := self.factor.solve_to(self.kernels.settings, a, right, self.kernels.affordable)) is None:
            partial, self.partial = self.partial, False
            self._prepare(exact=not partial)
        lam, small = solution
        first = xp.concatenate([lam, small[:H]] if box is None else [lam, small[:H], box * small[H] - lam])
        second = at.second * first
        second += products
        second /= -at.first
        direction = Direction(xp.concatenate([first, second, small[H:]]), *at.shape)
        direction.longest, direction.removes = at.room(direction), (residual, products)
        return direction


@dataclass(frozen=True)
class Outcome:
    """Result of the method: the λ of the best lower bound, the weights of the best upper bound, and both bounds.

    `weights` are (λ, η, b): W_h = η_h Φ_hᵀ(λ∘y), and the intercept b, shape (0,) or (1,), in the units of ỹ. `stopped`
    is the limit that ended the method early, `reason` another cause. `path` lists pairs (gap of the iterate, iterate).
    `rough` is True for a screening whose gap is too large for a start of working sets.
    """

    lam: Tensor
    weights: tuple[Tensor, Tensor, Tensor]
    bounds: Bounds = field(default_factory=Bounds)
    iterations: int = 0
    stopped: Status | None = None
    path: list[tuple[float, Point]] = field(default_factory=list)
    reason: str = ""
    rough: bool = False

    def better(self, lam: Tensor, weights: tuple[Tensor, Tensor, Tensor], new: Bounds, iterations: int) -> Outcome:
        """Return a copy with `iterations` and, of λ, weights and `new`, what belongs to a better bound.

        λ belongs to the lower bound, the weights to the upper one.
        """
        return replace(
            self,
            lam=lam if new.lower > self.bounds.lower else self.lam,
            weights=weights if new.upper < self.bounds.upper else self.weights,
            bounds=Bounds(max(self.bounds.lower, new.lower), min(self.bounds.upper, new.upper)),
            iterations=iterations,
        )

    def iterate(self, gap: float) -> Point:
        """Return the last iterate with a gap of at least `gap`, else the first, to start a similar program."""
        far = [point for reached, point in self.path if reached >= gap]
        return far[-1] if far else self.path[0][1]


#: Called with the iteration and the best result; may return a status to stop with.
Watch = Callable[[int, Outcome], Status | None]


def descend(program: Program, tol: float, max_iterations: int, start: Point | None, watch: Watch) -> Outcome:
    """Reduce the relative gap to `tol` from a warm `start`, or from `program.start()`; return the best result.

    `watch(iteration, best)` is called at every iterate and may return a status to stop with. The method also ends if
    a factorisation fails or exceeds the memory, and at a step without progress. If this leaves a gap between `tol` and
    1, a second attempt from `program.start()` centres more.
    """
    descent, settings = MarginDescent(program, tol, max_iterations, start, watch), program.kernels.settings
    try:
        descend_from(descent.start, descent.observe, descent.linearised, settings.least_centring)
        if descent.restart:
            descend_from(program.start(), descent.observe, descent.linearised, settings.least_centring)
        if descent.best.stopped is None and tol < descent.best.bounds.gap < 1:
            descent.history.clear()
            descend_from(program.start(), descent.observe, descent.linearised, settings.restart_centring)
    except TooLargeError as error:
        return replace(descent.best, reason=str(error))
    return descent.best


class MarginDescent:
    """State of `descend` for the loop `descend_from`: the best result so far, and the bounds at every iterate."""

    def __init__(self, program: Program, tol: float, most: int, start: Point | None, watch: Watch) -> None:
        self.program, self.tol, self.most, self.watch = program, tol, most, watch
        self.settings, self.warm, self.restart = program.kernels.settings, start is not None, False
        self.start = start or program.start()
        self.best = Outcome(self.start.lam, (self.start.lam, self.start.eta, self.start.nu[1:]))
        self.history: list[Bounds] = []
        #: Iterations of the separability linear program.
        self.others = 0
        plain, kernels = program.box is None and program.margin_rhs is None, program.kernels
        #: True for a hard margin without linear constraints, of many samples with few features.
        self.few_features = plain and kernels.by_features and kernels.n > self.settings.separability_from

    def observe(self, at: Point) -> bool:
        """Evaluate an iterate and keep the best bounds; return True if the descent ends or must restart.

        It ends if the gap is closed, a limit is reached, the samples are proved inseparable, or nothing improves. A
        warm start with a gap of at least 1 after `warm_iterations` is replaced by a cold start (`restart`).
        """
        program, settings, iteration = self.program, self.settings, len(self.best.path)
        q, P = program.kernels.sweep(at.lam)
        f, b = P @ at.eta, at.rho * at.nu[1:]
        self.swept = q, P, f
        now = program.bounds(at.lam, at.eta, q, program.with_intercept(f, b))
        count = iteration + self.others
        self.best = self.best.better(at.lam, (at.lam, at.eta, b), now, count)
        self.best.path.append((now.gap, at))
        stop = self.watch(count, self.best)
        doubtful = iteration == settings.separability_after < self.most and self.best.bounds.upper == float("inf")
        if doubtful and self.few_features and not stop and self._prove_inseparable():
            return True
        bounds = self.best.bounds
        clear = bounds.gap < 1 or bounds.lower > 1 / settings.nearly_no_margin
        patience = settings.patience if clear else 3 * settings.patience
        unchanged = len(self.history) >= patience and bounds == self.history[-patience]
        stuck = unchanged and now.gap >= self.best.path[-settings.recent][0]
        self.history.append(bounds)
        done = bounds.gap <= self.tol or (program.box is None and bounds.lower >= 1 / settings.no_margin)
        if done or stop or iteration + self.others >= self.most:
            self.best = replace(self.best, stopped=None if done else stop or Status.ITERATION_LIMIT)
            return True
        self.restart = self.warm and iteration == settings.warm_iterations and bounds.gap >= 1
        return self.restart or stuck

    def linearised(self, at: Point) -> NewtonSystem:
        """Return the Newton system of the iterate that was evaluated last."""
        return NewtonSystem(self.program, at, *self.swept)

    def _prove_inseparable(self) -> bool:
        """Solve the separability linear program; keep in `best` the λ of the best lower bound, and a limit if reached.

        Return True at a limit, or if the lower bound is at least 1/`no_margin`: the samples are inseparable.
        """
        kernels, before = self.program.kernels, self.best.iterations
        assert isinstance(kernels, LinearKernels)

        def score(lam: Tensor, iterations: int) -> None:
            lam = self.program.normalised(lam)
            q = float(kernels.sweep(lam)[0].max())
            self.best = self.best.better(lam, self.best.weights, Bounds(q**-0.5 if q > 0 else float("inf")), iterations)

        def ends(step: int, lam: Tensor) -> bool:
            score(lam, before + step)
            limit = Status.ITERATION_LIMIT if self.best.iterations >= self.most else None
            self.best = replace(self.best, stopped=self.watch(self.best.iterations, self.best) or limit)
            return self.best.stopped is not None

        lam = inseparability_proof(kernels, self.program.intercept_column, ends)
        if lam is not None:
            score(lam, self.best.iterations)
        self.others = self.best.iterations - before
        return self.best.stopped is not None or self.best.bounds.lower >= 1 / self.settings.no_margin
