"""Norms of two layers in rational arithmetic, exact or rounded up.

Only proposals are floats, such as s, p and singular vectors; that they are best is not assumed. Every bound is proved
from its formula and holds for all of them.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from implicit_bias.norms.two_summing import balancing_shares, balancing_squares
from tests.fuzz.exact import NEVER, fractions, root

#: The norm of the lengths r_h of units: Σ r_h, (Σ r_h²/m_h)^½, or max r_h/m_h; and the q of r_h = ‖ζ_h‖_q.
SUMS = {("frobenius", "l2"): 2, ("rows", "l1"): 2, ("entries", "l1"): np.inf, ("l1", "l_inf"): 1}
SQUARES = {("frobenius", "l_inf"): 2, ("rows", "l2"): 2, ("entries", "l2"): np.inf}
LARGEST = {("rows", "l_inf"): 2, ("entries", "l_inf"): np.inf}
SPECTRAL = (("spectral", "l2"), ("spectral", "l_inf"))
CONJUGATE = {1: np.inf, 2: 2, np.inf: 1}
#: Relative accuracy of the largest singular values.
ACCURACY = Fraction(1, 2**64)
#: Digits of singular vectors, of which short rows cost half; smaller singular values are left to the remainder.
DIGITS, NEGLIGIBLE = 60, 1e-25


@dataclass
class Layers:
    """The norm of W = diag(v)U that norms of U and v induce: W as a vector, with the `members` of each unit's row."""

    layers: tuple[str, str]
    members: list[list[int]]
    multiplicities: list[Fraction]

    def value(self, w: Any) -> Fraction:
        if self.layers in SPECTRAL:
            return self._spectral(w[np.array(self.members)])
        sizes, m = self._sizes(w), self.multiplicities
        if self.layers in SUMS:
            return sum(sizes, NEVER)
        if self.layers in SQUARES:
            return root(sum((r**2 / c for r, c in zip(sizes, m, strict=True)), NEVER))
        return max(r / c for r, c in zip(sizes, m, strict=True))

    def dual(self, v: Any) -> Fraction:
        if self.layers in SPECTRAL:
            return self._dual_spectral(v[np.array(self.members)])
        sizes, m = self._sizes(v, dual=True), self.multiplicities
        if self.layers in SUMS:
            return max(sizes)
        if self.layers in SQUARES:
            return root(sum((c * r**2 for r, c in zip(sizes, m, strict=True)), NEVER))
        return sum((c * r for r, c in zip(sizes, m, strict=True)), NEVER)

    def _sizes(self, w: Any, dual: bool = False) -> list[Fraction]:
        q = (SUMS | SQUARES | LARGEST)[self.layers]
        q = CONJUGATE[q] if dual else q
        rows = [w[each] for each in self.members]
        return [root(sum(r**2)) if q == 2 else sum(abs(r)) if q == 1 else max(abs(r)) for r in rows]

    def _spectral(self, W: Any) -> Fraction:
        """Return ρ(W) = √Σs or ‖diag(m)^−½ W‖ = 1 for the least multiple of s or m with WWᵀ ⪯ diag(s) or diag(m)."""
        W, by = _scaled(W)
        s = np.array(self.multiplicities)
        if self.layers[1] == "l2":
            s = fractions(balancing_squares(W.astype(float)))
            s[(s == 0) & (W != 0).any(axis=1)] = Fraction(1, 2**900)
        by *= root(sum(s)) if self.layers[1] == "l2" else 1
        return by * root(_least_multiple(W @ W.T, s))

    def _dual_spectral(self, V: Any) -> Fraction:
        """Bound the dual norm by any R and Z.

        ⟨V, W⟩ ≤ ‖RW‖_F ‖Z‖_F + ⟨V − RᵀZ, W⟩, where ‖RW‖_F² = ⟨RᵀR, WWᵀ⟩ is at most max_h ‖Re_h‖² ρ(W)², and at most
        Σ_h m_h ‖Re_h‖² times the squared norm with m; rows of W are no longer than ρ(W), and √m_h times that norm.
        """
        if not V.any():
            return Fraction(0)
        V, by = _scaled(V)
        m, summing = np.array(self.multiplicities), self.layers[1] == "l2"
        p = balancing_shares(V.astype(float)) if summing else m.astype(float)
        taken = V * (p[:, None] > 0)
        sizes, T = _singular(np.sqrt(p), taken)
        found = T @ taken.T / np.array([root(size) for size in sizes])[:, None]
        # At the best p, no ‖Re_h‖² exceeds Σσ; what is cut off is left to the last term.
        long = [max(root(square / sum(sizes)), 1) if summing else 1 for square in sum(found**2)]
        R, Z = found / np.array(long), np.array([root(size) for size in sizes])[:, None] * T
        squares, rest = sum(R**2), V - R.T @ Z
        most = max(squares) if summing else sum(m * squares)
        lost = root(sum(rest.ravel() ** 2)) if summing else sum(map(root, m * (rest**2).sum(axis=1)))
        return by * (root(most * sum(Z.ravel() ** 2)) + lost)


def _singular(scales: Any, V: Any) -> tuple[list[Fraction], Any]:
    """Return the singular values of diag(scales) V that are not negligible, and the right singular vectors as rows."""
    with mpmath.workdps(DIGITS):
        rows = [[s * mpmath.mpf(v.numerator) / v.denominator for v in row] for s, row in zip(scales, V, strict=True)]
        A = mpmath.matrix(rows)
        squares, T = mpmath.eigsy(A.T * A)
        sizes = [mpmath.sqrt(abs(square)) for square in squares]
        used = [i for i, size in enumerate(sizes) if size > NEGLIGIBLE * max(sizes)]
        exact = [[Fraction(*mpmath.libmp.to_rational(mpmath.mpf(v)._mpf_)) for v in [sizes[i], *T[:, i]]] for i in used]
    return [row[0] for row in exact], np.array([row[1:] for row in exact]).reshape(len(used), V.shape[1])


def _scaled(W: Any) -> tuple[Any, Fraction]:
    """Return W divided by a power of two, so that its largest entry is about 1, and this power."""
    largest = max(abs(W).ravel())
    if largest == 0:
        return W, Fraction(1)
    bits = largest.numerator.bit_length() - largest.denominator.bit_length()
    by = Fraction(2) ** bits
    return W / by, by


def _least_multiple(G: Any, s: Any) -> Fraction:
    """Return the least c with G ⪯ c·diag(s), rounded up; s must be positive where the diagonal of G is."""
    used = s > 0
    G, s = G[np.ix_(used, used)], s[used]
    units = fractions(2.0 ** np.round(np.array([_log2(c) for c in s]) / 2))
    scaled = (G / np.outer(units, units)).astype(float)
    others = (s / units**2).astype(float)
    largest = np.linalg.eigvalsh(scaled / np.sqrt(np.outer(others, others))).max(initial=0.0)
    if not largest > 0:
        return Fraction(0)
    high, room = Fraction(float(largest)), Fraction(1, 2**46)
    while not semidefinite(np.diag(high * (1 + room) * s) - G):
        room *= 2
    low, high = high * (1 - room), high * (1 + room)
    while high - low > ACCURACY * high:
        middle = (low + high) / 2
        if semidefinite(np.diag(middle * s) - G):
            high = middle
        else:
            low = middle
    return high


def _log2(c: Fraction) -> float:
    return float(c.numerator.bit_length() - c.denominator.bit_length())


def semidefinite(A: Any) -> bool:
    """Decide if a symmetric matrix of Fractions is positive semidefinite, by elimination."""
    A = A.copy()
    for i in range(len(A)):
        pivot, row = A[i, i], A[i, i + 1 :].copy()
        if pivot < 0 or (pivot == 0 and any(row != 0)):
            return False
        if pivot > 0:
            A[i + 1 :, i + 1 :] -= np.outer(row, row) / pivot
    return True
