"""A gate and all its shifts on a ring: moments that Fourier's basis takes apart, frequency by frequency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_column,
    as_floats,
    as_numbers,
    check_range,
    check_size,
    shown,
)
from implicit_bias.extensions.gated_flow.gate_blocks import ROUNDING, SIZES, along, phi

#: Rounding of n means and their transform, over n and the largest eigenvalue.
TRANSFORM = 16 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class OrbitMoments:
    """Moments of the n gates g_k(x) = g(x_k, x_{k+1}, …, x_{k−1}), k = 0, …, n − 1, on a process that no shift
    changes.

    Pixels are counted from the gate's own: w_k[r] weighs x_{k+r}. By invariance all is known from gate 0,

        b[r] = ⟨g_0 y x_r⟩,   A[m, r, s] = ⟨g_0 g_m x_r x_{m+s}⟩,   Kτ dw_k/dt = b − Σ_l A[l − k] w_l,   K = n

    and the Fourier transform over k, ŵ_f = Σ_k e^{−2πifk/n} w_k, leaves n problems of n × n, one a frequency f:
    Kτ dŵ_f/dt = n b 1(f = 0) − Â_f ŵ_f with Â_f = Σ_m e^{2πifm/n} A[m] Hermitian. That is n⁴ operations where the n²
    weights would take n⁶. Units that start as shifts of one another, w_k = w_0, remain so: only f = 0 matters to them.

    Attributes
    ----------
    A : array, shape (n, n, n)
    b : array, shape (n,)
    power : float
        ⟨y²⟩.

    References
    ----------
    Ours; the notes on localization ask for one basis across time (section 5, "Some ideas", 1).

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.rings import nonlinear_gaussian_process
    >>> from implicit_bias.extensions.gated_flow.orbits import OrbitMoments
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
        """The means over samples X (m, n), y (m,) and all of their shifts, of a gate (m, n) → (m,).

        Raises
        ------
        InputError
            For samples and gates that are not finite or beyond 1e-60 to 1e60, targets that are not one a sample, and a
            gate that is no function or gives another shape.
        """
        X = as_floats(X, "X", 2)
        m, n = X.shape
        if not callable(gate):
            raise InputError(f"the gate must be a function of samples (m, n), not {shown(gate)}")
        y = as_column(y, m, kind="target")
        check_size(n**3, "the moments")
        rolled = np.stack([np.roll(X, -k, axis=1) for k in range(n)])
        G = np.stack([as_column(gate(part), m, "the gate's values", "number") for part in rolled])
        for sizes, what in ((X, "the samples"), (y, "y"), (G, "the gate's values")):
            check_range(np.array([np.abs(sizes).max()]), what, *SIZES)
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
        """Eigenvalues (n, n) of every Â_f, 0 where they are rounding, and eigenvectors (n, n, n).

        Frequencies are problems of their own, and so is what counts as 0 in them; but the transform rounds each to its
        share of the largest of all.
        """
        # NumPy's inverse transform has the sign of Â, and a factor 1/n.
        values, vectors = np.linalg.eigh(np.fft.ifft(self.A, axis=0) * self.k)
        largest = np.maximum(values[:, -1:], 0.0)
        least = np.maximum(ROUNDING * largest, TRANSFORM * self.k * largest.max())
        return np.where(values > least, values, 0.0), vectors

    def moved(self, W: Array, shares: Array) -> Array:
        """Where the flow dw/ds = b − Aw leads from weights (n, n) at each s = t/Kτ of `shares` (T,): (T, n, n)."""
        values, vectors = self.spectra
        start, pull = self._coordinates(W)
        steps = phi(values.ravel(), shares).reshape(-1, *values.shape) * (pull - values * start)
        return W + np.fft.ifft(np.einsum("frp,tfp->tfr", vectors, steps), axis=1).real

    def loss(self, W: ArrayLike) -> float:
        """⟨(y − ŷ)²⟩ at weights (n, n)."""
        values, _ = self.spectra
        c, pull = self._coordinates(as_numbers(W, (self.k, self.k), "weights"))
        # Parseval: sums over k are means over f.
        return float(self.power + np.sum(values * np.abs(c) ** 2 - 2 * (pull.conj() * c).real) / self.k)

    @property
    def best_weights(self) -> Array:
        """A⁺b, shape (n, n): the same field behind every gate."""
        values, vectors = self.spectra
        field_ = vectors[0] @ along((vectors[0].conj().T @ self.b).real, values[0])
        return np.asarray(np.tile(field_.real, (self.k, 1)))

    @property
    def best_loss(self) -> float:
        """⟨y²⟩ − bᵀA⁺b."""
        return max(0.0, self.power - float(self.k * self.b @ self.best_weights[0]))

    def _coordinates(self, W: Array) -> tuple[Array, Array]:
        """Of weights and of b, in the eigenvectors of every frequency: (n, n) each, 0 where the eigenvalue is."""
        values, vectors = self.spectra
        transformed = np.fft.fft(W, axis=0)
        pulls = np.zeros_like(transformed)
        pulls[0] = self.k * self.b
        c, pull = (np.einsum("frp,fr->fp", vectors.conj(), part) for part in (transformed, pulls))
        return c, np.where(values > 0, pull, 0.0)
