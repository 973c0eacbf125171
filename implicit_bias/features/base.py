"""Features, the one data structure of this toolkit: their methods, and those made of blocks or kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias._utils.blocks import ROWS, row_blocks, symmetric_blocks
from implicit_bias._utils.checks import Array, InputError, as_floats, as_numbers, as_rows, check_range, finite, shown
from implicit_bias._utils.rounding import UNIT, precise_product, share, two_sum
from implicit_bias._utils.scaling import TINY, largest_entries, length, without_exponent
from implicit_bias.features.patterns import PatternBlocks

#: Numbers of a dense chunk of samples.
AT_ONCE = 2**25


class Features(ABC):
    """n samples as a linear operator Φ: R^{k×d} → R^n on weights W of k gates (or blocks) with d numbers each.

        (ΦW)_i = Σ_j ⟨w_j, φ_j(x_i)⟩;   gated linear features have φ_j(x) = g_j(x) x, that is, Φ(x) = g(x) ⊗ x

    Every system of this toolkit fits such features and asks them through the methods below: a max-margin fit (`solve`),
    a least-squares fit (`least_squares`), a gradient flow (`gated_flow`); the output of a network whose gates stay is
    ΦW, too, in its effective weights W.

    A kind of features is a subclass with `shape` and `dense`. Everything else follows from these two; a kind that need
    not form Φ overrides what its structure makes cheaper, as `GatedFeatures` does: then `select`, too. A problem built
    with features of your own tries on a few samples whether the methods agree with each other.

    Examples
    --------
    Windows of a signal, φ_j(x) = (x_j, x_{j+1}), with the group lasso to choose among them:

    >>> import numpy as np
    >>> from implicit_bias.features import Features
    >>> from implicit_bias import GroupLasso, MarginProblem, solve
    >>> class Windows(Features):
    ...     def __init__(self, X):
    ...         self.X = np.asarray(X)
    ...     @property
    ...     def shape(self):
    ...         return len(self.X), self.X.shape[1] - 1, 2
    ...     def dense(self):
    ...         return np.lib.stride_tricks.sliding_window_view(self.X, 2, axis=1).reshape(self.n, -1)
    >>> features = Windows([[0.0, 0.0, 2.0, 1.0], [1.0, 0.0, -1.0, -2.0]])
    >>> solution = solve(MarginProblem(features, [1, -1], GroupLasso(range(features.k))))
    >>> solution.status.name, (np.linalg.norm(solution.weights, axis=1) > 1e-4).tolist()
    ('OPTIMAL', [False, False, True])
    """

    #: The arrays that the class is made from again, in the order that it takes them; None if it is not saved.
    made_of: tuple[str, ...] | None = None
    #: g_j(x_i), shape (n, k), of features Φ(x) = g(x) ⊗ x; None of others.
    gate_values: Array | None = None
    #: True if the samples are available.
    kept = True

    #: Whether the methods of the class are known to agree. A class sets it in its own body; classes derived from it are
    #: checked as all others when a problem is built.
    verified = False

    @property
    def needs_check(self) -> bool:
        """True if the methods are compared on a few samples when a problem is built."""
        return not vars(type(self)).get("verified", False)

    @property
    def gated(self) -> bool:
        """True for features Φ(x) = g(x) ⊗ x."""
        return self.gate_values is not None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(n, k, d)."""

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in zip("nkd", self.shape, strict=False))
        return f"{type(self).__name__}({sizes})"

    @abstractmethod
    def dense(self) -> Array:
        """Φ as a matrix (n, k·d), gate-major columns."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.shape[0]

    @property
    def k(self) -> int:
        """Number of gates, or blocks."""
        return self.shape[1]

    @property
    def d(self) -> int:
        """Number of inputs, or the length of a block."""
        return self.shape[2]

    def apply(self, W: Any) -> Array:
        """ΦW for weights W (k, d); returns (n,)."""
        W = as_numbers(W, (self.k, self.d), "weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return self.dense() @ W.ravel()

    def __matmul__(self, W: Any) -> Array:
        return self.apply(W)

    def adjoint(self, a: Any) -> Array:
        """Φᵀa for sample weights a (n,); returns (k, d)."""
        a = as_numbers(a, (self.n,), "sample weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return (a @ self.dense()).reshape(self.k, self.d)

    def magnitudes(self, W: Any) -> Array:
        """Σ_j ⟨|w_j|, |φ_j(x_i)|⟩ for W (k, d), which the rounding of (ΦW)_i is a share of; shape (n,)."""
        w = np.abs(as_numbers(W, (self.k, self.d), "weights")).ravel()
        return np.concatenate([np.abs(rows) @ w for rows in np.array_split(self.dense(), max(1, self.n // ROWS))])

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """ΦW as the sum of two arrays (n,), and a bound (n,) of their error: a share of `magnitudes` per term.

        `precise`: by error-free products, an error far below that of one rounding.
        """
        if not precise:
            f = self.apply(W)
            return f, np.zeros(self.n), self._terms * self._vanishing + share(2 * self._terms) * self.magnitudes(W)
        w = as_numbers(W, (self.k, self.d), "weights").reshape(-1, 1)
        parts = [precise_product(rows, w) for rows in np.array_split(self.dense(), max(1, self.n // ROWS))]
        upper, lower, error = (np.concatenate(part)[:, 0] for part in zip(*parts, strict=True))
        return upper, lower, error + self._terms * self._vanishing

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """Φᵀa as the sum of two arrays (k, d), and a bound (k,) of the lengths of their rows' errors.

        As `apply_bounded`; samples with a_i = 0 play no part.
        """
        a = as_numbers(a, (self.n,), "sample weights")
        used = np.flatnonzero(a)
        if 0 < len(used) < self.n:
            return self.select(used).adjoint_bounded(a[used], precise)
        if not precise:
            terms = 2 * (self.n + self.d + 2)
            with np.errstate(over="ignore", invalid="ignore"):
                sizes = np.abs(a) @ self._block_lengths()
            return self.adjoint(a), np.zeros((self.k, self.d)), terms * self._vanishing + share(terms) * sizes
        upper, lower, error = np.zeros((3, self.k, self.d))
        for rows in row_blocks(self.n):
            more, rest, off = self._adjoint_precisely(rows, a[rows])
            upper, lost = two_sum(upper, more)
            lower, error = lower + (lost + rest), error + off + 4 * UNIT * (np.abs(lower) + np.abs(lost) + np.abs(rest))
        vanished = self.n * self._vanishing * self.d
        return upper, lower, np.asarray(length(error, axis=1)) * (1 + share(self.d + 4)) + vanished

    def _adjoint_precisely(self, rows: slice, a: Array) -> tuple[Array, Array, Array]:
        """Φᵀa of some rows by error-free products: two arrays (k, d), and a bound of each entry's error."""
        parts = precise_product(a[None], self.select(rows).dense())
        upper, lower, error = (part.reshape(self.k, self.d) for part in parts)
        return upper, lower, error

    @property
    def _terms(self) -> int:
        """Number of roundings of a sum (ΦW)_i, or more."""
        return self.k * self.d + 2

    @property
    def _vanishing(self) -> float:
        """Largest loss of a term that underflows."""
        return float(TINY)

    def _block_lengths(self) -> Array:
        """‖φ_j(x_i)‖, shape (n, k)."""
        return np.asarray(length(self._blocks(), axis=2))

    def gram(self) -> Array:
        """ΦΦᵀ, shape (n, n). Raises InputError if that overflows."""
        dense, by = without_exponent(self.dense())
        with np.errstate(over="ignore"):
            return finite(np.ldexp(dense @ dense.T, 2 * by))

    def weight_gram(self) -> Array:
        """ΦᵀΦ, shape (kd, kd), summed over chunks of samples."""
        size = self.k * self.d
        chunk = max(1, AT_ONCE // size)

        def entries(rows: slice, columns: slice) -> Array:
            total = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
            for first in range(0, self.n, chunk):
                dense = self.select(slice(first, first + chunk)).dense()
                total += dense[:, rows].T @ dense[:, columns]
            return total

        return symmetric_blocks(size, entries)

    def row_norms(self, units: Any = 1.0) -> Array:
        """‖φ(x_i)‖ with the inputs in `units` u (d,), shape (n,)."""
        return np.asarray(length((self._blocks() / units).reshape(self.n, -1), axis=1))

    def units(self) -> Array:
        """Units of the inputs that make their sizes similar, shape (d,); here ones."""
        return np.ones(self.d)

    def in_units(self, units: Array) -> Features:
        """The features of inputs in `units` u (d,); themselves where they have no units."""
        return self

    def largest(self) -> Array:
        """A bound of |φ_jl(x_i)| over the samples, shape (k, d)."""
        return np.asarray(np.abs(self._blocks()).max(axis=0))

    def closed(self) -> np.ndarray:
        """True where φ(x_i) = 0, shape (n,)."""
        return np.asarray(~self.dense().any(axis=1))

    def scale(self) -> float:
        """√(mean ‖φ(x_i)‖²/k), the root mean square length of the inputs or blocks; 1 if they are all zero."""
        return float(length(self.dense())) / float(np.sqrt(self.n * self.k)) or 1.0

    def scaled(self, factor: float) -> Features:
        """The features times `factor`."""
        return _explicit(as_factor(factor) * self._blocks())

    def mixed(self, T: Any) -> Features:
        """The features Φ̂ with Φ̂Ŵ = Φ(TŴ) for T (k, k̂)."""
        T = as_mixing(T, self.k)
        return _explicit(np.einsum("nkr,kj->njr", self._blocks(), T.toarray() if hasattr(T, "toarray") else T))

    def select(self, rows: Any) -> Features:
        """The features of some samples only (a mask or indices)."""
        return _explicit(self._blocks()[as_rows(rows, self.n)])

    def reduced(self) -> tuple[Features, Array]:
        """Return the same operator on fewer inputs if some are superfluous, and the V (d, r) of the way back.

        Φ̃W̃ = Φ(W̃Vᵀ), VᵀV = I. Here itself: blocks have no rotation in common.
        """
        return self, np.eye(self.d)

    def shared(self) -> PatternBlocks:
        """ΦW with as few nonzeros as may be; here every gate is a block of its own."""
        return PatternBlocks(sp.eye_array(self.k, format="csr"), sp.csr_array(self.dense()))

    def _blocks(self) -> Array:
        """φ_j(x_i), shape (n, k, d)."""
        return self.dense().reshape(self.shape)


def _explicit(blocks: Array) -> Features:
    return KernelFeatures(blocks)


def as_factor(value: Any) -> float:
    """A finite factor of all features."""
    return float(as_floats([value], "the factor", 1)[0])


def as_mixing(T: Any, gates: int) -> Any:
    """A matrix (k, k̂), dense or sparse."""
    T = T if hasattr(T, "tocsr") else as_floats(T, "the mixing matrix", 2)
    if T.shape[0] != gates:
        raise InputError(f"the mixing matrix must have {gates} rows, one per gate, not {T.shape[0]}")
    return T


#: Residual of the pivoted Cholesky factorisation, relative to the largest entry, up to which a kernel counts as
#: positive semidefinite.
ROUNDING = 1e-10


def pivoted_cholesky(K: Array) -> Array | None:
    """A (n, r) with AAᵀ = K up to rounding, r the numerical rank; None if a symmetric K is not positive semidefinite.

    >>> pivoted_cholesky(np.array([[4.0, 2.0], [2.0, 1.0]])).tolist()
    [[2.0], [1.0]]
    """
    largest = float(np.abs(K).max())
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=len(K) * np.finfo(float).eps * largest, lower=1)
    order, rank = order - 1, rank if largest > 0 else 0
    factor, rest = np.tril(factor)[:, :rank], order[rank:]
    if np.abs(K[np.ix_(rest, rest)] - factor[rank:] @ factor[rank:].T).max(initial=0.0) > ROUNDING * largest:
        return None
    found = np.empty_like(factor)
    found[order] = factor
    return found


@dataclass(frozen=True, eq=False, repr=False)
class KernelFeatures(Features):
    """Features of k blocks with φ_j(x) ∈ R^r each: (ΦW)_i = Σ_j ⟨w_j, φ_j(x_i)⟩, block kernels K_j = Φ_jΦ_jᵀ.

    They stand where `GatedFeatures` do: a `MarginProblem` with `GroupLasso` over the blocks is multiple-kernel
    learning, with `Frobenius` the support vector machine of the sum of the kernels (without an intercept).

    Parameters
    ----------
    factors : array, shape (n, k, r)
        φ_j(x_i), for explicit features; shorter blocks are filled up with zeros. For kernels: `from_kernels`.

    Raises
    ------
    InputError
        If the array is empty, not finite or not three-dimensional, or has sizes beyond 1e-280 to 1e280.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import GroupLasso, KernelFeatures, MarginProblem, solve
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0]])
    >>> features = KernelFeatures.from_kernels([X @ X.T, (X @ X.T) ** 2])
    >>> solution = solve(MarginProblem(features, [1, 1, -1], GroupLasso([0, 1])))
    >>> scores = features.extended([X @ X.T, (X @ X.T) ** 2]) @ solution.weights
    >>> solution.status.name, bool((scores * [1, 1, -1] > 0.999999).all())
    ('OPTIMAL', True)
    """

    factors: Array
    made_of = ("factors",)
    verified = True

    def __post_init__(self) -> None:
        factors = as_floats(self.factors, "factors", 3)
        check_range(largest_entries(factors), "the factors")
        object.__setattr__(self, "factors", factors)

    @classmethod
    def from_kernels(cls, kernels: Any) -> KernelFeatures:
        """The features of positive semidefinite kernels, shape (k, n, n): K_j = Φ_jΦ_jᵀ by pivoted Cholesky factors.

        Raises InputError if one is not symmetric or not positive semidefinite.
        """
        stack = as_floats(kernels, "kernels", 3)
        if stack.shape[1] != stack.shape[2]:
            raise InputError(f"kernels must have shape (k, n, n), not {stack.shape}; for new samples use extended()")
        factors = np.zeros((stack.shape[1], len(stack), stack.shape[1]))
        for j, K in enumerate(stack):
            if not np.allclose(K, K.T, rtol=1e-9, atol=1e-12 * np.abs(K).max()):
                raise InputError(f"kernel {j} is not symmetric; give (K + K.T) / 2 if that is rounding")
            factor = pivoted_cholesky(K)
            if factor is None:
                least = scipy.linalg.eigvalsh(K)[0]
                raise InputError(
                    f"kernel {j} is not positive semidefinite (eigenvalue {least:.1e}); add to its diagonal"
                )
            factors[:, j, : factor.shape[1]] = factor
        used = max(1, int(factors.any(axis=(0, 1)).sum()))
        return cls(factors[:, :, :used])

    def extended(self, kernels: Any) -> KernelFeatures:
        """The features of m new samples from their kernels with the n old ones, shape (k, m, n)."""
        cross = as_floats(kernels, "kernels", 3)
        if cross.shape[::2] != (self.k, self.n):
            raise InputError(f"kernels must have shape ({self.k}, m, {self.n}), not {cross.shape}")
        return KernelFeatures(
            np.stack([block @ np.linalg.pinv(self.factors[:, j]).T for j, block in enumerate(cross)], axis=1)
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        n, k, r = self.factors.shape
        return n, k, r

    def dense(self) -> Array:
        """Φ as a matrix (n, k·r), block-major columns."""
        return self.factors.reshape(self.n, -1)


@dataclass(frozen=True, eq=False, repr=False)
class UnkeptFeatures(Features):
    """Numbers of samples, gates and inputs of features that were not kept; what needs the samples is refused.

    >>> from implicit_bias import InputError
    >>> try:
    ...     UnkeptFeatures((4, 20, 31), products=True).row_norms()
    ... except InputError as error:
    ...     print(error)
    the 4 samples were not saved with the model: replace its problem's features by theirs, or save it with samples=True
    """

    sizes: tuple[int, int, int]
    products: bool

    kept = False
    verified = True

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.sizes

    @property
    def gated(self) -> bool:
        return self.products

    def dense(self) -> Array:
        raise InputError(
            f"the {self.n} samples were not saved with the model: replace its problem's features by theirs, "
            "or save it with samples=True"
        )


#: Samples that are looked at.
TRIED = 5


def check_features(features: Features) -> None:
    """Raise InputError if the methods of features contradict `dense` on some samples, for random weights."""
    sizes = features.shape
    whole = isinstance(sizes, tuple) and len(sizes) == 3 and all(isinstance(s, int | np.integer) for s in sizes)
    _claim(features, whole and min(sizes) > 0, f"shape must be three whole numbers (n, k, d), not {shown(sizes)}")
    n, k, d = sizes
    rows = np.unique(np.linspace(0, n - 1, TRIED).astype(int))
    # Features that can select need not be able to form Φ.
    few = features if type(features).select is Features.select else features.select(rows)
    A, size = few.dense(), (n if few is features else len(rows), k * d)
    fine = isinstance(A, np.ndarray) and A.dtype == np.float64 and A.shape == size and bool(np.isfinite(A).all())
    found = f"{A.dtype} {A.shape}" if isinstance(A, np.ndarray) else shown(A)
    _claim(features, fine, f"dense() must be a finite float64 array of shape (n, k·d), here {size}, not {found}")
    A = A[rows] if few is features else A
    rng = np.random.default_rng(0)
    W, a, room = rng.normal(size=(k, d)), np.zeros(n), 4 * share(2 * (k * d + n))
    a[rows] = rng.normal(size=len(rows))
    reach = np.abs(A) @ np.abs(W.ravel())
    _agree(features, "apply", features.apply(W)[rows], A @ W.ravel(), room * reach)
    _agree(features, "adjoint", features.adjoint(a).ravel(), a[rows] @ A, room * (np.abs(a[rows]) @ np.abs(A)))
    _agree(features, "magnitudes", features.magnitudes(W)[rows], reach, room * reach)
    lengths = np.sqrt((A**2).sum(axis=1))
    _agree(features, "row_norms", features.row_norms()[rows], lengths, 1e-9 * lengths)
    _agree(features, "closed", features.closed()[rows], np.asarray(~A.any(axis=1)), np.zeros(len(rows)))


def _agree(features: Features, name: str, found: Any, expected: np.ndarray, room: Array) -> None:
    found = np.asarray(found, dtype=np.float64)
    fine = found.shape == expected.shape and bool((np.abs(found - expected) <= room).all())
    _claim(features, fine, f"{name}() is not what dense() says: {shown(found)} where that gives {shown(expected)}")


def _claim(features: Features, holds: bool, text: str) -> None:
    if not holds:
        raise InputError(f"features {type(features).__name__}: {text}")
