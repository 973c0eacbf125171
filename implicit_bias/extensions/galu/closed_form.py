"""Least-norm and ridge solutions of least squares on gated linear features Φ, computed without forming Φ."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from implicit_bias._utils.checks import Array, InputError, as_positive, as_targets, check_range, dimensions, shown
from implicit_bias._utils.scaling import TINY, length, nearest_power_of_two
from implicit_bias.features import Features

#: Largest Gram matrix whose full eigendecomposition takes less than a second.
MAX_SPECTRUM_SIZE = 1500
#: Singular values below this share of the largest are lost to rounding in the Gram matrix, which squares them.
VISIBLE = 1e-5
#: Singular values below this share of the largest may be rounding alone.
NOISE = 1e-13
#: Maximum number of refinement steps of a solution; each costs one product with Φ and one with Φᵀ.
MAX_REFINEMENTS = 10
#: Largest ratio of the ridge term to the squared features; beyond it the weights underflow.
MAX_SHIFT = 1e100


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Solution of min_W (1/n)‖ΦW − Y‖² + ρ‖W‖² with measures of its accuracy.

    Attributes
    ----------
    weights : array, shape (k, d), or (q, k, d) for targets (n, q)
        W. Without ridge, the least-norm solution Φ⁺Y.
    loss : float
        (1/n)‖ΦW − Y‖², computed from the residual; summed over targets.
    norm : float
        ‖W‖ over all weights.
    rank : int
        Number of singular values of Φ that are used: those above `tol` times the largest, with a ridge those above
        1e-13 times the largest.
    condition : float
        σ_1/σ_rank, the ratio of the largest to the smallest singular value that is used.
    gap : float
        Upper bound on the objective minus its minimum, at most the objective: ‖Φᵀ(Y − ΦW) − nρW‖²/(n(σ_rank² + nρ)),
        plus ‖UᵀR‖²/n, where R is the residual and U contains the left singular vectors that are not used although
        rounding cannot explain their singular values (without a ridge).
    ridge : float
        ρ.
    form : 'samples' or 'weights'
        Gram matrix that was factorised: ΦΦᵀ (n × n) or ΦᵀΦ (kd × kd).
    seconds : float

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> found = least_squares(GatedFeatures([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), [1.0, 2.0, 3.5])
    >>> found.weights.round(4).tolist(), round(found.loss, 6), found.rank
    ([[0.9167, 1.25]], 0.013889, 2)
    """

    weights: Array = field(repr=False)
    loss: float
    norm: float
    rank: int
    condition: float
    gap: float
    ridge: float
    form: str
    seconds: float


def least_squares(features: Features, y: ArrayLike, *, ridge: float = 0.0, tol: float = 1e-9) -> LeastSquares:
    """Return the least-norm solution of min_W (1/n)‖ΦW − y‖² + ρ‖W‖².

        W = Φᵀ(ΦΦᵀ + nρI)⁺y,   ΦΦᵀ = (GGᵀ) ∘ (XXᵀ),     or     W = (ΦᵀΦ + nρI)⁺Φᵀy

    The smaller matrix is factorised, with s = min(n, kd): 8s² bytes and about s³/3 operations. An eigendecomposition
    replaces the Cholesky factor if s is small, Φ is rank-deficient, or its condition number exceeds 1e5; an
    eigendecomposition costs ten to thirty times more. Refinement with Φ itself undoes the squaring of the condition
    number. Source: Fiat, Malach & Shalev-Shwartz (2019), section 3. The refinement follows the "corrected seminormal
    equations" of Björck (1987).

    Parameters
    ----------
    features : GatedFeatures or KernelFeatures
        Φ of n samples. Linearly dependent inputs are reduced first.
    y : array, shape (n,), or (n, q) for q independent targets
    ridge : float
        ρ ≥ 0.
    tol : float
        Without a ridge, singular values below `tol` times the largest count as zero. From 1e-10, the limit of double
        precision, to 0.1.

    Raises
    ------
    InputError
        If targets are not finite or not one per sample, `ridge` or `tol` is out of range, all features are zero, or
        sizes would overflow or underflow.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> rng = np.random.default_rng(0)
    >>> X, U = rng.normal(size=(40, 5)), rng.normal(size=(20, 5))
    >>> features = GatedFeatures(X, (X @ U.T > 0).astype(float))
    >>> found = least_squares(features, rng.normal(size=40))
    >>> found.rank, found.form, found.loss < 1e-20
    (40, 'samples', True)
    """
    start = time.perf_counter()
    if not isinstance(features, Features):
        raise InputError(f"features must be GatedFeatures or KernelFeatures, not {shown(features)}")
    Y = as_targets(y, features.n)
    ridge = as_positive(ridge, "ridge", zero=True)
    if not 1e-10 <= (tol := as_positive(tol, "tol")) <= 0.1:
        raise InputError(f"tol must lie between 1e-10 and 0.1, not {tol:g}")
    check_open(features)
    scale, y_scale = nearest_power_of_two(features.row_norms().max()), nearest_power_of_two(np.abs(Y).max())
    check_range(np.abs(Y / y_scale).max(keepdims=True).ravel() * (y_scale / scale), "the targets over the features")
    gram = _SmallerGram.of(features.scaled(1 / scale), shift_of(ridge, features.n, scale), tol)
    W = np.stack([gram.solve(column) for column in (Y / y_scale).T])
    residual = Y / y_scale - np.stack([gram.features @ w for w in W], axis=1)
    slope = np.stack([gram.features.adjoint(r) for r in residual.T]) - gram.shift * W
    objective = (length(residual) ** 2 + gram.shift * length(W) ** 2) / features.n
    excess = length(slope) ** 2 / (gram.smallest**2 + gram.shift) + length(gram.dropped.T @ residual) ** 2
    gap = min(objective, (1 + NOISE) * excess / features.n) * y_scale**2
    W = (W @ gram.back.T) * (y_scale / scale)
    return LeastSquares(
        weights=W if dimensions(y) == 2 else W[0],
        loss=float(length(residual) ** 2 / features.n * y_scale**2),
        norm=float(length(W)),
        rank=gram.rank,
        condition=gram.largest / gram.smallest,
        gap=float(gap),
        ridge=ridge,
        form=gram.form,
        seconds=time.perf_counter() - start,
    )


def check_open(features: Features) -> None:
    """Raise InputError if φ(x_i) = 0 for every sample; some samples may be zero."""
    if features.closed().all():
        raise InputError("the features are all zero: every gate is closed for every sample; give other gates")


def shift_of(ridge: float, samples: int, scale: float) -> float:
    """Return nρ for features divided by `scale`; a positive ridge that underflows becomes the least normal number."""
    shift = ridge / scale / scale * samples
    if not shift < MAX_SHIFT:
        raise InputError(f"ridge = {ridge:g} far exceeds the squares of the features; take a smaller one")
    return max(shift, TINY) if ridge else 0.0


@dataclass(frozen=True, eq=False)
class _SmallerGram:
    """The smaller of ΦΦᵀ and ΦᵀΦ, with an approximate inverse of it (shifted by nρ) on its numerical range."""

    features: Features
    back: Array
    form: str
    shift: float
    largest: float
    smallest: float
    rank: int
    inverse: Callable[[Array], Array]
    dropped: Array

    @classmethod
    def of(cls, features: Features, shift: float, tol: float) -> _SmallerGram:
        """Factorise by Cholesky; by an eigendecomposition if the matrix is small or ill-conditioned."""
        reduced, back = features.reduced()
        form = "samples" if reduced.n <= reduced.k * reduced.d else "weights"
        gram = reduced.gram() if form == "samples" else reduced.weight_gram()
        found = None if len(gram) <= MAX_SPECTRUM_SIZE else _by_cholesky(gram, shift, reduced.n)
        found = found or _by_spectrum(reduced, gram, form, shift, tol)
        return cls(reduced, back, form, shift, *found)

    def solve(self, y: Array) -> Array:
        """Return W (k, d) for targets (n,) by iterative refinement: (ΦΦᵀ + shift)z = y, W = Φᵀz, or its dual form.

        With the form 'weights' the equation is (ΦᵀΦ + shift)W = Φᵀy.
        """
        shape = (self.features.k, self.features.d)
        samples = self.form == "samples"
        z, W, last = np.zeros(len(y) if samples else shape[0] * shape[1]), np.zeros(shape), np.inf
        for _ in range(MAX_REFINEMENTS):
            missing = y - self.features @ W
            if not samples:
                missing = self.features.adjoint(missing).ravel()
            step = self.inverse(missing - self.shift * z)
            size = float(length(step))
            if not size < 0.5 * last:
                break
            # W = Φᵀz would lose digits: z is larger than W by the condition number.
            W = W + (self.features.adjoint(step) if samples else step.reshape(shape))
            z, last = z + step, size
        return W


#: σ_1, σ_rank, the rank, the inverse of gram + shift, and the left singular vectors (n, r) of Φ that it leaves out.
Factorisation = tuple[float, float, int, Callable[[Array], Array], Array]


def _by_cholesky(gram: Array, shift: float, samples: int) -> Factorisation | None:
    """Factorise `gram` + shift I by Cholesky, which overwrites `gram`.

    `samples` is n, for the empty array (n, 0) of left-out singular vectors. Return None if `gram` itself has no factor,
    or if the least singular value of Φ is below VISIBLE σ_1.
    """
    size = len(gram)
    largest = float(eigsh(gram, 1, which="LA", return_eigenvectors=False, v0=np.ones(size))[0])
    try:
        bare = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
        back = LinearOperator((size, size), lambda v: scipy.linalg.cho_solve(bare, v, check_finite=False))
        # A constant start could be orthogonal to the eigenvector of structured features; a random one is not.
        probe = np.random.default_rng(0).normal(size=size)
        inverse = float(eigsh(back, 1, which="LA", return_eigenvectors=False, v0=probe, tol=1e-6)[0])
    except (np.linalg.LinAlgError, ArpackError):
        return None
    smallest = 1 / inverse
    if not smallest > (VISIBLE * largest**0.5) ** 2:
        return None
    if shift:
        gram[np.diag_indices(size)] += shift
        bare = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    none = np.zeros((samples, 0))
    return largest**0.5, smallest**0.5, size, lambda b: scipy.linalg.cho_solve(bare, b, check_finite=False), none


def _by_spectrum(features: Features, gram: Array, form: str, shift: float, tol: float) -> Factorisation:
    """Factorise `gram` + shift I at any rank by eigendecomposition, which overwrites `gram`.

    Singular values below VISIBLE σ_1 are recomputed from Φ. Those below `tol` σ_1, or with a shift below NOISE σ_1, are
    left out.
    """
    squares, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
    largest = float(np.sqrt(squares[-1]))
    # With a ridge, every value above rounding has an inverse.
    least = (NOISE if shift else tol) * largest
    visible = squares > (VISIBLE * largest) ** 2
    hidden = vectors[:, ~visible]
    sizes, directions, left = np.sqrt(squares[visible]), vectors[:, visible], np.zeros((features.n, 0))
    if hidden.size:
        shape = (features.k, features.d)
        across = [features.adjoint(v).ravel() if form == "samples" else features @ v.reshape(shape) for v in hidden.T]
        left, below, turn = scipy.linalg.svd(np.stack(across, axis=1), full_matrices=False, check_finite=False)
        sizes, directions = np.append(sizes, below), np.hstack([directions, hidden @ turn.T])
        # Values that rounding alone may leave are zeros.
        left = (hidden @ turn.T if form == "samples" else left)[:, (NOISE * largest < below) & (below <= least)]
    counts = sizes > least
    sizes, directions = sizes[counts], directions[:, counts]
    inverse = lambda b: directions @ ((directions.T @ b) / (sizes**2 + shift))  # noqa: E731
    return largest, float(sizes.min()), len(sizes), inverse, left
