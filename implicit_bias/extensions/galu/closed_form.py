"""Least-norm and ridge solutions of least squares on gated linear features Φ, computed without forming Φ."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.floats import TINY, length, nearest_power_of_two, share
from implicit_bias.extensions.galu.excess import Evaluation, images, rank_bound
from implicit_bias.features import Features

#: Least ratio of singular values for which a Cholesky factor of the Gram matrix, which squares it, is used.
CLEAR = 1e-6
#: Singular values below this share of the largest are lost to rounding in the eigenvalues of the Gram matrix.
VISIBLE = 1e-5
#: Singular values below this share of the largest, which may be rounding alone, are not used.
NOISE = 1e-13
#: Maximum number of refinement steps of a solution; each costs one product with Φ and two with Φᵀ.
MAX_REFINEMENTS = 10
#: Relative error bound of the weights at which refinement ends.
ACCURATE = 1e-11
#: Largest ratio of the ridge term to the squared features; beyond it the weights underflow.
MAX_SHIFT = 1e100
#: Least ratio of the ridge term to the squared features for which ΦΦᵀ is factorised although Φ has fewer columns.
LEAST_SHARE = 1e-8
#: Number of random vectors that bound the smallest singular value.
PROBES = 8
#: Absolute value that the largest of PROBES Gaussian numbers exceeds, except with a probability of 1e-12.
UNLIKELY = 10 ** (-12.0 / PROBES) * (np.pi / 2) ** 0.5
#: Number of times that the random vectors are multiplied by the inverse.
SOLVES = 3
#: Cost of an entry of ΦΦᵀ beyond its k + d products, in products.
ENTRY_COST = 200
#: Cost of an operation of a Cholesky factorisation, relative to one of a matrix product.
FACTOR_COST = 1.3
#: Share of ‖Y‖², times n and kd, below which a gap is not improved.
FINE = 1e-30
#: Share of ‖Y‖² above which the gap of a Cholesky factor leads to an eigendecomposition.
LOOSE = 1e-16
#: Leverages H_ii closer to 1 than this count as 1: no other sample helps to predict sample i.
ESSENTIAL = 1e-9


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Solution of min_W (1/n)‖ΦW − Y‖² + ρ‖W‖² with measures of its accuracy.

    Attributes
    ----------
    weights : array, shape (k, d), or (q, k, d) for targets (n, q)
        The weights W. Without ridge, the least-norm solution Φ⁺Y.
    loss : float
        (1/n)‖ΦW − Y‖², computed from the residual; summed over targets.
    norm : float
        ‖W‖ over all weights.
    rank : int
        Number of singular values of Φ that are used: those above `tol` times the largest. With a ridge all min(n, kd)
        are, except those below 1e-13 times the largest if they had to be computed.
    condition : float
        √((σ_1² + nρ)/(σ_rank² + nρ)), the condition number of the problem on the directions that are used. If a
        Cholesky factor suffices, this is an estimate from below, mostly by less than a fifth.
    gap : float
        Upper bound on the objective minus its minimum, both in exact arithmetic for the floats Φ, Y and W: gᵀH⁺g/n with
        g = Φᵀ(Y − ΦW) − nρW and H = ΦᵀΦ + nρI, computed from above. It is at most the objective. Directions that are
        not used count, as do columns that are equal up to rounding; only exactly dependent ones do not.
        It is ‖g‖²/(nλ) for a least eigenvalue λ of H, or ‖Tᵀg‖²/(nσ²) for T with nearly orthonormal columns ΦT and
        their least singular value σ, or a dual bound, each plus its rounding errors. Two statements may be wrong, with
        a probability of about 1e-12: a Cholesky factor's λ, over eight random vectors, and a rank below min(n, kd)
        without a ridge, over three random primes. If such a rank cannot be shown, as for more than 1e8 operations, the
        gap is the loss. It is not improved below about 1e-30 n kd (1/n)‖Y‖².
    ridge : float
        The ridge ρ.
    form : 'samples' or 'weights'
        Gram matrix that was factorised: ΦΦᵀ (n × n) or ΦᵀΦ (kd × kd).
    seconds : float

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> found = least_squares(GatedFeatures([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), [1.0, 2.0, 3.5])
    >>> found.weights.round(4).tolist(), round(found.loss, 6), found.rank
    ([[0.9167, 1.25]], 0.013889, 2)
    >>> found.predict(GatedFeatures([[1.0, 3.0]])).round(4).tolist()
    [4.6667]
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

    def predict(self, features: Features) -> Array:
        """Return ΦW for the features of new samples, shape (n,) or (n, q); raise InputError if k or d differ."""
        if not isinstance(features, Features):
            raise InputError(f"features must be those of new samples, such as gates(X), not {shown(features)}")
        return products(features, self.weights)


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Solutions for several ridges by one eigendecomposition, with scores to choose one.

        e_i = (y_i − (ΦW)_i)/(1 − H_ii),    gcv = (1/n)‖Y − ΦW‖²/(1 − tr(H)/n)²,    H = Φ(ΦᵀΦ + nρI)⁻¹Φᵀ

    e_i is the error on sample i of the solution for all other samples with the same nρ. Where H_ii is 1 to nine digits,
    and for gcv where tr(H) is n, they are the limits for ρ → 0. Sources: Allen (1974) for e (PRESS); Golub, Heath &
    Wahba (1979) for gcv (generalised cross-validation).

    Attributes
    ----------
    ridges : array, shape (m,)
    solutions : list of LeastSquares
        One for each ridge, each with its own `gap`.
    leave_one_out : array, shape (m, n), or (m, n, q) for targets (n, q)
        The leave-one-out errors e.
    gcv : array, shape (m,)
        Summed over targets.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> rng = np.random.default_rng(0)
    >>> path = least_squares(GatedFeatures(rng.normal(size=(50, 5))), rng.normal(size=50), ridge=[0.01, 1.0, 100.0])
    >>> [round(float(np.mean(errors**2)), 2) for errors in path.leave_one_out], path.gcv.round(2).tolist()
    ([1.27, 1.14, 1.05], [1.27, 1.15, 1.05])
    """

    ridges: Array
    solutions: list[LeastSquares] = field(repr=False)
    leave_one_out: Array = field(repr=False)
    gcv: Array = field(repr=False)


@overload
def least_squares(features: Features, y: ArrayLike, *, ridge: float = 0.0, tol: float = 1e-9) -> LeastSquares: ...
@overload
def least_squares(
    features: Features, y: ArrayLike, *, ridge: Sequence[float] | Array, tol: float = 1e-9
) -> RidgePath: ...
def least_squares(features: Features, y: ArrayLike, *, ridge: Any = 0.0, tol: float = 1e-9) -> LeastSquares | RidgePath:
    """Return the least-norm solution of min_W (1/n)‖ΦW − y‖² + ρ‖W‖².

        W = Φᵀ(ΦΦᵀ + nρI)⁺y,   ΦΦᵀ = (GGᵀ) ∘ (XXᵀ),     or     W = (ΦᵀΦ + nρI)⁺Φᵀy

    The cheaper matrix is factorised by Cholesky, with s = n or kd: 8s² bytes and about s³/3 operations. An
    eigendecomposition, which costs ten to thirty times more, replaces it if Φ is rank-deficient without a ridge, or
    the condition number exceeds about 1e5, or 1e4 for thousands of samples. Refinement with Φ itself undoes the
    squaring of the condition number.
    Source: Fiat, Malach & Shalev-Shwartz (2019), section 3. The refinement follows the "corrected seminormal equations"
    of Björck (1987).

    Parameters
    ----------
    features : GatedFeatures or KernelFeatures
        Φ of n samples.
    y : array, shape (n,), or (n, q) for q independent targets
    ridge : float, or several
        ρ ≥ 0. Several share one eigendecomposition, and the result is a `RidgePath`.
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
    check_open(features)
    Y, several = checks.as_targets(y, features.n), checks.dimensions(ridge) > 0
    ridges = _ridges(ridge)
    if not 1e-10 <= (tol := checks.as_positive(tol, "tol")) <= 0.1:
        raise InputError(f"tol must lie between 1e-10 and 0.1, not {tol:g}")
    scale, y_scale = _scales(features, Y)
    shifts = [shift_of(each, features.n, scale) for each in ridges]
    scaled = features.scaled(1 / scale)

    def solved(factor: _GramFactor, ridge: float, start: float) -> LeastSquares:
        """Return the solution for one ridge, converted from the scaled problem to features and targets as given."""
        W = factor.solve(Y / y_scale)
        at, gap = factor.evaluate(scaled, Y / y_scale, W)
        W = W * (y_scale / scale)
        return LeastSquares(
            weights=W if checks.dimensions(y) == 2 else W[0],
            loss=float(length(at.residual) ** 2 / features.n * y_scale**2),
            norm=float(length(W)),
            rank=factor.rank,
            condition=factor.condition,
            gap=gap / features.n * y_scale**2,
            ridge=ridge,
            form=factor.form,
            seconds=time.perf_counter() - start,
        )

    if not several:
        factor = _factorised(scaled, shifts[0], tol)
        solution = solved(factor, ridges[0], start)
        if factor.spectrum is None and solution.gap / y_scale**2 > LOOSE * length(Y / y_scale) ** 2 / features.n:
            solution = solved(_GramSpectrum.of(*scaled.reduced()).factor(shifts[0], tol), ridges[0], start)
        return solution
    spectrum = _GramSpectrum.of(*scaled.reduced())
    solutions = []
    for each, shift in zip(ridges, shifts, strict=True):
        solutions.append(solved(spectrum.factor(shift, tol), each, start))
        start = time.perf_counter()
    errors, scores = zip(*(spectrum.left_out(Y / y_scale, shift, tol) for shift in shifts), strict=True)
    held_out = y_scale * (np.array(errors) if checks.dimensions(y) == 2 else np.array(errors)[..., 0])
    return RidgePath(np.array(ridges), solutions, held_out, y_scale**2 * np.array(scores))


def _ridges(ridge: Any) -> list[float]:
    given = checks.as_floats(ridge, "ridge", 1) if checks.dimensions(ridge) else [ridge]
    return [checks.as_positive(each, "ridge", zero=True) for each in given]


def _scales(features: Features, Y: Array) -> tuple[float, float]:
    """Return powers of two near the longest features and the largest target; InputError if their ratio is extreme."""
    scale, y_scale = nearest_power_of_two(features.row_norms().max()), nearest_power_of_two(np.abs(Y).max())
    checks.check_range(np.array([np.abs(Y / y_scale).max() * (y_scale / scale)]), "the targets over the features")
    return scale, y_scale


def singular_extent(features: Features, tol: float = 1e-9) -> tuple[float, float]:
    """Return σ_1 and the smallest singular value of Φ above `tol` σ_1, by an eigendecomposition.

    >>> from implicit_bias import GatedFeatures
    >>> singular_extent(GatedFeatures([[1.0, 0.0, 0.0], [0.0, 3.0, 0.0]]))
    (3.0, 1.0)
    """
    check_open(features)
    scale = nearest_power_of_two(features.row_norms().max())
    sizes = _GramSpectrum.of(*features.scaled(1 / scale).reduced()).sizes
    largest = sizes.max()
    return float(scale * largest), float(scale * sizes[sizes > tol * largest].min())


def products(features: Features, W: Array) -> Array:
    """Return ΦW, shape (n,) for W (k, d), and (n, q) for W (q, k, d)."""
    return features @ W if W.ndim == 2 else np.stack([features @ w for w in W], axis=1)


def adjoints(features: Features, columns: Array) -> Array:
    """Return Φᵀc for each column c of an array (n, q), shape (q, k, d)."""
    return np.stack([features.adjoint(column) for column in columns.T])


def check_open(features: Features) -> None:
    """Raise InputError unless these are features, and φ(x_i) ≠ 0 for some sample."""
    if not isinstance(features, Features):
        raise InputError(f"features must be GatedFeatures or KernelFeatures, not {shown(features)}")
    if features.closed().all():
        raise InputError("the features are all zero: every gate is closed for every sample; give other gates")


def shift_of(ridge: float, samples: int, scale: float) -> float:
    """Return nρ/scale², for ρ > 0 at least the smallest normal number; InputError unless it is below MAX_SHIFT."""
    shift = ridge / scale / scale * samples
    if not shift < MAX_SHIFT:
        raise InputError(f"ridge = {ridge:g} far exceeds the squares of the features; take a smaller one")
    return max(shift, TINY) if ridge else 0.0


@dataclass(frozen=True, eq=False)
class _GramFactor:
    """Approximate `inverse` of ΦΦᵀ + shift·I ('samples') or ΦᵀΦ + shift·I ('weights'), as `form` says; shift is nρ.

    The inverse is a function of right-hand sides in columns. It is restricted to the `rank` singular vectors that are
    used, on which all eigenvalues of the shifted matrix are about `modulus` or more. `proven` is a lower bound of the
    positive eigenvalues of ΦᵀΦ + shift·I, with a ridge or if the rank of Φ is `rank`; 0 if there is none. If `features`
    are reduced, their weights times `back`ᵀ are those of the features as given; otherwise `back` is None. `spectrum` is
    the decomposition, None for a Cholesky factor.
    """

    features: Features
    back: Array | None
    form: str
    shift: float
    rank: int
    condition: float
    modulus: float
    proven: float
    inverse: Callable[[Array], Array]
    spectrum: _GramSpectrum | None = None

    def solve(self, Y: Array) -> Array:
        """Return W (q, k, d) for the features as given and targets (n, q).

        Iterative refinement solves (ΦΦᵀ + nρ)z = Y, W = Φᵀz, or its dual form (ΦᵀΦ + nρ)W = ΦᵀY. It ends when the
        slope Φᵀ(Y − ΦW) − nρW indicates an error of at most ACCURATE for the weights of each target, or halves no more.
        """
        targets, samples = Y.shape[1], self.form == "samples"
        z, W = np.zeros_like(Y), np.zeros((targets, self.features.k, self.features.d))
        residual, slope, last = Y, W if samples else adjoints(self.features, Y), np.inf
        for _ in range(MAX_REFINEMENTS):
            if samples:
                step = self.inverse(residual - self.shift * z)
                z = z + step
                # W = Φᵀz would lose digits: z is larger than W by the condition number.
                W = W + adjoints(self.features, step)
            else:
                W = W + self.inverse(slope.reshape(targets, -1).T).T.reshape(W.shape)
            residual = Y - products(self.features, W)
            slope = adjoints(self.features, residual) - self.shift * W
            errors, sizes = (length(each.reshape(targets, -1), axis=1) for each in (slope, self.modulus * W))
            error = np.max(errors / np.maximum(sizes, TINY))
            if error <= ACCURATE or not error < 0.5 * last:
                break
            last = error
        return W if self.back is None else W @ self.back.T

    def evaluate(self, features: Features, Y: Array, W: Array) -> tuple[Evaluation, float]:
        """Return the evaluation of weights for features as given, and an upper bound on n times their excess."""
        n, size = features.n, features.k * features.d
        limit = FINE * n * size * length(Y) ** 2
        # Without a ridge a bound on the eigenvalues needs the rank.
        is_bounded = self.proven > 0 and (self.shift > 0 or rank_bound(features, self.rank) <= self.rank)
        for precise in (False, True):
            at = Evaluation.of(features, Y, W, self.shift, precise)
            gap = min(at.objective, at.by_eigenvalue(self.proven) if is_bounded else np.inf)
            if gap <= limit:
                break
        if gap > limit and self.form == "samples" and self.shift:
            gap = min(gap, at.by_dual(self.inverse))
        if self.spectrum is not None and gap > (LOOSE * length(Y) ** 2 if self.shift and size > n else limit):
            gap = min(gap, at.by_directions(*self.spectrum.directions_of(features, self.shift)))
        return at, gap


def _factorised(features: Features, shift: float, tol: float) -> _GramFactor:
    """Factorise by Cholesky; by an eigendecomposition if that fails for the features as given and as reduced."""
    factor = _by_cholesky(features, None, shift, tol)
    if factor is None:
        reduced, back = features.reduced()
        factor = _by_cholesky(reduced, back, shift, tol) if reduced.d < features.d else None
        factor = factor or _GramSpectrum.of(reduced, back).factor(shift, tol)
    return factor


def _cheaper_form(features: Features, shift: float) -> str:
    """Return the cheaper form, 'samples' (n × n) or 'weights' (kd × kd); without a large enough shift, the smaller."""
    n, size = features.n, features.k * features.d
    if shift < LEAST_SHARE * n:
        return "samples" if n <= size else "weights"
    entry = features.k + features.d + ENTRY_COST if features.gated else size
    samples, weights = n**2 * (entry + FACTOR_COST * n / 3), size**2 * (n + FACTOR_COST * size / 3)
    return "samples" if samples <= weights else "weights"


def _by_cholesky(features: Features, back: Array | None, shift: float, tol: float) -> _GramFactor | None:
    """Factorise by Cholesky; return None if singular values are below `tol` (without a shift) or CLEAR times σ_1.

    Each Gaussian vector z has ‖M⁻ᵖz‖ ≥ |ζ| λ⁻ᵖ, where λ is the least eigenvalue of M and ζ the component of z along its
    eigenvector. At least one of the PROBES has |ζ| ≥ UNLIKELY, except with a probability of 1e-12.
    """
    form, (n, k, d) = _cheaper_form(features, shift), features.shape
    samples = form == "samples"
    gram = features.gram() if samples else features.weight_gram()
    gram[np.diag_indices(len(gram))] += shift
    # Errors of an entry m_ij of the matrix and of its factorisation are relative to √(m_ii m_jj).
    terms = 10 + len(gram) + (n if not samples else k + d if features.gated else k * d)
    trace = 1.01 * float(np.trace(gram))
    rounding = share(terms) * trace
    rng = np.random.default_rng(0)
    largest, vector = 0.0, rng.normal(size=len(gram))
    for _ in range(6):
        vector = gram @ (vector / np.linalg.norm(vector))
        largest = float(np.linalg.norm(vector))
    try:
        inverse = Cholesky(gram).solve
    except np.linalg.LinAlgError:
        return None
    probes = rng.normal(size=(len(gram), PROBES))
    # Relative to the largest eigenvalue, powers overflow only if the least one is far from clear.
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(SOLVES):
            before, probes = np.linalg.norm(probes, axis=0), largest * inverse(probes)
        after = np.linalg.norm(probes, axis=0)
    # Half of the bound leaves room for the rounding of the solutions, whose errors are relative to √λ.
    smallest = 0.5 * largest * (UNLIKELY / float(after.max())) ** (1 / SOLVES)
    modulus = max(shift, smallest)
    if not modulus >= max(CLEAR, 0.0 if shift else tol) ** 2 * largest:
        return None
    condition = max(1.0, float(np.sqrt(np.max(after / before))))
    # Reduced features differ from those given, which may have smaller singular values.
    apart = 0.0 if back is None else 4 * share(2 * max(n, len(back)) * (k * len(back)) ** 0.5) * trace**0.5
    proven = max(0.0, max(0.0, smallest - rounding) ** 0.5 - apart) ** 2
    proven = max(shift, 0.0 if shift and (samples or back is not None) else proven)
    return _GramFactor(features, back, form, shift, min(n, k * d), condition, modulus, proven, inverse)


@dataclass(frozen=True, eq=False)
class _GramSpectrum:
    """Singular value decomposition of Φ: `sizes` (s,) are the s = min(n, kd) singular values, in no sorted order.

    `directions` are left singular vectors (n, s) if `form` is 'samples', right ones (kd, s) if it is 'weights';
    `others` are those of the other side for the last h values, which were recomputed from Φ.
    """

    features: Features
    back: Array
    form: str
    sizes: Array
    directions: Array
    others: Array

    @classmethod
    def of(cls, features: Features, back: Array) -> _GramSpectrum:
        """Decompose the smaller Gram matrix; recompute singular values below VISIBLE σ_1 from Φ."""
        samples = features.n <= features.k * features.d
        gram = features.gram() if samples else features.weight_gram()
        squares, vectors = scipy.linalg.eigh(gram.T, overwrite_a=True, check_finite=False)
        visible = squares > VISIBLE**2 * squares[-1]
        hidden, sizes, directions = vectors[:, ~visible], np.sqrt(squares[visible]), vectors[:, visible]
        others, below, turn = scipy.linalg.svd(images(features, hidden, samples), full_matrices=False)
        sizes, directions = np.append(sizes, below), np.hstack([directions, hidden @ turn.T])
        return cls(features, back, "samples" if samples else "weights", sizes, directions, others)

    def used(self, shift: float, tol: float) -> np.ndarray:
        """Return a mask of `sizes`: without a shift the values above `tol` σ_1, else those above NOISE σ_1."""
        return np.asarray(self.sizes > (NOISE if shift else tol) * self.sizes.max())

    def factor(self, shift: float, tol: float) -> _GramFactor:
        """Return the inverse of the Gram matrix plus `shift`, restricted to the values that are `used`."""
        used, largest = self.used(shift, tol), float(self.sizes.max())
        squares = self.sizes**2 + shift
        directions, eigenvalues = self.directions[:, used], squares[used]
        inverse = lambda b: directions @ ((directions.T @ b).T / eigenvalues).T  # noqa: E731
        modulus = float(squares[used].min())
        condition = float(np.sqrt((largest**2 + shift) / modulus))
        rank = int(used.sum())
        return _GramFactor(self.features, self.back, self.form, shift, rank, condition, modulus, shift, inverse, self)

    def directions_of(self, features: Features, shift: float) -> tuple[Array, Array]:
        """Return V/√(σ² + shift) of the visible right singular vectors V (kd, c), and directions to complete them.

        They are those of `features` as given, so that the others contain the directions that `reduced` dropped.
        """
        seen, (n, k, r) = len(self.sizes) - self.others.shape[1], self.features.shape
        V = (self.back @ self.vectors("weights").reshape(k, r, -1)).reshape(k * features.d, -1)
        visible, hidden = V[:, :seen], V[:, seen:]
        if seen < len(V) and (shift or len(V) <= n):
            hidden = np.linalg.qr(visible, mode="complete")[0][:, seen:]
        return visible / np.sqrt(self.sizes[:seen] ** 2 + shift), hidden

    def vectors(self, side: str) -> Array:
        """Return all left singular vectors (n, s) for side 'samples', or all right ones (kd, s) for 'weights'."""
        if side == self.form:
            return self.directions
        visible = len(self.sizes) - self.others.shape[1]
        across = images(self.features, self.directions[:, :visible] / self.sizes[:visible], side == "weights")
        return np.hstack([across, self.others])

    @cached_property
    def left_whole(self) -> Array:
        """All left singular vectors, shape (n, s)."""
        return self.vectors("samples")

    def left_out(self, Y: Array, shift: float, tol: float) -> tuple[Array, float]:
        """Return the leave-one-out errors (n, q) of targets (n, q), and the generalised cross-validation score."""
        used = self.used(shift, tol)
        U, inverses = self.left_whole[:, used], 1 / (self.sizes[used] ** 2 + shift)
        n, rank = U.shape
        within = U.T @ Y
        # Y − ΦW is `outside` + shift · `inner`, and 1 − H_ii is `free` + shift · `held`.
        inner, held = U @ (inverses[:, None] * within), U**2 @ inverses
        free, outside = (rank < n) * (1 - np.sum(U**2, axis=1)), (rank < n) * (Y - U @ within)
        clear = free + shift * held > ESSENTIAL
        share = np.where(clear, shift, 1.0)
        errors = (clear[:, None] * outside + share[:, None] * inner) / (clear * free + share * held)[:, None]
        factor = shift if rank < n else 1.0
        score = np.sum((outside + factor * inner) ** 2) / n / ((n - rank + factor * inverses.sum()) / n) ** 2
        return errors, float(score)
