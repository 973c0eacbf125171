"""Moments of a gate and all its shifts on a ring, which a Fourier transform separates by frequency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias.extensions.gated_flow.gate_blocks import ROUNDING, SIZES, phi, solve_diagonal

#: Rounding error of the Fourier transform, relative to n times the largest eigenvalue.
TRANSFORM_ROUNDING = 16 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class OrbitMoments:
    """Moments of the n shifts g_k(x) = g(x_k, x_{k+1}, …, x_{k−1}) of a gate on a shift-invariant process.

    Pixels are counted from the gate's own position: w_k[r] multiplies x_{k+r}. By invariance, the moments of gate 0
    determine the flow with K = n gates:

        b[r] = ⟨g_0 y x_r⟩,   A[m, r, s] = ⟨g_0 g_m x_r x_{m+s}⟩,   Kτ dw_k/dt = b − Σ_l A[l − k] w_l

    The Fourier transform over k gives n separate problems of size n, which takes n⁴ operations instead of n⁶:

        ŵ_f = Σ_k e^{−2πifk/n} w_k,   Kτ dŵ_f/dt = n b 1(f = 0) − Â_f ŵ_f,   Â_f = Σ_m e^{2πifm/n} A[m] Hermitian

    Units that start as shifts of one another, w_k = w_0, remain so, and depend only on f = 0. This is ours; section 5,
    "Some ideas", 1, of the notes on localization suggests one basis for all times.

    Attributes
    ----------
    A : array, shape (n, n, n)
    b : array, shape (n,)
    power : float
        ⟨y²⟩.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import OrbitMoments, nonlinear_gaussian_process
    >>> X, y = nonlinear_gaussian_process(8, (1.0, 0.5), gain=3.0, labels=(1.0, 0.0)).sample(2000)
    >>> found = OrbitMoments.from_samples(lambda X: X[:, 0] > 0, X, y)
    >>> found.A.shape, 0 < found.best_loss < found.power
    ((8, 8, 8), True)
    """

    A: Array = field(repr=False)
    b: Array = field(repr=False)
    power: float

    @classmethod
    def from_samples(cls, gate: Callable[[Array], ArrayLike], X: ArrayLike, y: ArrayLike) -> OrbitMoments:
        """Return the means over samples X (m, n), y (m,) and all of their shifts, for a gate function (m, n) → (m,).

        Raises
        ------
        InputError
            If the gate is not a function or returns another shape, targets are not one per sample, a number is not
            finite, the largest size of samples, targets or gate values is nonzero and outside 1e-60 … 1e60, or n³
            numbers are too many.
        """
        X = checks.as_floats(X, "X", 2)
        m, n = X.shape
        if not callable(gate):
            raise InputError(f"the gate must be a function of samples (m, n), not {shown(gate)}")
        y = checks.as_column(y, m, kind="target")
        checks.check_size(n**3, "the moments")
        rolled = np.stack([np.roll(X, -k, axis=1) for k in range(n)])
        G = np.stack([checks.as_column(gate(part), m, "the gate's values", "number") for part in rolled])
        for sizes, what in ((X, "the samples"), (y, "y"), (G, "the gate's values")):
            checks.check_range(np.array([np.abs(sizes).max()]), what, *SIZES)
        A, b = np.zeros((n, n, n)), np.zeros(n)
        for k in range(n):
            opened = G[k][:, None] * rolled[k]
            b += opened.T @ y / (m * n)
            for step in range(n):
                other = (k + step) % n
                A[step] += opened.T @ (G[other][:, None] * rolled[other]) / (m * n)
        return cls(A, b, float(y @ y / m))

    @property
    def k(self) -> int:
        """Number of gates, n."""
        return len(self.b)

    @property
    def d(self) -> int:
        """Number of inputs, n."""
        return len(self.b)

    @cached_property
    def spectra(self) -> tuple[Array, Array]:
        """Eigenvalues (n, n) of every Â_f, exactly 0 where they are so up to rounding, and eigenvectors (n, n, n).

        The threshold is the larger of two: a fraction of the largest eigenvalue of this frequency, and the error of the
        transform, which is relative to the largest eigenvalue of all frequencies.
        """
        # NumPy's inverse transform has the sign of Â_f and a factor 1/n.
        values, vectors = np.linalg.eigh(np.fft.ifft(self.A, axis=0) * self.k)
        largest = np.maximum(values[:, -1:], 0.0)
        threshold = np.maximum(ROUNDING * largest, TRANSFORM_ROUNDING * self.k * largest.max())
        return np.where(values > threshold, values, 0.0), vectors

    def moved(self, W: Array, scaled: Array) -> Array:
        """Solve dw/ds = b − Aw from weights (n, n); return w at each s = t/Kτ of `scaled` (T,), shape (T, n, n)."""
        values, vectors = self.spectra
        start, rhs = self._coordinates(W)
        steps = phi(values.ravel(), scaled).reshape(-1, *values.shape) * (rhs - values * start)
        return W + np.fft.ifft(np.einsum("frp,tfp->tfr", vectors, steps), axis=1).real

    def loss(self, W: ArrayLike) -> float:
        """Return ⟨(y − ŷ)²⟩ at weights (n, n), whose row k is w_k, counted from gate k's own position."""
        values, _ = self.spectra
        c, rhs = self._coordinates(checks.as_numbers(W, (self.k, self.k), "weights"))
        # By Parseval's theorem, sums over k are means over f.
        return float(self.power + np.sum(values * np.abs(c) ** 2 - 2 * (rhs.conj() * c).real) / self.k)

    @property
    def best_weights(self) -> Array:
        """A⁺b, shape (n, n), the same receptive field for every gate."""
        values, vectors = self.spectra
        best = vectors[0] @ solve_diagonal((vectors[0].conj().T @ self.b).real, values[0])
        return np.asarray(np.tile(best.real, (self.k, 1)))

    @property
    def best_loss(self) -> float:
        """⟨y²⟩ − bᵀA⁺b for b and A of all n gates, the loss of `best_weights`; at least 0."""
        return max(0.0, self.power - float(self.k * self.b @ self.best_weights[0]))

    def _coordinates(self, W: Array) -> tuple[Array, Array]:
        """Return weights and b in the eigenvectors of every Â_f, both (n, n) by f; b is 0 where the eigenvalue is."""
        values, vectors = self.spectra
        transformed = np.fft.fft(W, axis=0)
        forcing = np.zeros_like(transformed)
        forcing[0] = self.k * self.b
        c, rhs = (np.einsum("frp,fr->fp", vectors.conj(), part) for part in (transformed, forcing))
        return c, np.where(values > 0, rhs, 0.0)
