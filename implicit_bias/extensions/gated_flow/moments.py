"""The second moments on which the squared loss of gated linear features depends, in blocks of coupled gates.

Those of pixel gates 1(x_i ≥ 0) on a process on a ring are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias.extensions.gated_flow import gate_blocks
from implicit_bias.extensions.gated_flow.gate_blocks import ROUNDING, SIZES, Block, MomentSums, Spectrum
from implicit_bias.extensions.gated_flow.rings import RingProcess
from implicit_bias.features import GatedFeatures

#: Deviation from symmetry and definiteness, relative to the largest entry, that is attributed to rounding.
ASYMMETRY = 1e-10


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments that determine the loss of ŷ = Σ_i g_i(x) w_iᵀx.

        L(w) = ⟨(y − ŷ)²⟩ = ⟨y²⟩ − 2bᵀw + wᵀAw,    b_i = ⟨g_i y x⟩,   A_ij = ⟨g_i g_j x xᵀ⟩

    Equal gates are stored once, and A only for coupled gates: those open together, directly or through others. For
    example, k exclusive gates (no two open at once) have k blocks d × d. This structure is detected automatically.

    Construct one by `from_samples`, `accumulate`, `from_arrays` or `pixel_moments`.

    Attributes
    ----------
    inverse : array, shape (k,), integers
        Index of the distinct gate that each gate equals.
    blocks : tuple of Block
        Moments of the distinct gates, one block per set of coupled gates.
    power : float
        ⟨y²⟩.
    d : int
        Number of inputs.
    samples : int or None
        Number of samples of the means; None for exact moments.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.gated_flow import Moments
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, 0.5])
    >>> gates = np.hstack([X > 0, X > 0, X <= 0]).astype(float)
    >>> found = Moments.from_samples(GatedFeatures(X, gates), y)
    >>> found.redundant, found.exclusive, round(found.best_loss, 6), found.best_weights.round(4).tolist()
    (1, True, 0.066667, [[0.7], [0.7], [-0.5]])
    """

    inverse: np.ndarray = field(repr=False)
    blocks: tuple[Block, ...] = field(repr=False)
    power: float
    d: int
    samples: int | None = None

    @classmethod
    def from_samples(cls, features: GatedFeatures, y: ArrayLike) -> Moments:
        """Return the means over n samples with targets y (n,).

        Raises
        ------
        InputError
            If `features` are not GatedFeatures, targets are not finite or not one per sample, or the size of a target
            or of a sample's largest feature is nonzero and outside 1e-60 … 1e60.
        """
        if not isinstance(features, GatedFeatures):
            raise InputError(f"features must be GatedFeatures, such as GatedFeatures(X, gates), not {shown(features)}")
        return cls.accumulate([(features, y)])

    @classmethod
    def accumulate(cls, chunks: Iterable[tuple[GatedFeatures, Any]]) -> Moments:
        """Return the means over all samples of chunks (features, y), one of which is in memory at a time.

        >>> from implicit_bias import GatedFeatures
        >>> from implicit_bias.extensions.gated_flow import Moments, SinglePulse
        >>> draws = SinglePulse(n=8, lengths=(3, 1)).stream(chunks=10, size=100)
        >>> Moments.accumulate((GatedFeatures(X), y) for X, y in draws).samples
        1000

        Raises
        ------
        InputError
            As for `from_samples`, and if chunks differ in gates or inputs, or there are no chunks.
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
        return cls(sums.inverse, blocks, sums.power / n, sums.d, n)

    @classmethod
    def from_arrays(cls, b: ArrayLike, A: ArrayLike, power: float) -> Moments:
        """Return moments from known arrays, for example those of a distribution.

        Gates with equal b_i and equal rows A_i· are treated as the same gate, and A_ij = 0 as uncoupled gates.

        Parameters
        ----------
        b : array, shape (k, d)
        A : array, shape (k·d, k·d), gate by gate, or (k, d, k, d)
        power : float
            ⟨y²⟩.

        Raises
        ------
        InputError
            If shapes do not fit, A is not symmetric or has a negative eigenvalue, b is not in the range of A (the flow
            would diverge), or b is too large for ⟨y²⟩ (the loss would be negative), each beyond rounding.

        Examples
        --------
        >>> from implicit_bias.extensions.gated_flow import Moments
        >>> Moments.from_arrays([[1.0, 0.0]], np.diag([2.0, 1.0]), power=1.0).best_loss
        0.5
        """
        b = checks.as_floats(b, "b", 2)
        k, d = b.shape
        A = checks.as_floats(A, "A", (2, 4))
        if A.shape not in ((k * d, k * d), (k, d, k, d)):
            raise InputError(f"A must have the shape {(k * d, k * d)} or {(k, d, k, d)} for b {b.shape}, not {A.shape}")
        A = A.reshape(k * d, k * d)
        power = float(checks.as_floats([power], "power", 1)[0])
        for sizes, what in ((A, "A"), (b, "b"), (np.array([power]), "power")):
            checks.check_range(np.abs(sizes).max(keepdims=True).ravel(), what, SIZES[0] ** 2, SIZES[1] ** 2)
        if np.abs(A - A.T).max() > ASYMMETRY * np.abs(A).max():
            raise InputError("A is not symmetric; give ⟨g_i g_j x xᵀ⟩, gate by gate")
        rows = np.hstack([((A + A.T) / 2).reshape(k, -1), b])
        inverse, _, distinct = gate_blocks.split_classes(np.zeros(k, dtype=np.int64), rows.T)
        first = np.unique(inverse, return_index=True)[1]
        cells = distinct[:-d].T.reshape(len(first), d, k, d)[:, :, first]
        count, labels = connected_components(csr_array(cells.any(axis=(1, 3))), directed=False)
        groups = [np.flatnonzero(labels == label) for label in range(count)]
        blocks = (Block(g, cells[g][:, :, g].reshape(d * len(g), -1), b[first][g]) for g in groups)
        moments = cls(inverse, tuple(blocks), power, d)
        _check_consistent(moments)
        return moments

    @property
    def k(self) -> int:
        """Number of gates."""
        return len(self.inverse)

    @property
    def multiplicity(self) -> np.ndarray:
        """Multiplicity of each distinct gate, shape (q,)."""
        return np.bincount(self.inverse)

    @property
    def redundant(self) -> int:
        """Number of gates that are copies of other gates."""
        return self.k - len(self.multiplicity)

    @property
    def exclusive(self) -> bool:
        """True if no two distinct gates are coupled, so that the flow of each gate is solved separately."""
        return all(len(block.gates) == 1 for block in self.blocks)

    @property
    def b(self) -> Array:
        """⟨g_i y x⟩, shape (k, d)."""
        distinct = np.empty((len(self.multiplicity), self.d))
        for block in self.blocks:
            distinct[block.gates] = block.b
        return distinct[self.inverse]

    def dense(self) -> Array:
        """Return A of all gates, shape (k·d, k·d), gate by gate; for small problems."""
        checks.check_size((self.k * self.d) ** 2, "A")
        q, d = len(self.multiplicity), self.d
        cells = np.zeros((q, d, q, d))
        for block in self.blocks:
            size = len(block.gates)
            rows, columns = block.gates[:, None], block.gates[None, :]
            cells[rows, :, columns, :] = block.A.reshape(size, d, size, d).transpose(0, 2, 1, 3)
        return cells[self.inverse][:, :, self.inverse].reshape(self.k * d, self.k * d)

    @cached_property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Eigendecomposition of each of the `blocks`, in their order, with the copies of a gate reduced to one."""
        return tuple(gate_blocks.decompose(block, self.multiplicity[block.gates], self.d) for block in self.blocks)

    @property
    def unresolved(self) -> int:
        """Number of directions that are treated as outside the features' span, although rounding may not explain it.

        Their eigenvalue of A is below 1e-12 of the largest: some inputs or gates are 1e6 times smaller than others, or
        features are nearly dependent. Flows are constant along these directions, and the best loss omits them. A does
        not distinguish them from rounding errors. `least_squares` works on the features, and resolves condition numbers
        of 1e9.

        >>> from implicit_bias.extensions.gated_flow import Moments
        >>> Moments.from_arrays([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1e-13]], power=10.0).unresolved
        1
        """
        return sum(s.unresolved for s in self.spectra)

    def loss(self, W: ArrayLike) -> float:
        """Return ⟨(y − ŷ)²⟩ at weights W (k, d); infinity if the loss or a weight overflows, NaN if a weight is NaN."""
        W = checks.as_numbers(W, (self.k, self.d), "weights")
        sums = np.zeros((len(self.multiplicity), self.d))
        total = self.power
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(sums, self.inverse, W)
            for block in self.blocks:
                w = sums[block.gates].ravel()
                total += float(w @ (block.A @ w - 2 * block.b.ravel()))
        return total if np.isfinite(total) else np.nan if np.isnan(W).any() else np.inf

    @property
    def best_loss(self) -> float:
        """⟨y²⟩ − bᵀA⁺b, the loss of the best readout with these gates."""
        gains = (float(np.sum(gate_blocks.solve_diagonal(s.rhs**2, s.values))) for s in self.spectra)
        return max(0.0, self.power - sum(gains))

    @property
    def best_weights(self) -> Array:
        """A⁺b, the best readout of least norm, shape (k, d)."""
        return self.combine([gate_blocks.solve_diagonal(s.rhs, s.values) for s in self.spectra])

    def moved(self, W: Array, scaled: Array) -> Array:
        """Solve dw/ds = b − Aw from weights (k, d); return w at each s = t/Kτ of `scaled` (T,), shape (T, k, d)."""
        pairs = zip(self.spectra, self.coordinates(W), strict=True)
        return W + self.combine([gate_blocks.phi(s.values, scaled) * (s.rhs - s.values * c) for s, c in pairs])

    def coordinates(self, W: Array) -> list[Array]:
        """Return Vᵀu (qd,) of each block for weights W (k, d); u_g = Σ_i w_i/√m_g over the m_g copies i of gate g."""
        sums = np.zeros((len(self.multiplicity), self.d))
        np.add.at(sums, self.inverse, W)
        sums /= np.sqrt(self.multiplicity)[:, None]
        return [s.vectors.T @ sums[block.gates].ravel() for block, s in zip(self.blocks, self.spectra, strict=True)]

    def combine(self, coordinates: list[Array]) -> Array:
        """Return the weights (…, k, d) of coordinates (…, qd) of each block, equal for all copies of a gate."""
        distinct = np.empty((*coordinates[0].shape[:-1], len(self.multiplicity), self.d))
        for block, s, c in zip(self.blocks, self.spectra, coordinates, strict=True):
            distinct[..., block.gates, :] = (c @ s.vectors.T).reshape(*c.shape[:-1], -1, self.d)
        distinct /= np.sqrt(self.multiplicity)[:, None]
        return np.asarray(distinct[..., self.inverse, :])


def _check_consistent(moments: Moments) -> None:
    """Raise InputError for moments that no distribution has: |vᵀb|² ≤ vᵀAv ⟨y²⟩ fails for some v."""
    if moments.power < 0:
        raise InputError(f"power is ⟨y²⟩, which cannot be negative, but is {moments.power:g}")
    gain = 0.0
    for s in moments.spectra:
        scale = float(s.values[-1])
        if s.lowest < -ASYMMETRY * scale:
            raise InputError(f"A has the eigenvalue {s.lowest:.3g}, but second moments have none below 0")
        if s.outside > np.sqrt(ROUNDING * scale * moments.power * len(s.values)):
            raise InputError(
                f"b has a part of size {s.outside:.3g} outside the range of A, along which the flow would diverge; "
                "give b and A of one distribution"
            )
        gain += float(np.sum(gate_blocks.solve_diagonal(s.rhs**2, s.values + ROUNDING * scale)))
    if gain > moments.power * (1 + ASYMMETRY):
        raise InputError(f"bᵀA⁺b = {gain:.6g} exceeds ⟨y²⟩ = {moments.power:.6g}, so that the loss would be negative")


def pixel_moments(process: RingProcess, pixel: int = 0, *, both: bool = True) -> Moments:
    """Return the exact moments of one pixel's gate 1(x_i ≥ 0) and, if `both`, of its complement 1(x_i < 0).

        A_11 = A_22 = ¼(Σ⁽⁰⁾ + Σ⁽¹⁾),   A_12 = 0,   b_2 = −b_1,
        b_1 = Σ_c y_c/(2πZ) · arcsin(C⁽ᶜ⁾_{i·} √(2g²/(1 + 2g²))),   ⟨y²⟩ = ½(y_0² + y_1²)

    Here Σ⁽ᶜ⁾ = Cov(x), C⁽ᶜ⁾ = Cov(z), and y_c is the label of class c = 0, 1; z, Z and g are as for `RingProcess`. For
    a Gaussian process, arcsin(…)/Z is C⁽ᶜ⁾_{i·} √(π/(2C⁽ᶜ⁾_ii)).

    Parameters
    ----------
    process : RingProcess
        Other data are not symmetric and raise InputError.
    pixel : int
        i, from 0 to n − 1.
    both : bool
        True for K = 2 gates, exactly one of which is open; False for K = 1.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import ipr, nonlinear_gaussian_process, pixel_moments
    >>> process = nonlinear_gaussian_process(gain=1.0, labels=(1.0, 0.0))
    >>> found = pixel_moments(process)
    >>> found.exclusive, ipr(found.best_weights).round(3).tolist(), round(found.best_loss, 4)
    (True, [0.2, 0.2], 0.217)
    """
    if not isinstance(process, RingProcess):
        raise InputError(f"moments of pixel gates are exact for a RingProcess, not for {shown(process)}")
    pixel = checks.as_count(pixel, "pixel", least=0)
    if pixel >= process.n:
        raise InputError(f"pixel must be below n = {process.n}, not {pixel}")
    A = (process.covariance(0) + process.covariance(1)) / 4
    b = np.array(process.labels) / 2 @ np.stack([_open_mean(process, which, pixel) for which in (0, 1)])
    power = sum(label**2 for label in process.labels) / 2
    if not both:
        return Moments.from_arrays(b[None], A, power)
    zero = np.zeros_like(A)
    return Moments.from_arrays(np.stack([b, -b]), np.block([[A, zero], [zero, A]]), power)


def _open_mean(process: RingProcess, which: int, pixel: int) -> Array:
    """Return E[1(x_i ≥ 0) x], shape (n,), for i = `pixel` and the class 0 or 1."""
    row: Any = process.latent(which)[pixel]
    if process.gain is None:
        return np.asarray(row / np.sqrt(2 * np.pi * row[pixel]))
    return np.asarray(np.arcsin(np.sqrt(process.saturation) * np.minimum(row, 1.0)) / (np.pi * process.normaliser))
