"""A primal-dual interior-point method (Mehrotra) for margin problems over group kernels, hard and soft.

The dual's best multiple of a direction λ in the simplex is 1/ρ, ρ the least number with √q_h ≤ ρ for q_h = λᵀK_hλ of
every group and, where slack has prices p, λ ≤ pρ:

    minimise ρ   subject to   q_h/(2ρ) + s_h = ρ/2,   λ + w = pρ,   1ᵀλ = 1,   λ, s, w ≥ 0,

with multipliers η of the groups, z of λ, u of w and ν of the sum. It is convex and bounded, has interior points from
the start whether or not the data are separable, and no scale. A free intercept adds ỹᵀλ = 0, ỹ_i = y_i/m_i up to scale;
its multiplier is the intercept. We write both constraints Eᵀλ + e₁ = 0 with E = [−1, ỹ] and multipliers (ν, b). The
optimality conditions, with f = K(η)λ/ρ:

    f + bỹ + u = z + ν,   ½ Σ_h η_h (q_h/ρ² + 1) + uᵀp = 1,   λz = 0,   ηs = 0,   uw = 0.

The hard margin, without w and u, is the saddle point min_{λ ∈ Δ} max_{η ∈ Δ} ½ Σ_h η_h λᵀK_hλ over two simplices.
At the optimum W_h is a multiple of η_h Φ_hᵀ(λ∘y).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from implicit_bias._utils.memory import TooLargeError
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.native.arrays import Tensor, all_finite, as_numpy, library
from implicit_bias.solvers.native.balance import balance
from implicit_bias.solvers.native.kernels import GroupKernels, LinearKernels
from implicit_bias.solvers.native.newton import NewtonSystem, Point, Residual

#: Fraction of the way to the boundary that a step takes, and the least centring.
TO_BOUNDARY, LEAST_CENTRING = 0.99, 0.05
#: A largest margin below this (samples have mean square length 1) counts as none; a proof is then sought.
NO_MARGIN = 1e-9
#: Steps without weights that separate, after which it is settled whether any do, of so many samples with few features.
DOUBTFUL, SETTLED_FROM = 8, 1000
#: How far below 0, as a share of the largest, a margin may be of which none is asked.
ALLOWED = 1e-20
#: Progress has ended with a step shorter than this, or after this many steps that leave the bounds where they are,
#: of which the last few brought the iterate's own no nearer; three times as many while no weights separate, unless
#: largest margins are below NEARLY_NONE, where a proof that nothing separates is near.
SHORTEST_STEP, PATIENCE, LAST, NEARLY_NONE = 1e-6, 15, 5, 1e-6
#: Steps after which a given start that has not led to weights is given up for our own.
WARM_STEPS = 6


@dataclass(frozen=True)
class Bounds:
    """The optimum lies between `lower`, proved by λ, and `upper`, reached by weights."""

    lower: float = 0.0
    upper: float = float("inf")

    @property
    def gap(self) -> float:
        """Relative difference; infinity without an upper bound."""
        if self.upper == 0:
            return 0.0
        return 1.0 - self.lower / self.upper if self.upper < float("inf") else float("inf")


def upper_bound(value: float, margins: Tensor, prices: Tensor | None) -> tuple[float, float]:
    """The objective of the best multiple t ≥ 0 of weights with ‖W‖ = `value`, and the margin 1/t it asks of a sample.

    Hard margins f_i leave no choice. Else t‖W‖ + Σ_i p_i (1 − t f_i)₊ is least: beyond t = 1/f_i a sample with f_i > 0
    pays no more. Of these t the last is taken up to which the objective falls: ‖W‖ < Σ p_i f_i over the samples that
    still pay.
    """
    if prices is None:
        worst = float(margins.min())
        return (value / worst if worst > 0 else float("inf")), worst
    f, p = as_numpy(margins), as_numpy(prices)
    if not all_finite(f):
        return float("inf"), float("inf")
    pays = f > 0
    with np.errstate(over="ignore"):
        ends = 1.0 / f[pays]
    order = np.argsort(ends)
    # Summed from the last to end, so that large prices cost no digits.
    later = np.append(np.cumsum((p[pays] * f[pays])[order][::-1])[::-1], 0.0)
    falls = value - p[~pays] @ f[~pays] - later < 0
    count = len(falls) if falls.all() else int(np.argmin(falls))
    t = float(ends[order[count - 1]]) if 0 < count < len(falls) else 0.0
    if t == float("inf"):
        return t, 0.0
    return t * value + float(p @ np.maximum(1.0 - t * f, 0.0)), 1 / t if t > 0 else float("inf")


def balanced(lam: Tensor, tilt: Tensor) -> Tensor:
    """λ with ỹᵀλ = 0: that of the heavier class scaled down."""
    xp = library(lam)
    sides = [lam @ xp.clip(tilt, 0, None), -lam @ xp.clip(tilt, None, 0)]
    least = min(sides)
    return lam * xp.where(tilt > 0, least / sides[0], least / sides[1])


@dataclass(frozen=True)
class Program:
    """The kernels, the prices p (n,) of slack that bound λ, None for a hard margin, and ỹ (n,) of a free intercept.

    `no_margin`: a largest hard margin below this counts as none. `asked` (n,): 1, and 0 for rows whose margin need only
    not be negative, as linear constraints have; their λ are multipliers, without a price (0), and the sum of the others
    is 1. `free` (n,): which of these have a margin of 0, and a multiplier of any sign.
    """

    kernels: GroupKernels
    prices: Tensor | None = None
    tilt: Tensor | None = None
    no_margin: float = NO_MARGIN
    asked: Tensor | None = None
    free: Tensor | None = None

    @cached_property
    def counts(self) -> Tensor:
        """Whose λ sum to 1: `asked`, or everybody's."""
        return self.kernels.ones if self.asked is None else self.asked

    @cached_property
    def equalities(self) -> Tensor:
        """E, shape (n, 1), or (n, 2) with a free intercept."""
        columns = [-self.counts] + ([] if self.tilt is None else [self.tilt])
        return library(columns[0]).stack(columns, 1)

    def balanced(self, lam: Tensor) -> Tensor:
        """λ with sum 1 and ỹᵀλ = 0."""
        lam = lam if self.tilt is None else balanced(lam, self.tilt)
        return lam / (lam @ self.counts)

    def bounds(self, lam: Tensor, eta: Tensor, q: Tensor, f: Tensor) -> Bounds:
        """What λ proves and W_h = η_h Φ_hᵀ(λ∘y) reaches, with q_h = λᵀK_hλ and margins f = K(η)λ + bỹ."""
        sizes = library(q).clip(q, 0, None) ** 0.5
        reach, value = float(sizes.max()), float(eta @ sizes)
        scale = 1 / reach if reach > 0 else float("inf")
        prices = self.prices
        total, kept = float(lam @ self.counts), True
        if self.asked is not None:
            rows, least = self.asked > 0, -ALLOWED * abs(f).max()
            kept = f[~rows].min() >= least and (f[self.free] <= -least).all()
            lam, f, prices = lam[rows], f[rows], None if prices is None else prices[rows]
        if prices is not None:
            scale = min(scale, float((prices / lam).min()))
        return Bounds(scale * total, upper_bound(value, f, prices)[0] if kept else float("inf"))

    @property
    def settles(self) -> bool:
        """Whether steps over the features may settle if anything separates many samples with few, by hard margins."""
        plain = self.prices is None and self.asked is None and self.kernels.ones.dtype != object
        return plain and self.kernels.short and self.kernels.n > SETTLED_FROM

    def start(self) -> Point:
        """An iterate with room on every side and balanced products."""
        kernels, prices = self.kernels, self.prices
        xp, lam = library(kernels.ones), kernels.ones
        if prices is not None:
            priced = prices > 0
            middle = prices[priced][xp.argsort(prices[priced])[(int(priced.sum()) - 1) // 2]]
            lam = xp.where(priced, xp.minimum(prices, middle), middle)
        lam = self.balanced(lam)
        q, P = kernels.sweep(lam)
        rho = (1.1 * q.max() + q.mean() + 1e-12) ** 0.5
        u = lam[:0]
        if prices is not None:
            rho = max(rho, 2 * (lam[priced] / prices[priced]).max())
            u = xp.where(priced, rho / (2 * kernels.n * (prices * rho - lam)), 0 * lam)
        return self.feasible(lam, xp.ones_like(q), q, P, rho, u, xp.zeros_like(self.equalities[0, 1:]))

    def feasible(self, lam: Tensor, eta: Tensor, q: Tensor, P: Tensor, rho: Tensor, u: Tensor, b: Tensor) -> Point:
        """The iterate of λ, ρ and multiples of (η, b) and u, without residual; ν keeps z off zero. b (0 or 1,)."""
        w, taken = lam[:0], 0 * rho
        if self.prices is not None:
            u = u * min(0.9 / (u @ self.prices), 1.0)
            w, taken = self.prices * rho - lam, u @ self.prices
        multiple = (1 - taken) / (eta @ (q / rho**2 + 1) / 2)
        eta, b = multiple * eta, multiple * b
        f = P @ eta / rho + self.equalities[:, 1:] @ b
        f = f if self.prices is None else f + u
        least = f.min()
        nu = least - 0.1 * abs(f @ lam - least) - 0.01 * abs(f).max() / len(f) - 1e-12
        z = f - nu * self.counts
        if self.asked is not None:
            # Rows that ask for no margin may have a negative one: a residual, until it is gone.
            z = library(f).where(self.free, 0 * z, library(f).maximum(z, 0.1 * abs(f).mean()))
        return Point(lam, z, eta, (rho - q / rho) / 2, u, w, library(f).hstack([nu, b]), rho)

    def residual(self, at: Point, q: Tensor, f: Tensor) -> Residual:
        """What the iterate misses, with f = K(η)λ/ρ."""
        lam = f - at.z + self.equalities @ at.nu
        rho = 1 - at.eta @ (q / at.rho**2 + 1) / 2
        if self.prices is not None:
            lam, rho = lam + at.u, rho - at.u @ self.prices
        missing = self.equalities.T @ at.lam
        missing[0] += 1
        return Residual(lam, (q / at.rho - at.rho) / 2 + at.s, missing, rho)

    def bend(self, at: Point, step: Point, q: Tensor, P: Tensor) -> Residual:
        """The second-order part of how the residual changes along a step, with P the columns K_hλ/ρ."""
        q2, P2 = self.kernels.directional(step.lam)
        q, q2, P2, shrunk = q / at.rho**2, q2 / at.rho**2, P2 / at.rho, step.rho / at.rho
        cross = P.T @ step.lam / at.rho
        curl = q2 - 2 * cross * shrunk + q * shrunk**2
        return Residual(
            (P2 - shrunk * P) @ step.eta - shrunk * ((P2 - shrunk * P) @ at.eta),
            at.rho * curl / 2,
            0 * at.nu,
            -step.eta @ (cross - q * shrunk) - at.eta @ (q2 - 4 * cross * shrunk + 3 * q * shrunk**2) / 2,
        )


@dataclass(frozen=True)
class Outcome:
    """The best λ met, the best weights, their bounds, all iterates and gaps, and why it stopped early, or gave up.

    Weights are given by (λ, η, b): W_h = η_h Φ_hᵀ(λ∘y), and the intercept b (0 or 1,) in the units of ỹ.
    """

    lam: Tensor
    weights: tuple[Tensor, Tensor, Tensor]
    bounds: Bounds = Bounds()
    iterations: int = 0
    stopped: Status | None = None
    path: list[tuple[float, Point]] = field(default_factory=list)
    reason: str = ""

    def better(self, lam: Tensor, weights: tuple[Tensor, Tensor, Tensor], new: Bounds, iterations: int) -> Outcome:
        """The best of both sides, after so many iterations."""
        return replace(
            self,
            lam=lam if new.lower > self.bounds.lower else self.lam,
            weights=weights if new.upper < self.bounds.upper else self.weights,
            bounds=Bounds(max(self.bounds.lower, new.lower), min(self.bounds.upper, new.upper)),
            iterations=iterations,
        )

    def iterate(self, gap: float) -> Point:
        """The last iterate whose gap was at least `gap`: far enough from the boundary to start a neighbour from."""
        far = [point for found, point in self.path if found >= gap]
        return far[-1] if far else self.path[0][1]


Watch = Callable[[int, Bounds], Status | None]


def descend(program: Program, tol: float, max_iterations: int, start: Point | None, watch: Watch) -> Outcome:
    """Descend to a relative gap of `tol` between the bounds.

    `watch(iteration, bounds)` is called at every iterate; it may return a status to stop with. Best bounds are kept, so
    that answers never get worse; a factorisation that fails or does not fit, a step to nowhere, and Ctrl-C end there.
    """
    at = start or program.start()
    bounds: list[Bounds] = []
    more = 0
    best = Outcome(at.lam, (at.lam, at.eta, at.nu[1:]))
    try:
        for iteration in range(max_iterations + 1):
            q, P = program.kernels.sweep(at.lam)
            f, b = P @ at.eta, at.rho * at.nu[1:]
            now = program.bounds(at.lam, at.eta, q, f + program.equalities[:, 1:] @ b)
            best = best.better(at.lam, (at.lam, at.eta, b), now, iteration + more)
            best.path.append((now.gap, at))
            stop = watch(iteration + more, best.bounds)
            doubtful = iteration == DOUBTFUL < max_iterations and best.bounds.upper == float("inf")
            if doubtful and program.settles and not stop:
                best, ended = _balanced(program, best, max_iterations, watch)
                if ended:
                    return best
                more = best.iterations - iteration
            clear = best.bounds.gap < 1 or best.bounds.lower > 1 / NEARLY_NONE
            patience = PATIENCE if clear else 3 * PATIENCE
            stuck = len(bounds) >= patience and best.bounds == bounds[-patience] and now.gap >= best.path[-LAST][0]
            bounds.append(best.bounds)
            done = best.bounds.gap <= tol or (program.prices is None and best.bounds.lower >= 1 / program.no_margin)
            if done or stop or iteration + more >= max_iterations:
                return replace(best, stopped=None if done else stop or Status.ITERATION_LIMIT)
            astray = start is not None and iteration == WARM_STEPS and best.bounds.gap >= 1
            try:
                moved = program.start() if astray else None if stuck else _step(program, at, q, P, f)
            except ArithmeticError:
                return best
            if moved is None:
                return best
            at = moved
    except KeyboardInterrupt:
        return replace(best, stopped=Status.INTERRUPTED)
    except TooLargeError as error:
        return replace(best, reason=str(error))
    raise AssertionError("unreachable")


def _balanced(program: Program, best: Outcome, most: int, watch: Watch) -> tuple[Outcome, bool]:
    """What is known once it is settled whether anything separates the samples, and whether that is the end."""
    kernels, before, found = program.kernels, best.iterations, best
    assert isinstance(kernels, LinearKernels)

    def scored(lam: Tensor, iterations: int) -> Outcome:
        """With the bound that λ proves, if that is better."""
        lam = program.balanced(lam)
        q = float(kernels.sweep(lam)[0].max())
        return found.better(lam, found.weights, Bounds(q**-0.5 if q > 0 else float("inf")), iterations)

    def ends(step: int, lam: Tensor) -> bool:
        """Whether a limit is reached; what λ proves is kept."""
        nonlocal found
        found = scored(lam, before + step)
        stop = watch(found.iterations, found.bounds)
        found = replace(found, stopped=stop or (Status.ITERATION_LIMIT if found.iterations >= most else None))
        return found.stopped is not None

    try:
        lam = balance(kernels, program.tilt, ends)
    except KeyboardInterrupt:
        return replace(found, stopped=Status.INTERRUPTED), True
    found = found if lam is None else scored(lam, found.iterations)
    return found, found.stopped is not None or found.bounds.lower >= 1 / program.no_margin


def _step(program: Program, at: Point, q: Tensor, P: Tensor, f: Tensor) -> Point | None:
    """Mehrotra's predictor and corrector; None, or ArithmeticError, if nothing can be gained any more."""
    mu = at.complementarity()
    if not mu > 0:
        return None
    P, f = P / at.rho, f / at.rho
    missing = program.residual(at, q, f)
    system = NewtonSystem(program.kernels, program.equalities, at, q, P, program.prices)
    guess = system.direction(missing, at.products())
    affine = at.moved(at.room(guess), guess).complementarity()
    target = mu * min(1.0, max(LEAST_CENTRING, (affine / mu) ** 3))
    second, bend = guess.products(), program.bend(at, guess, q, P)
    step = system.direction(
        Residual(**{name: value + vars(bend)[name] for name, value in vars(missing).items()}),
        {name: product + second[name] - target * (product != 0) for name, product in at.products().items()},
    )

    def left(direction: Point) -> float:
        return at.moved(TO_BOUNDARY * at.room(direction), direction).complementarity()

    if at.room(step) < 0.5 or left(step) > mu:
        # Second-order terms of a guess for which there is little room may leave none, or lead there and back for ever.
        centred = {name: product - target * (product != 0) for name, product in at.products().items()}
        plain = system.direction(missing, centred)
        step = min(step, plain, key=left) if left(step) > mu else max(step, plain, key=at.room)
    length = TO_BOUNDARY * at.room(step)
    return at.moved(length, step) if length > SHORTEST_STEP and step.finite() else None
