"""The linear algebra of an interior-point step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from implicit_bias._utils.scaling import TINY
from implicit_bias.solvers.native.arrays import Tensor, add_to_diagonal_, all_finite, library, lu_factor, lu_solve
from implicit_bias.solvers.native.factors import LowRankFactor, PartialFactor, Product
from implicit_bias.solvers.native.kernels import GroupKernels

#: The complementary pairs: of the products, each tends to zero.
PAIRS = (("lam", "z"), ("eta", "s"), ("u", "w"))
#: Refinements of a solution, and what it may miss of the rows of λ, as a share, before each; below the last it is fine.
STEPS, ASTRAY, FINE = 2, 1e-2, 1e-11
#: What conjugate gradients leave of a right-hand side, in the norm of the factor's inverse.
ENOUGH = 1e-3
#: What joins the diagonal of M, as a share of Σ_h η_h/ρ, where rounding leaves M not positive definite.
SHIFT = 1e-14


@dataclass
class Point:
    """The iterate, or a direction: λ, z (n,), η, s (H,), u, w (n,) or empty where nothing bounds λ, ν (e,) and ρ."""

    lam: Tensor
    z: Tensor
    eta: Tensor
    s: Tensor
    u: Tensor
    w: Tensor
    nu: Tensor
    rho: Tensor

    def moved(self, step: float, direction: Point) -> Point:
        """This point, `step` along `direction`."""
        ours, theirs = vars(self), vars(direction)
        return Point(**{name: ours[name] + step * theirs[name] for name in ours})

    def room(self, direction: Point) -> float:
        """The longest step, at most 1, that keeps ρ and every member of a pair non-negative."""
        xp = library(self.lam)
        names = [name for pair in PAIRS for name in pair]
        value, change = (xp.hstack([getattr(point, name) for name in names]) for point in (self, direction))
        # What is 0 has no partner: an equality has no slack, and what has no price no bound.
        partnered = xp.hstack([product for product in self.products().values() for _ in range(2)]) != 0
        falls = xp.where(partnered, -change / value, 0 * change).max()
        return float(1 / max(falls, -direction.rho / self.rho, 1.0))

    def products(self) -> dict[str, Tensor]:
        """λz, ηs and uw, by the name of the first factor."""
        return {a: getattr(self, a) * getattr(self, b) for a, b in PAIRS}

    def complementarity(self) -> float:
        """μ: the mean of all products."""
        return float(library(self.lam).hstack(list(self.products().values())).mean())

    def finite(self) -> bool:
        """Whether no number of a direction is lost."""
        return all(all_finite(value) for value in vars(self).values())


@dataclass(frozen=True)
class Residual:
    """What the optimality conditions miss: rows λ (n,), η (H,), ν (e,) and ρ."""

    lam: Tensor
    eta: Tensor
    nu: Tensor
    rho: Tensor


class NewtonSystem:
    """One factorisation of the linearised optimality conditions, for several right-hand sides.

    Eliminating z, s, u and w leaves, with M = K(η)/ρ + diag(z/λ + u/w), P the columns K_hλ/ρ, f = Pη,
    e_h = ½(q_h/ρ² + 1) and c = f/ρ + up/w, the symmetric system

        MΔλ + PΔη + EΔν − cΔρ = a          PᵀΔλ − diag(s/η)Δη − eΔρ = b
        EᵀΔλ = −(Eᵀλ + e₁)                 −cᵀΔλ − eᵀΔη + (Σ_h η_h q_h/ρ³ + Σ_i u_i p_i²/w_i)Δρ = d

    one factorisation of M, and a bordered system of a few unknowns more than H: η, ν, ρ. A hard margin has no u and w.
    E (n, e) holds the equality constraints: −1 for the sum of λ, and ỹ for a free intercept.
    """

    def __init__(
        self, kernels: GroupKernels, E: Tensor, at: Point, q: Tensor, P: Tensor, prices: Tensor | None
    ) -> None:
        self.at, self.prices = at, prices
        H, f = P.shape[1], P @ at.eta
        diagonal = at.z / at.lam
        c, corner = f / at.rho, at.eta @ q / at.rho**3
        if prices is not None:
            diagonal = diagonal + at.u / at.w
            c, corner = c + at.u * prices / at.w, corner + at.u @ (prices**2 / at.w)
        xp = library(P)
        self.columns = xp.hstack([P, E, -c[:, None]])
        self.corner = xp.zeros_like(self.columns.T @ self.columns)
        add_to_diagonal_(self.corner[:H, :H], -at.s / at.eta)
        self.corner[:H, -1] -= (q / at.rho**2 + 1) / 2
        self.corner[-1, :H] -= (q / at.rho**2 + 1) / 2
        self.corner[-1, -1] += corner
        weights = at.eta / at.rho
        self.kernels = kernels
        self.factorise = partial(kernels.factor, weights, first=f / (at.eta @ q / at.rho + TINY) ** 0.5)
        self.diagonals = diagonal, diagonal + SHIFT * weights.sum()
        self._prepare_quickly()

    def _prepare_quickly(self) -> None:
        """As the kernels like best, in doubles where that breaks down."""
        try:
            self._prepare(exact=False)
        except ArithmeticError:
            self._prepare_exactly()

    def _prepare_exactly(self) -> None:
        """In doubles, and with a shifted M where these do not suffice."""
        try:
            self._prepare(exact=True)
        except ArithmeticError:
            self._prepare(exact=True, shifted=True)

    def _prepare(self, exact: bool, shifted: bool = False) -> None:
        """Factorise M and what the elimination of Δλ leaves."""
        # An earlier factor makes room.
        vars(self).pop("factor", None)
        self.factor = self.factorise(self.diagonals[shifted], exact)
        self.solved = self.factor.solve(self.columns)
        self.border = lu_factor(self.corner - self.columns.T @ self.solved)
        if self.border is None:
            raise ArithmeticError("the bordered system is singular")

    def direction(self, residual: Residual, products: dict[str, Tensor]) -> Point:
        """The step that removes the residuals and the products λz, ηs and uw."""
        at, prices, H = self.at, self.prices, len(residual.eta)
        a, d = -residual.lam - products["lam"] / at.lam, -residual.rho
        if prices is not None:
            a, d = a + products["u"] / at.w, d - prices @ (products["u"] / at.w)
        b = products["eta"] / at.eta - residual.eta
        lam, small = self._refined(a, library(a).hstack([b, -residual.nu, d]))
        eta, nu, rho = small[:H], small[H:-1], small[-1]
        z = -(products["lam"] + at.z * lam) / at.lam
        s = -(products["eta"] + at.s * eta) / at.eta
        w = at.w if prices is None else prices * rho - lam
        u = -(products["u"] + at.u * w) / at.w
        return Point(lam, z, eta, s, u, w, nu, rho)

    def _solution(self, a: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Δλ and the other unknowns for the right-hand sides of both rows, as exactly as the factor is."""
        Ma = self.factor.solve(a[:, None])[:, 0]
        small = lu_solve(self.border, right - self.columns.T @ Ma)
        return Ma - self.solved @ small, small

    def _refined(self, a: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """The same to double precision: a factor that does not lead there is computed in doubles."""
        if isinstance(self.factor, PartialFactor):
            found = self._by_conjugate_gradients(self.factor.product, a, right)
            if found is not None:
                return found
            self.kernels.stiff = True
            self._prepare_quickly()
        lam, small = self._solution(a, right)
        product = self.factor.product
        if product is None:
            return lam, small
        for _ in range(STEPS):
            missing = a - product(lam) - self.columns @ small
            rest = right - self.columns.T @ lam - self.corner @ small
            off, whole = abs(missing).max(), abs(a).max()
            astray = not off <= ASTRAY * whole
            if off <= FINE * whole or (astray and isinstance(self.factor, LowRankFactor)):
                break
            if astray:
                found = self._by_conjugate_gradients(product, a, right)
                if found is None:
                    self._prepare_exactly()
                    found = self._solution(a, right)
                return found
            more, correction = self._solution(missing, rest)
            lam, small = lam + more, small + correction
        return lam, small

    def _by_conjugate_gradients(self, product: Product, a: Tensor, right: Tensor) -> tuple[Tensor, Tensor] | None:
        """The same for a coarse factor of M, all other rows holding always; None where it takes too many products.

        So it does where rounding leaves the factor indefinite beside the other rows.
        """
        lam, small = self._solution(a, right)
        left = a - product(lam) - self.columns @ small
        enough = ENOUGH**2 * (a @ self.factor.solve(a[:, None])[:, 0])
        ahead, beside = self._solution(left, 0 * right)
        size, steps = left @ ahead, 0
        along = ahead, beside
        while size > enough and steps < self.kernels.patience:
            change = product(along[0]) + self.columns @ along[1]
            length = size / (along[0] @ change)
            lam, small, left = lam + length * along[0], small + length * along[1], left - length * change
            ahead, beside = self._solution(left, 0 * right)
            new = left @ ahead
            along, size, steps = (ahead + new / size * along[0], beside + new / size * along[1]), new, steps + 1
        return (lam, small) if 0 <= size <= enough else None
