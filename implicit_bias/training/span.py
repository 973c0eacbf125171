"""Descent of networks with one hidden layer in the span of their samples, for fewer samples than two for each input."""

from __future__ import annotations

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.training.layer import LayerFunction, slopes_of, values_at


class SpanFunction(LayerFunction):
    """Steps on how much of each sample the weights have.

        ∂/∂w_mh Σ_i ⟨s_i, f(x_i)⟩ = Σ_i α_hi g_mh(x_i) x_i,  α = Aᵀ S,   V of that = Σ_m g_m ∘ (g_m ∘ α) K,  K = X Xᵀ

    Weights (W, A), W = Σ_k c_k B_k + Σ_i α_i g(x_i) x_iᵀ, are two rows: [V, A, t] with t_k = ⟨B_k, W⟩, and [α, A, c].
    ⟨(W, A), (W′, A′)⟩ is the product of the first row of one and the second of the other.
    """

    def _prepare(self) -> None:
        rows = self.X.astype(self.precision)
        self.kernel = rows @ rows.T

    def dot(self, a: Array, b: Array) -> float:
        """⟨a, b⟩."""
        return float(a[0] @ b[1])

    def _rebase(self, kept: Array | None, parts: Array, readouts: Array) -> tuple[Array, Array]:
        """Both weights are B."""
        self._take(kept)
        self.parts = parts
        self.own_kernel = self.kernel if kept is None else self.kernel[np.ix_(kept, kept)]
        self.values = np.stack([values_at(self.own_X, self.own_gates, one).ravel() for one in parts])
        products = np.einsum("jmhd,kmhd->jk", parts, parts)
        readouts = readouts.reshape(2, -1)
        first = np.hstack([self.values, readouts, products])
        second = np.hstack([np.zeros_like(self.values), readouts, np.eye(2)])
        self.centre, before = np.ascontiguousarray(np.stack([first, second], 1))
        return self.centre, before

    def _split(self, vector: Array) -> tuple[Array, Array]:
        return self._row(vector[0])

    def _row(self, row: Array) -> tuple[Array, Array]:
        """V or α (H, n), and A (K, H)."""
        size = self.values.shape[1]
        return row[:size].reshape(-1, len(self.own_y)), row[size:-2].reshape(self.free.shape)

    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        alpha, readout = self._row(vector[1])
        pushed = alpha[None] if self.own_gates is None else self.own_gates * alpha
        return np.tensordot(vector[1, -2:], self.parts, 1) + pushed @ self.own_X, readout

    def _cosine(self, vector: Array) -> float:
        size = self.values.shape[1]
        return float(vector[0, size:-2] @ self.centre[1, size:-2] + vector[0, -2])

    def gradient(self, vector: Array, radius: float) -> tuple[float, Array, Array]:
        """log Σ exp(−q) at `radius` times a unit vector, ∇F_R, and q (K, n) for the samples that take part."""
        values, readout = self._split(vector)
        units, value, softmax, margins = self._evaluated(vector, radius)
        slopes = slopes_of(softmax, self.own_y)
        alpha = readout.T @ slopes
        if self.own_gates is None:
            alpha *= values > 0
            pushed = self._spread(alpha)
        else:
            pushed = np.zeros_like(alpha)
            for gate in self.own_gates[self.constant :]:
                pushed += self._gated(alpha, gate)
            if self.constant:
                pushed += (readout.T * self.turn[0, 0] ** 2) @ self._spread(slopes)
        size, rows = alpha.size, np.empty_like(vector)
        rows[0, :size], rows[1, :size] = pushed.ravel(), alpha.ravel()
        rows[:, size:-2] = (self.free * (slopes @ units.T)).ravel()
        rows[0, -2:], rows[1, -2:] = self.values @ rows[1, :size], 0.0
        return value, rows, margins

    def tangent(self, gradient: Array, radial: float, vector: Array) -> Array:
        """The gradient less its part along the vector."""
        return self.mix(1.0, gradient, -radial, vector)

    def direction(self, tangent: Array, radial: float, vector: Array, radius: float) -> Array:
        """Against which a step goes: the tangent itself."""
        return tangent

    def _gated(self, alpha: Array, gate: Array) -> Array:
        """g ∘ (g ∘ α) K."""
        spread = self._spread(gate * alpha)
        spread *= gate
        return spread

    def _spread(self, alpha: Array) -> Array:
        """α K."""
        spread: Array = alpha.astype(self.precision, copy=False) @ self.own_kernel
        return spread.astype(float, copy=False)
