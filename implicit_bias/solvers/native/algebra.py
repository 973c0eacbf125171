"""Linear algebra of the native solver: factors of positive definite matrices, in NumPy or torch.

NumPy computes on the CPU, with doubles or other numbers. torch is loaded only for an explicit device. Most functions
have the same name in both; the others are here.
"""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from implicit_bias._utils.blocks import Cholesky, gram
from implicit_bias._utils.floats import TINY
from implicit_bias.solvers.native.settings import Settings

#: A NumPy array or a torch tensor.
Tensor: TypeAlias = Any
#: The device that stands for NumPy.
CPU = "cpu"
#: Added to the diagonal of a block of pivots, as a share of its largest entry, against rounding in single precision.
PIVOT_SHIFT = 1e-6
#: Relative increase of the first column of a partial factor, which exceeds all that rounding leaves next to it.
FIRST_COLUMN = 1e-4
#: Least entry of a diagonal D added to BBᵀ, as a share of the mean diagonal of BBᵀ: rounding hides smaller ones.
LEAST_DIAGONAL = 1e-14
#: Largest number of refinements of a solution.
REFINEMENTS = 2
#: Residual of a solution, as a share of the right-hand side, that rounding alone leaves.
EXACT = 1e-11
Product: TypeAlias = Callable[[Tensor], Tensor]


def library(values: Tensor) -> Any:
    """Return torch for torch tensors, else NumPy.

    >>> library(np.ones(2)).__name__
    'numpy'
    """
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(values, torch.Tensor) else np


def on_device(values: np.ndarray | sp.csr_array, device: str) -> Tensor:
    """Return the values as a tensor on a device, or unchanged for 'cpu'; do not write to them: they may be shared.

    A sparse matrix is for products with dense ones.
    """
    if device == CPU:
        return values
    import torch

    if sp.issparse(values):
        matrix = sp.coo_array(values)
        places, entries = torch.as_tensor(np.array(matrix.coords)), torch.as_tensor(matrix.data)
        return torch.sparse_coo_tensor(places, entries, matrix.shape, check_invariants=True).to(device)
    # The processes of `n_jobs` get arrays that are not writable.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.as_tensor(values).to(device)


def free_on_device(values: Tensor | str) -> float | None:
    """Return the free bytes of a GPU, or of the one that holds `values`; None for the machine's own memory."""
    device = values if isinstance(values, str) else CPU if library(values) is np else str(values.device)
    if not device.startswith("cuda"):
        return None
    import torch

    return float(torch.cuda.mem_get_info(device)[0])


def as_numpy(values: Tensor) -> Any:
    """Return the values as a NumPy array on the CPU."""
    return values if library(values) is np else values.cpu().numpy()


def filled(like: Tensor, shape: int | tuple[int, ...], value: float) -> Tensor:
    """Return a new array of this shape, filled with `value`, of the library, precision and device of `like`."""
    if library(like) is np:
        return np.full(shape, value, like.dtype if like.dtype.kind == "f" else None)
    return like.new_full((shape,) if isinstance(shape, int) else shape, value)


def in_precision(name: str, values: Tensor) -> Tensor:
    """Convert to 'float32' or 'float64'; numbers too large for single precision become inf."""
    if library(values) is not np:
        return values.to(getattr(library(values), name))
    with np.errstate(over="ignore"):
        return values.astype(name)


def all_finite(values: Tensor) -> bool:
    """Return True if no number is NaN or infinite."""
    if library(values) is np:
        return bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())
    return bool(values.isfinite().all())


def add_to_diagonal_(matrix: Tensor, values: Tensor) -> None:
    """Add values (n,), or a number, to the diagonal of a matrix (n, n), in place."""
    if isinstance(matrix, np.ndarray):
        np.einsum("ii->i", matrix)[...] += values
    else:
        matrix.diagonal().add_(values)


def lu_factor(matrix: Tensor) -> Any:
    """Return the LU factors of a matrix (n, n), for `lu_solve`; None if it is singular."""
    if library(matrix) is not np:
        *factors, singular = library(matrix).linalg.lu_factor_ex(matrix)
    else:
        *factors, singular = lapack.dgetrf(matrix)
    return None if singular else factors


def lu_solve(factors: Any, right: Tensor) -> Tensor:
    """Return the x with Mx = right (n,)."""
    if library(right) is not np:
        return library(right).linalg.lu_solve(*factors, right[:, None])[:, 0]
    return lapack.dgetrs(*factors, right)[0]


class Factor(ABC):
    """Factor of a positive definite matrix M, to solve systems with it."""

    #: x ↦ Mx for x (n,), to refine solutions with; None for factors in double precision.
    product: Product | None = None
    #: True if solutions may need many such products, by conjugate gradients.
    coarse = False

    @abstractmethod
    def solve(self, right: Tensor) -> Tensor:
        """Return M⁻¹ right for right (n, r)."""

    def roughly(self, right: Tensor) -> Tensor:
        """Return M⁻¹ right without refinement, for the border of a system whose solutions are refined."""
        return self.solve(right)


class DenseFactor(Cholesky, Factor):
    """The Cholesky factor of a matrix (n, n), which it overwrites; LinAlgError unless it is positive definite."""


class SingleFactor(DenseFactor):
    """The Cholesky factor of a matrix in single precision, in half the time and memory."""

    coarse = True

    def __init__(self, matrix: Tensor, product: Product) -> None:
        super().__init__(matrix)
        self.product = product

    def solve(self, right: Tensor) -> Tensor:
        # Columns may exceed the range of single precision.
        scale = library(right).amax(abs(right), axis=0).clip(TINY)
        return in_precision("float64", super().solve(in_precision("float32", right / scale))) * scale


class LowRank(ABC):
    """Base class of matrices B (n, r) that are accessed only through products."""

    #: Σ B_ij².
    size: Tensor

    @abstractmethod
    def times(self, V: Tensor) -> Tensor:
        """Return BV for V (r, m)."""

    @abstractmethod
    def adjoint(self, x: Tensor) -> Tensor:
        """Return Bᵀx for x (n, m)."""

    @abstractmethod
    def moment(self, weights: Tensor) -> Tensor:
        """Return Bᵀ diag(weights) B for weights ≥ 0 (n,), as a new array."""


class ColumnBlocks(LowRank):
    """A matrix B that is stored as an array."""

    def __init__(self, B: Tensor) -> None:
        self.B, self.size = B, library(B).linalg.norm(B) ** 2

    def times(self, V: Tensor) -> Tensor:
        return self.B @ V

    def adjoint(self, x: Tensor) -> Tensor:
        return self.B.T @ x

    def moment(self, weights: Tensor) -> Tensor:
        return gram((self.B * weights[:, None] ** 0.5).T)


class OneRowMore(LowRank):
    """A matrix B with one more row (r,) at the end."""

    def __init__(self, B: LowRank, row: Tensor) -> None:
        self.B, self.row, self.size = B, row, B.size + row @ row

    def times(self, V: Tensor) -> Tensor:
        return library(V).vstack([self.B.times(V), self.row @ V])

    def adjoint(self, x: Tensor) -> Tensor:
        return self.B.adjoint(x[:-1]) + self.row[:, None] * x[-1]

    def moment(self, weights: Tensor) -> Tensor:
        matrix = self.B.moment(weights[:-1])
        matrix += (weights[-1] * self.row)[:, None] * self.row
        return matrix


class LowRankFactor(Factor):
    """BBᵀ + D for B (n, r) and a diagonal D ≥ 0, by Woodbury's identity: the Cholesky factor of 1 + BᵀD⁻¹B (r, r).

    M⁻¹a = D⁻¹(a − B(1 + BᵀD⁻¹B)⁻¹BᵀD⁻¹a), refined once, as D may contain numbers that are nearly 0.
    """

    product: Product

    def __init__(self, B: LowRank, D: Tensor) -> None:
        self.product = lambda x: B.times(B.adjoint(x[:, None]))[:, 0] + D * x
        D = D.clip(LEAST_DIAGONAL * B.size / max(len(D), 1))
        self.B, self.D, inner = B, D[:, None], B.moment(1 / D)
        add_to_diagonal_(inner, 1.0)
        self.inner = DenseFactor(inner)

    def solve(self, right: Tensor) -> Tensor:
        x = self.roughly(right)
        missing = right - self.D * x
        missing -= self.B.times(self.B.adjoint(x))
        x += self.roughly(missing)
        return x

    def roughly(self, right: Tensor) -> Tensor:
        x = right - self.B.times(self.inner.solve(self.B.adjoint(right / self.D)))
        x /= self.D
        return x


class PartialFactor(Factor):
    """K + D for a kernel K (n, n), by a partial Cholesky factor from few of its columns.

    With D^(−½)KD^(−½) = LLᵀ + a remainder, L (n, r), M⁻¹ ≈ D^(−½)(1 − L(1 + LᵀL)⁻¹Lᵀ)D^(−½), which conjugate gradients
    refine. The first column is `first`, with K − first firstᵀ positive semidefinite. Further pivots are drawn in
    blocks, in proportion to the diagonal of the remainder (randomly pivoted Cholesky). `columns` returns the columns of
    K of given samples, shape (n, m), in single precision.
    """

    product: Product
    coarse = True

    def __init__(
        self,
        columns: Callable[[np.ndarray], Tensor],
        diagonal: Tensor,
        first: Tensor,
        D: Tensor,
        product: Product,
        settings: Settings,
    ) -> None:
        self.product, n = product, len(D)
        root = in_precision("float32", D**-0.5)
        random, most = np.random.default_rng(0), max(1, int(settings.partial_rank * n))
        L, r = filled(root, (n, most), 0.0), 1
        L[:, 0] = in_precision("float32", (1 + FIRST_COLUMN) * first) * root
        left = self._remainder(as_numpy(diagonal / D), L[:, :1])
        while r < most and left.mean() > settings.partial_remainder:
            pivots = np.unique(random.choice(n, min(settings.partial_pivots, most - r), p=left / left.sum()))
            new = columns(pivots) * root[:, None]
            new *= root[pivots]
            new -= L[:, :r] @ L[pivots, :r].T
            corner = 1 * new[pivots]
            add_to_diagonal_(corner, PIVOT_SHIFT * corner.diagonal().max())
            try:
                L[:, r : r + len(pivots)] = Cholesky(corner).divided(new)
            except np.linalg.LinAlgError:
                break
            left = self._remainder(left, L[:, r : r + len(pivots)])
            left[pivots] = 0.0
            r += len(pivots)
        # Built in single precision, used in doubles: rounding would hide what is small next to the first columns.
        self.L, self.root = in_precision("float64", L[:, :r]), D**-0.5
        del L, root
        inner = gram(self.L.T)
        add_to_diagonal_(inner, 1.0)
        self.inner = DenseFactor(inner)

    @staticmethod
    def _remainder(left: np.ndarray, columns: Tensor) -> np.ndarray:
        """Return `left` (n,), the diagonal of the remainder, minus that of CCᵀ for new `columns` C (n, r); ≥ 0."""
        return np.maximum(left - as_numpy((columns**2).sum(axis=1)), 0.0)

    def solve(self, right: Tensor) -> Tensor:
        v = right * self.root[:, None]
        v -= self.L @ self.inner.solve(self.L.T @ v)
        v *= self.root[:, None]
        return v


class BorderedFactor:
    """Factor of the system Mx + Cy = a, Cᵀx + Dy = b, for a `factor` of M, `columns` C (n, r) and `corner` D (r, r).

    ArithmeticError is raised if the system is singular.
    """

    def __init__(self, factor: Factor, columns: Tensor, corner: Tensor) -> None:
        self.factor, self.coarse, self.columns, self.corner = factor, factor.coarse, columns, corner
        self.solved = factor.roughly(columns)
        self.border = lu_factor(corner - columns.T @ self.solved)
        if self.border is None:
            raise ArithmeticError("the bordered system is singular")

    def solve(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and y for a (n,) and b (r,), as accurately as the factor allows."""
        Ma = self.factor.solve(a[:, None])[:, 0]
        y = lu_solve(self.border, b - self.columns.T @ Ma)
        Ma -= self.solved @ y
        return Ma, y

    def solve_to(self, settings: Settings, a: Tensor, b: Tensor, affordable: int) -> tuple[Tensor, Tensor] | None:
        """Return x and y, refined to double precision; None if a coarse factor needs more than `affordable` products.

        A factor that is too coarse for refinement preconditions conjugate gradients.
        """
        x, y = self.solve(a, b)
        product = self.factor.product
        if product is None:
            return x, y
        for _ in range(REFINEMENTS):
            left = a - product(x)
            left -= self.columns @ y
            off, whole = abs(left).max(), abs(a).max()
            fine = off <= settings.coarse_residual * whole
            if off <= EXACT * whole or not (fine or self.coarse):
                break
            if not fine:
                enough = settings.gradients_residual**2 * (a @ self.factor.solve(a[:, None])[:, 0])
                return self._by_conjugate_gradients(product, affordable, enough, left, x, y)
            more, correction = self.solve(left, b - self.columns.T @ x - self.corner @ y)
            x, y = x + more, y + correction
        return x, y

    def _by_conjugate_gradients(
        self, product: Product, affordable: int, enough: Tensor, left: Tensor, x: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Return x and y, refined until the residual `left` of a has at most the square `enough` in the norm of M⁻¹.

        b has no residual. The result is None also if rounding leaves the preconditioner indefinite.
        """
        ahead, beside = self.solve(left, 0 * y)
        size, steps = left @ ahead, 0
        along = ahead, beside
        while size > enough and steps < affordable:
            change = product(along[0]) + self.columns @ along[1]
            length = size / (along[0] @ change)
            x, y, left = x + length * along[0], y + length * along[1], left - length * change
            ahead, beside = self.solve(left, 0 * y)
            new = left @ ahead
            along, size, steps = (ahead + new / size * along[0], beside + new / size * along[1]), new, steps + 1
        return (x, y) if 0 <= size <= enough else None
