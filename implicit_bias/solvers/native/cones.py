"""ReLU units in the cones of their patterns, by the interior-point method: constraints that concern one group each.

The problem of `svm_relu`, with s_h = ±1, c_ih = ±1 where sample i is on or off in pattern h, g_ih = y_i s_h (c_ih > 0):

    minimise Σ_h ‖w_h‖   subject to   Σ_h g_ih ⟨x_i, w_h⟩ ≥ 1,   c_ih ⟨x_i, w_h⟩ ≥ 0 for all i, h.

Constraints are rows of which no margin is asked (`Program.asked`), their multipliers μ_h ones of group h alone. So all
multipliers, λ and μ_1…μ_H, meet in a matrix of the shape of an arrow,

    M = [A  B_1ᵀ … B_Hᵀ;  B_1  D_1;  …;  B_H  D_H],   D_h = η_h c_h c_hᵀ ∘ XXᵀ + …,   B_h = η_h c_h g_hᵀ ∘ XXᵀ,

which is factorised group by group: n³ multiplications for each, where (1 + H)³n³/3 would be needed for M as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack

from implicit_bias._utils.checks import Array
from implicit_bias._utils.memory import check_memory
from implicit_bias._utils.scaling import length
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer
from implicit_bias.solvers.native.arrays import add_to_diagonal_
from implicit_bias.solvers.native.factors import DenseFactor, Factor
from implicit_bias.solvers.native.interior_point import Bounds, Program, descend, upper_bound
from implicit_bias.solvers.native.kernels import GroupKernels

#: Interior-point iterations after which the method gives up; it needs 15 to 30.
ITERATIONS = 200


class ArrowFactor(Factor):
    """Of M above: each D_h = L_hL_hᵀ, and what their elimination leaves of A, A − Σ_h R_hᵀR_h with R_h = L_h⁻¹B_h.

    Parameters
    ----------
    A : array, shape (n, n)
        It is overwritten.
    blocks : iterable of (D (m, m), B (m, r), open (n,))
        One for each group, in the order of its rows; B has the columns of the r samples that are `open`. D is
        overwritten.
    """

    def __init__(self, A: Array, blocks: Iterable[tuple[Array, Array, np.ndarray]]) -> None:
        self.groups = []
        for D, B, open_ in blocks:
            L, failed = lapack.dpotrf(D.T, lower=False, overwrite_a=True, clean=False)
            if failed:
                raise ArithmeticError("a block of the normal matrix is no longer positive definite")
            R = lapack.dtrtrs(L, B, trans=1)[0]
            used = np.flatnonzero(open_)
            A[np.ix_(used, used)] -= R.T @ R
            self.groups.append((L, R, used))
        self.top = DenseFactor(A)

    def solve(self, right: Array) -> Array:
        """Down one side of the arrow and up again; a column that is 0 in a group costs nothing on the way down."""
        n = len(right) - sum(len(L) for L, _, _ in self.groups)
        found, first, halves = right.copy(), n, []
        for L, R, used in self.groups:
            rows = slice(first, first + len(L))
            there = np.flatnonzero(right[rows].any(axis=0))
            half = lapack.dtrtrs(L, right[rows, there], trans=1)[0]
            found[np.ix_(used, there)] -= R.T @ half
            halves.append((rows, there, half))
            first = rows.stop
        found[:n] = self.top.solve(found[:n])
        for (L, R, used), (rows, there, half) in zip(self.groups, halves, strict=True):
            left = -R @ found[used]
            left[:, there] += half
            found[rows] = lapack.dtrtrs(L, left)[0]
        return found


class ConeKernels(GroupKernels):
    """The kernels of n margins and, group by group, of the cone's m constraints: samples that are zero have none.

    Parameters
    ----------
    X : array, shape (n, d)
    on : array of bool, shape (H, n)
        The patterns.
    outputs : array, shape (n, H)
        y_i s_h.
    """

    def __init__(self, X: Array, on: np.ndarray, outputs: Array) -> None:
        H, self.walls = len(on), np.flatnonzero(X.any(axis=1))
        super().__init__(np.zeros((len(X) + H * len(self.walls), 0)), H)
        self.X, self.samples = X, len(X)
        self.margins, self.sides = outputs * on.T, np.where(on.T, 1.0, -1.0)[self.walls]
        self.gram = X @ X.T

    def need(self) -> int:
        """Bytes that a step takes: the arrow's factor, and as many numbers as the columns have, some times over."""
        n, m = self.samples, len(self.walls)
        return 8 * (2 * n**2 + m * (m * self.H + int((self.margins != 0).sum())) + 6 * self.n * (self.H + 3))

    def weighted(self, eta: Array) -> Array:
        """The corner A of the margins alone, which is dense."""
        return (self.margins * eta) @ self.margins.T * self.gram

    def factor(self, eta: Array, diagonal: Array, exact: bool = True, first: Array | None = None) -> ArrowFactor:
        """As an arrow, in doubles."""
        A = self.weighted(eta)
        add_to_diagonal_(A, diagonal[: self.samples])
        return ArrowFactor(A, self._blocks(eta, np.split(diagonal[self.samples :], self.H)))

    def _blocks(self, eta: Array, own: list[Array]) -> Iterable[tuple[Array, Array, np.ndarray]]:
        """D_h with its own diagonal, B_h and the samples that are open, one group after the other."""
        inside, across = self.gram[np.ix_(self.walls, self.walls)], self.gram[self.walls]
        for h, (c, g) in enumerate(zip(self.sides.T, self.margins.T, strict=True)):
            D, open_ = eta[h] * c[:, None] * inside * c, g != 0
            add_to_diagonal_(D, own[h])
            yield D, eta[h] * c[:, None] * across[:, open_] * g[open_], open_

    def pulled(self, lam: Array) -> Array:
        """V_h = Σ_i (λ_i g_ih + μ_ih c_ih) x_i, shape (H, d), for all multipliers (N,)."""
        shares = self.margins * lam[: self.samples, None]
        shares[self.walls] += self.sides * lam[self.samples :].reshape(self.H, -1).T
        return shares.T @ self.X

    def sweep(self, lam: Array) -> tuple[Array, Array]:
        """‖V_h‖² and the columns: margins and constraints of V_h."""
        V = self.pulled(lam)
        scores = self.X @ V.T
        P = np.zeros((self.n, self.H))
        P[: self.samples] = self.margins * scores
        own = (self.sides * scores[self.walls]).T
        P[self.samples :].reshape(self.H, -1, self.H)[np.arange(self.H), :, np.arange(self.H)] = own
        return (V * V).sum(axis=1), P

    def directional(self, change: Array) -> tuple[Array, Array]:
        """As `sweep`."""
        return self.sweep(change)


@dataclass(frozen=True)
class ConeProgram(Program):
    """Its weights are judged as the network that they make, whose units open where they do, in their cones or not."""

    outputs: Array = field(kw_only=True)

    def bounds(self, lam: Array, eta: Array, q: Array, f: Array) -> Bounds:
        """What λ and μ prove of these patterns, and what the network of the w_h = η_h V_h reaches."""
        n, sizes = self.kernels.samples, np.sqrt(q)  # type: ignore[attr-defined]
        prices = None if self.prices is None else self.prices[:n]
        scale = 1 / sizes.max() if sizes.max() > 0 else np.inf
        if prices is not None:
            scale = min(scale, float((prices / lam[:n]).min()))
        return Bounds(float(scale * lam[:n].sum()), upper_bound(float(eta @ sizes), self.reached(f), prices)[0])

    def reached(self, f: Array) -> Array:
        """The network's margins (n,), by the constraints' rows of f, ± the scores of its units; 0 at a zero sample."""
        kernels: ConeKernels = self.kernels  # type: ignore[assignment]
        scores = kernels.sides * f[kernels.samples :].reshape(kernels.H, -1).T
        margins = np.zeros(kernels.samples)
        margins[kernels.walls] = (self.outputs[kernels.walls] * np.maximum(scores, 0.0)).sum(axis=1)
        return margins


@np.errstate(all="ignore")
def solve_in_cones(X: Array, y: Array, patterns: Array, signs: Array, C: float, tol: float) -> Answer:
    """Units w_h (H, d) and λ (n,) of the ReLU network of least norm over patterns (H, n) and signs (H,).

    Parameters
    ----------
    C : float
        The price of slack; inf for the hard margin.
    tol : float
        The relative gap asked for, between what λ proves of these patterns and what the network of the w_h reaches.

    Raises
    ------
    TooLargeError
        Where a step takes more memory than is free.

    Examples
    --------
    >>> X = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> patterns, signs = np.array([[1, 0, 0], [0, 0, 1], [1, 1, 1]]), np.array([1.0, 1.0, -1.0])
    >>> found = solve_in_cones(X, np.array([1.0, -1.0, 1.0]), patterns, signs, np.inf, 1e-9)
    >>> round(float(length(found.weights, axis=1).sum()), 6), round(float(found.dual.sum()), 6)
    (5.0, 5.0)
    """
    n, H = len(X), len(patterns)
    unit, outputs = float(length(X)) / n**0.5 or 1.0, y[:, None] * signs
    kernels = ConeKernels(X / unit, patterns > 0, outputs)
    check_memory(kernels.need(), f"a step of {n} samples in {H} cones", "use fewer samples")
    asked = np.append(np.ones(n), np.zeros(kernels.n - n))
    prices = None if np.inf == C else C * unit * asked
    program = ConeProgram(kernels, prices, asked=asked, free=asked < 0, outputs=outputs)
    found = descend(program, tol, ITERATIONS, None, lambda iteration, bounds: None)
    if found.stopped is Status.INTERRUPTED:
        raise KeyboardInterrupt
    lam, eta, _ = found.weights
    q, P = kernels.sweep(lam)
    _, margin = upper_bound(float(eta @ np.sqrt(q)), program.reached(P @ eta), None if prices is None else prices[:n])
    W = (eta / margin)[:, None] * kernels.pulled(lam) if 0 < margin < np.inf else np.zeros((H, X.shape[1]))
    total = float(found.lam[:n].sum())
    return Answer(W / unit, found.lam[:n] * (found.bounds.lower / total / unit if total > 0 else 0.0), found.iterations)
