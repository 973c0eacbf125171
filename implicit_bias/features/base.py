"""Base class of features, features of kernels, and features without samples."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias._utils import floats
from implicit_bias._utils.blocks import ROWS, Cholesky, gram, row_blocks, symmetric_blocks
from implicit_bias._utils.checks import Array, InputError, as_floats, as_numbers, as_rows, check_range, finite, shown
from implicit_bias._utils.floats import TINY, UNIT
from implicit_bias.features.patterns import PatternBlocks

#: Largest number of entries of a dense chunk of samples.
CHUNK_SIZE = 2**25
#: Asymmetry, residual of the Cholesky factorisation and negative eigenvalue of a kernel in double precision that count
#: as rounding, relative to its largest entry or eigenvalue.
SEMIDEFINITE_RTOL = 1e-10
#: The same for a kernel in single precision: rounding of sums over about a thousand inputs.
SEMIDEFINITE_RTOL_SINGLE = 1e-4
#: Negative eigenvalue of a kernel, as a share of its largest entry, up to which a Cholesky factorisation proves it
#: positive semidefinite: the rounding of its entries.
CHOLESKY_RTOL = 1e-12
#: Number of samples on which `check_features` compares the methods.
CHECKED_SAMPLES = 5


class Features(ABC):
    """Base class of features: n samples as a linear operator Φ: R^{k×d} → R^n on weights of k gates or blocks.

        (ΦW)_i = Σ_j ⟨w_j, φ_j(x_i)⟩;   gated linear features have φ_j(x) = g_j(x) x, that is, Φ(x) = g(x) ⊗ x

    All models of this package fit such features: max-margin problems (`solve`), least squares (`least_squares`) and
    gradient flows (`gated_flow`). The output of a network with fixed gates is ΦW, where W are its effective weights.

    A subclass defines `shape` and `dense`, and inherits all other methods. To avoid the matrix Φ it overrides the
    methods that its structure makes cheaper, including `select`, like `GatedFeatures`. When a problem is built with
    user-defined features, their methods are compared on a few samples.

    Examples
    --------
    Use the group lasso to select windows of a signal, φ_j(x) = (x_j, x_{j+1}):

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

    #: Attributes that are the parameters of saved features, in order; None if the class cannot be saved.
    made_of: tuple[str, ...] | None = None
    #: g_j(x_i), shape (n, k), of features Φ(x) = g(x) ⊗ x; None for other features.
    gate_values: Array | None = None
    #: False if the samples are missing, as in `UnkeptFeatures`.
    kept = True
    #: Farkas residual that rounding of Φ may leave; 0 if `dense` is exact, so that rational arithmetic may prove it.
    unresolved = 0.0
    #: True if the methods of the class are tested. Each class sets this itself; subclasses do not inherit it and are
    #: checked when a problem is built.
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
        """Numbers (n, k, d) of samples, gates or blocks, and inputs or entries of a block."""

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in zip("nkd", self.shape, strict=False))
        return f"{type(self).__name__}({sizes})"

    @abstractmethod
    def dense(self) -> Array:
        """Matrix Φ (n, k·d), with columns ordered by gate."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.shape[0]

    @property
    def k(self) -> int:
        """Number of gates or blocks."""
        return self.shape[1]

    @property
    def d(self) -> int:
        """Number of inputs or of entries of a block."""
        return self.shape[2]

    def apply(self, W: Any) -> Array:
        """Return ΦW (n,) for weights W (k, d)."""
        W = as_numbers(W, (self.k, self.d), "weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return self.dense() @ W.ravel()

    def __matmul__(self, W: Any) -> Array:
        return self.apply(W)

    def adjoint(self, a: Any) -> Array:
        """Return Φᵀa (k, d) for sample weights a (n,)."""
        a = as_numbers(a, (self.n,), "sample weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return (a @ self.dense()).reshape(self.k, self.d)

    def magnitudes(self, W: Any) -> Array:
        """Return ``Σ_j ⟨|w_j|, |φ_j(x_i)|⟩`` (n,) for W (k, d); rounding errors of (ΦW)_i are relative to it."""
        w = np.abs(as_numbers(W, (self.k, self.d), "weights")).ravel()
        return np.concatenate([np.abs(rows) @ w for rows in np.array_split(self.dense(), max(1, self.n // ROWS))])

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """Return upper, lower and error, each (n,), with ``|ΦW − (upper + lower)| ≤ error``.

        By default lower is 0, and the errors are relative to `magnitudes`. `precise` uses error-free products, with
        errors far below that of one rounding.
        """
        if not precise:
            error = self._terms * self._vanishing + floats.share(2 * self._terms) * self.magnitudes(W)
            return self.apply(W), np.zeros(self.n), error
        w = as_numbers(W, (self.k, self.d), "weights").reshape(-1, 1)
        parts = [floats.precise_product(rows, w) for rows in np.array_split(self.dense(), max(1, self.n // ROWS))]
        upper, lower, error = (np.concatenate(part)[:, 0] for part in zip(*parts, strict=True))
        return upper, lower, error + self._terms * self._vanishing

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """Return upper and lower (k, d), and error (k,), with ‖(Φᵀa − upper − lower)_j‖₂ ≤ error_j for each row j.

        With `precise`, Φᵀa is computed in pairs of doubles; otherwise upper = `adjoint(a)` and lower = 0. Samples
        with a_i = 0 are skipped.
        """
        a = as_numbers(a, (self.n,), "sample weights")
        used = np.flatnonzero(a)
        if 0 < len(used) < self.n:
            return self.select(used).adjoint_bounded(a[used], precise)
        if not precise:
            terms = 2 * (self.n + self.d + 2)
            with np.errstate(over="ignore", invalid="ignore"):
                sizes = self._adjoint_sizes(np.abs(a))
            return self.adjoint(a), np.zeros((self.k, self.d)), terms * self._vanishing + floats.share(terms) * sizes
        upper, lower, error = np.zeros((3, self.k, self.d))
        for rows in row_blocks(self.n):
            more, rest, off = self._adjoint_precisely(rows, a[rows])
            upper, lost = floats.two_sum(upper, more)
            lower, error = lower + (lost + rest), error + off + 4 * UNIT * (np.abs(lower) + np.abs(lost) + np.abs(rest))
        vanished = self.n * self._vanishing * self.d
        return upper, lower, np.asarray(floats.length(error, axis=1)) * (1 + floats.share(self.d + 4)) + vanished

    def _adjoint_sizes(self, a: Array) -> Array:
        """Return Σ_i a_i ‖φ_j(x_i)‖, shape (k,), for a (n,) ≥ 0."""
        return np.asarray(a @ self.block_lengths())

    def _adjoint_precisely(self, rows: slice, a: Array) -> tuple[Array, Array, Array]:
        """Return upper, lower and error (k, d) with |Φᵀa − (upper + lower)| ≤ error, Φ and a (m,) of the m `rows`."""
        parts = floats.precise_product(a[None], self.select(rows).dense())
        upper, lower, error = (part.reshape(self.k, self.d) for part in parts)
        return upper, lower, error

    @property
    def _terms(self) -> int:
        """Upper bound of the number of roundings of a sum (ΦW)_i."""
        return self.k * self.d + 2

    @property
    def _vanishing(self) -> float:
        """Largest absolute error of a term w_jl φ_jl(x_i) that underflows."""
        return float(TINY)

    def block_lengths(self) -> Array:
        """Lengths ‖φ_j(x_i)‖, shape (n, k)."""
        return np.asarray(floats.length(self._blocks(), axis=2))

    def gram(self) -> Array:
        """Return ΦΦᵀ (n, n); raise InputError if it overflows."""
        dense, by = floats.without_exponent(self.dense())
        with np.errstate(over="ignore"):
            return finite(np.ldexp(gram(dense), 2 * by))

    def weight_gram(self) -> Array:
        """Return ΦᵀΦ (kd, kd), ordered by gate; the sum is over chunks of samples, and Φ is not formed at once."""
        size = self.k * self.d
        chunks = row_blocks(self.n, max(1, CHUNK_SIZE // size))

        def product(samples: slice, rows: slice, columns: slice) -> Array:
            dense = self.dense() if len(chunks) == 1 else self.select(samples).dense()
            return dense[:, rows].T @ dense[:, columns]

        def entries(rows: slice, columns: slice) -> Array:
            total = product(chunks[0], rows, columns)
            for samples in chunks[1:]:
                total += product(samples, rows, columns)
            return total

        return symmetric_blocks(size, entries)

    def row_norms(self, units: Any = 1.0) -> Array:
        """Return √(Σ_j ‖φ_j(x_i)‖²), shape (n,), of the features with inputs divided by `units` (d,)."""
        return np.asarray(floats.length((self._blocks() / units).reshape(self.n, -1), axis=1))

    def units(self) -> Array:
        """Return units (d,) > 0 such that the inputs divided by them have similar sizes; ones by default."""
        return np.ones(self.d)

    def in_units(self, units: Array) -> Features:
        """Return the features of inputs divided by `units` (d,); by default these features."""
        return self

    def largest(self) -> Array:
        """Return ``max_i |φ_jl(x_i)|``, or upper bounds of it, shape (k, d)."""
        return np.asarray(np.abs(self._blocks()).max(axis=0))

    def closed(self) -> np.ndarray:
        """Return a mask (n,) of the samples with φ(x_i) = 0."""
        return np.asarray(~self.dense().any(axis=1))

    def scale(self) -> float:
        """Return √(mean ‖φ(x_i)‖²/k), the root mean square length of the inputs or blocks; 1 if all are zero."""
        return float(floats.length(self.dense())) / float(np.sqrt(self.n * self.k)) or 1.0

    def scaled(self, factor: float) -> Features:
        """Return the features factor · φ(x_i)."""
        return KernelFeatures(as_factor(factor) * self._blocks())

    def mixed(self, T: Any) -> Features:
        """Return the features φ̂_m = Σ_j T_jm φ_j of k̂ blocks for T (k, k̂), dense or sparse: Φ̂Ŵ = Φ(TŴ)."""
        T = as_mixing(T, self.k)
        return KernelFeatures(np.einsum("nkr,kj->njr", self._blocks(), T.toarray() if hasattr(T, "toarray") else T))

    def select(self, rows: Any) -> Features:
        """Return the features of some samples (a mask, a slice or indices)."""
        return KernelFeatures(self._blocks()[as_rows(rows, self.n)])

    def reduced(self) -> tuple[Features, Array]:
        """Return an equivalent operator Φ̃ with r ≤ d inputs, and V (d, r) with Φ̃W̃ = Φ(W̃Vᵀ) and VᵀV = I.

        By default Φ̃ = Φ and V = I, because blocks have no common rotation.
        """
        return self, np.eye(self.d)

    def shared(self) -> PatternBlocks:
        """Return a sparse factorisation ΦW = M vec(SW); by default S = I and M = Φ."""
        return PatternBlocks(sp.eye_array(self.k, format="csr"), sp.csr_array(self.dense()))

    def _blocks(self) -> Array:
        return self.dense().reshape(self.shape)


def as_factor(value: Any) -> float:
    """Return a factor of features as a float; raise InputError unless it is finite."""
    return float(as_floats([value], "the factor", 1)[0])


def as_mixing(T: Any, gates: int) -> Any:
    """Return a matrix (k, k̂), dense or sparse; raise InputError unless it has a row for each gate."""
    T = T if hasattr(T, "tocsr") else as_floats(T, "the mixing matrix", 2)
    if T.shape[0] != gates:
        raise InputError(f"the mixing matrix must have {gates} rows, one per gate, not {T.shape[0]}")
    return T


def pivoted_cholesky(K: Array, rtol: float) -> Array | None:
    """Return A (n, r) with AAᵀ = K up to `rtol` for a symmetric K (n, n), r its numerical rank, which may be 0.

    None is returned if an entry of K − AAᵀ exceeds rtol max|K_ij|, so that K is not positive semidefinite.

    >>> pivoted_cholesky(np.array([[4.0, 2.0], [2.0, 1.0]]), 1e-10).tolist()
    [[2.0], [1.0]]
    """
    largest = float(np.abs(K).max())
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=len(K) * np.finfo(float).eps * largest, lower=1)
    order, rank = order - 1, rank if largest > 0 else 0
    factor, rest = np.tril(factor)[:, :rank], order[rank:]
    if np.abs(K[np.ix_(rest, rest)] - factor[rank:] @ factor[rank:].T).max(initial=0.0) > rtol * largest:
        return None
    unordered = np.empty_like(factor)
    unordered[order] = factor
    return unordered


def _factor(K: Array, name: str) -> Array:
    """Return A (n, r) with AAᵀ = K up to rounding; raise InputError if K is not symmetric positive semidefinite."""
    with np.errstate(over="ignore"):
        # Kernels in single precision have fractions, and float32 represents all entries.
        single = bool((K.astype(np.float32) == K).all() and (K % 1).any())
    rtol = SEMIDEFINITE_RTOL_SINGLE if single else SEMIDEFINITE_RTOL
    if np.abs(K - K.T).max() > rtol * np.abs(K).max():
        raise InputError(f"{name} is not symmetric; give (K + K.T) / 2 if that is rounding")
    factor = pivoted_cholesky(K, SEMIDEFINITE_RTOL)
    if factor is not None:
        return factor
    values, vectors = scipy.linalg.eigh(K)
    if values[0] < -rtol * values[-1]:
        text = f"{name} is not positive semidefinite (eigenvalues from {values[0]:.1e} to {values[-1]:.1e})"
        remedy = "compute it from centred and scaled inputs if that is rounding, or add to its diagonal"
        raise InputError(f"{text}; {remedy}")
    used = values > len(K) * np.finfo(float).eps * values[-1]
    return np.asarray(vectors[:, used] * np.sqrt(values[used]))


def semidefinite(K: Array, name: str) -> Array:
    """Return K (n, n) if it is symmetric positive semidefinite up to CHOLESKY_RTOL, else AAᵀ for A of `_factor`."""
    shift, work = CHOLESKY_RTOL * float(max(K.max(), -K.min())), K - K.T
    if max(work.max(), -work.min()) <= shift:
        np.copyto(work, K)
        work[np.diag_indices_from(K)] += shift
        with contextlib.suppress(np.linalg.LinAlgError):
            Cholesky(work)
            return K
    return np.asarray(gram(_factor(K, name)))


@dataclass(frozen=True, eq=False, repr=False)
class KernelFeatures(Features):
    """Features of k blocks φ_j(x) ∈ R^r with kernels K_j = Φ_jΦ_jᵀ: (ΦW)_i = Σ_j ⟨w_j, φ_j(x_i)⟩.

    A `MarginProblem` with these features and `GroupLasso` over the blocks is multiple-kernel learning. With `Frobenius`
    it is the support vector machine of the sum of the kernels, without an intercept.

    Parameters
    ----------
    factors : array, shape (n, k, r)
        The blocks φ_j(x_i); shorter blocks are padded with zeros. `from_kernels` computes them from kernels. General
        matrices A_i (k, r), as in matrix sensing, are such blocks, too: (ΦW)_i = ⟨W, A_i⟩.

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
        check_range(floats.largest_entries(factors), "the factors")
        object.__setattr__(self, "factors", factors)

    @cached_property
    def _row_norms(self) -> Array:
        return super().row_norms()

    def row_norms(self, units: Any = 1.0) -> Array:
        return self._row_norms if np.ndim(units) == 0 and units == 1 else super().row_norms(units)

    @classmethod
    def from_kernels(cls, kernels: Any) -> KernelFeatures:
        """Return features of given kernels K_j = Φ_jΦ_jᵀ, computed by factorisation.

        r is the largest numerical rank of the kernels; φ_j of smaller rank is padded with zeros.

        Parameters
        ----------
        kernels : array, shape (k, n, n)
            Symmetric positive semidefinite matrices. Negative eigenvalues within the rounding of double precision
            count as zero; if float32 represents all entries, within the rounding of single precision.

        Raises
        ------
        InputError
            If a kernel is not symmetric or not positive semidefinite.
        """
        stack = as_floats(kernels, "kernels", 3)
        if stack.shape[1] != stack.shape[2]:
            raise InputError(f"kernels must have shape (k, n, n), not {stack.shape}; for new samples use extended()")
        factors = np.zeros((stack.shape[1], len(stack), stack.shape[1]))
        for j, K in enumerate(stack):
            factor = _factor(K, f"kernel {j}")
            factors[:, j, : factor.shape[1]] = factor
        used = max(1, int(factors.any(axis=(0, 1)).sum()))
        return cls(factors[:, :, :used])

    def extended(self, kernels: Any) -> KernelFeatures:
        """Return the features Φ̂_j = K̂_j (Φ_j⁺)ᵀ of m new samples from `kernels` K̂ (k, m, n), new × old samples."""
        cross = as_floats(kernels, "kernels", 3)
        if cross.shape[::2] != (self.k, self.n):
            raise InputError(f"kernels must have shape ({self.k}, m, {self.n}), not {cross.shape}")
        blocks = [block @ np.linalg.pinv(self.factors[:, j]).T for j, block in enumerate(cross)]
        return KernelFeatures(np.stack(blocks, axis=1))

    @property
    def shape(self) -> tuple[int, int, int]:
        n, k, r = self.factors.shape
        return n, k, r

    def dense(self) -> Array:
        """Matrix Φ (n, k·r), with columns ordered by block."""
        return self.factors.reshape(self.n, -1)


@dataclass(frozen=True, eq=False, repr=False)
class UnkeptFeatures(Features):
    """Features whose samples were not saved: `sizes` is the shape (n, k, d), and `products` the value of `gated`.

    Methods that need the samples raise InputError.

    >>> from implicit_bias import InputError
    >>> try:
    ...     UnkeptFeatures((4, 20, 31), products=True).row_norms()
    ... except InputError as error:
    ...     print(error)
    the 4 samples were not saved with the model: replace the features of its problem, or save it with samples=True
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
        text = f"the {self.n} samples were not saved with the model: replace the features of its problem"
        raise InputError(f"{text}, or save it with samples=True")


def check_features(features: Features) -> None:
    """Raise InputError if `shape` or `dense` is invalid, or other methods contradict `dense` at a few samples."""
    sizes = features.shape
    integers = isinstance(sizes, tuple) and len(sizes) == 3 and all(isinstance(s, int | np.integer) for s in sizes)
    _claim(features, integers and min(sizes) > 0, f"shape must be positive integers (n, k, d), not {shown(sizes)}")
    n, k, d = sizes
    rows = np.unique(np.linspace(0, n - 1, CHECKED_SAMPLES).astype(int))
    # Features with their own `select` may be too large to form Φ.
    few = features if type(features).select is Features.select else features.select(rows)
    A, size = few.dense(), (n if few is features else len(rows), k * d)
    valid = isinstance(A, np.ndarray) and A.dtype == np.float64 and A.shape == size and bool(np.isfinite(A).all())
    given = f"{A.dtype} {A.shape}" if isinstance(A, np.ndarray) else shown(A)
    _claim(features, valid, f"dense() must be a finite float64 array of shape (n, k·d), here {size}, not {given}")
    A = A[rows] if few is features else A
    rng = np.random.default_rng(0)
    W, a, rtol = rng.normal(size=(k, d)), np.zeros(n), 4 * floats.share(2 * (k * d + n))
    a[rows] = rng.normal(size=len(rows))
    magnitudes = np.abs(A) @ np.abs(W.ravel())
    _check_equal(features, "apply", features.apply(W)[rows], A @ W.ravel(), rtol * magnitudes)
    _check_equal(features, "adjoint", features.adjoint(a).ravel(), a[rows] @ A, rtol * (np.abs(a[rows]) @ np.abs(A)))
    _check_equal(features, "magnitudes", features.magnitudes(W)[rows], magnitudes, rtol * magnitudes)
    lengths = np.sqrt((A**2).sum(axis=1))
    _check_equal(features, "row_norms", features.row_norms()[rows], lengths, 1e-9 * lengths)
    _check_equal(features, "closed", features.closed()[rows], np.asarray(~A.any(axis=1)), np.zeros(len(rows)))


def _check_equal(features: Features, name: str, claimed: Any, expected: np.ndarray, tolerance: Array) -> None:
    claimed = np.asarray(claimed, dtype=np.float64)
    equal = claimed.shape == expected.shape and bool((np.abs(claimed - expected) <= tolerance).all())
    if not equal:
        _claim(features, equal, f"{name}() contradicts dense(): {shown(claimed)} instead of {shown(expected)}")


def _claim(features: Features, holds: bool, text: str) -> None:
    if not holds:
        raise InputError(f"features {type(features).__name__}: {text}")
