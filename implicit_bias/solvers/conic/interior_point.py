"""A primal-dual interior-point method (Mehrotra) for the largest margin of unit-norm weights.

    min_{λ ∈ Δ} max_{η ∈ Δ} ½ Σ_h η_h λᵀK_hλ,   Δ the simplex

is written as: minimise t subject to ½ λᵀK_hλ + s_h = t, s ≥ 0, λ ≥ 0, 1ᵀλ = 1, with multipliers η ≥ 0 of the groups,
z ≥ 0 of λ and ν of the sum. Both sides have interior points from the start, whether or not the data are separable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from implicit_bias.solvers.conic.kernels import GroupKernels

#: Fraction of the way to the boundary that a step takes, and the least centring.
TO_BOUNDARY, LEAST_CENTRING = 0.99, 0.05
#: A largest margin below this (inputs have mean square length 1) is taken for none; the judge then asks for a proof.
NO_MARGIN = 1e-9
#: A step shorter than this makes no progress any more.
SHORTEST_STEP = 1e-6


@dataclass
class Point:
    """The iterate, or a direction: λ (n,), z (n,), η (H,), s (H,), ν and t."""

    lam: Tensor
    z: Tensor
    eta: Tensor
    s: Tensor
    nu: Tensor
    t: Tensor

    def moved(self, step: float, direction: Point) -> Point:
        """This point, `step` along `direction`."""
        ours, theirs = vars(self), vars(direction)
        return Point(**{name: ours[name] + step * theirs[name] for name in ours})

    def room(self, direction: Point) -> float:
        """The longest step, at most 1, that keeps λ, z, η and s non-negative."""
        length = 1.0
        for name in ("lam", "z", "eta", "s"):
            value, change = getattr(self, name), getattr(direction, name)
            falls = change < 0
            if falls.any():
                length = min(length, float((-value[falls] / change[falls]).min()))
        return length

    def complementarity(self) -> float:
        """μ: the mean of λ_i z_i and η_h s_h."""
        return float(self.lam @ self.z + self.eta @ self.s) / (len(self.z) + len(self.s))


@dataclass(frozen=True)
class Bounds:
    """The largest margin lies between `lower`, reached by weights, and `upper`, proved by λ."""

    lower: float = 0.0
    upper: float = float("inf")

    @property
    def gap(self) -> float:
        """Relative difference."""
        return 1.0 - self.lower / self.upper if self.upper > 0 else 0.0


@dataclass(frozen=True)
class Outcome:
    """The best λ (n,) and weights (k, d) met, their bounds, and how it ended."""

    lam: Tensor
    weights: Tensor
    bounds: Bounds
    iterations: int
    limit_reached: bool


class NewtonSystem:
    """One factorisation of the linearised optimality conditions, for several right-hand sides.

    Eliminating z and s leaves (K(η) + diag(z/λ)) Δλ + PΔη − 1Δν = a with P the columns K_hλ: one n×n Cholesky
    factor, and a bordered system of H + 2 unknowns (η, ν, t).
    """

    def __init__(self, kernels: GroupKernels, at: Point, P: Tensor) -> None:
        self.at, self.P = at, P
        matrix = kernels.weighted(at.eta)
        matrix.diagonal().add_(at.z / at.lam)
        self.factor, failed = torch.linalg.cholesky_ex(matrix)
        if failed:
            raise ArithmeticError("the normal matrix is no longer positive definite")
        solved = torch.cholesky_solve(torch.hstack([P, torch.ones_like(P[:, :1])]), self.factor)
        self.MP, self.M1 = solved[:, :-1], solved[:, -1]
        H = P.shape[1]
        border = P.new_zeros(H + 2, H + 2)
        border[:H, :H] = -(P.T @ self.MP) - torch.diag(at.s / at.eta)
        border[:H, H] = P.T @ self.M1
        border[:H, H + 1] = -1.0
        border[H, :H] = -(self.M1 @ P)
        border[H, H] = self.M1.sum()
        border[H + 1, :H] = 1.0
        *self.border, singular = torch.linalg.lu_factor_ex(border)
        if singular:
            raise ArithmeticError("the bordered system is singular")

    def direction(self, stationarity: Tensor, curvature: Tensor, lam_z: Tensor, eta_s: Tensor) -> Point:
        """The step that removes the residuals of K(η)λ − z − ν1, ½q + s − t, the two sums, λz and ηs."""
        at, H = self.at, len(curvature)
        a = -stationarity - lam_z / at.lam
        Ma = torch.cholesky_solve(a[:, None], self.factor)[:, 0]
        right = torch.hstack(
            [eta_s / at.eta - curvature - self.P.T @ Ma, 1 - at.lam.sum() - Ma.sum(), 1 - at.eta.sum()]
        )
        small = torch.linalg.lu_solve(*self.border, right[:, None])[:, 0]
        eta, nu, t = small[:H], small[H], small[H + 1]
        lam = Ma - self.MP @ eta + self.M1 * nu
        return Point(lam, -(lam_z + at.z * lam) / at.lam, eta, -(eta_s + at.s * eta) / at.eta, nu, t)


def start(kernels: GroupKernels) -> Point:
    """The centre of both simplices, with slack on every constraint."""
    lam = kernels.X.new_full((kernels.n,), 1 / kernels.n)
    eta = kernels.X.new_full((kernels.H,), 1 / kernels.H)
    _, q, P = kernels.sweep(lam)
    f = P @ eta
    t = 0.55 * q.max() + 0.5 * q.mean() + 1e-12
    nu = f.min() - 0.1 * (f.max() - f.min()) - 0.1 * f.abs().max() / kernels.n - 1e-12
    return Point(lam, f - nu, eta, t - q / 2, nu, t)


def largest_margin(
    kernels: GroupKernels,
    tol: float,
    max_iterations: int,
    watch: Callable[[int, Bounds, float], None] | None = None,
) -> Outcome:
    """Descend to a relative gap of `tol` between the bounds on the margin of unit-norm weights.

    `watch(iteration, bounds, μ)` is called at every iterate. Best bounds are kept separately, so that the answer never
    gets worse; a factorisation that fails or a step that shrinks to nothing ends the descent with the best so far.
    """
    at = start(kernels)
    bounds = Bounds()
    best_lam, best_weights = at.lam, torch.zeros(kernels.G.shape[1], kernels.X.shape[1], dtype=at.lam.dtype)
    for iteration in range(max_iterations + 1):
        V, q, P = kernels.sweep(at.lam)
        f = P @ at.eta
        upper = float(q.max().sqrt() / at.lam.sum())
        lower = float(f.min() / (at.eta @ q.sqrt()))
        if upper < bounds.upper:
            bounds, best_lam = Bounds(bounds.lower, upper), at.lam
        if lower > bounds.lower:
            bounds, best_weights = Bounds(lower, bounds.upper), at.eta[kernels.index, None] * V
        mu = at.complementarity()
        if watch is not None:
            watch(iteration, bounds, mu)
        done = bounds.gap <= tol or bounds.upper <= NO_MARGIN
        if done or iteration == max_iterations:
            return Outcome(best_lam, best_weights, bounds, iteration, not done)
        moved = _step(kernels, at, q, P, f, mu)
        if moved is None:
            return Outcome(best_lam, best_weights, bounds, iteration, False)
        at = moved
    raise AssertionError("unreachable")


def _step(kernels: GroupKernels, at: Point, q: Tensor, P: Tensor, f: Tensor, mu: float) -> Point | None:
    """Mehrotra's predictor and corrector; None if nothing can be gained any more."""
    if not mu > 0:
        return None
    stationarity, curvature = f - at.z - at.nu, q / 2 + at.s - at.t
    try:
        system = NewtonSystem(kernels, at, P)
    except ArithmeticError:
        return None
    guess = system.direction(stationarity, curvature, at.lam * at.z, at.eta * at.s)
    affine = at.moved(at.room(guess), guess).complementarity()
    target = mu * min(1.0, max(LEAST_CENTRING, (affine / mu) ** 3))
    _, q2, P2 = kernels.sweep(guess.lam)
    step = system.direction(
        stationarity + P2 @ guess.eta,
        curvature + q2 / 2,
        at.lam * at.z + guess.lam * guess.z - target,
        at.eta * at.s + guess.eta * guess.s - target,
    )
    length = TO_BOUNDARY * at.room(step)
    finite = bool(torch.isfinite(step.lam).all() and torch.isfinite(step.eta).all())
    return at.moved(length, step) if finite and length > SHORTEST_STEP else None
