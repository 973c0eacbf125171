"""The second moments that a squared loss on gated linear features depends on, in structured form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_floats,
    as_numbers,
    check_range,
    check_size,
    dimensions,
    shown,
)
from implicit_bias.extensions.gated_flow.gate_blocks import (
    ROUNDING,
    SIZES,
    Block,
    MomentSums,
    Spectrum,
    along,
    phi,
    refined,
    spectrum_of,
)
from implicit_bias.features import GatedFeatures

#: Differences from symmetry, against the largest entry, that rounding explains.
ASYMMETRY = 1e-10


@dataclass(frozen=True, eq=False)
class Moments:
    """b_i = ⟨g_i y x⟩, A_ij = ⟨g_i g_j x xᵀ⟩ and ⟨y²⟩: all that the loss of ŷ = Σ_i g_i(x) w_iᵀx depends on.

        L(w) = ⟨(y − ŷ)²⟩ = ⟨y²⟩ − 2bᵀw + wᵀAw

    Gates that are the same are held once, and A only for gates that are open together, directly or by way of others:
    k exclusive gates (never two open at once) have k blocks d × d. Both are found, not asked for.

    Make one by `from_samples`, `accumulate`, `from_arrays` or `pixel_moments`.

    Attributes
    ----------
    members : array, shape (k,), integers
        Which of the distinct gates each gate is.
    blocks : tuple of Block
        Moments of the distinct gates, those that are open together in one block.
    power : float
        ⟨y²⟩.
    d : int
        Number of inputs.
    samples : int or None
        How many the means are over; None if they are not over samples.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.gated_flow.moments import Moments
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, 0.5])
    >>> gates = np.hstack([X > 0, X > 0, X <= 0]).astype(float)
    >>> found = Moments.from_samples(GatedFeatures(X, gates), y)
    >>> found.redundant, found.exclusive, round(found.best_loss, 6), found.best_weights.round(4).tolist()
    (1, True, 0.066667, [[0.7], [0.7], [-0.5]])
    """

    members: np.ndarray = field(repr=False)
    blocks: tuple[Block, ...] = field(repr=False)
    power: float
    d: int
    samples: int | None = None

    @classmethod
    def from_samples(cls, features: GatedFeatures, y: ArrayLike) -> Moments:
        """The means over n samples.

        Parameters
        ----------
        features : GatedFeatures
        y : array, shape (n,)

        Raises
        ------
        InputError
            For targets that are not finite or not one per sample, and for features or targets beyond 1e-60 to 1e60.
        """
        return cls.accumulate([(features, y)])

    @classmethod
    def accumulate(cls, chunks: Iterable[tuple[GatedFeatures, Any]]) -> Moments:
        """The means over all samples of chunks (features, y), of which one at a time is held.

        >>> from implicit_bias import GatedFeatures
        >>> from implicit_bias.extensions.gated_flow.rings import SinglePulse
        >>> from implicit_bias.extensions.gated_flow.moments import Moments
        >>> draws = SinglePulse(n=8, lengths=(3, 1)).stream(chunks=10, size=100)
        >>> Moments.accumulate((GatedFeatures(X), y) for X, y in draws).samples
        1000

        Raises
        ------
        InputError
            As for `from_samples`, and for chunks that differ in gates or inputs, or are none.
        """
        sums: MomentSums | None = None
        for chunk in chunks:
            if not isinstance(chunk, tuple | list) or len(chunk) != 2 or not isinstance(chunk[0], GatedFeatures):
                raise InputError(f"each chunk must be a pair (GatedFeatures, y), not {shown(chunk)}")
            sums = sums or MomentSums(chunk[0].k, chunk[0].d)
            sums.add(*chunk)
        if sums is None:
            raise InputError("there are no chunks; give at least one")
        n = sums.samples
        blocks = tuple(Block(block.gates, block.A / n, block.b / n) for block in sums.blocks)
        return cls(sums.members, blocks, sums.power / n, sums.d, n)

    @classmethod
    def from_arrays(cls, b: ArrayLike, A: ArrayLike, power: float) -> Moments:
        """Moments that are known otherwise, of a distribution, say.

        Gates with equal b_i and equal rows A_i· are the same; A_ij = 0 keeps gates apart.

        Parameters
        ----------
        b : array, shape (k, d)
        A : array, shape (k·d, k·d), gate by gate, or (k, d, k, d)
        power : float
            ⟨y²⟩.

        Raises
        ------
        InputError
            For shapes that do not fit, an A that is not symmetric or has a negative eigenvalue, a b with a part outside
            the range of A, along which the flow would go on for ever, and a b too large for ⟨y²⟩: the loss would be
            negative. What rounding explains passes.

        Examples
        --------
        >>> from implicit_bias.extensions.gated_flow.moments import Moments
        >>> Moments.from_arrays([[1.0, 0.0]], np.diag([2.0, 1.0]), power=1.0).best_loss
        0.5
        """
        b = as_floats(b, "b", 2)
        k, d = b.shape
        A = as_floats(A, "A", 4 if dimensions(A) == 4 else 2)
        if A.shape not in ((k * d, k * d), (k, d, k, d)):
            raise InputError(f"A must have the shape {(k * d, k * d)} or {(k, d, k, d)} for b {b.shape}, not {A.shape}")
        A = A.reshape(k * d, k * d)
        power = float(as_floats([power], "power", 1)[0])
        for sizes, what in ((A, "A"), (b, "b"), (np.array([power]), "power")):
            check_range(np.abs(sizes).max(keepdims=True).ravel(), what, SIZES[0] ** 2, SIZES[1] ** 2)
        if np.abs(A - A.T).max() > ASYMMETRY * np.abs(A).max():
            raise InputError("A is not symmetric; give ⟨g_i g_j x xᵀ⟩, gate by gate")
        rows = np.hstack([((A + A.T) / 2).reshape(k, -1), b])
        members, _, distinct = refined(np.zeros(k, dtype=np.int64), rows.T)
        first = np.unique(members, return_index=True)[1]
        cells = distinct[:-d].T.reshape(len(first), d, k, d)[:, :, first]
        count, labels = connected_components(csr_array(cells.any(axis=(1, 3))), directed=False)
        groups = [np.flatnonzero(labels == label) for label in range(count)]
        blocks = tuple(_block(gates, cells, b[first]) for gates in groups)
        found = cls(members, blocks, power, d)
        _check_consistent(found)
        return found

    @property
    def k(self) -> int:
        """Number of gates."""
        return len(self.members)

    @property
    def copies(self) -> np.ndarray:
        """How many times each distinct gate comes, shape (q,)."""
        return np.bincount(self.members)

    @property
    def redundant(self) -> int:
        """How many gates are copies of others."""
        return self.k - len(self.copies)

    @property
    def exclusive(self) -> bool:
        """Whether no two distinct gates are coupled, so that each is solved alone."""
        return all(len(block.gates) == 1 for block in self.blocks)

    @property
    def b(self) -> Array:
        """⟨g_i y x⟩, shape (k, d)."""
        distinct = np.empty((len(self.copies), self.d))
        for block in self.blocks:
            distinct[block.gates] = block.b
        return distinct[self.members]

    def dense(self) -> Array:
        """A of all gates, shape (k·d, k·d), gate by gate: for tests and small problems."""
        check_size((self.k * self.d) ** 2, "A")
        q, d = len(self.copies), self.d
        cells = np.zeros((q, d, q, d))
        for block in self.blocks:
            size = len(block.gates)
            rows, columns = block.gates[:, None], block.gates[None, :]
            cells[rows, :, columns, :] = block.A.reshape(size, d, size, d).transpose(0, 2, 1, 3)
        return cells[self.members][:, :, self.members].reshape(self.k * d, self.k * d)

    @cached_property
    def spectra(self) -> tuple[Spectrum, ...]:
        """The eigendecomposition of each block, the copies of a gate in reduced form."""
        return tuple(spectrum_of(block, self.copies[block.gates], self.d) for block in self.blocks)

    @property
    def unresolved(self) -> int:
        """How many directions count as unreachable by the features although rounding alone may not explain it.

        Their eigenvalue of A is below 1e-12 of the largest: some inputs or gates are 1e6 times smaller than others, or
        features nearly dependent. Flows stay where they are along these, and the best loss is without them. In A they
        cannot be told from rounding; `least_squares` works on the features, and sees up to condition numbers of 1e9.

        >>> from implicit_bias.extensions.gated_flow.moments import Moments
        >>> Moments.from_arrays([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1e-13]], power=10.0).unresolved
        1
        """
        return sum(s.unresolved for s in self.spectra)

    def loss(self, W: ArrayLike) -> float:
        """⟨(y − ŷ)²⟩ at weights (k, d), infinite where it or they are beyond floats, NaN for NaN."""
        W = as_numbers(W, (self.k, self.d), "weights")
        sums = np.zeros((len(self.copies), self.d))
        total = self.power
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(sums, self.members, W)
            for block in self.blocks:
                w = sums[block.gates].ravel()
                total += float(w @ (block.A @ w - 2 * block.b.ravel()))
        return total if np.isfinite(total) else np.nan if np.isnan(W).any() else np.inf

    @property
    def best_loss(self) -> float:
        """⟨y²⟩ − bᵀA⁺b, the loss of the best linear readout with these gates."""
        gains = [float(np.sum(along(s.pull**2, s.values))) for s in self.spectra]
        return max(0.0, self.power - sum(gains))

    @property
    def best_weights(self) -> Array:
        """A⁺b, the best readout of least norm, shape (k, d)."""
        return self.combine([along(s.pull, s.values) for s in self.spectra])

    def moved(self, W: Array, shares: Array) -> Array:
        """Where the flow dw/ds = b − Aw leads from weights (k, d) at each s = t/Kτ of `shares` (T,): (T, k, d)."""
        # Where λ = 0 there is no pull, and the start stays.
        pairs = zip(self.spectra, self.coordinates(W), strict=True)
        return W + self.combine([phi(s.values, shares) * (s.pull - s.values * c) for s, c in pairs])

    def coordinates(self, W: Array) -> list[Array]:
        """Vᵀu of each block (qd,), where u_g = Σ w_i/√m_g over the m_g copies i of gate g, for weights (k, d)."""
        sums = np.zeros((len(self.copies), self.d))
        np.add.at(sums, self.members, W)
        sums /= np.sqrt(self.copies)[:, None]
        return [s.vectors.T @ sums[block.gates].ravel() for block, s in zip(self.blocks, self.spectra, strict=True)]

    def combine(self, coordinates: list[Array]) -> Array:
        """The weights (…, k, d) of coordinates (…, qd) of each block, equal for the copies of a gate."""
        distinct = np.empty((*coordinates[0].shape[:-1], len(self.copies), self.d))
        for block, s, c in zip(self.blocks, self.spectra, coordinates, strict=True):
            distinct[..., block.gates, :] = (c @ s.vectors.T).reshape(*c.shape[:-1], -1, self.d)
        distinct /= np.sqrt(self.copies)[:, None]
        return np.asarray(distinct[..., self.members, :])


def _block(gates: np.ndarray, cells: Array, b: Array) -> Block:
    size = b.shape[1] * len(gates)
    return Block(gates, cells[gates][:, :, gates].reshape(size, size), b[gates])


def _check_consistent(moments: Moments) -> None:
    """Refuse moments that no distribution has: then |vᵀb|² ≤ vᵀAv ⟨y²⟩ fails for some v."""
    if moments.power < 0:
        raise InputError(f"power is ⟨y²⟩, which cannot be negative, but is {moments.power:g}")
    gain = 0.0
    for s in moments.spectra:
        scale = float(s.values[-1])
        if s.lowest < -ASYMMETRY * scale:
            raise InputError(f"A has the eigenvalue {s.lowest:.3g}, and second moments have none below 0")
        if s.outside > np.sqrt(ROUNDING * scale * moments.power * len(s.values)):
            raise InputError(
                f"b has a part of size {s.outside:.3g} outside the range of A, along which the flow would never end; "
                "moments of one distribution have none"
            )
        gain += float(np.sum(along(s.pull**2, s.values + ROUNDING * scale)))
    if gain > moments.power * (1 + ASYMMETRY):
        raise InputError(f"bᵀA⁺b is {gain:.6g} and ⟨y²⟩ only {moments.power:.6g}: the loss would be negative")
