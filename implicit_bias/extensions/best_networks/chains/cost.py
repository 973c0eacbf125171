"""What chains of linear units cost: a concave function of the lengths of their weights, with tangents and chords."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.rounding import UNIT
from implicit_bias._utils.scaling import length
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupLasso

#: Blocks shorter than this share of the longest are idle.
IDLE = 1e-5
#: What the rounding of t^q and of q takes off, as a share, four times over: q ln t is a float's logarithm, 745 at most.
POWER = 4 * 750 * UNIT


@dataclass(frozen=True, eq=False)
class ChainCost:
    """F(ζ) = Σ_h S_h^{G/L}, S_h = Σ_{j∈h} ‖ζ_j‖^{2/G}: the least ‖w‖²/L of chains with effective weights ζ (k, d).

    It is a concave function of the lengths s_b of blocks b of ζ, which never falls where one grows:

        F = Σ_h T_h^e,   T_h = Σ_{b∈h} s_b^p

    For G = 1 a block is a whole unit, s_h = ‖ζ_h‖_F, p = 1 and e = 2/L; for G ≥ 2 it is the row of a gate, p = 2/G and
    e = G/L. Both exponents are at most 1.

    >>> import numpy as np
    >>> cost = ChainCost(np.array([0, 0]), layers=3, gated=1)
    >>> cost.value(np.array([[6.0], [8.0]])) == 10 ** (2 / 3)
    True
    """

    #: The unit h of every gate, from 0 on, shape (k,).
    units: np.ndarray
    layers: int
    gated: int

    @property
    def blocks(self) -> np.ndarray:
        """The block of every gate, shape (k,)."""
        return self.units if self.gated == 1 else np.arange(len(self.units))

    @property
    def owners(self) -> np.ndarray:
        """The unit of every block."""
        return np.arange(self.units.max() + 1) if self.gated == 1 else self.units

    @property
    def p(self) -> float:
        """The exponent of a block's length."""
        return 1.0 if self.gated == 1 else 2 / self.gated

    @property
    def e(self) -> float:
        """The exponent of a unit's sum."""
        return (2 if self.gated == 1 else self.gated) / self.layers

    def lengths(self, W: Array) -> Array:
        """s_b of all blocks of weights (k, d)."""
        rows = length(W, axis=1)
        return np.asarray(np.sqrt(np.bincount(self.blocks, rows**2))) if self.gated == 1 else rows

    def sums(self, s: Array) -> Array:
        """T_h of all units."""
        return np.asarray(np.bincount(self.owners, s**self.p), dtype=np.float64)

    def value(self, W: Array) -> float:
        """F of weights (k, d)."""
        return float((self.sums(self.lengths(W)) ** self.e).sum())

    def tangent(self, s: Array) -> Array:
        """∂F/∂s_b, infinite where a block or unit of length 0 would begin with an infinite slope."""
        with np.errstate(divide="ignore"):
            outer = self.e * self.sums(s) ** (self.e - 1)
            return np.asarray(outer[self.owners] * self.p * s ** (self.p - 1))

    def problem(self, features: GatedFeatures, y: Array, slopes: Array) -> tuple[MarginProblem, np.ndarray]:
        """The group lasso of blocks with these weights, without those of infinite weight; which gates it has (k,)."""
        kept = np.isfinite(slopes)[self.blocks]
        used, groups = np.unique(self.blocks[kept], return_inverse=True)
        part = GatedFeatures(features.X, features.gate_values[:, kept])
        return MarginProblem(part, y, GroupLasso(groups, slopes[used]), name="chains"), kept


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds of the lengths s_b and of the sums T_h, and the chords of F over them.

    A concave t^q is no less than its chord on [l, u], and no more outside. So F ≥ α + Σ_b c_b s_b in the box, and
    everywhere F less what chords miss in the box is below it.

    Attributes
    ----------
    blocks : array, shape (2, B)
        Lower and upper bounds of s_b.
    units : array, shape (2, H)
        Lower and upper bounds of T_h.
    """

    cost: ChainCost
    blocks: Array
    units: Array

    @classmethod
    def below(cls, cost: ChainCost, bound: float) -> Box:
        """All lengths of weights that cost no more than a bound."""
        tops = bound ** (1 / (cost.p * cost.e)), bound ** (1 / cost.e)
        sizes = len(cost.owners), int(cost.units.max()) + 1
        made = (
            np.array([np.zeros(size), np.full(size, top * (1 + POWER))]) for size, top in zip(sizes, tops, strict=True)
        )
        return cls(cost, *made)

    def chord(self) -> tuple[float, Array]:
        """α, rounded down, and c_b ≥ 0."""
        inner, slopes = _chords(self.blocks, self.cost.p)
        outer, steep = _chords(self.units, self.cost.e)
        each = steep[self.cost.owners]
        terms = np.append(outer, each * inner)
        return float(terms.sum() - 2 * (len(terms) + 4) * UNIT * np.abs(terms).sum()), each * slopes

    def missed(self, s: Array) -> tuple[Array, Array]:
        """How far F is above the chords at lengths s: the shares of the blocks' chords (B,) and the units' (H,)."""
        inner, slopes = _chords(self.blocks, self.cost.p)
        outer, steep = _chords(self.units, self.cost.e)
        T = self.cost.sums(s)
        each = s**self.cost.p - inner - slopes * s
        return steep[self.cost.owners] * each, T**self.cost.e - outer - steep * T

    def halves(self, s: Array) -> tuple[Box, Box]:
        """The box cut in two in the variable whose chord misses most of F at s.

        The cut lies between its value there and where its chord misses most, in the geometric mean.
        """
        by_block, by_unit = self.missed(s)
        inner = by_block.max() > by_unit.max()
        bounds, q = (self.blocks, self.cost.p) if inner else (self.units, self.cost.e)
        which = int((by_block if inner else by_unit).argmax())
        low, high = bounds[:, which]
        furthest = ((high**q - low**q) / (high - low) / q) ** (1 / (q - 1))
        below, above = bounds.copy(), bounds.copy()
        below[1, which] = above[0, which] = np.sqrt(furthest * (s if inner else self.cost.sums(s))[which])
        if inner:
            return Box(self.cost, below, self.units), Box(self.cost, above, self.units)
        return Box(self.cost, self.blocks, below), Box(self.cost, self.blocks, above)


def _chords(bounds: Array, q: float) -> tuple[Array, Array]:
    """a, rounded down, and c ≥ 0 with t^q ≥ a + ct for l ≤ t ≤ u, for bounds (2, m) and an exponent q ≤ 1."""
    low, high = bounds
    if q == 1:
        return np.zeros_like(low), np.ones_like(low)
    c = (high**q - low**q) / (high - low)
    # Concave, so that t^q − ct is least at an end, whatever c was rounded to.
    return np.minimum(low**q - c * low, high**q - c * high) - POWER * high**q, c


def without_idle(W: Array, cost: ChainCost) -> Array:
    """Weights whose blocks below `IDLE` are 0.

    >>> without_idle(np.array([[1.0], [1e-9]]), ChainCost(np.array([0, 1]), 3, 2)).tolist()
    [[1.0], [0.0]]
    """
    lengths = cost.lengths(W)
    return np.where((lengths > IDLE * lengths.max())[cost.blocks][:, None], W, 0.0)
