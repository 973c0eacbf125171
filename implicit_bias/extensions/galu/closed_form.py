"""The least-norm and ridge solutions of a least-squares problem on gated linear features, without forming them."""

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

#: Below this size a spectrum costs less than a second.
SPECTRUM_UP_TO = 1500
#: Singular values under this share of the largest are too small for the square of Φ to show them.
VISIBLE = 1e-5
#: Corrections of a solution; each costs one product with Φ and Φᵀ.
CORRECTIONS = 10
#: A ridge of this many times the squares of the features leaves nothing of the weights.
STRONGEST = 1e100


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A solution of min_W (1/n)‖ΦW − Y‖² + ρ‖W‖², and how far it can be trusted.

    Attributes
    ----------
    weights : array, shape (k, d), or (q, k, d) for targets (n, q)
        Without ridge the solution of least norm, Φ⁺Y.
    loss : float
        (1/n)‖ΦW − Y‖², from the residual itself; for several targets their sum.
    norm : float
        ‖W‖ over all weights.
    rank : int
        Singular values of Φ above `tol` times the largest.
    condition : float
        σ_1/σ_rank, the largest singular value over the smallest that counts.
    gap : float
        The objective is at most this far above its minimum: ‖Φᵀ(Y − ΦW) − nρW‖²/(n(σ_rank² + nρ)), or itself.
    ridge : float
        ρ.
    form : 'samples' or 'weights'
        Which Gram matrix was solved with: ΦΦᵀ (n × n), or ΦᵀΦ (kd × kd).
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
    """The solution of least norm of min_W (1/n)‖ΦW − y‖² + ρ‖W‖².

        W = Φᵀ(ΦΦᵀ + nρI)⁺y,   ΦΦᵀ = (GGᵀ) ∘ (XXᵀ),     or     W = (ΦᵀΦ + nρI)⁺Φᵀy,

    whichever matrix is smaller: memory 8·min(n, kd)² bytes, and about min(n, kd)³/3 operations; ten to thirty times
    as many where Φ is rank-deficient or its condition number exceeds 1e5, and for matrices so small that it does not
    matter: then the spectrum decides what counts. The squared condition number is made up for by corrections with Φ
    itself.

    Raises InputError for targets that are not finite or not one per sample, a negative ridge, a tolerance out of range,
    features that are all zero, or sizes that would leave floating point.

    Parameters
    ----------
    features : GatedFeatures or KernelFeatures
        Φ of n samples; inputs that are linearly dependent are reduced first.
    y : array, shape (n,), or (n, q) for q targets, each with weights of its own
    ridge : float
        ρ ≥ 0.
    tol : float
        Singular values below `tol` times the largest count as zero; from 1e-10, what can be told apart, to 0.1.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), section 3; corrections as in Björck (1987), "corrected seminormal equations".

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
    by, to = nearest_power_of_two(features.row_norms().max()), nearest_power_of_two(np.abs(Y).max())
    check_range(np.abs(Y / to).max(keepdims=True).ravel() * (to / by), "the targets over the features")
    small = _SmallerGram.of(features.scaled(1 / by), shift_of(ridge, features.n, by), tol)
    W = np.stack([small.solve(column) for column in (Y / to).T])
    residual = Y / to - np.stack([small.features @ w for w in W], axis=1)
    slope = np.stack([small.features.adjoint(r) for r in residual.T]) - small.shift * W
    reached = (length(residual) ** 2 + small.shift * length(W) ** 2) / features.n
    gap = min(reached, length(slope) ** 2 / (features.n * (small.smallest**2 + small.shift))) * to**2
    W = (W @ small.back.T) * (to / by)
    return LeastSquares(
        weights=W if dimensions(y) == 2 else W[0],
        loss=float(length(residual) ** 2 / features.n * to**2),
        norm=float(length(W)),
        rank=small.rank,
        condition=small.largest / small.smallest,
        gap=float(gap),
        ridge=ridge,
        form=small.form,
        seconds=time.perf_counter() - start,
    )


def check_open(features: Features) -> None:
    """Refuse features that are zero for all samples."""
    if features.closed().all():
        raise InputError("the features are all zero: every gate is closed for every sample; give other gates")


def shift_of(ridge: float, samples: int, by: float) -> float:
    """nρ for features divided by `by`; as little as there is for a ridge that vanishes beside them."""
    shift = ridge / by / by * samples
    if not shift < STRONGEST:
        raise InputError(f"ridge = {ridge:g} exceeds the squares of the features by far; take a smaller one")
    return max(shift, TINY) if ridge else 0.0


@dataclass(frozen=True, eq=False)
class _SmallerGram:
    """The smaller of ΦΦᵀ and ΦᵀΦ, and an approximate inverse of it (shifted by nρ) on the directions that count."""

    features: Features
    back: Array
    form: str
    shift: float
    largest: float
    smallest: float
    rank: int
    inverse: Callable[[Array], Array]

    @classmethod
    def of(cls, features: Features, shift: float, tol: float) -> _SmallerGram:
        """Through the spectrum if the matrix is small or ill-conditioned, else by Cholesky's factor."""
        reduced, back = features.reduced()
        form = "samples" if reduced.n <= reduced.k * reduced.d else "weights"
        gram = reduced.gram() if form == "samples" else reduced.weight_gram()
        found = None if len(gram) <= SPECTRUM_UP_TO else _by_cholesky(gram, shift)
        found = found or _by_spectrum(reduced, gram, form, shift, tol)
        return cls(reduced, back, form, shift, *found)

    def solve(self, y: Array) -> Array:
        """The weights (k, d) for targets (n,): unknowns z with (AᵀA + shift)z = b, A = Φᵀ or Φ, corrected with A."""
        shape = (self.features.k, self.features.d)
        samples = self.form == "samples"
        z, W, last = np.zeros(len(y) if samples else shape[0] * shape[1]), np.zeros(shape), np.inf
        for _ in range(CORRECTIONS):
            missing = y - self.features @ W
            if not samples:
                missing = self.features.adjoint(missing).ravel()
            step = self.inverse(missing - self.shift * z)
            size = float(length(step))
            if not size < 0.5 * last:
                break
            # Not W = Φᵀz, for z has the size of W times the condition number, and so its rounding.
            W = W + (self.features.adjoint(step) if samples else step.reshape(shape))
            z, last = z + step, size
        return W


Found = tuple[float, float, int, Callable[[Array], Array]]


def _by_cholesky(gram: Array, shift: float) -> Found | None:
    """σ_1, σ_n, full rank and the inverse of gram + shift; None unless σ_n is well above what rounding hides."""
    size = len(gram)
    largest = float(eigsh(gram, 1, which="LA", return_eigenvectors=False, v0=np.ones(size))[0])
    try:
        bare = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
        back = LinearOperator((size, size), lambda v: scipy.linalg.cho_solve(bare, v, check_finite=False))
        # A start that no eigenvector of structured features is orthogonal to.
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
    return largest**0.5, smallest**0.5, size, lambda b: scipy.linalg.cho_solve(bare, b, check_finite=False)


def _by_spectrum(features: Features, gram: Array, form: str, shift: float, tol: float) -> Found:
    """The same from the spectrum, for any rank: singular values too small for Φ's square are found on Φ itself."""
    squares, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
    largest = float(np.sqrt(squares[-1]))
    visible = squares > (VISIBLE * largest) ** 2
    hidden = vectors[:, ~visible]
    sizes, directions = np.sqrt(squares[visible]), vectors[:, visible]
    if hidden.size:
        shape = (features.k, features.d)
        across = [features.adjoint(v).ravel() if form == "samples" else features @ v.reshape(shape) for v in hidden.T]
        _, below, turn = scipy.linalg.svd(np.stack(across, axis=1), full_matrices=False, check_finite=False)
        sizes, directions = np.append(sizes, below), np.hstack([directions, hidden @ turn.T])
    counts = sizes > tol * largest
    sizes, directions = sizes[counts], directions[:, counts]
    return largest, float(sizes.min()), len(sizes), lambda b: directions @ ((directions.T @ b) / (sizes**2 + shift))
