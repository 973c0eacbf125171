"""Cost of chains of linear units: a concave function of the lengths of their weights, with tangents and chords."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import UNIT, length
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupLasso

#: Length, relative to the longest block, at or below which a block is inactive.
INACTIVE = 1e-5
#: Four times the relative error of t^q with a rounded q, where q ln t is at most 745, the logarithm of a float.
POWER_ERROR = 4 * 750 * UNIT


@dataclass(frozen=True, eq=False)
class ChainCost:
    """Least ‖w‖²/L of chains with effective weights ζ (k, d), F(ζ) = Σ_h S_h^{G/L} with S_h = Σ_{j∈h} ‖ζ_j‖^{2/G}.

    F is a concave and nondecreasing function of the lengths s_b of blocks b of ζ:

        F = Σ_h T_h^e,   T_h = Σ_{b∈h} s_b^p

    For G = 1 a block is a whole unit, s_h = ‖ζ_h‖_F, p = 1 and e = 2/L. For G ≥ 2 it is the row of a gate, p = 2/G and
    e = G/L. The exponents p and e are at most 1.

    >>> import numpy as np
    >>> cost = ChainCost(np.array([0, 0]), layers=3, gated=1)
    >>> cost.value(np.array([[6.0], [8.0]])) == 10 ** (2 / 3)
    True
    """

    #: Unit h of each gate, numbered from 0, shape (k,).
    units: np.ndarray
    #: Numbers L of layers and G of gated layers.
    layers: int
    gated: int

    @property
    def blocks(self) -> np.ndarray:
        """Index b of each gate's block, shape (k,)."""
        return self.units if self.gated == 1 else np.arange(len(self.units))

    @property
    def owners(self) -> np.ndarray:
        """Index h of each block's unit, shape (B,)."""
        return np.arange(self.units.max() + 1) if self.gated == 1 else self.units

    @property
    def p(self) -> float:
        """Exponent p of the blocks' lengths s_b."""
        return 1.0 if self.gated == 1 else 2 / self.gated

    @property
    def e(self) -> float:
        """Exponent e of the units' sums T_h."""
        return (2 if self.gated == 1 else self.gated) / self.layers

    def lengths(self, W: Array) -> Array:
        """Return the lengths s_b (B,) of all blocks of weights W (k, d)."""
        rows = length(W, axis=1)
        return np.asarray(np.sqrt(np.bincount(self.blocks, rows**2))) if self.gated == 1 else rows

    def sums(self, s: Array) -> Array:
        """Return the sums T_h (H,) of all units, for blocks of lengths s (B,)."""
        return np.asarray(np.bincount(self.owners, s**self.p), dtype=np.float64)

    def value(self, W: Array) -> float:
        """Return F(W) of weights W (k, d)."""
        return float((self.sums(self.lengths(W)) ** self.e).sum())

    def tangent(self, s: Array) -> Array:
        """Return ∂F/∂s_b (B,) at the lengths s (B,): for s_b = 0 the derivative from the right, which may be inf."""
        with np.errstate(divide="ignore"):
            return np.asarray((self.e * self.sums(s) ** (self.e - 1))[self.owners] * self.p * s ** (self.p - 1))

    def problem(self, features: GatedFeatures, y: Array, slopes: Array) -> tuple[MarginProblem, np.ndarray]:
        """Return the problem min Σ_b c_b ‖ζ_b‖, c = `slopes` (B,), and a mask (k,) of its gates, with finite c_b."""
        finite = np.isfinite(slopes)[self.blocks]
        used, groups = np.unique(self.blocks[finite], return_inverse=True)
        part = GatedFeatures(features.X, features.gate_values[:, finite])
        return MarginProblem(part, y, GroupLasso(groups, slopes[used]), name="chains"), finite


@dataclass(frozen=True, eq=False)
class Box:
    """Box of the lengths s_b and the sums T_h, with the chords of F over it.

    On [l, u] the concave t^q is at least its chord, and elsewhere at most. Therefore F ≥ α + Σ_b c_b s_b in the box.
    Everywhere, F exceeds the right-hand side by at most the sum of the chords' largest gaps in the box. `blocks` (2, B)
    are lower and upper bounds of s_b, and `units` (2, H) those of T_h.
    """

    cost: ChainCost
    blocks: Array
    units: Array

    @classmethod
    def below(cls, cost: ChainCost, bound: float) -> Box:
        """Return the box 0 ≤ s_b ≤ bound^{1/pe}, 0 ≤ T_h ≤ bound^{1/e}, which contains all weights with F ≤ `bound`."""
        uppers = np.array([bound ** (1 / (cost.p * cost.e)), bound ** (1 / cost.e)]) * (1 + POWER_ERROR)
        sizes = len(cost.owners), int(cost.units.max()) + 1
        boxes = (np.array([np.zeros(m), np.full(m, upper)]) for m, upper in zip(sizes, uppers, strict=True))
        return cls(cost, *boxes)

    def chord(self) -> tuple[float, Array]:
        """Return α, rounded down, and c_b ≥ 0 (B,) of the lower bound F ≥ α + Σ_b c_b s_b in the box."""
        inner, slopes = _chords(self.blocks, self.cost.p)
        outer, steep = _chords(self.units, self.cost.e)
        each = steep[self.cost.owners]
        terms = np.append(outer, each * inner)
        return float(terms.sum() - 2 * (len(terms) + 4) * UNIT * np.abs(terms).sum()), each * slopes

    def chord_gaps(self, s: Array) -> tuple[Array, Array]:
        """Return the parts of F − α − Σ_b c_b s_b at s (B,) that the chords of blocks (B,) and of units (H,) cause."""
        inner, slopes = _chords(self.blocks, self.cost.p)
        outer, steep = _chords(self.units, self.cost.e)
        T = self.cost.sums(s)
        return steep[self.cost.owners] * (s**self.cost.p - inner - slopes * s), T**self.cost.e - outer - steep * T

    def split(self, s: Array) -> tuple[Box, Box]:
        """Split the s_b or T_h with the largest chord gap at s (B,), between there and the peak; return both boxes."""
        by_block, by_unit = self.chord_gaps(s)
        inner = self.cost.e == 1 or (self.cost.p < 1 and by_block.max() > by_unit.max())
        bounds, q = (self.blocks, self.cost.p) if inner else (self.units, self.cost.e)
        which = int((by_block if inner else by_unit).argmax())
        low, high = bounds[:, which]
        widest = ((high**q - low**q) / (high - low) / q) ** (1 / (q - 1))
        below, above = bounds.copy(), bounds.copy()
        below[1, which] = above[0, which] = np.sqrt(widest * (s if inner else self.cost.sums(s))[which])
        if inner:
            return Box(self.cost, below, self.units), Box(self.cost, above, self.units)
        return Box(self.cost, self.blocks, below), Box(self.cost, self.blocks, above)


def _chords(bounds: Array, q: float) -> tuple[Array, Array]:
    """Return a, rounded down, and c ≥ 0 with t^q ≥ a + ct on [l, u], for bounds (2, m) and an exponent q ≤ 1."""
    low, high = bounds
    if q == 1:
        return np.zeros_like(low), np.ones_like(low)
    c = (high**q - low**q) / (high - low)
    # t^q − ct is concave for any rounded c, and therefore least at an end.
    return np.minimum(low**q - c * low, high**q - c * high) - POWER_ERROR * high**q, c


def without_inactive(W: Array, cost: ChainCost) -> Array:
    """Return W (k, d) with 0 in blocks that are at most INACTIVE times as long as the longest."""
    lengths = cost.lengths(W)
    return np.where((lengths > INACTIVE * lengths.max())[cost.blocks][:, None], W, 0.0)
