"""A primal-dual interior-point method (Mehrotra) for margin problems over group kernels, hard and soft.

The hard margin is the bounded saddle point min_{λ ∈ Δ} max_{η ∈ Δ} ½ Σ_h η_h λᵀK_hλ over two simplices:

    minimise t   subject to   ½ λᵀK_hλ + s_h = t,   s ≥ 0,   λ ≥ 0,   1ᵀλ = 1,

with multipliers η ≥ 0 of the groups, z ≥ 0 of λ and ν of the sum. The soft margin fixes the scale instead:

    maximise 1ᵀλ   subject to   ½ λᵀK_hλ + s_h = ½,   s ≥ 0,   0 ≤ λ = p − w ≤ p,

with multipliers u ≥ 0 of w: the same conditions with ν = 1 and t = ½ held fixed, and no sums. All sides have interior
points from the start, whether or not the data are separable. At the optimum W_h = η_h Φ_hᵀ(λ∘y).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from implicit_bias.solvers.certificate import best_multiple
from implicit_bias.solvers.conic.kernels import GroupKernels
from implicit_bias.solvers.conic.newton import NewtonSystem, Point
from implicit_bias.solvers.solution import Status

#: Fraction of the way to the boundary that a step takes, and the least centring.
TO_BOUNDARY, LEAST_CENTRING = 0.99, 0.05
#: A largest margin below this (samples have mean square length 1) is taken for none; the judge then asks for a proof.
NO_MARGIN = 1e-9
#: A step shorter than this makes no progress any more.
SHORTEST_STEP = 1e-6


@dataclass(frozen=True)
class Bounds:
    """The optimum lies between `lower`, proved by λ, and `upper`, reached by weights."""

    lower: float = 0.0
    upper: float = float("inf")

    @property
    def gap(self) -> float:
        """Relative difference; infinity without an upper bound."""
        return 1.0 - self.lower / self.upper if self.upper < float("inf") else float("inf")


@dataclass(frozen=True)
class Program:
    """The kernels, and the prices p (n,) of slack that bound λ; None for a hard margin."""

    kernels: GroupKernels
    prices: Tensor | None = None

    def bounds(self, lam: Tensor, eta: Tensor, q: Tensor, f: Tensor) -> Bounds:
        """What λ proves and W_h = η_h Φ_hᵀ(λ∘y) reaches, with q_h = λᵀK_hλ and f = K(η)λ."""
        reach = float(q.max().clamp_min(0).sqrt())
        value = float(eta @ q.clamp_min(0).sqrt())
        scale = 1 / reach if reach > 0 else float("inf")
        if self.prices is None:
            worst = float(f.min())
            return Bounds(scale * float(lam.sum()), value / worst if worst > 0 else float("inf"))
        scale = min(scale, float((self.prices / lam).min()))
        upper = best_multiple(value, f.cpu().numpy(), torch.ones_like(f).cpu().numpy(), self.prices.cpu().numpy())[1]
        return Bounds(scale * float(lam.sum()), upper)

    def start(self) -> Point:
        """A point with room on every side: the centre of both simplices, or near the central path of a soft margin."""
        kernels = self.kernels
        ones = kernels.X.new_ones(kernels.n)
        if self.prices is None:
            lam, eta = ones / kernels.n, kernels.X.new_full((kernels.H,), 1 / kernels.H)
            q, P = kernels.sweep(lam)
            f = P @ eta
            t = 0.55 * q.max() + 0.5 * q.mean() + 1e-12
            nu = f.min() - 0.1 * (f.max() - f.min()) - 0.1 * f.abs().max() / kernels.n - 1e-12
            return Point(lam, f - nu, eta, t - q / 2, ones[:0], ones[:0], nu, t)
        size = kernels.sweep(ones / kernels.n)[0].max().sqrt() * kernels.n
        lam = torch.minimum(self.prices / 2, 0.7 / size)
        s = (1 - kernels.sweep(lam)[0]) / 2
        w, mu = self.prices - lam, lam.mean()
        return Point(lam, mu / lam, mu / s, s, mu / w, w, ones[0], ones[0] / 2)


@dataclass(frozen=True)
class Outcome:
    """The best λ met, the (λ, η) of the best weights, their bounds, all iterates and gaps, and why it stopped early."""

    lam: Tensor
    weights: tuple[Tensor, Tensor]
    bounds: Bounds
    iterations: int
    path: list[tuple[float, Point]]
    stopped: Status | None

    def iterate(self, gap: float) -> Point:
        """The last iterate whose gap was at least `gap`: far enough from the boundary to start a neighbour from."""
        far = [point for found, point in self.path if found >= gap]
        return far[-1] if far else self.path[0][1]


def descend(
    program: Program,
    tol: float,
    max_iterations: int,
    start: Point | None = None,
    watch: Callable[[int, Bounds], Status | None] = lambda iteration, bounds: None,
) -> Outcome:
    """Descend to a relative gap of `tol` between the bounds.

    `watch(iteration, bounds)` is called at every iterate; it may return a status to stop with. The best bounds are kept
    separately, so that the answer never gets worse; a factorisation that fails, a step that shrinks to nothing or an
    interruption ends the descent with the best so far.
    """
    at = start or program.start()
    best = Outcome(at.lam, (at.lam, at.eta), Bounds(), 0, [], None)
    try:
        for iteration in range(max_iterations + 1):
            q, P = program.kernels.sweep(at.lam)
            f = P @ at.eta
            now = program.bounds(at.lam, at.eta, q, f)
            best = _better(best, at, now, iteration)
            best.path.append((now.gap, at))
            stop = watch(iteration, best.bounds)
            done = best.bounds.gap <= tol or (program.prices is None and best.bounds.lower >= 1 / NO_MARGIN)
            if done or stop or iteration == max_iterations:
                return replace(best, stopped=None if done else stop or Status.ITERATION_LIMIT)
            moved = _step(program, at, q, P, f)
            if moved is None:
                return best
            at = moved
    except KeyboardInterrupt:
        return replace(best, stopped=Status.INTERRUPTED)
    raise AssertionError("unreachable")


def _better(best: Outcome, at: Point, new: Bounds, iteration: int) -> Outcome:
    """The best of both sides."""
    return Outcome(
        at.lam if new.lower > best.bounds.lower else best.lam,
        (at.lam, at.eta) if new.upper < best.bounds.upper else best.weights,
        Bounds(max(best.bounds.lower, new.lower), min(best.bounds.upper, new.upper)),
        iteration,
        best.path,
        None,
    )


def _step(program: Program, at: Point, q: Tensor, P: Tensor, f: Tensor) -> Point | None:
    """Mehrotra's predictor and corrector; None if nothing can be gained any more."""
    kernels, mu = program.kernels, at.complementarity()
    if not mu > 0:
        return None
    stationarity, curvature = f - at.z - at.nu, q / 2 + at.s - at.t
    if len(at.u):
        stationarity = stationarity + at.u
    try:
        system = NewtonSystem(kernels, at, P, program.prices is None)
    except ArithmeticError:
        return None
    guess = system.direction(stationarity, curvature, at.products())
    affine = at.moved(at.room(guess), guess).complementarity()
    target = mu * min(1.0, max(LEAST_CENTRING, (affine / mu) ** 3))
    q2, P2 = kernels.directional(guess.lam)
    second = guess.products()
    step = system.direction(
        stationarity + P2 @ guess.eta,
        curvature + q2 / 2,
        {name: product + second[name] - target for name, product in at.products().items()},
    )
    length = TO_BOUNDARY * at.room(step)
    return at.moved(length, step) if length > SHORTEST_STEP and step.finite() else None
