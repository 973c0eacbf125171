"""The linear algebra of an interior-point step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from implicit_bias.solvers.conic.cholesky import cholesky_, cholesky_solve
from implicit_bias.solvers.conic.kernels import GroupKernels

#: The complementary pairs: of the products, each tends to zero.
PAIRS = (("lam", "z"), ("eta", "s"), ("u", "w"))


@dataclass
class Point:
    """The iterate, or a direction: λ, z (n,), η, s (H,), u, w (n,) or empty where nothing bounds λ, ν and t."""

    lam: Tensor
    z: Tensor
    eta: Tensor
    s: Tensor
    u: Tensor
    w: Tensor
    nu: Tensor
    t: Tensor

    def moved(self, step: float, direction: Point) -> Point:
        """This point, `step` along `direction`."""
        ours, theirs = vars(self), vars(direction)
        return Point(**{name: ours[name] + step * theirs[name] for name in ours})

    def room(self, direction: Point) -> float:
        """The longest step, at most 1, that keeps every member of a pair non-negative."""
        values = torch.cat([getattr(self, name) for pair in PAIRS for name in pair])
        changes = torch.cat([getattr(direction, name) for pair in PAIRS for name in pair])
        lengths = torch.where(changes < 0, -values / changes, torch.ones_like(values))
        return min(1.0, float(lengths.min()))

    def products(self) -> dict[str, Tensor]:
        """λz, ηs and uw, by the name of the first factor."""
        return {a: getattr(self, a) * getattr(self, b) for a, b in PAIRS}

    def complementarity(self) -> float:
        """μ: the mean of all products."""
        return float(torch.cat(list(self.products().values())).mean())

    def finite(self) -> bool:
        """Whether no number of a direction is lost."""
        return all(bool(torch.isfinite(value).all()) for value in vars(self).values())


class NewtonSystem:
    """One factorisation of the linearised optimality conditions, for several right-hand sides.

    Eliminating z, s, u and w leaves (K(η) + diag(z/λ + u/w)) Δλ + PΔη − 1Δν = a with P the columns K_hλ: one n×n
    Cholesky factor, and a bordered system of the unknowns η and, where the scale is free, ν and t.
    """

    def __init__(self, kernels: GroupKernels, at: Point, P: Tensor, scale_free: bool) -> None:
        self.at, self.P = at, P
        matrix = kernels.weighted(at.eta)
        matrix.diagonal().add_(at.z / at.lam)
        if len(at.u):
            matrix.diagonal().add_(at.u / at.w)
        if not cholesky_(matrix):
            raise ArithmeticError("the normal matrix is no longer positive definite")
        self.factor = matrix
        solved = cholesky_solve(matrix, torch.hstack([P, torch.ones_like(P[:, :1])]))
        self.MP, self.M1 = solved[:, :-1], solved[:, -1]
        H = P.shape[1]
        border = P.new_zeros(H + 2, H + 2)
        border[:H, :H] = -(P.T @ self.MP) - torch.diag(at.s / at.eta)
        border[:H, H] = P.T @ self.M1
        border[:H, H + 1] = -1.0
        border[H, :H] = -(self.M1 @ P)
        border[H, H] = self.M1.sum()
        border[H + 1, :H] = 1.0
        self.size = H + 2 if scale_free else H
        *self.border, singular = torch.linalg.lu_factor_ex(border[: self.size, : self.size])
        if singular:
            raise ArithmeticError("the bordered system is singular")

    def direction(self, stationarity: Tensor, curvature: Tensor, products: dict[str, Tensor]) -> Point:
        """The step that removes the residuals of f − z + u − ν, ½q + s − t, the sums of λ and η, and the products."""
        at, H = self.at, len(curvature)
        a = -stationarity - products["lam"] / at.lam
        if len(at.u):
            a = a + products["u"] / at.w
        Ma = cholesky_solve(self.factor, a[:, None])[:, 0]
        right = torch.hstack(
            [products["eta"] / at.eta - curvature - self.P.T @ Ma, 1 - at.lam.sum() - Ma.sum(), 1 - at.eta.sum()]
        )
        small = right.new_zeros(H + 2)
        small[: self.size] = torch.linalg.lu_solve(*self.border, right[: self.size, None])[:, 0]
        eta, nu, t = small[:H], small[H], small[H + 1]
        lam = Ma - self.MP @ eta + self.M1 * nu
        z = -(products["lam"] + at.z * lam) / at.lam
        s = -(products["eta"] + at.s * eta) / at.eta
        w = -lam if len(at.u) else at.w
        u = -(products["u"] + at.u * w) / at.w
        return Point(lam, z, eta, s, u, w, nu, t)
