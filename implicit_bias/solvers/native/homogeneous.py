"""A homogeneous self-dual interior-point method with Nesterov–Todd scaling, in any arithmetic, for few rows.

A margin problem with the norm Σ_h ‖W_h‖ and rows f_i = ⟨A_i, W⟩ + ỹ_i b has as its dual a program over half-lines and
second-order cones Q = {(t, v): ‖v‖ ≤ t}. Its variables are the multipliers λ of the rows; m are the required margins:

    maximise mᵀλ   subject to   λ_i ≥ 0,   λ_i ≤ p_i,   (1, V_h) ∈ Q,   ỹᵀλ = e,   V_h = V⁰_h + A_hᵀλ.

Some samples may have a fixed λ. V⁰ is their part of V, and −e is their part of ỹᵀλ. In the form

    minimise cᵀx   subject to   Gx + s = h,   s ∈ K,   Eᵀx = e

x is λ, c is −m, E is the column ỹ, and h is (0, p, (1, V⁰_h)), so that s = (λ, p − λ, (1, V_h)). The multipliers are b
of Eᵀx = e, and z = (u, ξ, (t_h, −W_h)) ∈ K of s. With them, c + Eb + Gᵀz = 0 says f_i = m_i + u_i − ξ_i: b is the
intercept, ξ_i the slack, u_i the excess of the margin, and t_h ≥ ‖W_h‖. The homogeneous embedding

    Eb + Gᵀz + cτ = 0,   Eᵀx = eτ,   s + Gx = hτ,   κ + cᵀx + eᵀb + hᵀz = 0,   s, z ∈ K,   τ, κ ≥ 0

multiplies all of them by τ. A solution with τ > 0, divided by τ, is an optimum. In one with κ > 0, either x proves that
the samples are inseparable, cᵀx < 0 with A_hᵀx = 0, or (b, z) proves that no λ is feasible. Hence no feasible point is
needed: the method starts from x = 0, b = 0, s = z = (1, …, 1, (1, 0)), τ = κ = 1, and reduces the residuals of the
equations along with the products of s and z. Unlike in `interior_point`, the weights are variables of their own: no
margin is a sum of λ_i, which nearly cancels if samples are close to the plane.

Numbers are doubles, or objects with the same operations in arrays of dtype object.

References
----------
Ye, Todd & Mizuno (1994), "An O(√nL)-iteration homogeneous and self-dual linear programming algorithm"; Xu, Hung & Ye
(1996), "A simplified homogeneous and self-dual linear programming algorithm and its implementation"; Nesterov & Todd
(1997), "Self-scaled barriers and interior-point methods for convex programming"; Domahidi, Chu & Boyd (2013), "ECOS: An
SOCP solver for embedded systems".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from implicit_bias.solvers.native.loop import descend_from, longest_step

#: Share of the way to the boundary that a step takes.
TO_BOUNDARY = 0.99
#: Least centring parameter.
LEAST_CENTRING = 0.01
#: Step length below which there is no progress.
SHORTEST_STEP = 1e-8
#: Cosine of the angle of columns up to which they are orthogonal, and the largest number of Jacobi's sweeps.
ORTHOGONAL, SWEEPS = 1e-50, 40


@dataclass(frozen=True)
class Element:
    """A vector of the space of K: `lines` (l,), `cones` (H, 1 + r), each with its scalar first, symmetric `blocks`."""

    lines: Any
    cones: Any
    blocks: tuple[Any, ...] = ()

    def each(self, function: Callable[..., Any], *others: Element) -> Element:
        """Return the element of the function's values for the arrays of this one and of others."""
        blocks = zip(self.blocks, *(other.blocks for other in others), strict=True)
        lines = function(self.lines, *(other.lines for other in others))
        cones = function(self.cones, *(other.cones for other in others))
        return Element(lines, cones, tuple(function(*parts) for parts in blocks))

    def plus(self, step: Any, other: Element) -> Element:
        """Return this element plus `step` times another one."""
        return self.each(lambda u, v: u + step * v, other)

    def unit(self) -> Element:
        """Return the identity of the Jordan product."""
        unit = self.each(lambda u: 0 * u)
        unit.cones[:, 0] += 1
        blocks = tuple(block + np.eye(len(block), dtype=int) for block in unit.blocks)
        return Element(unit.lines + 1, unit.cones, blocks)

    def dot(self, other: Element) -> Any:
        """Return the inner product, a number."""
        products = self.each(np.multiply, other)
        return sum(part.sum() for part in (products.lines, products.cones, *products.blocks))

    def product(self, other: Element) -> Element:
        """Return the Jordan product: uv in half-lines, (uᵀv, u₀v₁ + v₀u₁) in cones, and (UV + VU)/2 in blocks."""
        u, v = self.cones, other.cones
        inside = u[:, :1] * v[:, 1:] + v[:, :1] * u[:, 1:]
        blocks = tuple((U @ V + V @ U) / 2 for U, V in zip(self.blocks, other.blocks, strict=True))
        return Element(self.lines * other.lines, np.hstack([(u * v).sum(axis=1)[:, None], inside]), blocks)

    def divided_by(self, other: Element) -> Element:
        """Return x with other∘x = this element, for `other` in the interior of K, with diagonal blocks."""
        u, d = other.cones, self.cones
        first = ((u[:, 0] * d[:, 0] - (u[:, 1:] * d[:, 1:]).sum(axis=1)) / _determinants(u))[:, None]
        pairs = ((D, np.add.outer(U.diagonal(), U.diagonal())) for D, U in zip(self.blocks, other.blocks, strict=True))
        cones = np.hstack([first, (d[:, 1:] - first * u[:, 1:]) / u[:, :1]])
        return Element(self.lines / other.lines, cones, tuple(2 * D / sums for D, sums in pairs))

    def room(self, change: Element) -> float:
        """Return the longest step, at most 1, for which this interior element plus step times `change` stays in K."""
        u, d, falls = self.cones, change.cones, [0.0]
        # The roots of (u₀ + αd₀)² = ‖u₁ + αd₁‖², a + 2bα + cα² = 0 with a > 0; 1/α is a root of c + 2bβ + aβ².
        a, b = _determinants(u), u[:, 0] * d[:, 0] - (u[:, 1:] * d[:, 1:]).sum(axis=1)
        inside = b * b - a * _determinants(d)
        beta = np.where(inside > 0, (-b + abs(inside) ** 0.5) / a, 0 * a)
        for U, D in zip(self.blocks, change.blocks, strict=True):
            L = _lower(U)
            falls.append(-np.linalg.eigvalsh(_divided(L, _divided(L, D).T).astype(np.float64))[0])
        step = longest_step([self.lines, u[:, 0]], [change.lines, d[:, 0]])
        return min(step, float(1 / max(beta.max(initial=0.0), *falls, 1.0)))


def _determinants(cones: Any) -> Any:
    """Return u₀² − ‖u₁‖² (H,) of cones u (H, 1 + r), as a product, so that it is positive for interior elements."""
    size = (cones[:, 1:] ** 2).sum(axis=1) ** 0.5
    return (cones[:, 0] - size) * (cones[:, 0] + size)


def _lower(U: Any) -> Any:
    """Return L (d, d) with LLᵀ = U, lower triangular; raise ArithmeticError unless U is positive definite."""
    L = 0 * U
    for j in range(len(U)):
        left = U[j:, j] - L[j:, :j] @ L[j, :j]
        if not left[0] > 0:
            raise ArithmeticError("a block is not positive definite")
        L[j:, j] = left / left[0] ** 0.5
    return L


def _divided(L: Any, right: Any) -> Any:
    x = right.copy()
    for j in range(len(x)):
        x[j] = (x[j] - L[j, :j] @ x[:j]) / L[j, j]
    return x


def _with_orthogonal_columns(B: Any) -> Any:
    """Return V (d, d), orthogonal, so that the columns of BV are orthogonal, by Jacobi's rotations."""
    M = np.vstack([B, 0 * B + np.eye(len(B), dtype=int)])
    for _ in range(SWEEPS):
        turned = False
        for p, q in combinations(range(len(B)), 2):
            (a, c), (_, b) = M[: len(B), [p, q]].T @ M[: len(B), [p, q]]
            if c * c <= ORTHOGONAL**2 * a * b:
                continue
            ratio, turned = (b - a) / (2 * c), True
            tangent = (1 if ratio >= 0 else -1) / (abs(ratio) + (1 + ratio * ratio) ** 0.5)
            cosine = 1 / (1 + tangent * tangent) ** 0.5
            M[:, [p, q]] = M[:, [p, q]] @ (cosine * np.array([[1, tangent], [-tangent, 1]]))
        if not turned:
            break
    return M[len(B) :]


class NesterovTodd:
    """The Nesterov–Todd scaling D of interior elements s and z, with Dz = D⁻ᵀs, which is `point`.

    D multiplies half-lines by `lines` = √(s/z) (l,). In a cone, with δ in `size` (H,), and w = (w₀, w₁), w₀² − ‖w₁‖² =
    1, in `w` (H, 1 + r), it is

        D = δ [[w₀, w₁ᵀ], [w₁, I + w₁w₁ᵀ/(1 + w₀)]],   D² = δ² (2wwᵀ − J),   J = diag(1, −1, …, −1),

    and D⁻¹ is the same with 1/δ and −w₁. In a block it maps Z to RᵀZR, Dᵀ maps U to RURᵀ, and `point` is diagonal.
    """

    def __init__(self, s: Element, z: Element) -> None:
        self.lines = (s.lines / z.lines) ** 0.5
        S, Z = _determinants(s.cones) ** 0.5, _determinants(z.cones) ** 0.5
        self.size = (S / Z) ** 0.5
        first, second = s.cones / S[:, None], z.cones / Z[:, None]
        gamma = ((1 + (first * second).sum(axis=1)) / 2) ** 0.5
        self.w = (first + np.hstack([second[:, :1], -second[:, 1:]])) / (2 * gamma)[:, None]
        self.R, self.inverses = list[Any](), list[Any]()
        for block, other in zip(s.blocks, z.blocks, strict=True):
            L, M = _lower(block), _lower(other)
            V = _with_orthogonal_columns(M.T @ L)
            values = ((M.T @ L @ V) ** 2).sum(axis=0) ** 0.5
            R = L @ V / values**0.5
            self.R.append(R)
            self.inverses.append((R.T @ other) / values[:, None])
        self.point = self.times(z)
        for block in self.point.blocks:
            block *= np.eye(len(block), dtype=int)

    def _turned(self, u: Element, sign: int, blocks: Any) -> Element:
        """Return D (`sign` 1) or its inverse (`sign` −1) times lines and cones of u, and MUMᵀ for M of `blocks`."""
        w0, w1, u0, u1 = self.w[:, :1], self.w[:, 1:], u.cones[:, :1], u.cones[:, 1:]
        along = (w1 * u1).sum(axis=1)[:, None]
        cones = np.hstack([w0 * u0 + sign * along, u1 + (sign * u0 + along / (1 + w0)) * w1])
        mapped = tuple(M @ U @ M.T for M, U in zip(blocks, u.blocks, strict=True))
        return Element(self.lines**sign * u.lines, (self.size**sign)[:, None] * cones, mapped)

    def times(self, u: Element) -> Element:
        """Return Du."""
        return self._turned(u, 1, [R.T for R in self.R])

    def transposed(self, u: Element) -> Element:
        """Return Dᵀu."""
        return self._turned(u, 1, self.R)

    def inverse(self, u: Element) -> Element:
        """Return D⁻ᵀu."""
        return self._turned(u, -1, self.inverses)

    def inverse_square(self, u: Element) -> Element:
        """Return D⁻¹D⁻ᵀu."""
        return self._turned(self.inverse(u), -1, [inverse.T for inverse in self.inverses])


@dataclass(frozen=True)
class EmbeddedProgram:
    """minimise cᵀx subject to Gx + s = h, s ∈ K, Eᵀx = e, for x (N,) and e (j,).

    The first q half-lines' rows of G have one entry each: `single` is their columns and values, both (q,). `lines`
    (l − q, N) are the rows of the other half-lines, `cones` (H, 1 + r, N) those of the cones, padded with zeros, and
    `blocks` (d, d, N) those of each semidefinite block. `late()` is True once the time is up, which ends the method.
    """

    c: Any
    E: Any
    e: Any
    h: Element
    single: tuple[np.ndarray, Any]
    lines: Any
    cones: Any
    blocks: tuple[Any, ...] = ()
    late: Callable[[], Any] = bool

    @cached_property
    def squares(self) -> Any:
        """The matrices −AᵀJA of the rows A of each cone, shape (H, N, N)."""
        squares = -self.cones[:, :1].transpose(0, 2, 1) * self.cones[:, :1]
        for square, A in zip(squares, self.cones[:, 1:], strict=True):
            if self.late():
                raise ArithmeticError("the time is up")
            square += A.T @ A
        return squares

    def value(self, x: Any, b: Any, z: Element) -> Any:
        """Return cᵀx + eᵀb + hᵀz."""
        return self.c @ x + self.e @ b + self.h.dot(z)

    def image(self, x: Any) -> Element:
        """Return Gx."""
        places, values = self.single
        lines = np.concatenate([values * x[places], self.lines @ x])
        return Element(lines, self.cones @ x, tuple(rows @ x for rows in self.blocks))

    def adjoint(self, z: Element) -> Any:
        """Return Gᵀz (N,)."""
        (places, values), q = self.single, len(self.single[0])
        parts = zip((z.cones, *z.blocks), (self.cones, *self.blocks), strict=True)
        out = self.lines.T @ z.lines[q:] + sum(np.tensordot(part, rows, axes=2) for part, rows in parts)
        np.add.at(out, places, values * z.lines[:q])
        return out

    def normal(self, scaling: NesterovTodd) -> Any:
        """Return GᵀD⁻²G (N, N) as a new array, for the Nesterov–Todd scaling D."""
        (places, values), q, factors = self.single, len(self.single[0]), 1 / scaling.size**2
        half = self.lines / scaling.lines[q:, None]
        a = (np.hstack([scaling.w[:, :1], -scaling.w[:, 1:]])[:, None] @ self.cones)[:, 0].T
        M = np.tensordot(factors, self.squares, axes=(0, 0)) + (2 * factors * a) @ a.T + half.T @ half
        np.add.at(M, (places, places), (values / scaling.lines[:q]) ** 2)
        for rows, inverse in zip(self.blocks, scaling.inverses, strict=True):
            both = np.tensordot(inverse, np.tensordot(inverse, rows, axes=1), axes=([1], [1])).reshape(-1, len(M))
            M = M + both.T @ both
        return M


def dual_program(A: Any, rhs: Any, offset: Any, box: Any, E: Any, e: Any, free: bool = False) -> EmbeddedProgram:
    """Return the program of this module's docstring for A (N, H, r), padded with zeros, and m, V⁰, p, ỹ (N, j) and e.

    `box` p is None for a hard margin, and j = 0 without a free intercept. The unit of a row is arbitrary. λ ≥ 0 is
    not required if it is `free`.
    """
    rows, least, bounds = -A.transpose(1, 2, 0), rhs[:0] if free else 0 * rhs, rhs[:0] if box is None else box
    h = Element(np.concatenate([least, bounds]), np.hstack([0 * offset[:, :1] + 1, offset]))
    single = np.arange(len(h.lines)) % len(rhs), np.concatenate([least - 1, 0 * bounds + 1])
    return EmbeddedProgram(-rhs, E, e, h, single, rows[0, :0], np.concatenate([0 * rows[:, :1], rows], axis=1))


@dataclass(frozen=True)
class EmbeddedIterate:
    """An iterate, or a direction: x (N,), b (1,), or (0,) without an intercept, s and z in K, and the numbers τ and κ.

    x, b, s and z are multiplied by τ: λ is x/τ, the intercept b/τ, and W_h is −`z.cones[h, 1:]`/τ.
    """

    x: Any
    b: Any
    s: Element
    z: Element
    tau: Any
    kappa: Any

    def moved(self, step: Any, by: EmbeddedIterate) -> EmbeddedIterate:
        """Return the iterate at `step` times `by` from this one."""
        x, b = self.x + step * by.x, self.b + step * by.b
        s, z = self.s.plus(step, by.s), self.z.plus(step, by.z)
        return EmbeddedIterate(x, b, s, z, self.tau + step * by.tau, self.kappa + step * by.kappa)

    def room(self, change: EmbeddedIterate) -> float:
        """Return the longest step, at most 1, that keeps s and z in K, and τ and κ non-negative."""
        step = longest_step([np.array([self.tau, self.kappa])], [np.array([change.tau, change.kappa])])
        return min(self.s.room(change.s), self.z.room(change.z), step)

    def product(self) -> Any:
        """Return sᵀz + τκ, which is 0 for a solution of the embedding."""
        return self.s.dot(self.z) + self.tau * self.kappa


class EmbeddedConditions:
    """The equations of the embedding, s∘z = μ and τκ = μ, linearised at an iterate; `Linearised` of `loop`.

    `factorise` takes a matrix, which it may overwrite, and returns an object with a method `solve` for (N, j).
    """

    def __init__(self, program: EmbeddedProgram, at: EmbeddedIterate, factorise: Callable[[Any], Any]) -> None:
        self.program, self.at = program, at
        #: Number of half-lines, cones and τκ; `mu` is (sᵀz + τκ)/`degree`.
        self.degree = len(at.s.lines) + len(at.s.cones) + sum(map(len, at.s.blocks)) + 1
        self.mu = float(at.product() / self.degree)
        if not self.mu > 0:
            raise ArithmeticError("no complementarity is left")
        self.scaling, E, e = NesterovTodd(at.s, at.z), program.E, program.e
        self.factor = factorise(program.normal(self.scaling))
        self.solved = self.factor.solve(E)
        self.inner = factorise(E.T @ self.solved) if len(e) else None
        #: Change of x, b and z for a unit change of τ.
        self.first = self._reduced(-program.c, e, program.h)
        #: Residuals Eb + Gᵀz + cτ, eτ − Eᵀx, s + Gx − hτ and κ + cᵀx + eᵀb + hᵀz.
        self.R1 = E @ at.b + program.adjoint(at.z) + program.c * at.tau
        self.R2 = -(E.T @ at.x) + e * at.tau
        self.R3 = at.s.plus(1, program.image(at.x)).plus(-at.tau, program.h)
        self.R4 = at.kappa + program.value(at.x, at.b, at.z)

    def _reduced(self, r1: Any, r2: Any, r3: Element) -> tuple[Any, Any, Element]:
        """Return x, b, z with Eb + Gᵀz = r1 (N,), Eᵀx = r2 (j,), Gx − D²z = r3."""
        right = r1 + self.program.adjoint(self.scaling.inverse_square(r3))
        x, b = self.factor.solve(right[:, None])[:, 0], r2
        if self.inner is not None:
            b = self.inner.solve((self.program.E.T @ x - r2)[:, None])[:, 0]
            x = x - self.solved @ b
        return x, b, self.scaling.inverse_square(self.program.image(x).plus(-1, r3))

    def direction(self, target: float, guess: EmbeddedIterate | None) -> EmbeddedIterate:
        """Return the direction to products of `target`, 0 without a `guess`; residuals become `target`/μ of them."""
        at, point, keep = self.at, self.scaling.point, 1 - target / self.mu
        ds, dk = point.product(point), at.kappa * at.tau
        if guess is not None:
            second = self.scaling.inverse(guess.s).product(self.scaling.times(guess.z))
            ds, dk = ds.plus(1, second).plus(-target, ds.unit()), dk + guess.kappa * guess.tau - target
        quotient = ds.divided_by(point)
        outer = self.scaling.transposed(quotient)
        x, b, z = self._reduced(-keep * self.R1, keep * self.R2, outer.plus(-keep, self.R3))
        x1, b1, z1 = self.first
        value = self.program.value
        tau = (dk / at.tau - keep * self.R4 - value(x, b, z)) / (value(x1, b1, z1) - at.kappa / at.tau)
        x, b, z = x + tau * x1, b + tau * b1, z.plus(tau, z1)
        s = self.scaling.transposed(quotient.plus(1, self.scaling.times(z))).each(np.negative)
        return EmbeddedIterate(x, b, s, z, tau, -(dk + at.kappa * tau) / at.tau)

    def ahead(self, guess: EmbeddedIterate) -> float:
        return float(self.at.moved(self.at.room(guess), guess).product() / self.degree)

    def moved(self, direction: EmbeddedIterate) -> EmbeddedIterate | None:
        step = TO_BOUNDARY * self.at.room(direction)
        return self.at.moved(step, direction) if step > SHORTEST_STEP else None


def maximise(
    program: EmbeddedProgram, factorise: Callable[[Any], Any], observe: Callable[[EmbeddedIterate], bool]
) -> None:
    """Iterate until `observe(iterate)`, which sees every iterate, is True, `factorise` fails, or there is no progress.

    `EmbeddedConditions` states what `factorise` returns. For inseparable samples, τ tends to 0, and x/‖x‖ to a proof.
    """
    unit, one = program.h.unit(), 1 + 0 * program.c[0]
    start = EmbeddedIterate(0 * program.c, 0 * program.e, unit, unit, one, one)
    descend_from(start, observe, lambda at: EmbeddedConditions(program, at, factorise), LEAST_CENTRING)
