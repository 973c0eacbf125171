"""ReLU units in the cones of their activation patterns, by the interior-point method.

In the problem of `svm_relu`, each constraint concerns one group h. With s_h = ±1, c_ih = 1 if sample i is on in pattern
h, else −1, and g_ih = y_i s_h 1(c_ih > 0):

    minimise Σ_h ‖w_h‖   subject to   Σ_h g_ih ⟨x_i, w_h⟩ ≥ 1,   c_ih ⟨x_i, w_h⟩ ≥ 0 for all i, h.

Constraints are rows whose margin right-hand side is 0, with multipliers μ_h of group h alone. All multipliers, λ and
μ_1…μ_H, therefore meet in a matrix of the shape of an arrow,

    M = [A  B_1ᵀ … B_Hᵀ;  B_1  D_1;  …;  B_H  D_H],   D_h = η_h c_h c_hᵀ ∘ XXᵀ + …,   B_h = η_h c_h g_hᵀ ∘ XXᵀ,

which is factorised group by group: n³ multiplications for each, where (1 + H)³n³/3 would be needed for a dense M.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from implicit_bias._utils.blocks import Cholesky, gram
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import check_memory
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer
from implicit_bias.solvers.native.algebra import DenseFactor, Factor, add_to_diagonal_
from implicit_bias.solvers.native.interior_point import Outcome, Program, descend
from implicit_bias.solvers.native.kernels import GroupKernels
from implicit_bias.solvers.native.loop import upper_bound
from implicit_bias.solvers.native.settings import Settings

#: Settings of the method, which needs 15 to 30 iterations.
SETTINGS = Settings(max_iterations=200)


class ArrowFactor(Factor):
    """The factor of M: each D_h = L_hL_hᵀ, and the Schur complement A − Σ_h R_hᵀR_h with R_h = L_h⁻¹B_h.

    `blocks` are (D (m, m), B (m, r), open (n,)), B with columns of the r `open` samples. A and D are overwritten.
    """

    def __init__(self, A: Array, blocks: Iterable[tuple[Array, Array, np.ndarray]]) -> None:
        self.groups = []
        for D, B, open_ in blocks:
            L = Cholesky(D)
            R = L.divided(B.T).T
            used = np.flatnonzero(open_)
            A[np.ix_(used, used)] -= gram(R.T)
            self.groups.append((L, R, used))
        self.top = DenseFactor(A)

    def solve(self, right: Array) -> Array:
        # Elimination goes down one side of the arrow and up again. Going down, it skips columns that are 0 in a group.
        n = len(right) - sum(len(R) for _, R, _ in self.groups)
        x, first, halves = right.copy(), n, []
        for L, R, used in self.groups:
            rows = slice(first, first + len(R))
            there = np.flatnonzero(right[rows].any(axis=0))
            half = L.divided(right[rows, there].T).T
            x[np.ix_(used, there)] -= R.T @ half
            halves.append((rows, there, half))
            first = rows.stop
        x[:n] = self.top.solve(x[:n])
        for (L, R, used), (rows, there, half) in zip(self.groups, halves, strict=True):
            left = -R @ x[used]
            left[:, there] += half
            x[rows] = L.divided(left.T, transposed=False).T
        return x


class ConeKernels(GroupKernels):
    """Kernels of n margins and, for each group, of the m constraints of its cone; samples x_i = 0 have no constraints.

    `on` (H, n) tells which samples are on in each pattern, and `outputs` (n, H) are y_i s_h.
    """

    def __init__(self, X: Array, on: np.ndarray, outputs: Array, late: Callable[[], bool] = bool) -> None:
        H, self.nonzero = len(on), np.flatnonzero(X.any(axis=1))
        super().__init__(np.zeros((len(X) + H * len(self.nonzero), 0)), H, SETTINGS)
        self.X, self.samples, self.late = X, len(X), late
        self.margins, self.sides = outputs * on.T, np.where(on.T, 1.0, -1.0)[self.nonzero]
        self.gram = gram(X)

    def weighted(self, eta: Array) -> Array:
        """Return the corner A of K(η), that of the margins, shape (n, n)."""
        return (self.margins * eta) @ self.margins.T * self.gram

    def factor(self, eta: Array, diagonal: Array, exact: bool = True, lam: Array | None = None) -> ArrowFactor:
        A = self.weighted(eta)
        add_to_diagonal_(A, diagonal[: self.samples])
        return ArrowFactor(A, self._blocks(eta, np.split(diagonal[self.samples :], self.H)))

    def _blocks(self, eta: Array, diagonals: list[Array]) -> Iterable[tuple[Array, Array, np.ndarray]]:
        """Yield D_h with its diagonal, B_h and the mask of samples that are on; raise ArithmeticError if `late()`."""
        inside, across = self.gram[np.ix_(self.nonzero, self.nonzero)], self.gram[self.nonzero]
        for h, (c, g) in enumerate(zip(self.sides.T, self.margins.T, strict=True)):
            if self.late():
                raise ArithmeticError("out of time")
            D, open_ = eta[h] * c[:, None] * inside * c, g != 0
            add_to_diagonal_(D, diagonals[h])
            yield D, eta[h] * c[:, None] * across[:, open_] * g[open_], open_

    def adjoint(self, lam: Array) -> Array:
        """Return V_h = Σ_i (λ_i g_ih + μ_ih c_ih) x_i, shape (H, d), for all multipliers (N,)."""
        shares = self.margins * lam[: self.samples, None]
        shares[self.nonzero] += self.sides * lam[self.samples :].reshape(self.H, -1).T
        return shares.T @ self.X

    def sweep(self, lam: Array) -> tuple[Array, Array]:
        """Return ‖V_h‖² (H,) and the columns (N, H), the margins and constraints of each V_h alone."""
        V = self.adjoint(lam)
        scores = self.X @ V.T
        P = np.zeros((self.n, self.H))
        P[: self.samples] = self.margins * scores
        products = (self.sides * scores[self.nonzero]).T
        P[self.samples :].reshape(self.H, -1, self.H)[np.arange(self.H), :, np.arange(self.H)] = products
        return (V * V).sum(axis=1), P


@dataclass(frozen=True)
class ConeProgram(Program):
    """A program whose weights are evaluated as a ReLU network, with y_i s_h in `outputs` (n, H)."""

    outputs: Array = field(kw_only=True)

    def margins(self, f: Array) -> Array:
        """Return the margins (n,) of the network, Σ_h y_i s_h ⟨x_i, w_h⟩₊, from the c_ih ⟨x_i, w_h⟩ in f (N,)."""
        kernels: ConeKernels = self.kernels  # type: ignore[assignment]
        scores = kernels.sides * f[kernels.samples :].reshape(kernels.H, -1).T
        margins = np.zeros(kernels.samples)
        margins[kernels.nonzero] = (self.outputs[kernels.nonzero] * np.maximum(scores, 0.0)).sum(axis=1)
        return margins


@np.errstate(all="ignore")
def solve_in_cones(
    X: Array, y: Array, patterns: Array, signs: Array, C: float, tol: float, late: Callable[[], bool] = bool
) -> Answer:
    """Return, as an Answer, units w_h (H, d) and λ (n,) of the ReLU network of least norm for patterns and signs.

    `patterns` (H, n) are positive where sample i of X (n, d) is on in pattern h, `signs` (H,) are s_h = ±1, and y (n,)
    labels ±1. λ ≤ C, infinite for the hard margin. The relative gap `tol` is between the lower bound that λ proves for
    these patterns and the network's objective. If `late()`, called at every iterate, is True, the best one is returned.
    TooLargeError is raised if a step needs more memory than is free.

    >>> X = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> patterns, signs = np.array([[1, 0, 0], [0, 0, 1], [1, 1, 1]]), np.array([1.0, 1.0, -1.0])
    >>> found = solve_in_cones(X, np.array([1.0, -1.0, 1.0]), patterns, signs, np.inf, 1e-9)
    >>> round(float(length(found.weights, axis=1).sum()), 6), round(float(found.dual.sum()), 6)
    (5.0, 5.0)
    """
    n, H = len(X), len(patterns)
    unit, outputs = float(length(X)) / n**0.5 or 1.0, y[:, None] * signs
    kernels = ConeKernels(X / unit, patterns > 0, outputs, late)
    m, on = len(kernels.nonzero), int((kernels.margins != 0).sum())
    # The arrow's factor, and several copies of the columns.
    numbers = 2 * n**2 + m * (m * H + on) + 6 * kernels.n * (H + 3)
    check_memory(8 * numbers, f"a step of {n} samples in {H} cones", "use fewer samples")
    rhs = np.append(np.ones(n), np.zeros(kernels.n - n))
    box = None if np.inf == C else C * unit * rhs
    program = ConeProgram(kernels, box, margin_rhs=rhs, outputs=outputs)

    def watch(iteration: int, best: Outcome) -> Status | None:
        return Status.TIME_LIMIT if late() else None

    final = descend(program, tol, SETTINGS.max_iterations, None, watch)
    lam, eta, _ = final.weights
    q, P = kernels.sweep(lam)
    _, margin = upper_bound(float(eta @ np.sqrt(q)), program.margins(P @ eta), None if box is None else box[:n])
    W = (eta / margin)[:, None] * kernels.adjoint(lam) if 0 < margin < np.inf else np.zeros((H, X.shape[1]))
    total = float(final.lam[:n].sum())
    return Answer(W / unit, final.lam[:n] * (final.bounds.lower / total / unit if total > 0 else 0.0), final.iterations)
