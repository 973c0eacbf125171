"""Upper bounds on the objective of least squares minus its minimum, for the floats as given.

Residual and slope are computed in pairs of doubles, and every bound includes the rounding errors of its computation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import scipy.linalg

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, UNIT, length, precise_product, share, two_product, two_sum
from implicit_bias.features import Features, GatedFeatures

#: Factor that covers the rounding of the last operations of a bound.
ROUNDED = 1 + 1e-10
#: Error of a product, relative to its length, above which its direction is unknown.
UNCLEAR = 1e-3
#: Maximum number of products of entries of Φ for directions that are computed in pairs of doubles.
MAX_PRECISE = 10**8
#: Maximum number of operations of a rank modulo a prime, about a second.
MAX_MODULAR = 10**8
#: Number of random primes modulo which a rank is computed.
PRIMES = 3


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Residual α (n, q) of weights W (q, k, d) for targets Y (n, q), and its slope g = Φᵀα − sW, s = `shift` = nρ.

    ‖Y − ΦW − α‖ is at most `off` (q,). `upper` + `lower` (kd, q) is g up to `error` (q,). `objective` is an upper bound
    on ‖Y − ΦW‖² + s‖W‖².
    """

    features: Features
    shift: float
    residual: Array
    off: Array
    upper: Array
    lower: Array
    error: Array
    objective: float

    @classmethod
    def of(cls, features: Features, Y: Array, W: Array, shift: float, precise: bool) -> Evaluation:
        """Evaluate W; `precise` computes ΦW in pairs of doubles."""
        rows = []
        for y, w in zip(Y.T, W, strict=True):
            upper, lower, error = features.apply_bounded(w, precise)
            total, lost = two_sum(y, -upper)
            residual = total + (lost - lower)
            error = error + np.abs((total - residual) + (lost - lower)) + 4 * UNIT * np.abs(lost - lower) + TINY
            slope, rest, away = features.adjoint_bounded(residual, precise=True)
            term, lost = two_product(np.asarray(shift), w)
            slope, more = two_sum(slope, -term)
            rest = rest + (more - lost)
            # The shift is rounded, too.
            away = length(away) + 4 * UNIT * (shift * length(w) + length(rest)) + w.size * TINY
            rows.append((residual, length(error), slope.ravel(), rest.ravel(), away))
        residual, off, upper, lower, error = (np.array(part) for part in zip(*rows, strict=True))
        objective = float(np.sum((length(residual, axis=1) + off) ** 2) + shift * length(W) ** 2)
        return cls(features, shift, residual.T, off, upper.T, lower.T, error, ROUNDED * objective)

    def by_eigenvalue(self, smallest: float) -> float:
        """Return a bound on n times the excess if no positive eigenvalue of ΦᵀΦ + sI is below `smallest`.

        The excess is ‖P(Y − ΦW)‖²/n without a ridge, P the projection on the range of Φ, and ‖Pα‖² ≤ ‖g‖²/`smallest`.
        With a ridge, P projects on the range of (Φ, √s I), and the same holds for (α, −√s W).
        """
        slopes = length(self.upper + self.lower, axis=0) + self.error
        return ROUNDED * float(np.sum((slopes / smallest**0.5 + self.off) ** 2))

    def by_dual(self, inverse: Callable[[Array], Array]) -> float:
        """Return a bound on n times the excess for a ridge, where `inverse` approximates (ΦΦᵀ + sI)⁻¹.

        By duality, ‖Y − ΦW − α − δ‖² + ‖g + Φᵀδ‖²/s is one for every δ (n, q); the least is at −(ΦΦᵀ + sI)⁻¹Φg.
        """
        shape, bounds = (self.features.k, self.features.d), []
        for upper, lower, error, off in zip(self.upper.T, self.lower.T, self.error, self.off, strict=True):
            delta = -inverse(self.features @ upper.reshape(shape))
            more, rest, away = self.features.adjoint_bounded(delta, precise=True)
            slope = upper + more.ravel() + (lower + rest.ravel())
            size = length(slope) + error + length(away) + 4 * UNIT * (length(upper) + length(more))
            bounds.append((length(delta) + off) ** 2 + size**2 / self.shift)
        return ROUNDED * float(np.sum(bounds))

    def by_directions(self, T: Array, directions: Array) -> float:
        """Return a bound on n times the excess, or infinity, from T (kd, c) with nearly orthonormal columns ΦT.

        For a ridge, Φ is (Φ, √s I) here. The `directions` (kd, h), which complete the range of T, are those of tiny
        singular values: `_orthonormal` replaces them by T' with ΦT' orthonormal. If the rank of Φ is the number of
        columns of both, and σ the least singular value of Φ(T, T'), then ‖Pα‖ ≤ ‖(T, T')ᵀg‖/σ.
        """
        n, (size, seen) = self.features.n, T.shape
        full = size if self.shift else rank_bound(self.features, seen)
        if full <= seen or directions.size * n > MAX_PRECISE:
            directions = directions[:, :0]
        B = np.vstack([images(self.features, T), self.shift**0.5 * T])
        high, low, C, error = self._orthonormal(T, B, directions)
        largest = length(self.features.row_norms()) + self.shift**0.5
        error = np.hypot(length(error), share(size + 4) * largest * length(T))
        B, T, low = np.hstack([B, C]), np.hstack([T, high]), np.hstack([np.zeros_like(T), low])
        rank = B.shape[1]
        defect = length(B.T @ B - np.eye(rank)) + share(n + size + 8) * length(B) ** 2
        smallest = max(0.0, 1 - defect) ** 0.5 - error
        if not smallest > 0.5 or rank < full:
            return np.inf
        products, more, error = precise_product(T.T, self.upper)
        products = products + (more + low.T @ self.upper + T.T @ self.lower)
        small = np.abs(low).T @ np.abs(self.upper) + np.abs(T).T @ np.abs(self.lower)
        error = error + share(size + 8) * small + 4 * UNIT * np.abs(products) + length(T, axis=0)[:, None] * self.error
        return ROUNDED * float(np.sum((length(np.abs(products) + error, axis=0) / smallest + self.off) ** 2))

    def _orthonormal(self, T: Array, B: Array, high: Array) -> tuple[Array, Array, Array, Array]:
        """Return T' = high + low in the span of T and given directions, ΦT' and its error; B is ΦT.

        ΦT' is nearly orthonormal and orthogonal to B. Directions whose products are rounding alone are left out.
        """
        low = np.zeros_like(high)
        for step in range(3):
            pairs = [self._pair_product(*pair) for pair in zip(high.T, low.T, strict=True)]
            C, error = np.stack(pairs, axis=2) if pairs else np.zeros((2, len(B), 0))
            lengths = length(C, axis=0)
            clear = length(error, axis=0) < UNCLEAR * lengths
            high, low, C, error, lengths = high[:, clear], low[:, clear], C[:, clear], error[:, clear], lengths[clear]
            if step == 2 or not clear.any():
                break
            inner = B.T @ (C / lengths)
            _, sizes, turn = scipy.linalg.svd(C / lengths - B @ inner, full_matrices=False)
            # In the second step, what is left of dependent directions is rounding.
            turn = (turn.T / np.maximum(sizes, UNIT))[:, sizes >= step * UNCLEAR]
            mix = turn / lengths[:, None]
            upper, lower, _ = precise_product(np.hstack([T, high]), np.vstack([-inner @ turn, mix]))
            high, low = two_sum(upper, lower + low @ mix)
        return high, low, C, error

    def _pair_product(self, high: Array, low: Array) -> tuple[Array, Array]:
        """Return (Φ, √s I)(high + low) for a direction, shape (n + kd,), and its error."""
        shape = self.features.k, self.features.d
        upper, lower, error = self.features.apply_bounded(high.reshape(shape), precise=True)
        more, _, off = self.features.apply_bounded(low.reshape(shape))
        product = np.concatenate([upper + (lower + more), self.shift**0.5 * high])
        error = error + off + 2 * UNIT * (np.abs(lower) + np.abs(more))
        return product, np.append(error, np.zeros(len(high))) + 4 * UNIT * np.abs(product)


def images(features: Features, V: Array, transposed: bool = False) -> Array:
    """Return ΦV for V (kd, s), or ΦᵀV for V (n, s) if `transposed`."""
    blocks = ((rows, features.select(rows).dense()) for rows in row_blocks(features.n))
    if transposed:
        return np.asarray(sum(block.T @ V[rows] for rows, block in blocks))
    return np.concatenate([block @ V for _, block in blocks])


def rank_bound(features: Features, enough: int) -> int:
    """Return an upper bound on the rank of Φ; it may be coarse if it exceeds `enough` and Φ is large.

    It is the largest rank modulo random primes of 31 bits, of Φ or, times each other, of gate values and inputs. It is
    wrong if every prime divides all minors of the order of the rank r. These have about 150 r bits, so that the
    probability is about (1e-7 r)³, below 1e-12 for r up to 1000.

    >>> from implicit_bias import GatedFeatures
    >>> rank_bound(GatedFeatures([[0.1, 0.3, 0.4], [0.2, 0.5, 0.7], [0.0, 0.5, 0.5]]), 2)
    3
    """
    n, k, d = features.shape
    if enough >= min(n, k * d):
        return min(n, k * d)
    if isinstance(features, GatedFeatures):
        parts = [features.gate_values, features.X]
    else:
        parts = [np.ones((n, 1)), features.dense()]
    rows, bound = np.unique(np.hstack(parts), axis=0), 0
    for prime in _primes():
        G, X = np.split(_residues(rows, prime), [parts[0].shape[1]], axis=1)
        rank = _rank(G, prime) * _rank(X, prime)
        if rank > enough and len(rows) * k * d * min(len(rows), k * d) <= MAX_MODULAR:
            rank = _rank((G[:, :, None] * X[:, None] % prime).reshape(len(rows), -1), prime)
        bound = max(bound, min(rank, n, k * d))
    return bound


@lru_cache
def _primes() -> list[int]:
    candidates = np.random.default_rng(0).integers(2**30, 2**31, size=1000).tolist()
    return list(islice((p for p in candidates if (p % np.arange(2, 46341)).all()), PRIMES))


def _residues(A: Array, prime: int) -> np.ndarray:
    mantissas, exponents = np.frexp(A)
    first = int(exponents.min())
    powers = np.array([pow(2, e - 53, prime) for e in range(first, int(exponents.max()) + 1)])
    return np.asarray(np.ldexp(mantissas, 53).astype(np.int64) % prime * powers[exponents - first] % prime)


def _rank(A: np.ndarray, prime: int) -> int:
    """Return the rank of a matrix of integers modulo a prime below 2^31, by elimination; min(shape) if it is large."""
    A = A[A.any(axis=1)][:, A.any(axis=0)]
    if A.size * min(A.shape) > MAX_MODULAR:
        return min(A.shape)
    A, rank = A.copy() if len(A) >= A.shape[1] else A.T.copy(), 0
    for j in range(A.shape[1]):
        pivots = np.flatnonzero(A[rank:, j])
        if len(pivots):
            A[[rank, rank + pivots[0]]] = A[[rank + pivots[0], rank]]
            factors = A[rank + 1 :, j] * pow(int(A[rank, j]), -1, prime) % prime
            A[rank + 1 :, j:] = (A[rank + 1 :, j:] - factors[:, None] * A[rank, j:] % prime) % prime
            rank += 1
    return rank
